"""Train a network by epochs of minibatches.

All random numbers of epoch e come from the seed (seed, e): a training is continued from its parameters, the state of
the optimizer, the seed and e, and from nothing else.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from optfair.nn.batches import ArrayRows, RowSource, gather, rows_per_block, shuffle_batches
from optfair.nn.loss import add_gradient
from optfair.nn.optimizers import Optimizer, OptimizerSettings, flatten_parameters
from optfair.utils.progress import stage

_GLOBAL_GENERATORS = threading.RLock()


class TrainingObjective:
    """What an epoch minimises: batches of the rows ``index`` (N,), and a gradient for each.

    This one is plain training, the cross-entropy of ``targets`` (n, m); sub-classes change the batches or the gradient.
    """

    def __init__(self, targets: Tensor, index: Tensor) -> None:
        self.targets, self.index = targets, index

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        """Return the positions of the rows of each step; without a size, the blocks of the only step."""
        if size is None:
            return list(self.index.split(rows_per_block(shape)))
        return shuffle_batches(self.index, size, generator)

    def batch_inputs(self, batches: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return what `add_gradient` needs for each batch, beside x: here the targets of its rows."""
        return gather(self.targets, batches)

    def add_gradient(self, net: nn.Module, x: Tensor, batch_input: Tensor) -> None:
        """Add the gradient, summed over the rows of the batch, to the ``.grad`` of the parameters."""
        add_gradient(net, x, batch_input)

    def end_epoch(self, net: nn.Module, rows: RowSource) -> None:
        """Act after the last step of an epoch, on the network as it predicts; here do nothing."""


class TrainingState:
    """A network in training: θ, ∇, the state of the optimizer, the seed, and the number of epochs run so far."""

    def __init__(self, net: nn.Module, seed: int) -> None:
        self.net, self.seed, self.epoch = net, seed, 0
        self.theta, self.gradient = flatten_parameters(net)
        self.optimizer: Optimizer | None = None

    def run_epochs(
        self,
        rows: RowSource,
        objective: TrainingObjective,
        settings: OptimizerSettings,
        n_epochs: int,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Run up to ``n_epochs`` epochs, until ``stop()``, and return their number.

        The rate is settings.lr · decay^e in the epoch e = 0, 1, … of this call.
        """
        if self.optimizer is None or self.optimizer.name != settings.optimizer:
            self.optimizer = Optimizer(settings.optimizer, self.theta)
        with stage("epochs", n_epochs) as work:
            for e in range(n_epochs):
                self.epoch += 1
                # A linear module and an array draw nothing but the order, which has a generator of its own.
                draws_nothing = type(self.net) is nn.Linear and isinstance(rows, ArrayRows)
                seed = derive_seed(self.seed, self.epoch)
                with contextlib.nullcontext() if draws_nothing else seed_torch(seed, self.theta.device):
                    lr = settings.lr * settings.decay**e
                    self._run_epoch(rows, objective, settings, lr, torch.Generator().manual_seed(seed))
                    if not bool(torch.isfinite(self.theta).all()):
                        raise ValueError(
                            f"lr={settings.lr!r}: the parameters have grown beyond all numbers; lower lr, or scale X."
                        )
                    objective.end_epoch(self.net, rows)
                    work.advance()
                    if stop is not None and stop():
                        return e + 1
        return n_epochs

    def _run_epoch(
        self,
        rows: RowSource,
        objective: TrainingObjective,
        settings: OptimizerSettings,
        lr: float,
        generator: torch.Generator,
    ) -> None:
        batches = objective.batches(settings.batch_size, rows.shape, generator)
        self.net.train()
        self.gradient.zero_()
        for x, batch_input in zip(rows.batches(batches, generator), objective.batch_inputs(batches), strict=True):
            objective.add_gradient(self.net, x, batch_input)
            if settings.batch_size is not None:
                self._step(len(x), lr, settings)
        if settings.batch_size is None:
            self._step(sum(map(len, batches)), lr, settings)
        self.net.eval()

    def _step(self, n: int, lr: float, settings: OptimizerSettings) -> None:
        assert self.optimizer is not None
        self.optimizer.step(self.theta, self.gradient.div_(n), lr, settings.weight_decay)
        self.gradient.zero_()


# -- random numbers -----------------------------------------------------------------------------------------
def derive_seed(*path: int) -> int:
    """Return a seed of 63 bits for each path such as (seed, epoch)."""
    return int(np.random.SeedSequence(path).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextlib.contextmanager
def seed_torch(seed: int, device: torch.device) -> Iterator[None]:
    """Start torch's global generators from ``seed`` inside, and put them back as they were afterwards.

    Modules draw from no others. Since they are global, only one thread at a time may be inside.
    """
    devices = list(range(torch.cuda.device_count())) if device.type == "cuda" else []
    with _GLOBAL_GENERATORS, torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield
