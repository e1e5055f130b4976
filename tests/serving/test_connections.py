"""Connections from the first byte to the last: several requests of one, half-closed ones, too many, too slow."""

import json
import re
import socket
import time

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair.serving import connections, server
from tests.serving.helpers import serving, wait_for
from tests.serving.moody import ENTERED, FINE, GATE, SECONDS, ask_while_held, held, moody
from tests.serving.wire import connect, exchange, is_cut, read_all, read_response, request, statuses

BODY = json.dumps(FINE).encode()
ASK = request("/predict", BODY)
HEALTH = request("/health")


@pytest.fixture(scope="module")
def running():
    with serving(moody()) as service:
        yield service


def answers(content):
    """Return the classes in the bytes of several responses."""
    return [int(text) for text in re.findall(r'"answer":(\d)', content.decode())]


# -- several requests of a connection --------------------------------------------------------------------------
def test_requests_that_come_together_are_answered_in_order(running):
    pool = np.random.default_rng(0).normal(size=(50, 3)).round(4)
    predicted = moody().predict(pool)
    first, other = pool[0].tolist(), pool[predicted != predicted[0]][0].tolist()  # whom it tells apart
    people = [first, other, first, other]
    expected = moody().predict(np.array(people)).tolist()
    assert expected[0] != expected[1]
    asked = [request("/predict", json.dumps(person).encode()) for person in people]
    content = exchange(running, HEALTH + b"".join(asked) + request("/nothing"))
    assert statuses(content) == [200, 200, 200, 200, 200, 404] and answers(content) == expected
    content = b"".join(asked[:2])
    for size in (1, 7, len(content)):  # however the bytes are cut
        got = exchange(running, *(content[k : k + size] for k in range(0, len(content), size)))
        assert answers(got) == expected[:2]


def test_what_is_no_http(running):
    for wrong in (b"hello\r\n\r\n", b"GET /health\r\n\r\n", b"\x16\x03\x01" * 9, HEALTH.replace(b"Host", b"H\x00")):
        content = exchange(running, wrong, ends=False)
        head, _, body = content.partition(b"\r\n\r\n")
        assert statuses(content) == [400] and b"\r\nconnection: close" in head.lower()
        assert json.loads(body) == {"error": "Invalid HTTP request received."}
    assert statuses(exchange(running, ASK + b"hello\r\n\r\n")) == [200, 400]


def test_what_is_no_http_after_an_answer_is_no_internal_error(running, caplog):
    """The head was answered already, and the rest of the body is wrong."""
    head = request("/nothing", b"", Content_Length=None, Transfer_Encoding="chunked")
    with connect(running) as connection:
        connection.sendall(head + b"3\r\nabc\r\n")
        assert read_response(connection)[0] == 404
        connection.sendall(b"zz\r\n" * 3)
        assert read_all(connection) == b""
    assert statuses(exchange(running, head + b"zz\r\n" * 3)) == [400]
    assert running.ask("/health")[0] == 200
    assert [record for record in caplog.records if record.name == "optfair.serving"] == []


# -- half-closed ones ------------------------------------------------------------------------------------------
def test_whoever_sends_no_more_still_gets_the_answer(running):
    for content in (ASK, ASK * 2):
        with connect(running) as connection, held():
            connection.sendall(content)
            assert ENTERED.wait(SECONDS)
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.05)
            GATE.set()
            got = read_all(connection)
            assert statuses(got) == [200] * (len(content) // len(ASK))


def test_whoever_sends_no_more_and_waits_is_asked_whether_they_are_there(monkeypatch):
    """By interim responses, which every client skips: to one that has gone a write fails, and its request goes."""
    monkeypatch.setattr(server, "SWEEP_TICKS", 1)
    with serving(moody()) as service:
        with held():
            first, gone, old = (*ask_while_held(service, [FINE] * 2, "/explain"), connect(service))
            old.sendall(ASK.replace(b"HTTP/1.1", b"HTTP/1.0"))
            for connection in (first, old):
                connection.shutdown(socket.SHUT_WR)
            gone.close()
            wait_for(lambda: service.metric('optfair_requests_total{path="/explain",status="0"}') == 1)
        content = read_all(first)
        assert statuses(content)[-2:] == [100, 200] and set(statuses(content)[:-1]) == {100}
        assert re.findall(rb"HTTP/1.1 (\d+)", read_all(old)) == [b"200"]  # knows no interim responses
        first.close()
        old.close()
        assert service.metric("optfair_batch_requests_sum") == 2


def test_half_a_request_gets_no_answer(running):
    for content in (b"", HEALTH[:20], ASK[:-1]):
        assert exchange(running, content) == b""
    assert statuses(exchange(running, HEALTH + ASK[:-1])) == [200]


# -- too many and too slow -------------------------------------------------------------------------------------
def test_connections_beyond_the_largest_number_are_turned_away(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    with serving(moody()) as service:
        with connect(service) as first, connect(service) as second:
            for connection in (first, second):
                connection.sendall(HEALTH)
                assert read_response(connection)[0] == 200
            for _ in range(3):
                with connect(service) as third:
                    status, headers, body = read_response(third)
                    assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
                    assert json.loads(body) == {"error": "too many connections; try again in a second."}
                    assert read_all(third) == b""
            first.sendall(ASK)
            assert read_response(first)[0] == 200
        wait_for(lambda: not service.server.server_state.connections)
        assert service.ask("/health")[0] == 200
        assert service.metric("optfair_refused_connections_total") == 3


@pytest.fixture
def impatient(monkeypatch):
    """Serve with a third of a second for each request."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(server, "SWEEP_TICKS", 1)
    with serving(moody()) as service:
        yield service


@pytest.mark.parametrize(
    "content", [b"", HEALTH[:20], ASK[:-1], HEALTH + ASK[:-1]], ids=["none", "head", "body", "2nd"]
)
def test_a_connection_whose_request_does_not_come_is_cut(impatient, content):
    start = time.monotonic()
    with connect(impatient) as connection:
        connection.sendall(content)
        if content.startswith(HEALTH + b"P"):
            assert read_response(connection)[0] == 200
        assert is_cut(connection)
    assert 0.2 < time.monotonic() - start < 5


def test_a_connection_whose_answer_takes_too_long_is_cut(impatient):
    with held():
        (connection,) = ask_while_held(impatient, [FINE])
        assert is_cut(connection)
        connection.close()
    assert impatient.ask("/predict", FINE)[0] == 200
    for status, count in (("0", 1), ("200", 1)):  # what was cut was not answered
        assert impatient.metric(f'optfair_requests_total{{path="/predict",status="{status}"}}') == count
    wait_for(lambda: impatient.service.app.n_answered == 3)  # that of above, and two of /metrics


def test_a_connection_that_is_kept_is_not_cut(impatient):
    with connect(impatient) as connection:
        for _ in range(2):
            connection.sendall(ASK)
            assert read_response(connection)[0] == 200
            time.sleep(0.6)
        connection.sendall(HEALTH)
        assert read_response(connection)[0] == 200
