"""Where the files of the data sets are: the user's $OPTFAIR_DATA, else our cache, else downloaded into the cache.

In the cache, beside <name>: <name>.part is a download under way, <name>.sha256 the digest it came with, where none is
published.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urlsplit

from optfair.datasets.dataset import SourceFile
from optfair.datasets.download import Failed, beside, fcntl, fetch, locked
from optfair.errors import SHOWN, DataFileError, warn
from optfair.files import write_atomically


def data_folder() -> Path | None:
    """The folder of the user's own data, $OPTFAIR_DATA; None where it is not set."""
    value = os.environ.get("OPTFAIR_DATA")
    if value and not Path(value).expanduser().is_dir():
        raise DataFileError(f"OPTFAIR_DATA={value!r}: must be an existing folder")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """The folder downloads go to: $XDG_CACHE_HOME/optfair, else the system's own place; it may not exist yet."""
    below = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA") or "~/AppData/Local"}
    xdg = os.environ.get("XDG_CACHE_HOME", "")  # its specification says to ignore a relative one
    try:
        return Path(xdg if os.path.isabs(xdg) else below.get(sys.platform, "~/.cache")).expanduser() / "optfair"
    except RuntimeError as error:
        raise DataFileError("no home folder to keep downloads in: set XDG_CACHE_HOME or OPTFAIR_DATA") from error


def find(file: SourceFile) -> Path | None:
    """The path of a file that is there, in $OPTFAIR_DATA or else in the cache; None where it is not."""
    own = local(file.name)
    return own if own or not (cache_folder() / file.name).is_file() else cache_folder() / file.name


def local(name: str) -> Path | None:
    """The path of a file of the user's own, $OPTFAIR_DATA/name; None where it is not there."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or re.search(r"^/|[\\:\0]", name):  # \ and : leave the folder on Windows
        raise ValueError(f"name={name!r}: must be a path below the data folder, such as 'enem/x.zip'")
    folder = data_folder()
    return folder / name if folder and (folder / name).is_file() else None


def obtain(file: SourceFile, *, download: bool = True, progress: bool = True) -> Path:
    """The path of a file whose checksum is right: found, else downloaded into the cache.

    A download that was cut off, in this process or another, goes on where it stopped. download : False to do without
    the network. progress : show it, where stderr is a terminal.
    """
    if file.checksum and not re.fullmatch("(md5|sha1|sha256|sha512):[0-9a-fA-F]{32,128}", file.checksum):
        raise ValueError(f"checksum={file.checksum!r}: must be 'md5:...' or 'sha256:...', in hexadecimal digits")
    path = find(file)
    if path is None and not download:
        raise _missing(file, "download=False")
    if path is None:
        return _download(file, progress and sys.stderr is not None and sys.stderr.isatty())
    if path == local(file.name):
        _check(file, path, f"Put the published file at {path}, or remove it there.")
    else:
        _check_cached(file, path)
    return path


def obtain_all(files: Iterable[SourceFile], *, download: bool = True, progress: bool = True) -> list[Path]:
    """The paths of several files, as by `obtain`, in their order; an error also names the others that are missing."""
    files, paths = list(files), []
    for file in files:
        try:
            paths.append(obtain(file, download=download, progress=progress))
        except DataFileError as error:
            others = [other.name for other in files[len(paths) + 1 :] if find(other) is None]
            more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
            also = f" Also missing: {', '.join(others[:SHOWN])}{more}." if others else ""
            raise DataFileError(f"{error}{also}") from error
    return paths


def _missing(file: SourceFile, why: str, kept: str = "") -> DataFileError:
    """The error that says which file to put where."""
    get = f"Download it from {file.url} and put it at" if file.url else "Put it at"
    text = (
        f"{file.name}: not found in $OPTFAIR_DATA ({data_folder() or 'not set'}) nor in {cache_folder()}, and {why}. "
        f"{get} {cache_folder() / file.name}, or set OPTFAIR_DATA to a folder that holds {file.name}."
    )
    return DataFileError(" ".join(filter(None, [text, file.by_hand, kept])))


def _digest(path: Path, algorithm: str = "sha256") -> str:
    with open(path, "rb") as handle:  # against accidents, not attacks: md5 must work on machines that forbid it
        return hashlib.file_digest(handle, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _check(file: SourceFile, path: Path, advice: str) -> None:
    """Raise where a file is not the one whose checksum is published."""
    algorithm, _, digest = (file.checksum or "").lower().partition(":")
    if algorithm and (found := _digest(path, algorithm)) != digest:
        origin = f" (published by {file.checksum_origin})" if file.checksum_origin else ""
        raise DataFileError(f"{path}: its {algorithm} is {found}, must be {digest}{origin}. {advice}")


def _check_cached(file: SourceFile, path: Path) -> None:
    """Raise where a file of the cache is not what is published, or else not what it was when it came."""
    _check(file, path, f"Delete {path} to download it again.")
    if file.checksum:
        return
    found, record = _digest(path), beside(path, ".sha256")
    if not record.exists():  # the file was put there by hand
        with suppress(PermissionError):  # a cache for reading only
            write_atomically(record, found.encode())
    elif (recorded := record.read_text().strip()) != found:
        raise DataFileError(
            f"{path}: its sha256 is {found}, was {recorded} when it came: the file has been altered. "
            f"Delete {path} to download it again, or {record} if you have put another file there yourself."
        )


def _download(file: SourceFile, shown: bool) -> Path:
    """Download into <name>.part, check it, and give it its name: under that name there is a whole file or none."""
    if file.url is None:
        raise _missing(file, "it cannot be downloaded without a person")
    if urlsplit(file.url).scheme not in ("http", "https"):
        raise ValueError(f"url={file.url!r}: must begin with http:// or https://")
    target = cache_folder() / file.name
    part = beside(target, ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(part, f"{file.name}: another process downloads it; waiting" if shown else "") as handle:
            if not target.is_file():
                fetch(file, handle, part, shown)
                _finish(file, handle, part, target)
                return target
            handle.truncate(0)  # the one we waited for has brought the file; an empty .part is removed
    except Failed as error:
        raise _missing(file, str(error), error.kept) from error.__cause__
    except DataFileError:
        raise
    except OSError as error:  # of the disk: those of the network are `Failed`
        raise DataFileError(f"{part}: cannot be written ({error.strerror or error}).") from error
    _check_cached(file, target)
    return target


def _finish(file: SourceFile, handle: BinaryIO, part: Path, target: Path) -> None:
    """Check a complete .part and give it its name."""
    os.fsync(handle.fileno())
    try:
        _check(file, part, f"It came from {file.url} and has been deleted. {file.by_hand}".rstrip())
    except DataFileError:
        handle.truncate(0)
        raise
    before = found = ""
    if not file.checksum:
        found, record = _digest(part), beside(target, ".sha256")
        before = record.read_text().strip() if record.exists() else found
        write_atomically(record, found.encode())  # before the file has its name, which it never has without record
    if fcntl is None:
        handle.close()  # Windows does not rename what is open; elsewhere closing would unlock it too early
    os.replace(part, target)
    beside(part, ".json").unlink(missing_ok=True)
    if before != found:
        warn(f"{target}: its sha256 is {found}, was {before} when it came before: {file.url} has changed.")
