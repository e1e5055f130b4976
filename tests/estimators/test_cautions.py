"""What is allowed and rarely meant is said once, at the caller's line; ordinary data are fitted in silence."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import Constraint, MinimumRate, OptFairIn
from optfair.baselines import LinearPost
from optfair.errors import OptFairWarning
from optfair.estimators.cautions import is_fitted, warn_about_groups
from optfair.inputs.training_data import TrainingData
from tests.estimators.helpers import SEX, N, X, Y, make_post

FITTED = LogisticRegression().fit(X, Y)
PREFIT = 'to keep it as it is, pass cv="prefit" or FrozenEstimator(model).'


def messages(call, *arguments, **options):
    """Return the warnings of a call that is expected to warn, each from the line of the caller."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    caught = [warning for warning in caught if warning.category is OptFairWarning]
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


# -- estimators that are fitted ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (make_post(FITTED), PREFIT),
        (make_post(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)), PREFIT),
        (LinearPost(FITTED, cv=2), PREFIT),
        (
            OptFairIn(FITTED, tolerance=0.5, rounds=1),
            "to keep it as it is, give it to OptFairPost as FrozenEstimator(m",
        ),
    ],
    ids=["post", "pipeline", "LinearPost", "in"],
)
def test_a_fitted_estimator_is_not_fitted_again_without_a_word(model, advice):
    (message,) = messages(model.fit, X, Y, sensitive_features=SEX)
    assert message.startswith(f"estimator: is fitted already, and a clone of it is fitted again; {advice}")
    assert is_fitted(FITTED)  # it is left as it was


@pytest.mark.parametrize("options", [{"estimator": FrozenEstimator(FITTED)}, {"estimator": FITTED, "cv": "prefit"}])
def test_a_fitted_estimator_that_is_kept_is_no_mistake(options):
    assert messages(make_post(**options).fit, X, Y, sensitive_features=SEX) == []


def test_searches_clone_the_estimator_and_are_silent():
    frame = X.assign(sex=SEX == "f")
    search = GridSearchCV(make_post(GaussianNB(), sensitive_features="sex"), {"tolerance": [0.1]}, cv=2)
    assert messages(search.fit, frame, Y) == []
    assert messages(search.fit, frame, Y) == []


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), None, LogisticRegression, lambda X: X, FrozenEstimator(FITTED)]
)
def test_what_a_fit_has_not_changed_is_not_fitted(estimator):
    assert not is_fitted(estimator)
    assert is_fitted(make_post(FITTED, cv="prefit").fit(X, Y, sensitive_features=SEX))


# -- columns that are ids ------------------------------------------------------------------------------------
def test_a_column_that_is_an_id_is_named():
    frame = X.assign(patient_nbr=np.arange(N) * 17 % 1009)
    (message,) = messages(make_post().fit, frame, Y, sensitive_features=SEX)
    assert message == (
        f"X: the column 'patient_nbr' looks like an id ({N} values among {N} rows); leave it out, and where a person "
        "has several rows give it as cluster=."
    )


def test_ids_that_the_model_does_not_see_are_no_mistake():
    frame = X.assign(patient_nbr=np.arange(N) * 17 % 1009)
    chooses = make_pipeline(make_column_transformer((StandardScaler(), ["x1", "x2"])), LogisticRegression())
    kept = FrozenEstimator(chooses.fit(frame, Y))
    for model in (make_post(clone(chooses)), make_post(kept), make_post(kept, cv="prefit")):
        assert messages(model.fit, frame, Y, sensitive_features=SEX) == []
    assert messages(make_post().fit, frame.to_numpy(), Y, sensitive_features=SEX) == []  # no names, no suspicion


# -- groups --------------------------------------------------------------------------------------------------
def grouped(a, groups, weight=None):
    """Return training data of these groups with two classes."""
    a = np.asarray(a)
    return TrainingData(None, a, np.arange(len(a)) % 2, weight, groups, np.arange(2), np.arange(len(a)), len(a))


def group_warnings(a, groups, *constraints, weight=None):
    return messages(
        warn_about_groups,
        grouped(a, groups if isinstance(groups, pd.Index) else pd.Index(groups), weight),
        constraints or [Constraint("dp")],
    )


def test_groups_of_a_handful_are_named_with_their_sizes():
    (message,) = group_warnings(np.repeat([0, 1, 2], [60, 9, 1]), ["a", "b", "c"])
    assert message == (
        "sensitive_features: groups with fewer than 10 people, whose rates nobody can tell: 'b' (9); 'c' (1). Merge "
        "them with others, or constrain the others only (tolerance={group: bound})."
    )
    a = np.repeat([0, 1], [60, 10])
    assert group_warnings(a, ["a", "b"]) == []
    assert group_warnings(np.repeat([0, 1], [60, 4]), ["a", "b"], weight=np.full(64, 3.0)) == []  # twelve people
    assert len(group_warnings(a, ["a", "b"], weight=np.full(70, 0.5))) == 0  # of a survey: rows are people
    assert group_warnings([0, 1, 0, 1], ["a", "b"]) == []  # everything is small here, as everybody can see


def test_only_groups_that_a_constraint_speaks_of_are_named():
    a, groups = np.repeat([0, 1, 2], [60, 40, 1]), ["a", "b", "c"]
    assert group_warnings(a, groups, Constraint("dp", {"a": 0.1, "b": 0.1})) == []
    assert group_warnings(a, groups, MinimumRate("accuracy", 0.2, by="overall")) == []
    assert len(group_warnings(a, groups, MinimumRate("accuracy", 0.2))) == 1
    pairs = pd.MultiIndex.from_tuples([("f", "x"), ("f", "y"), ("m", "x"), ("m", "y")], names=["sex", "race"])
    a = np.repeat(range(4), [60, 40, 50, 2])
    assert group_warnings(a, pairs, Constraint("dp", attributes="marginals")) == []
    (message,) = group_warnings(a, pairs, Constraint("dp", attributes="both"))
    assert "('m', 'y') (2)" in message
    (message,) = group_warnings(np.repeat(range(4), [60, 3, 50, 2]), pairs, Constraint("dp", attributes=["race"]))
    assert "('*', 'y') (5)" in message


@pytest.mark.parametrize(
    ("values", "attribute"),
    [
        (pd.Index(range(18, 69)), ""),
        (pd.Index([k + 0.5 for k in range(11)]), ""),
        (pd.Index(range(21), name="age"), "age"),
    ],
)
def test_groups_that_are_values_of_a_number_are_named(values, attribute):
    (message,) = group_warnings(np.arange(1020) % len(values), values)
    number = f"the number '{attribute}'" if attribute else "a number"
    assert message == (
        f"sensitive_features: {len(values)} groups are values of {number}; cut it into bands, e.g. by pd.cut, or give "
        "codes as texts."
    )


@pytest.mark.parametrize(
    "values",
    [range(4), range(20), [0.1 * k for k in range(1, 11)], [str(k) for k in range(51)], [True, False]],
    ids=["codes", "twenty codes", "tenths", "texts", "truth values"],
)
def test_codes_and_bands_are_no_amounts(values):
    assert group_warnings(np.arange(1020) % len(values), values) == []


def test_an_attribute_of_several_may_be_a_number():
    pairs = pd.MultiIndex.from_product([["f", "m"], range(30)], names=["sex", "age"])
    (message,) = group_warnings(np.arange(1200) % 60, pairs)
    assert message.startswith("sensitive_features: 30 groups are values of the number 'age'")
