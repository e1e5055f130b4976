"""What one way to an answer takes and refuses, the others do too: optfair, and the scorers in Python and JavaScript."""

import json
from shutil import copy

import numpy as np
import pandas as pd
import pytest

from optfair.inputs.identity import key_bytes
from optfair.portable.scorer_file import scorer_module, sealed_content
from optfair.rule.decisions import choose, decide
from tests.export.helpers import GROUP, X_NEW, X, Y, fit_post
from tests.portable.helpers import LANGUAGES, SCORERS, ask_each, attempt, javascript, make_rule

NAN = float("nan")


def assert_agree(native, other, case):
    """Check that both refuse, or give the same probabilities."""
    if isinstance(native, str) or isinstance(other, str):
        assert isinstance(native, str) and isinstance(other, str), (case, native, other)
    else:
        np.testing.assert_allclose(other, native, atol=1e-9, err_msg=repr(case))


def exported(model, folder):
    """Return the path of an exported model or rule, made undecided, so that probabilities tell everything apart."""
    getattr(model, "rule_", model).temperatures[:] = 0.2
    return model.export(folder / "fair.json")[0]


# -- groups ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def partly_missing():
    return np.where(np.random.default_rng(0).random(len(Y)) < 0.2, None, GROUP)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("unseen", ["error", "blind"])
def test_a_missing_group_is_the_group_of_missing_ones(unseen, language, partly_missing, tmp_path):
    model = fit_post(awareness="aware", missing="group", unseen=unseen, groups=partly_missing)
    path, x = exported(model, tmp_path), X_NEW[:1].tolist()[0]
    values = [None, NAN, "", "(missing)", "m", "zz"]
    native = [
        attempt(lambda value=value: model.predict_proba(X_NEW[:1], sensitive_features=[value])[0]) for value in values
    ]
    replies = ask_each(language, path, [{"features": x, "group": value} for value in values])
    for value, expected, reply in zip(values, native, replies, strict=True):
        assert_agree(expected, reply, value)
    assert np.abs(native[0] - native[4]).max() > 1e-3  # the groups are told apart
    assert isinstance(native[5], str) == (unseen == "error")
    np.testing.assert_allclose(model.predict_proba(X_NEW[:1], sensitive_features=[pd.NA])[0], native[0])
    np.testing.assert_allclose(ask_each(language, path, [{"features": x}])[0], native[0], atol=1e-9)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("unseen", ["error", "blind"])
