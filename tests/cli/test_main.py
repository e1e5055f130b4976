"""The program: help, exit codes, faults, and what becomes of stdout."""

import os
import subprocess
import sys
import time

import pytest

import optfair
from optfair.cli import datasets
from optfair.cli.arguments import make_parser
from optfair.cli.main import main
from tests.cli.helpers import FIT, UNFAIR, make_train

COMMANDS = ("demo", "audit", "fit", "predict", "frontier", "monitor", "datasets")
# A command that prints as much as an audit and exits with 1, but imports nothing heavy.
STUB = """
import sys, types
stub = types.ModuleType("optfair.cli.datasets")
def run(arguments):
    for _ in range(40):
        print("male × white  0.0160")
    return 1
stub.run = run
sys.modules["optfair.cli.datasets"] = stub
from optfair.cli.main import main
sys.exit(main(["datasets"]))
"""


def test_help_is_quick_and_imports_nothing_heavy(process):
    result = process("-m", "optfair", "--help")
    assert result.returncode == 0 and "exit codes" in result.stdout
    for command in COMMANDS:
        assert command in result.stdout
    seconds = []
    for _ in range(3):  # the least of three: machines are noisy
        start = time.perf_counter()
        process("-m", "optfair", "audit", "--help")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5
    code = "import sys, optfair.cli.arguments, optfair.cli.main; print('numpy' in sys.modules, 'pandas' in sys.modules)"
    assert process("-c", code).stdout.split() == ["False", "False"]


def test_version_and_the_installed_script(process):
    assert process("-m", "optfair", "--version").stdout.strip() == f"optfair {optfair.__version__}"
    script = os.path.join(os.path.dirname(sys.executable), "optfair")
    if os.path.exists(script):
        assert subprocess.check_output([script, "--version"], text=True).strip() == f"optfair {optfair.__version__}"


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
def test_wrong_arguments_exit_with_2(argv, message, run):
    code, _, err = run(*argv)
    assert code == 2 and message in err


def test_every_option_is_explained():
    parsers = make_parser()._subparsers._group_actions[0].choices
    for name, parser in parsers.items():
        for action in parser._actions:
            assert action.help, f"{name} {action.dest}"


@pytest.mark.parametrize(
    ("error", "code", "message"), [(RuntimeError("x"), 3, "internal error"), (KeyboardInterrupt, 130, "interrupted")]
)
def test_faults_and_interruptions_have_their_exit_codes(run, monkeypatch, error, code, message):
    def fail(arguments):
        raise error

    monkeypatch.setattr(datasets, "run", fail)
    result, _, err = run("datasets")
    assert result == code and message in err


def test_main_says_what_it_returns(capsys):
    assert main(["predict", "no-such-model.skops", "no-such-table.csv", "-o", "predictions.csv"]) == 2
    assert "no-such-model.skops: there is no such file" in capsys.readouterr().err


# -- processes: the exit code is the verdict, whatever becomes of the output -------------------------------------
PIPE_STATUS = "; exit ${PIPESTATUS[0]}"


both_buffers = pytest.mark.parametrize("unbuffered", ["", "1"])


@both_buffers
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_the_exit_code_survives_a_reader_that_leaves(process, unbuffered, reader):
    result = process("-c", STUB, shell_suffix=f"| {reader}{PIPE_STATUS}", PYTHONUNBUFFERED=unbuffered)
    assert (result.returncode, result.stderr) == (1, "")


def test_the_verdict_of_an_audit_survives_a_reader_that_leaves(process, unfair):
    result = process("-m", "optfair", "audit", unfair, *UNFAIR, shell_suffix=f"| head -1{PIPE_STATUS}")
    assert (result.returncode, result.stderr) == (1, "") and result.stdout.count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_the_exit_code_survives_a_terminal_without_the_characters(process, encoding):
    result = process("-c", STUB, text=False, PYTHONIOENCODING=encoding)
    assert (result.returncode, result.stderr) == (1, b"") and b"0.0160" in result.stdout


def test_the_verdict_of_an_audit_survives_ascii(process, unfair):
    result = process("-m", "optfair", "audit", unfair, *UNFAIR, "--group", "y", text=False, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (1, b"") and b"FAIL" in result.stdout


@both_buffers
def test_a_full_disk_is_an_error_and_not_a_verdict(process, unbuffered):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    result = process("-c", STUB, shell_suffix="> /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert result.returncode == 2 and "No space left" in result.stderr and "Traceback" not in result.stderr


@both_buffers
def test_notes_that_cannot_be_printed_are_dropped(process, unbuffered, tmp_path):
    """A full disk under stderr costs the notes and the progress, not the model."""
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    pytest.importorskip("skops")
    make_train().to_csv(tmp_path / "people.csv", index=False)
    words = ["-m", "optfair", "fit", tmp_path / "people.csv", *FIT, "-o", tmp_path / "fair.skops"]
    result = process(*words, shell_suffix="2> /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert result.returncode == 0 and "Wrote" in result.stdout
    assert (tmp_path / "fair.skops").exists() and (tmp_path / "fair.skops.key").exists()


def test_an_interruption_while_the_command_is_imported_is_quiet(process):
    """The import of the parser takes most of the first 50 ms."""
    code = """
import os, signal, sys

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name == "optfair.cli.arguments":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interruption())
from optfair.cli.entry import main
sys.exit(main())
"""
    result = process("-c", code)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "optfair: interrupted\n")


def test_an_interrupted_process_exits_with_130(process):
    code = STUB.replace("    return 1", "    import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    result = process("-c", code)
    assert (result.returncode, result.stderr) == (130, "optfair datasets: interrupted\n")


def test_a_closed_stdout_is_no_fault(process):
    result = process("-c", STUB, shell_suffix=">&-")
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize(
    ("setting", "expected"), [({}, "['1', 'PASSIVE']"), ({"OMP_NUM_THREADS": "2"}, "[None, None]")]
)
def test_one_blas_thread_unless_the_user_sets_another_number(setting, expected):
    report = "print([os.environ.get(name) for name in ('OPENBLAS_NUM_THREADS', 'OMP_WAIT_POLICY')])"
    code = STUB.replace("sys.exit(main", "import os; (main") + report
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "OPENBLAS", "MKL"))}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**clean, **setting})
    assert result.stdout.splitlines()[-1] == expected


@pytest.mark.parametrize(
    "command",
    [["fit", "absent.csv", "--label", "y", "--group", "g"], ["predict", "absent.skops", "absent.csv"]],
    ids=lambda command: command[0],
)
def test_a_process_ends_with_one_line(process, tmp_path, command):
    result = process("-m", "optfair", *command, "-o", tmp_path / "absent" / "out.csv")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"the folder {tmp_path / 'absent'} does not exist; create it first" in result.stderr


# -- every command refuses invalid input in one line (valid input: in the tests of the commands) ---------------------
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
def test_every_command_refuses_invalid_input_in_one_line(
    predictions_file, tmp_path, monkeypatch, refuse, argv, message
):
    for extra in ("skops", "matplotlib"):
        pytest.importorskip(extra, reason="some commands ask for it first")
    monkeypatch.chdir(tmp_path)
    assert message in refuse(*(word.format(file=predictions_file) for word in argv))
    assert list(tmp_path.iterdir()) == []
