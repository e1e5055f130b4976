"""What a criterion compares: which groups with which, and which rates.

An *event* is (given true classes, (true, predicted) hits): the rate P(hit | given). A *group set* is a label and the
cells it covers: one cell for an intersection, several for a marginal group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd

GroupSet = tuple[Hashable, tuple[int, ...]]
Event = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
ALL = "*"  # in the label of a marginal group: any value of this attribute


def group_families(groups: pd.Index, attributes: str | Sequence[Hashable]) -> list[list[GroupSet]]:
    """Families of groups; groups are compared with each other within a family.

    A MultiIndex holds several attributes: its entries are the intersections, one family per attribute the marginals.
    """
    cells: list[GroupSet] = [(label, (a,)) for a, label in enumerate(groups.tolist())]
    if not isinstance(groups, pd.MultiIndex):
        if attributes != "intersections":
            raise ValueError(f"attributes={attributes!r}: needs groups= as a pandas MultiIndex of several attributes.")
        return [cells]
    levels = list(groups.names)
    if isinstance(attributes, str) and attributes in levels:
        attributes = [attributes]
    if isinstance(attributes, str):
        if attributes not in ("intersections", "marginals", "both"):
            raise ValueError(
                f"attributes={attributes!r}: must be 'intersections', 'marginals', 'both' or a list of attribute names."
            )
        chosen = [] if attributes == "intersections" else list(range(len(levels)))
    else:
        unknown = [name for name in attributes if name not in levels]
        if unknown or len(attributes) == 0:
            what = f"{unknown[0]!r} is not an attribute" if unknown else "the list is empty"
            raise ValueError(f"attributes={list(attributes)!r}: {what}; they are {levels!r}.")
        chosen = [levels.index(name) for name in attributes]
    families = [] if not isinstance(attributes, str) or attributes == "marginals" else [cells]
    for level in chosen:
        values = groups.get_level_values(level)
        family: list[GroupSet] = []
        for value in values.unique().tolist():
            label = tuple(value if i == level else ALL for i in range(len(levels)))
            family.append((label, tuple(np.flatnonzero(values == value).tolist())))
        families.append(family)
    return families


def outcome_positions(classes: pd.Index, outcomes: Sequence[Hashable] | None) -> list[int]:
    """Positions of the chosen classes; all of them for None."""
    names = classes.tolist()
    if outcomes is None:
        return list(range(len(names)))
    if isinstance(outcomes, (str, bytes)) or not isinstance(outcomes, Iterable):
        raise ValueError(f"outcomes={outcomes!r}: must be a list of classes, e.g. [{outcomes!r}].")
    chosen = list(outcomes)
    unknown = [c for c in chosen if c not in names]
    if unknown or not chosen:
        what = f"{unknown[0]!r} is not a class" if unknown else "the list is empty"
        raise ValueError(f"outcomes={chosen!r}: {what}; the classes are {names!r}.")
    return [names.index(c) for c in dict.fromkeys(chosen)]


def criterion_events(
    criterion: str, classes: pd.Index, outcomes: list[int]
) -> list[tuple[Hashable, Hashable, list[tuple[float, Event]]]]:
    """(given label, outcome label, [(coefficient, event), ...]) of each rate a criterion speaks of.

    dp P(Ŷ=j)   eop P(Ŷ=j|Y=j)   eo P(Ŷ=j|Y=i)   oae P(Ŷ=Y)   meo ½(TPR_j ± FPR_j)
    """
    name = classes.tolist()
    every = tuple(range(len(name)))

    def hit(given: Iterable[int], j: int) -> Event:
        given = tuple(given)
        return given, tuple((i, j) for i in given)

    if criterion == "dp":
        return [(None, name[j], [(1.0, hit(every, j))]) for j in outcomes]
    if criterion == "eop":
        return [(name[j], name[j], [(1.0, hit((j,), j))]) for j in outcomes]
    if criterion == "eo":
        return [(name[i], name[j], [(1.0, hit((i,), j))]) for i in every for j in outcomes]
    if criterion == "oae":
        return [(None, None, [(1.0, (every, tuple((i, i) for i in every)))])]
    return [
        (label, name[j], [(0.5, hit((j,), j)), (sign * 0.5, hit((i for i in every if i != j), j))])
        for j in outcomes
        for label, sign in (("TPR+FPR", 1.0), ("TPR-FPR", -1.0))
    ]
