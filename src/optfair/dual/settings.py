"""Collect the numbers of the solver in one place, each with its reason.

"Measured" means: on 1.6 million synthetic rows with 5 groups and 5 classes, and on 1.1 million rows of ACS data with 9
groups and 6 classes, two cores. Passes over all rows are what is counted; seconds follow them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SolverSettings:
    """How the dual is solved.

    sketch_rows : the first sample. (few_rows : up to so many times as many rows are their own sample, which saves more
        than it costs.) With 30,000 rows λ is close enough that polishing takes 4 to 10 passes over all
        rows; uniform samples, or much smaller ones, took 10 to more than 50.
    local_rows, local_share : a local sample has one row in local_share, but between once and twice local_rows. 40,000
        rows reduce the residual tenfold per pass; smaller ones have to be drawn again.
    local_residual, local_passes : a local sketch is solved to this share of the present residual; beyond, its error is
        that of the sample, and more than 30 passes over it never paid.
    decided_share : decided rows are drawn as if they had this share of the mean curvature, because they may become
        undecided at the next λ.
    full_share : local samples beyond this share of all rows save nothing; all rows are then minimised directly.
    hessian_rows : rows that carry curvature, sampled for a Hessian. More rows change the step by less than its damping.
    pair_numbers, least_pairs, most_pairs : pairs of classes of these rows behind a Hessian of q cells, pair_numbers/q²
        within these limits, because each costs q². (pair_classes : with more classes all those of a row are taken at
        once.) With 800 multipliers 12,500 pairs needed 226 Newton steps, and samples that grow where steps are slow 60
        to 70.
    metric_rows : evenly spaced rows behind the metric of damped steps, which needs no more digits than the damping.
    newton_multipliers : largest K for which Newton steps are cheaper than the passes they save.
    first_order_passes : a step without a Hessian costs one pass and is worth a fifth of a Newton step.
    argmax_temperature : where a softmax is an argmax in either precision.
    first_temperature, last_temperature, cooling : τ falls by halves from 0.1. Below 1e-4 the entropy costs less than
        1e-4 in accuracy, and float32 gradients lose their digits at 1e-5.
    hot_factor, hot_residual, hot_passes : above the last temperature λ is only a start for the next one, and is solved
        less exactly. cold_passes : at the last one.
    temperature_share : cooling stops where the temperature costs this share of the gap; the rest is for the margin and
        for the difference between sketch and rows.
    keep_sketch : a local sketch that reduced the residual by this factor is used once more.
    grow_sketch : one that reduced it by less than this factor is replaced by one twice as large.
    value_noise : rounding of a value. float32 rows show 1e-8, and up to 1e-7 with unlucky blocks.
    least_curvature : rows whose likeliest class is so close to certain add nothing to a Hessian.
    """

    sketch_rows: int = 30_000
    few_rows: float = 1.5
    local_rows: int = 40_000
    local_share: int = 20
    local_residual: float = 0.05
    local_passes: int = 30
    decided_share: float = 0.25
    full_share: float = 0.5
    hessian_rows: int = 10_000
    pair_numbers: int = 500_000_000
    least_pairs: int = 12_000
    most_pairs: int = 100_000
    pair_classes: int = 20
    metric_rows: int = 40_000
    newton_multipliers: int = 2_500
    first_order_passes: int = 5
    argmax_temperature: float = 1e-5
    first_temperature: float = 0.1
    last_temperature: float = 1e-4
    cooling: float = 0.5
    hot_factor: float = 10.0
    hot_residual: float = 1e-3
    hot_passes: int = 40
    cold_passes: int = 60
    temperature_share: float = 0.5
    keep_sketch: float = 0.15
    grow_sketch: float = 0.5
    value_noise_single: float = 1e-7
    value_noise_double: float = 1e-13
    least_curvature: float = 1e-6


@dataclass(frozen=True)
class NewtonSettings:
    """How proximal Newton steps; the usual values of the methods where nothing else is said.

    first_damping, least_damping, last_damping : of Levenberg, in units of the score metric. Beyond the last one a step
        is below rounding, and the search gives up.
    least_ratio, poor_ratio, good_ratio, bad_ratio : of the actual to the predicted decrease: accepted above the first,
        damped more below the second, less above the third; below the last the model is useless: damping grows twice.
    growth : of the damping.
    no_curvature : a Hessian whose diagonal is below this is rounding of a zero.
    inner_tolerance : the quadratic model is minimised to this share of the residual (design: a tenth; more digits are
        lost to the next Hessian).
    admm_penalty, admm_relaxation : ρ, for variables of unit diagonal, and over-relaxation (Boyd et al. 2011, section
        3.4.3, recommend 1.5 to 1.8).
    near_share, near_rate : with many multipliers a step moves those that are not zero and those of rows within this
        share of the tolerance (of a rate, for rows with one bound) from a bound: about a third of 2,048. All rows
        are looked at again after each step.
    slow, most_effort : where the model was right but the residual fell by less than this factor, the next Hessian is of
        twice as many rows and pairs, up to so many times as many.
    large_system : so many multipliers are many. single_tolerance, single_iterations : float32 then halves the time of
        ADMM, if the tolerance is no smaller; it mostly ends within 60 iterations, and where it does not after these,
        float64 goes on.
    admm_iterations, admm_check, admm_adapt, admm_imbalance : most iterations, and how often the residual is looked at
        and ρ is adapted where primal and dual residuals differ by a factor.
    """

    first_damping: float = 1e-3
    least_damping: float = 1e-7
    last_damping: float = 1e6
    least_ratio: float = 1e-3
    poor_ratio: float = 0.25
    good_ratio: float = 0.75
    bad_ratio: float = -0.5
    growth: float = 4.0
    no_curvature: float = 1e-12
    inner_tolerance: float = 0.1
    admm_penalty: float = 0.1
    admm_relaxation: float = 1.6
    large_system: int = 200
    near_share: float = 0.2
    near_rate: float = 0.1
    slow: float = 0.3
    most_effort: float = 8.0
    single_tolerance: float = 1e-6
    single_iterations: int = 150
    admm_iterations: int = 2000
    admm_check: int = 10
    admm_adapt: int = 50
    admm_imbalance: float = 5.0


@dataclass(frozen=True)
class DriverSettings:
    """How a rule is brought within its bounds and its gap.

    margin : the solver aims this share of the tolerance (of one, for rows with one bound) inside the bounds, so that
        the rule ends within them.
    margin_of_gap : but no further than what costs this share of the gap at the price expected: expected_price until one
        is known, and never less than least_price or more than largest_price.
    equality_residual : the KKT residual asked for where a tolerance is exactly 0 and has no inside.
    relaxed_residual : and where the margin was given up.
    least_residual_single, least_residual_double : residuals below these are rounding of float32 and float64 rows.
    slack : a rule that is outside its bounds by more is not called optimal; a gap of 1e-3 asks for that residual at the
        expected price.
    first_cap : ‖λ‖₁ while it is not known whether the request is feasible; a rate costs at most a few units of
        accuracy per unit of tolerance, 50 is far beyond what real data showed.
    last_cap : ‖λ‖₁ where infeasibility could not be proven.
    at_cap : multipliers this close to their cap, as a share of it, count as capped.
    smooth_people, smooth_temperature : a group of n people is smoothed as if its temperature were smooth_people / n
        where the common one is smooth_temperature, but at least by the common one and at most by max_smoothing times
        it: 16 to 46 passes for a group of 0.1 %, where a common temperature fails.
    promising_excess : an unconstrained rule that misses its bounds by no more than this on the sketch is tried on all
        rows.
    loose_bound : where λ bounds the value no closer than this, the unconstrained optimum may be the better bound.
    colder : the temperature is divided by this while the gap is too wide.
    """

    margin: float = 0.01
    margin_of_gap: float = 0.25
    expected_price: float = 2.5
    least_price: float = 0.25
    largest_price: float = 1e3
    equality_residual: float = 1e-6
    relaxed_residual: float = 1e-5
    least_residual_single: float = 2e-6
    least_residual_double: float = 1e-8
    slack: float = 1e-4
    first_cap: float = 50.0
    last_cap: float = 1e4
    at_cap: float = 0.99
    smooth_people: float = 100.0
    smooth_temperature: float = 0.01
    max_smoothing: float = 20.0
    promising_excess: float = 0.02
    loose_bound: float = 0.1
    colder: float = 4.0


SETTINGS = SolverSettings()
NEWTON = NewtonSettings()
DRIVER = DriverSettings()
