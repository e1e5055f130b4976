"""Test the rule: a softmax (or an argmax) of linear scores, possibly mixed with a constant, that predicts names."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair.rule.rule import flat, rule_probabilities
from tests.problems import aware, blind


def by_hand(rule, Z, offset=0.0):
    """Return softmax(z·W / τ(x)) row by row, mixed with the constant."""
    out = []
    for k, z in enumerate(Z):
        scores = sum(z[a, i] * rule.weights[a, i] for a in range(z.shape[0]) for i in range(z.shape[1]))
        scores = scores + (offset if np.isscalar(offset) else offset[k])
        if (rule.temperatures == 0).all():
            h = np.eye(len(scores))[int(np.argmax(scores))]
        else:
            tau = (z * rule.temperatures).sum()
            h = np.exp((scores - scores.max()) / tau)
            h /= h.sum()
        out.append((1 - rule.share) * h + rule.share * rule.constant)
    return np.array(out)


def test_the_rule_is_undecided_on_some_rows(rule, Z):
    largest = rule.predict_proba(Z).max(axis=1)
    assert 0.01 < (largest < 0.99).mean() < 0.9 and rule.certificate.temperature > 0


def test_probabilities_are_the_softmax_of_the_scores(rule, Z):
    h = rule.predict_proba(Z)
    assert h.shape == (len(Z), 3) and (h >= 0).all()
    np.testing.assert_allclose(h.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(h, by_hand(rule, Z), atol=1e-9)


def test_each_cell_has_its_own_temperature(rule, Z):
    hot = replace(rule, temperatures=rule.temperatures * np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]]))
    np.testing.assert_allclose(hot.predict_proba(Z), by_hand(hot, Z), atol=1e-9)


def test_temperature_zero_is_argmax(rule, Z):
    hard = replace(rule, temperatures=np.zeros((3, 3)))
    np.testing.assert_array_equal(hard.predict_proba(Z), by_hand(hard, Z))
    np.testing.assert_array_equal(hard.predict(Z), hard.predict(Z, decision="argmax"))
    # and it is the limit of small temperatures
    cold = replace(rule, temperatures=np.full((3, 3), 1e-9))
    np.testing.assert_allclose(cold.predict_proba(Z), hard.predict_proba(Z), atol=1e-9)


def test_high_temperature_is_uniform(rule, Z):
    np.testing.assert_allclose(replace(rule, temperatures=np.full((3, 3), 1e9)).predict_proba(Z), 1 / 3, atol=1e-6)


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("cold", [False, True])
def test_a_mixed_rule(rule, Z, share, cold):
    q = np.array([0.5, 0.0, 0.5])
    pure = replace(rule, temperatures=np.zeros((3, 3))) if cold else rule
    mixed = replace(pure, share=share, constant=q)
    h = mixed.predict_proba(Z)
    np.testing.assert_allclose(h, (1 - share) * pure.predict_proba(Z) + share * q, atol=1e-12)
    np.testing.assert_allclose(h, by_hand(mixed, Z), atol=1e-9)
    if share == 1.0:
        assert set(mixed.predict(Z, keys=range(len(Z)))) == {"low", "high"}


def test_an_offset_adds_to_the_scores(rule, Z):
    offset = np.random.default_rng(0).normal(size=(len(Z), 3)) * 0.1
    h = rule.predict_proba(Z, offset=offset)
    np.testing.assert_allclose(h, by_hand(rule, Z, offset), atol=1e-9)
    np.testing.assert_allclose(rule.predict_proba(Z, offset=np.full((len(Z), 3), 7)), rule.predict_proba(Z), atol=1e-9)
    sure = np.zeros((len(Z), 3))
    sure[:, 1] = 1e6
    assert (rule.predict(Z, offset=sure) == "mid").all()


def test_the_certificate_is_what_predict_proba_does(rule, Z):
    h = rule.predict_proba(Z)
    assert np.einsum("xai,xi->", Z, h) / len(Z) == pytest.approx(rule.certificate.accuracy, abs=1e-10)


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (["low", "mid", "high"], str),
        ([3, 1, 2], np.integer),
        ([0.0, 1.0, 2.5], np.floating),
        (["yes", True, 7], (str, bool, int)),
        ([("a", 1), ("b", 2), ("c", 3)], tuple),
        (pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"]), np.datetime64),
        (None, np.integer),
    ],
)
@pytest.mark.parametrize("decision", ["hashed", "argmax", "sampled"])
def test_predict_gives_class_names_of_their_own_type(Z, classes, kind, decision):
    rule = optfair.solve(Z, "dp", 0.01, classes=classes, random_state=0, n_jobs=1)
    names = rule.predict(Z, decision=decision)
    assert names.shape == (len(Z),) and all(isinstance(name, kind) for name in names)
    listed = list(range(3)) if classes is None else list(classes)
    assert set(rule.classes) == set(listed)
    if decision == "argmax":
        codes = rule.predict_proba(Z).argmax(axis=1)
        assert all(name == listed[j] for name, j in zip(names, codes, strict=True))


def test_two_classes_named_false_and_true():
    Z = aware(1, n=200, A=2, m=2)
    answer = optfair.solve(Z, "dp", 0.05, classes=[False, True], n_jobs=1).predict(Z)
    assert answer.dtype == bool and 0 < answer.sum() < 200


def test_no_rows_give_no_answers(rule, Z):
    assert rule.predict_proba(Z[:0]).shape == (0, 3)
    for decision in ("hashed", "argmax", "sampled"):
        assert rule.predict(Z[:0], decision=decision).shape == (0,)


def test_threads_do_not_change_the_answer(rule):
    Z = blind(3, n=70_000)
    np.testing.assert_array_equal(rule.predict_proba(Z, n_jobs=1), rule.predict_proba(Z, n_jobs=2))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda rule: pickle.loads(pickle.dumps(rule))])
def test_a_copy_answers_the_same(rule, Z, copied):
    np.testing.assert_array_equal(copied(rule).predict(Z), rule.predict(Z))


def test_the_rule_tells_what_it_is(rule):
    assert "3 groups and 3 classes" in repr(rule)
    assert f"{rule.certificate.accuracy:.4f}" in repr(rule) and f"{rule.certificate.violation:.4f}" in repr(rule)
    assert "randomised" in str(rule.determinism) and "gap" in str(rule.certificate)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decision": "coin"}, r"^decision='coin': must be one of 'hashed', 'argmax', 'sampled'\.$"),
        ({"decision": "argmax", "keys": [1]}, r"^keys: only decision='hashed' uses them; got decision='argmax'\.$"),
        ({"decision": "sampled", "keys": [1]}, r"^keys: only decision='hashed' uses them; got decision='sampled'\.$"),
        ({"random_state": 0}, r"^random_state: only decision='sampled' draws; got decision='hashed'\.$"),
        ({"decision": "argmax", "random_state": 0}, r"^random_state: only decision='sampled' draws"),
        ({"keys": [1, 2]}, r"^keys: 2 given for 1 rows; give one key per row\.$"),
        ({"keys": 5}, r"^keys=5: must be a list with one key per row\.$"),
        ({"keys": "a"}, r"^keys='a': must be a list with one key per row\.$"),
        ({"offset": np.zeros((2, 3))}, r"^offset: has shape \(2, 3\); expected numbers of shape \(1, 3\)\.$"),
        ({"offset": [[0, 0, np.nan]]}, r"^offset: holds NaN or infinite values\.$"),
        ({"n_jobs": 0}, r"^n_jobs=0: must be None, -1 or a positive integer\.$"),
    ],
)
def test_predict_refuses(rule, Z, arguments, message):
    with pytest.raises(ValueError, match=message):
        rule.predict(Z[:1], **arguments)


@pytest.mark.parametrize("ask", ["predict", "predict_proba"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda Z: Z[0], r"^Z: has shape \(3, 3\); expected \(n, n_groups, n_classes\)\.$"),
        (lambda Z: Z[:, :2], r"^Z: has shape \(300, 2, 3\); this rule was solved for \(n, 3, 3\)\.$"),
        (lambda Z: Z.reshape(300, 9), r"^Z: has shape \(300, 9\)"),
        (lambda Z: Z * 2, r"^Z: row 0 sums to 2; each row must be probabilities that sum to 1\.$"),
        (lambda Z: np.where(np.arange(300)[:, None, None] == 7, np.nan, Z), r"^Z: row 7 holds NaN or infinite values"),
        (lambda Z: Z.astype(str), r"^Z: has dtype <U32; expected an array of probabilities\.$"),
    ],
)
def test_a_wrong_posterior_is_refused(rule, Z, ask, bad, message):
    with pytest.raises(ValueError, match=message):
        getattr(rule, ask)(bad(Z))


def test_without_its_key_a_rule_cannot_hash(rule, Z):
    without = replace(rule, key=None)
    with pytest.raises(ValueError, match=r"^decision='hashed': this rule was loaded without its key\."):
        without.predict(Z)
    np.testing.assert_array_equal(without.predict(Z, decision="argmax"), rule.predict(Z, decision="argmax"))
    # where nothing is undecided no key is needed
    certain = replace(without, temperatures=np.zeros((3, 3)))
    np.testing.assert_array_equal(certain.predict(Z), certain.predict(Z, decision="argmax"))


def test_probabilities_of_rows_are_those_of_the_rule(rule, Z):
    """`rule_probabilities` is what the certificate assesses and what `predict_proba` returns."""
    offset = np.random.default_rng(0).normal(size=(len(Z), 3)) * 0.1
    for odd in (rule, replace(rule, temperatures=np.zeros((3, 3))), replace(rule, share=0.3, constant=np.eye(3)[1])):
        parts = flat(odd.weights), odd.temperatures.ravel(), odd.share, odd.constant
        for extra in (None, offset):
            h = rule_probabilities(Z.reshape(len(Z), -1), extra, *parts)
            np.testing.assert_array_equal(h, odd.predict_proba(Z, offset=extra))
