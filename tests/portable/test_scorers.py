"""The scorers of one file: the same answers in Python and JavaScript, nothing but their standard libraries."""

import ast
import hashlib
import hmac
import json
import os
import struct
import subprocess
import sys
from shutil import copy

import numpy as np
import pytest

from optfair.inputs.identity import key_bytes
from optfair.portable.scorer_file import plain_label, scorer_module, sealed_content
from optfair.rule.decisions import HASHES, uniforms
from optfair.rule.keys import new_key
from tests.portable.helpers import LANGUAGES, SCORERS, ask_each, ask_scorer, command, make_rule, run_scorer

KEY = bytes(range(32))
PERSONS = ["id-1", " ", "Zoë 日本", 0, 7, -3, 2.5, -0.5, 1e15, True, False, ["north", 7], [["a"], "b", 1.5], "x" * 300]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return (posteriors, rule, path) of a rule exported for each hash."""
    results = {}
    for hashing in HASHES:
        Z, rule = make_rule()
        folder = tmp_path_factory.mktemp(hashing)
        rule.export(folder / "fair.json", hashing=hashing)
        results[hashing] = Z, rule, folder / "fair.json"
    return results


@pytest.mark.parametrize("hashing", HASHES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_are_those_of_the_rule(language, hashing, exported):
    Z, rule, path = exported[hashing]
    persons = [f"person {k}" for k in range(len(Z))]
    requests = [{"person": person, "joint": z} for person, z in zip(persons, Z.tolist(), strict=True)]
    lines = ask_scorer(language, path, requests, rule.key)
    assert [line["answer"] for line in lines] == rule.predict(Z, keys=persons, hashing=hashing).tolist()
    np.testing.assert_allclose([line["probabilities"] for line in lines], rule.predict_proba(Z), atol=1e-10)
    assert (rule.predict_proba(Z).max(axis=1) < 0.99).sum() > 5


@pytest.mark.parametrize("language", LANGUAGES)
def test_factors_are_multiplied(language, exported):
    Z, rule, path = exported["blake2b"]
    P = Z.sum(axis=1)
    Q = Z / P[:, None, :]
    requests = [{"person": 1, "classes": p, "groups": q} for p, q in zip(P[:50].tolist(), Q[:50].tolist(), strict=True)]
    lines = ask_scorer(language, path, requests, rule.key)
    np.testing.assert_allclose([line["probabilities"] for line in lines], rule.predict_proba(Z[:50]), atol=1e-8)


@pytest.mark.parametrize("language", LANGUAGES)
def test_offsets_are_added_to_the_scores(language, exported):
    Z, rule, path = exported["blake2b"]
    offset = np.random.default_rng(0).normal(0, 0.1, (40, 3))
    requests = [{"person": 1, "joint": z, "offset": o} for z, o in zip(Z[:40].tolist(), offset.tolist(), strict=True)]
    lines = ask_scorer(language, path, requests, rule.key)
    np.testing.assert_allclose(
        [line["probabilities"] for line in lines], rule.predict_proba(Z[:40], offset=offset), atol=1e-8
    )


# -- bytes -----------------------------------------------------------------------------------------------------
def test_bytes_of_a_person_are_those_of_the_package():
    scorer = scorer_module()
    for person in [*PERSONS, b"raw", 2**70, "17.0", "-3.0", "017.0", "1.00", "17.0\n", "٧.0"]:
        assert scorer.person_bytes(person) == key_bytes(person)
        for hashing in HASHES:
            expected = uniforms(KEY, [b"k" + key_bytes(person)], hashing)[0]
            assert scorer.draw(KEY, person, hashing) == expected


def test_bytes_are_as_published():
    """The table of docs/guide/production.md, by hand: tag, length, little-endian."""
    scorer = scorer_module()
    assert scorer.person_bytes("é") == b"s\xc3\xa9"
    assert scorer.person_bytes(7) == scorer.person_bytes(7.0) == scorer.person_bytes("7") == b"s7"
    assert scorer.person_bytes(True) == b"s1"
    assert scorer.person_bytes(2.5) == b"f" + struct.pack("<d", 2.5)
    assert scorer.person_bytes(["a", 1]) == b"t" + struct.pack("<Q", 2) + b"sa" + struct.pack("<Q", 2) + b"s1"
    digest = hashlib.blake2b(b"ks\xc3\xa9", key=KEY, digest_size=8).digest()
    assert scorer.draw(KEY, "é", "blake2b") == (int.from_bytes(digest, "little") >> 11) / 2**53
    digest = hmac.new(KEY, b"ks\xc3\xa9", "sha256").digest()[:8]
    assert scorer.draw(KEY, "é", "hmac-sha256") == (int.from_bytes(digest, "little") >> 11) / 2**53


@pytest.mark.parametrize("hashing", HASHES)
def test_both_languages_draw_the_same_numbers(hashing, tmp_path):
    command("node", SCORERS)
    persons = [*PERSONS, *("a" * n for n in (117, 118, 119, 125, 126, 127, 128, 245, 254, 255, 256))]
    script = tmp_path / "draw.mjs"
    script.write_text(
        f"import {{ draw }} from {json.dumps((SCORERS / 'optfair_score.mjs').as_uri())};\n"
        f"const key = Buffer.from('{KEY.hex()}', 'hex');\n"
        f"console.log(JSON.stringify({json.dumps(persons)}.map((person) => draw(key, person, '{hashing}'))));\n"
    )
    process = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)
    expected = [scorer_module().draw(KEY, person, hashing) for person in persons]
    assert json.loads(process.stdout) == expected


# -- refusals --------------------------------------------------------------------------------------------------
DAMAGE = {
    "a weight": lambda d: d["rule"]["weights"][0].__setitem__(0, d["rule"]["weights"][0][0] + 1e-3),
    "a temperature": lambda d: d["rule"]["temperatures"].__setitem__(0, d["rule"]["temperatures"][0] * 1.5),
    "the hash": lambda d: d.__setitem__("hashing", "hmac-sha256" if d["hashing"] == "blake2b" else "blake2b"),
    "classes in another order": lambda d: d["classes"].reverse(),
    "an answer": lambda d: d["vectors"]["cases"][0].__setitem__("answer", "nobody"),
    "a draw": lambda d: d["vectors"]["cases"][0].__setitem__("draw", 0.5),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("part", DAMAGE)
def test_a_file_is_refused_whose_test_vectors_do_not_come_out(part, language, exported):
    _, rule, path = exported["blake2b"]
    document = json.loads(path.read_text("utf-8"))
    del document["sha256"]
    DAMAGE[part](document)
    damaged = path.parent / f"{language}-{part.replace(' ', '-')}.json"
    damaged.write_bytes(sealed_content(document))
    process = run_scorer(language, damaged, [], rule.key)
    assert process.returncode != 0 and "a test vector does not come out" in process.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_is_refused_in_which_one_digit_was_changed(language, exported):
    """Check places that no test vector looks at, too: the description, and the last digits of numbers."""
    _, rule, path = exported["blake2b"]
    content = path.read_bytes()
    digits = [k for k, byte in enumerate(content) if byte in b"0123456789"]
    damaged = path.parent / f"digit-{language}.json"
    for k in np.random.default_rng(0).choice(digits, 5, replace=False).tolist():
        damaged.write_bytes(content[:k] + (b"7" if content[k : k + 1] != b"7" else b"3") + content[k + 1 :])
        assert "is damaged, or was changed; export it again" in run_scorer(language, damaged, [], rule.key).stderr
    for cut in (content[:-1], content[:40], b"", b"{}"):
        damaged.write_bytes(cut)
        assert "is damaged, or was changed; export it again" in run_scorer(language, damaged, [], rule.key).stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_another_file_is_refused(language, exported, tmp_path):
    _, _, path = exported["blake2b"]
    other = path.parent / "other.json"
    other.write_bytes(sealed_content({"format": "optfair scorer", "version": 2}))
    assert "not a scorer of version 1" in run_scorer(language, other, []).stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_key_is_checked(language, exported):
    Z, rule, path = exported["blake2b"]
    undecided = Z[rule.predict_proba(Z).max(axis=1) < 0.99][0].tolist()
    certain = Z[rule.predict_proba(Z).max(axis=1) == 1][0].tolist()
    assert "not the one that belongs" in run_scorer(language, path, [], new_key(99)).stderr
    replies = ask_each(language, path, [{"person": 1, "joint": z} for z in (undecided, certain)], "answer")
    assert replies[0].startswith("key: missing, and this answer is drawn by it; set OPTFAIR_KEY, or give key")
    assert replies[1] in rule.classes  # nothing is drawn
    [reply] = ask_each(language, path, [{"joint": undecided}], "answer", rule.key)
    assert "must be valid text, a number, bytes, or a list of these, and not empty." in reply


def test_a_key_file_that_others_can_read_is_refused(exported, tmp_path):
    Z, rule, path = exported["blake2b"]
    rule.save(tmp_path / "rule.json")
    key_file = tmp_path / "rule.json.key"
    scorer = scorer_module().load(str(path), key_file=str(key_file))
    assert scorer.key == rule.key
    assert [scorer.answer(k, joint=z) for k, z in enumerate(Z[:20].tolist())] == rule.predict(
        Z[:20], keys=range(20)
    ).tolist()
    os.chmod(key_file, 0o644)
    with pytest.raises(ValueError, match=r"rule.json.key: others can read the key; chmod 600.$"):
        scorer_module().load(str(path), key_file=str(key_file))


BAD = {
    "too few groups": [[0.5, 0.3, 0.2]],
    "too few classes": [[0.3, 0.2], [0.3, 0.1], [0.1, 0.0]],
    "a sum above one": [[0.5, 0.3, 0.2], [0.1, 0.0, 0.0], [0.0, 0.0, 0.0]],
    "a negative one": [[-0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]],
    "not a number": [[float("nan"), 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]],
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_posterior_is_refused(case, exported):
    _, rule, path = exported["blake2b"]
    scorer = scorer_module().load(str(path), key=rule.key)
    with pytest.raises(ValueError, match=r"^joint: "):
        scorer.answer("x", joint=BAD[case])
    if case != "not a number":  # which JSON does not have
        [reply] = ask_each("node", path, [{"joint": BAD[case]}])
        assert reply.startswith("joint: ")


@pytest.mark.parametrize("person", [None, float("nan"), float("inf"), {"a": 1}, object(), "", b"", [], [""]])
def test_who_has_no_bytes_is_refused(person):
    with pytest.raises(ValueError, match=r"must be valid text, a number, bytes, or a list of these, and not empty\.$"):
        scorer_module().person_bytes(person)


def test_javascript_refuses_numbers_that_it_has_not_read_whole(exported):
    Z, rule, path = exported["blake2b"]
    undecided = Z[rule.predict_proba(Z).max(axis=1) < 0.99][0].tolist()
    [reply] = ask_each("node", path, [{"person": 2**60, "joint": undecided}], "answer", rule.key)
    assert "has lost digits" in reply


# -- what the files are ----------------------------------------------------------------------------------------
def test_the_python_scorer_needs_the_standard_library_only():
    tree = ast.parse((SCORERS / "optfair_score.py").read_text("utf-8"), feature_version=(3, 8))
    modules = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    assert modules <= set(sys.stdlib_module_names)


def test_the_javascript_scorer_needs_node_only():
    lines = [
        line for line in (SCORERS / "optfair_score.mjs").read_text("utf-8").splitlines() if line.startswith("import")
    ]
    assert lines and all(' from "node:' in line for line in lines)


def test_no_file_holds_the_key(exported, tmp_path):
    for hashing, (_, rule, _) in exported.items():
        for file in rule.export(tmp_path / "fair.json", hashing=hashing):
            content = file.read_bytes()
            assert rule.key not in content and rule.key.hex().encode() not in content


@pytest.mark.parametrize(
    ("label", "expected"),
    [("a", "a"), (np.int64(3), 3), (True, True), (("a", 1), ["a", 1]), (2.5, 2.5), (2**53 - 1, 2**53 - 1)],
)
def test_labels_as_json_has_them(label, expected):
    assert plain_label(label, "classes") == expected


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (2**60, "classes: 1152921504606846976 has more digits than JavaScript reads"),
        (2**53, "classes: 9007199254740992 has more digits than JavaScript reads"),  # which it takes 2**53 + 1 for
    ],
)
def test_labels_that_json_readers_lose(label, message):
    with pytest.raises(ValueError, match=message):
        plain_label(label, "classes")


# -- as a command ----------------------------------------------------------------------------------------------
LOCALES = [{"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "utf-16"}]


def run_command(language, path, content, key, environment=None):
    """Return the finished process of a scorer that was given bytes."""
    line = [part for part in command(language, path.parent) if part != "-I"]  # which ignores the environment
    environment = {"PATH": os.environ["PATH"], "OPTFAIR_KEY": key.hex()} | (environment or {})
    return subprocess.run([*line, str(path)], input=content, env=environment, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Return a rule whose classes are not ASCII, undecided on everybody, its posteriors and its file."""
    Z, rule = make_rule(classes=["niedrig", "größer", "日本"])
    rule.temperatures[:] = 0.3
    return Z, rule, rule.export(tmp_path_factory.mktemp("named") / "fair.json")[0]


