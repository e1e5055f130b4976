"""Test the frontier: it starts at the unconstrained rule, its bounds are concave, every point is a certified rule."""

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optfair
from optfair import Constraint, Frontier, MinimumRate, Ratio, metrics
from optfair.constraints import as_constraints
from optfair.dual.posterior import check_posterior
from optfair.rule.driver import solve_problem
from optfair.rule.frontier import pareto_mask
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.tolerance_path import loosest_constraints, tolerance_path, with_tolerance
from tests.problems import aware, blind

CASES = {"dp": (blind, "overall"), "eo": (aware, "overall"), "oae": (blind, "pairwise"), "meo": (blind, "overall")}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """Return (Z, criterion, reference, its frontier)."""
    kind, reference = CASES[request.param]
    Z = kind(3, n=400)
    path = optfair.frontier(Z, request.param, 8, reference=reference, random_state=0, n_jobs=1)
    return Z, request.param, reference, path


@pytest.fixture(scope="module")
def tested():
    """Return a frontier with weighted test data: (frontier, Z_test, y, a, w)."""
    Z, Z_test = blind(0, n=400), blind(0, n=300)[::-1]
    rng = np.random.default_rng(0)
    cells = np.array([rng.choice(9, p=z.ravel() / z.sum()) for z in Z_test])
    y, a, w = np.array(["no", "maybe", "yes"])[cells % 3], np.array(["f", "m", "x"])[cells // 3], rng.random(300)
    names = {"groups": ["f", "m", "x"], "classes": ["no", "maybe", "yes"]}
    path = optfair.frontier(Z, "eo", 5, test=(Z_test, y, a, w), random_state=0, n_jobs=1, **names)
    return path, Z_test, y, a, w


# -- the path -----------------------------------------------------------------------------------------------
def test_it_starts_at_the_unconstrained_rule(case):
    Z, criterion, reference, path = case
    first, line = path.rules[0], path.table.iloc[0]
    assert (first.multipliers["multiplier"] == 0).all() and (first.temperatures == 0).all()
    assert line["tolerance"] == line["violation"] == first.certificate.violation > 0.05
    assert line["accuracy"] == pytest.approx(Z.sum(axis=1).max(axis=1).mean(), abs=1e-12)
    assert line["price"] == 0
    # a tolerance just below asks for something
    below = optfair.solve(Z, criterion, line["tolerance"] * 0.98, reference=reference, n_jobs=1)
    assert below.multipliers["multiplier"].abs().sum() > 0


def test_tolerances_descend_and_are_kept(case):
    *_, path = case
    tolerance = path.table["tolerance"].to_numpy()
    assert len(tolerance) == len(path.rules) == 8 and (np.diff(tolerance) < 0).all() and tolerance[-1] > 0
    assert (np.diff(tolerance, 2) > 0).all()  # denser towards zero
    assert (path.table["violation"] <= tolerance + path.table["excess"] + 1e-9).all()
    assert (path.table["excess"] == 0).all()


def test_accuracy_falls_with_the_tolerance_up_to_the_gaps(case):
    *_, path = case
    table = path.table
    for left, right in zip(table.index[1:], table.index[:-1], strict=True):  # left has the smaller tolerance
        assert table.accuracy[left] <= table.accuracy[right] + table.gap[right] + 1e-9
        assert table.upper_bound[left] >= table.accuracy[left] - 1e-9
    assert (table["gap"] <= 1.1e-3).all()


def test_the_bounds_are_concave_up_to_the_gaps(case):
    """The optimal accuracy V(ξ) is concave and non-decreasing, and accuracy ≤ V ≤ upper_bound."""
    *_, path = case
    t, low, high = (path.table[name].to_numpy()[::-1] for name in ("tolerance", "accuracy", "upper_bound"))
    for i in range(len(t)):
        for k in range(i + 2, len(t)):
            for j in range(i + 1, k):
                chord = low[i] + (low[k] - low[i]) * (t[j] - t[i]) / (t[k] - t[i])
                assert high[j] >= chord - 1e-9
        assert (high[i:] >= low[i] - 1e-9).all()


def test_the_price_is_the_slope(case):
    """Weak duality at every other tolerance: V(ξ') ≤ upper_bound(ξ) + price·(ξ' − ξ), so prices bracket the slopes."""
    *_, path = case
    t, low, high, price = (path.table[c].to_numpy() for c in ("tolerance", "accuracy", "upper_bound", "price"))
    for i in range(len(t)):
        assert (low <= high[i] + price[i] * (t - t[i]) + 1e-6).all()
    for right, left in zip(range(len(t) - 1), range(1, len(t)), strict=True):
        step = t[right] - t[left]
        slope = (high[right] - high[left]) / step
        slack = max(path.table["gap"][right], path.table["gap"][left]) / step + 1e-6
        assert price[left] + slack >= slope >= price[right] - slack
    assert price[-1] > 0.1


def test_each_point_agrees_with_a_cold_solve(case):
    Z, criterion, reference, path = case
    for k in (1, 4, 7):
        warm = path.rules[k].certificate
        cold = optfair.solve(Z, criterion, path.table["tolerance"][k], reference=reference, n_jobs=1).certificate
        assert cold.excess == warm.excess == 0
        assert warm.accuracy <= cold.upper_bound + 1e-9 and cold.accuracy <= warm.upper_bound + 1e-9


def test_the_table_is_what_the_rules_say(case):
    Z, *_, path = case
    for line, rule in zip(path.table.itertuples(), path.rules, strict=True):
        c = rule.certificate
        assert (line.accuracy, line.violation, line.upper_bound, line.gap) == (
            c.accuracy,
            c.violation,
            c.upper_bound,
            c.gap,
        )
        assert line.tolerance == c.tolerance and line.temperature == c.temperature
        h = rule.predict_proba(Z)
        assert np.einsum("xai,xi->", Z, h) / len(Z) == pytest.approx(line.accuracy, abs=1e-9)
    columns = "tolerance accuracy value violation upper_bound gap excess price temperature seconds pareto"
    assert " ".join(path.table.columns) == columns


def test_the_rules_of_a_seeded_frontier_share_their_secret(case):
    *_, path = case
    assert len({rule.key for rule in path.rules}) == 1


def test_explicit_tolerances():
    Z = blind(3, n=300)
    path = optfair.frontier(Z, "dp", [0.01, 0.1, 0.02, 0.1], n_jobs=1)
    assert path.table["tolerance"].tolist() == [0.1, 0.02, 0.01]
    assert optfair.frontier(Z, "dp", np.array([0.0]), n_jobs=1).table["violation"][0] <= 1e-3
    free = optfair.frontier(Z, "dp", [1], n_jobs=1)
    assert (free.rules[0].multipliers["multiplier"] == 0).all()


def test_several_criteria_move_together_and_the_rest_stays():
    Z = blind(3, n=300)
    constraints = ["dp", Constraint("oae", 0.5), MinimumRate("selection", 0.05), Ratio("dp", 0.1, outcomes=[0])]
    path = optfair.frontier(Z, constraints, 4, n_jobs=1)
    for line, rule in zip(path.table.itertuples(), path.rules, strict=True):
        assert rule.certificate.tolerance == (line.tolerance, line.tolerance, 0.05, 0.1)
        table = rule.multipliers
        gap = table["criterion"].isin(["dp", "oae"])
        assert (table.loc[gap, "upper"] == line.tolerance).all()
        assert (table.loc[table["criterion"] == "minimum selection", "lower"] == 0.05).all()
        assert table.loc[gap, "value"].abs().max() == pytest.approx(line.violation, abs=1e-12)
        assert line.price == pytest.approx(table.loc[gap, "multiplier"].abs().sum())


def test_costs_weights_and_names_are_passed_on():
    Z, weight = blind(3, n=300), np.random.default_rng(0).random(300)
    costs = np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0]])
    options = {"sample_weight": weight, "costs": costs, "classes": ["a", "b", "c"], "outcomes": ["a"], "n_jobs": 1}
    path = optfair.frontier(Z, "dp", 3, gap=5e-3, **options)
    for line, rule in zip(path.table.itertuples(), path.rules, strict=True):
        cold = optfair.solve(Z, "dp", line.tolerance, **options).certificate
        assert cold.value <= line.upper_bound + 1e-9 and rule.certificate.value <= cold.upper_bound + 1e-9
        assert set(rule.multipliers["outcome"]) == {"a"}


