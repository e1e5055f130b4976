"""Write answers beside the rows of files: those of memory, whole files or none, and only what is missing."""

import os
import threading

import numpy as np
import pandas as pd
import pytest

from optfair import solve
from optfair.errors import OptFairWarning
from optfair.storage import parts, scoring
from optfair.storage.parts import PartError, find_files
from optfair.storage.scoring import MADE_FROM, score_files
from tests.problems import blind
from tests.storage.helpers import NAMES, WatchedThreads, cell_names, pa, pq, row_table, write_files
from tests.utils.stages import recorded

N = 9_000


@pytest.fixture(scope="module")
def Z():
    """Return rows of Z."""
    return blind(11, N, 3, 3)


@pytest.fixture(scope="module")
def rule(Z):
    """Return a rule that is undecided on some of them."""
    return solve(Z, "eo", 0.01, **NAMES, random_state=0, n_jobs=1)


@pytest.fixture
def folder(Z, tmp_path, monkeypatch):
    """Return the rows in three files of three batches each, with a column of people."""
    monkeypatch.setattr(parts, "BATCH_ROWS", 1_024)
    table = row_table(Z).append_column("person", pa.array([f"p{k}" for k in range(N)]))
    return write_files(tmp_path / "rows", table, 3, 700)


def by(rule, calls=None):
    """A function that answers by a rule, and counts its calls."""

    def answer(frame):
        if calls is not None:
            calls.append(len(frame))
        Z = frame[cell_names()].to_numpy().reshape(-1, 3, 3)
        h = rule.predict_proba(Z)
        return pd.DataFrame(
            {"prediction": rule.predict(Z)} | {f"h_{name}": h[:, k] for k, name in enumerate(rule.classes)}
        )

    return answer


