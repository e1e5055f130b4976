"""The true frontier: no rule beats it, and the true posteriors attain it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost, Ratio
from optfair.datasets import make_fair_classification
from tests import problems


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_frontier_is_monotone_and_concave(make_world, criterion):
    path = make_world(2, direct_bias=0.5).frontier(criterion, 10, n=20_000)
    table = path.table.sort_values("tolerance")
    t, accuracy, gap = (table[name].to_numpy() for name in ("tolerance", "accuracy", "gap"))
    assert (gap <= 1.001e-3).all() and (table["excess"] == 0).all()
    assert (np.diff(accuracy) >= -gap[:-1]).all()
    for i in range(1, len(t) - 1):  # the optimum is concave, and every point is within its gap of it
        share = (t[i] - t[i - 1]) / (t[i + 1] - t[i - 1])
        assert accuracy[i] >= (1 - share) * accuracy[i - 1] + share * accuracy[i + 1] - gap[i]
    assert accuracy[-1] == pytest.approx(path.unconstrained["train"][1], abs=1e-3)


@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_optimum_is_that_of_the_linear_program(make_world, awareness):
    world = make_world(4, direct_bias=0.5)
    rule = world.optimum("eo", 0.03, n=200, awareness=awareness, method="lp")
    _, Z = world._population(200, 0, awareness)
    _, rows = problems.compiled(Z, "eo", 0.03)
    D = rows.matrix(Z.mean(axis=0)).toarray()
    exact = problems.linear_program(Z, D, rows.lower, rows.upper).value
    assert rule.certificate.upper_bound == pytest.approx(exact, abs=1e-6)
    result = world.evaluate(rule, "eo", n=200, awareness=awareness)
    assert result.accuracy == pytest.approx(rule.certificate.accuracy, abs=1e-12)
    assert result.violation == pytest.approx(rule.certificate.violation, abs=1e-12)


def test_no_rule_beats_the_frontier_and_the_truth_attains_it():
    data = make_fair_classification(20_000, random_state=5, bias=1.0)
    world, n = data.world, 50_000
    rules = {}
    for name, estimator in (("fitted", LogisticRegression()), ("true P(Y | X)", world.class_posterior)):
        model = OptFairPost(estimator, criterion="dp", tolerance=0.03, cv=3, random_state=0,
                            group_estimator=LogisticRegression())  # fmt: skip
        rules[name] = model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba
    rules["optimum"] = world.optimum("dp", 0.03, n=n, random_state=99)
    for name, rule in rules.items():
        result = world.evaluate(rule, n=n)
        # On the same rows it is a theorem: weak duality.
        regret = world.regret(rule, n=n)
        assert -1e-9 <= regret < 0.01, name
        # On other rows, up to the noise of both.
        best = world.optimum("dp", result.violation, n=n, random_state=1).certificate
        stricter = world.optimum("dp", result.violation - 0.01, n=n, random_state=1).certificate
        price = best.upper_bound - stricter.accuracy
        noise = 5 * np.hypot(2**0.5 * result.accuracy_error, 100 * max(price, 0) * result.violation_error)
        assert result.accuracy <= best.upper_bound + noise, name
        if name == "optimum":
            assert abs(result.violation - 0.03) < 5 * 2**0.5 * result.violation_error
            assert regret < 1.1e-3 + 1e-4
    constant = world.regret(lambda X: np.zeros(len(X), dtype=int), n=n)
    assert constant > 0.05  # regret does detect a poor rule: the best constant is fair, and far below


def test_knowing_the_group_helps(make_world):
    world = make_world(6, direct_bias=1.0)
    blind, aware = (world.optimum("dp", 0.02, n=50_000, awareness=a).certificate for a in ("blind", "aware"))
    assert aware.accuracy > blind.accuracy - 5 * 0.5 / np.sqrt(50_000)
    data = world.sample(3000, 1)
    model = OptFairPost(LogisticRegression(), awareness="aware", cv=2, random_state=0)
    model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    assert world.regret(model.predict_proba, n=20_000, awareness="aware") > -1e-9


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda w: w.sample(0), "n=0: must be an integer >= 1"),
        (lambda w: w.optimum(n=0), "n=0: must be an integer >= 1"),
        (lambda w: w.frontier(awareness="both"), "awareness='both': must be one of 'blind', 'aware'"),
        (lambda w: w.class_posterior(np.zeros((4, 2))), r"X: has shape \(4, 2\); must be finite numbers"),
        (lambda w: w.joint_posterior(np.zeros((2, 5)), sensitive_features=["A", "Z"]), "sensitive_features: .*'Z'"),
        (lambda w: w.evaluate("model", n=10), "rule: is a str; must be a FairRule or a function of X"),
        (lambda w: w.evaluate(lambda X: [0, 1], n=10), "rule: returned 2 predictions for 10 rows"),
        (lambda w: w.evaluate(lambda X: np.full((10, 3), 0.5), n=10), "prediction: 10 rows are not probabilities"),
        (lambda w: w.regret(lambda X: np.zeros(10, int), Ratio("dp"), n=10), "criterion: must be gaps between groups"),
    ],
)
def test_wrong_arguments_are_named(world, call, message):
    with pytest.raises(ValueError, match=message):
        call(world)
