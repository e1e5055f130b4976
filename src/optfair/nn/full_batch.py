"""Minimise over all rows at once: L-BFGS until it cannot go on, then Newton steps for linear modules.

F(θ) = L(θ) + ½ · weight_decay · Σ ‖W‖²   over the parameters W with two or more dimensions (biases are free)
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor, nn

from optfair.nn.batches import RowSource, split_in_blocks
from optfair.nn.loss import add_gradient, cross_entropy
from optfair.nn.optimizers import parameter_slices
from optfair.nn.training import TrainingState, derive_seed, seed_torch

ITERATIONS_PER_EPOCH = 50  # the default of 20 epochs allows 1000 iterations
# Newton's method converges quadratically from where L-BFGS ends: a few steps reach the rounding of ∇F in float64.
MAX_NEWTON_STEPS, MAX_CG_STEPS, NEWTON_GRADIENT_TOLERANCE = 10, 50, 1e-13
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class PenalisedLoss:
    """F and its derivatives.   index: (N,) positions of the rows that count, None for all n  targets: (n, m)"""

    def __init__(
        self, training: TrainingState, rows: RowSource, index: Tensor | None, targets: Tensor, weight_decay: float
    ) -> None:
        self.training, self.rows, self.targets, self.weight_decay = training, rows, targets, weight_decay
        self.size = len(rows) if index is None else len(index)
        self.blocks = split_in_blocks(len(rows) if index is None else index, rows.shape)
        self.penalised = np.zeros(len(training.theta))
        for parameter, place in parameter_slices(training.net):
            self.penalised[place] = parameter.ndim >= 2

    def value_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return (F(θ), ∇F(θ)), the same for the same θ: modules that draw, draw the same numbers each time."""
        training, total = self.training, 0.0
        training.theta.copy_(torch.from_numpy(theta))
        training.gradient.zero_()
        with seed_torch(derive_seed(training.seed, training.epoch), training.theta.device):
            for x, block in zip(self.rows.batches(self.blocks), self.blocks, strict=True):
                T = self.targets[block]
                total += float(cross_entropy(add_gradient(training.net, x, T), T))
        theta = to_float64(training.theta)  # as the network has it: rounded, in float32
        value = total / self.size + 0.5 * self.weight_decay * float(theta**2 @ self.penalised)
        return value, to_float64(training.gradient) / self.size + self.weight_decay * self.penalised * theta

    def linear_curvature(self, theta: np.ndarray) -> LinearOperator:
        """Return v -> ∇²F(θ) v of f = Wx + b.

        With h = Vx + c for v = (V, c), the logits' part is G_n = s_n p_n ∘ (h_n − p_n·h_n), and ∇²L v = (Gᵀx, Gᵀ1) / N.
        """
        training = self.training
        training.theta.copy_(torch.from_numpy(theta))
        (W, slice_W), (_, slice_b) = parameter_slices(training.net)
        s = [self.targets[block].sum(1, keepdim=True) for block in self.blocks]
        with torch.no_grad():
            p = [torch.softmax(training.net(x), 1) for x in self.rows.batches(self.blocks)]

        def product(v: np.ndarray) -> np.ndarray:
            direction = torch.from_numpy(v.ravel()).to(training.theta)
            V, c = direction[slice_W].view_as(W), direction[slice_b]
            result = torch.zeros_like(direction)
            with torch.no_grad():
                for x, p_n, s_n in zip(self.rows.batches(self.blocks), p, s, strict=True):
                    h = torch.addmm(c, x, V.t())
                    G = s_n * p_n * (h - (p_n * h).sum(1, keepdim=True))
                    result[slice_W] += (G.t() @ x).view(-1)
                    result[slice_b] += G.sum(0)
            return to_float64(result) / self.size + self.weight_decay * self.penalised * v.ravel()

        return LinearOperator((len(theta), len(theta)), matvec=product, dtype=np.float64)


def minimise(
    training: TrainingState, rows: RowSource, index: Tensor | None, targets: Tensor, weight_decay: float, n_epochs: int
) -> tuple[int, bool]:
    """Set θ ← argmin F from θ, by at most 50 n_epochs iterations, and return (iterations, whether they were enough).

    F must be one function: dropout is off. L-BFGS starts without memory of earlier calls.
    """
    training.epoch += 1
    loss = PenalisedLoss(training, rows, index, targets, weight_decay)
    training.net.train()
    for layer in training.net.modules():
        if isinstance(layer, _DROPOUTS):
            layer.eval()
    limit = ITERATIONS_PER_EPOCH * n_epochs
    tolerances = {"ftol": torch.finfo(training.theta.dtype).eps, "gtol": 1e-8}
    result = minimize(
        loss.value_gradient,
        to_float64(training.theta),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "maxiter": limit, "maxfun": 20 * limit, **tolerances},
    )
    theta = result.x
    if type(training.net) is nn.Linear and training.theta.dtype == torch.float64:
        theta = _polish(loss, theta, result.hess_inv)
    training.theta.copy_(torch.from_numpy(theta))
    training.gradient.zero_()
    training.net.eval()
    return int(result.nit), result.status != 1


def _polish(loss: PenalisedLoss, theta: np.ndarray, inverse: LinearOperator) -> np.ndarray:
    """Return θ after steps θ ← θ − (∇²F)⁻¹∇F that halve ‖∇F‖, down to 1e−13. inverse : about (∇²F)⁻¹.

    A line search stops where F no longer changes in its 16 digits, which leaves θ with 6; ∇F has all of them.
    """
    gradient = loss.value_gradient(theta)[1]
    for _ in range(MAX_NEWTON_STEPS):
        if abs(gradient).max() <= NEWTON_GRADIENT_TOLERANCE:
            break
        step, _ = cg(loss.linear_curvature(theta), -gradient, rtol=0.01, maxiter=MAX_CG_STEPS, M=inverse)
        trial = loss.value_gradient(theta + step)[1]
        if not np.linalg.norm(trial) < 0.5 * np.linalg.norm(gradient):
            break
        theta, gradient = theta + step, trial
    return theta


def to_float64(vector: Tensor) -> np.ndarray:
    """Return the vector as a numpy array of float64."""
    return vector.detach().cpu().numpy().astype(np.float64)
