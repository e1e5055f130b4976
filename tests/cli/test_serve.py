"""``optfair serve`` as a process of its own: its answers, its end, its log, and what it refuses before it starts."""

import hashlib
import http.client
import json
import os
import re
import signal
import socket
import time

import pandas as pd
import pytest

from experiments.service.client import get
from experiments.service.process import ServiceProcess
from optfair.cli.model_tables import load_fair_model
from tests.cli.helpers import FEATURES, make_train


@pytest.fixture(autouse=True)
def packages():
    for name in ("skops", "starlette", "uvicorn", "prometheus_client"):
        pytest.importorskip(name, reason="models are saved by skops and served by starlette, uvicorn")


@pytest.fixture
def people(tmp_path):
    """Return people as a request has them, and write their table to ``people.csv``."""
    table = make_train(40, seed=1)[FEATURES]
    table.insert(0, "id", [f"secret-{k}" for k in range(len(table))])
    table.to_csv(tmp_path / "people.csv", index=False)
    records = table.astype(object).where(table.notna(), None).to_dict("records")
    return [{"key": record.pop("id"), "features": record} for record in records]


def ask(port, path, document):
    """Return (status, content) of a request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = json.loads(response.read())
    connection.close()
    return response.status, content


def test_a_service_answers_as_the_command_does(run, model, people, tmp_path):
    os.chmod(f"{model}.key", 0o600)
    assert run("predict", model, tmp_path / "people.csv", "--key", "id", "-o", tmp_path / "answers.csv")[0] == 0
    expected = pd.read_csv(tmp_path / "answers.csv")["prediction"].tolist()
    with ServiceProcess(model) as service:
        assert get(service.port, "/health").status == 200
        status, content = ask(service.port, "/predict", {"people": people})
        assert status == 200 and [entry["answer"] for entry in content["answers"]] == expected
        assert ask(service.port, "/predict", {"people": [{"features": {"x1": "abc", "code": "007"}}]})[0] == 422
        service.send(signal.SIGTERM)
        assert service.wait() == 0
        assert service.answered() == (3, 0)
        for secret in ("secret-", "abc", "007"):  # nothing that was asked is logged
            assert secret not in service.log
        assert "Traceback" not in service.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_service_that_is_asked_nothing_ends_well(model, number):
    with ServiceProcess(model) as service:
        service.send(number)
        assert service.wait() == 0
        assert service.answered() == (0, 0) and "Traceback" not in service.log


def test_the_key_may_come_from_the_environment(model, people, tmp_path, monkeypatch):
    key = (tmp_path / "model.skops.key").read_text().split()[-1]
    with ServiceProcess(model) as service:
        expected = ask(service.port, "/predict", {"people": people})[1]["answers"]
    (tmp_path / "model.skops.key").unlink()
    monkeypatch.setenv("OPTFAIR_KEY", key)
    with ServiceProcess(model) as service:
        assert ask(service.port, "/predict", {"people": people})[1]["answers"] == expected


def test_the_key_of_the_environment_comes_first(refuse, model, tmp_path, monkeypatch):
    """In a container a file may be there, and be another user's, or another model's."""
    key = (tmp_path / "model.skops.key").read_text().split()[-1]
    (tmp_path / "model.skops.key").write_text("not to be read")
    monkeypatch.setenv("OPTFAIR_KEY", key)
    assert load_fair_model(str(model), [])._key().hex() == key
    message = "OPTFAIR_KEY in the environment: key: not the 32-byte key that was written with this rule."
    for other in ("00" * 32, ""):
        monkeypatch.setenv("OPTFAIR_KEY", other)
        assert message in refuse("serve", model, "--port", "0")
    monkeypatch.delenv("OPTFAIR_KEY")
    assert "model.skops.key: not the 32-byte key that was written with this rule." in refuse("serve", model)


def test_which_model_answers(model, people):
    """Two files of the same criterion are told apart, so that going back can be seen."""
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    key = model.with_name("model.skops.key").read_text().split()[0]
    with ServiceProcess(model) as service:
        state = get(service.port, "/health").content
        assert (state["sha256"], state["key"]) == (digest, key)
        text = get(service.port, "/metrics").body.decode()
    assert re.search(rf'optfair_model_info{{key="{key}",optfair="[^"]+",sha256="{digest}"}} 1.0', text)


def test_a_longer_drain_lets_a_load_balancer_see_the_stop(model, people):
    with ServiceProcess(model, "--drain", "4") as service:
        start = time.monotonic()
        service.send(signal.SIGTERM)
        while time.monotonic() < start + 2.5:  # later than the usual second
            health = get(service.port, "/health")
            assert ask(service.port, "/predict", {"people": people})[0] == 200
            time.sleep(0.2)
        assert (health.status, health.content["status"]) == (503, "stopping")
        assert service.wait() == 0


REFUSALS = {
    "a port that is none": (["--port", "70000"], "--port 70000: must be from 0 (any that is free) to 65535."),
    "a port below": (["--port", "-1"], "--port -1: must be from 0 (any that is free) to 65535."),
    "bodies of nothing": (["--max-bytes", "10"], "--max-bytes 10: must be at least 1000."),
    "nobody": (["--max-people", "0"], "--max-people 0: must be at least 1."),
    "an end before the end": (["--grace", "-1"], "--grace -1: must be a number of seconds from 0."),
    "an end that never comes": (["--grace", "inf"], "--grace inf: must be a number of seconds from 0."),
    "no number": (["--grace", "nan"], "--grace nan: must be a number of seconds from 0."),
    "a drain before the signal": (["--drain", "-1"], "--drain -1: must be from 0 to below --grace 10."),
    "a drain that has no end": (["--drain", "10"], "--drain 10: must be from 0 to below --grace 10."),
    "a drain that is none": (["--drain", "nan"], "--drain nan: must be from 0 to below --grace 10."),
    "a host that is none": (["--host", "no.such.host.invalid"], "--host no.such.host.invalid --port 8000: cannot be "),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused(refuse, model, case):
    words, message = REFUSALS[case]
    assert message in refuse("serve", model, *words)


def test_a_port_that_is_taken(refuse, model):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"--host 127.0.0.1 --port {port}: cannot be used: Address already in use." in refuse(
            "serve", model, "--port", port
        )


def test_a_model_that_is_not_there(refuse, tmp_path):
    assert "nothing.skops" in refuse("serve", tmp_path / "nothing.skops", "--port", "0")


def test_a_model_without_its_key(refuse, model, tmp_path, monkeypatch):
    monkeypatch.delenv("OPTFAIR_KEY", raising=False)
    (tmp_path / "model.skops.key").unlink()
    assert "OPTFAIR_KEY" in refuse("serve", model, "--port", "0")


def test_a_file_that_is_no_model(refuse, tmp_path):
    (tmp_path / "text.skops").write_text("not a model")
    assert "text.skops" in refuse("serve", tmp_path / "text.skops", "--port", "0")
