"""Keep the rounds of a game in one SQLite file: each is added in a transaction, so that a killed run can go on.

Numbers are NumPy arrays without pickles; models are arrays or skops archives of types the estimator itself is made of.
Nothing in the file is executed.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.errors import ModelFileError
from optfair.inprocessing.game import Game, Trace, soft_targets
from optfair.inprocessing.learners import arrays_from_bytes, arrays_to_bytes
from optfair.inprocessing.warm_start import WarmStart
from optfair.inputs.containers import is_dataset
from optfair.inputs.identity import row_bytes

FORMAT = "optfair training 2"
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(X: Any, parts: dict[str, Any]) -> str:
    """Return a hash of the data and of all settings: a checkpoint belongs to one run, in whatever process.

    A data set, whose items may be drawn anew each time, is known by its length, labels and groups.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(parts.items()):
        digest.update(f"{name}: {_text(value)}\n".encode())
    for block in _content(X):
        digest.update(block)
    return digest.hexdigest()


def _text(value: Any) -> str:
    """Return a setting as text: of a function its code and what it closes over, of an array its numbers.

    No addresses, paths or orders of sets, which another process would not repeat.
    """
    if isinstance(value, CodeType):
        return _text([value.co_code, value.co_names, value.co_consts])
    if isinstance(value, FunctionType):
        closure = [cell.cell_contents for cell in value.__closure__ or ()]
        return _text([value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, closure])
    if isinstance(value, functools.partial):
        return _text([value.func, value.args, value.keywords])
    if isinstance(value, dict):
        return _text(sorted((_text(k), _text(v)) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return _text(sorted(map(_text, value)))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.shape} {value.dtype} {hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, list | tuple | np.ndarray):
        return f"[{', '.join(map(_text, value))}]"
    return ADDRESS.sub("", repr(value))


def _content(X: Any) -> Iterator[bytes]:
    if is_dataset(X):
        yield f"data set of {len(X)}".encode()
    elif sparse.issparse(X):
        rows = sparse.csr_array(X)
        yield from (np.ascontiguousarray(part).tobytes() for part in (rows.data, rows.indices, rows.indptr))
    elif isinstance(X, pd.DataFrame | pd.Series):
        yield repr(list(getattr(X, "columns", ()))).encode()
        yield from row_bytes(X)
    else:
        values = np.asarray(X)
        yield repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).tobytes()


class Checkpoint:
    """One run in a file. `load` returns what was played, `add` appends a round."""

    def __init__(self, path: Any, mark: str) -> None:
        self.path, self.mark = Path(path), mark

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            name = self.path if not self.path.parent.is_dir() or self.path.is_dir() else self.path.name
            raise ModelFileError(f"{name}: not a checkpoint ({error}).") from None

    def begin(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what the run starts from: ``arrays`` for a new file, else those it started from."""
        with self._open() as db:
            db.execute("CREATE TABLE IF NOT EXISTS run (format, mark, start, plain, state)")
            db.execute("CREATE TABLE IF NOT EXISTS rounds (round_index INTEGER PRIMARY KEY, numbers, model)")
            line = db.execute("SELECT format, mark, start FROM run").fetchone()
            if line is None and not arrays:
                return {}
            if line is None:
                db.execute(
                    "INSERT INTO run VALUES (?, ?, ?, ?, ?)", (FORMAT, self.mark, arrays_to_bytes(arrays), b"", b"")
                )
                return arrays
        if line[0] != FORMAT:
            raise ModelFileError(
                f"{self.path.name}: was written by another version of optfair; remove it, or name another file."
            )
        if line[1] != self.mark:
            raise ModelFileError(
                f"{self.path.name}: belongs to a run with other data or settings (all but decision, mixture and output "
                "must be the same); remove it, or name another file."
            )
        with self._reading():
            first = arrays_from_bytes(line[2])
            WarmStart.from_arrays(first)
            return first

    def exists(self) -> bool:
        """Tell whether the file has any content."""
        return self.path.exists() and self.path.stat().st_size > 0

    def begin_rounds(self, plain: bytes, state: bytes) -> None:
        """Write that plain training is finished."""
        with self._open() as db:
            db.execute("UPDATE run SET plain = ?, state = ?", (plain, state))

    def add(self, round_index: int, trace: Trace, model: bytes, state: bytes) -> None:
        """Append a round."""
        numbers = {
            "lam": trace.multipliers[-1],
            "J": trace.confusions[-1],
            "step": trace.steps[-1:],
            "next": trace.next,
        }
        with self._open() as db:
            db.execute("INSERT INTO rounds VALUES (?, ?, ?)", (round_index, arrays_to_bytes(numbers), model))
            db.execute("UPDATE run SET state = ?", (state,))

    def load(self, game: Game, learner: Any, start: np.ndarray, shift: str) -> tuple[Trace, list[Any], Any]:
        """Return (trace, models of its rounds, the plain model or None); the learner is put where it was."""
        with self._open() as db:
            rows = db.execute("SELECT round_index, numbers, model FROM rounds ORDER BY round_index").fetchall()
            plain, state = db.execute("SELECT plain, state FROM run").fetchone()
        trace = Trace.empty(game, start)
        models: list[Any] = []
        if not plain:
            return trace, models, None
        with self._reading():
            if start.shape != (len(game.rows),):
                raise ValueError(f"starts with {start.size} multipliers for {len(game.rows)} rows")
            learner.prepare(state)
            models = [learner.unpack(plain)]
            lam = np.zeros(len(start))
            for k, (round_index, numbers, model) in enumerate(rows):
                n = arrays_from_bytes(numbers)
                if round_index != k or not np.array_equal(n["lam"], trace.next) or n["J"].shape != game.utility.shape:
                    raise ValueError(f"round {round_index} does not follow from those before")
                lam = trace.next
                trace = trace.grown(n["J"], float(n["step"][0]), n["next"])
                models.append(learner.unpack(model))
            learner.restore(models, soft_targets(game.weights(lam), game.share, shift))
        return trace, models[1:], models[0]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise ModelFileError(f"{self.path.name}: cannot be read ({error}); remove it to start again.") from error
