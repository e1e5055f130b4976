"""Read X and predict by a fitted network: the part of `TorchClassifier` that does not train."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from optfair.inputs.containers import is_dataset
from optfair.inputs.values import refuse_gradients
from optfair.nn.batches import ArrayRows, DatasetRows, RowSource, split_in_blocks
from optfair.nn.serialization import SerializableTraining
from optfair.nn.settings import DTYPES, check_settings, find_device
from optfair.nn.training import seed_torch


class NetworkPredictor(SerializableTraining):
    """A network with the methods that read X and predict."""

    module: Any
    num_workers: int

    def prepare(self, X: Any) -> RowSource:
        """Check X and put it on the device, to pass it to many calls, each of which would check it again.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows, (n, d) or (n, channels, height, width).

        Returns
        -------
        ArrayRows or DatasetRows
            The rows as `fit`, `fit_targets` and the methods that predict also take them.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(epochs=2, random_state=0)
        >>> rows = model.prepare([[0.0, 1.0], [1.0, 0.0]])
        >>> len(rows), rows.shape
        (2, (2,))
        >>> model.fit(rows, [0, 1]).predict_proba(rows).shape
        (2, 2)
        """
        check_settings(self)
        return self._read_rows(X, reset=not hasattr(self, "module_"))

    def _read_rows(self, X: Any, *, reset: bool) -> RowSource:
        """Return X, checked, on the device. reset : whether it may have another shape than the X before."""
        device = find_device(self.device) if reset else next(self.module_.parameters()).device
        rows: RowSource
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
            with seed_torch(0, device):  # its items may draw from torch's generator
                rows = DatasetRows(X, device, DTYPES[self.dtype], self.num_workers)
            if reset:
                self.n_features_in_ = rows.shape[0] if rows.shape else 1
                self.__dict__.pop("feature_names_in_", None)
        else:
            refuse_gradients(X, "X")
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

    def _logits(self, X: Any) -> np.ndarray:
        """Return f(x), (n, m) in float64, computed a block of rows at a time."""
        check_is_fitted(self, "module_")
        rows, net, dtype = self._read_rows(X, reset=False), self.module_.eval(), DTYPES[self.dtype]
        if self.module in ("linear", "mlp") and rows.device.type == "cpu":
            # In float32 the last digits of a row would depend on which others are in its block.
            net, dtype = copy.deepcopy(net).double(), torch.float64
        with torch.no_grad(), contextlib.nullcontext() if isinstance(rows, ArrayRows) else seed_torch(0, rows.device):
            blocks = split_in_blocks(len(rows), rows.shape)
            # Into one array: small results kept between large blocks would leave holes in memory, as large as all of X.
            f = np.empty((len(rows), len(self.classes_)))
            for x, block in zip(rows.batches(blocks), blocks, strict=True):
                f[block] = net(x.to(dtype)).cpu()
        return f

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logits.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows.

        Returns
        -------
        ndarray of shape (n, m), or (n,) for two classes
            The logits; with two classes their difference, positive where the second is likelier.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(epochs=2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
        >>> model.decision_function([[0.0], [1.0]]).shape
        (2, 3)
        """
        f = self._logits(X)
        return f[:, 1] - f[:, 0] if f.shape[1] == 2 else f

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return softmax(f(x)), the probability of each class.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows.

        Returns
        -------
        ndarray of shape (n, m)
            Probabilities, in the order of ``classes_``.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(epochs=2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
        >>> model.predict_proba([[0.0], [1.0]]).sum(axis=1).round(6).tolist()
        [1.0, 1.0]
        """
        return np.asarray(softmax(self._logits(X), axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """Return the likeliest class of each row.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The rows.

        Returns
        -------
        ndarray of shape (n,)
            Names of classes.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(batch_size=None, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], list("aabb"))
        >>> model.predict([[-1.0], [4.0]]).tolist()
        ['a', 'b']
        """
        check_is_fitted(self, "module_")
        return np.asarray(self.classes_[self._logits(X).argmax(axis=1)])
