"""Where a service listens, and how it ends: without losing a request that was accepted."""

import json
import re
import signal
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair.serving import server
from optfair.serving.server import CUT_OFF, DONE, INTERRUPTED, accepted_connections, address, bind
from optfair.serving.settings import QUIET_SECONDS, ServiceSettings
from tests.serving.helpers import HOST, Running, serving, wait_for
from tests.serving.moody import ENTERED, FINE, GATE, SECONDS, ask_while_held, held, moody
from tests.serving.wire import connect, exchange, is_cut, read_all, read_response, request, statuses

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


@pytest.mark.parametrize("content", [ASK, ASK[:-1], b""], ids=["whole", "most of it", "nothing yet"])
def test_whoever_waits_to_be_accepted_when_no_more_are_is_answered(quick_drain, monkeypatch, content):
    """The system would reset the connection when the socket is closed."""
    late = []
    with serving(moody(), grace=SECONDS) as service:
        wait = service.server._wait

        async def wait_and_connect(end, *conditions):
            await wait(end, *conditions)
            if not late:  # the drain is over, and the loop accepts nobody any more
                late.append(connect(service))
                late[0].sendall(content)

        monkeypatch.setattr(service.server, "_wait", wait_and_connect)
        stop(service)
        wait_for(lambda: late)
        with late[0] as connection:
            connection.sendall(ASK[len(content) :])
            status, headers, _ = read_response(connection)
            assert (status, headers["connection"], read_all(connection)) == (200, "close", b"")
        service.wait()
    assert (service.service.app.n_answered, service.server.n_cut) == (1, 0)


def test_a_client_that_pauses_before_its_first_request_is_answered(quick_drain):
    """Collecting its garbage takes a large client longer than a quarter of a second."""
    with serving(moody(), grace=SECONDS) as service:
        with connect(service) as connection, connect(service) as idle:
            idle.sendall(ASK)
            assert read_response(idle)[0] == 200
            stop(service)
            assert read_all(idle) == b""  # it has been used, and nothing is under way on it
            time.sleep(2 * QUIET_SECONDS)
            connection.sendall(ASK)
            status, headers, _ = read_response(connection)
            assert (status, headers["connection"]) == (200, "close")
        service.wait()
    assert service.server.n_cut == 0


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
