"""Test every message about the arguments of `OptFairIn`, and that warnings point at the line of the user."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, MinimumRate, OptFairIn, OptFairPost, OptFairWarning
from tests.inprocessing.helpers import FEW_ROUNDS, FRAME, SEX, X, Y, fit, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

STEP = "must be 'theorem', 'adaptive' or a positive number."
BOUND = "must be 'auto' or a positive number."
HELD_OUT = "must be a number in [0, 1)."
START = "must be 'post', 'zero', a FairRule or a fitted OptFairPost."
SAID = "already set in the constraint objects; leave it out here."
BAD = [
    ({"rounds": 0}, "rounds=0: must be an integer >= 1."),
    ({"rounds": 2.5}, "rounds=2.5: must be an integer >= 1."),
    ({"rounds": True}, "rounds=True: must be an integer >= 1."),
    ({"inner_epochs": 0}, "inner_epochs=0: must be an integer >= 1."),
    ({"step": 0}, f"step=0: {STEP}"),
    ({"step": -1.0}, f"step=-1.0: {STEP}"),
    ({"step": np.inf}, f"step=inf: {STEP}"),
    ({"step": True}, f"step=True: {STEP}"),
    ({"step": None}, f"step=None: {STEP}"),
    ({"step": [1]}, f"step=[1]: {STEP}"),
    ({"step": "auto"}, f"step='auto': {STEP}"),
    ({"max_multiplier": 0}, f"max_multiplier=0: {BOUND}"),
    ({"max_multiplier": None}, f"max_multiplier=None: {BOUND}"),
    ({"max_multiplier": "two"}, f"max_multiplier='two': {BOUND}"),
    ({"stop_below": 0}, "stop_below=0: must be None or a positive number."),
    ({"stop_below": "auto"}, "stop_below='auto': must be None or a positive number."),
    ({"held_out": 1}, f"held_out=1: {HELD_OUT}"),
    ({"held_out": -0.1}, f"held_out=-0.1: {HELD_OUT}"),
    ({"held_out": True}, f"held_out=True: {HELD_OUT}"),
    ({"held_out": "some"}, f"held_out='some': {HELD_OUT}"),
    ({"shift": "row"}, "shift='row': must be one of 'cell', 'global'."),
    ({"output": "last"}, "output='last': must be one of 'mixture', 'deterministic'."),
    ({"mixture": "best"}, "mixture='best': must be one of 'last_half', 'all', 'lp'."),
    ({"without_weights": None}, "without_weights=None: must be one of 'error', 'resample'."),
    ({"decision": "coin"}, "decision='coin': must be one of"),
    ({"missing": "drop"}, "missing='drop': must be one of 'error', 'group'."),
    ({"awareness": "both"}, "awareness='both': must be one of 'blind', 'aware'."),
    ({"start": "mean"}, f"start='mean': {START}"),
    ({"start": 0}, f"start=0: {START}"),
    ({"start": OptFairPost()}, f"start=OptFairPost(): {START}"),
    ({"criterion": "ppv"}, "criterion='ppv': predictive values divide"),
    ({"tolerance": -0.1}, "tolerance=-0.1: must be a number in [0, 1]."),
    ({"costs": np.ones((2, 2))}, "costs: has shape (2, 2); expected (3, 3)"),
    ({"estimator": 3}, "estimator=3: must be a classifier, not fitted, or a Pipeline that ends in one."),
    ({"estimator": LogisticRegression}, "estimator=<class "),
    ({"reference": "pairwise", "tolerance": {"f": 0.1}}, "tolerance: a tolerance per group needs reference='overall'."),
    ({"criterion": Constraint("dp", 0.1), "tolerance": 0.1}, f"tolerance: {SAID}"),
    ({"criterion": [MinimumRate("recall", 0.1)], "tolerance": None, "reference": "overall"}, f"reference: {SAID}"),
]


@pytest.mark.parametrize("options, message", BAD, ids=range(len(BAD)))
def test_bad_arguments(options, message):
    with pytest.raises((ValueError, TypeError)) as error:
        fit(quick().set_params(**options))
    assert str(error.value).startswith(message)


def test_bad_rows():
    with pytest.raises(ValueError, match=r"^sensitive_features: missing; give the group of every row"):
        quick().fit(X, Y)
    with pytest.raises(ValueError, match=r"^OptFairIn requires y to be passed"):
        quick().fit(X, None, sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^y: has one class"):
        quick().fit(X, ["a"] * len(Y), sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"groups among 240 rows; cut a continuous attribute"):
        quick().fit(X, Y, sensitive_features=np.arange(len(Y)))
    with pytest.warns(OptFairWarning, match=r"^sensitive_features: X holds them too, as 'old'"):
        quick(rounds=1).fit(FRAME[["x1", "old"]], Y, sensitive_features=FRAME["old"])


def test_nothing_can_be_asked_before_fit():
    for ask in (lambda model: model.predict(X), lambda model: model.predict_proba(X), OptFairIn.report):
        with pytest.raises(NotFittedError):
            ask(quick())
    for name in ("history_", "multipliers_"):
        with pytest.raises(NotFittedError):
            getattr(quick(), name)
    pytest.importorskip("skops", reason="models are saved by skops")
    with pytest.raises(NotFittedError):
        quick().save("model.skops")


def test_warnings_point_at_the_line_of_the_user():
    with pytest.warns(OptFairWarning) as caught:
        quick(rounds=1, max_multiplier=1.0, tolerance=0.0, step="theorem").fit(X, Y, sensitive_features=SEX)
        OptFairPost(cv=2, random_state=0).fit(X, Y, sensitive_features=["one"] * len(Y))
    assert len(caught) >= 2 and {warning.filename for warning in caught} == {__file__}
