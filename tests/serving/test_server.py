"""Connections from the first byte to the last: addresses, stops, pipelines, half-closed ones, too many, too slow."""

import json
import re
import signal
import socket
import threading
import time

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair.serving import connections, server
from optfair.serving.server import CUT_OFF, DONE, INTERRUPTED, accepted_connections, address, bind
from optfair.serving.settings import ServiceSettings
from tests.serving.helpers import HOST, Running, serving, wait_for
from tests.serving.moody import ENTERED, FINE, GATE, SECONDS, ask_while_held, held, moody
from tests.serving.wire import connect, exchange, read_all, read_response, request, statuses

BODY = json.dumps(FINE).encode()
ASK = request("/predict", BODY)
HEALTH = request("/health")


@pytest.fixture(scope="module")
def running():
    with serving(moody()) as service:
        yield service


@pytest.fixture
def quick_drain(monkeypatch):
    """Accept new connections for a moment only, after the signal."""
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0.02)


def stop(service):
    """Do what a signal does."""
    service.server.handle_exit(signal.SIGTERM, None)


def is_cut(connection):
    """Tell whether a connection ends without an answer."""
    try:
        return read_all(connection) == b""
    except ConnectionResetError:
        return True


def answers(content):
    """Return the classes in the bytes of several responses."""
    return [int(text) for text in re.findall(r'"answer":(\d)', content.decode())]


# -- addresses -------------------------------------------------------------------------------------------------
def test_a_port_that_is_in_use():
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError) as error:
            bind(HOST, port)
    assert str(error.value) == f"--host {HOST} --port {port}: cannot be used: Address already in use."


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("203.0.113.1", "Cannot assign requested address"),  # of documents: no machine has it
        ("no-such-host.invalid", "[A-Z].*"),  # in the words of the resolver
        ("a" * 70, ".*label.*too long.*"),
        ("a..b", ".*label.*"),
    ],
)
def test_a_host_that_is_none(host, reason):
    with pytest.raises(OSError) as error:
        bind(host, 8000)
    assert re.fullmatch(f"--host {re.escape(host)} --port 8000: cannot be used: {reason}\\.", str(error.value))
    assert error.value.filename is None  # the command prints the text


def test_an_address_is_held_before_anybody_can_connect():
    with bind("localhost", 0) as sock:
        assert address(sock) == f"http://{HOST}:{sock.getsockname()[1]}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(sock.getsockname())


def test_the_address_of_ipv6_is_in_brackets():
    try:
        sock = bind("::1", 0)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with sock:
        assert address(sock) == f"http://[::1]:{sock.getsockname()[1]}"


def test_two_services_that_start_at_the_same_time_at_one_port(running):
    """Both have the address while they load; the second to listen is told as the first that is late would be."""
    with bind(HOST, 0) as first, bind(HOST, first.getsockname()[1]) as second:
        first.listen()
        with pytest.raises(OSError) as error:
            server.run_service(moody(), second, running.server.settings)
        port = first.getsockname()[1]
    assert str(error.value) == f"--host {HOST} --port {port}: cannot be used: Address already in use."


# -- the end ---------------------------------------------------------------------------------------------------
def test_requests_under_way_are_answered(quick_drain):
    with serving(moody(), grace=SECONDS) as service:
        idle, fresh, slow = (connect(service) for _ in range(3))
        with idle, fresh, slow:
            idle.sendall(HEALTH)
            assert "connection" not in read_response(idle)[1]
            slow.sendall(ASK[:-5])
            with held():
                waiting = ask_while_held(service, [FINE] * 3)
                stop(service)
                assert read_all(fresh) == read_all(idle) == b""  # nothing was under way there
                with pytest.raises(ConnectionRefusedError):
                    connect(service)
                slow.sendall(ASK[-5:])
            for connection in (*waiting, slow):
                status, headers, _ = read_response(connection)
                assert (status, headers["connection"], read_all(connection)) == (200, "close", b"")
                connection.close()
        service.wait()
    assert (service.service.app.n_answered, service.server.n_cut) == (5, 0)


def test_for_a_moment_after_the_signal_new_connections_are_answered(monkeypatch):
    monkeypatch.setattr(server, "DRAIN_SECONDS", 3600.0)
    with serving(moody(), grace=4.0) as service, connect(service) as kept:
        kept.sendall(HEALTH)
        read_response(kept)
        stop(service)
        for content in (exchange(service, ASK), exchange(service, HEALTH, ends=False)):
            assert b"\r\nconnection: close\r\n" in content
        kept.sendall(ASK)
        status, headers, _ = read_response(kept)
        assert (status, headers["connection"]) == (200, "close")


def test_no_stop_takes_longer_than_the_grace(quick_drain):
    with serving(moody(), grace=0.3) as service, held():
        (connection,) = ask_while_held(service, [FINE])
        with connection:
            stop(service)
            assert is_cut(connection)
        service.wait()
    assert (service.server.n_cut, service.service.app.n_answered) == (1, 0)
    service.service.worker._thread.join(SECONDS)  # nobody waits for its answer any more


def test_a_second_signal_is_the_end_at_once():
    with serving(moody(), grace=3600.0) as service, held():
        (connection,) = ask_while_held(service, [FINE])
        with connection:
            stop(service)
            stop(service)
            assert is_cut(connection)
        service.wait()
    assert service.server.force_exit


@pytest.mark.parametrize(
    ("n_signals", "is_held", "code"), [(1, False, DONE), (1, True, CUT_OFF), (2, True, INTERRUPTED)]
)
def test_exit_codes(monkeypatch, quick_drain, n_signals, is_held, code):
    servers, codes = [], []

    class KnownServer(server.Server):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            servers.append(self)

    monkeypatch.setattr(server, "Server", KnownServer)
    settings = ServiceSettings(grace=0.3 if n_signals == 1 else 3600.0, is_quiet=True)
    with bind(HOST, 0) as sock:
        thread = threading.Thread(target=lambda: codes.append(server.run_service(moody(), sock, settings)))
        thread.start()
        wait_for(lambda: servers and servers[0].started)
        service = Running(servers[0], sock.getsockname()[1])
        with held(), connect(service) as connection:
            connection.sendall(ASK)
            assert ENTERED.wait(SECONDS)
            if not is_held:
                GATE.set()
                assert read_response(connection)[0] == 200
            for _ in range(n_signals):
                stop(service)
            thread.join(SECONDS)
            assert codes == [code]


def test_connections_that_wait_to_be_accepted_are_not_lost():
    with bind(HOST, 0) as sock:
        sock.listen()
        sock.setblocking(False)
        clients = [socket.create_connection(sock.getsockname()) for _ in range(3)]
        accepted = list(accepted_connections(sock))
        assert [part.getpeername() for part in accepted] == [client.getsockname() for client in clients]
        assert not any(part.getblocking() for part in accepted) and not list(accepted_connections(sock))
        for part in (*clients, *accepted):
            part.close()


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


def test_requests_that_came_together_are_all_answered_at_the_end(quick_drain):
    with serving(moody(), grace=SECONDS) as service, connect(service) as connection:
        with held():
            connection.sendall(ASK * 3)
            assert ENTERED.wait(SECONDS)
            stop(service)
            wait_for(lambda: not service.server.servers[0].is_serving())
        content = read_all(connection)
    assert statuses(content) == [200] * 3
    assert content.count(b"\r\nconnection: close\r\n") == 1  # the last of them
    assert content.rindex(b"connection: close") > content.rindex(b"HTTP/1.1")


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
