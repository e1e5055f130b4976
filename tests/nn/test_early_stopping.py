"""Early stopping: validation rows by class, and the best parameters."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optfair.nn.early_stopping import validation_rows  # noqa: E402
from optfair.nn.training import derive_seed  # noqa: E402
from tests.nn.helpers import quick, same_parameters  # noqa: E402


def test_validation_rows_are_a_share_of_every_class():
    codes = np.repeat([0, 1, 2], [100, 50, 7])
    rows = validation_rows(codes, 0.2, seed=0)
    assert len(rows) == 31 and len(set(rows)) == 31
    assert all(abs(count - share) <= 1 for count, share in zip(np.bincount(codes[rows]), [20, 10, 1.4], strict=True))
    assert not np.array_equal(rows, validation_rows(codes, 0.2, seed=1))


def test_early_stopping_keeps_the_best_parameters():
    """Noise for labels: the loss on the validation rows soon rises."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 20)), rng.integers(0, 2, 120)
    options = {"module": "mlp", "hidden": (50,), "lr": 0.02, "decay": 1.0, "epochs": 50}
    model = quick(early_stopping=True, validation_fraction=0.3, patience=4, **options).fit(X, y)
    losses = model.validation_losses_
    best = int(np.argmin(losses))
    assert model.n_iter_ == len(losses) == best + 5 < 50
    held_out = validation_rows(y, 0.3, derive_seed(0, 0, 1))
    p = model.predict_proba(X[held_out])[np.arange(len(held_out)), y[held_out]]
    assert -np.log(p).mean() == pytest.approx(losses[best], rel=1e-5)
    # The network was not trained on the validation rows: as many epochs without them give the same parameters.
    weight = np.ones(len(y))
    weight[held_out] = 0
    assert same_parameters(model, quick(**options | {"epochs": best + 1}).fit(X, y, weight))
