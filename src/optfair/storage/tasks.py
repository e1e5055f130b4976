"""Pack functions that are sent to other processes, and name what all engines do."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

from optfair.errors import brief_text, need_extra
from optfair.storage.parts import Part
from optfair.utils.parallel import cores

READING = "reading rows"


def packed(thing: Any, name: str) -> bytes:
    """Return something as it is sent to another process, closures and all; `pickle.loads` unpacks it there."""
    cloudpickle = need_extra("cloudpickle", "client=")
    try:
        return bytes(cloudpickle.dumps(thing))
    except Exception as error:
        raise ValueError(
            f"client: {name} cannot be sent to another process ({brief_text(error)}); give functions and models that "
            "hold no open connection, file or lock, but open what they need."
        ) from None


def packed_part(part: Any) -> bytes:
    """Return a part as it is sent to another process."""
    return packed(part, getattr(part, "name", "a part"))


class Task:
    """A function that can be sent to another process, where it is unpacked when it is first called.

    Calls use one core: the parts are what runs side by side.
    """

    payload: bytes
    function: Callable[[Any], Any] | None
    lock: threading.Lock

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.__setstate__(packed(function, "what is asked of the rows"))

    def __getstate__(self) -> bytes:
        return self.payload

    def __setstate__(self, payload: bytes) -> None:
        self.payload, self.function, self.lock = payload, None, threading.Lock()

    def __call__(self, part: Any) -> Any:
        """Apply the function."""
        with self.lock:
            if self.function is None:
                self.function = pickle.loads(self.payload)
        with cores(1):
            return self.function(part)


def count_rows(parts: Sequence[Part]) -> int:
    """Return the rows of parts, as far as they are counted."""
    return sum(part.n or 0 for part in parts)
