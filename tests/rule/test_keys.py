"""Test the secret keys of hashed decisions: kept apart, readable by the owner only, never taken for another one."""

import hashlib
import hmac
import json
import os
import stat
from dataclasses import replace

import numpy as np
import pytest

import optfair
from optfair import RuleFileError, load_rule
from optfair.portable.scorer_file import scorer_module
from optfair.rule.decisions import HASHES
from optfair.rule.exporting import graph_facts
from tests.portable.helpers import attempt, javascript
from tests.rule.helpers import assert_same


def test_the_key_is_kept_apart(rule, path):
    beside = path.with_name("rule.json.key")
    fingerprint, key = beside.read_text().split()
    assert bytes.fromhex(key) == rule.key and fingerprint not in key
    assert rule.key.hex() not in path.read_text()
    assert json.loads(path.read_text())["rule"]["key"] == fingerprint  # tells whose key it is, and nothing of it
    if os.name == "posix":
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.stat().st_mode) & 0o400


@pytest.mark.parametrize("hashing", HASHES)
def test_all_files_say_the_same_fingerprint(hashing, rule, path):
    """As documented: the first eight bytes of HMAC-SHA-256, whatever the draws are made by."""
    expected = hmac.new(rule.key, b"optfair key", hashlib.sha256).hexdigest()[:16]
    assert path.with_name("rule.json.key").read_text() == f"{expected} {rule.key.hex()}\n"
    assert json.loads(path.read_text())["rule"]["key"] == expected
    rule.export(path.with_name("fair.json"), hashing=hashing)
    assert json.loads(path.with_name("fair.json").read_text("utf-8"))["fingerprint"] == expected
    for key, told in ((rule.key, expected), (None, None)):
        assert graph_facts({}, key, "hashed", hashing, [])["key_fingerprint"] == told


def test_the_key_is_never_readable_by_others_while_it_is_written(rule, tmp_path, monkeypatch):
    moves, real = [], os.replace

    def spy(source, target):
        moves.append((str(target), stat.S_IMODE(os.stat(source).st_mode)))
        real(source, target)

    monkeypatch.setattr(os, "replace", spy)
    old = os.umask(0)
    try:
        rule.save(tmp_path / "rule.json")
    finally:
        os.umask(old)
    modes = {mode for target, mode in moves if target.endswith(".key")}
    assert modes == {0o600} and len(moves) > 1


def test_without_the_key_only_hashed_decisions_are_lost(rule, Z, path):
    path.with_name("rule.json.key").unlink()
    copy = load_rule(path)
    assert copy.key is None
    np.testing.assert_array_equal(copy.predict_proba(Z), rule.predict_proba(Z))
    np.testing.assert_array_equal(copy.predict(Z, decision="argmax"), rule.predict(Z, decision="argmax"))
    sampled = copy.predict(Z, decision="sampled", random_state=0)
    np.testing.assert_array_equal(sampled, rule.predict(Z, decision="sampled", random_state=0))
    with pytest.raises(ValueError, match="loaded without its key"):
        copy.predict(Z)
    np.testing.assert_array_equal(load_rule(path, key=rule.key).predict(Z), rule.predict(Z))
    assert_same(replace(rule, key=None), copy)


def test_a_given_key_comes_before_the_one_beside(rule, path):
    path.with_name("rule.json.key").write_bytes(b"damaged")
    assert load_rule(path, key=rule.key).key == rule.key


@pytest.mark.parametrize("content", [b"", b"xyz", b"abcd", b"\xff" * 32, b"00" * 31])
def test_a_damaged_key(path, content):
    path.with_name("rule.json.key").write_bytes(content)
    with pytest.raises(RuleFileError, match=r"key.*\.$"):
        load_rule(path)


def test_the_key_of_another_rule_is_not_taken(Z, path):
    other = path.with_name("other.json")
    optfair.solve(Z, "dp", 0.2, random_state=9, n_jobs=1).save(other)
    other.with_name("other.json.key").replace(path.with_name("rule.json.key"))
    with pytest.raises(
        RuleFileError, match=r"^rule\.json\.key: not the 32-byte key that was written with this rule\.$"
    ):
        load_rule(path)


def test_only_its_own_key_opens_a_rule(Z, tmp_path):
    path = tmp_path / "rule.json"
    rule, other = (optfair.solve(Z, "eo", 0.01, n_jobs=1) for _ in range(2))  # the keys are fresh
    rule.save(path)
    with pytest.raises(RuleFileError, match="not the 32-byte key"):
        load_rule(path, key=other.key)
    text = (tmp_path / "rule.json.key").read_text()
    (tmp_path / "rule.json.key").unlink()
    for key in (rule.key, text, f"{text}0123456789abcdef {other.key.hex()}\n"):
        assert load_rule(path, key=key).key == rule.key


