"""Keep what is compared with: the source of a previous release, and other libraries in an environment of their own."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

from experiments.bench.cases import PEERS
from optfair.errors import DataFileError

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench"  # git ignores it
PREVIOUS = "9ad1b09"  # before the work on many groups
REQUIREMENTS = Path(__file__).with_name("peers.txt")
REASON_LENGTH = 200  # letters of why a peer is not installed


def commit_of(ref: str) -> str:
    """Return the commit that a name stands for, or raise `DataFileError`."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode != 0:
        raise DataFileError(f"--previous {ref}: is no commit of this repository; git log lists them.")
    return found.stdout.strip()


def previous_source(ref: str, cache: Path = CACHE) -> Path:
    """Return the folder ``src`` of a commit, unpacked into the cache unless it is there."""
    commit = commit_of(ref)
    folder = cache / commit[:12]
    if not folder.exists():
        content = subprocess.run(
            ["git", "archive", commit, "src", "pyproject.toml"], cwd=ROOT, capture_output=True, check=True
        )
        part = folder.with_suffix(".part")  # a folder that is there is whole
        with tarfile.open(fileobj=io.BytesIO(content.stdout)) as archive:
            archive.extractall(part, filter="data")
        part.rename(folder)
    return folder / "src"


def peer_python(cache: Path = CACHE) -> tuple[Path, dict[str, str]]:
    """Return the Python of the peers' environment, made if need be, and why a peer is not in it, by name."""
    folder = cache / "peers"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    reasons = {}
    for name in PEERS:
        mark = folder / f"{name}.installed"
        if mark.exists() and mark.read_text() == REQUIREMENTS.read_text():
            continue
        command = [str(python), "-m", "pip", "install", "--quiet", "-c", str(REQUIREMENTS), name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            mark.write_text(REQUIREMENTS.read_text())
        else:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
            reasons[name] = f"not installed: {lines[-1]}"[:REASON_LENGTH]
    return python, reasons


def peer_version(name: str) -> str:
    """Return the version of a peer that is asked for."""
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line.startswith(f"{name}==")]
    return lines[0].partition("==")[2]
