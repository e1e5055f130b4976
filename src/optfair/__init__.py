"""optfair: classifiers with many classes, fair to many groups, at the least cost in accuracy, with proof."""

from optfair import metrics
from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.errors import InfeasibleError, OptFairWarning, RuleFileError
from optfair.frontier import Frontier, frontier
from optfair.rule import FairRule
from optfair.rule_file import load_rule
from optfair.solve import solve

__version__ = "0.1.0.dev0"

__all__ = [
    "Constraint",
    "FairRule",
    "Frontier",
    "InfeasibleError",
    "MinimumRate",
    "OptFairWarning",
    "Ratio",
    "Rows",
    "RuleFileError",
    "frontier",
    "load_rule",
    "metrics",
    "solve",
]
