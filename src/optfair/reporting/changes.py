"""Compare the answers that the same people get before and after: who gets another one, and whose are right more often.

The two rates of a group are of the same people, so that their difference is known better than either of them. With p₊
and p₋ the shares that gain and lose a hit, the difference is p₊ − p₋ and its variance (p₊ + p₋ − (p₊ − p₋)²)/n; one
person is added to each share (Bonett and Price, 2012), which keeps the interval honest where few change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from optfair.constraints.events import Event, GroupSet
from optfair.metrics.counts import ConfusionCounts


def change_facts(
    group: np.ndarray,
    label: np.ndarray | None,
    before: np.ndarray,
    after: np.ndarray,
    weight: np.ndarray | None,
    shape: tuple[int, int],
) -> dict[str, Any]:
    """Return the facts of a report about two answers of the same people; see `Facts`.

    group, label : (n,) codes; group negative where a person is not counted, label None where classes are unknown.
    before, after : codes, (n,), or probabilities, (n, m). shape : numbers of groups and of classes.
    """
    if weight is not None:  # whoever has no weight is not there
        group = np.where(weight > 0, group, -1)
    facts: dict[str, Any] = {"changes": answer_changes(group, before, after, *shape)}
    if label is not None:
        cells = np.where(group < 0, -1, group * shape[1] + label)
        facts["paired"] = answer_changes(cells, before, after, shape[0] * shape[1], shape[1], weight).reshape(
            *shape, shape[1], shape[1]
        )
    return facts


def answer_changes(
    group: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    n_groups: int,
    n_classes: int,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return Σ_n w_n 1[A_n=a] b_nj h_nk, (A, m, m): people of each group by answer before and after.

    before, after : codes, (n,), or probabilities, (n, m). weight : (n,), 1 by default.
    """
    if before.ndim == after.ndim == 1:
        counted = group >= 0
        cells = ((group * n_classes + before) * n_classes + after)[counted]
        sums = np.bincount(cells, None if weight is None else weight[counted], n_groups * n_classes**2)
        return sums.reshape(n_groups, n_classes, n_classes).astype(float)
    b, h = (x if x.ndim == 2 else np.eye(n_classes)[x] for x in (before, after))
    if weight is not None:
        b = b * weight[:, None]
    return np.stack([b[group == a].T @ h[group == a] for a in range(n_groups)])


def paired_change(
    paired: np.ndarray, counts: ConfusionCounts, group: GroupSet, event: Event, level: float
) -> tuple[float, float, float]:
    """Return by how much P(hit | group, given) is higher after than before, and its interval; NaN of nobody.

    paired : (A, m, m, m) people by group, true class, answer before and answer after.
    """
    A, m = counts.n_people.shape
    hit, condition = np.zeros((m, m), dtype=bool), np.zeros((A, m))
    hit[tuple(np.array(event.hits).T)] = True
    condition[np.ix_(group.members, event.given)] = 1
    people = np.einsum("ai,aijk->ijk", condition, paired)  # by true class, before, after
    n = float(counts.effective_people(condition.reshape(1, -1))[0])
    if people.sum() <= 0 or n <= 0:
        return np.nan, np.nan, np.nan
    gained, lost = (
        (people * cells).sum() / people.sum()
        for cells in (~hit[:, :, None] & hit[:, None, :], hit[:, :, None] & ~hit[:, None, :])
    )
    plus, minus = ((share * n + 1) / (n + 2) for share in (gained, lost))
    reach = stats.norm.isf((1 - level) / 2) * np.sqrt((plus + minus - (plus - minus) ** 2) / (n + 2))
    return float(gained - lost), max(plus - minus - reach, -1.0), min(plus - minus + reach, 1.0)
