"""Check the arguments of `TorchClassifier` once; find its device and draw its seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from optfair.errors import brief_repr
from optfair.nn.nets import MODULES
from optfair.nn.optimizers import OptimizerSettings
from optfair.utils.checks import check_choice, check_integer, check_number, is_integer
from optfair.utils.seeds import as_seed

OPTIMIZERS = ("auto", "adamw", "sgd", "lbfgs")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def check_settings(model: Any) -> OptimizerSettings:
    """Check every argument of the constructor, and return how to train."""
    if not callable(model.module):
        check_choice("module", model.module, MODULES, ", or a callable (input_shape, n_outputs) -> torch.nn.Module")
    check_choice("optimizer", model.optimizer, OPTIMIZERS)
    check_choice("dtype", model.dtype, tuple(DTYPES))
    widths = model.hidden
    if isinstance(widths, str) or not np.iterable(widths) or not all(is_integer(width, 1) for width in widths):
        raise ValueError(f"hidden={brief_repr(widths)}: must be a list of widths, each an integer >= 1.")
    for name, least in {"epochs": 1, "patience": 1, "num_workers": 0}.items():
        check_integer(name, getattr(model, name), least)
    if model.batch_size is not None:
        check_integer("batch_size", model.batch_size, 1, ", or None for all rows at once")
    check_number("dropout", model.dropout, "[0, 1)")
    check_number("lr", model.lr, "(0, inf)")
    check_number("weight_decay", model.weight_decay, "[0, inf)")
    check_number("decay", model.decay, "(0, 1]")
    check_number("validation_fraction", model.validation_fraction, "(0, 1)")
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
    return OptimizerSettings(optimizer, float(model.lr), float(model.weight_decay), float(model.decay), batch_size)


def find_device(device: Any) -> torch.device:
    """Return the device; "auto" is the graphics card if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        available = torch.device(device)
        torch.empty(0, device=available)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"device={device!r}: is not available here ({reason}); use 'cpu', or 'auto' for the best there is."
        ) from None
    return available


def draw_seed(random_state: Any) -> int:
    """Return a seed from a number, a generator of numpy, or (for None) the operating system; not from global states."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
    seed = as_seed(random_state)
    if seed is None or seed >= 2**63:
        raise ValueError(f"random_state={random_state!r}: must be less than 2**63, which is what torch takes.")
    return seed
