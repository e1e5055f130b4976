"""Made-up people: the posteriors are those of the people drawn, and no rule beats the frontier."""

from dataclasses import replace

import numpy as np
import pandas as pd
import problems
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, OptFairPost, Ratio, metrics, solve
from optfair.datasets.dataset import Dataset
from optfair.datasets.synthetic import make_fair_classification
from optfair.datasets.world import SyntheticDataset, World

UNEQUAL = {"n_classes": 3, "n_groups": 3, "group_sizes": [0.6, 0.3, 0.1], "direct_bias": 0.7}


def world_of(seed=0, **options):
    return make_fair_classification(1, random_state=seed, **options).world


def unconstrained(world, criterion="dp", n=20_000, **options):
    return world.evaluate(world.optimum(criterion, 1.0, n=n, **options), criterion, n=n, **options)


# -- the truth ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
def test_posteriors_are_those_of_bayes(seed):
    """P(A=a, Y=i | x) = ω_a N(x; μ_a, I) P(i | x, a) / Σ_a ω_a N(x; μ_a, I), with the densities of scipy."""
    people = make_fair_classification(50, 4, random_state=seed, bias=2.5, **UNEQUAL)
    world, X = people.world, people.X.to_numpy()
    density = np.stack([multivariate_normal(mean).pdf(X) for mean in world.centres], axis=1) * world.group_sizes
    group = density / density.sum(axis=1, keepdims=True)
    given = np.stack([problems.softmax(X @ world.slopes + b) for b in world.intercepts], axis=1)
    np.testing.assert_allclose(world.group_posterior(people.X), group, atol=1e-12)
    np.testing.assert_allclose(people.joint_posterior, group[:, :, None] * given, atol=1e-12)
    np.testing.assert_allclose(world.class_posterior(people.X), (group[:, :, None] * given).sum(axis=1), atol=1e-12)
    a = pd.Index(world.group_names).get_indexer(people.sensitive_features)
    aware = world.joint_posterior(X, sensitive_features=people.sensitive_features)
    assert (np.delete(aware.sum(axis=2), 0, axis=1)[a == 0] == 0).all()
    np.testing.assert_allclose(aware.sum(axis=1), given[np.arange(50), a], atol=1e-12)


@given(
    sizes=st.lists(st.floats(1e-4, 1), min_size=1, max_size=5),
    class_sizes=st.lists(st.floats(0.05, 1), min_size=2, max_size=5),
    d=st.integers(1, 7),
    knobs=st.tuples(*[st.floats(0, 6)] * 3),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=15)
def test_any_world_is_one(sizes, class_sizes, d, knobs, seed):
    A, m, n = len(sizes), len(class_sizes), 20_000
    sizes, class_sizes = np.array(sizes) / np.sum(sizes), np.array(class_sizes) / np.sum(class_sizes)
    bias, direct_bias, separation = knobs
    people = make_fair_classification(
        n, d, m, A, group_sizes=sizes, class_sizes=class_sizes, bias=bias, direct_bias=direct_bias,
        separation=separation, random_state=seed,
    )  # fmt: skip
    world, Z = people.world, people.joint_posterior
    assert Z.shape == (n, A, m) and (Z >= 0).all()
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)
    np.testing.assert_allclose(Z.sum(axis=1), world.class_posterior(people.X), atol=1e-12)
    np.testing.assert_allclose(Z.sum(axis=2), world.group_posterior(people.X), atol=1e-12)
    assert people.X.shape == (n, d) and people.group_names == sorted(people.group_names)
    np.testing.assert_allclose(sizes @ world.centres, 0, atol=1e-9)
    distances = np.linalg.norm(world.centres[:, None] - world.centres, axis=2)
    assert distances.max() == pytest.approx(bias if A > 1 else 0)
    np.testing.assert_allclose(np.mean(world.slopes**2) * d, separation**2, atol=1e-9)
    # Six standard errors of these people, and those of the people by whom classes were balanced.
    for frequency, share in ((people.sensitive_features, sizes), (people.y, class_sizes)):
        counts = frequency.value_counts(normalize=True, sort=False)
        names = people.group_names if share is sizes else people.class_names
        error = 6 * np.sqrt(share * (1 - share) * (1 / n + (share is class_sizes) / 50_000)) + 6 / n
        assert (np.abs(counts.reindex(names, fill_value=0).to_numpy() - share) <= error + 1e-4).all()


