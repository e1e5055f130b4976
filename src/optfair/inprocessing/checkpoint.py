"""Keep the rounds of a game in one SQLite file: each is added in a transaction, so that a killed run can go on.

Numbers are NumPy arrays without pickles; models are arrays or skops archives of types the estimator itself is made of.
Nothing in the file is executed. Each round is sealed by a hash of itself and of all before it, so that no part is taken
for that of another round; the hash has no secret, and is no proof of where a file comes from.
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

FORMAT = "optfair training 3"
TABLES = {
    "run": "CREATE TABLE run (format, mark, start, plain, state)",
    "rounds": "CREATE TABLE rounds (round_index INTEGER PRIMARY KEY, numbers, model)",
}
# Of SQLite: the file is what it should be, but the disk or its owner does not let us write, or another process does.
DISK_ERRORS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
SEALED = ("lam", "J", "step", "next", "state")  # numbers of a round that its seal is about
MOST_PARTS = 100  # of a schema; ours has two
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def seal(*parts: bytes) -> bytes:
    """Return a hash of parts in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


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
        self._start, self._seal = b"", b""  # what the run starts from, and the hash of all that was written

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            name = self.path if not self.path.parent.is_dir() or self.path.is_dir() else self.path.name
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in DISK_ERRORS:
                raise ModelFileError(
                    f"{name}: the checkpoint cannot be written ({error}); free the disk or the file, or name "
                    "another file."
                ) from None
            raise ModelFileError(f"{name}: not a checkpoint ({error}).") from None

    def begin(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what the run starts from: ``arrays`` for a new file, else those it started from."""
        with self._open() as db:
            for statement in TABLES.values():
                db.execute(statement.replace("TABLE", "TABLE IF NOT EXISTS"))
            self._check_tables(db)
            line = db.execute("SELECT format, mark, start FROM run").fetchone()
            if line is None and not arrays:
                return {}
            if line is None:
                self._start = arrays_to_bytes(arrays)
                db.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?)", (FORMAT, self.mark, self._start, b"", b""))
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
            self._start = line[2]
            first = arrays_from_bytes(self._start)
            WarmStart.from_arrays(first)
            return first

    def _check_tables(self, db: sqlite3.Connection) -> None:
        """Refuse a file whose tables are no plain ones: a view may be endless, a trigger may change what is added."""
        parts = db.execute("SELECT name, tbl_name, sql FROM sqlite_schema").fetchmany(MOST_PARTS)
        ours = {name: sql for name, table, sql in parts if name in TABLES or table in TABLES}
        strange = [name for name, sql in ours.items() if sql != TABLES.get(name)]
        if strange or len(parts) == MOST_PARTS:
            raise ModelFileError(
                f"{self.path.name}: not a checkpoint ({[*strange, 'its schema'][0]} is not one of ours)."
            )

    def exists(self) -> bool:
        """Tell whether the file has any content."""
        return self.path.exists() and self.path.stat().st_size > 0

    def begin_rounds(self, plain: bytes, state: bytes) -> None:
        """Write that plain training is finished."""
        self._seal = seal(self.mark.encode(), self._start, plain)
        with self._open() as db:
            db.execute("UPDATE run SET plain = ?, state = ?", (plain, state))

    def add(self, round_index: int, trace: Trace, model: bytes, state: bytes) -> None:
        """Append a round."""
        numbers = {
            "lam": trace.multipliers[-1],
            "J": trace.confusions[-1],
            "step": trace.steps[-1:],
            "next": trace.next,
            "state": np.frombuffer(seal(state), dtype=np.uint8),
        }
        following = seal(self._seal, *(numbers[name].tobytes() for name in SEALED), model)
        numbers["seal"] = np.frombuffer(following, dtype=np.uint8)
        with self._open() as db:
            db.execute("INSERT INTO rounds VALUES (?, ?, ?)", (round_index, arrays_to_bytes(numbers), model))
            db.execute("UPDATE run SET state = ?", (state,))
        self._seal = following

    def load(self, game: Game, learner: Any, start: np.ndarray, shift: str) -> tuple[Trace, list[Any], Any]:
        """Return (trace, models of its rounds, the plain model or None); the learner is put where it was."""
        with self._open() as db:
            rows = []
            for row in db.execute("SELECT round_index, numbers, model FROM rounds ORDER BY round_index"):
                rows.append(row)
                if row[0] != len(rows) - 1:  # also where pages of a damaged file lead in circles
                    break
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
            self._seal = seal(self.mark.encode(), self._start, plain)
            for k, (round_index, numbers, model) in enumerate(rows):
                n = arrays_from_bytes(numbers)
                if round_index != k or not np.array_equal(n["lam"], trace.next) or n["J"].shape != game.utility.shape:
                    raise ValueError(f"round {round_index} does not follow from those before")
                models.append(learner.unpack(model))  # refuses by itself what is not safe, whatever its seal
                self._seal = seal(self._seal, *(n[name].tobytes() for name in SEALED), model)
                if n["seal"].tobytes() != self._seal or (k == len(rows) - 1 and n["state"].tobytes() != seal(state)):
                    raise ValueError(f"round {round_index} has the model or the state of another one")
                lam = trace.next
                trace = trace.grown(n["J"], float(n["step"][0]), n["next"])
            learner.restore(models, soft_targets(game.weights(lam), game.share, shift))
        return trace, models[1:], models[0]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise ModelFileError(f"{self.path.name}: cannot be read ({error}); remove it to start again.") from error
