"""Draw what chance alone does: replicates of the confusion tensor, with counts drawn and never rows.

A criterion says that some coarse outcome o has the same distribution in every group. Which, and among whom:

    dp        o = Ŷ              among everybody
    eop, eo   o = Ŷ              among people of the same true class
    oae       o = 1[Ŷ=Y]         among everybody
    meo, j    o = 1[Ŷ=j]         among Y=j, and among Y≠j

Ratios and minima speak of the same rates, and have the noise of the same null; a user's own rows have none.
So a null is a partition `pool` of the true classes and an indicator T[i,j,o]. Pooled over groups it has rates
q_pool and a covariance V_pool; E spreads a coarse outcome evenly over the predictions it stands for (the rows
of D do not see how). Cells are drawn with sizes fixed: multinomial counts for unweighted labels, otherwise

    cov(J[a,i]) = V_i Σw²_{ai} / (Σw)²,   V_pool = Σ w²(o − q)(o − q)ᵀ / Σ w²,

with Σw² of a group no less than its people would have with the weights of everybody (`spread`).

Rows of different nulls (several criteria; meo with m > 2) have no common null; they are drawn independently,
which for Gaussian gaps can only raise the quantile of the maximum (Royen's correlation inequality).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from optfair.constraints import RowSet
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.influence import MAX_ENTRIES

PSEUDO_PEOPLE = 4.0  # mixed into every cell, so that no hit among a few people does not look certain
# −log of the probability of a group's weights, were they drawn from everybody's: below LOG_P_LOW (p = 0.0025) it may
# be chance, above LOG_P_ZERO (p = 0.0001) it is not.
LOG_P_LOW, LOG_P_ZERO = 6.0, 9.0
TAIL_FACTOR = 2.0  # assumed ratio of Σw⁴/Σw² by (Σw²/Σw)²: 2 for log-normal weights with log-sd 0.5
# Rows whose rates are those of another criterion.
KIND = {
    "eop": "eo",
    **{f"{criterion} ratio": kind for criterion, kind in (("dp", "dp"), ("eop", "eo"), ("eo", "eo"), ("oae", "oae"))},
    **{f"minimum {rate}": kind for rate, kind in (("selection", "dp"), ("recall", "eo"), ("accuracy", "oae"))},
}


@dataclass(frozen=True)
class Null:
    """rows : of D. pool : (m,) label of each true class. T : (m true, m predicted, d outcomes) indicator."""

    rows: np.ndarray
    pool: np.ndarray
    T: np.ndarray


@dataclass(frozen=True)
class Cells:
    """The prediction of one person in each cell, and how well it is known.

    mean : (A, m, m). covariance : (A, m, m, m). share_variance : (A, m) of the share of all people.
    s : (A, m) Σw²/(Σw)², as observed or by `spread`.
    freedom : (A, m) degrees of freedom of the covariance; None where counts or pooling settle it.
    """

    mean: np.ndarray
    covariance: np.ndarray
    s: np.ndarray
    share_variance: np.ndarray
    freedom: np.ndarray | None = None


def nulls_of(rows: RowSet, classes: list) -> list[Null]:
    """Return the nulls of the rows: each row in exactly one, a user's own rows in none."""
    m = len(classes)
    fine, diagonal = np.eye(m), np.eye(m)[..., None]
    kinds: dict[object, tuple[np.ndarray, np.ndarray]] = {
        "dp": (np.zeros(m, int), np.broadcast_to(fine, (m, m, m))),
        "eo": (np.arange(m), np.broadcast_to(fine, (m, m, m))),
        "oae": (np.zeros(m, int), np.concatenate([diagonal, 1 - diagonal], axis=2)),
    }
    for j, name in enumerate(classes):
        column = np.broadcast_to(fine[:, j, None], (m, m, 1))
        kinds["meo", name] = ((np.arange(m) != j).astype(int), np.concatenate([column, 1 - column], axis=2))
    members: dict[object, list[int]] = {}
    for k, (criterion, group, outcome) in enumerate(
        zip(*(rows.table[c] for c in ("criterion", "group", "outcome")), strict=True)
    ):
        if group is None:
            continue  # a user's own, whatever its name
        kind: object = KIND.get(criterion, criterion)
        if criterion == "meo":  # with two classes the same statement as eo, and one draw serves both outcomes
            kind = "eo" if m == 2 else ("meo", outcome)
        members.setdefault(kind, []).append(k)
    return [Null(np.array(k), *kinds[kind]) for kind, k in members.items()]


def spread(counts: ConfusionCounts, pool: np.ndarray) -> np.ndarray:
    """Return Σw²/(Σw)² of each cell if the people of a pool of classes have the same weights in all groups, (A, m).

    Where weights depend on the answer or the label, a small group that happened to draw no heavy row shows neither
    the hit nor how uncertain its absence is. So Σw² of n people of a group is taken to be n E[w² | pool] where it is
    less. Groups above that, and equal weights, are left as they are.
    """
    s = counts.moments.sum((2, 3))
    if counts.hard:
        return s
    member = (pool[:, None] == np.unique(pool)).astype(float)  # (m, pools)
    # Σw⁴/Σw² is not recorded; (Σw²/Σw)² of the people with the same answer is at most that.
    second = counts.moments.sum(-1)  # Σw² h_j
    heavy = TAIL_FACTOR * _ratio(second, counts.tensor) ** 2
    heaviest = _ratio((second * heavy).sum((0, 2)) @ member, second.sum((0, 2)) @ member)
    return s * (_raise(s @ member, counts.n_people @ member, heaviest) @ member.T)


def _raise(observed: np.ndarray, n: np.ndarray, heaviest: np.ndarray) -> np.ndarray:
    """Return what to multiply Σw² by, at least 1, (A, pools).   observed, n: (A, pools); heaviest: (pools,)

    As if Σw² were made by rows of weight² `heaviest`, a share π of all people and f of the n here: chance leaves so
    few with probability at most exp(−n KL(f‖π)). Where that is next to nothing, in all pools together, the group has
    other weights (those of a survey that sampled it more), and keeps its own.
    """
    expected = n * _ratio(observed.sum(0), n.sum(0))
    sparse_pools = (observed > 0) & (observed < expected * (1 - 1e-9))
    if not sparse_pools.any():
        return np.ones_like(observed)
    share = np.minimum(_ratio(expected, n * heaviest), 1 - 1e-12)
    f = np.minimum(_ratio(observed, n * heaviest), share)
    divergence = special.rel_entr(f, share) + special.rel_entr(1 - f, 1 - share)
    surprise = (n * divergence).sum(1, keepdims=True)
    credible = np.clip((LOG_P_ZERO - surprise) / (LOG_P_ZERO - LOG_P_LOW), 0, 1)
    return np.where(sparse_pools, 1 + credible * (_ratio(expected, observed) - 1), 1.0)


def pooled_cells(null: Null, counts: ConfusionCounts) -> Cells:
    """Return what the cells would be if the null held: the same for all groups."""
    T, (A, m) = null.T, counts.n_people.shape
    E = T / np.maximum(T.sum(1, keepdims=True), 1)  # (m, m, d): spread a coarse outcome over predictions
    S = np.einsum("ijo,ijk,ikp->iop", T, counts.moments.sum(0), T)  # (m, d, d)
    member = (null.pool[:, None] == np.unique(null.pool)).astype(float)  # (m, pools)
    coarse = np.einsum("ijo,ij->io", T, counts.tensor.sum(0))
    q = _ratio(member.T @ coarse, member.T @ coarse.sum(1))  # (pools, d)
    M = np.einsum("ig,iop->gop", member, S)
    M = _ratio(M, M.sum((1, 2)))
    V = _centred(M, q)
    pool = member.argmax(1)
    mean = np.einsum("io,ijo->ij", q[pool], E)
    covariance = np.einsum("ijo,iop,ikp->ijk", E, V[pool], E)
    return Cells(
        mean=np.broadcast_to(mean, (A, m, m)),
        covariance=np.broadcast_to(covariance, (A, m, m, m)),
        s=spread(counts, null.pool),
        share_variance=np.zeros((A, m)),
    )


