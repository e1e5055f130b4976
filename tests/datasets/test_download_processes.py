"""Downloads by several processes and threads, some of which are killed: a complete file or none."""

import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from optfair.datasets import store
from optfair.errors import DataFileError
from tests.datasets.file_server import CONTENT, NAME, is_complete

fcntl = pytest.importorskip("fcntl", reason="downloads of several processes are separated by fcntl")
termios = pytest.importorskip("termios", reason="terminals of POSIX")


def start_process(url, setup="", **options):
    """Start another process that obtains the file."""
    code = f"""
import sys
{setup}
from optfair.datasets import SourceFile, download, store
download.FIRST_WAIT = 0.001
print(store.obtain(SourceFile({NAME!r}, {url!r})))
"""
    return subprocess.Popen([sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, text=True, **options)


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def test_a_process_that_is_killed(remote, cache):
    """SIGKILL in the middle: no file under the final name, and the next process requests only the rest."""
    remote.pause, part = 0.02, cache / f"{NAME}.part"
    with start_process(remote.url) as child:
        wait_for(lambda: part.exists() and part.stat().st_size > 60_000)
        child.send_signal(signal.SIGKILL)
        child.wait()
    received = part.stat().st_size
    assert 60_000 < received < len(CONTENT) and not (cache / NAME).exists()
    assert part.read_bytes() == CONTENT[:received]
    wait_for(lambda: len(remote.requests) == 1)
    remote.pause = 0.0
    store.obtain(remote.file())
    assert is_complete(cache) and remote.requests[1]["Range"] == f"bytes={received}-"


def test_two_processes_at_once(remote, cache):
    """One downloads, the other waits for it; at any time there is a complete file or none."""
    remote.pause, remote.interruptions = 0.01, [100_000]
    with start_process(remote.url) as first, start_process(remote.url) as second:
        while first.poll() is None or second.poll() is None:
            assert not (cache / NAME).exists() or (cache / NAME).read_bytes() == CONTENT
            time.sleep(0.002)
        assert first.returncode == second.returncode == 0
        assert first.stdout.read() == second.stdout.read() == f"{cache / NAME}\n"
    assert is_complete(cache) and remote.bytes_sent == len(CONTENT)


def test_many_threads_at_once(remote, cache):
    remote.interruptions = [100_000, 0, 7]
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: store.obtain(remote.file()), range(16))) == {cache / NAME}
    assert is_complete(cache) and remote.bytes_sent == len(CONTENT)


def test_a_thread_that_waited_for_a_failure_tries_itself(remote, cache):
    """The .part is removed while other threads wait for its lock."""
    remote.statuses, remote.pause = [404], 0.001
    outcomes = []

    def call():
        try:
            outcomes.append(store.obtain(remote.file()))
        except DataFileError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes))[:3] == [str(cache / NAME)] * 3 and is_complete(cache)
    assert any("HTTP 404" in str(outcome) for outcome in outcomes)


def test_a_full_disk(remote, cache):
    """Files may not grow beyond 100,000 bytes in that process: its bytes are kept, and the next one continues."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    with start_process(remote.url, limit, stderr=subprocess.PIPE) as child:
        stderr = child.communicate()[1]
    assert stderr.splitlines()[-1].endswith(f"DataFileError: {cache / NAME}.part: cannot be written (File too large).")
    assert (cache / f"{NAME}.part").read_bytes() == CONTENT[:100_000] and not (cache / NAME).exists()
    store.obtain(remote.file())
    assert is_complete(cache) and remote.requests[-1]["Range"] == "bytes=100000-"


# -- progress ---------------------------------------------------------------------------------------------------
def output_on_a_terminal(url, setup="", when_waiting=lambda: None):
    """Return what a process writes to stderr when that is a terminal."""
    parent_end, child_end = os.openpty()
    fcntl.ioctl(child_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))  # the bar of tqdm needs some room
    output = b""
    with start_process(url, setup, stderr=child_end) as child:
        os.close(child_end)
        with suppress(OSError):  # when the last writer has closed it
            while block := os.read(parent_end, 4096):
                output += block
                if b"waiting" in output:
                    when_waiting()
        os.close(parent_end)
        assert child.wait() == 0, output
    return output.decode()


def test_the_progress_bar(remote, cache):
    pytest.importorskip("tqdm", reason="the bar is tqdm's")
    remote.pause = 0.01
    output = output_on_a_terminal(remote.url)
    assert f"{NAME}:" in output and re.search(r"\d+%\|.*/300k", output) and is_complete(cache)


def test_without_tqdm_and_waiting(remote, cache):
    """This process holds the lock until the other one has said that it waits."""
    part = cache / f"{NAME}.part"
    part.parent.mkdir(parents=True)
    with open(part, "wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        output = output_on_a_terminal(remote.url, "sys.modules['tqdm'] = None", handle.close)
    lines = [f"{NAME}: another process is downloading it; waiting", f"{NAME}: downloading 0.3 MB"]
    assert output.splitlines() == lines and is_complete(cache)
