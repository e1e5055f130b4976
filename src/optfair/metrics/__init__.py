"""Gaps between groups on labelled data, with what chance alone would show."""

from optfair.metrics.confusion import GroupConfusion, group_confusion
from optfair.metrics.gaps import gaps, group_rates, violation
from optfair.metrics.intervals import ViolationInterval, noise_floor, violation_interval

__all__ = [
    "GroupConfusion",
    "ViolationInterval",
    "gaps",
    "group_confusion",
    "group_rates",
    "noise_floor",
    "violation",
    "violation_interval",
]
