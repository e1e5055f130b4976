"""Turn criteria into one sparse matrix D that acts on the joint confusion tensor."""

from optfair.constraints.criteria import AnyConstraint, Constraint, MinimumRate, Ratio, Rows, as_constraints
from optfair.constraints.rows import RowSet, compile_rows

__all__ = [
    "AnyConstraint",
    "Constraint",
    "MinimumRate",
    "Ratio",
    "RowSet",
    "Rows",
    "as_constraints",
    "compile_rows",
]
