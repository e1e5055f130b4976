"""The arguments of `TorchClassifier`, checked once; its device and its seed."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from optfair.nn.nets import MODULES
from optfair.nn.training import Recipe

OPTIMIZERS = ("auto", "adamw", "sgd", "lbfgs")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def check_settings(model: Any) -> Recipe:
    """Every argument of the constructor is one it may be; returns how to train."""
    if not callable(model.module):
        _one_of("module", model.module, MODULES, ", or a callable (input_shape, n_outputs) -> torch.nn.Module")
    _one_of("optimizer", model.optimizer, OPTIMIZERS)
    _one_of("dtype", model.dtype, tuple(DTYPES))
    widths = model.hidden
    if isinstance(widths, str) or not np.iterable(widths) or not all(_is_whole(width, 1) for width in widths):
        raise ValueError(f"hidden={widths!r}: must be a list of widths, whole numbers of at least 1.")
    for name, least in {"epochs": 1, "patience": 1, "num_workers": 0}.items():
        _whole(name, getattr(model, name), least)
    if model.batch_size is not None:
        _whole("batch_size", model.batch_size, 1, ", or None for all rows at once")
    _number("dropout", model.dropout, lambda v: 0 <= v < 1, "at least 0 and less than 1")
    _number("lr", model.lr, lambda v: 0 < v < np.inf, "more than 0")
    _number("weight_decay", model.weight_decay, lambda v: 0 <= v < np.inf, "at least 0")
    _number("decay", model.decay, lambda v: 0 < v <= 1, "more than 0 and at most 1")
    _number("validation_fraction", model.validation_fraction, lambda v: 0 < v < 1, "more than 0 and less than 1")
    for name in ("early_stopping", "warm_start"):
        if not isinstance(getattr(model, name), bool | np.bool):
            raise ValueError(f"{name}={getattr(model, name)!r}: must be True or False.")
    optimizer = model.optimizer
    if optimizer == "auto":
        optimizer = "lbfgs" if model.batch_size is None else "adamw"
    if optimizer == "lbfgs" and model.batch_size is not None:
        raise ValueError(
            f"batch_size={model.batch_size!r}: optimizer='lbfgs' needs all rows at once; set batch_size=None, or "
            "optimizer='adamw'."
        )
    if optimizer == "lbfgs" and model.early_stopping:
        raise ValueError(
            "early_stopping=True: optimizer='lbfgs' has no epochs to stop after; set early_stopping=False, or "
            "optimizer='adamw'."
        )
    batch_size = None if model.batch_size is None else int(model.batch_size)
    return Recipe(optimizer, float(model.lr), float(model.weight_decay), float(model.decay), batch_size)


def find_device(device: Any) -> torch.device:
    """ "auto" is the graphics card if there is one; a device that torch does not have here is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"device={device!r}: is not available here ({reason}); use 'cpu', or 'auto' for the best there is."
        ) from None
    return found


def draw_seed(random_state: Any) -> int:
    """One seed, from a number, a generator of numpy, or (for None) the operating system; not from global states."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    if _is_whole(random_state, 0) and int(random_state) < 2**63:
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    raise ValueError(f"random_state={random_state!r}: must be None, a whole number of at least 0, or a generator.")


def whole_number(name: str, value: Any) -> int:
    _whole(name, value, 1)
    return int(value)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool) and int(value) >= least


def _whole(name: str, value: Any, least: int, otherwise: str = "") -> None:
    if not _is_whole(value, least):
        raise ValueError(f"{name}={value!r}: must be a whole number of at least {least}{otherwise}.")


def _number(name: str, value: Any, holds: Callable[[float], bool], rule: str) -> None:
    if not isinstance(value, Real) or isinstance(value, bool | np.bool) or not holds(float(value)):
        raise ValueError(f"{name}={value!r}: must be a number, {rule}.")


def _one_of(name: str, value: Any, allowed: tuple[str, ...], otherwise: str = "") -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, allowed))}{otherwise}.")
