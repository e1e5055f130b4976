"""Adversarial debiasing (Zhang, Lemoine, Mitchell 2018): a network learns the label while another guesses the group.

    predictor  f_W(x) (m logits),  L_P = CE(f, y)          adversary  u_U(s) (|A| logits),  L_A = CE(u, a)

    g_P = ∂L_P/∂W,    g_A = ∂L_A/∂W,    v = g_A / ‖g_A‖            for each tensor of W

    W ← a step of the estimator's optimizer with  g_P − ⟨v, g_P⟩ v − α g_A  for a gradient
    U ← a step of AdamW with ∂L_A/∂U

on every batch, both from the gradients before either has moved; ⟨·,·⟩ sums the products of all entries. The adversary
reads s:

    dp    f(x)                                 the prediction is independent of the group
    eo    [f(x), e_y]                          … given the label; e_y is one at the label, zero elsewhere
    eop   [e_y ⊙ log p(x), e_y]                … the probability of the true class only, in the place of that class

The first two are those of the paper and of fairlearn. The third is our own design: the paper's, for one class, is an
adversary that is trained on the rows of that class alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from optfair.baselines.networks.network import AuxiliaryNetwork, BatchObjective, LabelTensors, NetworkBaseline
from optfair.inputs.training_data import TrainingData
from optfair.nn.batches import RowSource
from optfair.nn.loss import logit_gradient
from optfair.nn.nets import make_module
from optfair.nn.training import TrainingObjective, derive_seed, seed_torch
from optfair.utils.checks import check_choice, check_integer, check_number

ADVERSARY_INPUTS = ("logits", "probabilities")


def direction(g_P: Tensor, g_A: Tensor, alpha: float, *, projection: bool, max_length: float = np.inf) -> Tensor:
    """Return g_P − ⟨v, g_P⟩ v − α g_A, v = g_A/‖g_A‖, of one tensor; α g_A is shortened to ``max_length``."""
    length = torch.linalg.vector_norm(g_A)
    v = g_A / (length + torch.finfo(g_A.dtype).tiny)
    push = (alpha * length).clamp(max=max_length) * v
    return g_P - (v * g_P).sum() * v - push if projection else g_P - push


def adversary_input(f: Tensor, y: Tensor, criterion: str, sees: str) -> Tensor:
    """Return s (rows, width) of the logits f (rows, m) and the labels y (rows,).

    Probabilities are without those of the first class, which follow from the others (fairlearn shows one number for two
    classes).
    """
    if criterion != "eop":
        output = f if sees == "logits" else torch.softmax(f, 1)[:, 1:]
        return output if criterion == "dp" else torch.cat([output, nn.functional.one_hot(y, f.shape[1]).to(f)], 1)
    e = nn.functional.one_hot(y, f.shape[1]).to(f)
    return torch.cat([e * (torch.log_softmax(f, 1) if sees == "logits" else torch.softmax(f, 1)), e], 1)


def make_adversary(width: int, n_groups: int, hidden: Sequence[int], seed: int, like: Tensor) -> nn.Module:
    """Return linear layers with ReLU between them, drawn from Glorot's uniform distribution, biases zero."""
    with seed_torch(seed, like.device):
        net = make_module("mlp" if hidden else "linear", (width,), n_groups, hidden=hidden, dropout=0.0)
        for parameter in net.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
    return net.to(like)


