"""List what a criterion compares: which groups with which, and which rates.

With A groups and m classes: an `Event` is a set of true classes and the (true, predicted) pairs that count as hits, for
the rate P(hit | given). A `GroupSet` is a label and the groups it covers: one for an intersection, several for a
marginal group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr


class GroupSet(NamedTuple):
    """A name, and the positions of the groups that it stands for."""

    label: Hashable
    members: tuple[int, ...]


class Event(NamedTuple):
    """P(hit | given): positions of the true classes, and (true, predicted) pairs."""

    given: tuple[int, ...]
    hits: tuple[tuple[int, int], ...]


ALL = "*"  # in the label of a marginal group: any value of this attribute


def group_families(groups: pd.Index, attributes: str | Sequence[Hashable]) -> list[list[GroupSet]]:
    """Return families of groups; groups are compared with each other within a family.

    A MultiIndex holds several attributes: its entries are the intersections, one family per attribute the marginals.
    """
    intersections = [GroupSet(label, (a,)) for a, label in enumerate(groups.tolist())]
    if not isinstance(groups, pd.MultiIndex):
        _check_one_attribute(groups, attributes)
        return [intersections]
    levels = list(groups.names)
    if isinstance(attributes, str) and attributes in levels:
        attributes = [attributes]
    if isinstance(attributes, str):
        if attributes not in ("intersections", "marginals", "both"):
            raise ValueError(
                f"attributes={attributes!r}: must be 'intersections', 'marginals', 'both' or a list of attribute names."
            )
        marginals = [] if attributes == "intersections" else list(range(len(levels)))
    else:
        unknown = [name for name in attributes if name not in levels]
        if unknown or len(attributes) == 0:
            reason = f"{unknown[0]!r} is not an attribute" if unknown else "the list is empty"
            raise ValueError(f"attributes={brief_repr(list(attributes))}: {reason}; they are [{brief_names(levels)}].")
        marginals = [levels.index(name) for name in attributes]
    if marginals and any((groups.get_level_values(level) == ALL).any() for level in range(len(levels))):
        raise ValueError(f"sensitive_features: a group is named {ALL!r}, which stands for any value; rename it.")
    only_marginals = not isinstance(attributes, str) or attributes == "marginals"
    families = [] if only_marginals else [intersections]
    for level in marginals:
        values = groups.get_level_values(level)
        family: list[GroupSet] = []
        for value in values.unique().tolist():
            label = tuple(value if i == level else ALL for i in range(len(levels)))
            family.append(GroupSet(label, tuple(np.flatnonzero(values == value).tolist())))
        families.append(family)
    return families


def _check_one_attribute(groups: pd.Index, attributes: str | Sequence[Hashable]) -> None:
    """Refuse attributes other than the one there is. Marginals too: who asks for them means several attributes."""
    names = [attributes] if isinstance(attributes, str) else list(attributes)
    if attributes == "intersections" or (groups.name is not None and names == [groups.name]):
        return
    raise ValueError(
        f"attributes={brief_repr(attributes)}: there is one attribute, which has no marginals; leave attributes out, "
        "or give several: columns of sensitive_features, or groups= as a pandas MultiIndex."
    )


def outcome_positions(classes: pd.Index, outcomes: Sequence[Hashable] | None) -> list[int]:
    """Return the positions of the classes named; all of them for None."""
    names = classes.tolist()
    if outcomes is None:
        return list(range(len(names)))
    if isinstance(outcomes, (str, bytes)) or not isinstance(outcomes, Iterable):
        text = brief_repr(outcomes)
        raise ValueError(f"outcomes={text}: must be a list of classes, e.g. [{text}].")
    labels = list(outcomes)
    unknown = [label for label in labels if label not in names]
    if unknown or not labels:
        reason = f"{unknown[0]!r} is not a class" if unknown else "the list is empty"
        raise ValueError(f"outcomes={brief_repr(labels)}: {reason}; the classes are [{brief_names(names)}].")
    return [names.index(label) for label in dict.fromkeys(labels)]


def criterion_events(
    criterion: str, classes: pd.Index, outcomes: list[int]
) -> list[tuple[Hashable, Hashable, list[tuple[float, Event]]]]:
    """Return (given label, outcome label, [(coefficient, event), ...]) of each combination of rates that is compared.

    dp P(Ŷ=j)   eop P(Ŷ=j|Y=j)   eo P(Ŷ=j|Y=i)   oae P(Ŷ=Y)   meo ½(TPR_j ± FPR_j)
    """
    name = classes.tolist()
    all_classes = tuple(range(len(name)))

    def hit(given: Iterable[int], j: int) -> Event:
        given = tuple(given)
        return Event(given, tuple((i, j) for i in given))

    if criterion == "dp":
        return [(None, name[j], [(1.0, hit(all_classes, j))]) for j in outcomes]
    if criterion == "eop":
        return [(name[j], name[j], [(1.0, hit((j,), j))]) for j in outcomes]
    if criterion == "eo":
        return [(name[i], name[j], [(1.0, hit((i,), j))]) for i in all_classes for j in outcomes]
    if criterion == "oae":
        return [(None, None, [(1.0, Event(all_classes, tuple((i, i) for i in all_classes)))])]
    if criterion == "meo":  # both signs together bound ½(|ΔTPR| + |ΔFPR|)
        return [
            (label, name[j], [(0.5, hit((j,), j)), (sign * 0.5, hit((i for i in all_classes if i != j), j))])
            for j in outcomes
            for label, sign in (("TPR+FPR", 1.0), ("TPR-FPR", -1.0))
        ]
    raise ValueError(f"criterion={criterion!r}: has no events; name its rates in criterion_events.")