@pytest.mark.parametrize("key", [b"short", "0" * 32, 7, bytes(range(32))])
def test_a_wrong_key(path, key):
    with pytest.raises(RuleFileError, match=r"^key: not the 32-byte key that was written with this rule\.$"):
        load_rule(path, key=key)


def test_a_rule_without_key_does_not_inherit_another_ones(rule, path):
    replace(rule, key=None).save(path)
    assert load_rule(path).key is None


KEY_TEXTS = {
    "digits": "{key}",
    "capitals": "{KEY}",
    "with a fingerprint": "0123456789abcdef {key}\n",
    "among blanks": " \t{key} \r\n\n",
    "the second of two": "{other}\n{key}\n",
    "digits behind it": "{key}00",
    "letters behind it": "{key}zz",
    "a word behind it": "{key} zz",
    "a word before it": "key {key}",
    "two words before it": "a b {key}",
    "a blank within": "{half} {rest}",
    "cut": "{half}",
    "a line that is none": "zz\n{key}",
    "hexadecimal of a program": "0x{key}",
    "a mark of the order of bytes": "\ufeff{key}",
    "another blank": "\u00a0{key}",
    "another end of a line": "zz\x0c{key}",
    "an old end of a line": "zz\r{key}",
    "nothing": "",
    "blanks": " \n",
}
SOUND = ("digits", "capitals", "with a fingerprint", "among blanks", "the second of two")


@pytest.mark.parametrize("name", KEY_TEXTS)
@pytest.mark.parametrize("source", ["argument", "file"])
def test_every_reader_takes_the_same_keys(source, name, rule, path):
    """Check the scorers too, which read keys by code of their own."""
    key = rule.key.hex()
    parts = {"key": key, "KEY": key.upper(), "other": "00" * 32, "half": key[:32], "rest": key[32:]}
    text, fair = KEY_TEXTS[name].format(**parts), path.with_name("fair.json")
    rule.export(fair)
    key_file = path.with_name("rule.json.key")
    key_file.write_bytes(text.encode())
    calls = {
        "argument": [lambda: load_rule(path, key=text), lambda: scorer_module().load(str(fair), key=text)],
        "file": [lambda: load_rule(path), lambda: scorer_module().load(str(fair), key_file=str(key_file))],
    }
    results = [attempt(call) for call in calls[source]]
    options = {"key": text} if source == "argument" else {"keyFile": str(key_file)}
    body = f"const result = attempt(() => Boolean(load({json.dumps(str(fair))}, {json.dumps(options)}).key));"
    results.append(javascript(path.parent, body))
    assert [not isinstance(result, str) for result in results] == [name in SOUND] * 3
    if name not in SOUND:
        assert all("key: not the " in result for result in results)


@pytest.mark.parametrize("key", [bytes(31), bytes(33), b"", bytes(32), 7])
def test_a_scorer_refuses_what_is_no_key(key, rule, path):
    rule.export(path.with_name("fair.json"))
    with pytest.raises(ValueError, match=r"^key: not the one that belongs to this rule, in 32 bytes or 64 hexadecimal"):
        scorer_module().load(str(path.with_name("fair.json")), key=key)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_told(mode, rule, path):
    path.with_name("rule.json.key").chmod(mode)
    with pytest.warns(
        optfair.OptFairWarning, match=r"^rule\.json\.key: others can read the key, and foretell draws; chm"
    ):
        assert load_rule(path).key == rule.key
    assert load_rule(path, key=rule.key).key == rule.key  # the file is not read


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_key_file_is_the_owners_whatever_was_there(rule, tmp_path):
    old = os.umask(0)
    try:
        (tmp_path / "rule.json.key").write_text("")
        assert stat.S_IMODE((tmp_path / "rule.json.key").stat().st_mode) == 0o666
        for _ in range(2):
            rule.save(tmp_path / "rule.json")
            assert stat.S_IMODE((tmp_path / "rule.json.key").stat().st_mode) == 0o600
    finally:
        os.umask(old)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_the_key_of_a_model_is_the_owners(tmp_path):
    pytest.importorskip("skops", reason="models are written by skops")
    from tests.export.helpers import fit_post

    model, old = fit_post(), os.umask(0)
    try:
        model.save(tmp_path / "fair.skops")
    finally:
        os.umask(old)
    key_file = tmp_path / "fair.skops.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    key_file.chmod(0o644)
    with pytest.warns(optfair.OptFairWarning, match=r"^fair\.skops\.key: others can read the key"):
        optfair.load_model(tmp_path / "fair.skops")
