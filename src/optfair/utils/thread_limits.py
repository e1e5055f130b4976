"""Limit the threads of numerical libraries while something runs, and restore what was found.

Threads of BLAS and OpenMP wait for each other by spinning: where another program holds a core, all of them wait for it
and burn the others. A limit is the whole process's in most BLAS libraries, and the calling thread's in OpenMP (and in
BLAS built on it).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController


class _Libraries:
    """The libraries that are loaded, by where their limit holds; looked for again when modules have been imported."""

    def __init__(self) -> None:
        self.n_modules = -1
        self.blas: tuple[Any, ...] = ()
        self.thread_blas: tuple[Any, ...] = ()
        self.openmp: tuple[Any, ...] = ()

    def refresh(self) -> None:
        """Look for libraries if there may be new ones: that takes milliseconds, to compare the number nothing."""
        if self.n_modules == len(sys.modules):
            return
        n_modules = len(sys.modules)
        libraries = [library for library in ThreadpoolController().lib_controllers if library.get_num_threads()]
        self.openmp = tuple(library for library in libraries if library.user_api == "openmp")
        blas = [library for library in libraries if library.user_api == "blas"]
        is_local = [getattr(library, "threading_layer", None) == "openmp" for library in blas]
        self.thread_blas = tuple(library for library, local in zip(blas, is_local, strict=True) if local)
        self.blas = tuple(library for library, local in zip(blas, is_local, strict=True) if not local)
        self.n_modules = n_modules  # last, for another thread that looks meanwhile


_LIBRARIES = _Libraries()
Changes = list[tuple[Any, int]]  # libraries, and the threads that each had


def _lower(libraries: Sequence[Any], limit: int, changes: Changes) -> None:
    """Give each library at most ``limit`` threads, and add those that this changes to ``changes``.

    Each is added before it is changed, so that an interrupt in between leaves none behind.
    """
    for library in libraries:
        number = library.get_num_threads()
        if number > limit:
            changes.append((library, number))
            library.set_num_threads(limit)
            # Where a thread of the user holds a limit, threadpoolctl lets no other thread change it: it stays theirs.
            if library.get_num_threads() != limit:
                changes.pop()


class BlasLimit:
    """Counts the users of the limit: the first one lowers BLAS to one thread, the last one restores what was found.

    It holds across threads, whichever of them leaves last. ``with one_blas_thread():`` takes microseconds.
    """

    def __init__(self) -> None:
        self.changes: Changes = []
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Forget the users, which a forked child does not have; its first one restores what the parent had lowered."""
        self.lock = threading.Lock()
        self.users = 0
        self.local = threading.local()

    def __call__(self) -> BlasLimit:
        return self

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                _LIBRARIES.refresh()
                try:
                    _lower(_LIBRARIES.blas, 1, self.changes)
                except BaseException:  # an interrupt: nobody will leave
                    self._restore()
                    raise
            self.users += 1
        self._stack().append([])
        _lower(_LIBRARIES.thread_blas, 1, self._stack()[-1])

    def __exit__(self, *_: object) -> None:
        for library, number in self._stack().pop() if self._stack() else ():
            library.set_num_threads(number)
        with self.lock:
            self.users = max(self.users - 1, 0)
            if self.users == 0:
                self._restore()

    def _restore(self) -> None:
        while self.changes:
            _restore(*self.changes[-1])
            self.changes.pop()  # after it is restored: an interrupt in between restores it once more

    def _stack(self) -> list[Changes]:
        """Return what this thread has changed, innermost last."""
        if not hasattr(self.local, "changes"):
            self.local.changes = []
        return self.local.changes


def _restore(library: Any, number: int) -> None:
    """Set a limit that is the whole process's, from a thread that need not be the one that lowered it."""
    if library.get_num_threads() != 1:
        return  # changed by somebody else since
    release = getattr(library, "clear_controlling_thread", lambda force: None)  # threadpoolctl 3.8: one thread may set
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


one_blas_thread = BlasLimit()


@contextmanager
def openmp_limit(limit: int) -> Iterator[None]:
    """Hold the OpenMP regions that the calling thread enters to at most ``limit`` threads, torch's among them."""
    _LIBRARIES.refresh()
    threads_of_torch = getattr(sys.modules.get("torch"), "get_num_threads", None)
    if threads_of_torch is not None:
        threads_of_torch()  # torch sets the number at its first use in a thread, and would undo the limit
    changes: Changes = []
    try:
        _lower(_LIBRARIES.openmp, limit, changes)
        yield
    finally:
        for library, number in changes:
            library.set_num_threads(number)
