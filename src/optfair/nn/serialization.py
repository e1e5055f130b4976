"""Convert modules and trainings to flat dictionaries of numpy arrays, and back; save `TorchClassifier` by these."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from optfair.inputs.labels import object_array
from optfair.nn.optimizers import Optimizer
from optfair.nn.settings import check_settings, draw_seed, find_device
from optfair.nn.training import TrainingState

MODULE_PREFIX, OPTIMIZER_PREFIX = "module.", "optimizer."
REQUIRED_NAMES = ("input_shape", "n_outputs", "seed", "epoch", "optimizer", "n_features", "n_iter")


def module_arrays(net: nn.Module) -> dict[str, np.ndarray]:
    """Return copies of the parameters and buffers, by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in net.state_dict().items()}


def load_module_arrays(net: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Copy arrays into the parameters and buffers, whose memory stays where it is."""
    tensors = net.state_dict()
    wrong = sorted(tensors.keys() ^ arrays.keys())
    if wrong:
        problem = "lacks" if wrong[0] in tensors else "has an unknown"
        raise ValueError(f"state: {problem} {wrong[0]!r}; must have the names {sorted(tensors)}.")
    for name, tensor in tensors.items():
        array = np.asarray(arrays[name])
        if array.shape != tuple(tensor.shape):
            raise ValueError(f"state: {name!r} has shape {array.shape}; must be {tuple(tensor.shape)}.")
        # torch warns of arrays that cannot be written to, hence the copy.
        tensor.copy_(torch.from_numpy(array.copy()))


def training_arrays(training: TrainingState, input_shape: tuple[int, ...], n_outputs: int) -> dict[str, np.ndarray]:
    """Return all that the rest of a training depends on."""
    state = {MODULE_PREFIX + name: array for name, array in module_arrays(training.net).items()}
    if training.optimizer is not None:
        memory = training.optimizer.state
        state |= {OPTIMIZER_PREFIX + name: tensor.cpu().numpy().copy() for name, tensor in memory.items()}
    return state | {
        "optimizer": np.array("" if training.optimizer is None else training.optimizer.name),
        "seed": np.array(training.seed),
        "epoch": np.array(training.epoch),
        "input_shape": np.array(input_shape, dtype=np.int64),
        "n_outputs": np.array(n_outputs),
    }


def check_training_arrays(state: Mapping[str, np.ndarray], dtype: str) -> None:
    """Check that `training_arrays` may have returned ``state``, of a module of this dtype."""
    lacking = [name for name in REQUIRED_NAMES if name not in state]
    if lacking:
        raise ValueError(f"state: lacks {lacking[0]!r}; give what training_state() returned.")
    module = [array for name, array in state.items() if name.startswith(MODULE_PREFIX)]
    kinds = {str(array.dtype) for array in module if array.dtype.kind == "f"}
    if kinds - {dtype}:
        raise ValueError(f"dtype={dtype!r}: the state is of {', '.join(sorted(kinds))}; must be the same.")


def load_training_arrays(training: TrainingState, state: Mapping[str, np.ndarray]) -> None:
    """Copy parameters, optimizer and counters into a training that has just begun with a module of the same shape."""
    module = {name: array for name, array in state.items() if name.startswith(MODULE_PREFIX)}
    load_module_arrays(training.net, {name.removeprefix(MODULE_PREFIX): array for name, array in module.items()})
    training.epoch = int(state["epoch"])
    optimizer_name = str(state["optimizer"])
    if optimizer_name:
        training.optimizer = Optimizer(optimizer_name, training.theta)
        for name, tensor in training.optimizer.state.items():
            tensor.copy_(torch.from_numpy(np.asarray(state[OPTIMIZER_PREFIX + name]).copy()))


class SerializableTraining(BaseEstimator):
    """An estimator whose parameters and training are read and restored as arrays, and pickled as such."""

    classes_: np.ndarray
    module_: nn.Module
    input_shape_: tuple[int, ...]
    n_features_in_: int
    feature_names_in_: np.ndarray
    n_iter_: int
    device: str
    dtype: str
    random_state: Any
    _training: TrainingState

    def _start(self, shape: tuple[int, ...], m: int, device: torch.device, seed: int) -> None:
        raise NotImplementedError

    def parameters_state(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters and buffers of the network.

        Returns
        -------
        dict of str to ndarray
            The arrays, by name.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(epochs=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
        >>> {name: array.shape for name, array in model.parameters_state().items()}
        {'weight': (2, 1), 'bias': (2,)}
        """
        check_is_fitted(self, "module_")
        return module_arrays(self.module_)

    def with_parameters(self, state: Mapping[str, np.ndarray]) -> Self:
        """Return a fitted copy with other parameters, which shares nothing that changes with this model.

        Parameters
        ----------
        state : mapping of str to ndarray
            What `parameters_state` returned, of this model or of one of the same shape.

        Returns
        -------
        TorchClassifier
            The copy. It predicts, and has not begun to train.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> X, y = [[0.0], [1.0]], [0, 1]
        >>> model = TorchClassifier(epochs=1, random_state=0).fit(X, y)
        >>> before = model.with_parameters(model.parameters_state())
        >>> later = model.fit_targets(X, y, [[1, 0], [0, 1]])
        >>> bool((before.predict_proba(X) == later.predict_proba(X)).any())
        False
        """
        check_is_fitted(self, "module_")
        other = type(self).__new__(type(self))
        attributes = {name: value for name, value in self.__dict__.items() if name not in ("module_", "_training")}
        other.__dict__.update(copy.deepcopy(attributes))
        other.module_ = copy.deepcopy(self.module_)
        load_module_arrays(other.module_, state)
        return other

    def training_state(self) -> dict[str, np.ndarray]:
        """Return all that `restore_training` needs to go on bit for bit as this model would.

        Returns
        -------
        dict of str to ndarray
            Parameters, state of the optimizer, seed, counters and names, in a flat dictionary.

        Examples
        --------
        >>> from optfair.nn import TorchClassifier
        >>> model = TorchClassifier(epochs=2, random_state=0).fit([[0.0], [1.0]], [0, 1])
        >>> state = model.training_state()
        >>> int(state["epoch"]), str(state["optimizer"])
        (2, 'adamw')
        """
        check_is_fitted(self, "module_")
        # A copy from `with_parameters` has not begun to train.
        training = getattr(self, "_training", None)
        if training is None:
            training = TrainingState(copy.deepcopy(self.module_), draw_seed(copy.deepcopy(self.random_state)))
        state = training_arrays(training, self.input_shape_, len(self.classes_))
        if self.classes_.dtype.kind != "O":
            state["classes"] = self.classes_.copy()
        if hasattr(self, "feature_names_in_"):
            state["feature_names"] = np.array(self.feature_names_in_, dtype=str)
        return state | {"n_features": np.array(self.n_features_in_), "n_iter": np.array(self.n_iter_)}

    def restore_training(self, state: Mapping[str, np.ndarray], classes: Any = None) -> Self:
        """Go on where ``state`` was taken, in a model with the same arguments; fitted or not before.

        Parameters
        ----------
        state : mapping of str to ndarray
            What `training_state` returned.
        classes : array-like of shape (m,), default None
            The names of the classes, where these are objects (which `training_state` leaves out); 0..m−1 by default.

        Returns
        -------
        TorchClassifier
            The model itself, fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair.nn import TorchClassifier
        >>> X, y = np.arange(8.0).reshape(-1, 1), np.repeat([0, 1], 4)
        >>> model = TorchClassifier(epochs=2, random_state=0).fit(X, y)
        >>> copy = TorchClassifier(epochs=2, random_state=0).restore_training(model.training_state())
        >>> table = np.eye(2)
        >>> p, q = (m.fit_targets(X, y, table).predict_proba(X) for m in (model, copy))
        >>> bool((p == q).all())
        True
        """
        check_settings(self)
        check_training_arrays(state, self.dtype)
        m = int(state["n_outputs"])
        names = np.asarray(state.get("classes", np.arange(m)) if classes is None else classes)
        if names.shape != (m,):
            raise ValueError(f"classes={names.tolist()!r}: the state has {m} classes; name each one once.")
        self._restore(state, find_device(self.device))
        self.classes_ = names.copy()
        self.n_features_in_, self.n_iter_ = int(state["n_features"]), int(state["n_iter"])
        self.__dict__.pop("feature_names_in_", None)
        if "feature_names" in state:
            self.feature_names_in_ = object_array(state["feature_names"].tolist())
        return self

    def _restore(self, state: Mapping[str, np.ndarray], device: torch.device) -> None:
        shape = tuple(int(size) for size in state["input_shape"])
        self._start(shape, int(state["n_outputs"]), device, int(state["seed"]))
        load_training_arrays(self._training, state)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without torch's objects: the module and its training as arrays."""
        state = dict(super().__getstate__())
        if "module_" in state:
            state["_saved"] = self.training_state()
            state.pop("module_")
            state.pop("_training", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes, and make the module from its arrays."""
        state = dict(state)
        arrays = state.pop("_saved", None)
        super().__setstate__(state)
        if arrays is not None:
            try:
                device = find_device(self.device)
            except ValueError:  # fitted on a device that this machine does not have: it still predicts
                device = torch.device("cpu")
            self._restore(arrays, device)