def test_people_are_calibrated():
    """Among people whose P(A=a, Y=i | x) is about p, a share p has that group and class."""
    people = make_fair_classification(200_000, random_state=1, bias=1.5, **UNEQUAL)
    Z = people.joint_posterior
    a = pd.Index(people.group_names).get_indexer(people.sensitive_features)
    for group in range(3):
        for label in range(3):
            p, hit = Z[:, group, label], (a == group) & (people.y == label)
            bins = np.digitize(p, np.quantile(p, np.linspace(0, 1, 21)[1:-1]))
            excess, variance = (np.bincount(bins, value) for value in (hit - p, p * (1 - p)))
            assert (np.abs(excess) <= 5 * np.sqrt(variance)).all()


def test_without_bias_groups_do_not_differ():
    """Z[x, a, i] = ω_a η_i(x): every criterion is met by the unconstrained rule, and costs nothing."""
    world = world_of(bias=0, n_groups=3, group_sizes=[0.6, 0.3, 0.1])
    X = world.sample(500, 1).X
    eta = world.class_posterior(X)
    np.testing.assert_allclose(world.joint_posterior(X), world.group_sizes[:, None] * eta[:, None, :], atol=1e-14)
    best = eta.max(axis=1).mean()
    for criterion in problems.CRITERIA:
        assert unconstrained(world, criterion, n=2000).violation < 1e-12
        rule = world.optimum(criterion, 1e-6, n=2000)
        free = world.optimum(criterion, 1.0, n=2000)
        assert rule.certificate.accuracy == pytest.approx(free.certificate.accuracy, abs=1e-12)
    assert abs(free.certificate.accuracy - best) < 0.05


@pytest.mark.parametrize("m, A", [(2, 2), (3, 2), (4, 5)])
def test_bias_makes_the_best_rule_unfair(m, A):
    found = [unconstrained(world_of(3, n_classes=m, n_groups=A, bias=bias)) for bias in (0, 0.5, 1, 2)]
    violations = [e.violation for e in found]
    assert violations[0] < 1e-12 and (np.diff(violations) > 0.02).all()
    found = [unconstrained(world_of(3, n_classes=m, n_groups=A, bias=0, direct_bias=d), awareness="aware")
             for d in (0, 0.5, 1, 2)]  # fmt: skip
    noise = [5 * e.violation_error for e in found]
    assert found[0].violation < noise[0]
    assert (np.diff([e.violation for e in found]) > 0.01).all()
    # Blind and without indirect bias x says nothing of the group: demographic parity holds whatever the labels do.
    assert unconstrained(world_of(3, n_classes=m, n_groups=A, bias=0, direct_bias=2)).violation < 1e-12


# -- the frontier ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_frontier_is_monotone_and_concave(criterion):
    path = world_of(2, direct_bias=0.5).frontier(criterion, 10, n=20_000)
    table = path.table.sort_values("tolerance")
    t, accuracy, gap = (table[name].to_numpy() for name in ("tolerance", "accuracy", "gap"))
    assert (gap <= 1.001e-3).all() and (table["excess"] == 0).all()
    assert (np.diff(accuracy) >= -gap[:-1]).all()
    for i in range(1, len(t) - 1):  # the optimum is concave, and every point is within its gap of it
        share = (t[i] - t[i - 1]) / (t[i + 1] - t[i - 1])
        assert accuracy[i] >= (1 - share) * accuracy[i - 1] + share * accuracy[i + 1] - gap[i]
    assert accuracy[-1] == pytest.approx(path.unconstrained["train"][1], abs=1e-3)


