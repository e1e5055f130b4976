"""The file of a monitor: the same monitor again, no rows of people, and what is forged is refused."""

import copy
import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, Monitor, MonitorFileError, Ratio
from tests.monitoring.test_monitor import people


def filled():
    y, answer, group = people(400)
    features = pd.DataFrame({"race": group, "age": np.arange(400) % 2})
    constraints = [
        Constraint("eo", {("A", 0): 0.1, ("B", 1): 0.2}, outcomes=["yes"]),
        Constraint("dp", 0.1, reference="pairwise", attributes=["race"]),
        Ratio("dp", 0.7),
        MinimumRate("accuracy", 0.2),
    ]
    monitor = Monitor(constraints, confidence=0.9)
    h = np.random.default_rng(0).dirichlet([1, 1], 400)
    monitor.update(None, answer, sensitive_features=features, period="a", plain=answer).reset()
    monitor.update(y, answer, sensitive_features=features, period="b", plain=h)
    return monitor.update(y, h, sensitive_features=features, period="c")


@pytest.fixture
def path(tmp_path):
    filled().save(tmp_path / "state.json")
    return tmp_path / "state.json"


def test_a_file_is_the_same_monitor(path):
    monitor, other = filled(), Monitor.load(path)
    assert other.constraints == monitor.constraints and other.confidence == 0.9
    for name in ("table", "changes"):
        pd.testing.assert_frame_equal(getattr(other.check(), name), getattr(monitor.check(), name))
    assert str(other.check()) == str(monitor.check()) and other.periods.equals(monitor.periods)
    assert list(other.groups) == list(monitor.groups) and other.groups.names == ["race", "age"]
    y, answer, group = people(50)
    other.update(y, answer, sensitive_features=pd.DataFrame({"age": 0, "race": group}), period="d")
    other.save(path)
    assert len(Monitor.load(path).periods) == 4


def test_a_file_without_people_and_its_size(tmp_path):
    monitor = Monitor("dp", 0.1)
    monitor.save(tmp_path / "empty.json")
    other = Monitor.load(tmp_path / "empty.json")
    y, answer, group = people(9000)
    other.update(y, answer, sensitive_features=group).save(tmp_path / "state.json")
    assert (tmp_path / "state.json").stat().st_size < 3000  # counts, not rows
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.json", "state.json"]


def test_names_that_no_file_can_hold_are_refused(tmp_path):
    monitor = Monitor("dp", 0.1, groups=[frozenset("a"), "b"])
    with pytest.raises(ValueError, match="a name of type frozenset cannot be written"):
        monitor.save(tmp_path / "state.json")
    assert not list(tmp_path.iterdir())


# -- forged files ------------------------------------------------------------------------------------------
def put(value, *place):
    def change(content):
        for part in place[:-1]:
            content = content[part]
        content[place[-1]] = value

    return change


def drop(*place):
    def change(content):
        for part in place[:-1]:
            content = content[part]
        del content[place[-1]]

    return change


def sign(document):
    text = json.dumps(document["monitor"], sort_keys=True, separators=(",", ":"))
    return document | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


