"""`TorchClassifier`: a network that fits labels or soft targets, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from optfair.errors import brief_repr
from optfair.inputs.alignment import check_row_labels, check_same_rows
from optfair.inputs.labels import check_weights
from optfair.nn.batches import RowSource
from optfair.nn.fitting import ObjectiveFactory, SoftLabels, fit_early_stopping, fit_epochs, fit_full_batch
from optfair.nn.nets import Factory, make_module
from optfair.nn.optimizers import OptimizerSettings
from optfair.nn.prediction import NetworkPredictor
from optfair.nn.settings import DTYPES, check_settings, draw_seed, find_device
from optfair.nn.targets import check_cells, check_table, encode_labels, read_y
from optfair.nn.training import TrainingState, derive_seed, seed_torch
from optfair.utils.checks import check_integer, check_number


class TorchClassifier(ClassifierMixin, NetworkPredictor):
    """Fit a network p(x) = softmax(f_θ(x)), θ by the cross-entropy of labels or of soft targets (see `fit_targets`).

    X is an array or data frame of numbers (2-d; 4-d images for "resnet" and callables), or a map-style torch Dataset
    whose items are x, (x, y) or (x, y, group) and of which only batches are ever in memory.

    Parameters
    ----------
    module : {"linear", "mlp", "resnet"} or callable, default "linear"
        The network, see `make_module`: "linear"; "mlp"; "resnet" for images; or a callable
        (input_shape, n_outputs) -> torch.nn.Module that returns logits.
    hidden : sequence of int, default (200,)
        Widths of the hidden layers of "mlp".
    dropout : float, default 0.3
        Share of the units that are dropped before the output of "mlp" and "resnet".
    epochs : int, default 20
        Passes over the data in `fit`; with L-BFGS, fifty iterations each at most.
    batch_size : int or None, default 256
        Rows in a step; None for all.
    optimizer : {"auto", "adamw", "sgd", "lbfgs"}, default "auto"
        Method of optimization: "adamw", "sgd" (momentum 0.9), or "lbfgs" (all rows, to convergence, without dropout).
        "auto" is lbfgs when ``batch_size`` is None, else adamw.
    lr : float, default 0.005
        Rate of the first epoch of a call.
    weight_decay : float, default 1e-4
        As torch's AdamW and SGD have it; with L-BFGS the penalty ½ · weight_decay · ‖W‖², biases free.
    decay : float, default 0.95
        Factor of the rate after each epoch.
    early_stopping : bool, default False
        Whether `fit` holds rows out, by class, and stops after ``patience`` epochs without a better loss on them; the
        best parameters are kept.
    validation_fraction : float, default 0.1
        Share of the rows that early stopping holds out.
    patience : int, default 5
        Epochs without a better loss after which early stopping ends the training.
    warm_start : bool, default False
        Whether `fit` continues from where the last one ended.
    device : str, default "cpu"
        The device of the network: "cpu", "auto", "cuda", ….
    dtype : {"float32", "float64"}, default "float32"
        Type of the parameters.
    num_workers : int, default 0
        Processes that read a Dataset; 0 reads it in this process.
    random_state : int, numpy generator or None, default None
        The only source of randomness; torch's and numpy's global states are left alone.

    Attributes
    ----------
    classes_ : ndarray of shape (m,)
        The names of the classes.
    module_ : torch.nn.Module
        The fitted network.
    n_iter_ : int
        Epochs (or iterations of L-BFGS) of the last call.
    converged_ : bool
        Whether L-BFGS has converged; only after a fit by L-BFGS.
    input_shape_ : tuple of int
        The shape of one row.
    validation_losses_ : list of float
        The loss on the validation rows after each epoch; only with ``early_stopping``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from optfair.nn import TorchClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TorchClassifier("mlp", hidden=(16,), epochs=60, lr=0.02, batch_size=32, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (150, 3)
    >>> bool(model.score(X, y) > 0.9)
    True
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
        """Fit the network to labels.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows, (n, d) or (n, channels, height, width).
        y : array-like of shape (n,), default None
            The labels. May be left out where X is a Dataset of (x, y) or (x, y, group).
        sample_weight : array-like of shape (n,), default None
            Weights of the rows, at least 0.

        Returns
        -------
        TorchClassifier
            The fitted classifier itself.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair.nn import TorchClassifier
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "no", "yes", "yes"])
        >>> model = TorchClassifier(batch_size=None, weight_decay=0.1, dtype="float64", random_state=0)
        >>> model.fit(X, y).predict(X).tolist()
        ['no', 'no', 'yes', 'yes']
        """
        settings = check_settings(self)
        fresh = not (self.warm_start and hasattr(self, "module_"))
        rows, labels = self._labelled_rows(X, y, sample_weight, None if fresh else self.classes_, fresh)
        self._train(rows, labels, settings, self.epochs, fresh, early_stopping=self.early_stopping)
        self._warn_unless_converged()
        return self

    def fit_objective(
        self, X: Any, y: Any, make_objective: ObjectiveFactory, sample_weight: Any = None
    ) -> TorchClassifier:
        """Fit the network afresh, with another objective than the cross-entropy of the labels.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows, (n, d) or (n, channels, height, width).
        y : array-like of shape (n,)
            The labels; None where X is a Dataset of (x, y) or (x, y, group).
        make_objective : callable
            A function (network, targets (n, m), index (N,)) -> `optfair.nn.training.TrainingObjective`, called once.
            The targets are those of the labels times the weights; ``index`` are the rows to train on.
        sample_weight : array-like of shape (n,), default None
            Weights of the rows, at least 0.

        Returns
        -------
        TorchClassifier
            The fitted classifier itself.

        Examples
        --------
        Plain training, on batches that hold every row twice:

        >>> import numpy as np
        >>> from optfair.nn import TorchClassifier
        >>> from optfair.nn.training import TrainingObjective
        >>> class Twice(TrainingObjective):
        ...     def batches(self, size, shape, generator):
        ...         return [batch.repeat(2) for batch in super().batches(size, shape, generator)]
        >>> X, y = np.arange(8.0).reshape(-1, 1), np.repeat([0, 1], 4)
        >>> model = TorchClassifier(epochs=3, random_state=0)
        >>> model.fit_objective(X, y, lambda network, targets, index: Twice(targets, index)).n_iter_
        3
        """
        settings = check_settings(self)
        if settings.optimizer == "lbfgs":
            raise ValueError("optimizer='lbfgs': takes no minibatches; give batch_size, or optimizer='adamw'.")
        rows, labels = self._labelled_rows(X, y, sample_weight, None, True)
        self._train(rows, labels, settings, self.epochs, True, make_objective, early_stopping=self.early_stopping)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> TorchClassifier:
        """Run one epoch, from where the last call ended.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows, (n, d) or (n, channels, height, width).
        y : array-like of shape (n,), default None
            The labels. May be left out where X is a Dataset of (x, y) or (x, y, group).
        classes : array-like of shape (m,), default None
            All classes that any call will have; needed at the first call if its labels are not all of them.
        sample_weight : array-like of shape (n,), default None
            Weights of the rows, at least 0.

        Returns
        -------
        TorchClassifier
            The classifier itself, fitted for one more epoch.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(random_state=0)
        >>> for start in (0.0, 3.0):
        ...     model = model.partial_fit(start + np.arange(3.0).reshape(-1, 1), [0, 1, 1], classes=[0, 1, 2])
        >>> model.classes_.tolist()
        [0, 1, 2]
        """
        settings = check_settings(self)
        fresh = not hasattr(self, "module_")
        if not fresh and classes is not None and list(classes) != list(self.classes_):
            raise ValueError(
                f"classes={brief_repr(list(classes))}: are not those of the first call, "
                f"{brief_repr(self.classes_.tolist())}; give the same, or none."
            )
        rows, labels = self._labelled_rows(X, y, sample_weight, classes if fresh else self.classes_, fresh)
        self._train(rows, labels, settings, 1, fresh)
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

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows, (n, d) or (n, channels, height, width).
        cell : array-like of int of shape (n,)
            The row of ``table`` for each x.
        table : array-like of shape (cells, m)
            The soft targets, at least 0; the m columns are the classes.
        sample_weight : array-like of shape (n,), default None
            Weights w of the rows, at least 0.
        n_epochs : int, default None
            Number of epochs, instead of ``epochs``.
        reset : bool, default False
            Whether to start afresh. Otherwise the call goes on from the parameters and the state of the optimizer of
            the last call, if there was one.
        rate : float, default 1.0
            The rate at which this call begins, in units of ``lr``.

        Returns
        -------
        TorchClassifier
            The fitted classifier itself.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair.nn import TorchClassifier
        >>> table = np.array([[0.75, 0.25], [0.5, 0.5]])
        >>> model = TorchClassifier(batch_size=None, weight_decay=0.0, dtype="float64", random_state=0)
        >>> model.fit_targets([[0.0], [0.0], [1.0]], [0, 0, 1], table).predict_proba([[0.0], [1.0]]).round(3).tolist()
        [[0.75, 0.25], [0.5, 0.5]]
        """
        settings = check_settings(self)
        settings = replace(settings, lr=settings.lr * check_number("rate", rate, "(0, inf)"))
        fresh = reset or not hasattr(self, "module_")
        epochs = check_integer("n_epochs", self.epochs if n_epochs is None else n_epochs, 1)
        rows = self._read_rows(X, reset=fresh)
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
        self._train(rows, SoftLabels(cell, table, weight), settings, epochs, fresh)
        if n_epochs is None:
            self._warn_unless_converged()
        return self

    def _labelled_rows(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, fresh: bool
    ) -> tuple[RowSource, SoftLabels]:
        """Return (rows, labels) of labelled data, checked, and set ``classes_`` if ``fresh``."""
        rows = self._read_rows(X, reset=fresh)
        labels = read_y(X, y)
        check_same_rows(X=range(len(rows)), y=labels)
        check_row_labels(X=X, y=y, sample_weight=sample_weight)
        weight = check_weights(sample_weight, len(rows))
        codes, names = encode_labels(labels, weight, classes)
        if fresh:
            self.classes_ = names
        return rows, SoftLabels(codes, np.eye(len(self.classes_)), weight)

    def _train(
        self,
        rows: RowSource,
        labels: SoftLabels,
        settings: OptimizerSettings,
        epochs: int,
        fresh: bool,
        make_objective: ObjectiveFactory | None = None,
        *,
        early_stopping: bool = False,
    ) -> None:
        if fresh:
            self._start(rows.shape, labels.table.shape[1], find_device(self.device), draw_seed(self.random_state))
        elif not hasattr(self, "_training"):
            self._training = TrainingState(self.module_, draw_seed(self.random_state))
        arguments = self._training, rows, labels, settings, epochs
        if settings.optimizer == "lbfgs":
            self.n_iter_, self.converged_ = fit_full_batch(*arguments)
            return
        self.__dict__.pop("converged_", None)
        if early_stopping:
            self.n_iter_, self.validation_losses_ = fit_early_stopping(
                *arguments, self.validation_fraction, self.patience, make_objective
            )
        else:
            self.n_iter_ = fit_epochs(*arguments, make_objective)

    def _warn_unless_converged(self) -> None:
        if not getattr(self, "converged_", True):
            warnings.warn(
                f"epochs={self.epochs}: L-BFGS has not converged in {self.n_iter_} iterations; raise epochs, scale X, "
                "or raise weight_decay.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _start(self, shape: tuple[int, ...], m: int, device: torch.device, seed: int) -> None:
        """Set a new module, drawn from the seed."""
        with seed_torch(derive_seed(seed, 0), device):
            net = make_module(self.module, shape, m, hidden=tuple(self.hidden), dropout=self.dropout)
        self.module_ = net.to(device=device, dtype=DTYPES[self.dtype]).eval()
        self.input_shape_ = shape
        self._training = TrainingState(self.module_, seed)