def files_of(folder):
    """{path below a folder: bytes} of all its files, hidden ones too."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def times_of(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


# -- what is written ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("client", [None, WatchedThreads(n_jobs=2)], ids=["threads", "client"])
def test_answers_are_those_of_memory(folder, Z, rule, tmp_path, client):
    before = files_of(folder)
    result = score_files(folder, tmp_path / "out", by(rule), "rule 1", client=client)
    assert result.written == [f"part-00{k}.parquet" for k in range(3)] and result.kept == []
    assert result.n_rows == N and result.seconds > 0
    frame = pd.read_parquet(tmp_path / "out")
    np.testing.assert_array_equal(frame["prediction"], rule.predict(Z))
    np.testing.assert_array_equal(frame[["h_low", "h_mid", "h_high"]], rule.predict_proba(Z))
    assert frame["person"].tolist() == [f"p{k}" for k in range(N)]
    np.testing.assert_array_equal(frame[cell_names()], Z.reshape(N, 9))
    assert files_of(folder) == before and sorted(os.listdir(tmp_path / "out")) == result.written


@pytest.mark.parametrize("columns", [None, cell_names()], ids=["all", "some"])
def test_only_the_answers(folder, Z, rule, tmp_path, columns):
    seen = []

    def answer(frame):
        seen.append(list(frame.columns))
        return by(rule)(frame)

    score_files(folder, tmp_path / "out", answer, "rule 1", only=True, columns=columns)
    frame = pd.read_parquet(tmp_path / "out")
    assert list(frame.columns) == ["prediction", "h_low", "h_mid", "h_high"]
    np.testing.assert_array_equal(frame["prediction"], rule.predict(Z))
    assert seen[0] == ([*cell_names(), "person"] if columns is None else columns)


def test_folders_in_folders_keep_their_names(folder, rule, tmp_path):
    (folder / "year=2024" / "deep").mkdir(parents=True)
    (folder / "part-001.parquet").rename(folder / "year=2024" / "deep" / "ü b.parquet")
    (folder / "_SUCCESS").touch()
    result = score_files(str(folder), str(tmp_path / "new" / "out"), by(rule), "rule 1")
    assert sorted(result.written) == ["part-000.parquet", "part-002.parquet", "year=2024/deep/ü b.parquet"]
    assert sorted(files_of(tmp_path / "new" / "out")) == sorted(result.written)


def test_columns_of_any_type_stay_as_they_are(tmp_path, monkeypatch):
    """Types, missing values, the index of pandas, and what the writer said about its columns."""
    monkeypatch.setattr(parts, "BATCH_ROWS", 1_024)
    n = 2_500
    kinds, when = pd.Categorical(["a", "b", None, "a", "b"] * (n // 5)), pd.Timestamp("2024-02-29")
    index = pd.Index(np.arange(n)[::-1], name="number")
    frame = pd.DataFrame({"x": np.arange(n), "kind": kinds, "when": when}, index=index)
    table = pa.Table.from_pandas(frame)
    table = table.append_column("list", pa.array([[1], None, [], [2, None], [3]] * (n // 5)))
    table = table.append_column(
        pa.field("said", pa.string(), metadata={b"unit": b"m"}), pa.array(["x", None] * (n // 2))
    )
    folder = write_files(tmp_path / "rows", table)
    table = pq.read_table(folder / "part-000.parquet")
    score_files(folder, tmp_path / "out", lambda rows: pd.DataFrame({"twice": 2 * rows["x"]}), "mark")
    written = pq.read_table(tmp_path / "out" / "part-000.parquet")
    assert (
        written.drop_columns(["twice"]).equals(table, check_metadata=False)
        and written.field("said").metadata[b"unit"] == b"m"
    )
    pd.testing.assert_frame_equal(written.to_pandas()[list(frame.columns)], frame)
    assert written["twice"].to_pylist() == (2 * frame["x"]).tolist()


def test_batches_are_collected_to_row_groups(folder, Z, rule, tmp_path, monkeypatch):
    """Three batches of a file are one row group, unless they are many bytes or rows."""
    for limit, value, n_groups in (("BATCH_ROWS", 2_000, 2), ("GROUP_BYTES", 1 << 10, 3), (None, 0, 1)):
        with monkeypatch.context() as patch:
            if limit:
                patch.setattr(scoring, limit, value)
            score_files(folder, tmp_path / str(limit), by(rule), "rule 1")
        file = pq.ParquetFile(tmp_path / str(limit) / "part-001.parquet")
        assert file.num_row_groups == n_groups and file.metadata.num_rows == 3_000
        np.testing.assert_array_equal(file.read()["prediction"].to_numpy(), rule.predict(Z[3_000:6_000]))


def test_files_without_rows_are_left_out(folder, rule, tmp_path):
    pq.write_table(pq.read_table(folder / "part-001.parquet").slice(0, 0), folder / "part-001.parquet")
    result = score_files(folder, tmp_path / "out", by(rule), "rule 1")
    assert result.written == ["part-000.parquet", "part-002.parquet"] and result.n_rows == 6_000


def test_rows_are_counted_as_they_are_answered(folder, rule, tmp_path):
    with recorded() as root:
        score_files(folder, tmp_path / "out", by(rule), "rule 1", n_jobs=2)
    (stage,) = root.named("answering")
    assert stage.total == stage.count == N and stage.rate() > 0


def test_memory_does_not_grow_with_the_rows(Z, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "BATCH_ROWS", 4_096)
    table, peaks = row_table(Z), []
    for copies in (16, 64):
        rows = pa.concat_tables([table] * copies)
        folder = write_files(tmp_path / f"rows {copies}", rows, 1, 10**9, use_dictionary=False)
        before, most = pa.total_allocated_bytes(), [0]

        def answer(frame, before=before, most=most):
            most.append(pa.total_allocated_bytes() - before)
            return pd.DataFrame({"answer": frame["z_a_low"] > 0.5})

        score_files(folder, tmp_path / f"out {copies}", answer, "mark", n_jobs=1)
        peaks.append(max(most))
    assert 0 < peaks[1] < 1.3 * peaks[0] + 1e6


# -- resumed -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, ValueError])
def test_an_interruption_leaves_whole_files_only(folder, Z, rule, tmp_path, error):
    answer, calls, out = by(rule), [], tmp_path / "out"

    def interrupted(frame):
        calls.append(len(frame))
        if len(calls) == 5:  # in the middle of the second file
            raise error("the power went")
        return answer(frame)

    with pytest.raises(PartError if error is ValueError else error, match="the power went"):
        score_files(folder, out, interrupted, "rule 1", n_jobs=1)
    assert sorted(files_of(out)) == ["_UNFINISHED", "part-000.parquet"]
    with pytest.warns(UserWarning, match="out: is not finished; answers are missing until"):  # whoever reads them
        assert find_files(out)[0] == [str(out / "part-000.parquet")]
    times, calls = times_of(out), []
    result = score_files(folder, out, by(rule, calls), "rule 1", n_jobs=1)
    assert find_files(out)[0] == [str(path) for path in sorted(out.iterdir())] and result.replaced == []
    assert result.kept == ["part-000.parquet"] and result.written == ["part-001.parquet", "part-002.parquet"]
    assert sum(calls) == result.n_rows == 6_000
    assert times["part-000.parquet"] == times_of(out)["part-000.parquet"]
    np.testing.assert_array_equal(pd.read_parquet(out)["prediction"], rule.predict(Z))


def test_what_is_there_already_is_left_alone(folder, rule, tmp_path):
    out, calls = tmp_path / "out", []
    score_files(folder, out, by(rule), "rule 1")
    times = times_of(out)
    result = score_files(folder, out, by(rule, calls), "rule 1")
    assert result.written == calls == [] and len(result.kept) == 3 and result.n_rows == 0 and times_of(out) == times


def test_another_model_or_another_form_makes_all_anew(folder, rule, tmp_path):
    out = tmp_path / "out"
    score_files(folder, out, by(rule), "rule 1")
    assert len(score_files(folder, out, by(rule), "rule 2").replaced) == 3
    assert len(score_files(folder, out, by(rule), "rule 2", only=True).written) == 3
    assert list(pd.read_parquet(out).columns) == ["prediction", "h_low", "h_mid", "h_high"]
    assert score_files(folder, out, by(rule), "rule 2", only=True).written == []


def test_a_changed_input_is_answered_again(folder, Z, rule, tmp_path):
    out = tmp_path / "out"
    score_files(folder, out, by(rule), "rule 1")
    pq.write_table(pq.read_table(folder / "part-001.parquet").slice(0, 100), folder / "part-001.parquet")
    result = score_files(folder, out, by(rule), "rule 1")
    assert result.written == ["part-001.parquet"] and result.n_rows == 100
    np.testing.assert_array_equal(pd.read_parquet(out / "part-001.parquet")["prediction"], rule.predict(Z[3_000:3_100]))
    os.utime(folder / "part-002.parquet", ns=(0, 0))
    assert score_files(folder, out, by(rule), "rule 1").written == ["part-002.parquet"]


def test_an_input_that_changes_meanwhile_is_refused(folder, rule, tmp_path):
    answer, first = by(rule), threading.Event()

    def changing(frame):
        if not first.is_set():
            first.set()
            (folder / "part-002.parquet").unlink()
        return answer(frame)

    with pytest.raises(PartError, match=r"part-002\.parquet: is not there any more"):
        score_files(folder, tmp_path / "out", changing, "rule 1", n_jobs=1)
    assert sorted(files_of(tmp_path / "out")) == ["_UNFINISHED", "part-000.parquet", "part-001.parquet"]


def test_outputs_of_inputs_that_are_gone_are_named(folder, rule, tmp_path):
    out = tmp_path / "out"
    assert score_files(folder, out, by(rule), "rule 1").stale == []
    (folder / "part-001.parquet").unlink()
    pq.write_table(pq.read_table(folder / "part-002.parquet").slice(0, 0), folder / "part-002.parquet")
    pq.write_table(pa.table({"x": [1]}), out / "notes.parquet")
    before = files_of(out)
    with pytest.warns(
        OptFairWarning, match=r"out: 2 files are of inputs that are gone or empty, first 'part-001\.parq"
    ):
        result = score_files(folder, out, by(rule), "rule 2")
    assert result.stale == ["part-001.parquet", "part-002.parquet"] and result.written == ["part-000.parquet"]
    (out / "part-002.parquet").unlink()
    with pytest.warns(
        OptFairWarning, match=r"out: 1 file is of inputs that are gone or empty, .*; remove them, or they"
    ):
        assert score_files(folder, out, by(rule), "rule 2").written == []
    assert files_of(out).keys() == before.keys() - {"part-002.parquet"}
    (out / "part-001.parquet").unlink()
    assert score_files(folder, out, by(rule), "rule 2").stale == []


# -- what is refused ---------------------------------------------------------------------------------------------
def test_files_of_others_are_not_replaced(folder, rule, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for content in (b"notes", (folder / "part-000.parquet").read_bytes()):
        (out / "part-001.parquet").write_bytes(content)
        with pytest.raises(
            ValueError, match=r"part-001\.parquet: is there, but does not hold such answers; remove it, or"
        ):
            score_files(folder, out, by(rule), "rule 1")
        assert files_of(out) == {"part-001.parquet": content}


@pytest.mark.parametrize(
    "place, message",
    [
        (".", r"must be a folder outside of .*rows, or one that is not there yet\."),
        ("../rows/../rows", r"must be a folder outside of"),
        ("answers", r"must be a folder outside of"),  # whose files would be rows the next time
        ("part-000.parquet", r"must be a folder outside of"),
        ("../file", r"file: must be a folder outside of"),
    ],
)
def test_answers_go_to_another_folder(folder, rule, tmp_path, place, message):
    (tmp_path / "file").write_text("no folder")
    before = files_of(tmp_path)
    with pytest.raises(ValueError, match=message):
        score_files(folder, folder / place, by(rule), "rule 1")
    assert files_of(tmp_path) == before


def test_a_link_to_the_folder_is_the_folder(folder, rule, tmp_path):
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    with pytest.raises(ValueError, match="must be a folder outside of"):
        score_files(folder, tmp_path / "link", by(rule), "rule 1")


def test_a_link_in_the_other_folder_does_not_lead_back(folder, rule, tmp_path):
    (folder / "deep").mkdir()
    (folder / "part-001.parquet").rename(folder / "deep" / "b.parquet")
    elsewhere = tmp_path / "elsewhere"
    (folder / "part-002.parquet").rename(elsewhere.mkdir() or elsewhere / "c.parquet")
    (folder / "linked").symlink_to(elsewhere, target_is_directory=True)
    before = files_of(folder)
    for name, place in (("deep", folder / "deep"), ("linked", elsewhere)):
        out = tmp_path / f"out of {name}"
        out.mkdir()
        (out / name).symlink_to(place, target_is_directory=True)
        with pytest.raises(
            ValueError, match=rf"{name}/.\.parquet: is a link into .*rows, whose files would be replaced"
        ):
            score_files(folder, out, by(rule), "rule 1", only=True)
    assert files_of(folder) == before and list(files_of(elsewhere)) == ["c.parquet"]
    assert len(score_files(folder, tmp_path / "out", by(rule), "rule 1").written) == 3


def test_a_file_that_cannot_be_written_is_named(folder, rule, tmp_path):
    """A limit on the size of files stands for a full disk: both fail in the middle of a write."""
    resource = pytest.importorskip("resource", reason="needs limits of a Unix system")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = tmp_path / "out"
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(
            PartError, match=r"out/part-000\.parquet: cannot be written \(.*File too large.*\)\.$"
        ) as error:
            score_files(folder, out, by(rule), "rule 1", n_jobs=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(error.value) and files_of(out) == {}
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "deep").write_text("a file where a folder goes")
    (folder / "deep").mkdir()
    (folder / "part-000.parquet").rename(folder / "deep" / "a.parquet")
    with pytest.raises(PartError, match=r"new/deep/a\.parquet: cannot be written \(File exists\)\."):
        score_files(folder, tmp_path / "new", by(rule), "rule 1")


def test_answers_of_several_types_are_refused(folder, tmp_path):
    def answer(frame):
        return pd.DataFrame({"answer": pd.Series([True, 2] * len(frame), dtype=object)[: len(frame)]})

    with pytest.raises(PartError, match=r"part-000\.parquet: .*Expected integer, got bool|tried to convert to bool"):
        score_files(folder, tmp_path / "out", answer, "mixed", n_jobs=1)
    assert files_of(tmp_path / "out") == {}


def test_columns_that_are_there_already(folder, rule, tmp_path):
    path = folder / "part-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("prediction", table["person"]), path)
    with pytest.raises(
        PartError, match=r"part-000\.parquet: already has a column 'prediction'; rename it, or write only"
    ):
        score_files(folder, tmp_path / "out", by(rule), "rule 1", n_jobs=1)
    assert files_of(tmp_path / "out") == {}
    assert len(score_files(folder, tmp_path / "out", by(rule), "rule 1", only=True).written) == 3


def test_columns_that_are_not_there(folder, rule, tmp_path):
    pq.write_table(pq.read_table(folder / "part-001.parquet").drop_columns(["person"]), folder / "part-001.parquet")
    with pytest.raises(PartError, match=r"part-001\.parquet: has no column 'person'\."):
        score_files(folder, tmp_path / "out", by(rule), "rule 1", columns=["person"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "source, message",
    [
        (lambda folder: folder / "part-000.parquet", r"must be a folder of this machine\."),
        (lambda folder: [folder], r"must be a folder of this machine\."),
        (lambda folder: folder.as_uri(), r"must be a folder of this machine\."),
        (lambda folder: folder / "absent", r"absent: there is no such file or folder\."),
    ],
    ids=["a file", "a list", "an address", "nothing"],
)
def test_only_folders_have_answers(folder, rule, tmp_path, source, message):
    with pytest.raises(ValueError, match=message):
        score_files(source(folder), tmp_path / "out", by(rule), "rule 1")


def test_files_that_cannot_be_read_are_named_before_anything_is_written(folder, rule, tmp_path):
    (folder / "part-002.parquet").write_bytes(b"")
    with pytest.raises(PartError, match=r"part-002\.parquet: cannot be read as Parquet"):
        score_files(folder, tmp_path / "out", by(rule), "rule 1")
    assert not (tmp_path / "out").exists()


def test_a_damaged_row_group_ends_it_there(folder, rule, tmp_path):
    path = folder / "part-001.parquet"
    start = pq.ParquetFile(path).metadata.row_group(3).column(8).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(PartError, match=r"part-001\.parquet, row groups 0 to 4: cannot be read"):
        score_files(folder, tmp_path / "out", by(rule), "rule 1", n_jobs=1)
    assert sorted(files_of(tmp_path / "out")) == ["_UNFINISHED", "part-000.parquet"]


def test_an_answer_may_be_answered_for_again(folder, rule, tmp_path):
    """The mark of the first answers is not taken for that of the second."""
    score_files(folder, tmp_path / "out", by(rule), "rule 1")
    again = {"columns": cell_names()}
    result = score_files(
        tmp_path / "out", tmp_path / "more", lambda rows: pd.DataFrame({"n": np.ones(len(rows))}), "n", **again
    )
    assert len(result.written) == 3 and "prediction" in pd.read_parquet(tmp_path / "more")
    marks = [pq.read_schema(tmp_path / name / "part-000.parquet").metadata[MADE_FROM] for name in ("out", "more")]
    assert marks[0].startswith(b"rule 1 ") and marks[1].startswith(b"n ")
