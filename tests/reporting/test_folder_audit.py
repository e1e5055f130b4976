"""Audit files: every number is that of an audit of the same people in one table, however they are spread over files."""

import datetime

import numpy as np
import pandas as pd
import pytest

from optfair import MinimumRate, Ratio, audit, audit_files
from optfair.errors import OptFairWarning
from optfair.storage.parts import PartError

pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")

N = 6_000
CUTS = {"one file": (1, 10**6), "row groups": (1, 611), "files": (9, 10**6), "both": (4, 177)}


def people(n=N, seed=0):
    """A table of people with groups, some of them missing, true classes, and answers before and after."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["low", "mid", "high"], n)
    answers = {name: np.where(rng.random(n) < 0.7, y, rng.choice(["low", "mid", "high"], n)) for name in ("old", "new")}
    sex, age = rng.choice(["f", "m", "x"], n, p=[0.5, 0.45, 0.05]), rng.choice(["young", "old"], n)
    gaps = {"hidden": np.where(rng.random(n) < 0.1, None, sex), "part": np.where(rng.random(n) < 0.05, None, age)}
    return pd.DataFrame({"y": y, **answers, "sex": sex, "age": age, **gaps, "note": np.arange(n)})


@pytest.fixture(scope="module")
def frame():
    """Return the people in memory."""
    return people()


@pytest.fixture(scope="module")
def folders(frame, tmp_path_factory):
    """Return the same people in files, cut in several ways."""
    root = tmp_path_factory.mktemp("people")
    return {name: write(root / name, frame, *cut) for name, cut in CUTS.items()}


def write(folder, frame, n_files=1, group_rows=None):
    """Write a table to a new folder; the second half of the files have categories, in an order of their own."""
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        piece = frame.iloc[rows]
        if k % 2:
            piece = piece.assign(
                **{name: piece[name].astype("category") for name in ("y", "sex", "hidden") if name in piece}
            )
        pq.write_table(pa.Table.from_pandas(piece), folder / f"{k}.parquet", row_group_size=group_rows)
    return folder


def numbers(document):
    """A document without its title and its date."""
    return {name: value for name, value in document.items() if name not in ("title", "date", "created")}


def assert_same(document, other, place="report"):
    """Compare number by number; words are equal."""
    assert type(document) is type(other), place
    if isinstance(document, dict):
        assert document.keys() == other.keys(), place
        for name in document:
            assert_same(document[name], other[name], f"{place}, {name}")
    elif isinstance(document, list):
        assert len(document) == len(other), place
        for k, (value, expected) in enumerate(zip(document, other, strict=True)):
            assert_same(value, expected, f"{place}, {k}")
    elif isinstance(document, float):
        assert document == pytest.approx(other, rel=1e-12, abs=1e-15, nan_ok=True), place
    else:
        assert document == other, place


def reports(frame, folder, y="y", before=None, groups="sex", prediction="new", **question):
    """(report of the table, report of the files)"""
    labels, previous = None if y is None else frame[y], None if before is None else frame[before]
    in_memory = audit(labels, frame[prediction], sensitive_features=frame[groups], before=previous, **question)
    in_files = audit_files(folder, y=y, prediction=prediction, before=before, sensitive_features=groups, **question)
    return in_memory, in_files


QUESTIONS = {
    "dp": {},
    "eo": {"criterion": "eo", "tolerance": 0.05},
    "oae and eop": {"criterion": ["oae", "eop"], "tolerance": 0.05, "reference": "pairwise"},
    "a ratio and a rate": {"criterion": [Ratio("dp", 0.8), MinimumRate("recall", 0.5)]},
    "some classes": {"criterion": "dp", "outcomes": ["high"], "tolerance": {"f": 0.01, "m": 0.02, "x": 0.2}},
    "without labels": {"y": None, "tolerance": 0.02},
    "before": {"before": "old", "criterion": "eo", "tolerance": 0.05},
    "before, without labels": {"y": None, "before": "old"},
    "favourable": {"favourable": ["high", "mid"], "before": "old"},
    "two attributes": {"groups": ["sex", "age"], "attributes": "both", "tolerance": 0.05},
    "missing are a group": {"groups": "hidden", "missing": "group"},
    "missing are dropped": {"groups": "hidden", "missing": "drop", "before": "old"},
    "missing in one of two": {"groups": ["hidden", "part"], "missing": "drop", "criterion": "eo"},
    "missing in two, a group": {"groups": ["part", "hidden"], "missing": "group"},
    "few people, another seed": {"min_cell": 150, "level": 0.8, "random_state": 7},
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_number_is_that_of_the_table(kind, frame, folders):
    in_memory, in_files = reports(frame, folders["both"], **QUESTIONS[kind])
    assert_same(numbers(in_files.to_dict()), numbers(in_memory.to_dict()))
    assert in_files.title == in_memory.title and str(in_files) == str(in_memory)
    assert in_files.verdict == in_memory.verdict and in_files.verdict.value


@pytest.mark.parametrize("cut", CUTS)
def test_the_report_does_not_depend_on_how_the_files_are_cut(cut, folders):
    question = {"prediction": "new", "y": "y", "before": "old", "sensitive_features": "hidden", "missing": "group"}
    document = audit_files(folders[cut], **question).to_dict()
    assert document == audit_files(folders["one file"], n_jobs=1, **question).to_dict()
    assert document == audit_files(sorted(folders[cut].iterdir()), **question).to_dict()
    assert document == audit_files(f"{folders[cut]}/*.parquet", **question).to_dict()


TYPES = {
    "integers": ([0, 1], [3, 4]),
    "truth values": ([False, True], [True, False]),
    "floats": ([0.0, 1.0], [0.5, 1.5]),
    "dates": (["no", "yes"], [datetime.date(2024, 1, 1), datetime.date(2024, 7, 1)]),
    "times": (["no", "yes"], [datetime.datetime(2024, 1, 1, 12), datetime.datetime(2024, 7, 1)]),
    "integers and texts": ([0, 1], ["a", "b"]),
}


@pytest.mark.parametrize("kind", TYPES)
def test_labels_and_groups_keep_their_types(kind, tmp_path):
    labels, groups = TYPES[kind]
    rng = np.random.default_rng(1)
    columns = {"y": labels, "new": labels, "g": groups}
    frame = pd.DataFrame({name: [values[k] for k in rng.integers(0, 2, 500)] for name, values in columns.items()})
    folder = write(tmp_path / "people", frame, 3, 50)
    in_memory, in_files = reports(frame, folder, groups="g", favourable=[labels[1]])
    assert_same(numbers(in_files.to_dict()), numbers(in_memory.to_dict()))


def test_a_class_that_only_the_answers_have(frame, tmp_path):
    some = frame.assign(new=frame["new"].where(frame.index % 50 > 0, "refused"))
    folder = write(tmp_path / "people", some, 2)
    for question in ({}, {"before": "old"}, {"y": None, "before": "old"}):
        in_memory, in_files = reports(some, folder, **question)
        assert_same(numbers(in_files.to_dict()), numbers(in_memory.to_dict()))


def test_a_class_that_only_people_without_a_group_have(frame, tmp_path):
    """It is one of the classes all the same."""
    odd = frame["hidden"].isna() & (frame.index % 3 == 0)
    some = frame.assign(new=frame["new"].where(~odd, "refused"))
    folder = write(tmp_path / "people", some, 2)
    in_memory, in_files = reports(some, folder, groups="hidden", missing="drop")
    assert_same(numbers(in_files.to_dict()), numbers(in_memory.to_dict()))
    assert "refused" in str(in_files.to_dict()["classes"])


def test_the_files_are_read_once(frame, folders):
    from tests.storage.helpers import WatchedThreads

    client = WatchedThreads()
    question = {"prediction": "new", "y": "y", "sensitive_features": ["sex", "age"], "before": "old"}
    report = audit_files(folders["files"], client=client, **question)
    assert client.n_readings == 1 and report.to_dict() == audit_files(folders["files"], **question).to_dict()


# -- what is refused ---------------------------------------------------------------------------------------------
REFUSED = {
    "no groups": ({"sensitive_features": []}, r"sensitive_features=\[\]: names no column; give at least one\."),
    "no such column": ({"sensitive_features": "race"}, r"0\.parquet: has no column 'race'; there are \['y', .*\]\."),
    "missing groups": (
        {"sensitive_features": "hidden"},
        r"sensitive_features: \d\d\d rows have a missing value; give missing='group' or 'drop'\.",
    ),
    "missing labels": ({"y": "hidden"}, r"column 'hidden' is missing in \d\d\d rows; fill them in or drop"),
    "missing answers": ({"prediction": "hidden"}, r"column 'hidden' is missing in \d\d\d rows; fill them in or drop"),
    "missing earlier answers": ({"before": "part"}, r"column 'part' is missing in \d\d\d rows; fill them in or drop"),
    "unknown groups": ({"missing": "infer"}, r"missing='infer': must be one of"),
    "labels that are needed": ({"y": None, "criterion": "eo"}, r"y=None: 'eo' speaks of true classes; give them"),
    "an unknown criterion": ({"criterion": "fairness"}, r"criterion='fairness': unknown"),
    "an unknown class": ({"favourable": ["best"]}, r"favourable=\['best'\]: 'best' is not a class; the classes are"),
    "a share of people": ({"min_cell": 0}, r"min_cell=0: must be"),
    "labels of another type": ({"y": "number"}, r"prediction: its labels, .*, are of another type than those of y"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_audited_is_refused(kind, tmp_path, frame):
    change, message = REFUSED[kind]
    folder = write(tmp_path / "people", frame.assign(number=frame.index % 3), 2)
    question = {"prediction": "new", "y": "y", "sensitive_features": "sex"} | change
    with pytest.raises(ValueError, match=message) as error:
        audit_files(folder, **question)
    assert "\n" not in str(error.value)


def test_questions_are_checked_before_anything_is_read(tmp_path, frame):
    folder = write(tmp_path / "people", frame)
    path = folder / "0.parquet"
    path.write_bytes(b"no rows" + path.read_bytes()[7:-50])
    question = {"prediction": "new", "y": "y", "sensitive_features": "sex"}
    for change in ({"criterion": "fairness"}, {"missing": "infer"}, {"tolerance": -1}):
        with pytest.raises(ValueError, match=next(iter(change))):
            audit_files(folder, **question | change)
    with pytest.raises(PartError, match=r"0\.parquet: cannot be read as Parquet"):
        audit_files(folder, **question)


def test_nobody_has_a_group(tmp_path, frame):
    folder = write(tmp_path / "people", frame.assign(sex=None))
    with pytest.raises(
        ValueError, match=r"sensitive_features: is missing in all rows; give the groups of at least some"
    ):
        audit_files(folder, prediction="new", sensitive_features="sex", missing="drop")


def test_a_column_of_numbers_is_no_label(tmp_path, frame):
    folder = write(tmp_path / "people", frame.assign(score=np.round(np.random.default_rng(0).random(N), 2)))
    with pytest.raises(ValueError, match=r"prediction: 0\.\d+ is not a class label \(continuous values\)"):
        audit_files(folder, prediction="score", sensitive_features="sex")


def test_empty_cells_are_warned_of_as_in_memory(tmp_path, frame):
    some = frame[(frame["sex"] != "x") | (frame["y"] != "low")]
    folder = write(tmp_path / "people", some, 2)
    with pytest.warns(OptFairWarning) as caught:
        reports(some, folder, criterion="eo", tolerance=0.05)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) % 2 == 0 and messages[: len(messages) // 2] == messages[len(messages) // 2 :]


@pytest.mark.parametrize("missing", ["group", "drop"])
def test_groups_of_whole_numbers_with_gaps(frame, tmp_path, missing):
    """They are called 0 and 1, as in an audit of the table, also where one file of them has no gap."""
    codes = pd.Series(np.arange(N) % 2, dtype="Int64").mask(np.arange(N) > 0.9 * N)
    folder = write(tmp_path / "rows", frame.assign(code=codes), 3)
    report = audit_files(folder, prediction="new", sensitive_features="code", y="y", missing=missing)
    expected = audit(frame["y"], frame["new"], sensitive_features=codes, missing=missing)
    assert report.to_dict()["groups"] == expected.to_dict()["groups"]
    assert [group["group"] for group in report.to_dict()["groups"]][:2] == ["0", "1"]


def test_files_with_groups_of_other_types_are_refused(frame, tmp_path):
    folder = write(tmp_path / "rows", frame.assign(code=np.arange(N) % 2))
    other = frame.assign(code=(np.arange(N) % 2).astype(str))
    pq.write_table(pa.Table.from_pandas(other), folder / "other.parquet")
    with pytest.raises(
        PartError, match=r"other\.parquet: column 'code' is of type string; in the first file it is int64"
    ):
        audit_files(folder, prediction="new", sensitive_features="code")
