"""What the tests of engines share: parts to map over, rows in files, clusters that can be killed, code of a page."""

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from optfair.storage.parts import BatchPart
from tests.problems import blind

ROOT = Path(__file__).parents[2]
NAMES = [f"z_{group}_{name}" for group in "ABC" for name in ("no", "mid", "yes")]
N = 200_000


def numbered(n):
    """Parts of one row each, for functions that look at their numbers only."""
    return [BatchPart(None, 1, k, f"part {k}") for k in range(n)]


def write_rows(folder, n=N, files=4, seed=0):
    """Write rows of three groups and three classes, with weights, as Parquet files of several row groups."""
    import pyarrow
    import pyarrow.parquet

    Z = blind(seed, n, 3, 3).reshape(n, 9)
    columns = dict(zip(NAMES, Z.T, strict=True)) | {"w": np.random.default_rng(seed).random(n)}
    table = pyarrow.table(columns)
    step = n // files
    folder.mkdir(exist_ok=True)
    for k in range(files):
        pyarrow.parquet.write_table(table.slice(k * step, step), folder / f"{k}.parquet", row_group_size=step // 4)
    return folder


def assert_same(rule, other):
    """Check that two rules are the same bit by bit, and so are their certificates."""
    np.testing.assert_array_equal(rule.weights, other.weights)
    np.testing.assert_array_equal(rule.multipliers["multiplier"], other.multipliers["multiplier"])
    assert asdict(replace(rule.certificate, seconds=0)) == asdict(replace(other.certificate, seconds=0))
    assert rule.determinism == other.determinism


def once(path):
    """Tell whether nobody has asked before, in any process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def within(seconds, condition):
    """Tell whether something comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def sent_bytes():
    """Return what the sockets of this process have sent so far and the other ends have received (Linux)."""
    import psutil

    total = 0
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_ESTABLISHED:
            with socket.socket(fileno=os.dup(connection.fd)) as copy:
                state = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            total += struct.unpack_from("Q", state, 120)[0]  # tcpi_bytes_acked
    return total


class BareCluster:
    """A scheduler and workers of Dask that nobody restarts: each a process of its own."""

    def __init__(self, folder, n_workers):
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--no-dashboard", "--no-jupyter")
        assert within(30, self._is_ready), "the scheduler did not start"
        self.address = json.loads(self.file.read_text())["address"]
        self.workers = []
        self.add(n_workers)

    def _is_ready(self):
        with contextlib.suppress(OSError, ValueError):
            return "address" in json.loads(self.file.read_text())
        return False

    def _start(self, module, *options):
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(self.file), *options]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def add(self, n):
        """Start workers."""
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard")
        self.workers += [self._start("dask_worker", *options) for _ in range(n)]

    def kill(self, processes):
        """Kill processes and wait for their end."""
        for process in processes:
            process.kill()
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill([*self.workers, self.scheduler])


def adapter(name):
    """Return a class that docs/guide/large_data.md shows."""
    text = (ROOT / "docs" / "guide" / "large_data.md").read_text(encoding="utf-8")
    (block,) = [code for code in re.findall(r"```py\n(.*?)```", text, flags=re.DOTALL) if f"class {name}" in code]
    session: dict = {"__name__": "docs.large_data"}  # no module: what it defines is sent along
    exec(compile(block, f"docs/guide/large_data.md, {name}", "exec"), session)
    return session[name]
