"""Every door compares the row labels of what it is given, before it works."""

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairIn, OptFairInPost, metrics, solve
from optfair.baselines import ERM, LinearPost
from optfair.metrics import ViolationScorer
from tests.estimators.helpers import SEX, SEX_NEW, X_NEW, Y_NEW, N, X, Y, make_post

LABELS, HALF = pd.Series(Y), N // 2
WEIGHTS, KEYS, NEW_LABELS = pd.Series(np.ones(N)), pd.Series(range(N)), pd.Series(Y_NEW)
FIRST, LAST = slice(0, HALF), slice(HALF, N)
ROWS = {"y": LABELS, "sensitive_features": SEX, "sample_weight": WEIGHTS}


@pytest.mark.parametrize("name", list(ROWS))
@pytest.mark.parametrize(
    "model",
    [make_post(), OptFairIn(rounds=1), OptFairInPost(OptFairIn(rounds=1)), ERM(), LinearPost()],
    ids=lambda model: type(model).__name__,
)
def test_fit_refuses_rows_of_other_people(model, name):
    rows = {other: values[LAST if other == name else FIRST] for other, values in ROWS.items()}
    with pytest.raises(ValueError, match=rf"{name}: its row labels differ from those of X \(first at position 0: 120"):
        model.fit(X[FIRST], **rows)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda blind, aware: blind.predict(X_NEW[FIRST], keys=KEYS[LAST]), "keys"),
        (lambda blind, aware: aware.predict(X_NEW[FIRST], sensitive_features=SEX_NEW[LAST]), "sensitive_features"),
        (lambda blind, aware: aware.predict_proba(X_NEW[FIRST], sensitive_features=SEX[LAST]), "sensitive_features"),
        (lambda blind, aware: blind.score(X_NEW[FIRST], NEW_LABELS[LAST]), "y"),
        (lambda blind, aware: blind.score(X_NEW[FIRST], NEW_LABELS[FIRST], WEIGHTS[LAST]), "sample_weight"),
        (
            lambda blind, aware: blind.report(X_NEW[FIRST], NEW_LABELS[FIRST], sensitive_features=SEX_NEW[LAST]),
            "sensitive_features",
        ),
        (
            lambda blind, aware: blind.report(
                X_NEW[FIRST], NEW_LABELS[FIRST], sensitive_features=SEX_NEW[FIRST], keys=KEYS[LAST]
            ),
            "keys",
        ),
        (
            lambda blind, aware: blind.frontier([0.1], test=(X_NEW[FIRST], NEW_LABELS[FIRST], SEX_NEW[LAST])),
            "groups_test",
        ),
        (
            lambda blind, aware: blind.frontier(
                [0.1], test=(X_NEW[FIRST], NEW_LABELS[FIRST], SEX_NEW[FIRST], WEIGHTS[LAST])
            ),
            "weights",
        ),
        (
            lambda blind, aware: ViolationScorer().score(
                blind, X_NEW[FIRST], NEW_LABELS[FIRST], sensitive_features=SEX_NEW[LAST]
            ),
            "sensitive_features",
        ),
        (
            lambda blind, aware: metrics.violation(
                NEW_LABELS[FIRST], NEW_LABELS[FIRST], sensitive_features=SEX_NEW[LAST]
            ),
            "sensitive_features",
        ),
        (
            lambda blind, aware: solve(
                np.full((HALF, 2, 2), 0.25), sample_weight=WEIGHTS[FIRST], offset=pd.DataFrame(X)[LAST]
            ),
            "offset",
        ),
    ],
)
def test_other_doors_refuse_rows_of_other_people(call, name, blind_post, aware_post):
    with pytest.raises(ValueError, match=f"{name}: its row labels differ from those of "):
        call(blind_post, aware_post)