def test_groups_that_are_alike_cost_nothing():
    Z = np.broadcast_to(blind(0, n=200)[:, :1], (200, 2, 3)) / 2
    Z = Z / Z.sum((1, 2), keepdims=True)
    path = optfair.frontier(Z, "dp", 5, n_jobs=1)
    assert (path.table["accuracy"].max() - path.table["accuracy"].min()) <= 1e-3


def test_groups_that_never_agree():
    """Group 0 always gets class 0, group 1 class 1: the unconstrained violation is 1."""
    Z = np.zeros((32, 2, 2))
    Z[np.arange(32), np.arange(32) % 2, np.arange(32) % 2] = 1
    for seed in range(8):
        weight = np.random.default_rng(seed).random(32)
        path = optfair.frontier(Z, "dp", 2, reference="pairwise", sample_weight=weight, n_jobs=1)
        assert path.table["violation"][0] == pytest.approx(1)


# -- test data ----------------------------------------------------------------------------------------------
def test_test_columns_are_those_of_the_metrics(tested):
    path, Z, y, a, w = tested
    for line, rule in zip(path.table.itertuples(), path.rules, strict=True):
        h = rule.predict_proba(Z)
        options = {"sensitive_features": a, "sample_weight": w, "classes": rule.classes}
        assert line.test_violation == pytest.approx(metrics.violation(y, h, criterion="eo", **options), abs=1e-12)
        assert line.test_floor == pytest.approx(metrics.noise_floor(y, h, criterion="eo", **options), rel=1e-9)
        right = h[np.arange(len(y)), [rule.classes.get_loc(label) for label in y]]
        assert line.test_accuracy == pytest.approx(np.average(right, weights=w), abs=1e-12)


