"""Gaps between groups on labelled data, with what chance alone would show."""

from typing import TYPE_CHECKING, Any

from optfair.metrics.checks import constraint_table
from optfair.metrics.confusion import GroupConfusion, group_confusion
from optfair.metrics.gaps import gaps, group_rates, violation
from optfair.metrics.intervals import ViolationInterval, noise_floor, violation_interval

if TYPE_CHECKING:
    from optfair.metrics.scoring import ViolationScorer

__all__ = [
    "GroupConfusion",
    "ViolationInterval",
    "ViolationScorer",
    "constraint_table",
    "gaps",
    "group_confusion",
    "group_rates",
    "noise_floor",
    "violation",
    "violation_interval",
]


def __getattr__(name: str) -> Any:
    if name != "ViolationScorer":
        raise AttributeError(f"module 'optfair.metrics' has no attribute {name!r}")
    from optfair.metrics.scoring import ViolationScorer  # imported when asked for: scikit-learn takes a second

    return ViolationScorer
