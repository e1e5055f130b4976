"""Measure gaps between groups on labelled data, with what chance alone would show."""

from typing import TYPE_CHECKING, Any

from optfair.metrics.bounds import ViolationBound
from optfair.metrics.confusion import GroupConfusion, group_confusion
from optfair.metrics.constraint_table import constraint_table
from optfair.metrics.intervals import ViolationInterval
from optfair.metrics.measures import gaps, group_rates, noise_floor, violation, violation_bound, violation_interval
from optfair.metrics.unknown_groups import UnknownGroupBounds, unknown_group_bounds

if TYPE_CHECKING:
    from optfair.metrics.scoring import ViolationScorer

__all__ = [
    "GroupConfusion",
    "UnknownGroupBounds",
    "ViolationBound",
    "ViolationInterval",
    "ViolationScorer",
    "constraint_table",
    "gaps",
    "group_confusion",
    "group_rates",
    "noise_floor",
    "unknown_group_bounds",
    "violation",
    "violation_bound",
    "violation_interval",
]


def __getattr__(name: str) -> Any:
    if name != "ViolationScorer":
        raise AttributeError(f"module 'optfair.metrics' has no attribute {name!r}")
    from optfair.metrics.scoring import ViolationScorer  # imported when asked for: scikit-learn takes a second

    return ViolationScorer