def test_a_missing_group_is_refused_where_fit_would_refuse_it(unseen, language, tmp_path):
    """An empty text is a name then, which was not seen; also where a group is called like the missing ones."""
    model = fit_post(awareness="aware", unseen=unseen, groups=np.where(GROUP == "m", "(missing)", "w"))
    path, x = exported(model, tmp_path), X_NEW[:1].tolist()[0]
    values = [None, NAN, [None], "", "zz", "(missing)", "w"]
    replies = ask_each(language, path, [{"features": x, "group": value} for value in values] + [{"features": x}])
    for value, reply in zip([*values, None], replies, strict=True):
        native = attempt(lambda value=value: model.predict_proba(X_NEW[:1], sensitive_features=[value])[0])
        assert_agree(native, reply, value)
    is_refused = [isinstance(reply, str) for reply in replies]
    assert is_refused == [True, True, True, *[unseen == "error"] * 2, False, False, True]
    assert all("must be one of" in reply for reply in replies if isinstance(reply, str))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_missing_attribute_is_refused_where_fit_would_refuse_it(language, tmp_path):
    groups = pd.DataFrame({"sex": GROUP, "region": np.random.default_rng(1).integers(0, 2, len(Y))})
    model = fit_post(awareness="aware", unseen="blind", groups=groups)
    path, x = exported(model, tmp_path), X_NEW[:1].tolist()[0]
    values = [["m", None], [NAN, 1], [None, None], ["", 1], ["m", 1]]
    replies = ask_each(language, path, [{"features": x, "group": value} for value in values])
    for value, reply in zip(values, replies, strict=True):
        native = attempt(lambda value=value: model.predict_proba(X_NEW[:1], sensitive_features=[value])[0])
        assert_agree(native, reply, value)
    assert [isinstance(reply, str) for reply in replies] == [True, True, True, False, False]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_missing_attribute_is_one_of_a_group(language, partly_missing, tmp_path):
    region = np.random.default_rng(1).integers(0, 2, len(Y))
    groups = pd.DataFrame({"sex": partly_missing, "region": region})
    model = fit_post(awareness="aware", missing="group", unseen="blind", groups=groups)
    path, x = exported(model, tmp_path), X_NEW[:1].tolist()[0]
    values = [["m", 1], [None, 1], ["", 0], [NAN, 1], ["m", None], [None, None], ["x", 1]]
    replies = ask_each(language, path, [{"features": x, "group": value} for value in values])
    for value, reply in zip(values, replies, strict=True):
        assert_agree(model.predict_proba(X_NEW[:1], sensitive_features=[value])[0], reply, value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_group_that_is_among_the_features_is_not_taken_for_missing(language, partly_missing, tmp_path):
    table = pd.DataFrame({"age": X[:, 0], "sex": partly_missing})
    model = fit_post(X=table, groups=None, sensitive_features="sex", awareness="aware", missing="group")
    path = exported(model, tmp_path)
    requests = [{"features": {"age": 0.5, "sex": sex}, "group": sex} for sex in ("m", None)]
    requests += [{"features": {"age": 0.5, "sex": None}}, {"features": {"age": 0.5}}]
    for request, reply in zip(requests, ask_each(language, path, requests), strict=True):
        np.testing.assert_allclose(reply, model.predict_proba(request["features"])[0], atol=1e-9)
    [reply] = ask_each(language, path, [{"features": {"age": 0.5, "sex": "m"}}])
    assert reply == "group: missing, and the features have one; give it as the group too."


LABELS = {
    "numbers": [1, 2],
    "truth values": [False, True],
    "texts": ["1", "2"],
    "fractions": [1.5, 2.5],
    "texts of truth values": ["True", "False"],
}
VALUES = [
    *(1, 1.0, True, "1", False, 0, 2, -0.0, "True", "1.0", 1.5, 2**60),
    *(["1"], [1], [True], "\ud800", {"a": 1}, [1, 2]),
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("labels", LABELS)
def test_groups_of_every_type_are_those_of_fit(labels, language, tmp_path):
    names = np.array([LABELS[labels][int(group == "w")] for group in GROUP], dtype=object)
    model = fit_post(awareness="aware", unseen="blind", groups=names)
    path, x = exported(model, tmp_path), X_NEW[:1].tolist()[0]
    replies = ask_each(language, path, [{"features": x, "group": value} for value in VALUES])
    for value, reply in zip(VALUES, replies, strict=True):
        native = attempt(lambda value=value: model.predict_proba(X_NEW[:1], sensitive_features=[value])[0])
        assert_agree(native, reply, value)
    distinct = {tuple(np.round(reply, 9)) for reply in replies if not isinstance(reply, str)}
    assert len(distinct) == (3 if labels in ("numbers", "truth values") else 2)  # the groups among them, and none
    strange = replies[VALUES.index([1, 2])], replies[VALUES.index({"a": 1})], replies[VALUES.index("\ud800")]
    assert all(reply.startswith("group=") and "must be one of" in reply for reply in strange)


@pytest.mark.parametrize("language", LANGUAGES)
def test_groups_of_several_attributes_are_lists_of_all_of_them(language, tmp_path):
    groups = pd.DataFrame({"sex": GROUP, "region": np.random.default_rng(1).integers(0, 2, len(Y))})
    model = fit_post(awareness="aware", unseen="blind", groups=groups)
    path, x = exported(model, tmp_path), X_NEW[:1].tolist()[0]
    values = [["m", 1], ["m", True], ["m", 1.0], ["m", "1"], ["x", 1], ["m"], "m", ["m", 1, 2], ["m", [1]]]
    replies = ask_each(language, path, [{"features": x, "group": value} for value in values])
    for value, reply in zip(values, replies, strict=True):
        native = attempt(lambda value=value: model.predict_proba(X_NEW[:1], sensitive_features=[value])[0])
        assert_agree(native, reply, value)
    if language == "python":
        scorer = scorer_module().load(str(path))
        assert scorer.probabilities(features=x, group=("m", 1)) == replies[0] != replies[3]


# -- texts -------------------------------------------------------------------------------------------------------
CODES = ["7", "-0", "0", "1e-05", "0.0001", "1e+16", "10000000000000000", "9007199254740993", "1e+21", "1e-07", "True"]
CODE_VALUES = [
    *("7", 7, "7.0", 7.0, "7.0\n", "٧.0", 0, -0.0, "-0.0", 1e-5, 1.5e-5, 1e-4, 1e-7, 1.25e-7, 0.1, 123456789.125),
    *(2**53 - 1, True, "True", "", None, NAN, "1e+16", "9007199254740993", [7], {"a": 7}, "\ud800"),
]
LARGE = [2**53, 2**53 + 1, float(2**53), 1e16, 10**16, 1e21, 10**21]


@pytest.fixture(scope="module", params=["7", "7.0"])
def coded(request, tmp_path_factory):
    """Return a model that reads a column of codes, and the file of the scorers. param : how one of them is written."""
    rng = np.random.default_rng(0)
    codes = rng.choice([request.param, *CODES[1:]], len(Y))
    labels = np.array(["low", "mid", "high"])[(pd.factorize(codes)[0] + rng.integers(0, 2, len(Y))) % 3]
    model = fit_post(X=pd.DataFrame({"age": X[:, 0], "code": codes}), y=labels)
    return model, exported(model, tmp_path_factory.mktemp("codes"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_value_of_a_column_of_texts_is_one_text(language, coded):
    model, path = coded
    values = CODE_VALUES + (LARGE if language == "python" else [])
    replies = ask_each(language, path, [{"features": {"age": 0.5, "code": value}} for value in values])
    for value, reply in zip(values, replies, strict=True):
        if value == "\ud800":  # natively an error where pandas holds texts by pyarrow, else a text that nobody had
            assert "must be a number or valid text" in str(reply)
            continue
        native = attempt(lambda value=value: model.predict_proba({"age": 0.5, "code": value})[0])
        assert_agree(native, reply, value)
    distinct = {tuple(np.round(reply, 9)) for reply in replies if not isinstance(reply, str)}
    assert len(distinct) > 7
    assert replies[values.index([7])] == "code: must be a number or valid text; got [7]."


def test_javascript_refuses_codes_that_it_has_not_read_whole(coded):
    model, path = coded
    for reply in ask_each("node", path, [{"features": {"age": 0.5, "code": value}} for value in LARGE]):
        assert "JavaScript has lost digits of this number; give it as text or as a BigInt." in reply
    body = f"""
const scorer = load({json.dumps(str(path))});
const result = scorer.probabilities({{ features: {{ age: 0.5, code: 9007199254740993n }} }});"""
    native = model.predict_proba({"age": 0.5, "code": 2**53 + 1})[0]
    np.testing.assert_allclose(javascript(path.parent, body), native, atol=1e-9)


@pytest.mark.parametrize("language", LANGUAGES)
def test_features_come_by_name_or_as_a_whole_list(language, coded, tmp_path):
    _, path = coded
    assert ask_each(language, path, [{"features": [0.5, "7"]}])[0].startswith("features: must be ")
    lists = exported(fit_post(), tmp_path)
    x = X_NEW[0].tolist()
    for features in (x[:-1], [*x, 0.0], {"a": 1.0}):
        [reply] = ask_each(language, lists, [{"features": features}])
        assert reply == "features: must be a list of 5 values."
    assert not isinstance(ask_each(language, lists, [{"features": x}])[0], str)


# -- numbers -----------------------------------------------------------------------------------------------------
OFFSETS = [
    *([], [0.1], [0.1, 0.2], [0.1, 0.2, 0.3, 0.4], [0.1, NAN, 0.0], [float("inf"), 0, 0]),
    *(["1", "2", "3"], [None, 0, 0], [1e101, 0, 0], [True, False, 0], [0, 0, 0], [0.3, -0.2, 5]),
    *([0.1, -1e100, 0.0], 0.5, "abc", [[0, 0, 0]]),
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_offset_is_a_number_for_each_class(language, tmp_path):
    Z, rule = make_rule()
    path, z = exported(rule, tmp_path), Z[:1].tolist()[0]
    replies = ask_each(language, path, [{"joint": z, "offset": offset} for offset in OFFSETS])
    for offset, reply in zip(OFFSETS, replies, strict=True):
        assert_agree(attempt(lambda offset=offset: rule.predict_proba(Z[:1], offset=[offset])[0]), reply, offset)
    assert replies[0].startswith("offset: must be a list of 3 numbers, of at most 1e+100.")


POSTERIORS = [
    *([[first, 0, 0], [0, 0, 0], [0, 0, 0]] for first in (1, True, None, "1", [1])),
    *([1, 0, 0], "abc", [[[1, 0, 0]] * 3]),
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_posterior_is_made_of_numbers(language, tmp_path):
    _, rule = make_rule()
    replies = ask_each(language, exported(rule, tmp_path), [{"joint": z} for z in POSTERIORS])
    for z, reply in zip(POSTERIORS, replies, strict=True):
        assert_agree(attempt(lambda z=z: rule.predict_proba([z])[0]), reply, z)


@pytest.mark.parametrize("language", LANGUAGES)
def test_factors_have_all_classes_and_groups(language, tmp_path):
    _, rule = make_rule()
    p, q = [0.5, 0.3, 0.2], [[0.5] * 3, [0.3] * 3, [0.2] * 3]
    requests = [{"classes": p, "groups": q}, {"classes": [*p, 0.0], "groups": q}, {"classes": p, "groups": q[:2]}]
    requests += [{"classes": p}, {"groups": q}, {}]
    replies = ask_each(language, exported(rule, tmp_path), requests)
    assert not isinstance(replies[0], str) and all(reply.startswith("joint: ") for reply in replies[1:])


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_ensemble_asks_for_all_of_its_posteriors(language, tmp_path):
    model = fit_post(ensemble=True)
    path = exported(model, tmp_path)
    z = [[0.3, 0.2, 0.1], [0.2, 0.1, 0.1]]
    replies = ask_each(language, path, [{"joint": [z] * n} for n in (1, 2, 3)])
    assert [isinstance(reply, str) for reply in replies] == [True, False, True]


# -- people ------------------------------------------------------------------------------------------------------
IDS = [
    "\ud800",
    "a\udfff",
    ["a", "\ud800"],
    [["\udc00"]],
    "😀",
    ["😀", 1],
    "é",
    17,
    2.5,
    True,
    None,
    [None],
    "",
    [],
    ["a", ""],
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_id_is_valid_text_or_refused_whether_it_is_drawn_or_not(language, tmp_path):
    Z, rule = make_rule()
    path, h = exported(rule, tmp_path), rule.predict_proba(Z)
    drawn, certain = Z[h.max(axis=1).argmin()], np.eye(9)[4].reshape(3, 3)
    for z in (drawn, certain):
        requests = [{"person": person, "joint": z.tolist()} for person in IDS if z is drawn or person is not None]
        for request, reply in zip(requests, ask_each(language, path, requests, "answer", rule.key), strict=True):
            native = attempt(lambda r=request: rule.predict([r["joint"]], keys=[r["person"]])[0])
            if native in rule.classes or reply in rule.classes:
                assert native == reply, request
    with pytest.raises(ValueError, match=r"^keys: .* is not valid text \(a lone surrogate\)"):
        rule.predict(Z[:1], keys=[("a", ["\ud800"])])


# -- ties --------------------------------------------------------------------------------------------------------
TIES = [[1 / 3] * 3, [0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.3, 0.35, 0.35], [0.35 - 1e-14, 0.3, 0.35]]
LAST = float(np.nextafter(1.0, 0.0))
# At each sum of probabilities, and just before it: the class begins there.
BOUNDARIES = [
    ([0.25, 0.5, 0.25], [0.0, 0.25, 0.75, float(np.nextafter(0.25, 0)), float(np.nextafter(0.75, 0)), LAST]),
    ([0.5, 0.5, 0.0], [0.0, 0.5, float(np.nextafter(0.5, 0)), LAST]),
    ([0.0, 0.5, 0.5], [0.0, 0.5, LAST]),
    ([0.125, 0.125, 0.75], [0.125, 0.25, LAST]),
]


def test_a_draw_at_the_end_of_one_class_is_the_beginning_of_the_next(tmp_path):
    cases = [(h, u) for h, draws in BOUNDARIES for u in draws]
    native = [int(choose(np.array([h]), np.array([u]))[0]) for h, u in cases]
    assert native == [0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 1, 2, 2, 1, 2, 2]
    assert [scorer_module().choose(h, u) for h, u in cases] == native
    copy(SCORERS / "optfair_score.mjs", tmp_path)
    body = f"const result = {json.dumps(cases)}.map(([h, u]) => choose(h, u));"
    assert javascript(tmp_path, body, "choose") == native


@pytest.mark.parametrize("decision", ["argmax", "hashed"])
def test_of_equal_probabilities_the_first_class_counts(decision, tmp_path):
    """By argmax the first of the likeliest classes; by a draw of zero the first class that is possible."""
    _, rule = make_rule()
    path = rule.export(tmp_path / "fair.json", decision)[0]
    if decision == "argmax":
        positions = decide(np.array(TIES), "argmax", lambda rows: [])
    else:
        positions = choose(np.array(TIES), np.zeros(len(TIES)))
    native = rule.classes.to_numpy()[positions].tolist()
    scorer = scorer_module().load(str(path))
    assert [scorer.decide(h, 0.0) for h in TIES] == native
    body = f"""
const scorer = load({json.dumps(str(path))});
const result = {json.dumps(TIES)}.map((h) => scorer.decide(h, 0));"""
    assert javascript(tmp_path, body) == native
    assert native[:5] == ["low", "low", "mid", *(["mid", "low"] if decision == "argmax" else ["low", "low"])]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("decision", ["argmax", "hashed"])
@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_of_equal_scores_the_first_class_is_the_answer(temperature, decision, language, tmp_path):
    """All classes score alike, up to rounding: cold, it is the first one; warm, each has a third."""
    Z, rule = make_rule()
    rule.weights[:] = rule.weights[:, :, :1] + np.array([0.0, 1e-14, -1e-14])
    rule.temperatures[:], rule.constant[:] = temperature, 1 / 3
    path = rule.export(tmp_path / "fair.json", decision)[0]
    requests = [{"person": f"id-{k}", "joint": z} for k, z in enumerate(Z[:60].tolist())]
    keys = [request["person"] for request in requests]
    native = rule.predict(Z[:60], decision, keys=keys if decision == "hashed" else None).tolist()
    assert ask_each(language, path, requests, "answer", rule.key) == native
    assert (set(native) == {"low"}) == (temperature == 0 or decision == "argmax")


# -- documents ---------------------------------------------------------------------------------------------------
CUTS = {
    "no vectors": lambda d: d["vectors"].__setitem__("cases", []),
    "any slack": lambda d: d["vectors"].__setitem__("slack", 1.0),
    "less than no slack": lambda d: d["vectors"].__setitem__("slack", -1e-9),
    "a part": lambda d: d.pop("rule"),
    "a name": lambda d: d.pop("groups"),
    "a group": lambda d: d["groups"].pop(),
    "a class": lambda d: d["classes"].pop(),
    "a further class": lambda d: d["classes"].append("further"),
    "weights": lambda d: d["rule"]["weights"].pop(),
    "a column of weights": lambda d: [line.pop() for line in d["rule"]["weights"]],
    "one weight": lambda d: d["rule"]["weights"][-1].pop(),
    "a further weight": lambda d: d["rule"]["weights"][0].append(0.0),
    "temperatures": lambda d: d["rule"]["temperatures"].pop(),
    "constant": lambda d: d["rule"]["constant"].pop(),
    "scalings": lambda d: d["calibration"]["groups"].pop(),
    "slopes": lambda d: d["calibration"]["groups"][-1]["slopes"].pop(),
    "a slope": lambda d: d["calibration"]["groups"][-1]["slopes"][0].pop(),
    "intercepts": lambda d: d["calibration"]["groups"][-1]["intercepts"].pop(),
    "cells": lambda d: d["calibration"]["groups"][-1]["cells"].pop(),
    "another cell": lambda d: d["calibration"]["groups"][-1]["cells"].__setitem__(0, 9),
    "inputs": lambda d: d["calibration"]["groups"][-1]["inputs"].pop(),
    "another input": lambda d: d["calibration"]["groups"][-1]["inputs"].__setitem__(0, 99),
    "the models": lambda d: d["posterior"]["groups"].pop(),
    "slopes of a model": lambda d: d["posterior"]["classes"]["slopes"].pop(),
    "probabilities": lambda d: d["vectors"]["cases"][0]["probabilities"].pop(),
}


@pytest.fixture(scope="module")
def factored(tmp_path_factory):
    """Return the document of a model with all kinds of parts, and its folder."""
    rows = np.random.default_rng(0).permutation(len(Y))[:300]
    model = fit_post(X=X[rows], y=Y[rows], groups=GROUP[rows], posterior="factored")
    path = exported(model, tmp_path_factory.mktemp("factored"))
    document = json.loads(path.read_text("utf-8"))
    del document["sha256"]
    assert document["calibration"]["kind"] == "factors" and document["posterior"]["classes"]
    return document, path.parent


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("part", CUTS)
def test_a_document_that_was_cut_is_refused(part, language, factored):
    document, folder = factored
    document = json.loads(json.dumps(document))
    CUTS[part](document)
    path = folder / f"{language}.json"
    path.write_bytes(sealed_content(document))
    if language == "python":
        reply = attempt(scorer_module().load, str(path))
    else:
        reply = javascript(folder, f"const result = attempt(() => load({json.dumps(str(path))}));")
    assert isinstance(reply, str) and reply.endswith(("export it again.", "sum to one.", "this platform differs."))


def test_ids_have_the_bytes_of_the_package():
    for person in (10**400, -0.0, 1e300, "😀"):
        assert scorer_module().person_bytes(person) == key_bytes(person)
