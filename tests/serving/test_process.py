"""A service as a process of its own, whose model fails and warns: what it writes, and how a signal ends it."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from tests.serving.helpers import Running, wait_for
from tests.serving.moody import CRASH, FINE, REFUSE, SECONDS, WARN
from tests.serving.wire import connect, exchange, read_all, read_response, request, statuses

ROOT = Path(__file__).parents[2]
SCRIPT = """
from optfair.serving import ServiceSettings, bind, run_service
from tests.serving.moody import moody
raise SystemExit(run_service(moody(), bind("127.0.0.1", 0), ServiceSettings()))
"""
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ optfair serve: .*")
ASK = request("/predict", b"[0.5, 1, 2]")


@contextmanager
def process(tmp_path):
    """Run a service that writes to a file; yield (process, how to ask it, how to read what it wrote)."""
    log = tmp_path / "log"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    with log.open("wb") as file:
        running = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=file, stderr=file, cwd=ROOT, env=environment)
    try:
        wait_for(lambda: " started at " in log.read_text() or running.poll() is not None, 3 * SECONDS)
        port = int(re.search(r"started at http://127.0.0.1:(\d+)", log.read_text())[1])
        yield running, Running(None, port), log.read_text
    finally:
        if running.poll() is None:
            running.kill()
        running.wait()


def test_no_line_is_of_others_and_none_holds_values(tmp_path):
    """uvicorn quotes requests, warnings of a model quote people, and nothing but the process shows who writes."""
    secret = "x1y2z3"
    with process(tmp_path) as (running, service, read_log):
        for person, status in ((FINE, 200), (WARN, 200), (REFUSE, 422), (CRASH, 500)):
            for path in ("/predict", "/explain"):
                assert service.ask(path, {"features": person, "key": secret})[0] == status
        assert statuses(exchange(service, f"GET /{secret} {secret}\r\n\r\n".encode())) == [400]
        assert statuses(exchange(service, request("/predict", secret.encode(), Content_Length=secret))) == [400]
        exchange(service, ASK[:-3])
        running.send_signal(signal.SIGTERM)
        assert running.wait(SECONDS) == 0
        lines = read_log().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert [line.split(": ")[1].split(" at ")[0] for line in lines[1:-2]] == ["internal error"] * 2
    text = "\n".join(lines)
    assert secret not in text and not any(f"{person[0]:.2f}" in text for person in (WARN, REFUSE, CRASH))


def test_whoever_connects_after_the_signal_is_answered(tmp_path):
    with process(tmp_path) as (running, service, read_log), connect(service) as kept:
        kept.sendall(ASK)
        assert read_response(kept)[0] == 200
        running.send_signal(signal.SIGTERM)
        time.sleep(0.1)  # a tenth of a second later the server looks whether to stop
        for content in (ASK, ASK * 2):
            with connect(service) as late:
                late.sendall(content)
                answers = read_all(late)
            assert set(statuses(answers)) == {200} and answers.count(b"\r\nconnection: close\r\n") == 1
        kept.sendall(request("/health"))
        status, headers, _ = read_response(kept)
        assert (status, headers["connection"]) == (503, "close")
        assert running.wait(SECONDS) == 0
        assert read_log().splitlines()[-1].endswith(" requests answered, 0 cut off")
