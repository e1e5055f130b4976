"""Run ``optfair serve`` as a process of its own, look at its memory, and end it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

START = re.compile(r"started at http://[^ ]*:(\d+): ")
END = re.compile(r"stopped: (\d+) requests answered, (\d+) cut off")
START_SECONDS, STEP = 60.0, 0.02
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class ServiceProcess:
    """A service on the loopback, at a port that was free. words : further options of the command."""

    def __init__(self, model: Path, *words: str) -> None:
        # A file, not a pipe: nobody need read it while the service writes.
        self._file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed with the process
        command = [sys.executable, "-m", "optfair", "serve", str(model), "--port", "0", *words]
        self.process = subprocess.Popen(command, stderr=self._file, stdout=self._file, env=os.environ | ONE_THREAD)
        self.port = self._wait_for_start()

    def __enter__(self) -> ServiceProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._file.close()

    @property
    def log(self) -> str:
        """What it has written."""
        return Path(self._file.name).read_text("utf-8", errors="replace")

    def _wait_for_start(self) -> int:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            match = START.search(self.log)
            if match:
                return int(match[1])
            time.sleep(STEP)
        text = self.log
        self.__exit__(None, None, None)
        raise RuntimeError(f"the service did not start: {text}")

    # -- while it runs -----------------------------------------------------------------------------------------
    def anonymous_bytes(self) -> int:
        """Return its anonymous memory (RssAnon)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

    def send(self, signal_number: int = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(signal_number)

    def wait(self, seconds: float = 30.0) -> int:
        """Return the exit code."""
        return self.process.wait(seconds)

    def answered(self) -> tuple[int, int]:
        """Return what it says at its end: requests answered, and cut off."""
        match = END.search(self.log)
        if match is None:
            raise RuntimeError(f"the service did not say how it ended: {self.log}")
        return int(match[1]), int(match[2])
