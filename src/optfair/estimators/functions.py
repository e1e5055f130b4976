"""Find the function in a model that no file can hold, because it cannot be imported by its name."""

from __future__ import annotations

import functools
import types
from typing import Any

from optfair.errors import brief_text

# What to give instead of a function, by parameter.
ALTERNATIVES = {"sensitive_features": "name the columns of X", "estimator": "give the model itself, with cv='prefit'"}


def unsavable_part(model: Any, error: Exception) -> str:
    """Return the message of a model that could not be written, which names the parameter with the function."""
    for name, value in model.get_params(deep=True).items():
        kind = function_kind(value)
        if kind:
            instead = f"{ALTERNATIVES[name]}, or " if name in ALTERNATIVES else ""
            return f"save: {name} is {kind}, which no file can hold; {instead}use a function at the top of a module."
    return (
        f"save: a part of the model cannot be written ({brief_text(error)}); use types that skops can write, and "
        "functions that can be imported by name."
    )


def function_kind(value: Any) -> str:
    """Return what kind of function a value is that cannot be found by its name; "" for anything else.

    >>> function_kind(lambda X: X)
    'a lambda'
    """
    if isinstance(value, types.MethodType):
        return f"the method {brief_text(value.__qualname__, 60)} of an object"
    if isinstance(value, functools.partial):
        return "a partial function"
    if isinstance(value, types.FunctionType):
        if value.__name__ == "<lambda>":
            return "a lambda"
        if "<locals>" in value.__qualname__:
            return f"{brief_text(value.__name__, 60)}, a function inside another"
        if value.__module__ == "__main__":
            return f"{brief_text(value.__name__, 60)}, a function of a script"
    return ""
