"""Small random problems, and definitions written out a second time: what the tests compare the library with."""

import itertools

import numpy as np
from scipy import optimize, sparse

from optfair.constraints import as_constraints, compile_rows
from optfair.dual.posterior import check_posterior

CRITERIA = ("dp", "eop", "eo", "meo", "oae")


def blind(seed, n=80, A=3, m=3, dtype=np.float64):
    """Z (n, A, m): group and class are both uncertain, and groups have different class rates."""
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet(np.full(m, 2.0), A)
    group = rng.dirichlet(np.full(A, 0.7), n)
    given = np.stack([rng.dirichlet(0.1 + 1.5 * m * rates[a], n) for a in range(A)], axis=1)
    Z = group[:, :, None] * given
    return (Z / Z.sum((1, 2), keepdims=True)).astype(dtype)


def aware(seed, n=80, A=3, m=3, dtype=np.float64, share=None):
    """Z (n, A, m): the group is known, so a row is zero outside the block of its group.   share: (A,) group sizes"""
    rng = np.random.default_rng(seed)
    a = rng.permutation(np.arange(n) % A) if share is None else rng.choice(A, n, p=share)
    rates = rng.dirichlet(np.full(m, 2.0), A)
    Z = np.zeros((n, A, m))
    for g in range(A):
        Z[a == g, g] = rng.dirichlet(0.1 + 1.5 * m * rates[g], int((a == g).sum()))
    return (Z / Z.sum((1, 2), keepdims=True)).astype(dtype)


KINDS = {"blind": blind, "aware": aware}


def weights(seed, n=80):
    """Positive weights, some of them zero."""
    rng = np.random.default_rng(seed + 1000)
    return rng.exponential(size=n) * (rng.random(n) > 0.1)


def costs(seed, m=3):
    """(m, m) costs between 0 and 3, nothing to pay for the right answer."""
    R = np.random.default_rng(seed + 2000).uniform(0.5, 3.0, (m, m))
    np.fill_diagonal(R, 0.0)
    return R


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def confusion(Z, h, w=None):
    """J[a,i,j] = P(A=a, Y=i, Ŷ=j) by its definition."""
    w = np.ones(len(Z)) if w is None else w
    return np.einsum("x,xai,xj->aij", w / w.sum(), Z.astype(np.float64), h)


def compiled(Z, criterion, tolerance=None, w=None, groups=None, classes=None, offset=None, n_jobs=1, **options):
    """(posterior, rows) as `optfair.solve` makes them."""
    posterior = check_posterior(Z, groups, classes, w, offset, n_jobs)
    wishes = as_constraints(criterion, tolerance, **options)
    return posterior, compile_rows(wishes, posterior.groups, posterior.classes, posterior.prior)


# -- the criteria, from their definitions -------------------------------------------------------------------
def selection(J, P, g, j):
    """P(Ŷ=j | A in g)"""
    return J[g, :, j].sum() / P[g].sum()


def true_class_rate(J, P, g, i, j):
    """P(Ŷ=j | A in g, Y=i)"""
    return J[g, i, j].sum() / P[g, i].sum()


def false_positive_rate(J, P, g, j):
    """P(Ŷ=j | A in g, Y≠j)"""
    rest = [i for i in range(P.shape[1]) if i != j]
    return J[np.ix_(g, rest, [j])].sum() / P[np.ix_(g, rest)].sum()


def group_accuracy(J, P, g):
    """P(Ŷ=Y | A in g)"""
    return np.trace(J[g].sum(axis=0)) / P[g].sum()


def definition(criterion, J, P, g, outcomes):
    """{(given, outcome): rate} of one set of groups g; for meo the two signed halves."""
    m = P.shape[1]
    if criterion == "dp":
        return {(None, j): selection(J, P, g, j) for j in outcomes}
    if criterion == "eop":
        return {(j, j): true_class_rate(J, P, g, j, j) for j in outcomes}
    if criterion == "eo":
        return {(i, j): true_class_rate(J, P, g, i, j) for i in range(m) for j in outcomes}
    if criterion == "oae":
        return {(None, None): group_accuracy(J, P, g)}
    out = {}
    for j in outcomes:
        tpr, fpr = true_class_rate(J, P, g, j, j), false_positive_rate(J, P, g, j)
        out["TPR+FPR", j], out["TPR-FPR", j] = (tpr + fpr) / 2, (tpr - fpr) / 2
    return out


def gaps(criterion, J, P, reference="overall", outcomes=None):
    """{(group, against, given, outcome): gap}, groups and classes named 0, 1, ..."""
    A, m = P.shape
    outcomes = range(m) if outcomes is None else outcomes
    rates = {a: definition(criterion, J, P, [a], outcomes) for a in range(A)}
    rates["overall"] = definition(criterion, J, P, list(range(A)), outcomes)
    pairs = itertools.combinations(range(A), 2) if reference == "pairwise" else [(a, "overall") for a in range(A)]
    return {(a, b, *event): rates[a][event] - rates[b][event] for a, b in pairs for event in rates[a]}


def linear_rows(function, P):
    """The (K, A·m·m) matrix of a function ``function(J, P) -> K values`` that is linear in J."""
    A, m = P.shape
    basis = np.eye(A * m * m).reshape(-1, A, m, m)
    return np.array([list(function(J, P)) for J in basis]).T


# -- the linear program, a second time ----------------------------------------------------------------------
def linear_program(Z, D, lower, upper, w=None, utility=None, offset=None):
    """scipy's result for  max_h mean_x Σ_j h_j (z U + offset)_j  s.t.  lower ≤ D vec(J(h)) ≤ upper;  .value is it.

    D : (K, A·m·m).   utility : (A, m, m), accuracy by default.
    """
    n, A, m = Z.shape
    w = np.full(n, 1 / n) if w is None else np.asarray(w) / np.sum(w)
    U = np.broadcast_to(np.eye(m), (A, m, m)) if utility is None else utility
    gain = np.einsum("xai,aij->xj", Z, U) + (0.0 if offset is None else offset)
    G = np.einsum("x,xai,kaij->kxj", w, Z, np.reshape(D, (-1, A, m, m)), optimize=True).reshape(len(D), n * m)
    lower, upper = np.broadcast_to(lower, len(D)), np.broadcast_to(upper, len(D))
    up, low = np.isfinite(upper), np.isfinite(lower)
    result = optimize.linprog(
        -(w[:, None] * gain).ravel(),
        A_ub=np.concatenate([G[up], -G[low]]),
        b_ub=np.concatenate([upper[up], -lower[low]]),
        A_eq=sparse.kron(sparse.eye_array(n), np.ones((1, m)), format="csr"),
        b_eq=np.ones(n),
        method="highs",
    )
    result.value = -result.fun if result.success else None
    return result
