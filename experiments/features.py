"""Compute the features that a network, trained on the training rows and frozen, hands to its last layer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.plan import Run
from optfair.errors import need_extra
from optfair.utils.files import exclusive, replacing

CALLER = "python -m experiments"
BLOCK = 512  # images at a time


def frozen_features(run: Run, X: np.ndarray, y: np.ndarray, train: np.ndarray, cache: Path) -> np.ndarray:
    """Return the features of all rows, (n, 256), from a file of ``cache`` if some run has computed them."""
    settings = run.options["features"]
    network = {name: value for name, value in settings.items() if name != "revision"} | {"random_state": run.seed}
    file = cache / f"{_name(run, settings)}.npy"
    file.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(file.with_suffix(".lock")):  # the other processes wait for the one that trains
        if not file.exists():
            features = _train(X, y, train, network)
            with replacing(file) as temporary, open(temporary, "wb") as handle:
                np.save(handle, features, allow_pickle=False)
    return np.asarray(np.load(file, allow_pickle=False))


def _name(run: Run, settings: Mapping[str, Any]) -> str:
    identity = [run.source, dict(run.load_arguments), run.seed, run.part, run.rows, settings]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"features-{run.data}-{run.seed}-{run.part}-{digest[:12]}"


def _train(X: np.ndarray, y: np.ndarray, train: np.ndarray, settings: Mapping[str, Any]) -> np.ndarray:
    torch = need_extra("torch", CALLER)
    from optfair.nn import TorchClassifier

    model = TorchClassifier(**settings).fit(X[train], y[train])
    body = torch.nn.Sequential(*list(model.module_)[:-2]).eval()  # without Dropout and Linear
    with torch.no_grad():
        blocks = [body(torch.tensor(X[k : k + BLOCK])).numpy() for k in range(0, len(X), BLOCK)]
    return np.concatenate(blocks)