@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_optimum_is_that_of_the_linear_program(awareness):
    world = world_of(4, direct_bias=0.5)
    rule = world.optimum("eo", 0.03, n=200, awareness=awareness, method="lp")
    _, Z = world._crowd(200, 0, awareness)
    _, rows = problems.compiled(Z, "eo", 0.03)
    D = rows.matrix(Z.mean(axis=0)).toarray()
    exact = problems.linear_program(Z, D, rows.lower, rows.upper).value
    assert rule.certificate.upper_bound == pytest.approx(exact, abs=1e-6)
    found = world.evaluate(rule, "eo", n=200, awareness=awareness)
    assert found.accuracy == pytest.approx(rule.certificate.accuracy, abs=1e-12)
    assert found.violation == pytest.approx(rule.certificate.violation, abs=1e-12)


def test_nobody_beats_the_frontier_and_the_truth_attains_it():
    people = make_fair_classification(20_000, random_state=5, bias=1.0)
    world, n = people.world, 50_000
    fitted = {}
    for name, estimator in (("learned", LogisticRegression()), ("true P(Y | X)", world.class_posterior)):
        model = OptFairPost(estimator, criterion="dp", tolerance=0.03, cv=3, random_state=0,
                            group_estimator=LogisticRegression())  # fmt: skip
        fitted[name] = model.fit(people.X, people.y, sensitive_features=people.sensitive_features).predict_proba
    answers = {**fitted, "optimum": world.optimum("dp", 0.03, n=n, random_state=99)}
    for name, rule in answers.items():
        found = world.evaluate(rule, n=n)
        # On the very same people it is a theorem: weak duality.
        regret = world.regret(rule, n=n)
        assert -1e-9 <= regret < 0.01, name
        # On others, up to the noise of both.
        best = world.optimum("dp", found.violation, n=n, random_state=1).certificate
        price = best.upper_bound - world.optimum("dp", found.violation - 0.01, n=n, random_state=1).certificate.accuracy
        noise = 5 * np.hypot(2**0.5 * found.accuracy_error, 100 * max(price, 0) * found.violation_error)
        assert found.accuracy <= best.upper_bound + noise, name
        if name == "optimum":
            assert abs(found.violation - 0.03) < 5 * 2**0.5 * found.violation_error
            assert regret < 1.1e-3 + 1e-4
    constant = world.regret(lambda X: np.zeros(len(X), dtype=int), n=n)
    assert constant > 0.05  # and it can tell: the best constant is fair, and far below


def test_knowing_the_group_helps():
    world = world_of(6, direct_bias=1.0)
    blind, aware = (world.optimum("dp", 0.02, n=50_000, awareness=a).certificate for a in ("blind", "aware"))
    assert aware.accuracy > blind.accuracy - 5 * 0.5 / np.sqrt(50_000)
    people = world.sample(3000, 1)
    model = OptFairPost(LogisticRegression(), awareness="aware", cv=2, random_state=0)
    model.fit(people.X, people.y, sensitive_features=people.sensitive_features)
    assert world.regret(model.predict_proba, n=20_000, awareness="aware") > -1e-9


# -- the judge --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_evaluation_agrees_with_labelled_people(criterion):
    world = world_of(7, **{**UNEQUAL, "bias": 1.0})
    people = world.sample(200_000, 8)

    def rule(X):
        return problems.softmax(X.to_numpy() @ np.linspace(-1, 1, 15).reshape(5, 3))

    found = world.evaluate(rule, criterion)
    h = rule(people.X)
    confusion = metrics.group_confusion(people.y, h, sensitive_features=people.sensitive_features)
    hits = h[np.arange(len(h)), people.y]
    assert abs(hits.mean() - found.accuracy) < 5 * np.hypot(hits.std() / np.sqrt(len(h)), found.accuracy_error)
    gaps = confusion.gaps(criterion)
    worst = gaps.loc[gaps["value"].abs().idxmax()]
    assert abs(abs(worst["value"]) - found.violation) < 5 * np.hypot(worst["se"], found.violation_error)
    np.testing.assert_allclose(confusion.tensor, found.confusion, atol=5 * 0.5 / np.sqrt(200_000) * 2**0.5)


def test_monte_carlo_errors_are_honest():
    """The spread over draws is the error stated, and within the bound of the docstring."""
    world, n = world_of(9, group_sizes=[0.8, 0.2]), 2000
    rule = world.optimum("dp", 0.05, n=n)
    found = [world.evaluate(rule, "dp", n=n, random_state=seed) for seed in range(100, 200)]
    for value in ("accuracy", "violation"):
        stated = np.mean([getattr(e, f"{value}_error") for e in found])
        assert 0.75 < np.std([getattr(e, value) for e in found]) / stated < 1.3
    assert all(e.accuracy_error <= 0.5 / np.sqrt(n) for e in found)


def test_labels_probabilities_and_questions():
    world = world_of(10, n_groups=3)
    labels = world.evaluate(lambda X: (X["x0"] > 0).astype(int), n=5000)
    onehot = world.evaluate(lambda X: np.eye(3)[(X["x0"] > 0).astype(int)], n=5000)
    assert labels == onehot and labels.n == 5000
    wide = world.evaluate(lambda X: (X["x0"] > 0).astype(int), n=5000, reference="pairwise")
    assert labels.violation < wide.violation <= 2 * labels.violation
    assert wide == world.evaluate(lambda X: (X["x0"] > 0).astype(int), Constraint("dp", reference="pairwise"), n=5000)


# -- seeds and shapes -------------------------------------------------------------------------------------------
def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("group_sizes", "centres", "slopes", "intercepts")
    )


def test_seeds():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that it is left alone)
    one, again, longer = (make_fair_classification(n, random_state=3) for n in (100, 100, 300))
    assert one.X.equals(again.X) and one.y.equals(again.y)
    assert one.sensitive_features.equals(again.sensitive_features)
    assert same(one.world, longer.world) and not same(one.world, world_of(4))
    assert longer.X.iloc[:100].equals(one.X) and longer.y.iloc[:100].equals(one.y)
    assert one.X.equals(one.world.sample(100, 3).X) and not one.X.equals(one.world.sample(100, 4).X)
    judged, _ = one.world._crowd(100, 3, "blind")
    assert not np.isin(judged.X.to_numpy(), longer.X.to_numpy()).any()
    generators = [np.random.default_rng(5) for _ in range(2)]
    first, second = (make_fair_classification(10, random_state=rng) for rng in generators)
    assert first.X.equals(second.X) and same(first.world, second.world)
    assert not first.X.equals(make_fair_classification(10, random_state=generators[0]).X)
    assert not make_fair_classification(10).X.equals(make_fair_classification(10).X)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_dataset():
    people = make_fair_classification(random_state=0, n_groups=30)
    assert isinstance(people, Dataset) and len(people) == 1000
    assert list(people.X) == people.feature_names == ["x0", "x1", "x2", "x3", "x4"]
    assert people.group_names[:2] == ["G00", "G01"] and people.group_names == sorted(people.group_names)
    assert set(people.y) <= set(people.class_names) == {0, 1, 2}
    assert world_of().group_names == ["A", "B"]
    part = people.take(np.array([5, 2]))
    assert isinstance(part, SyntheticDataset) and part.world is people.world
    np.testing.assert_array_equal(part.joint_posterior, people.joint_posterior[[5, 2]])
    world = people.world
    np.testing.assert_array_equal(world.group_posterior(people.X[people.feature_names[::-1]]),
                                  world.group_posterior(people.X.to_numpy()))  # fmt: skip
    with pytest.raises(ValueError, match="read-only"):
        world.slopes[0] = 1
    assert "30 groups" in repr(world) and "1,000 people" in repr(people) and "softmax" in people.description
    assert solve(people.joint_posterior, "dp", 0.05, groups=people.group_names, classes=people.class_names)


def test_one_group_and_tiny_groups():
    alone = world_of(n_groups=1)
    assert alone.optimum("dp", 0.0, n=500).certificate.violation == 0
    tiny = make_fair_classification(500, group_sizes=[1 - 1e-7, 1e-7], random_state=0)
    assert tiny.group_names == ["A", "B"] and set(tiny.sensitive_features) == {"A"}
    assert tiny.world.optimum("dp", 0.02, n=2000).certificate.excess == 0


