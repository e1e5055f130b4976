"""Models that several tests of `OptFairIn` read, and classifiers that fail when they are told to."""

import warnings
from functools import cache

from sklearn.naive_bayes import GaussianNB

from tests.inprocessing.helpers import fit, quick
from tests.threads import single_thread


@cache
def undecided_model():
    """Return a blind model, all of its twelve rounds mixed: they disagree, so that hashed decisions need the key."""
    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(quick(rounds=12, mixture="all", step=1.0, max_multiplier=5.0))


class FailingBayes(GaussianNB):
    """Fails from its ``fail_at``-th fit on."""

    fits = 0

    def __init__(self, fail_at=3):
        super().__init__()
        self.fail_at = fail_at

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        if type(self).fits >= self.fail_at:
            raise ValueError("no more")
        return super().fit(X, y, sample_weight)
