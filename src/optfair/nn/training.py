"""The loss of soft targets, its gradient, and epochs of AdamW or SGD.

    L(θ) = Σ_n w_n ℓ_n(θ) / Σ_n w_n,   ℓ_n = −Σ_j t_nj log p_nj,   p_n = softmax(f_θ(x_n)),   t_n = table[cell_n]

Below, T_n = t_n w_n N / Σ w: rows that weigh one on average, so that the mean over a batch drawn uniformly has the
expectation L, and the mean over all N rows is L. All random numbers of epoch e come from the seed (seed, e): a training
is continued from its parameters, the state of the optimizer, the seed and e, and from nothing else.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from optfair.nn.batches import ArrayRows, Rows, block_rows, gather, in_blocks, shuffled

ALIGNMENT = 64
_FUSED_ADAMW = getattr(torch, "_fused_adamw_", None)
_GLOBAL_GENERATORS = threading.RLock()


@dataclass(frozen=True)
class Recipe:
    """optimizer : "adamw", "sgd" or "lbfgs". batch_size : None is all rows."""

    optimizer: str
    lr: float
    weight_decay: float
    decay: float
    batch_size: int | None


# -- the loss -----------------------------------------------------------------------------------------------
def weigh_targets(cell: np.ndarray, table: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """T_n = table[cell_n] w_n N / Σ w, where N rows have w > 0.   cell, weight: (n,)  table: (cells, m)  ->  (n, m)"""
    targets = table[cell]
    if weight is None:
        return targets
    weight = weight / weight.max()  # whose sum is a number, whatever their size
    return targets * (weight * (np.count_nonzero(weight) / weight.sum()))[:, None]


def cross_entropy(f: Tensor, T: Tensor) -> Tensor:
    """−Σ_n Σ_j T_nj log softmax(f_n)_j, summed in float64.   f, T: (rows, m)"""
    return -(torch.log_softmax(f.detach(), 1) * T).sum(dtype=torch.float64)


@torch.no_grad()
def add_gradient(net: nn.Module, x: Tensor, T: Tensor) -> Tensor:
    """Add ∇_θ of the cross-entropy to the ``.grad`` of the parameters; returns the logits f (rows, m).

    ∂/∂f_n = s_n p_n − T_n with s_n = Σ_j T_nj; for f = Wx + b this gives ∂/∂W = Gᵀx and ∂/∂b = Gᵀ1, G: (rows, m).
    """
    if type(net) is nn.Linear:
        # Without autograd, which takes 110 µs where this takes 35 (128 rows of 106 numbers, two classes).
        W, b = net.weight, net.bias
        assert W.grad is not None and b.grad is not None
        f = nn.functional.linear(x, W, b)
        G = _logit_gradient(f, T)
        W.grad.addmm_(G.t(), x)
        b.grad.add_(G.sum(0))
        return f
    with torch.enable_grad():
        f = net(x)
    f.backward(_logit_gradient(f, T))
    return f.detach()


def _logit_gradient(f: Tensor, T: Tensor) -> Tensor:
    return torch.softmax(f, 1).mul_(T.sum(1, keepdim=True)).sub_(T)


def mean_loss(net: nn.Module, rows: Rows, targets: Tensor, index: Tensor | None = None) -> float:
    """L of a network as it predicts (no dropout), over the rows ``index`` or over all."""
    blocks = in_blocks(len(rows) if index is None else index, rows.shape)
    net.eval()
    with torch.no_grad():
        batches = zip(rows.batches(blocks), blocks, strict=True)
        total = sum(float(cross_entropy(net(x), targets[block])) for x, block in batches)
    return total / len(targets if index is None else index)


# -- parameters and steps -----------------------------------------------------------------------------------
def places(net: nn.Module) -> list[tuple[nn.Parameter, slice]]:
    """The parameters that are trained, and where each stands in θ.

    Each begins at a multiple of 64 bytes, as if it had memory of its own: products of matrices may round differently
    elsewhere.
    """
    found: list[tuple[nn.Parameter, slice]] = []
    start = 0
    for parameter in net.parameters():
        if parameter.requires_grad:
            found.append((parameter, slice(start, start + parameter.numel())))
            unit = ALIGNMENT // parameter.element_size()
            start += -(-parameter.numel() // unit) * unit
    return found


def flatten(net: nn.Module) -> tuple[Tensor, Tensor]:
    """θ and ∇: the parameters and their gradients become views of two vectors, so that a step is one operation."""
    found = places(net)
    first, end = found[0][0], found[-1][1].stop
    theta = torch.zeros(end, dtype=first.dtype, device=first.device)
    gradient = torch.zeros_like(theta)
    for parameter, place in found:
        theta[place] = parameter.detach().reshape(-1)
        parameter.data = theta[place].view(parameter.shape)
        parameter.grad = gradient[place].view(parameter.shape)
    return theta, gradient


class Optimizer:
    """AdamW, or SGD with momentum 0.9, of torch, on one vector; ``state`` is all that they remember.

    The functions below torch's classes: with 214 parameters these take 60 µs a step, torch's function adamw 23, and
    the operation that it calls 3.
    """

    def __init__(self, name: str, theta: Tensor) -> None:
        self.name = name
        self.fused = theta.device.type in ("cpu", "cuda")
        vectors = ("exp_avg", "exp_avg_sq") if name == "adamw" else ("momentum",)
        self.state = {vector: torch.zeros_like(theta) for vector in vectors}
        if name == "adamw":
            self.state["step"] = torch.zeros((), dtype=torch.float32, device=theta.device)

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor, lr: float, weight_decay: float) -> None:
        """θ ← θ − lr · (direction + weight_decay · θ), in place."""
        state = self.state
        rates: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay, "maximize": False}
        if self.name == "sgd":
            rates |= {"momentum": 0.9, "dampening": 0.0, "nesterov": False, "fused": self.fused}
            sgd([theta], [gradient], [state["momentum"]], **rates)
            return
        rates |= {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}
        tensors: Any = ([theta], [gradient], [state["exp_avg"]], [state["exp_avg_sq"]], [], [state["step"]])
        if _FUSED_ADAMW is not None and theta.device.type == "cpu":
            state["step"].add_(1)
            _FUSED_ADAMW(*tensors, **rates)
        else:
            adamw(*tensors, fused=self.fused, **rates)


class Lesson:
    """What an epoch teaches: batches of the rows ``kept`` (N,), and a gradient for each.

    This one is plain training, the cross-entropy of ``targets`` (n, m); others change the batches or the gradient.
    """

    def __init__(self, targets: Tensor, kept: Tensor) -> None:
        self.targets, self.kept = targets, kept

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        """Positions of the rows of each step; without a size, the parts of the one step there is."""
        if size is None:
            return list(self.kept.split(block_rows(shape)))
        return shuffled(self.kept, size, generator)

    def parts(self, batches: Sequence[Tensor]) -> Sequence[Tensor]:
        """What `add_gradient` needs for each batch, beside x."""
        return gather(self.targets, batches)

    def add_gradient(self, net: nn.Module, x: Tensor, part: Tensor) -> None:
        """Add the gradient, summed over the rows of the batch, to the ``.grad`` of the parameters."""
        add_gradient(net, x, part)

    def end_epoch(self, net: nn.Module, rows: Rows) -> None:
        """After the last step of an epoch; the network is as it predicts."""


class Training:
    """A network on its way: θ, ∇, what the optimizer remembers, the seed, and the epochs run so far."""

    def __init__(self, net: nn.Module, seed: int) -> None:
        self.net, self.seed, self.epoch = net, seed, 0
        self.theta, self.gradient = flatten(net)
        self.optimizer: Optimizer | None = None

    def run_epochs(
        self,
        rows: Rows,
        lesson: Lesson,
        recipe: Recipe,
        n_epochs: int,
        stop: Callable[[], bool] | None = None,
    ) -> int:
        """Up to ``n_epochs`` epochs, until ``stop()``; returns how many there were.

        The rate is recipe.lr · decay^e in the epoch e = 0, 1, … of this call.
        """
        if self.optimizer is None or self.optimizer.name != recipe.optimizer:
            self.optimizer = Optimizer(recipe.optimizer, self.theta)
        for e in range(n_epochs):
            self.epoch += 1
            # A linear module and an array draw nothing but the order, which has a generator of its own.
            quiet = type(self.net) is nn.Linear and isinstance(rows, ArrayRows)
            seed = seed_of(self.seed, self.epoch)
            with contextlib.nullcontext() if quiet else seeded(seed, self.theta.device):
                self._pass(rows, lesson, recipe, recipe.lr * recipe.decay**e, torch.Generator().manual_seed(seed))
                if not bool(torch.isfinite(self.theta).all()):
                    raise ValueError(
                        f"lr={recipe.lr!r}: the parameters have grown beyond all numbers; lower lr, or scale X."
                    )
                lesson.end_epoch(self.net, rows)
                if stop is not None and stop():
                    return e + 1
        return n_epochs

    def _pass(self, rows: Rows, lesson: Lesson, recipe: Recipe, lr: float, generator: torch.Generator) -> None:
        assert self.optimizer is not None
        batches = lesson.batches(recipe.batch_size, rows.shape, generator)
        self.net.train()
        self.gradient.zero_()
        for x, part in zip(rows.batches(batches, generator), lesson.parts(batches), strict=True):
            lesson.add_gradient(self.net, x, part)
            if recipe.batch_size is not None:
                self._step(len(x), lr, recipe)
        if recipe.batch_size is None:
            self._step(sum(map(len, batches)), lr, recipe)
        self.net.eval()

    def _step(self, n: int, lr: float, recipe: Recipe) -> None:
        assert self.optimizer is not None
        self.optimizer.step(self.theta, self.gradient.div_(n), lr, recipe.weight_decay)
        self.gradient.zero_()


# -- random numbers -----------------------------------------------------------------------------------------
def seed_of(*path: int) -> int:
    """A seed of 63 bits for each path such as (seed, epoch)."""
    return int(np.random.SeedSequence(path).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """torch's global generators start from ``seed`` here, and are as before afterwards.

    Modules draw from no others. Since they are global, only one thread may be here at a time.
    """
    devices = list(range(torch.cuda.device_count())) if device.type == "cuda" else []
    with _GLOBAL_GENERATORS, torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield
