"""`TorchClassifier`: a network that fits soft targets, as a scikit-learn classifier."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn import Module

from optfair.features import is_dataset
from optfair.labels import check_same_rows, check_weights
from optfair.nn.batches import ArrayRows, DatasetRows, Rows, in_blocks
from optfair.nn.full_batch import minimise
from optfair.nn.inputs import check_cells, check_table, encode_labels, read_y
from optfair.nn.nets import Factory, make_module
from optfair.nn.saved import SavedTraining
from optfair.nn.settings import DTYPES, check_settings, draw_seed, find_device, whole_number
from optfair.nn.stopping import Patience, validation_rows
from optfair.nn.training import Lesson, Recipe, Training, seed_of, seeded, weigh_targets


class TorchClassifier(ClassifierMixin, SavedTraining):
    """p(x) = softmax(f_θ(x)), θ by the cross-entropy of labels or of soft targets (see `fit_targets`).

    Parameters
    ----------
    module : "linear"; "mlp", with the widths ``hidden`` and ``dropout`` before the output; "resnet" for images; or a
        callable (input_shape, n_outputs) -> torch.nn.Module that gives logits.
    epochs : passes over the data in `fit`; with L-BFGS, fifty iterations each at most.
    batch_size : rows in a step; None for all.
    optimizer : "adamw", "sgd" (momentum 0.9), "lbfgs" (all rows, to convergence, without dropout); "auto" is lbfgs
        when ``batch_size`` is None, else adamw.
    lr, decay : the rate of the first epoch of a call, and its factor after each epoch.
    weight_decay : as torch's AdamW and SGD have it; with L-BFGS ½ · weight_decay · ‖W‖², biases free.
    early_stopping : in `fit`, keep ``validation_fraction`` of the rows apart (by class) and stop after ``patience``
        epochs without a better loss on them; the best parameters are kept.
    warm_start : `fit` continues from where the last one ended.
    device : "cpu", "auto", "cuda", …
    dtype : "float32" or "float64".
    num_workers : processes that read a Dataset; 0 reads it here.
    random_state : the only source of randomness; torch's and numpy's global states are left alone.

    X is an array or data frame of numbers (2-d; 4-d images for "resnet" and callables), or a map-style torch Dataset
    whose items are x, (x, y) or (x, y, group) and of which only batches are ever in memory.

    Attributes
    ----------
    classes_ : (m,). module_ : the fitted torch module. n_iter_ : epochs (or iterations of L-BFGS) of the last call.
    converged_ : whether L-BFGS has. input_shape_ : the shape of one row.
    validation_losses_ : of each epoch, with ``early_stopping``.
    """

    def __init__(
        self,
        module: str | Factory = "linear",
        *,
        hidden: Iterable[int] = (200,),
        dropout: float = 0.3,
        epochs: int = 20,
        batch_size: int | None = 256,
        optimizer: str = "auto",
        lr: float = 0.005,
        weight_decay: float = 1e-4,
        decay: float = 0.95,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 5,
        warm_start: bool = False,
        device: str = "cpu",
        dtype: str = "float32",
        num_workers: int = 0,
        random_state: Any = None,
    ) -> None:
        self.module = module
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.lr = lr
        self.weight_decay = weight_decay
        self.decay = decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.device = device
        self.dtype = dtype
        self.num_workers = num_workers
        self.random_state = random_state

    # -- fitting -------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TorchClassifier:
        """Fit labels. y : (n,); may be left out where X is a Dataset of (x, y) or (x, y, group)."""
        recipe = check_settings(self)
        fresh = not (self.warm_start and hasattr(self, "module_"))
        known = None if fresh else self.classes_
        rows, codes, weight = self._labelled(X, y, sample_weight, known, fresh)
        table = np.eye(len(self.classes_))
        self._train(rows, codes, table, weight, recipe, self.epochs, fresh, self.early_stopping)
        self._warn_unless_converged()
        return self

    def fit_lesson(
        self, X: Any, y: Any, lesson: Callable[[Module, Tensor, Tensor], Lesson], sample_weight: Any = None
    ) -> TorchClassifier:
        """`fit` afresh, with another lesson than plain training.

        lesson : (network, targets (n, m), rows to learn from (N,)) -> `optfair.nn.training.Lesson`, called once; the
        targets are those of the labels times the weights.
        """
        recipe = check_settings(self)
        if recipe.optimizer == "lbfgs":
            raise ValueError("optimizer='lbfgs': takes no minibatches; give batch_size, or optimizer='adamw'.")
        rows, codes, weight = self._labelled(X, y, sample_weight, None, True)
        table = np.eye(len(self.classes_))
        self._train(rows, codes, table, weight, recipe, self.epochs, True, self.early_stopping, lesson)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> TorchClassifier:
        """One epoch, from where the last call ended. classes : all there will ever be, at the first call."""
        recipe = check_settings(self)
        fresh = not hasattr(self, "module_")
        if not fresh and classes is not None and list(classes) != list(self.classes_):
            raise ValueError(
                f"classes={list(classes)!r}: are not those of the first call, {self.classes_.tolist()!r}; give the "
                "same, or none."
            )
        rows, codes, weight = self._labelled(X, y, sample_weight, classes if fresh else self.classes_, fresh)
        self._train(rows, codes, np.eye(len(self.classes_)), weight, recipe, 1, fresh)
        return self

    def fit_targets(
        self,
        X: Any,
        cell: Any,
        table: Any,
        sample_weight: Any = None,
        *,
        n_epochs: int | None = None,
        reset: bool = False,
        rate: float = 1.0,
    ) -> TorchClassifier:
        """Minimise Σ_n w_n (−Σ_j T_nj log softmax(f(x_n))_j) / Σ_n w_n with T_n = table[cell_n].

        cell : (n,) integers. table : (cells, m), not negative; the m columns are the classes.
        n_epochs : instead of ``epochs``. reset : start afresh; otherwise go on from the parameters and the state of
        the optimizer of the last call, if there was one. rate : where this call begins, in units of ``lr``.
        """
        recipe = check_settings(self)
        if not 0 < rate < np.inf:
            raise ValueError(f"rate={rate!r}: must be a number above 0.")
        recipe = replace(recipe, lr=recipe.lr * rate)
        fresh = reset or not hasattr(self, "module_")
        epochs = whole_number("n_epochs", self.epochs if n_epochs is None else n_epochs)
        rows = self._rows(X, reset=fresh)
        weight = check_weights(sample_weight, len(rows))
        table = check_table(table)
        cell = check_cells(cell, len(rows), len(table))
        m = table.shape[1]
        if not fresh and m != len(self.classes_):
            raise ValueError(
                f"table: has {m} columns, the fitted model {len(self.classes_)} classes; must be the same."
            )
        if len(getattr(self, "classes_", ())) != m:
            self.classes_ = np.arange(m)
        self._train(rows, cell, table, weight, recipe, epochs, fresh)
        if n_epochs is None:
            self._warn_unless_converged()
        return self

    def _labelled(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, fresh: bool
    ) -> tuple[Rows, np.ndarray, np.ndarray | None]:
        """(rows, codes, weights) of labelled data, checked; sets ``classes_``."""
        rows = self._rows(X, reset=fresh)
        labels = read_y(X, y)
        check_same_rows(
            X=X if isinstance(X, pd.DataFrame) else range(len(rows)), y=y if isinstance(y, pd.Series) else labels
        )
        weight = check_weights(sample_weight, len(rows))
        codes, names = encode_labels(labels, weight, classes)
        if fresh:
            self.classes_ = names
        return rows, codes, weight

    def prepare(self, X: Any) -> Rows:
        """X, checked and on the device: to give as X to many calls, each of which would check it again."""
        check_settings(self)
        return self._rows(X, reset=not hasattr(self, "module_"))

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        """X, checked, on the device. reset : whether it may have another shape than the X before."""
        device = find_device(self.device) if reset else next(self.module_.parameters()).device
        rows: Rows
        if isinstance(X, ArrayRows | DatasetRows):
            rows = X
            if (rows.dtype, rows.device.type) != (DTYPES[self.dtype], device.type):
                raise ValueError(
                    f"X: prepared as {rows.dtype} on {rows.device}, this is {DTYPES[self.dtype]} on {device}; prepare "
                    "it with this model."
                )
            if reset and not hasattr(self, "n_features_in_"):
                self.n_features_in_ = rows.shape[0] if rows.shape else 1
        elif is_dataset(X):
            with seeded(0, device):  # its items may draw from torch's generator
                rows = DatasetRows(X, device, DTYPES[self.dtype], self.num_workers)
            if reset:
                self.n_features_in_ = rows.shape[0] if rows.shape else 1
                self.__dict__.pop("feature_names_in_", None)
        else:
            if sparse.issparse(X):
                raise TypeError(
                    "X: is a sparse matrix; networks need dense rows: give X.toarray(), or sparse_output=False to the "
                    "transformer that made it."
                )
            images = callable(self.module) or self.module == "resnet" or (not reset and len(self.input_shape_) > 1)
            X = validate_data(self, X, reset=reset, dtype=np.dtype(self.dtype), order="C", allow_nd=images)
            rows = ArrayRows(X, device)
        if not reset and rows.shape != self.input_shape_:
            raise ValueError(f"X: its rows have shape {rows.shape}, those of fit had {self.input_shape_}.")
        return rows

    def _train(
        self,
        rows: Rows,
        cell: np.ndarray,
        table: np.ndarray,
        weight: np.ndarray | None,
        recipe: Recipe,
        epochs: int,
        fresh: bool,
        early_stopping: bool = False,
        lesson: Callable[[Module, Tensor, Tensor], Lesson] | None = None,
    ) -> None:
        if fresh:
            self._start(rows.shape, table.shape[1], find_device(self.device), draw_seed(self.random_state))
        elif not hasattr(self, "_training"):
            self._training = Training(self.module_, draw_seed(self.random_state))
        training, device = self._training, self._training.theta.device

        def on_device(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        def targets(weights: np.ndarray | None) -> Tensor:
            return on_device(weigh_targets(cell, table, weights)).to(DTYPES[self.dtype])

        kept = np.arange(len(rows)) if weight is None else np.flatnonzero(weight)
        if recipe.optimizer == "lbfgs":
            some = None if len(kept) == len(rows) else on_device(kept)
            found = minimise(training, rows, some, targets(weight), recipe.weight_decay, epochs)
            self.n_iter_, self.converged_ = found
            return
        self.__dict__.pop("converged_", None)
        stop = None
        if early_stopping:
            weight = np.ones(len(rows)) if weight is None else weight
            apart = kept[validation_rows(cell[kept], self.validation_fraction, seed_of(training.seed, 0, 1))]
            is_apart = np.isin(np.arange(len(rows)), apart)
            stop = Patience(training.net, rows, on_device(apart), targets(weight * is_apart), self.patience)
            weight = np.where(is_apart, 0.0, weight)
            kept = np.flatnonzero(weight)
        if lesson is None:
            plan = Lesson(targets(weight), on_device(kept))
        else:
            plan = lesson(training.net, targets(weight), on_device(kept))
        if stop is not None and type(plan) is not Lesson:
            raise ValueError(
                "early_stopping=True: keeps the parameters of the least plain loss, which is not what is taught here; "
                "set it to False."
            )
        self.n_iter_ = training.run_epochs(rows, plan, recipe, epochs, stop)
        if stop is not None:
            stop.restore_best()
            self.validation_losses_ = stop.losses

    def _warn_unless_converged(self) -> None:
        if not getattr(self, "converged_", True):
            warnings.warn(
                f"epochs={self.epochs}: L-BFGS has not converged in {self.n_iter_} iterations; raise epochs, scale X, "
                "or raise weight_decay.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _start(self, shape: tuple[int, ...], m: int, device: torch.device, seed: int) -> None:
        """A new module, drawn from the seed."""
        with seeded(seed_of(seed, 0), device):
            net = make_module(self.module, shape, m, hidden=tuple(self.hidden), dropout=self.dropout)
        self.module_ = net.to(device=device, dtype=DTYPES[self.dtype]).eval()
        self.input_shape_ = shape
        self._training = Training(self.module_, seed)

    # -- prediction ----------------------------------------------------------------------------------------
    def _logits(self, X: Any) -> np.ndarray:
        """f(x), (n, m) in float64, a block of rows at a time."""
        check_is_fitted(self, "module_")
        rows, net, dtype = self._rows(X, reset=False), self.module_.eval(), DTYPES[self.dtype]
        if self.module in ("linear", "mlp") and rows.device.type == "cpu":
            # In float32 the last digits of a row would depend on which others are in its block.
            net, dtype = copy.deepcopy(net).double(), torch.float64
        with torch.no_grad(), contextlib.nullcontext() if isinstance(rows, ArrayRows) else seeded(0, rows.device):
            blocks = in_blocks(len(rows), rows.shape)
            # Into one array: small results kept between large blocks would leave holes in memory, as large as all of X.
            f = np.empty((len(rows), len(self.classes_)))
            for x, block in zip(rows.batches(blocks), blocks, strict=True):
                f[block] = net(x.to(dtype)).cpu()
        return f

    def decision_function(self, X: Any) -> np.ndarray:
        """The logits (n, m); with two classes their difference (n,), positive where the second is likelier."""
        f = self._logits(X)
        return f[:, 1] - f[:, 0] if f.shape[1] == 2 else f

    def predict_proba(self, X: Any) -> np.ndarray:
        """softmax(f(x)), (n, m)"""
        f = self._logits(X)
        p = np.exp(f - f.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row, (n,)."""
        check_is_fitted(self, "module_")
        return np.asarray(self.classes_[self._logits(X).argmax(axis=1)])