@pytest.mark.parametrize("environment", LOCALES, ids=str)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_reads_and_writes_utf_8_whatever_the_locale(language, environment, named):
    Z, rule, path = named
    persons = [f"Zoë 日本 😀 {k}" for k in range(30)]
    lines = [json.dumps({"person": person, "joint": Z[0].tolist()}, ensure_ascii=False) for person in persons]
    process = run_command(language, path, "\n".join(lines).encode(), rule.key, environment)
    assert process.returncode == 0, process.stderr
    answers = [json.loads(line)["answer"] for line in process.stdout.decode("utf-8").splitlines()]
    assert answers == rule.predict(np.repeat(Z[:1], 30, axis=0), keys=persons).tolist()
    assert len(set(answers)) > 1 and "größer".encode() in process.stdout


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_refuses_what_is_not_utf_8_and_skips_empty_lines(language, named):
    Z, rule, path = named
    request = json.dumps({"person": "Zoë", "joint": Z[0].tolist()}, ensure_ascii=False)
    process = run_command(language, path, request.encode("latin-1"), rule.key)
    assert process.returncode == 1 and json.loads(process.stdout)["error"].startswith("not JSON in UTF-8 (")
    content = f"\ufeff{request}\r\n\n  \r\n{request}".encode()
    process = run_command(language, path, content, rule.key)
    assert process.returncode == 0 and len(process.stdout.splitlines()) == 2


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="links of POSIX")
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_may_be_a_link(language, named, tmp_path):
    Z, rule, path = named
    folder = tmp_path / "a folder"
    folder.mkdir()
    for file in path.parent.iterdir():
        (folder / file.name).symlink_to(file)
    requests = [{"person": "id", "joint": Z[0].tolist()}]
    assert ask_scorer(language, folder / "fair.json", requests, rule.key) == ask_scorer(
        language, path, requests, rule.key
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_empty_key_in_the_environment_is_refused(language, named):
    _, rule, path = named
    process = run_command(language, path, b"", rule.key, {"OPTFAIR_KEY": ""})
    assert process.returncode != 0 and b"key: not the one that belongs to this rule" in process.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_says_how_it_is_used(language, named):
    _, _, path = named
    line = command(language, path.parent)
    results = [
        subprocess.run([*line, *more], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        for more in ([], ["--help"], ["-h"], [str(path), "people.jsonl"])
    ]
    usage = results[1].stdout
    assert usage.startswith(f"usage: {language} optfair_score.") and "$OPTFAIR_KEY" in usage and "Exit code: 0" in usage
    assert [result.returncode for result in results] == [2, 0, 0, 2]
    assert [result.stdout for result in results] == ["", usage, usage, ""]
    assert [result.stderr for result in results] == [usage, "", "", usage]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_command_that_cannot_start_says_why_in_one_line(language, named, tmp_path):
    Z, rule, path = named
    requests = [{"person": "id", "joint": Z[0].tolist()}]
    (tmp_path / path.name).write_bytes(b"{}")
    for file in SCORERS.iterdir():
        copy(file, tmp_path)
    reasons = {
        "key: missing, and answers are drawn by it; set OPTFAIR_KEY.\n": run_scorer(language, path, requests),
        "is damaged, or was changed; export it again.\n": run_scorer(
            language, tmp_path / path.name, requests, rule.key
        ),
        "no such file or directory": run_scorer(language, tmp_path / "absent.json", requests, rule.key),
    }
    for reason, process in reasons.items():
        assert (process.returncode, process.stdout, process.stderr.count("\n")) == (2, "", 1)
        assert process.stderr.startswith("optfair_score.") and reason.lower() in process.stderr.lower()
    rule.export(tmp_path / "argmax.json", "argmax")
    [line] = ask_scorer(language, tmp_path / "argmax.json", [{"joint": Z[0].tolist()}])  # needs neither key nor id
    assert line["answer"] == rule.predict(Z[:1], "argmax")[0]


JOINT = [[0.2, 0.1, 0.1], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]
ODD_LINES = {
    "{": "not JSON in UTF-8 (",
    "[1]": 'must be an object, such as {"person": "id-17", "features": {"age": 31}}.',
    "null": 'must be an object, such as {"person": "id-17", "features": {"age": 31}}.',
    json.dumps({"joint": JOINT}): "person: missing, and answers are drawn by it; say who it is.",
    json.dumps({"person": None, "joint": JOINT}): "person: missing, and answers are drawn by it; say who it is.",
    json.dumps({"person": 1, "key": 2, "joint": JOINT}): "person, key: two names of the id; give one of them.",
    json.dumps({"person": 1}): "joint: must be a list of classes for each group, of probabilities that sum to one.",
    json.dumps({"person": 1, "joint": JOINT, "ofset": [1, 0, 0], "id": 1}): "ofset,id: must be joint, classes, groups, "
    "features, group or offset.",
    json.dumps(
        {"person": 1, "joint": JOINT, "\ud800": 1}
    ): "\ud800: must be joint, classes, groups, features, group or offset.",
    json.dumps({"person": 1, "features": {"age": 3}}): "features: the models are not in this file; give joint",
    json.dumps(
        {"person": "", "joint": JOINT}
    ): "must be valid text, a number, bytes, or a list of these, and not empty.",
    json.dumps(
        {"person": {}, "joint": JOINT}
    ): "must be valid text, a number, bytes, or a list of these, and not empty.",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_line_that_cannot_be_answered_is_an_error_in_its_place(language, named):
    """The people before and behind it get their answers."""
    _, rule, path = named
    persons = [f"id-{k}" for k in range(len(ODD_LINES))]
    lines = [""]
    for k, (person, odd) in enumerate(zip(persons, ODD_LINES, strict=True)):
        lines += [odd, json.dumps({("person", "key")[k % 2]: person, "joint": JOINT}), " \t"]
    process = run_command(language, path, "\n".join(lines).encode(), rule.key)
    assert process.returncode == 1 and process.stderr == b""
    replies = [json.loads(line) for line in process.stdout.splitlines()]
    answers = rule.predict(np.repeat([JOINT], len(persons), axis=0), keys=persons).tolist()
    assert [reply["answer"] for reply in replies[1::2]] == answers and len(set(answers)) > 1
    assert [reply["line"] for reply in replies[::2]] == [2 + 3 * k for k in range(len(persons))]
    for message, reply in zip(ODD_LINES.values(), replies[::2], strict=True):
        assert message in reply["error"] and set(reply) == {"error", "line"}, reply