# -- refusals ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"n_samples": 0}, "n_samples=0: must be an integer >= 1"),
        ({"n_samples": 10.0}, "n_samples=10.0: must be an integer"),
        ({"n_features": 0}, "n_features=0: must be an integer >= 1"),
        ({"n_classes": 1}, "n_classes=1: must be an integer >= 2"),
        ({"n_groups": 0}, "n_groups=0: must be an integer >= 1"),
        ({"n_groups": True}, "n_groups=True: must be an integer"),
        ({"group_sizes": [0.5, 0.3, 0.2]}, "group_sizes=.*: must be 2 positive numbers that sum to 1"),
        ({"group_sizes": [0.5, 0.6]}, "group_sizes=.*: must be 2 positive numbers that sum to 1"),
        ({"group_sizes": [1.5, -0.5]}, "group_sizes=.*: must be 2 positive numbers"),
        ({"group_sizes": [1.0, 0.0]}, "group_sizes=.*: must be 2 positive numbers"),
        ({"group_sizes": [np.nan, 1.0]}, "group_sizes=.*: must be 2 positive numbers"),
        ({"group_sizes": "half"}, "group_sizes='half': must be 2 positive numbers"),
        ({"class_sizes": [0.5, 0.5]}, "class_sizes=.*: must be 3 positive numbers that sum to 1"),
        ({"bias": -1}, "bias=-1: must be a number of at least 0"),
        ({"bias": np.inf}, "bias=inf: must be a number of at least 0"),
        ({"direct_bias": "much"}, "direct_bias='much': must be a number of at least 0"),
        ({"separation": np.nan}, "separation=nan: must be a number of at least 0"),
        ({"random_state": -1}, "random_state=-1: must be None, an integer >= 0 or a Generator"),
        ({"random_state": "dice"}, "random_state='dice': must be None"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        make_fair_classification(**wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"group_sizes": [0.5, 0.6]}, "group_sizes=.* sum to 1"),
        ({"centres": np.zeros((3, 5))}, r"centres: has shape \(3, 5\); group_sizes and slopes need \(2, 5\)"),
        ({"intercepts": np.zeros((2, 2))}, r"intercepts: has shape \(2, 2\)"),
        ({"intercepts": np.zeros(3)}, "intercepts: must be an array of finite numbers, 2-dimensional"),
        ({"slopes": np.full((5, 3), np.nan)}, "slopes: must be an array of finite numbers"),
        ({"slopes": np.zeros((5, 1))}, "slopes: has shape .*two classes"),
    ],
)
def test_worlds_by_hand_are_checked(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(world_of(), **wrong)


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda w: w.sample(0), "n=0: must be an integer >= 1"),
        (lambda w: w.optimum(n=0), "n=0: must be an integer >= 1"),
        (lambda w: w.frontier(awareness="both"), "awareness='both': must be 'blind' or 'aware'"),
        (lambda w: w.class_posterior(np.zeros((4, 2))), r"X: has shape \(4, 2\); must be finite numbers"),
        (lambda w: w.joint_posterior(np.zeros((2, 5)), sensitive_features=["A", "Z"]), "sensitive_features: .*'Z'"),
        (lambda w: w.evaluate("model", n=10), "rule: is a str; must be a FairRule or a function of X"),
        (lambda w: w.evaluate(lambda X: [0, 1], n=10), "rule: gave 2 answers for 10 people"),
        (lambda w: w.evaluate(lambda X: np.full((10, 3), 0.5), n=10), "prediction: 10 rows are not probabilities"),
        (lambda w: w.regret(lambda X: np.zeros(10, int), Ratio("dp"), n=10), "criterion: must be gaps between groups"),
    ],
)
def test_wrong_questions_are_named(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(world_of())


def test_a_world_by_hand():
    """Two people in ten are of group B, and class 1 is twice as likely as class 0 for them, whatever x is."""
    world = World([0.8, 0.2], np.zeros((2, 1)), np.zeros((1, 2)), [[0, 0], [0, np.log(2)]])
    np.testing.assert_allclose(world.joint_posterior([[3.0]])[0], [[0.4, 0.4], [0.2 / 3, 0.4 / 3]])
