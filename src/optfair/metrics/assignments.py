"""Share people of unknown group out among the groups: as likely as they are, or as far as a model of refusal allows.

X[g, i, j] = Σ_s q[g, s, i, j] T[s, i, j] is the mass of a set g of groups in the cell (i, j) of true class and answer,
where q is the share of kind s that is in g: 0 or 1 where that is known, else

    likely     p                        the share of g among those of known group in the same cell, or the mean of the
                                        probabilities that were given
    refusal Γ  p / (p + Γ(1−p)) ≤ q ≤ Γp / (Γp + 1−p)      the odds differ from the likely ones by a factor Γ at most
    Γ = ∞      0 ≤ q ≤ 1                whatever the unknown groups are

These are exactly the limits, for a group and for a set of groups, if between any two groups the odds of telling one's
group differ by a factor Γ at most, for people of the same cell or with the same probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optfair.constraints.rows import ROUNDING
from optfair.metrics.group_sets import GroupSets
from optfair.metrics.partial_counts import PartialCounts, UnknownRows


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who of each kind is in each set.

    share : (G, S, m, m) q. gradient : (G, S, m, m) derivative of X[g, i, j] by T[s, i, j]: q itself, and for kinds of
    known group what they add to the estimates of q. is_estimated : whether they add anything.
    """

    share: np.ndarray
    gradient: np.ndarray
    is_estimated: bool

    def masses(self, tensor: np.ndarray) -> np.ndarray:
        """Return X of a tensor (S, m, m), or of its squares, (G, m, m)."""
        return np.einsum("gsij,sij->gij", self.share, tensor)


@dataclass(frozen=True, eq=False)
class Assignments:
    """Three ways to share unknown people out: as few as possible to each set by itself, as many, and as likely."""

    least: Assignment
    most: Assignment
    likely: Assignment


def share_out(counts: PartialCounts, sets: GroupSets, refusal: float) -> Assignments:
    """Return the assignments that a factor Γ of refusal allows, 1 ≤ Γ ≤ ∞."""

    def assign(factor: float) -> Assignment:
        return _by_cells(counts, sets, factor) if counts.rows is None else _by_rows(counts, counts.rows, sets, factor)

    likely = assign(1.0)
    if refusal == 1:
        return Assignments(likely, likely, likely)
    if np.isfinite(refusal):
        return Assignments(assign(1 / refusal), assign(refusal), likely)
    masks = (sets.sure(counts.attributes), sets.possible(counts.attributes))
    shape = likely.share.shape
    sure, possible = (np.broadcast_to(mask[:, :, None, None], shape).astype(float) for mask in masks)
    return Assignments(Assignment(sure, sure, False), Assignment(possible, possible, False), likely)


def tilt(p: np.ndarray, factor: float) -> np.ndarray:
    """Return probabilities whose odds are ``factor`` times those of p: Γp / (Γp + 1 − p)."""
    return np.asarray(factor * p / (factor * p + (1 - p)))


def _as_shares(p: np.ndarray) -> np.ndarray:
    """Return sums of shares without their rounding: the odds of whoever is surely in a set are infinite."""
    return np.where(p > 1 - ROUNDING, 1.0, p)


def _by_cells(counts: PartialCounts, sets: GroupSets, factor: float) -> Assignment:
    """Return the assignment by shares of those of known group in the same cell."""
    A, T = len(counts.groups), counts.kinds.tensor
    unknown, fits = T[A:], counts.compatible[A:].astype(float)
    shares, base = _cell_shares(T[:A], fits)
    p = _as_shares(np.einsum("ga,saij->gsij", sets.members.astype(float), shares))
    q = tilt(p, factor)
    members = sets.members[:, :, None, None]
    is_member = np.broadcast_to(members, (*sets.members.shape, *T.shape[1:])).astype(float)
    # dq / dT[a] = Γ (1[a ∈ g] − p) / (B (Γp + 1 − p)²) with B the known people of the cell who fit
    odds = np.divide(unknown, base, out=np.zeros_like(base), where=base > 0)
    slope = np.where((p > 0) & (p < 1), factor * odds / (factor * p + (1 - p)) ** 2, 0.0)
    effect = members * np.einsum("sa,gsij->gaij", fits, slope) - np.einsum("sa,gsij->gaij", fits, slope * p)
    share, gradient = (np.concatenate([groups, q], axis=1) for groups in (is_member, is_member + effect))
    return Assignment(share, gradient, bool(unknown.any()))


def _cell_shares(groups: np.ndarray, fits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of the groups that fit each kind of unknown people, (S, A, m, m), and the mass they rest on.

    Where nobody of them is in the cell those of the true class are asked, and where nobody is in that all of them; the
    mass is 0 there.   groups: (A, m, m)   fits: (S, A)
    """
    cell = fits[:, :, None, None] * groups
    by_class = np.broadcast_to(cell.sum(axis=3, keepdims=True), cell.shape)
    overall = np.broadcast_to(cell.sum(axis=(2, 3), keepdims=True), cell.shape)
    base = cell.sum(axis=1)
    in_class = by_class.sum(axis=1, keepdims=True) > 0
    mass = np.where(base[:, None] > 0, cell, np.where(in_class, by_class, overall))
    return mass / mass.sum(axis=1, keepdims=True), base


def _by_rows(counts: PartialCounts, rows: UnknownRows, sets: GroupSets, factor: float) -> Assignment:
    """Return the assignment by the group probabilities of each row: means of q over the rows of a kind and cell."""
    (S, m, _), A = counts.kinds.tensor.shape, len(counts.groups)
    total = _cell_sums(rows, rows.weight, S, m)
    share = np.zeros((len(sets.members), S, m, m))
    for g, members in enumerate(sets.members):
        q = tilt(_as_shares(rows.probabilities[:, members].sum(axis=1)), factor)
        np.divide(_cell_sums(rows, rows.weight * q, S, m), total, out=share[g], where=total > 0)
    share[:, :A] = sets.members[:, :, None, None]
    return Assignment(share, share, False)


def _cell_sums(rows: UnknownRows, weight: np.ndarray, S: int, m: int) -> np.ndarray:
    """Return the sums of weights by kind, true class and answer, (S, m, m)."""
    cell = rows.kind * m + rows.true
    if rows.prediction.ndim == 1:
        return np.bincount(cell * m + rows.prediction, weight, S * m * m).reshape(S, m, m)
    columns = [np.bincount(cell, weight * rows.prediction[:, j], S * m) for j in range(m)]
    return np.column_stack(columns).reshape(S, m, m)