def test_the_fair_point_is_the_best_constant(tested):
    path, _, y, _, w = tested
    shares = {c: w[y == c].sum() / w.sum() for c in set(y)}
    violation, accuracy = path.constant["test"]
    assert violation == pytest.approx(0, abs=1e-9) and any(accuracy == pytest.approx(s) for s in shares.values())
    assert path.constant["train"][0] == 0
    assert path.constant["train"][1] <= path.table["accuracy"].min() + path.table["gap"].max()


def test_pareto_and_area_on_test_data(tested):
    path, *_ = tested
    table = path.table
    mask = pareto_mask(table["test_violation"].to_numpy(), table["test_accuracy"].to_numpy())
    pd.testing.assert_frame_equal(path.pareto("test"), table[mask])
    pd.testing.assert_frame_equal(path.pareto(), table[table["pareto"]])
    assert (
        min(table["test_accuracy"].min(), path.constant["test"][1]) <= path.area("test") <= table["test_accuracy"].max()
    )


@pytest.mark.parametrize("ask", ["pareto", "area"])
def test_test_data_that_were_not_given(case, ask):
    *_, path = case
    for on in ("test", "valid"):
        with pytest.raises(ValueError, match=rf"^on='{on}': must be 'train', or 'test' when the frontier was"):
            getattr(path, ask)(on)


# -- Pareto and area ----------------------------------------------------------------------------------------
points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@settings(max_examples=50)
@given(points)
def test_pareto_mask_is_the_definition(points):
    violation, accuracy = np.array(points, dtype=float).T
    mask = pareto_mask(violation, accuracy)
    best = {points[i] for i in np.flatnonzero(mask)}
    for v, a in points:
        beaten = any((v2 <= v and a2 > a) or (v2 < v and a2 >= a) for v2, a2 in points)
        assert ((v, a) in best) == (not beaten)
    assert len(best) == mask.sum()  # of equal points the first


