"""Criteria as one sparse matrix D acting on the joint confusion tensor."""

from optfair.constraints.criteria import Constraint, MinimumRate, Ratio, Rows, as_constraints
from optfair.constraints.rows import RowSet, compile_rows

__all__ = ["Constraint", "MinimumRate", "Ratio", "RowSet", "Rows", "as_constraints", "compile_rows"]
