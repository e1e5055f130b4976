"""Labelled rows are counted by the definition of J and S, from labels, probabilities and codes alike."""

import numpy as np
import pandas as pd
import pytest

from optfair.metrics import group_confusion, violation
from optfair.metrics.counts import count_codes, count_rows
from tests.metrics.helpers import random_rows
from tests.problems import CRITERIA

FIELDS = ("tensor", "n_people", "hard", "second_moment")


def predictions(seed=0):
    """Return {name: prediction} of the same rows."""
    _, label, h, _, _ = random_rows(seed)
    return {"labels": label, "one-hot": np.eye(3)[label], "soft": h}


@pytest.mark.parametrize("weights", ["none", "equal", "random"])
@pytest.mark.parametrize("kind", predictions())
def test_counts_are_their_definition(kind, weights):
    y, label, h, a, w = random_rows(0)
    h = h if kind == "soft" else np.eye(3)[label]
    w = {"none": None, "equal": np.full(len(y), 0.3), "random": w}[weights]
    counts = group_confusion(y, predictions()[kind], sensitive_features=a, sample_weight=w)
    share = np.ones(len(y)) if w is None else w
    share = share / share.sum()
    tensor, moments, n_people = np.zeros((3, 3, 3)), np.zeros((3, 3, 3, 3)), np.zeros((3, 3))
    for k in range(len(y)):
        tensor[a[k], y[k]] += share[k] * h[k]
        moments[a[k], y[k]] += share[k] ** 2 * np.outer(h[k], h[k])
        n_people[a[k], y[k]] += share[k] > 0
    np.testing.assert_allclose(counts.tensor, tensor, atol=1e-12)
    np.testing.assert_allclose(counts.moments, moments, atol=1e-12)
    np.testing.assert_allclose(counts.prior, tensor.sum(-1), atol=1e-12)
    np.testing.assert_array_equal(counts.n_people, n_people)
    assert counts.hard == (kind != "soft" and weights != "random")


@pytest.mark.parametrize("exponent", [-1000, -520, 520, 1020])
@pytest.mark.parametrize("kind", predictions())
def test_the_scale_of_weights_does_not_matter(kind, exponent):
    """Not even where their squares overflow, or are zero; a power of two changes no digit."""
    y, _, _, a, w = random_rows(0)
    plain, scaled = (
        group_confusion(y, predictions()[kind], sensitive_features=a, sample_weight=weight)
        for weight in (w, np.ldexp(w, exponent))
    )
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(plain, name), getattr(scaled, name))
    options = {"n_replicates": 50, "random_state": 0}
    assert str(plain.violation_interval("eo", **options)) == str(scaled.violation_interval("eo", **options))


def test_weights_of_very_different_sizes():
    y, label, _, a, _ = random_rows(0)
    weight = np.where(np.arange(len(y)) % 2, 1e160, 1e-160)
    heavy = weight > 1
    both = group_confusion(y, label, sensitive_features=a, sample_weight=weight)
    alone = group_confusion(y[heavy], label[heavy], sensitive_features=a[heavy])
    np.testing.assert_allclose(both.tensor, alone.tensor, rtol=1e-12)
    assert both.violation_interval("dp", n_replicates=50).upper <= 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", predictions())
def test_codes_are_counted_as_the_rows_they_stand_for(kind, weighted):
    """Check count_codes against group_confusion, which names the rows and divides probabilities by their sum."""
    y, _, _, a, w = random_rows(0)
    w, prediction = w if weighted else None, predictions()[kind]
    groups, classes = pd.Index(["f", "m", "x"]), pd.Index(["high", "low", "none"])
    labels = classes.to_numpy()[prediction] if prediction.ndim == 1 else prediction
    by_codes = count_codes(a, y, prediction, w, groups, classes)
    by_names = group_confusion(
        classes.to_numpy()[y], labels, sensitive_features=groups.to_numpy()[a], sample_weight=w, classes=classes
    )
    for field in FIELDS:
        tolerance = 1e-14 if kind == "soft" else 0
        np.testing.assert_allclose(getattr(by_codes, field), getattr(by_names, field), rtol=tolerance)
    assert by_names.groups.tolist() == groups.tolist() and by_names.classes.tolist() == classes.tolist()


def test_group_confusion_holds_the_counts_of_the_rows():
    y, label, _, a, w = random_rows(1)
    counts, confusion = count_rows(y, label, a, w), group_confusion(y, label, sensitive_features=a, sample_weight=w)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(counts, field), getattr(confusion, field))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_hot_probabilities_are_labels(criterion):
    y, label, _, a, w = random_rows(1)
    for weight in (None, w):
        hard = group_confusion(y, label, sensitive_features=a, sample_weight=weight)
        soft = group_confusion(y, np.eye(3)[label], sensitive_features=a, sample_weight=weight)
        pd.testing.assert_frame_equal(hard.gaps(criterion), soft.gaps(criterion))
        assert hard.hard == soft.hard == (weight is None)


def test_soft_moments_of_nearly_one_hot_rows_are_those_of_labels():
    y, label, _, a, w = random_rows(2)
    nearly_one_hot = (1 - 1e-9) * np.eye(3)[label] + 1e-9 / 3
    hard = group_confusion(y, label, sensitive_features=a, sample_weight=w)
    soft = group_confusion(y, nearly_one_hot, sensitive_features=a, sample_weight=w)
    assert soft.second_moment.shape == (3, 3, 3, 3)
    np.testing.assert_allclose(soft.moments, hard.moments, atol=1e-8)


def test_classes_are_those_of_labels_and_predictions_together():
    assert group_confusion([0, 2], [1, 2], sensitive_features=["f", "m"]).classes.tolist() == [0, 1, 2]
    assert group_confusion([0, 2], [2, 2], sensitive_features=["f", "m"], classes=[2, 1, 0]).classes.tolist() == [
        2,
        1,
        0,
    ]


def test_groups_not_listed_are_an_error():
    with pytest.raises(ValueError, match=r"sensitive_features: 'm' is not in groups=\['f'\]"):
        group_confusion([0, 1, 1], [0, 1, 0], sensitive_features=["f", "m", "m"], groups=["f"])


def test_pandas_rows_in_another_order_are_an_error():
    y = pd.Series([0, 1, 1])
    with pytest.raises(ValueError, match="prediction: has the row labels of y_true in another order"):
        violation(y, y.iloc[::-1], sensitive_features=["f", "m", "m"])
