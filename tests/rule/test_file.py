"""Test rule files: they hold everything but the key, execute nothing, and every change is noticed."""

import json
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair import Constraint, MinimumRate, Ratio, Rows, RuleFileError, load_rule
from optfair.errors import ChecksumError
from optfair.rule.certificate import Status
from optfair.rule.file import VERSION, _checksum, rule_content
from optfair.rule.loading import rule_from_content
from tests.rule.helpers import assert_same


def solve(Z, groups=("a", "b", "c"), classes=("low", "mid", "high"), **options):
    """Solve for names and constraints; by default as the shared rule is."""
    options = {"criterion": "eo", "tolerance": 0.01} | options
    return optfair.solve(Z, groups=groups, classes=classes, random_state=0, n_jobs=1, **options)


NAMES = {
    "default": None,
    "text": ["ä", 'q"uote', "back\\slash\n"],
    "int": [3, -1, 10**15],
    "first ints": [0, 1, 2],
    "float": [0.5, 1.0, -2.25],
    "first floats": [0.0, 1.0, 2.0],
    "bool and text": [True, False, "other"],
    "number and its text": [1, "1", 2],
    "objects": pd.Index([1, 2.5, 3], dtype=object),
    "tuple": [("a", 1), ("b", 2.5), ("c", True)],
    "named": pd.Index(["f", "m", "x"], name="sex"),
    "timestamp": pd.to_datetime(["2020-01-01 00:00", "2021-06-01 12:30", "2022-01-01 00:00"]),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_round_trip_with_names_of_every_kind(Z, names, tmp_path):
    rule = solve(Z, names, names)
    rule.save(tmp_path / "rule.json")
    copy = load_rule(tmp_path / "rule.json")
    assert_same(rule, copy)
    np.testing.assert_array_equal(copy.predict(Z), rule.predict(Z))
    assert copy.predict(Z).dtype == rule.predict(Z).dtype
    np.testing.assert_array_equal(copy.predict_proba(Z), rule.predict_proba(Z))


@pytest.mark.parametrize("names", [["sex", "age"], [None, None], ["sex", 3]])
def test_round_trip_of_several_attributes(Z, names, tmp_path):
    groups = pd.MultiIndex.from_tuples([("f", 1), ("m", 1), ("m", 2)], names=names)
    rule = solve(Z, groups, criterion=[Constraint("dp", 0.05, attributes="both"), "eo"])
    rule.save(tmp_path / "rule.json")
    copy = load_rule(tmp_path / "rule.json")
    assert_same(rule, copy)
    assert ("*", 1) in copy.multipliers["group"].tolist()


@pytest.mark.parametrize(
    "criterion",
    [
        [Constraint("dp", {"a": 0.01, "b": 0.2}), Ratio("dp", 0.5), MinimumRate("recall", 0.05)],
        [Rows(np.eye(27)[:1], upper=0.9), Constraint("oae", 0.1)],
        "meo",
    ],
    ids=["mapping, ratio, minimum", "rows of the user", "meo"],
)
def test_round_trip_of_every_kind_of_row(Z, criterion, tmp_path):
    rule = solve(Z, criterion=criterion, tolerance=None)
    rule.save(tmp_path / "rule.json")
    copy = load_rule(tmp_path / "rule.json")
    assert_same(rule, copy)
    bounds = copy.multipliers[["lower", "upper"]].to_numpy()
    assert np.isinf(bounds).any() or criterion == "meo"


def test_a_mixed_rule_and_exact_numbers(rule, tmp_path):
    """Numbers come back to the last bit: denormal, negative zero, not representable in decimals."""
    weights = rule.weights.copy()
    weights.flat[:5] = [5e-324, -0.0, 0.1 + 0.2, -1e308, np.nextafter(1, 2)]
    odd = replace(rule, weights=weights, share=0.1, constant=np.array([1 / 3, 0.0, 2 / 3]), terms=None)
    odd.save(tmp_path / "odd.json")
    copy = load_rule(tmp_path / "odd.json")
    assert_same(odd, copy)
    assert copy.weights.tobytes() == weights.tobytes()


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
@pytest.mark.parametrize("notes", [(), ("a note",), ("ä", "back\\slash\n", "")], ids=len)
def test_round_trip_of_every_status_and_its_notes(rule, status, notes, tmp_path):
    certificate = replace(rule.certificate, status=status, notes=notes)
    replace(rule, certificate=certificate).save(tmp_path / "rule.json")
    copy = load_rule(tmp_path / "rule.json").certificate
    assert copy == certificate and copy.status is status and copy.notes == notes
    content = json.loads((tmp_path / "rule.json").read_text())["rule"]["certificate"]
    assert content["status"] == status.name  # its advice may be worded otherwise in another release


def test_the_content_of_a_rule_is_the_way_there_and_back(rule):
    content = rule_content(rule)
    text = json.dumps(content, allow_nan=False)
    assert_same(rule_from_content(json.loads(text)), replace(rule, key=None))
    assert rule.key.hex() not in text


def test_a_loaded_rule_can_be_saved_again_and_started_from(rule, Z, tmp_path):
    rule.save(tmp_path / "one.json")
    load_rule(tmp_path / "one.json").save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    warm = solve(Z, start=load_rule(tmp_path / "one.json")).certificate
    assert abs(warm.accuracy - rule.certificate.accuracy) <= warm.gap + rule.certificate.gap
    assert warm.passes < rule.certificate.passes


def test_paths_are_text_or_path(rule, tmp_path):
    rule.save(str(tmp_path / "rule.json"))
    assert_same(rule, load_rule(str(tmp_path / "rule.json")))
    with pytest.raises(FileNotFoundError):
        load_rule(tmp_path / "nothing.json")


# -- damage -------------------------------------------------------------------------------------------------
def refuses(path, *words, error=RuleFileError):
    """Check that load_rule raises an error of a single line, which names the file and holds the words."""
    with pytest.raises(error) as caught:
        load_rule(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(path.name) and message.endswith(".")
    assert all(word in message for word in words), message


def test_truncated_anywhere(path):
    whole = path.read_bytes()
    assert whole.endswith(b"}\n")
    lengths = {*range(40), *np.linspace(0, len(whole) - 2, 60, dtype=int).tolist(), len(whole) - 2}
    for length in lengths:
        path.write_bytes(whole[:length])
        refuses(path, "not a complete JSON file")


def test_an_altered_digit_anywhere_is_noticed(rule, path):
    """Every number of the file: one digit changed gives an error, or (beyond a float's precision) the same rule."""
    whole = path.read_text()
    start = whole.index('"rule"')
    digits = [i for i in range(start, len(whole)) if whole[i].isdigit()]
    noticed = 0
    for i in np.random.default_rng(0).choice(digits, 150, replace=False):
        path.write_text(whole[:i] + str((int(whole[i]) + 3) % 10) + whole[i + 1 :])
        try:
            copy = load_rule(path)
        except RuleFileError:
            noticed += 1
        else:
            assert_same(rule, copy)
    assert noticed > 140


def test_any_altered_byte_gives_an_error_or_the_same_rule(rule, path):
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for i in rng.integers(0, len(whole), 150):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ (1 << rng.integers(8))]) + whole[i + 1 :])
        try:
            copy = load_rule(path)
        except RuleFileError as error:
            assert "\n" not in str(error)
        else:
            assert_same(rule, copy)


