"""Find the files of the data sets in the user's $OPTFAIR_DATA, else in the cache, else download them into the cache.

The cache holds beside <name>: <name>.part, a download that is not complete; <name>.sha256, the digest of a file whose
source publishes no checksum.
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

from optfair.datasets.download import DownloadError, append_suffix, fcntl, fetch, locked
from optfair.datasets.schema import SourceFile
from optfair.errors import SHOWN, DataFileError, warn
from optfair.utils.files import write_atomically


def data_folder() -> Path | None:
    """Return the folder of the user's own data, $OPTFAIR_DATA; None where it is not set."""
    value = os.environ.get("OPTFAIR_DATA")
    if value and not Path(value).expanduser().is_dir():
        raise DataFileError(f"OPTFAIR_DATA={value!r}: must be an existing folder")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the folder for downloads, which may not exist yet: $XDG_CACHE_HOME/optfair, else the system's default."""
    default = {"darwin": "~/Library/Caches", "win32": os.environ.get("LOCALAPPDATA") or "~/AppData/Local"}
    xdg = os.environ.get("XDG_CACHE_HOME", "")  # its specification says to ignore a relative path
    try:
        return Path(xdg if os.path.isabs(xdg) else default.get(sys.platform, "~/.cache")).expanduser() / "optfair"
    except RuntimeError as error:
        raise DataFileError("no home folder for downloads: set XDG_CACHE_HOME or OPTFAIR_DATA") from error


def find(file: SourceFile) -> Path | None:
    """Return the path of a file in $OPTFAIR_DATA or else in the cache; None where it is in neither."""
    path = local(file.name)
    return path if path or not (cache_folder() / file.name).is_file() else cache_folder() / file.name


def find_unpacked(file: SourceFile) -> Path | None:
    """Return what was unpacked from an archive, a file or folder in $OPTFAIR_DATA or else in the cache; or None."""
    for root in (data_folder(), cache_folder()):
        if root is not None and file.unpacked and (root / file.unpacked).exists():
            return root / file.unpacked
    return None


def local(name: str) -> Path | None:
    """Return the path of the user's own file $OPTFAIR_DATA/name; None where it does not exist."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or re.search(r"^/|[\\:\0]", name):  # \ and : leave the folder on Windows
        raise ValueError(f"name={name!r}: must be a path below the data folder, such as 'enem/x.zip'")
    folder = data_folder()
    return folder / name if folder and (folder / name).is_file() else None


def obtain(file: SourceFile, *, download: bool = True, progress: bool = True) -> Path:
    """Return the path of a file whose checksum is right; download it into the cache where it is missing.

    A download that was interrupted, in this process or another, continues where it stopped. download : False never
    uses the network. progress : whether to show the progress if stderr is a terminal.
    """
    if file.checksum and not re.fullmatch("(md5|sha1|sha256|sha512):[0-9a-fA-F]{32,128}", file.checksum):
        raise ValueError(f"checksum={file.checksum!r}: must be 'md5:...' or 'sha256:...', in hexadecimal digits")
    path = find(file)
    if path is None and not download:
        raise _missing_file(file, "download=False")
    if path is None:
        return _download(file, progress and sys.stderr is not None and sys.stderr.isatty())
    if path == local(file.name):
        _check_published(file, path, f"Put the published file at {path}, or remove the one there.")
    else:
        _check_cached(file, path)
    return path


def obtain_all(files: Iterable[SourceFile], *, download: bool = True, progress: bool = True) -> list[Path]:
    """Return the paths of several files in their order, as `obtain` does; an error also names other missing files."""
    files, paths = list(files), []
    for file in files:
        try:
            paths.append(obtain(file, download=download, progress=progress))
        except DataFileError as error:
            missing = [other.name for other in files[len(paths) + 1 :] if find(other) is None]
            count = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
            text = f" Also missing: {', '.join(missing[:SHOWN])}{count}." if missing else ""
            raise DataFileError(f"{error}{text}") from error
    return paths


def _missing_file(file: SourceFile, reason: str, resume_hint: str = "") -> DataFileError:
    """Return the error that says which file to put where."""
    action = f"Download it from {file.url} and put it at" if file.url else "Put it at"
    text = (
        f"{file.name}: not found in $OPTFAIR_DATA ({data_folder() or 'not set'}) nor in {cache_folder()}, and "
        f"{reason}. {action} {cache_folder() / file.name}, or set OPTFAIR_DATA to a folder that holds {file.name}."
    )
    return DataFileError(" ".join(filter(None, [text, file.by_hand, resume_hint])))


def _digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hexadecimal digest of a file."""
    # Against accidents, not attacks: md5 must work on machines that forbid it for security.
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _check_published(file: SourceFile, path: Path, advice: str) -> None:
    """Raise if a file differs from the published checksum; accept it where no checksum is published."""
    algorithm, _, published = (file.checksum or "").lower().partition(":")
    if algorithm and (digest := _digest(path, algorithm)) != published:
        origin = f" (published by {file.checksum_origin})" if file.checksum_origin else ""
        raise DataFileError(f"{path}: its {algorithm} is {digest}, must be {published}{origin}. {advice}")


