"""The classifiers people use: `OptFairPost`, `OptFairIn`, `OptFairInPost`, their reports and files."""

from optfair.estimators.in_then_post import OptFairInPost
from optfair.estimators.inprocess import OptFairIn
from optfair.estimators.loading import load_model
from optfair.estimators.post import OptFairPost

__all__ = ["OptFairIn", "OptFairInPost", "OptFairPost", "load_model"]
