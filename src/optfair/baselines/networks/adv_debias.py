"""Adversarial debiasing (Zhang, Lemoine, Mitchell 2018): a network learns the label while another guesses the group.

    predictor  f_W(x) (m logits),  L_P = CE(f, y)          adversary  u_U(s) (|A| logits),  L_A = CE(u, a)

    g_P = ∂L_P/∂W,    g_A = ∂L_A/∂W,    v = g_A / ‖g_A‖            for each tensor of W

    W ← a step of the estimator's optimizer with  g_P − ⟨v, g_P⟩ v − α g_A  for a gradient
    U ← a step of AdamW with ∂L_A/∂U

on every batch, both from the gradients before either has moved; ⟨·,·⟩ sums the products of all entries. What the
adversary sees is s:

    dp    f(x)                                 the answer is independent of the group
    eo    [f(x), e_y]                          … given the label; e_y is one at the label, zero elsewhere
    eop   [e_y ⊙ log p(x), e_y]                … the probability of the true class only, in the place of that class

The first two are those of the paper and of fairlearn. The third is our own design: the paper's, for one class, is an
adversary that is trained on the people of that class alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from optfair.base import People
from optfair.baselines.base import check_choice, check_number, check_whole
from optfair.baselines.networks.network import BatchLesson, NetworkBaseline, Tensors
from optfair.nn.batches import Rows
from optfair.nn.nets import make_module
from optfair.nn.training import Lesson, Optimizer, flatten, seed_of, seeded

SEES = ("logits", "probabilities")


def direction(g_P: Tensor, g_A: Tensor, alpha: float, *, projection: bool, most: float = np.inf) -> Tensor:
    """g_P − ⟨v, g_P⟩ v − α g_A, v = g_A/‖g_A‖, of one tensor; α g_A is shortened to the length ``most``."""
    length = torch.linalg.vector_norm(g_A)
    v = g_A / (length + torch.finfo(g_A.dtype).tiny)
    push = (alpha * length).clamp(max=most) * v
    return g_P - (v * g_P).sum() * v - push if projection else g_P - push


def adversary_input(f: Tensor, y: Tensor, criterion: str, sees: str) -> Tensor:
    """s (rows, width) of the logits f (rows, m) and the labels y (rows,).

    Probabilities are without those of the first class, which follow from the others (fairlearn shows one number for two
    classes).
    """
    if criterion != "eop":
        shown = f if sees == "logits" else torch.softmax(f, 1)[:, 1:]
        return shown if criterion == "dp" else torch.cat([shown, nn.functional.one_hot(y, f.shape[1]).to(f)], 1)
    e = nn.functional.one_hot(y, f.shape[1]).to(f)
    return torch.cat([e * (torch.log_softmax(f, 1) if sees == "logits" else torch.softmax(f, 1)), e], 1)


def make_adversary(width: int, n_groups: int, hidden: Sequence[int], seed: int, like: Tensor) -> nn.Module:
    """Linear layers with ReLU between them, by Glorot's uniform draws, biases zero."""
    with seeded(seed, like.device):
        net = make_module("mlp" if hidden else "linear", (width,), n_groups, hidden=hidden, dropout=0.0)
        for parameter in net.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
    return net.to(like)