def make_frontier(points, fair=(0.0, 0.25)):
    """Return a frontier of (violation, accuracy) without rules; fair : that of the best constant."""
    violation, accuracy = np.array(points, dtype=float).T
    table = pd.DataFrame({"tolerance": violation, "accuracy": accuracy, "value": accuracy, "violation": violation})
    return Frontier(table, (), {"train": fair}, {"train": points[0]})


def test_area_by_hand():
    assert make_frontier([(0.5, 0.75)]).area() == pytest.approx(0.5)  # a straight line from (0, 1/4) to (1/2, 3/4)
    assert make_frontier([(0.5, 0.75), (0.25, 0.75)]).area() == pytest.approx((0.5 + 0.75) / 2)  # up, then flat
    assert make_frontier([(0.5, 0.75), (0.25, 0.5)]).area() == pytest.approx(0.5)  # a point on the line adds nothing
    assert make_frontier([(0.5, 0.75), (0.25, 0.1)]).area() == pytest.approx(0.5)  # nor one that is beaten
    assert make_frontier([(0.0, 0.75)]).area() == pytest.approx(0.75)  # fair without asking
    assert make_frontier([(0.5, 0.2)]).area() == pytest.approx(0.25)  # the constant is better


@settings(max_examples=30)
@given(points)
def test_area_is_the_integral(points):
    """Against a fine sum over the best straight line between Pareto points, whatever the order of the lines."""
    points = [(v / 10 + 0.1, a / 5) for v, a in points]
    end = points[0][0]
    best = sorted({(0.0, 0.25), *points})
    best = [p for p in best if not any(q != p and q[0] <= p[0] and q[1] >= p[1] for q in best)]
    grid = (np.arange(1000) + 0.5) / 1000 * end

    def height(x):
        after = next((k for k, p in enumerate(best) if p[0] >= x), None)
        if after is None:
            return best[-1][1]
        (v0, a0), (v1, a1) = best[after - 1], best[after]
        return a0 + (a1 - a0) * (x - v0) / (v1 - v0)

    assert make_frontier(points).area() == pytest.approx(np.mean([height(x) for x in grid]), abs=2e-3)


def test_the_area_is_between_the_constant_and_the_best(case):
    *_, path = case
    assert path.constant["train"][1] <= path.area() <= path.table["accuracy"][0]
    # more points can only reveal more of a concave curve
    Z, criterion, reference, _ = case
    coarse = optfair.frontier(Z, criterion, 2, reference=reference, n_jobs=1)
    assert coarse.area() <= path.area() + 2e-3


def test_given_tolerances_end_at_the_unconstrained_rule_all_the_same():
    """Area and plot know where the unconstrained rule is, though no line of the table is."""
    Z = blind(3, n=400)
    path = optfair.frontier(Z, "dp", [0.02, 0.01], n_jobs=1)
    whole = optfair.frontier(Z, "dp", 12, n_jobs=1)
    assert path.unconstrained["train"] == (whole.table["violation"][0], whole.table["value"][0])
    assert path.area() == pytest.approx(whole.area(), abs=0.02) and path.area() <= whole.area() + 1e-3


def test_costs_are_what_a_frontier_with_costs_is_about():
    Z = blind(4, n=400)
    m = Z.shape[2]
    costs = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) * 3.0
    y, a = np.arange(400) % m, np.arange(400) % Z.shape[1]
    path = optfair.frontier(Z, "dp", 4, costs=costs, test=(Z, y, a), n_jobs=1)
    for line, rule in zip(path.table.itertuples(), path.rules, strict=True):
        h = rule.predict_proba(Z)
        assert line.value == pytest.approx(-np.einsum("xai,xj,ij->", Z, h, costs) / 400, abs=1e-9)
        assert line.test_value == pytest.approx(-(costs[y] * h).sum() / 400, abs=1e-9)
    assert path.constant["train"][1] <= path.area() <= path.table["value"].max()
    with pytest.raises(ValueError, match="on='tomorrow'"):
        path.area("tomorrow")


