"""Write files that are whole or absent: beside the target, then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ORDINARY = 0o666  # of which the umask takes its part


@contextmanager
def replacing(path: Path, mode: int = ORDINARY) -> Iterator[Path]:
    """Yield a path to write to; it replaces ``path`` when the block succeeds, and is removed when it fails."""
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))  # never readable by more than `mode`
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def write_atomically(path: Path, content: bytes, mode: int = ORDINARY) -> None:
    """Write a whole file: a reader sees the old one or the new one."""
    with replacing(path, mode) as temporary:
        temporary.write_bytes(content)


@contextmanager
def exclusive(file: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends. wait : for its holder; else BlockingIOError."""
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, ORDINARY), "r+b") as handle:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
