"""Time OptFairIn on 10,000 faces at 64 × 64: 2·Smiling + Big_Nose by Young, with the paper's small ResNet."""

from __future__ import annotations

import time

import numpy as np

from experiments.splits import TRAIN_SHARE
from optfair import OptFairIn
from optfair.datasets import load
from optfair.errors import need_extra


def run(*, small: bool, repeat: int) -> None:
    """Print seconds and both reports."""
    need_extra("torch", "python -m experiments.timings")
    from optfair.nn import TorchClassifier

    epochs, rounds = (1, 2) if small else (4, 6)
    data = load("celeba", size=64, cache=True, download=False)
    order = np.random.default_rng(0).permutation(len(data))
    cut = int(TRAIN_SHARE * len(data))
    train, test = (data.take(rows).X for rows in (order[:cut], order[cut:]))
    net = TorchClassifier("resnet", epochs=epochs, batch_size=128, lr=0.001, random_state=0)
    clock = time.perf_counter()
    model = OptFairIn(net, criterion="dp", tolerance=0.03, rounds=rounds, random_state=0, progress=True).fit(train)
    print(f"{cut} images, {epochs} epochs, then {rounds} rounds: {time.perf_counter() - clock:.0f} s")
    print(model.report())
    print(model.report(test))