def _check_cached(file: SourceFile, path: Path) -> None:
    """Raise if a file of the cache differs from the published checksum or else from the recorded digest."""
    _check_published(file, path, f"Delete {path} to download it again.")
    if file.checksum:
        return
    digest, record = _digest(path), append_suffix(path, ".sha256")
    if not record.exists():  # the file was put there by hand
        with suppress(PermissionError):  # a read-only cache
            write_atomically(record, digest.encode())
    elif (recorded := record.read_text().strip()) != digest:
        raise DataFileError(
            f"{path}: its sha256 is {digest}, was {recorded} when it was recorded: the file has been altered. "
            f"Delete {path} to download it again, or {record} if you have replaced the file yourself."
        )


def _download(file: SourceFile, progress: bool) -> Path:
    """Download into <name>.part, check it and rename it: under the final name there is a complete file or none."""
    if file.url is None:
        raise _missing_file(file, "it cannot be downloaded automatically")
    if urlsplit(file.url).scheme not in ("http", "https"):
        raise ValueError(f"url={file.url!r}: must begin with http:// or https://")
    target = cache_folder() / file.name
    part = append_suffix(target, ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(part, f"{file.name}: another process is downloading it; waiting" if progress else "") as handle:
            if not target.is_file():
                fetch(file, handle, part, progress)
                _finish(file, handle, part, target)
                return target
            handle.truncate(0)  # the process that held the lock has completed the file; an empty .part is removed
    except DownloadError as error:
        raise _missing_file(file, error.reason, error.resume_hint) from error.__cause__
    except DataFileError:
        raise
    except OSError as error:  # of the disk: an error of the network is a `DownloadError`
        raise DataFileError(f"{part}: cannot be written ({error.strerror or error}).") from error
    _check_cached(file, target)
    return target


def _finish(file: SourceFile, handle: BinaryIO, part: Path, target: Path) -> None:
    """Check a complete .part and rename it to its final name."""
    os.fsync(handle.fileno())
    try:
        advice = f"It was downloaded from {file.url} and has been deleted. {file.by_hand}".rstrip()
        _check_published(file, part, advice)
    except DataFileError:
        handle.truncate(0)
        raise
    previous = digest = ""
    if not file.checksum:
        digest, record = _digest(part), append_suffix(target, ".sha256")
        previous = record.read_text().strip() if record.exists() else digest
        write_atomically(record, digest.encode())  # before the renaming, so that no file is without its record
    if fcntl is None:
        handle.close()  # Windows does not rename an open file; elsewhere closing would release the lock too early
    os.replace(part, target)
    append_suffix(part, ".json").unlink(missing_ok=True)
    if previous != digest:
        warn(f"{target}: its sha256 is {digest}, was {previous} at the previous download: {file.url} has changed.")
