"""The classifiers people use: `OptFairPost`, `OptFairIn`, `OptFairInPost`, their reports and files."""

from optfair.estimators.in_then_post import OptFairInPost
from optfair.estimators.inprocess import OptFairIn
from optfair.estimators.post import OptFairPost
from optfair.estimators.saving import load_model

__all__ = ["OptFairIn", "OptFairInPost", "OptFairPost", "load_model"]
