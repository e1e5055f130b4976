"""Check what `OptFairPost` promises: bounds on out-of-fold posteriors, calibrated with labels; blind and aware."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from optfair import Constraint, OptFairPost, metrics
from optfair.errors import OptFairWarning
from optfair.rule.certificate import Status
from tests.estimators.helpers import (
    FRAME,
    NEW,
    PREFIT,
    SEX,
    SEX_NEW,
    X_NEW,
    N,
    X,
    Y,
    make_people,
    make_post,
    out_of_fold_z,
)

CASES = [
    {},
    {"criterion": "eo"},
    {"criterion": "eop", "outcomes": ["a"]},
    {"criterion": "meo", "reference": "pairwise"},
    {"criterion": "oae"},
    {"criterion": "oae", "tolerance": 0.01},
    {"criterion": "eo", "awareness": "aware"},
    {"criterion": "dp", "awareness": "aware", "posterior": "factored", "calibration": "none"},
    {"criterion": [Constraint("dp", 0.05), Constraint("oae", 0.1)]},
]


# -- the certificate -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", CASES, ids=lambda options: str(list(options.values())))
def test_the_rule_is_within_tolerance_on_the_posteriors_it_was_solved_for(options):
    model = make_post(**{"calibration": "posterior"} | options).fit(X, Y, sensitive_features=SEX)
    c = model.certificate_
    assert c.excess == 0 and c.accuracy <= c.upper_bound + 1e-12 and c.gap <= 1e-3
    assert c.status in (Status.OPTIMAL, Status.UNCONSTRAINED)
    # By hand: the same rates from Z and h, of every group against overall.
    Z = out_of_fold_z(model)
    assert np.allclose(Z.sum(axis=(1, 2)), 1)
    h = model.rule_.predict_proba(Z)
    J = np.einsum("xai,xj->aij", Z, h) / len(Z)
    assert np.trace(J.sum(axis=0)) == pytest.approx(c.accuracy)
    if options.get("criterion", "dp") == "dp":
        rates = J.sum(axis=1) / J.sum(axis=(1, 2))[:, None]
        worst = np.abs(rates - J.sum(axis=(0, 1))).max()
        assert worst == pytest.approx(c.violation) and worst <= 0.05
    if options.get("criterion") == "eo":
        rates = J / J.sum(axis=2, keepdims=True)
        overall = J.sum(axis=0) / J.sum(axis=(0, 2))[:, None]
        worst = np.abs(rates - overall).max()
        assert worst == pytest.approx(c.violation) and worst <= 0.05
    if options.get("criterion") == "oae":
        rates = np.trace(J, axis1=1, axis2=2) / J.sum(axis=(1, 2))
        worst = np.abs(rates - np.trace(J.sum(axis=0))).max()
        assert worst == pytest.approx(c.violation) and worst <= model.tolerance


def test_posteriors_are_out_of_fold():
    """Check it with labels that are noise: nearest neighbours are right about every row that they have seen."""
    noise = np.random.default_rng(0).choice(list("ab"), N)
    model = make_post(KNeighborsClassifier(1), calibration="none", tolerance=1.0)
    model.fit(X, noise, sensitive_features=SEX)
    plain = model.report().measured[0]
    assert plain.name == "unconstrained, joint" and plain.accuracy < 0.7
    assert model.score(X, noise) == 1.0  # the model of new rows was fitted on all of these


# -- labels --------------------------------------------------------------------------------------------------
def biased(X):
    """Return P(Y | X) of a model that is far too sure of class a for those who look like the second group."""
    P = PREFIT.predict_proba(X[["x1", "x2"]]) * np.exp(2.5 * X[["looks"]].to_numpy() * np.array([1.0, 0.0, 0.0]))
    return P / P.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def miscalibrated():
    """Return the violation with labels, out of fold, by calibration, of a rule on top of `biased`."""
    frame, y = make_people(3000, seed=4)
    groups, doubt = frame["sex"], np.random.default_rng(4).random(3000) < 0.1
    table = frame[["x1", "x2"]].assign(looks=(groups == "m") ^ doubt)
    results = {}
    for calibration in ("none", "groups", "posterior"):
        model = make_post(biased, calibration=calibration, criterion="eo", tolerance=0.02)
        model.fit(table, y, sensitive_features=groups)
        h = model.rule_.predict_proba(out_of_fold_z(model))
        options = {"criterion": "eo", "classes": model.classes_}
        results[calibration] = metrics.violation(y, h, sensitive_features=groups, **options)
    return results


def test_labels_correct_a_miscalibrated_model(miscalibrated):
    assert miscalibrated["none"] > 5 * 0.02  # the bound on z alone says nothing about the labels
    assert miscalibrated["posterior"] < miscalibrated["none"] / 2


def test_a_model_whose_probabilities_are_kept_keeps_their_error(miscalibrated):
    """This is the price of `calibration="groups"`: what the model believes of the classes is not mended."""
    assert miscalibrated["groups"] > 5 * 0.02


def test_with_groups_calibrated_the_answers_without_constraints_are_those_of_the_model():
    model = make_post(biased, calibration="groups", tolerance=1.0)
    frame, y = make_people(3000, seed=4)
    table = frame[["x1", "x2"]].assign(looks=frame["sex"] == "m")
    model.fit(table, y, sensitive_features=frame["sex"])
    P = biased(table)
    np.testing.assert_allclose(model.joint_posterior(table).sum(axis=1), P, rtol=1e-12)
    assert (model.predict(table) == model.classes_[P.argmax(axis=1)]).all()


# -- aware ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"calibration": "none"}])
def test_the_posterior_of_an_aware_model_is_in_the_block_of_the_group(options):
    model = make_post(awareness="aware", **options).fit(X, Y, sensitive_features=SEX)
    Z = model.joint_posterior(X_NEW, sensitive_features=SEX_NEW)
    own = (SEX_NEW == "m").astype(int).to_numpy()
    np.testing.assert_allclose(Z[np.arange(N), own].sum(axis=1), 1)
    assert (Z[np.arange(N), 1 - own] == 0).all()
    assert model.certificate_.excess == 0
    exchanged = model.predict_proba(X_NEW, sensitive_features=np.where(own, "f", "m"))
    assert (exchanged != model.predict_proba(X_NEW, sensitive_features=SEX_NEW)).any()
    assert model.score(X, Y, sensitive_features=SEX) > 0.5


@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_aware_posteriors_are_bayes_rule(posterior):
    """Check P(Y | X, A=a) = z[a] / Σ z[a] with z of the blind models."""
    options = {"posterior": posterior, "calibration": "none"}
    one = make_post(**options).fit(X, Y, sensitive_features=SEX)
    two = make_post(awareness="aware", **options).fit(X, Y, sensitive_features=SEX)
    own = (SEX_NEW == "m").astype(int).to_numpy()
    z = one.joint_posterior(X_NEW)[np.arange(N), own]
    Z = two.joint_posterior(X_NEW, sensitive_features=SEX_NEW)
    np.testing.assert_allclose(Z[np.arange(N), own], z / z.sum(axis=1, keepdims=True))


def test_an_aware_model_of_the_pair_keeps_its_own_classes():
    """A model of the pair is told the group: that is what it predicts by itself."""
    rng = np.random.default_rng(0)
    x, group = rng.standard_normal((600, 1)), rng.integers(0, 2, 600)
    y = (x[:, 0] > 0) ^ (group == 1)  # the other way round in each group
    table = np.column_stack([x, x**2])
    model = make_post(awareness="aware", calibration="groups", tolerance=1.0).fit(table, y, sensitive_features=group)
    assert model.score(table, y, sensitive_features=group) > 0.9


def test_float32_is_read_without_a_warning():
    table = np.array(X, dtype=np.float32)
    model = OptFairPost(cv=2, tolerance=0.1, random_state=0)
    model.fit(table, Y, sensitive_features=SEX.to_numpy()).predict(table)  # a warning would be an error
    table[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"X: holds inf \(row 3, column 1\)"):
        model.fit(table, Y, sensitive_features=SEX.to_numpy())


def test_where_x_holds_the_group_an_aware_model_is_the_class_model_itself():
    table, new = FRAME[["x1", "x2", "old"]], NEW[["x1", "x2", "old"]]
    model = make_post(awareness="aware", sensitive_features="old", calibration="none").fit(table, Y)
    expected = LogisticRegression().fit(table, Y).predict_proba(new)
    Z = model.joint_posterior(new)
    np.testing.assert_allclose(Z.sum(axis=1), expected, atol=1e-9)
    np.testing.assert_array_equal(Z[:, 1].sum(axis=1) > 0, new["old"])
    assert model.certificate_.excess == 0
    assert model.predict(new).shape == (N,)  # the group need not be given again


def test_labels_do_not_rule_out_a_class_that_is_absent_from_a_small_group():
    y, sex = np.array(["a", "b"] * 100 + ["a"] * 4), np.array(["f", "m"] * 50 + ["m", "f"] * 50 + ["x"] * 4)
    features = np.random.default_rng(0).standard_normal((204, 2))
    model = OptFairPost(FrozenEstimator(LogisticRegression().fit(features[:200], y[:200])), awareness="aware", cv=2)
    with pytest.warns(OptFairWarning, match=r"fewer than 10 people, whose rates nobody can tell: 'x' \(4\)"):
        model.fit(features, y, sensitive_features=sex)
    Z = model.joint_posterior(features, sensitive_features=np.full(204, "x"))
    assert Z[:, 2].max() < 1
