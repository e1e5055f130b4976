"""The command line as a process: good input, bad input, exit codes, and never half a file."""

import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from optfair import metrics
from optfair.cli.arguments import make_parser
from optfair.cli.main import main
from optfair.cli.tables import InputError, columns_of, pick, read_table, write_table

CLASSES = ["high", "low", "mid"]


def optfair(*argv, **options):
    """Run the command as a user does; (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-m", "optfair", *map(str, argv)], capture_output=True, text=True, timeout=300, **options
    )
    return done.returncode, done.stdout, done.stderr


def people(n=3000, bias=0.3, seed=0):
    """Answers in which group B gets "high" more often than others."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "race": rng.choice(["A", "B", "C"], n, p=[0.55, 0.35, 0.1]),
            "sex": rng.choice(["F", "M"], n),
            "truth": rng.choice(CLASSES, n),
        }
    )
    guessed = np.where(rng.random(n) < 0.6, table["truth"], rng.choice(CLASSES, n))
    table["answer"] = np.where((rng.random(n) < bias) & (table["race"] == "B"), "high", guessed)
    scores = rng.dirichlet([1.0, 1.0, 1.0], n)
    return table.assign(**{f"p_{name}": scores[:, k] for k, name in enumerate(CLASSES)}, w=rng.integers(1, 4, n))


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "people.csv"
    table.to_csv(path, index=False)
    return path


AUDIT = ["--label", "truth", "--group", "race"]


def run(*argv):
    return main([str(word) for word in argv])


# -- the program ----------------------------------------------------------------------------------------------
def test_help_answers_at_once_and_imports_nothing_heavy():
    code, out, _ = optfair("--help")
    assert code == 0
    for command in ("demo", "audit", "fit", "predict", "frontier", "datasets", "bench"):
        assert command in out
    assert "exit codes" in out
    seconds = []
    for _ in range(3):  # the least of three: machines are noisy
        clock = time.perf_counter()
        optfair("audit", "--help")
        seconds.append(time.perf_counter() - clock)
    assert min(seconds) < 0.5
    loaded = (
        "import sys, optfair.cli.arguments, optfair.cli.main; print('numpy' in sys.modules, 'pandas' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).split() == ["False", "False"]


def test_version_and_the_installed_script():
    import optfair as package

    assert optfair("--version")[1].strip() == f"optfair {package.__version__}"
    script = os.path.join(os.path.dirname(sys.executable), "optfair")
    if os.path.exists(script):
        assert subprocess.check_output([script, "--version"], text=True).strip() == f"optfair {package.__version__}"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice"),
        (["audit"], "required"),
        (["audit", "x.csv", "--label", "y", "--group", "g"], "one of the arguments --prediction --scores"),
        (
            ["audit", "x.csv", "--label", "y", "--group", "g", "--prediction", "p", "--tolerance", "much"],
            "invalid float",
        ),
    ],
)
def test_wrong_arguments_end_with_2(argv, message, capsys):
    assert main(argv) == 2
    assert message in capsys.readouterr().err


def test_every_option_is_explained():
    commands = make_parser()._subparsers._group_actions[0].choices
    for name, parser in commands.items():
        for action in parser._actions:
            assert action.help, f"{name} {action.dest}"