PERIOD = ("periods", 1)
FORGED = {
    "no periods": drop("periods"),
    "no start": drop("start"),
    "a start that is no period": put(9, "start"),
    "a start that is no number": put(True, "start"),
    "a start that is negative": put(-1, "start"),
    "no constraint": put([], "constraints"),
    "another kind": put("rows", "constraints", 0, "kind"),
    "another field": put(1, "constraints", 0, "code"),
    "another criterion": put("ppv", "constraints", 0, "criterion"),
    "a tolerance": put(7, "constraints", 1, "tolerance"),
    "a group of no tolerance": put({"by group": [["Z", 0.1]]}, "constraints", 0, "tolerance"),
    "a confidence": put(2, "confidence"),
    "a confidence of text": put("0.9", "confidence"),
    "a word": put("drop", "missing"),
    "no names": put(None, "groups"),
    "names twice": put({"labels": ["no", "no"], "names": [None], "several": False}, "classes"),
    "lists as names": put({"labels": [["no"], ["yes"]], "names": [None], "several": False}, "classes"),
    "too many names": put({"labels": list(range(9000)), "names": [None], "several": False}, "classes"),
    "names of another kind": put({"labels": [{"code": "x"}, "yes"], "names": [None], "several": False}, "classes"),
    "a period that is no mapping": put(7, *PERIOD),
    "a field too many": put(1, *PERIOD, "rows"),
    "a field too few": drop(*PERIOD, "plain"),
    "a name that is taken": put("a", *PERIOD, "name"),
    "a name that is a number": put(1, *PERIOD, "name"),
    "a name of two lines": put("a\nb", *PERIOD, "name"),
    "people that are negative": put([-1] * 6, *PERIOD, "people"),
    "people in halves": put([0.5] * 6, *PERIOD, "people"),
    "people of text": put(["1"] * 6, *PERIOD, "people"),
    "people of another shape": put([1, 2], *PERIOD, "people"),
    "people that are too many": put([1e300] * 6, *PERIOD, "people"),
    "people without end": put([10**400] * 6, *PERIOD, "people"),
    "answers that do not add up": put([[1, 2]] * 6, *PERIOD, "answers"),
    "answers with ragged rows": put([[1], [2, 3]], *PERIOD, "answers"),
    "labels that do not add up": put([[1, 1]] * 6, *PERIOD, "cells"),
    "labels of nobody": put(None, *PERIOD, "cells"),
    "labels without answers": put(None, *PERIOD, "confusion"),
    "more labels than people": lambda content: content["periods"][0].update(
        cells=[[500, 0]] * 6, confusion=[[[500, 0], [0, 0]]] * 6
    ),
    "plain that does not add up": put([1, 1], *PERIOD, "plain"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_forged_files_are_refused(path, kind):
    document = json.loads(path.read_text())
    forged = copy.deepcopy(document)
    FORGED[kind](forged["monitor"])
    path.write_text(json.dumps(sign(forged)))
    with pytest.raises(MonitorFileError, match=r"^state\.json: ") as error:
        Monitor.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a complete JSON file"),
        ("{", "not a complete JSON file"),
        ("[" * 100_000, "not a complete JSON file"),
        ("\ud800", "not a complete JSON file"),
        ("[]", "not the state of a monitor"),
        ('{"format": "optfair rule"}', "not the state of a monitor"),
        ('{"format": "optfair monitor", "version": 2}', "has version 2, but this release reads version 1"),
        ('{"format": "optfair monitor", "version": true}', "has version True"),
        ('{"format": "optfair monitor", "version": 1}', "altered or damaged"),
        ('{"format": "optfair monitor", "version": 1, "sha256": "", "monitor": NaN}', "altered or damaged"),
        ('{"format": "optfair monitor", "version": 1, "sha256": "", "monitor": {}}', "does not match its checksum"),
    ],
)
def test_other_files_are_refused(tmp_path, text, words):
    (tmp_path / "state.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(MonitorFileError, match=words) as error:
        Monitor.load(tmp_path / "state.json")
    assert "\n" not in str(error.value)


def test_every_flipped_character_is_noticed(path):
    text = path.read_text()
    for place in np.random.default_rng(0).integers(0, len(text), 60):
        other = chr(ord(text[place]) ^ 1)
        path.write_text(text[:place] + other + text[place + 1 :])
        if other.isspace() and text[place].isspace():
            continue
        with pytest.raises(MonitorFileError):
            Monitor.load(path)


def test_a_huge_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("optfair.monitoring.state.MAX_BYTES", 10)
    filled().save(tmp_path / "state.json")
    with pytest.raises(MonitorFileError, match=r"is larger than 10 bytes; begin a new one\.$"):
        Monitor.load(tmp_path / "state.json")


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()

    def fail(*arguments):
        raise OSError("full")

    monkeypatch.setattr("optfair.utils.files.os.replace", fail)
    with pytest.raises(OSError, match="full"):
        filled().save(path)
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == ["state.json"]