class AdversarialObjective(BatchObjective):
    """Both networks take one step on every batch, from the gradients before either has moved.

    losses : mean L_A of each epoch.
    """

    def __init__(
        self,
        targets: Tensor,
        index: Tensor,
        labels: LabelTensors,
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
        super().__init__(targets, index)
        self.a, self.y, self.criterion, self.sees = labels.a, labels.y, criterion, sees
        self.alpha, self.projection, self.clip = alpha, projection, clip
        width = adversary_input(targets[:1], labels.y[:1], criterion, sees).shape[1]
        self.adversary = AuxiliaryNetwork(make_adversary(width, labels.A, hidden, seed, targets), lr)
        self.losses: list[float] = []
        self._sums = torch.zeros(2, dtype=torch.float64)  # of L_A and of weights, in this epoch

    @torch.enable_grad()
    def add_gradient(self, net: nn.Module, x: Tensor, batch_input: Tensor) -> None:
        """Add the direction of each tensor of W, and let the adversary take its step."""
        T, n = self.targets[batch_input], len(batch_input)
        f = net(x)
        # ∂L_P/∂f as in plain training, so that plain training is what remains without an adversary.
        slope_P = logit_gradient(f.detach(), T)
        slope_A = self._step_adversary(f.detach(), batch_input, T.sum(1))
        W = [parameter for parameter in net.parameters() if parameter.requires_grad]
        g_P = torch.autograd.grad(f, W, slope_P, retain_graph=True, materialize_grads=True)
        g_A = torch.autograd.grad(f, W, slope_A, materialize_grads=True)
        for w, p, a in zip(W, g_P, g_A, strict=True):
            # Sums over the batch: a step is along their mean.
            w.grad += direction(p, a, self.alpha, projection=self.projection, max_length=self.clip * n)

    def _step_adversary(self, f: Tensor, index: Tensor, weight: Tensor) -> Tensor:
        """Return ∂L_A/∂f (rows, m), summed, after a step of the adversary down L_A."""
        f.requires_grad_()
        u = self.adversary.net(adversary_input(f, self.y[index], self.criterion, self.sees))
        loss = (weight * nn.functional.cross_entropy(u, self.a[index], reduction="none")).sum()
        self.adversary.descend(loss, len(index))
        self._sums += torch.stack([loss.detach(), weight.sum()]).to(self._sums)
        assert f.grad is not None
        return f.grad

    def end_epoch(self, net: nn.Module, rows: RowSource) -> None:
        """Record the mean loss of the adversary."""
        self.losses.append(float(self._sums[0] / self._sums[1]))
        self._sums.zero_()


class AdvDebias(NetworkBaseline):
    """Train a network against an adversary that guesses the group from its prediction (equations in the module).

    There is no bound on what remains: ``alpha`` trades accuracy for fairness, and not always monotonously.

    Parameters
    ----------
    estimator : TorchClassifier or Pipeline, default None
        An `optfair.nn.TorchClassifier`, alone or at the end of a Pipeline; None is a linear one behind standardised
        features.
    sensitive_features : str, int, list or callable, default None
        Columns of X that are left out of the features; None where groups are passed to `fit`.
    criterion : str, default "demographic_parity"
        The criterion: "demographic_parity", "equal_opportunity" or "equalized_odds" (dp, eop, eo).
    alpha : float, default 1.0
        Weight α of the step against the adversary.
    hidden : iterable of int, default (32,)
        Widths of the adversary's hidden layers; () is linear, which the predictor can escape by its scale.
    adversary_lr : float, default 0.03
        Rate of the adversary's AdamW.
    sees : {"logits", "probabilities"}, default "logits"
        What the adversary reads (fairlearn shows probabilities for two classes).
    projection : bool, default True
        Whether the part of g_P that would help the adversary is taken out.
    clip : float, default 1.0
        The longest α g_A of a tensor, as a mean over the batch; L_A has no maximum that would end the ascent.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    random_state : int, numpy generator or None, default None
        Seed of both networks, the batches and the dropout.

    Attributes
    ----------
    transformer_ : Pipeline or None
        The fitted transformers, if any.
    network_ : TorchClassifier
        The fitted network.
    adversary_losses_ : ndarray of shape (epochs,)
        Mean L_A of each epoch; guessing without any input has the entropy of the groups.
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import AdvDebias
    >>> from optfair.datasets import make_fair_classification
    >>> from optfair.nn import TorchClassifier
    >>> data = make_fair_classification(300, 4, random_state=0)
    >>> model = AdvDebias(TorchClassifier(epochs=3), criterion="eo", random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.adversary_losses_.shape
    (3,)
    """

    refusal = "no adversary is known for it"

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
        check_number("alpha", self.alpha, "[0, inf)")
        check_number("adversary_lr", self.adversary_lr, "(0, inf)")
        check_number("clip", self.clip, "(0, inf)")
        check_choice("sees", self.sees, ADVERSARY_INPUTS)
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise ValueError(f"hidden={self.hidden!r}: must be a list of widths, () for none.")
        for width in self.hidden:
            check_integer("hidden", width, 1)
        if not isinstance(self.projection, bool | np.bool):
            raise ValueError(f"projection={self.projection!r}: must be True or False.")

    def _objective(
        self, data: TrainingData, net: nn.Module, targets: Tensor, index: Tensor, seed: int
    ) -> TrainingObjective:
        return AdversarialObjective(
            targets,
            index,
            LabelTensors.of(data, targets),
            self._criterion_name(),
            alpha=float(self.alpha),
            hidden=tuple(int(width) for width in self.hidden),
            lr=float(self.adversary_lr),
            sees=self.sees,
            projection=bool(self.projection),
            clip=float(self.clip),
            seed=derive_seed(seed, 0, 2),  # (seed, 0) draws the predictor, (seed, 0, 1) the validation rows
        )

    def _set_results(self, objective: TrainingObjective) -> None:
        assert isinstance(objective, AdversarialObjective)
        self.adversary_losses_ = np.array(objective.losses)