class AdversarialLesson(BatchLesson):
    """Both networks take one step on every batch, from the gradients before either has moved."""

    def __init__(
        self,
        targets: Tensor,
        kept: Tensor,
        people: Tensors,
        criterion: str,
        *,
        alpha: float,
        hidden: Sequence[int],
        lr: float,
        sees: str,
        projection: bool,
        clip: float,
        seed: int,
    ) -> None:
        super().__init__(targets, kept)
        self.a, self.y, self.criterion, self.sees = people.a, people.y, criterion, sees
        self.alpha, self.lr, self.projection, self.clip = alpha, lr, projection, clip
        width = adversary_input(targets[:1], people.y[:1], criterion, sees).shape[1]
        self.adversary = make_adversary(width, people.A, hidden, seed, targets)
        self.theta, self.gradient = flatten(self.adversary)
        self.optimizer = Optimizer("adamw", self.theta)
        self.losses: list[float] = []
        self._sums = torch.zeros(2, dtype=torch.float64)  # of L_A and of weights, in this epoch

    @torch.enable_grad()
    def add_gradient(self, net: nn.Module, x: Tensor, part: Tensor) -> None:
        T, n = self.targets[part], len(part)
        f = net(x)
        # ∂L_P/∂f as in plain training, so that what is left without an adversary is plain training.
        down = torch.softmax(f.detach(), 1) * T.sum(1, keepdim=True) - T
        up = self._guess(f.detach(), part, T.sum(1))
        W = [parameter for parameter in net.parameters() if parameter.requires_grad]
        g_P = torch.autograd.grad(f, W, down, retain_graph=True, materialize_grads=True)
        g_A = torch.autograd.grad(f, W, up, materialize_grads=True)
        for w, p, a in zip(W, g_P, g_A, strict=True):
            # Sums over the batch: a step is along their mean.
            w.grad += direction(p, a, self.alpha, projection=self.projection, most=self.clip * n)

    def _guess(self, f: Tensor, part: Tensor, weight: Tensor) -> Tensor:
        """∂L_A/∂f (rows, m), summed; the adversary learns from its guesses."""
        f.requires_grad_()
        u = self.adversary(adversary_input(f, self.y[part], self.criterion, self.sees))
        loss = (weight * nn.functional.cross_entropy(u, self.a[part], reduction="none")).sum()
        loss.backward()
        self.optimizer.step(self.theta, self.gradient.div_(len(part)), self.lr, 0.0)
        self.gradient.zero_()
        self._sums += torch.stack([loss.detach(), weight.sum()]).to(self._sums)
        assert f.grad is not None
        return f.grad

    def end_epoch(self, net: nn.Module, rows: Rows) -> None:
        self.losses.append(float(self._sums[0] / self._sums[1]))
        self._sums.zero_()


class AdvDebias(NetworkBaseline):
    """A network trained against an adversary that guesses the group from its answer (see the module for the equations).

    There is no bound on what remains: ``alpha`` trades accuracy for fairness, and not always monotonously.

    Parameters
    ----------
    estimator : `optfair.nn.TorchClassifier`, alone or at the end of a Pipeline; None: a linear one behind standardised
        features.
    sensitive_features : None (then given to `fit`), or columns of X that are left out of the features.
    criterion : "demographic_parity", "equal_opportunity" or "equalized_odds" (dp, eop, eo).
    alpha : α, how hard the predictor works against the adversary.
    hidden : widths of the adversary's hidden layers; () is linear, which the predictor can escape by its scale.
    adversary_lr : rate of the adversary's AdamW.
    sees : whether the adversary is shown "logits" or "probabilities" (as fairlearn does for two classes).
    projection : whether the part of g_P that would help the adversary is taken out.
    clip : the longest α g_A of a tensor, as a mean over the batch. Climbing up L_A has no end of its own.
    missing : a missing group is an "error", or a "group" of its own. random_state : seed of everything.

    Attributes
    ----------
    front_ : transformers, fitted, or None. network_ : TorchClassifier, fitted. classes_, groups_ : names.
    adversary_losses_ : mean L_A of each epoch; guessing without looking has the entropy of the groups.
    """

    why_not_others = "no adversary is known for it"

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: Any = "demographic_parity",
        alpha: float = 1.0,
        hidden: Iterable[int] = (32,),
        adversary_lr: float = 0.03,
        sees: str = "logits",
        projection: bool = True,
        clip: float = 1.0,
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.alpha = alpha
        self.hidden = hidden
        self.adversary_lr = adversary_lr
        self.sees = sees
        self.projection = projection
        self.clip = clip
        self.missing = missing
        self.random_state = random_state

    def _check_arguments(self) -> None:
        super()._check_arguments()
        check_number("alpha", self.alpha)
        check_number("adversary_lr", self.adversary_lr, above=True)
        check_number("clip", self.clip, above=True)
        check_choice("sees", self.sees, SEES)
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise ValueError(f"hidden={self.hidden!r}: must be a list of widths, () for none.")
        for width in self.hidden:
            check_whole("hidden", width)
        if not isinstance(self.projection, bool | np.bool):
            raise ValueError(f"projection={self.projection!r}: must be True or False.")

    def _lesson(self, people: People, net: nn.Module, targets: Tensor, kept: Tensor, seed: int) -> Lesson:
        return AdversarialLesson(
            targets,
            kept,
            Tensors.of(people, targets),
            self._criterion(),
            alpha=float(self.alpha),
            hidden=tuple(int(width) for width in self.hidden),
            lr=float(self.adversary_lr),
            sees=self.sees,
            projection=bool(self.projection),
            clip=float(self.clip),
            seed=seed_of(seed, 0, 2),  # (seed, 0) draws the predictor, (seed, 0, 1) those kept apart
        )

    def _keep(self, lesson: Lesson) -> None:
        assert isinstance(lesson, AdversarialLesson)
        self.adversary_losses_ = np.array(lesson.losses)