def smoothed_cells(counts: ConfusionCounts) -> Cells:
    """Return the cells as observed, mixed with c pseudo-people; n = (Σw)²/Σw² is the number of people in effect.

    Labels: p = (n p̂ + c/m)/(n + c), so that a cell with no hits is not taken for one that cannot have any.
    Probabilities: the covariance gets c people of the same true class from all groups.
    Shares: var = s (n + c)/n, s = Σw²/(Σw)²: a count that came out low has a variance that did too.
    """
    m, c = len(counts.classes), PSEUDO_PEOPLE
    J, P, S = counts.tensor, counts.prior, counts.moments
    s = S.sum((2, 3))
    n = _ratio(P * P, s)
    p = _ratio(J, P)
    mean = (n[..., None] * p + c / m) / (n[..., None] + c)
    share_variance = s + c * _ratio(s, n)
    if counts.hard:
        return Cells(mean, _multinomial(mean), s, share_variance)
    observed = _centred(_ratio(S, S.sum((2, 3))), p)
    if counts.second_moment.ndim == 3:
        other = _multinomial(np.full(m, 1 / m))
    else:
        mean, total = p, S.sum(0)
        other = _centred(_ratio(total, total.sum((1, 2))), _ratio(J.sum(0), P.sum(0)))
    # n − 1: the spread of n people around their own mean is that much too small.
    freedom = np.maximum(n - 1, 0) + c
    covariance = (n[..., None, None] * observed + c * other) / freedom[..., None, None]
    return Cells(mean, covariance, s, share_variance, freedom)


def tensor_noise(
    cells: Cells, counts: ConfusionCounts, n_replicates: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield batches of J* − E J* with cell sizes fixed, (A·m·m, batch), n_replicates columns in all."""
    A, m = counts.n_people.shape
    batch = max(1, MAX_ENTRIES // (A * m * m))
    if counts.hard:
        p = np.where(counts.n_people[..., None] > 0, cells.mean, 1.0 / m)
        p = p / p.sum(-1, keepdims=True)
        expected, n = p * counts.n_people[..., None], counts.n_people.sum()
    else:
        # A symmetric square root of each cell's covariance; tiny negative eigenvalues are rounding.
        values, vectors = np.linalg.eigh(cells.covariance * cells.s[..., None, None])
        root = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
    for start in range(0, n_replicates, batch):
        size = min(batch, n_replicates - start)
        if counts.hard:
            noise = (rng.multinomial(counts.n_people, p, size=(size, A, m)) - expected) / n
        else:
            noise = np.einsum("aijk,baik->baij", root, rng.standard_normal((size, A, m, m)))
            if cells.freedom is not None:  # Student: the covariance of a small cell is itself a guess
                noise *= np.sqrt(cells.freedom / rng.chisquare(cells.freedom, size=(size, A, m)))[..., None]
        yield noise.reshape(size, -1).T


def size_noise(cells: Cells, counts: ConfusionCounts, influence: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix by which random cell sizes move the rates, to be multiplied by standard normals, (R, A·m).

    Each unit of a cell's share moves a rate by the cell's mean influence.
    """
    A, m = counts.n_people.shape
    weights = cells.mean * np.sqrt(cells.share_variance)[..., None]
    gather = sparse.csr_array(
        (weights.ravel(), np.repeat(np.arange(A * m), m), np.arange(A * m * m + 1)), shape=(A * m * m, A * m)
    )
    return sparse.csr_array(influence @ gather)


def _ratio(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return values / mass over the trailing axes, 0 where there is no mass."""
    mass = mass.reshape(mass.shape + (1,) * (values.ndim - mass.ndim))
    return np.divide(values, mass, out=np.zeros_like(values), where=mass > 0)


def _multinomial(p: np.ndarray) -> np.ndarray:
    """Return diag(p) − p pᵀ over leading axes."""
    return p[..., None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]


def _centred(M: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return the mean of (h − r)(h − r)ᵀ from M = mean of h hᵀ; the mean of h is M·1, because Σ_j h_j = 1."""
    cross = M.sum(-1)[..., :, None] * r[..., None, :]
    return M - cross - np.swapaxes(cross, -1, -2) + r[..., :, None] * r[..., None, :]
