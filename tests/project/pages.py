"""Run the blocks of a page in one session, and compare what they print with the output that the page shows.

A block ``text`` right behind a block ``python`` or ``sh`` is its output; ``...`` stands for anything.
``python tests/project/pages.py PAGE ...`` runs pages and writes the outputs they show anew.
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<code>.*?)^```$", flags=re.DOTALL | re.MULTILINE)
RUN, OUTPUT = ("python", "sh"), "text"
ALIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS = 300


class Block(NamedTuple):
    """Code of a page that runs. shown : its output on the page, or None. span : of that output in the text."""

    language: str
    code: str
    shown: str | None
    span: tuple[int, int]


def read_blocks(text):
    """Return the blocks of a page that run, in order."""
    fences = [*FENCE.finditer(text), None]
    blocks = []
    for fence, follower in pairwise(fences):
        if fence["language"] in RUN:
            is_output = follower and follower["language"] == OUTPUT and not text[fence.end() : follower.start()].strip()
            shown, span = (follower["code"], follower.span("code")) if is_output else (None, (0, 0))
            blocks.append(Block(fence["language"], fence["code"], shown, span))
    return blocks


def run_block(block, name, session, folder):
    """Return what a block prints."""
    if block.language == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(block.code, name, "exec"), session)
        return printed.getvalue()
    return run_shell(block.code, folder)


def run_shell(script, folder):
    """Return what a block of shell prints; an audit may say no."""
    script = re.sub(r"^(optfair (?:audit|monitor) .*)$", r"\1 || test $? -eq 1", script, flags=re.MULTILINE)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    command = ["bash", "-e", "-c", script]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 0, f"{script}\n{process.stdout}\n{process.stderr}"
    return process.stdout


def run_page(path, folder):
    """Run a page in a folder; return pairs of a block and what it printed."""
    session = {"__name__": "page"}
    blocks = read_blocks(path.read_text("utf-8"))
    return [(block, run_block(block, f"{path.name}, block {k}", session, folder)) for k, block in enumerate(blocks)]


def is_shown(shown, printed):
    """Tell whether the output that a page shows is what was printed."""
    return doctest.OutputChecker().check_output(shown, printed, ALIKE)


def write_outputs(path, folder):
    """Write what the blocks of a page print into the outputs that it shows."""
    text = path.read_text("utf-8")
    for block, printed in reversed(run_page(path, folder)):
        if block.shown is not None and not is_shown(block.shown, printed):
            start, end = block.span
            lines = "\n".join(line.rstrip() for line in printed.strip("\n").split("\n"))
            text = f"{text[:start]}{lines}\n{text[end:]}"
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    warnings.simplefilter("ignore")
    for argument in sys.argv[1:]:
        page = Path(argument).resolve()
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            sys.path.insert(0, place)
            write_outputs(page, place)
        print(f"{page.name}: done")