# -- plot ---------------------------------------------------------------------------------------------------
def test_plot_draws_the_table(case):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    *_, path = case
    ax = path.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("violation (train)", "accuracy (train)")
    lines = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    best = path.pareto().sort_values("violation")
    rest = path.table.drop(best.index)
    assert set(lines) == {"Pareto frontier", "unconstrained"} | ({"other tolerances"} if len(rest) else set())
    if len(rest):
        np.testing.assert_array_equal(lines["other tolerances"], rest[["violation", "value"]])
    np.testing.assert_array_equal(lines["Pareto frontier"], best[["violation", "value"]])
    np.testing.assert_array_equal(lines["unconstrained"][0], path.table[["violation", "value"]].iloc[0])
    pyplot.close(ax.figure)


def test_plot_of_test_data_on_given_axes(tested):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    path, *_ = tested
    ax = pyplot.subplots()[1]
    assert path.plot(ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("violation (test)", "accuracy (test)")
    assert "noise floor (95 %)" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert path.plot(on="train").get_xlabel() == "violation (train)"
    pyplot.close("all")
    with pytest.raises(ValueError, match=r"^on='valid': must be"):
        path.plot(ax=ax, on="valid")
    pyplot.close("all")


def test_plot_writes_a_picture(case, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    *_, path = case
    path.plot(tmp_path / "frontier.svg")
    assert (tmp_path / "frontier.svg").read_text("utf-8").count("<svg") == 1
    with pytest.raises(ValueError, match=r"^path='frontier.gif': the name of a picture must end in .png, .svg, .pdf.$"):
        path.plot("frontier.gif")
    with pytest.raises(TypeError, match=r"^Frontier.plot: axes are given by name, as in plot\(ax=axes\).$"):
        path.plot(pyplot.subplots()[1])
    pyplot.close("all")


def test_plot_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError) as caught:
        make_frontier([(0.5, 0.75)]).plot()
    assert str(caught.value) == 'Frontier.plot needs matplotlib: pip install "optfair[plot]"'


# -- the parts of a path -----------------------------------------------------------------------------------
def test_constraints_of_a_path_move_their_tolerance_only():
    rate, ratio = MinimumRate("recall", 0.1), Ratio("dp", 0.5)
    constraints = [Constraint("dp", 0.3, "pairwise", outcomes=[1]), rate, ratio]
    assert with_tolerance(constraints, 0.02) == [Constraint("dp", 0.02, "pairwise", outcomes=[1]), rate, ratio]
    assert loosest_constraints(constraints)[0].tolerance == 1.0 and constraints[0].tolerance == 0.3


def test_a_path_can_be_solved_by_another_solver_and_go_on_from_a_start(prepare):
    """Every tolerance is handed to the solver with the solution of the one before; the first, with the start."""
    constraints, starts = [Constraint("dp")], []
    problem = prepare(blind(3, n=200), loosest_constraints(constraints))

    def solver(problem, start):
        starts.append((problem.rows.tolerances, start))
        solutions.append(solve_problem(problem, start))
        return solutions[-1]

    solutions = [solve_problem(problem)]
    path = tolerance_path(problem, [0.02, 0.1], solver=solver, start=solutions[0])
    assert [tolerance for tolerance, _ in starts] == [0.1, 0.02]
    assert all(start is solution for (_, start), solution in zip(starts, solutions, strict=False))
    assert all(rule is solution.rule for rule, solution in zip(path.rules, solutions[1:], strict=True))


def test_a_tolerance_moves_the_bounds_of_gaps_alone_and_compiles_nothing():
    constraints = [*as_constraints("dp", 0.3), MinimumRate("recall", 0.1)]
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 300).reshape(-1, 2, 3)
    problem = FairProblem.prepare(check_posterior(Z), constraints, None, Options(random_state=0))
    moved = problem.with_tolerance(with_tolerance(constraints, 0.02), 0.02)
    compiled = problem.with_constraints(with_tolerance(constraints, 0.02))
    for name in ("lower", "upper", "tolerances", "constraints"):
        np.testing.assert_array_equal(getattr(moved.rows, name), getattr(compiled.rows, name))
    assert moved.matrix is problem.matrix and moved.rows.names == compiled.rows.names