def test_a_fault_is_told_apart_from_an_answer(monkeypatch, capsys):
    from optfair.cli import datasets

    def broken(arguments):
        raise RuntimeError("the moon")

    monkeypatch.setattr(datasets, "run", broken)
    assert main(["datasets"]) == 3
    assert "fault of optfair" in capsys.readouterr().err

    def stopped(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "run", stopped)
    assert main(["datasets"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(file):
    command = f"{sys.executable} -m optfair datasets | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


# -- audit ----------------------------------------------------------------------------------------------------
def test_audit_tells_what_the_metrics_tell(file, table, tmp_path):
    out_file = tmp_path / "gaps.csv"
    code, out, err = optfair("audit", file, *AUDIT, "--prediction", "answer", "--tolerance", 0.02, "-o", out_file)
    assert (code, err) == (1, "")
    found = metrics.violation_interval(table["truth"], table["answer"], sensitive_features=table["race"])
    for number in (found.value, found.lower, found.upper, found.noise_floor):
        assert f"{number:.4f}" in out
    assert "beyond, surely" in out and "3,000 people" in out
    written = pd.read_csv(out_file)
    np.testing.assert_allclose(written["gap"], found.table["value"])
    np.testing.assert_allclose(written["abs_gap_from"], found.table["lower"])
    assert out.rstrip().endswith("FAIL: some gap is surely beyond 0.02 (exit 1)")


def test_audit_of_a_fair_rule_ends_with_0(tmp_path):
    path = tmp_path / "fair.csv"
    people(bias=0.0, seed=1).to_csv(path, index=False)
    code, out, _ = optfair("audit", path, *AUDIT, "--prediction", "answer", "--tolerance", 0.05)
    assert code == 0 and "surely" not in out.split("Gaps")[0].replace("within, surely", "")


def test_several_criteria_groups_and_references(file, table, capsys):
    wishes = ["--criterion", "dp", "--criterion", "equalized_odds"]
    more = ["--group", "sex", "--reference", "pairwise", *wishes, "--tolerance", 0.2]
    code = run("audit", file, *AUDIT, *more, "--prediction", "answer")
    out = capsys.readouterr().out
    assert "6 groups (race × sex)" in out and "against every other group" in out
    both = metrics.violation_interval(
        table["truth"],
        table["answer"],
        sensitive_features=table[["race", "sex"]],
        criterion=["dp", "eo"],
        reference="pairwise",
    )
    assert code == int(both.lower > 0.2)
    assert f"{both.upper:.4f}" in out
    same = run("audit", file, "--label", "truth", "--group", "race,sex", *more[2:], "--prediction", "answer")
    assert same == code and capsys.readouterr().out == out


def test_scores_are_decided_by_the_largest_or_drawn(file, table, capsys):
    columns = [f"p_{name}" for name in CLASSES]
    answers = np.array(CLASSES)[table[columns].to_numpy().argmax(axis=1)]
    run("audit", file, *AUDIT, "--scores", ",".join(columns))
    largest = capsys.readouterr().out
    assert f"{metrics.violation(table['truth'], answers, sensitive_features=table['race']):.4f}" in largest
    run("audit", file, *AUDIT, "--scores", ",".join(columns), "--decision", "sampled")
    drawn = metrics.violation(table["truth"], table[columns].to_numpy(), sensitive_features=table["race"])
    assert f"{drawn:.4f}" in capsys.readouterr().out
    said = [word for name in reversed(CLASSES) for word in ("--scores", f"{name}=p_{name}")]
    run("audit", file, *AUDIT, *said)
    assert capsys.readouterr().out == largest


def test_numbers_as_classes_and_scores_of_a_class_nobody_has(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.dirichlet(np.ones(4), 600), columns=[f"class{k}" for k in range(4)])
    table = table.assign(y=rng.integers(0, 3, 600), g=rng.choice(["a", "b"], 600))
    path = tmp_path / "numbers.csv"
    table.to_csv(path, index=False)
    given = ",".join(f"class{k}" for k in range(4))
    assert run("audit", path, "--label", "y", "--group", "g", "--scores", given, "--tolerance", 0.3) == 0
    assert "4 classes" in capsys.readouterr().out
    assert (
        run("audit", path, "--label", "y", "--group", "g", "--scores", given, "--outcome", "2", "--tolerance", 0.3) == 0
    )
    assert "gaps" in capsys.readouterr().out


def test_weights_and_missing_groups(file, table, tmp_path, capsys):
    run("audit", file, *AUDIT, "--prediction", "answer", "--weight", "w")
    weighted = metrics.violation(
        table["truth"], table["answer"], sensitive_features=table["race"], sample_weight=table["w"]
    )
    assert f"{weighted:.4f}" in capsys.readouterr().out
    path = tmp_path / "holes.csv"
    table.assign(race=table["race"].where(table["race"] != "C")).to_csv(path, index=False)
    assert run("audit", path, *AUDIT, "--prediction", "answer") == 2
    assert "missing" in capsys.readouterr().err
    run("audit", path, *AUDIT, "--prediction", "answer", "--missing", "group")
    assert "(missing)" in capsys.readouterr().out


def test_parquet_and_compressed_tables_are_read_alike(file, table, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    run("audit", file, *AUDIT, "--prediction", "answer")
    expected = capsys.readouterr().out.split("\n", 1)[1]
    for name in ("people.parquet", "people.csv.gz", "people.tsv", "people.csv.xz"):
        path = tmp_path / name
        write_table(table, str(path))
        run("audit", path, *AUDIT, "--prediction", "answer")
        assert capsys.readouterr().out.split("\n", 1)[1] == expected, name


def test_an_audit_at_the_tolerance_seldom_says_no(tmp_path, capsys):
    """500 audits of a rule whose gaps are all exactly the tolerance: at most 7 % may exit 1 (5 % are allowed to)."""
    tolerance, sizes = 0.05, [0.3, 0.3, 0.2, 0.2]
    # Half of the people 0.05 above the overall rates, half below: every gap of every group is ±0.05.
    signs = np.array([1, -1, 1, -1])
    rates = np.array([[0.4 + tolerance * s, 0.35, 0.25 - tolerance * s] for s in signs])
    assert np.abs(rates - np.array(sizes) @ rates).max() == pytest.approx(tolerance)
    rng = np.random.default_rng(2026)
    path = tmp_path / "sample.csv"
    codes = []
    for _ in range(500):
        group = rng.choice(4, 800, p=sizes)
        answer = (rng.random((800, 1)) > rates[group].cumsum(axis=1)).sum(axis=1)
        truth = rng.integers(0, 3, 800)
        pd.DataFrame({"group": group, "truth": truth, "answer": answer}).to_csv(path, index=False)
        codes.append(run("audit", path, "--label", "truth", "--group", "group", "--prediction", "answer",
                         "--tolerance", tolerance))  # fmt: skip
        capsys.readouterr()
    assert set(codes) <= {0, 1}
    assert np.mean(codes) <= 0.07
    # The same audit does say no where there is something to say: the same people, a tolerance of nothing.
    assert run("audit", path, "--label", "truth", "--group", "group", "--prediction", "answer", "--tolerance", 0) == 1


def test_an_undecided_audit_fails_only_when_asked_to(tmp_path, capsys):
    path = tmp_path / "few.csv"
    people(n=120, bias=0.0, seed=1).to_csv(path, index=False)
    asked = ["audit", path, *AUDIT, "--prediction", "answer", "--tolerance", 0.05]
    assert run(*asked) == 0
    assert "UNDECIDED: no gap is surely beyond 0.05" in capsys.readouterr().out
    assert run(*asked, "--strict") == 1
    assert "UNDECIDED" in capsys.readouterr().out
    assert run("audit", path, *AUDIT, "--prediction", "answer", "--tolerance", 1, "--strict") == 0
    assert "PASS: every gap is surely within 1" in capsys.readouterr().out


def test_answers_that_nobody_has_as_label_are_noted(file, table, tmp_path, capsys):
    path = tmp_path / "people.csv"
    table.assign(answer=table["answer"].replace("mid", "none")).to_csv(path, index=False)
    run("audit", path, *AUDIT, "--prediction", "answer")
    assert "note: --prediction answer: nobody's label is none" in capsys.readouterr().err


# -- bad tables -----------------------------------------------------------------------------------------------
def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", "the file is empty"),
        ("header.csv", "race,truth,answer\n", "has a header but no rows"),
        ("broken.csv", 'race,truth,answer\nA,high,low\n"A,high\n', "cannot be read as CSV"),
        ("long.csv", "race,truth,answer\nA,high,low\nA,high,low,high,low\n", "cannot be read as CSV"),
        ("trailing.csv", "race,truth,answer\nA,high,low,\nB,high,low,\n", "more fields than the header"),
        ("one.csv", "race,truth,answer\nA,high,low\nA,low,low\n", "there is one group; nothing to compare"),
        ("twice.csv", "race,truth,truth,answer\nA,high,low,low\n", "column 'truth' is there 2 times"),
        ("latin.csv", "race,truth,answer\nÁ,high,low\n".encode("latin-1"), "is not utf-8"),
        ("binary.csv", bytes(range(128, 256)) * 20, "is not utf-8"),
        ("people.txt", "race,truth,answer\nA,high,low\n", "its name must end in"),
        ("people.csv.gz", "race,truth,answer\nA,high,low\n", "cannot be read as CSV"),
        ("other.csv", "race,truth\nA,high\n", "--prediction answer: there is no such column"),
        ("holes.csv", "race,truth,answer\nA,high,low\nB,,low\n", "column 'truth' is empty in 1 of 2 rows"),
        (
            "types.csv",
            "race,truth,answer\nA,1,low\nB,2,high\n",
            "have no class in common (labels such as '1', answers such as 'low')",
        ),
        ("swapped.csv", "race,truth,answer\nA,high,A\nB,low,B\n", "are these the right columns?"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path, capsys, name, content, message):
    path = write(tmp_path / name, content)
    out = tmp_path / "gaps.csv"
    assert run("audit", path, *AUDIT, "--prediction", "answer", "-o", out) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.startswith("optfair audit: ") and printed.err.count("\n") == 1
    assert printed.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_latin_1_and_semicolons_can_be_said(tmp_path, capsys):
    rows = "\n".join(f"{'Á' if k % 3 else 'B'};high;{'low' if k % 2 else 'high'}" for k in range(60))
    path = write(tmp_path / "latin.csv", f"race;truth;answer\n{rows}\n".encode("latin-1"))
    said = ["--encoding", "latin-1", "--separator", ";", "--tolerance", 0.5]
    assert run("audit", path, *AUDIT, "--prediction", "answer", *said) == 0
    assert "Á" in capsys.readouterr().out
    assert run("audit", path, *AUDIT, "--prediction", "answer", "--encoding", "latin-1") == 2
    assert "Is it separated by ';'? Say --separator ';'." in capsys.readouterr().err


def test_paths_are_looked_at_before_anything_heavy_is_imported(tmp_path):
    look = (
        "import sys; from optfair.cli.main import main; "
        "print(main(['fit', 'absent.csv', '--label', 'y', '--group', 'g', '-o', 'm.skops']), 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["2", "False"] and "absent.csv: there is no such file" in done.stderr


def test_threads_are_calm_unless_the_user_says_otherwise(tmp_path):
    look = (
        "import os; from optfair.cli.main import main; main(['datasets', 'none']); "
        "print([os.environ.get(name) for name in ('OPENBLAS_NUM_THREADS', 'OMP_WAIT_POLICY')])"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "OPENBLAS", "MKL"))}
    for said, expected in (({}, "['1', 'PASSIVE']"), ({"OMP_NUM_THREADS": "2"}, "[None, None]")):
        done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, env={**clean, **said})
        assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--tolerance", "-0.1"], "tolerance"),
        (["--criterion", "kindness"], "kindness"),
        (["--outcome", "best"], "--outcome best: there is no such class; there are high, low, mid"),
        (["--group", "colour"], "--group colour: there is no such column"),
        (["--level", "2"], "level"),
        (["--weight", "race"], "--weight race: holds texts"),
        (["--group", "p_low"], "groups among 3000 rows; cut a number into a few bands"),
        (["--decimal", ",,"], "must be one character"),
        (["--encoding", "klingon"], "unknown encoding"),
        (["-o", "nowhere/gaps.csv"], "there is no folder nowhere"),
        (["-o", "gaps.docx"], "its name must end in"),
    ],
)
def test_bad_questions_are_refused_in_one_line(file, tmp_path, monkeypatch, capsys, change, message):
    monkeypatch.chdir(tmp_path)
    assert run("audit", file, *AUDIT, "--prediction", "answer", *change) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("p_high,p_low", "no column for class 'mid'"),
        ("p_high", "at least two"),
        ("p_high,p_low,race", "no column for class"),
        ("high=p_high,low=p_low,mid=race", "holds texts"),
        ("high=p_high,p_low,p_mid", "for every column or for none"),
        ("high=p_high,low=p_low,mid=nothing", "there is no such column"),
    ],
)
def test_bad_scores_are_refused(file, capsys, scores, message):
    assert run("audit", file, *AUDIT, "--scores", scores) == 2
    assert message in capsys.readouterr().err


