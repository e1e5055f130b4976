"""All rows at once: L-BFGS until it cannot go on, and for linear modules Newton steps to the optimum itself.

F(θ) = L(θ) + ½ · weight_decay · Σ ‖W‖²   over the parameters W with two or more dimensions (biases are free)
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor, nn

from optfair.nn.batches import Rows, in_blocks
from optfair.nn.training import Training, add_gradient, cross_entropy, places, seed_of, seeded

ITERATIONS_PER_EPOCH = 50
NEWTON_STEPS, CG_STEPS, GRADIENT = 10, 50, 1e-13
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Objective:
    """F and its derivatives.   kept: (N,) positions of the rows that count, None for all n  targets: (n, m)"""

    def __init__(self, training: Training, rows: Rows, kept: Tensor | None, targets: Tensor, weight_decay: float):
        self.training, self.rows, self.targets, self.weight_decay = training, rows, targets, weight_decay
        self.size = len(rows) if kept is None else len(kept)
        self.blocks = in_blocks(len(rows) if kept is None else kept, rows.shape)
        self.penalised = np.zeros(len(training.theta))
        for parameter, place in places(training.net):
            self.penalised[place] = parameter.ndim >= 2

    def value_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """(F(θ), ∇F(θ)): the same for the same θ, as modules that draw draw the same numbers each time."""
        own, total = self.training, 0.0
        own.theta.copy_(torch.from_numpy(theta))
        own.gradient.zero_()
        with seeded(seed_of(own.seed, own.epoch), own.theta.device):
            for x, block in zip(self.rows.batches(self.blocks), self.blocks, strict=True):
                T = self.targets[block]
                total += float(cross_entropy(add_gradient(own.net, x, T), T))
        theta = as_numpy(own.theta)  # as the network has it: rounded, in float32
        value = total / self.size + 0.5 * self.weight_decay * float(theta**2 @ self.penalised)
        return value, as_numpy(own.gradient) / self.size + self.weight_decay * self.penalised * theta

    def linear_curvature(self, theta: np.ndarray) -> LinearOperator:
        """v -> ∇²F(θ) v of f = Wx + b.

        With h = Vx + c for v = (V, c), the logits' part is G_n = s_n p_n ∘ (h_n − p_n·h_n), and ∇²L v = (Gᵀx, Gᵀ1) / N.
        """
        own = self.training
        own.theta.copy_(torch.from_numpy(theta))
        (W, at_W), (_, at_b) = places(own.net)
        s = [self.targets[block].sum(1, keepdim=True) for block in self.blocks]
        with torch.no_grad():
            p = [torch.softmax(own.net(x), 1) for x in self.rows.batches(self.blocks)]

        def product(v: np.ndarray) -> np.ndarray:
            direction = torch.from_numpy(v.ravel()).to(own.theta)
            V, c = direction[at_W].view_as(W), direction[at_b]
            answer = torch.zeros_like(direction)
            with torch.no_grad():
                for x, p_n, s_n in zip(self.rows.batches(self.blocks), p, s, strict=True):
                    h = torch.addmm(c, x, V.t())
                    G = s_n * p_n * (h - (p_n * h).sum(1, keepdim=True))
                    answer[at_W] += (G.t() @ x).view(-1)
                    answer[at_b] += G.sum(0)
            return as_numpy(answer) / self.size + self.weight_decay * self.penalised * v.ravel()

        return LinearOperator((len(theta), len(theta)), matvec=product, dtype=np.float64)


def minimise(
    training: Training, rows: Rows, kept: Tensor | None, targets: Tensor, weight_decay: float, n_epochs: int
) -> tuple[int, bool]:
    """θ ← argmin F from θ, by at most 50 n_epochs iterations; returns (iterations, whether they were enough).

    F must be one function: dropout is off. L-BFGS starts without memory of earlier calls.
    """
    training.epoch += 1
    objective = Objective(training, rows, kept, targets, weight_decay)
    training.net.train()
    for layer in training.net.modules():
        if isinstance(layer, _DROPOUTS):
            layer.eval()
    limit = ITERATIONS_PER_EPOCH * n_epochs
    tolerances = {"ftol": torch.finfo(training.theta.dtype).eps, "gtol": 1e-8}
    found = minimize(
        objective.value_gradient,
        as_numpy(training.theta),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "maxiter": limit, "maxfun": 20 * limit, **tolerances},
    )
    theta = found.x
    if type(training.net) is nn.Linear and training.theta.dtype == torch.float64:
        theta = _newton(objective, theta, found.hess_inv)
    training.theta.copy_(torch.from_numpy(theta))
    training.gradient.zero_()
    training.net.eval()
    return int(found.nit), found.status != 1


def _newton(objective: Objective, theta: np.ndarray, inverse: LinearOperator) -> np.ndarray:
    """θ ← θ − (∇²F)⁻¹∇F while that halves ‖∇F‖, to 1e−13. inverse : about (∇²F)⁻¹.

    A line search stops where F no longer changes in its 16 digits, which leaves θ with 6; ∇F has all of them.
    """
    gradient = objective.value_gradient(theta)[1]
    for _ in range(NEWTON_STEPS):
        if abs(gradient).max() <= GRADIENT:
            break
        step, _ = cg(objective.linear_curvature(theta), -gradient, rtol=0.01, maxiter=CG_STEPS, M=inverse)
        trial = objective.value_gradient(theta + step)[1]
        if not np.linalg.norm(trial) < 0.5 * np.linalg.norm(gradient):
            break
        theta, gradient = theta + step, trial
    return theta


def as_numpy(vector: Tensor) -> np.ndarray:
    return vector.detach().cpu().numpy().astype(np.float64)
