"""Modules and trainings as flat dictionaries of numpy arrays, and back; `TorchClassifier` in files, by these."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from optfair.labels import object_array
from optfair.nn.settings import check_settings, draw_seed, find_device
from optfair.nn.training import Optimizer, Training

MODULE, OPTIMIZER = "module.", "optimizer."
NEEDED = ("input_shape", "n_outputs", "seed", "epoch", "optimizer", "n_features", "n_iter")


def arrays_of(net: nn.Module) -> dict[str, np.ndarray]:
    """Copies of the parameters and buffers, by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in net.state_dict().items()}


def load_arrays(net: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Copy arrays into the parameters and buffers, whose memory stays where it is."""
    own = net.state_dict()
    wrong = sorted(own.keys() ^ arrays.keys())
    if wrong:
        side = "lacks" if wrong[0] in own else "has an unknown"
        raise ValueError(f"state: {side} {wrong[0]!r}; must have the names {sorted(own)}.")
    for name, tensor in own.items():
        given = np.asarray(arrays[name])
        if given.shape != tuple(tensor.shape):
            raise ValueError(f"state: {name!r} has shape {given.shape}; must be {tuple(tensor.shape)}.")
        # A copy of its own: torch warns of arrays that cannot be written to.
        tensor.copy_(torch.from_numpy(given.copy()))


def training_arrays(training: Training, input_shape: tuple[int, ...], n_outputs: int) -> dict[str, np.ndarray]:
    """All that the rest of a training depends on."""
    state = {MODULE + name: array for name, array in arrays_of(training.net).items()}
    if training.optimizer is not None:
        own = training.optimizer.state
        state |= {OPTIMIZER + name: tensor.cpu().numpy().copy() for name, tensor in own.items()}
    return state | {
        "optimizer": np.array("" if training.optimizer is None else training.optimizer.name),
        "seed": np.array(training.seed),
        "epoch": np.array(training.epoch),
        "input_shape": np.array(input_shape, dtype=np.int64),
        "n_outputs": np.array(n_outputs),
    }


def check_training(state: Mapping[str, np.ndarray], dtype: str) -> None:
    """A state that `training_arrays` gave, of a module of this dtype."""
    lacking = [name for name in NEEDED if name not in state]
    if lacking:
        raise ValueError(f"state: lacks {lacking[0]!r}; give what training_state() returned.")
    kinds = {str(array.dtype) for name, array in state.items() if name.startswith(MODULE) and array.dtype.kind == "f"}
    if kinds - {dtype}:
        raise ValueError(f"dtype={dtype!r}: the state is of {', '.join(sorted(kinds))}; must be the same.")


def load_training(training: Training, state: Mapping[str, np.ndarray]) -> None:
    """Parameters, optimizer and counters into a training that has just begun with a module of the same shape."""
    load_arrays(training.net, {name[len(MODULE) :]: state[name] for name in state if name.startswith(MODULE)})
    training.epoch = int(state["epoch"])
    name = str(state["optimizer"])
    if name:
        training.optimizer = Optimizer(name, training.theta)
        for key, tensor in training.optimizer.state.items():
            tensor.copy_(torch.from_numpy(np.asarray(state[OPTIMIZER + key]).copy()))


class SavedTraining(BaseEstimator):
    """What `TorchClassifier` does with these arrays."""

    classes_: np.ndarray
    module_: nn.Module
    input_shape_: tuple[int, ...]
    n_features_in_: int
    feature_names_in_: np.ndarray
    n_iter_: int
    device: str
    dtype: str
    random_state: Any
    _training: Training

    def _start(self, shape: tuple[int, ...], m: int, device: torch.device, seed: int) -> None:
        raise NotImplementedError

    def parameters_state(self) -> dict[str, np.ndarray]:
        """Copies of the parameters and buffers, by name."""
        check_is_fitted(self, "module_")
        return arrays_of(self.module_)

    def with_parameters(self, state: Mapping[str, np.ndarray]) -> Self:
        """A fitted copy with these parameters, which shares nothing that changes with this model."""
        check_is_fitted(self, "module_")
        other = type(self).__new__(type(self))
        own = {name: value for name, value in self.__dict__.items() if name not in ("module_", "_training")}
        other.__dict__.update(copy.deepcopy(own))
        other.module_ = copy.deepcopy(self.module_)
        load_arrays(other.module_, state)
        return other

    def training_state(self) -> dict[str, np.ndarray]:
        """All that `restore_training` needs to go on bit for bit as this model would: a flat dictionary of arrays."""
        check_is_fitted(self, "module_")
        # A copy from `with_parameters` predicts, and has not begun to train.
        training = getattr(self, "_training", None)
        if training is None:
            training = Training(copy.deepcopy(self.module_), draw_seed(copy.deepcopy(self.random_state)))
        state = training_arrays(training, self.input_shape_, len(self.classes_))
        if self.classes_.dtype.kind != "O":
            state["classes"] = self.classes_.copy()
        if hasattr(self, "feature_names_in_"):
            state["feature_names"] = np.array(self.feature_names_in_, dtype=str)
        return state | {"n_features": np.array(self.n_features_in_), "n_iter": np.array(self.n_iter_)}

    def restore_training(self, state: Mapping[str, np.ndarray], classes: Any = None) -> Self:
        """Go on where ``state`` was taken, in a model with the same arguments; fitted or not before.

        classes : their names, where these are objects (which ``training_state`` leaves out); 0..m−1 by default.
        """
        check_settings(self)
        check_training(state, self.dtype)
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
        load_training(self._training, state)

    def __getstate__(self) -> dict[str, Any]:
        """Without torch's objects: the module and its training as arrays."""
        state = dict(super().__getstate__())
        if "module_" in state:
            state["_saved"] = self.training_state()
            state.pop("module_")
            state.pop("_training", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        arrays = state.pop("_saved", None)
        super().__setstate__(state)
        if arrays is not None:
            try:
                device = find_device(self.device)
            except ValueError:  # fitted on a device that this machine has not: it predicts here all the same
                device = torch.device("cpu")
            self._restore(arrays, device)