def test_scores_that_are_no_probabilities(tmp_path, table, capsys):
    path = tmp_path / "people.csv"
    table.assign(p_high=table["p_high"] + 1).to_csv(path, index=False)
    given = ["--scores", "p_high,p_low,p_mid"]
    assert run("audit", path, *AUDIT, *given, "--decision", "sampled") == 2
    assert "not probabilities" in capsys.readouterr().err
    table.assign(p_high=np.inf).to_csv(path, index=False)
    assert run("audit", path, *AUDIT, *given) == 2
    assert "infinite" in capsys.readouterr().err


def test_files_that_are_not_there_or_not_files(tmp_path, file, capsys):
    assert run("audit", tmp_path / "no.csv", *AUDIT, "--prediction", "answer") == 2
    assert "there is no such file" in capsys.readouterr().err
    (tmp_path / "folder.csv").mkdir()
    assert run("audit", tmp_path / "folder.csv", *AUDIT, "--prediction", "answer") == 2
    assert "is a folder" in capsys.readouterr().err
    assert run("audit", file, *AUDIT, "--prediction", "answer", "-o", tmp_path / "folder.csv") == 2
    assert "is a folder" in capsys.readouterr().err
    assert run("audit", file, *AUDIT, "--prediction", "answer", "-o", file) == 2
    assert "is the file that is read" in capsys.readouterr().err


