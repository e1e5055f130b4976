"""Test how a game is set up: rows held out, and facts that are returned for the estimator to warn about."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from optfair import MinimumRate, metrics
from optfair.constraints import as_constraints
from optfair.inprocessing.copies import WeightedCopies
from optfair.inprocessing.setup import set_up
from tests.inprocessing.helpers import (
    CELL,
    CLASSES,
    CODE,
    FEW_ROUNDS,
    SEX,
    WEIGHT,
    X_NEW,
    XA,
    RecordingTree,
    X,
    Y,
    fit,
    quick,
    read_rows,
)

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


# -- rows held out -----------------------------------------------------------------------------------------
def test_rows_held_out_are_measured_on_and_not_learned_from():
    """The learner's own record of the rows it was given; D, history and summary are about the others."""
    RecordingTree.fits.clear()
    options = {"held_out": 0.25, "rounds": 6, "mixture": "all"}
    model = fit(quick(RecordingTree(max_depth=3), **options))
    known = {row.tobytes() for rows, _, _ in RecordingTree.fits for row in np.asarray(rows)}
    trained = np.array([row.tobytes() in known for row in XA])
    assert (~trained).sum() == len(Y) // 4
    share = np.bincount(CELL[~trained], minlength=6) / np.bincount(CELL)
    np.testing.assert_allclose(share, 0.25, atol=0.05)  # of every cell
    plain = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[trained], CODE[trained])
    np.testing.assert_array_equal(model.plain_(X_NEW).argmax(axis=1), plain.predict(X_NEW))
    measure = {"sensitive_features": SEX[~trained], "criterion": "dp", "classes": list(CLASSES)}
    for t, member in enumerate(model.mixture_.members):
        codes = member.predict(X[~trained])
        assert model.history_["accuracy"][t] == pytest.approx((codes == CODE[~trained]).mean())
        violation = metrics.violation(Y[~trained], CLASSES[codes], **measure)
        assert model.history_["violation"][t] == pytest.approx(violation)
    h = model.predict_proba(X[~trained])
    assert model.training_.accuracy == pytest.approx(h[np.arange(len(h)), CODE[~trained]].mean())
    assert "on the people held out: accuracy" in str(model.report())
    again = fit(quick(RecordingTree(max_depth=3), **options))
    np.testing.assert_array_equal(again.trace_.multipliers, model.trace_.multipliers)


def test_transformers_are_fitted_to_rows_that_are_not_held_out():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = fit(quick(pipeline, held_out=0.5))
    assert model.mixture_.transformer[0].n_samples_seen_ == len(Y) // 2
    weighted = fit(quick(pipeline, held_out=0.5, start="post", max_multiplier="auto"), sample_weight=WEIGHT)
    assert weighted.predict_proba(X_NEW).shape == (len(X_NEW), 3)


@pytest.mark.parametrize("share", [1e-6, 0.999, 0.9999999])
def test_too_few_rows_to_hold_some_out(share):
    with pytest.raises(ValueError, match=r"held_out=.*there are too few of them to hold some out"):
        fit(quick(held_out=share))


# -- facts -------------------------------------------------------------------------------------------------
def set_up_rows(start, constraints="dp", tolerance=0.05, **options):
    """Return the set-up of a game on the rows of the small world; a warning would be an error."""
    return set_up(read_rows(), as_constraints(constraints, tolerance), start, 0, quick(**options))


def test_a_set_up_without_conflicts():
    setup = set_up_rows("zero")
    assert (setup.conflict, setup.unused_start, setup.copy_settings, setup.checkpoint) == ("", False, (), None)
    assert isinstance(setup.learner, WeightedCopies) and setup.learner.n_fits == 0
    assert setup.game.cap == setup.start.cap == 2.0 and setup.start.seed == 0
    np.testing.assert_array_equal(setup.start.multipliers, np.zeros(len(setup.game.rows)))
    assert np.isnan(setup.start.accuracy).all()  # no quick model was fitted


def test_conflicts_are_facts_and_not_warnings(eo_rule):
    setup = set_up_rows("post", MinimumRate("recall", 0.99), None)
    assert setup.conflict.startswith("no rule satisfies all constraints") and not setup.start.multipliers.any()
    assert not np.isnan(setup.start.accuracy).any()
    assert eo_rule.multipliers["multiplier"].any()
    assert set_up_rows(eo_rule).unused_start
    assert not set_up_rows(eo_rule, "eo").unused_start
    setup = set_up_rows("zero", estimator=DecisionTreeClassifier(min_samples_leaf=5))
    assert setup.copy_settings == ("min_samples_leaf=5",)
