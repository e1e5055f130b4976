"""People of whom some miss their group, every way to fill the gaps, and the criteria by their definitions."""

import itertools

import numpy as np

from optfair import Constraint, MinimumRate, Ratio
from tests.problems import CRITERIA, definition

GAPS = [Constraint(c, 0.1, reference=r) for c in CRITERIA for r in ("overall", "pairwise")]
RATIOS = [Ratio(c, 0.8, reference=r) for c in ("dp", "eop", "eo", "oae") for r in ("pairwise", "overall")]
MINIMA = [
    MinimumRate("recall", 0.3),
    MinimumRate("selection", 0.2),
    MinimumRate("accuracy", 0.3),
    MinimumRate("accuracy", 0.3, by="overall"),
]
EVERY_KIND = [*GAPS, *RATIOS, *MINIMA]
CRITERION_OF = {"recall": "eop", "selection": "dp", "accuracy": "oae"}


def draw(seed, n=60, A=3, m=2):
    """Return (true classes, answers, groups), which depend on each other."""
    rng = np.random.default_rng(seed)
    group = rng.choice(A, n, p=rng.dirichlet(np.full(A, 5.0)))
    y = (rng.random(n) * m * (0.7 + 0.3 * group / A)).astype(int)
    answer = np.where(rng.random(n) < 0.5, y, rng.integers(0, m, n))
    return y, answer, group


def tensor(y, answer, group, A, m, weight=None):
    """Return J (A, m, m) by its definition; answers are labels or probabilities."""
    h = np.eye(m)[answer] if np.ndim(answer) == 1 else answer
    w = np.ones(len(y)) if weight is None else weight
    J = np.zeros((A, m, m))
    for i in range(len(y)):
        J[group[i], y[i]] += w[i] * h[i]
    return J / w.sum()


def row_values(constraint, J, sets=None):
    """Return {(group, against, given, outcome): value} of one constraint by the definitions of its rates.

    sets : {label: positions of its groups}; every group by itself by default.
    """
    P, (A, m, _) = J.sum(axis=2), J.shape
    sets = {a: [a] for a in range(A)} if sets is None else sets
    criterion = CRITERION_OF.get(getattr(constraint, "rate", None), getattr(constraint, "criterion", None))
    with np.errstate(invalid="ignore"):
        rates = {label: definition(criterion, J, P, members, range(m)) for label, members in sets.items()}
        overall = definition(criterion, J, P, list(range(A)), range(m))
    if isinstance(constraint, MinimumRate):
        rates = {"overall": overall} if constraint.by == "overall" else rates
        return {(a, None, *event): rate for a in rates for event, rate in rates[a].items()}
    factor = constraint.minimum if isinstance(constraint, Ratio) else 1.0
    if constraint.reference == "overall":
        return {(a, "overall", *e): rates[a][e] - factor * overall[e] for a in rates for e in overall}
    pairs = itertools.permutations(sets, 2) if isinstance(constraint, Ratio) else itertools.combinations(sets, 2)
    return {(a, b, *e): rates[a][e] - factor * rates[b][e] for a, b in pairs for e in overall}


def table_keys(table):
    """Return (group, against, given, outcome) of each line."""
    return list(zip(*(table[name] for name in ("group", "against", "given", "outcome")), strict=True))


def extremes_by_trying(constraint, y, answer, completions, A, m, weight=None, sets=None):
    """Return {key: (least, most)} over all completions, each the group of everybody; rows without people are NaN."""
    values = [row_values(constraint, tensor(y, answer, group, A, m, weight), sets) for group in completions]
    return {key: (min(v[key] for v in values), max(v[key] for v in values)) for key in values[0]}


def fill(group, missing, A):
    """Yield the groups of everybody with every way to fill in the missing ones."""
    for guess in itertools.product(range(A), repeat=int(missing.sum())):
        complete = group.copy()
        complete[missing] = guess
        yield complete


def hide(group, missing):
    """Return groups as objects, None where missing."""
    values = np.array(group, dtype=object)
    values[missing] = None
    return values


# -- ways to refuse ------------------------------------------------------------------------------------------
def hide_at_random(rng, y, answer, group):
    return rng.random(len(y)) < 0.4


def hide_by_group(rng, y, answer, group):
    return rng.random(len(y)) < np.where(group == 0, 0.7, 0.1)


def hide_by_class(rng, y, answer, group):
    return rng.random(len(y)) < np.where(y == 0, 0.7, 0.1)


def hide_by_answer(rng, y, answer, group):
    return rng.random(len(y)) < np.where(answer == 0, 0.7, 0.1)


def hide_as_an_adversary(rng, y, answer, group):
    """Hide the hits of group 0 and the misses of the others, which makes group 0 look as poor as can be."""
    return (rng.random(len(y)) < 0.8) & ((group == 0) == (answer == 1))


WAYS = {
    "at random": hide_at_random,
    "by group": hide_by_group,
    "by class": hide_by_class,
    "by answer": hide_by_answer,
    "by an adversary": hide_as_an_adversary,
}