def test_broken_parquet(tmp_path, table, capsys):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / "people.parquet"
    table.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-500])
    assert run("audit", path, *AUDIT, "--prediction", "answer") == 2
    printed = capsys.readouterr().err
    assert "cannot be read as Parquet" in printed and printed.count("\n") == 1


def test_tables_too_large_for_the_machine_are_refused_before_they_are_read(tmp_path, capsys):
    path = tmp_path / "huge.csv"
    with open(path, "wb") as file:  # sparse: takes no room on the disk
        file.write(b"race,truth,answer\n")
        file.truncate(1 << 42)
    assert run("audit", path, *AUDIT, "--prediction", "answer") == 2
    printed = capsys.readouterr().err
    assert "of memory" in printed and "are free" in printed


# -- tables ---------------------------------------------------------------------------------------------------
def test_columns_with_commas_and_options_with_several_columns():
    columns = ["a", "b", "last, first"]
    assert pick(["a,b"], columns, "--group") == ["a", "b"]
    assert pick(["last, first", "a"], columns, "--group") == ["last, first", "a"]
    assert pick(["a", "a"], columns, "--group") == ["a"]
    with pytest.raises(InputError, match="--group c: there is no such column; the table has a, b, last, first"):
        pick(["c"], columns, "--group")


def test_texts_are_kept_as_written(tmp_path):
    path = write(tmp_path / "codes.csv", "code,n\n007,1\n010,2\n")
    assert read_table(str(path))["code"].tolist() == [7, 10]
    assert read_table(str(path), texts=["code"])["code"].tolist() == ["007", "010"]
    assert columns_of(str(path)) == ["code", "n"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    write_table(pd.DataFrame({"a": [1]}), str(path))
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        write_table(pd.DataFrame({"a": [2]}), str(path))
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["out.csv"]


# -- datasets -------------------------------------------------------------------------------------------------
def test_datasets_are_listed_and_described(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("OPTFAIR_DATA", None)
    code, out, err = optfair("datasets", env=environment)
    assert (code, err) == (0, "")
    for name in ("adult-occupation", "enem", "celeba", "in the package", "to download", "$OPTFAIR_DATA: not set"):
        assert name in out
    code, out, _ = optfair("datasets", "enem", env=environment)
    assert code == 0 and str(tmp_path / "optfair" / "enem") in out and "https://download.inep.gov.br" in out


def test_a_data_set_as_a_table(tmp_path, capsys):
    path = tmp_path / "work.csv"
    assert run("datasets", "adult-occupation", "-o", path) == 0
    assert "label 'occupation', groups 'sex', 'race'" in capsys.readouterr().out
    table = pd.read_csv(path)
    assert len(table) == 46_033 and {"occupation", "sex", "race", "age"} <= set(table.columns)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["datasets", "iris"], "there is no such data set; there are adult"),
        (["datasets", "--download"], "NAME: missing"),
        (["datasets", "enem-2019", "-o", "enem.csv"], "set OPTFAIR_DATA"),
    ],
)
def test_data_sets_that_cannot_be_had(tmp_path, monkeypatch, capsys, argv, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPTFAIR_DATA", raising=False)
    assert run(*argv) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# -- every command as a process, with bad input (with good input: above, and in the tests of fit and demo) ----------
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["audit", "{file}", "--label", "truth", "--group", "race", "--prediction", "guess"], "--prediction guess"),
        (["fit", "{file}", "--label", "nothing", "--group", "race", "-o", "m.skops"], "--label nothing"),
        (["predict", "{file}", "{file}", "-o", "out.csv"], "Are MODEL and FILE swapped?"),
        (["frontier", "{file}", "--label", "truth", "--group", "race", "--points", "1", "-o", "o.csv"], "--points 1"),
        (["datasets", "iris"], "iris: there is no such data set"),
        (["demo", "--people", "3"], "--people 3: must be at least 2000"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_every_command_refuses_bad_input_in_one_line(file, tmp_path, argv, message):
    for extra in ("skops", "matplotlib"):
        pytest.importorskip(extra, reason="some commands ask for it first")
    code, out, err = optfair(*(word.format(file=file) for word in argv), cwd=tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err and err.startswith(f"optfair {argv[0]}: ")
    assert list(tmp_path.iterdir()) == []