def test_a_changed_number_fails_the_checksum(path):
    document = json.loads(path.read_text())
    document["rule"]["share"] = 0.5
    path.write_text(json.dumps(document))
    refuses(path, "does not match its checksum", error=ChecksumError)


def test_layout_does_not_matter(rule, path):
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=False, separators=(",", ":")))
    assert_same(rule, load_rule(path))


@pytest.mark.parametrize("version", [0, 1, 2, VERSION + 1, "3", True, 3.5, None, [3]])
def test_a_version_that_is_not_this_one(path, version):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version}))
    refuses(path, f"has version {version!r}", f"reads version {VERSION}")


def test_a_file_of_version_1_is_refused_by_its_version(path):
    """Its status was a sentence, and it had no notes; its checksum fits."""
    document = json.loads(path.read_text())
    certificate = document["rule"]["certificate"]
    del certificate["notes"]
    certificate["status"] = "optimal within the requested gap"
    document |= {"version": 1, "sha256": _checksum(document["rule"])}
    path.write_text(json.dumps(document))
    refuses(path, "has version 1, but this release reads version 5")


@pytest.mark.parametrize(
    "content",
    ["null", "[]", "3", '"optfair rule"', "{}", '{"format": "other"}', '{"format": "optfair frontier", "version": 1}'],
)
def test_not_a_rule(path, content):
    path.write_text(content)
    refuses(path, "not a rule written by optfair")


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe{", b"\x80\x04\x95pickle", b"[" * 100_000, b"9" * 10_000, b"\xef\xbb\xbf{}", b"{} {}"],
    ids=["empty", "not utf-8", "pickle", "deep", "long number", "byte order mark", "two documents"],
)
def test_not_json(path, content):
    path.write_bytes(content)
    refuses(path)


def rewrite(path, change):
    """Change the content and write it with a checksum that fits."""
    document = json.loads(path.read_text())
    change(document["rule"])
    document["sha256"] = _checksum(document["rule"])
    path.write_text(json.dumps(document))


def test_rewriting_itself_does_no_harm(rule, path):
    rewrite(path, lambda content: None)
    assert_same(rule, load_rule(path))


def places(content, above=()):
    """Yield the path of every named field in the content."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield (*above, name)
            yield from places(value, (*above, name))


def test_every_missing_field_is_noticed(rule, path):
    whole = path.read_text()
    fields = list(places(json.loads(whole)["rule"]))
    assert len(fields) > 35  # weights ..., certificate and its fields, the columns of the multipliers
    for *above, name in fields:

        def remove(content, above=above, name=name):
            for step in above:
                content = content[step]
            del content[name]

        path.write_text(whole)
        rewrite(path, remove)
        refuses(path, "missing or malformed")
    for name in ("format", "version", "sha256", "rule"):
        document = json.loads(whole)
        del document[name]
        path.write_text(json.dumps(document))
        refuses(path)


def binding(content):
    """The position of the largest multiplier."""
    return int(np.argmax(np.abs(content["multipliers"]["multiplier"])))


MALFORMED = {
    "weights of another shape": lambda c: c.update(weights=c["weights"][:2]),
    "ragged weights": lambda c: c["weights"][0][0].pop(),
    "temperatures of another shape": lambda c: c.update(temperatures=[0.1]),
    "constant of another shape": lambda c: c.update(constant=[0.5, 0.5]),
    "a group too many": lambda c: c["groups"]["labels"].append("d"),
    "a class twice": lambda c: c["classes"].update(labels=["x", "x", "z"]),
    "a missing name": lambda c: c["groups"].update(labels=["a", None, "c"]),
    "an infinite weight": lambda c: c["weights"][0][0].__setitem__(0, 10**400),
    "text for a weight": lambda c: c["weights"][0][0].__setitem__(0, "one"),
    "a negative temperature": lambda c: c.update(temperatures=[[-1.0] * 3] * 3),
    "a share above one": lambda c: c.update(share=1.5),
    "a constant that is no distribution": lambda c: c.update(constant=[1.0, 1.0, 1.0]),
    "columns of different lengths": lambda c: c["multipliers"]["multiplier"].pop(),
    "names of different lengths": lambda c: c["multipliers"]["group"].pop(),
    "a column too many": lambda c: c["multipliers"].update(more=c["multipliers"]["price"]),
    "text for a multiplier": lambda c: c["multipliers"]["multiplier"].__setitem__(0, "big"),
    "a field too many": lambda c: c["certificate"].update(more=1),
    "a list for a table": lambda c: c.update(multipliers=[1, 2]),
    "no table": lambda c: c.update(determinism=None),
    "an unknown kind": lambda c: c["groups"].update(labels=[{"set": [1]}, "b", "c"]),
    "two kinds": lambda c: c["groups"].update(labels=[{"tuple": [1], "float": "inf"}, "b", "c"]),
    "an empty kind": lambda c: c["groups"].update(labels=[{}, "b", "c"]),
    "a bad number": lambda c: c["groups"].update(labels=[{"float": "seven"}, "b", "c"]),
    "an unknown status": lambda c: c["certificate"].update(status="EXCELLENT"),
    "a status by its sentence": lambda c: c["certificate"].update(status=Status.OPTIMAL.value),
    "no status": lambda c: c["certificate"].update(status=None),
    "a weight that is no sum of its terms": lambda c: c["weights"][0][0].__setitem__(0, c["weights"][0][0][0] + 1e-6),
    "another multiplier of the terms": lambda c: c["terms"]["multipliers"].__setitem__(binding(c), 9.0),
    "another rate of the terms": lambda c: c["terms"].update(rate_weights=[7.0] * len(c["terms"]["rate_weights"])),
    "a rate that is not finite": lambda c: c["terms"]["rate_weights"].__setitem__(0, 10**400),
    "a utility": lambda c: c["terms"].update(utility=(2 * np.tile(np.eye(3), (3, 1))).tolist()),
    "a utility of another shape": lambda c: c["terms"].update(utility=np.eye(3).tolist()),
    "multipliers of fewer rows": lambda c: c["terms"]["multipliers"].pop(),
    "an index outside": lambda c: c["terms"]["hits"]["column"].__setitem__(0, 10**9),
    "a negative index": lambda c: c["terms"]["combination"]["row"].__setitem__(0, -1),
    "an index that is no integer": lambda c: c["terms"]["combination"]["column"].__setitem__(0, 0.5),
    "an index that is a truth value": lambda c: c["terms"]["combination"]["column"].__setitem__(0, True),
    "entries of different lengths": lambda c: c["terms"]["combination"]["value"].pop(),
    "places of different lengths": lambda c: c["terms"]["hits"]["column"].pop(),
    "a list for a matrix": lambda c: c["terms"].update(user_rows=[]),
    "a field too many, of the terms": lambda c: c["terms"].update(more=1),
    "a text for the terms": lambda c: c.update(terms="dp"),
    "a bad time": lambda c: c["groups"].update(labels=[{"timestamp": "yesteryear"}, "b", "c"]),
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_malformed_content_with_a_fitting_checksum(path, change):
    rewrite(path, change)
    refuses(path, "missing or malformed")


def test_a_rule_without_terms_cannot_explain(rule, Z, path):
    """A file may hold none: everything else works."""
    rewrite(path, lambda content: content.update(terms=None))
    other = load_rule(path)
    np.testing.assert_array_equal(other.predict(Z), rule.predict(Z))
    with pytest.raises(ValueError, match=r"^explain: this rule does not hold what its scores are made of; solve it ag"):
        other.explain(Z)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_json_does_not_have(path, text):
    whole = path.read_text()
    path.write_text(whole.replace('"share": 0.0', f'"share": {text}'))
    assert path.read_text() != whole
    refuses(path)


# -- nothing is executed ------------------------------------------------------------------------------------
SUSPICIOUS = [
    "__import__('os').system('touch pwned')",
    "${HOME} $(touch pwned) `touch pwned`",
    '{"tuple": [1]}',
    "!!python/object/apply:os.system ['touch pwned']",
    "=cmd|'/c calc'!A0",
    "cos\nsystem\n(S'touch pwned'\ntR.",
]


def test_suspicious_text_stays_text(Z, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule = solve(Z, SUSPICIOUS[:3], SUSPICIOUS[3:])
    rule.save("rule.json")
    copy = load_rule("rule.json")
    assert_same(rule, copy)
    assert set(copy.predict(Z)) <= set(SUSPICIOUS[3:])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rule.json", "rule.json.key"]


# -- writing ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_failing_write_leaves_the_old_file_whole(rule, Z, path, monkeypatch, step):
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    other = solve(Z, tolerance=0.2)

    def fail(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(OSError, match="no space left"):
            other.save(path)
        with pytest.raises(OSError, match="no space left"):
            other.save(path.with_name("new.json"))
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before
    assert_same(rule, load_rule(path))


def test_a_write_that_fails_half_way_keeps_rule_and_key_together(rule, Z, path, monkeypatch):
    real = os.replace

    def fail_for_the_rule(source, target):
        if str(target) == str(path):
            raise OSError("no space left on device")
        real(source, target)

    other = optfair.solve(Z, "dp", 0.2, random_state=1, n_jobs=1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail_for_the_rule)
        with pytest.raises(OSError, match="no space left"):
            other.save(path)
    assert_same(rule, load_rule(path))


def test_saving_replaces_the_old_rule(Z, path):
    other = optfair.solve(Z, "dp", 0.2, random_state=5, n_jobs=1)
    other.save(path)
    assert_same(other, load_rule(path))
    assert sorted(p.name for p in path.parent.iterdir()) == ["rule.json", "rule.json.key"]


@pytest.mark.parametrize(
    "name",
    [b"bytes", Fraction(1, 3), pd.Period("2020"), pd.Interval(0, 1), ("a", b"b")],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize("of", ["groups", "classes"])
def test_a_name_that_cannot_be_saved(Z, tmp_path, name, of):
    rule = optfair.solve(Z, "dp", 0.1, random_state=0, n_jobs=1, **{of: pd.Index(["a", name, "c"], dtype=object)})
    kind = "bytes" if isinstance(name, tuple) else type(name).__name__
    with pytest.raises(ValueError, match=rf"^save: a name of type {kind} cannot be written; use text, numbers"):
        rule.save(tmp_path / "rule.json")
    assert list(tmp_path.iterdir()) == []
