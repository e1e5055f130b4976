"""Test that scores are the sum of their terms: against D written out a second time, for every kind of constraint."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optfair
from optfair import Constraint, MinimumRate, Ratio, Rows, load_rule
from optfair.dual.problem import cell_weights
from optfair.rule import score_terms
from tests import problems

A, M = 3, 3
SHARP = 1e-9
ATTRIBUTES = pd.MultiIndex.from_tuples([(0, "x"), (1, "x"), (1, "y")], names=["first", "second"])
USER_ROWS = Rows(np.random.default_rng(5).normal(size=(2, A, M, M)), -0.5, [0.3, 0.2], names=["one", "two"])
# name: (criterion, options of solve)
KINDS = {
    **{
        f"{criterion}, {reference}": (criterion, {"tolerance": 0.02, "reference": reference})
        for criterion in problems.CRITERIA
        for reference in ("overall", "pairwise")
    },
    "ratio": (Ratio("dp", 0.9), {}),
    "ratio to everybody": ([Ratio("eop", 0.8, reference="overall"), Ratio("oae", 0.95)], {}),
    "minimum rates": ([MinimumRate("recall", 0.5), MinimumRate("selection", 0.3, by="overall")], {}),
    "minimum accuracy": (MinimumRate("accuracy", 0.51), {"costs": problems.costs(0)}),
    "rows of the user": (USER_ROWS, {}),
    "rows beside a criterion": ([USER_ROWS, Constraint("eo", 0.05)], {}),
    "a tolerance for some groups": (Constraint("dp", {0: 0.01, 2: 0.02}), {}),
    "some outcomes": ("dp", {"tolerance": 0.01, "outcomes": [2]}),
    "several criteria": ({"dp": 0.02, "oae": 0.01, "meo": 0.02}, {}),
    "the same row twice": ([Constraint("dp", 0.02), Constraint("dp", 0.01)], {}),
    "marginals": (Constraint("dp", 0.01, attributes="marginals"), {"groups": ATTRIBUTES}),
    "intersections and marginals": (Constraint("eop", 0.02, attributes="both"), {"groups": ATTRIBUTES}),
    "pairs of marginals": (Constraint("dp", 0.01, "pairwise", None, "marginals"), {"groups": ATTRIBUTES}),
    "costs": ("dp", {"tolerance": 0.01, "costs": problems.costs(0)}),
    "costs of each group": ("eo", {"tolerance": 0.03, "costs": np.stack([problems.costs(k) for k in range(A)])}),
    "weights": ("eop", {"tolerance": 0.02, "sample_weight": problems.weights(3, 200)}),
    "the exact program": ("dp", {"tolerance": 0.01, "method": "lp"}),
    "a high temperature": ("eo", {"tolerance": 0.02, "temperature": 0.2}),
    "no constraint that binds": ("dp", {"tolerance": 1.0}),
}


def posterior(kind, n=200):
    return problems.KINDS[kind](3, n, A, M)


def solved(name, kind="blind"):
    criterion, options = KINDS[name]
    return optfair.solve(posterior(kind), criterion, random_state=0, n_jobs=1, **options)


# -- D a second time -----------------------------------------------------------------------------------------
def members(group, groups):
    """The positions of the groups that a name in a table stands for."""
    if group == "overall":
        return list(range(A))
    if isinstance(group, tuple):
        parts = [tuple(label) for label in groups]
        return [k for k, label in enumerate(parts) if all(g in ("*", x) for g, x in zip(group, label, strict=True))]
    return [groups.tolist().index(group)]


def naive_values(rule, constraints, J, P):
    """The values of all rows of a rule, from the names in its table and the definitions of the rates."""
    ratios = {f"{c.criterion} ratio": c.minimum for c in constraints if isinstance(c, Ratio)}
    own_rows = {name: row for c in constraints if isinstance(c, Rows) for name, row in zip(c.names, c.D, strict=True)}
    rates = {"minimum recall": "eop", "minimum selection": "dp", "minimum accuracy": "oae"}
    values = []
    for criterion, group, against, event, outcome in rule.multipliers.iloc[:, :5].itertuples(index=False):
        if group is None:
            values.append(own_rows[criterion].toarray().ravel() @ J.ravel())
            continue
        name = rates.get(criterion, criterion.removesuffix(" ratio"))
        value = problems.definition(name, J, P, members(group, rule.groups), range(M))[event, outcome]
        if against is not None:
            other = problems.definition(name, J, P, members(against, rule.groups), range(M))[event, outcome]
            value -= ratios.get(criterion, 1.0) * other
        values.append(value)
    return values


def naive_matrix(rule, name, kind, weight=None):
    """D of a rule, (K, A·m·m), on the posteriors that it was solved on."""
    constraints = KINDS[name][0]
    constraints = constraints if isinstance(constraints, list) else [constraints]
    weight = np.ones(200) if weight is None else weight
    P = np.average(posterior(kind), axis=0, weights=weight)
    return problems.linear_rows(lambda J, P: naive_values(rule, constraints, J, P), P)


def naive_utility(costs):
    if costs is None:
        return np.broadcast_to(np.eye(M), (A, M, M)), 1.0
    R = np.broadcast_to(costs, (A, M, M))
    return (R.max() - R) / (R.max() - R.min()), R.max() - R.min()


@pytest.mark.parametrize("kind", problems.KINDS)
@pytest.mark.parametrize("name", KINDS)
def test_weights_are_utility_minus_multipliers_times_rows(name, kind):
    """By multipliers from the table of the user, rates by their definitions, and the utility by that of the costs."""
    rule, options = solved(name, kind), KINDS[name][1]
    U, scale = naive_utility(options.get("costs"))
    D = naive_matrix(rule, name, kind, options.get("sample_weight"))
    lam = rule.multipliers["multiplier"].to_numpy() / scale
    if options.get("method") == "lp":  # the table has those of the exact program, the rule those of a small temperature
        lam = rule.terms.multipliers
    assert lam.any() or name == "no constraint that binds"
    size = max(1.0, np.abs(rule.weights).max())
    np.testing.assert_allclose(U - (D.T @ lam).reshape(A, M, M), rule.weights, rtol=0, atol=SHARP * size)
    np.testing.assert_allclose(rule.terms.weights().reshape(A, M, M), rule.weights, rtol=0, atol=SHARP * size)
    np.testing.assert_allclose(rule.terms.matrix().toarray(), D, rtol=0, atol=SHARP * max(1.0, np.abs(D).max()))
    assert rule.terms.has_costs == ("costs" in options)


@pytest.mark.parametrize("name", KINDS)
def test_parts_are_those_of_single_rows(name):
    """For any two classes of new people, part by part, also in blocks of few rows."""
    rule, Z = solved(name), problems.blind(8, 60, A, M)
    rng, flat = np.random.default_rng(0), Z.reshape(len(Z), -1)
    first, second = rng.integers(0, M, (2, len(Z)))
    index, lam = np.arange(len(Z)), rule.terms.multipliers
    values = np.einsum("xc,kcj->xkj", flat, rule.terms.matrix().toarray().reshape(len(lam), A * M, M))
    expected = -lam * (values[index, :, first] - values[index, :, second])
    parts = rule.terms.parts(flat, first, second)
    assert parts.shape == (60, np.count_nonzero(lam))
    np.testing.assert_allclose(parts, expected[:, rule.terms.active], rtol=0, atol=1e-12 * max(1, np.abs(lam).max()))


def test_blocks_make_no_difference(monkeypatch):
    terms, Z = solved("rows beside a criterion").terms, problems.blind(8, 60, A, M).reshape(60, -1)
    first, second = np.random.default_rng(0).integers(0, M, (2, 60))
    whole = terms.parts(Z, first, second)
    monkeypatch.setattr(score_terms, "BLOCK_NUMBERS", 200)
    np.testing.assert_allclose(terms.parts(Z, first, second), whole, rtol=0, atol=1e-15)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(1, 4),
    n_classes=st.integers(2, 4),
    criterion=st.sampled_from(problems.CRITERIA),
    kind=st.sampled_from(list(problems.KINDS)),
    tolerance=st.sampled_from([0.0, 0.01, 0.1]),
    with_costs=st.booleans(),
    with_offset=st.booleans(),
)
def test_differences_of_scores_add_up(seed, n_groups, n_classes, criterion, kind, tolerance, with_costs, with_offset):
    Z = problems.KINDS[kind](seed, 60, n_groups, n_classes)
    offset = 0.1 * np.random.default_rng(seed).normal(size=(60, n_classes)) if with_offset else None
    costs = problems.costs(seed, n_classes) if with_costs else None
    rule = optfair.solve(Z, criterion, tolerance, costs=costs, offset=offset, random_state=0, n_jobs=1, max_passes=20)
    table = rule.explain(Z, offset=offset).table
    scores = Z.reshape(60, -1) @ rule.weights.reshape(-1, n_classes) + (0 if offset is None else offset)
    index, size = np.arange(60), max(1.0, np.abs(rule.weights).max())
    margin = scores[index, table["answer"]] - scores[index, table["against"]]
    np.testing.assert_allclose(table["margin"], margin, rtol=0, atol=SHARP * size)
    np.testing.assert_allclose(table["preference"] + table["constraints"], margin, rtol=0, atol=SHARP * size)


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_rule_has_the_same_terms(name, tmp_path):
    rule, Z = solved(name), problems.blind(8, 60, A, M)
    rule.save(tmp_path / "rule.json")
    other = load_rule(tmp_path / "rule.json")
    np.testing.assert_array_equal(other.terms.multipliers, rule.terms.multipliers)
    np.testing.assert_array_equal(other.terms.utility, rule.terms.utility)
    np.testing.assert_array_equal(other.terms.matrix().toarray(), rule.terms.matrix().toarray())
    np.testing.assert_allclose(other.terms.weights(), rule.weights.reshape(A * M, M), rtol=0, atol=SHARP)
    one, two = rule.explain(Z), other.explain(Z)
    pd.testing.assert_frame_equal(one.table, two.table, rtol=0, atol=1e-12)
    assert one.sentences == two.sentences


def test_rules_that_are_mixed_with_a_constant_have_the_terms_of_the_rule_inside():
    rule = solved("dp, overall")
    mixed = replace(rule, share=0.3, constant=np.array([0.2, 0.3, 0.5]))
    Z = problems.blind(8, 300, A, M)
    table, plain = mixed.explain(Z).table, rule.explain(Z).table
    assert (table["answer"] != plain["answer"]).any()
    np.testing.assert_allclose(table["margin"], table["preference"] + table["constraints"], rtol=0, atol=SHARP)


def test_the_terms_are_those_of_the_solver():
    rule = solved("eo, pairwise")
    W = cell_weights(rule.terms.utility, rule.terms.matrix(), rule.terms.multipliers)
    np.testing.assert_array_equal(rule.terms.weights(), W)
    other = rule.terms.with_multipliers(np.zeros_like(rule.terms.multipliers))
    np.testing.assert_array_equal(other.weights(), rule.terms.utility)
    assert len(other.active) == 0 and copy.copy(other).parts(np.zeros((2, 9)), [0, 1], [1, 1]).shape == (2, 0)
