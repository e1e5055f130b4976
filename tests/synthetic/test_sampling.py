"""`make_fair_classification`: the world has the requested sizes and bias, and seeds repeat."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optfair import solve
from optfair.datasets import Dataset, make_fair_classification
from optfair.synthetic.sampling import BALANCING_ROWS
from optfair.synthetic.world import SyntheticDataset
from tests import problems


def unconstrained(world, criterion="dp", n=20_000, **options):
    """Return the evaluation of the most accurate rule, whose tolerance binds nothing."""
    return world.evaluate(world.optimum(criterion, 1.0, n=n, **options), criterion, n=n, **options)


@given(
    sizes=st.lists(st.floats(1e-4, 1), min_size=1, max_size=5),
    class_sizes=st.lists(st.floats(0.05, 1), min_size=2, max_size=5),
    d=st.integers(1, 7),
    knobs=st.tuples(*[st.floats(0, 6)] * 3),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=15)
def test_any_world_is_as_requested(sizes, class_sizes, d, knobs, seed):
    A, m, n = len(sizes), len(class_sizes), 20_000
    sizes, class_sizes = np.array(sizes) / np.sum(sizes), np.array(class_sizes) / np.sum(class_sizes)
    bias, direct_bias, separation = knobs
    data = make_fair_classification(
        n, d, m, A, group_sizes=sizes, class_sizes=class_sizes, bias=bias, direct_bias=direct_bias,
        separation=separation, random_state=seed,
    )  # fmt: skip
    world, Z = data.world, data.joint_posterior
    assert Z.shape == (n, A, m) and (Z >= 0).all()
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)
    np.testing.assert_allclose(Z.sum(axis=1), world.class_posterior(data.X), atol=1e-12)
    np.testing.assert_allclose(Z.sum(axis=2), world.group_posterior(data.X), atol=1e-12)
    assert data.X.shape == (n, d) and data.group_names == sorted(data.group_names)
    np.testing.assert_allclose(sizes @ world.centres, 0, atol=1e-9)
    distances = np.linalg.norm(world.centres[:, None] - world.centres, axis=2)
    assert distances.max() == pytest.approx(bias if A > 1 else 0)
    np.testing.assert_allclose(np.mean(world.slopes**2) * d, separation**2, atol=1e-9)
    # Six standard errors of these rows, and those of the rows that balanced the classes.
    for values, names, shares, balancing in (
        (data.sensitive_features, data.group_names, sizes, 0),
        (data.y, data.class_names, class_sizes, 1 / BALANCING_ROWS),
    ):
        frequencies = values.value_counts(normalize=True, sort=False).reindex(names, fill_value=0).to_numpy()
        error = 6 * np.sqrt(shares * (1 - shares) * (1 / n + balancing)) + 6 / n
        assert (np.abs(frequencies - shares) <= error + 1e-4).all()


def test_without_bias_groups_do_not_differ(make_world):
    """Z[x, a, i] = ω_a η_i(x): every criterion is met by the unconstrained rule, at no loss of accuracy."""
    world = make_world(bias=0, n_groups=3, group_sizes=(0.6, 0.3, 0.1))
    X = world.sample(500, 1).X
    eta = world.class_posterior(X)
    np.testing.assert_allclose(world.joint_posterior(X), world.group_sizes[:, None] * eta[:, None, :], atol=1e-14)
    best = eta.max(axis=1).mean()
    for criterion in problems.CRITERIA:
        free = world.optimum(criterion, 1.0, n=2000)
        assert world.evaluate(free, criterion, n=2000).violation < 1e-12
        rule = world.optimum(criterion, 1e-6, n=2000)
        assert rule.certificate.accuracy == pytest.approx(free.certificate.accuracy, abs=1e-12)
    assert abs(free.certificate.accuracy - best) < 0.05


@pytest.mark.parametrize("m, A", [(2, 2), (3, 2), (4, 5)])
def test_bias_makes_the_best_rule_unfair(make_world, m, A):
    results = [unconstrained(make_world(3, n_classes=m, n_groups=A, bias=bias)) for bias in (0, 0.5, 1, 2)]
    violations = [result.violation for result in results]
    assert violations[0] < 1e-12 and (np.diff(violations) > 0.02).all()
    worlds = [make_world(3, n_classes=m, n_groups=A, bias=0, direct_bias=d) for d in (0, 0.5, 1, 2)]
    results = [unconstrained(world, awareness="aware") for world in worlds]
    assert results[0].violation < 5 * results[0].violation_error
    assert (np.diff([result.violation for result in results]) > 0.01).all()
    # Blind and without indirect bias x says nothing about the group: demographic parity holds whatever the labels are.
    assert unconstrained(worlds[-1]).violation < 1e-12


def same_parameters(first, second):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("group_sizes", "centres", "slopes", "intercepts")
    )


def test_seeds(make_world):
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that it is left alone)
    short, repeated, long = (make_fair_classification(n, random_state=3) for n in (100, 100, 300))
    assert short.X.equals(repeated.X) and short.y.equals(repeated.y)
    assert short.sensitive_features.equals(repeated.sensitive_features)
    assert same_parameters(short.world, long.world) and not same_parameters(short.world, make_world(4))
    assert long.X.iloc[:100].equals(short.X) and long.y.iloc[:100].equals(short.y)
    assert short.X.equals(short.world.sample(100, 3).X) and not short.X.equals(short.world.sample(100, 4).X)
    population, _ = short.world._population(100, 3, "blind")
    assert not np.isin(population.X.to_numpy(), long.X.to_numpy()).any()
    generators = [np.random.default_rng(5) for _ in range(2)]
    first, second = (make_fair_classification(10, random_state=rng) for rng in generators)
    assert first.X.equals(second.X) and same_parameters(first.world, second.world)
    assert not first.X.equals(make_fair_classification(10, random_state=generators[0]).X)
    assert not make_fair_classification(10).X.equals(make_fair_classification(10).X)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_dataset(world):
    data = make_fair_classification(random_state=0, n_groups=30)
    assert isinstance(data, Dataset) and len(data) == 1000
    assert list(data.X) == data.feature_names == ["x0", "x1", "x2", "x3", "x4"]
    assert data.group_names[:2] == ["G00", "G01"] and data.group_names == sorted(data.group_names)
    assert set(data.y) <= set(data.class_names) == {0, 1, 2}
    assert world.group_names == ["A", "B"]
    part = data.take(np.array([5, 2]))
    assert isinstance(part, SyntheticDataset) and part.world is data.world
    np.testing.assert_array_equal(part.joint_posterior, data.joint_posterior[[5, 2]])
    assert "30 groups" in repr(data.world) and "1,000 people" in repr(data) and "softmax" in data.description
    assert solve(data.joint_posterior, "dp", 0.05, groups=data.group_names, classes=data.class_names)


def test_one_group_and_tiny_groups(make_world):
    assert make_world(n_groups=1).optimum("dp", 0.0, n=500).certificate.violation == 0
    tiny = make_fair_classification(500, group_sizes=[1 - 1e-7, 1e-7], random_state=0)
    assert tiny.group_names == ["A", "B"] and set(tiny.sensitive_features) == {"A"}
    assert tiny.world.optimum("dp", 0.02, n=2000).certificate.excess == 0


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
        ({"bias": -1}, "bias=-1: must be a number >= 0"),
        ({"bias": np.inf}, "bias=inf: must be a number >= 0"),
        ({"direct_bias": "much"}, "direct_bias='much': must be a number >= 0"),
        ({"separation": np.nan}, "separation=nan: must be a number >= 0"),
        ({"random_state": -1}, "random_state=-1: must be None, an integer >= 0, or a NumPy generator"),
        ({"random_state": "dice"}, "random_state='dice': must be None"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message) as error:
        make_fair_classification(**wrong)
    assert "\n" not in str(error.value)
