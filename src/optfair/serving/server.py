"""Run a service until a signal ends it, without losing a request that was accepted.

    signal  /health says so, every answer ends its connection, new connections are still accepted
    drained what waits to be accepted is, and then nothing more
    then    requests under way are answered; connections on which nothing comes are closed
    grace   the end, whatever is left

A second signal is the end at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import uvicorn

from optfair.serving.connections import Connection
from optfair.serving.log import LOGGER, log_failure, logging_to_stderr
from optfair.serving.service import Service
from optfair.serving.settings import (
    DRAIN_SECONDS,
    DRAIN_SHARE,
    FIRST_SECONDS,
    KEEP_ALIVE_SECONDS,
    QUIET_SECONDS,
    ServiceSettings,
)

DONE, CUT_OFF, INTERRUPTED = 0, 1, 130
TICK_SECONDS = 0.01  # between two looks at what is left
SWEEP_TICKS = 20  # of uvicorn, a tenth of a second each, between two looks at connections that take too long
BACKLOG = 1024


class Server(uvicorn.Server):
    """A uvicorn server that stops in these steps. n_cut : requests that had come whole and were not answered."""

    def __init__(self, service: Service, settings: ServiceSettings) -> None:
        self.service, self.settings = service, settings
        self.n_cut = 0
        self._stop_time = 0.0
        options: dict[str, Any] = {"log_config": None, "access_log": False, "proxy_headers": False}
        options |= {"server_header": False, "date_header": False, "lifespan": "off", "ws": "none", "loop": "asyncio"}
        options |= {"timeout_keep_alive": KEEP_ALIVE_SECONDS, "backlog": BACKLOG}
        super().__init__(uvicorn.Config(service.app, http=Connection, **options))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say where."""
        asyncio.get_running_loop().set_exception_handler(_log_loop_failure)
        self.service.worker.start()
        try:
            await super().startup(sockets)
        except OSError as error:  # another service has begun to listen while the model was loaded
            self.service.worker.stop(TICK_SECONDS)
            host, port = (sockets or [])[0].getsockname()[:2]
            raise _unusable(host, port, error) from None
        LOGGER.info("started at %s: %s", ", ".join(map(address, sockets or ())), self.service.title)

    async def on_tick(self, counter: int) -> bool:
        """Look from time to time at connections that take too long, and at those whose client may have gone."""
        if counter % SWEEP_TICKS == 0:
            for connection in self._connections():
                connection.end_overdue()
                connection.probe()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; the second time, end. Nothing is logged inside of a signal."""
        if self.should_exit:
            self.force_exit = True
            return
        self._stop_time = time.monotonic()
        self.should_exit = self.service.app.is_stopping = True

    # -- the end -----------------------------------------------------------------------------------------------
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what was accepted, and close everything."""
        LOGGER.info("stopping: %d connections are open", len(self.server_state.connections))
        grace = self.settings.grace
        usual = min(DRAIN_SECONDS, DRAIN_SHARE * grace)
        await self._wait(self._stop_time + (usual if self.settings.drain is None else self.settings.drain))
        late = [connection for sock in sockets or () for connection in accepted_connections(sock)]
        for server in self.servers:
            server.close()
        for sock in late:
            await asyncio.get_running_loop().connect_accepted_socket(self._connection, sock)
        await self._wait(self._stop_time + grace, self._is_done)
        self.n_cut = sum(connection.has_whole_request() for connection in self._connections())
        for connection in self._connections():
            connection.cut()
        if not self.force_exit:
            self.service.worker.stop(max(self._stop_time + grace - time.monotonic(), TICK_SECONDS))
        LOGGER.info("stopped: %d requests answered, %d cut off", self.service.app.n_answered, self.n_cut)

    async def _wait(self, end: float, is_done: Any = lambda: False) -> None:
        while not self.force_exit and time.monotonic() < end and not is_done():
            await asyncio.sleep(TICK_SECONDS)

    def _is_done(self) -> bool:
        """Close the connections on which nothing is under way, and tell whether none is left."""
        for connection in self._connections():
            if connection.is_quiet(FIRST_SECONDS if connection.is_new else QUIET_SECONDS):
                connection.shutdown()
        return not self.server_state.connections

    def _connection(self) -> Connection:
        """Return the protocol of a new connection."""
        state, app_state = self.server_state, self.lifespan.state
        return Connection(config=self.config, server_state=state, app_state=app_state)

    def _connections(self) -> list[Connection]:
        return [connection for connection in self.server_state.connections if isinstance(connection, Connection)]


def accepted_connections(sock: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections that wait to be accepted: the system would reset them when the socket is closed."""
    with contextlib.suppress(BlockingIOError, ConnectionError, OSError):
        while True:
            connection, _ = sock.accept()
            connection.setblocking(False)
            yield connection


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that has the address, and does not listen yet; an OSError names what is wrong."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(place)
        except BaseException:
            sock.close()
            raise
    except (OSError, UnicodeError) as error:
        raise _unusable(host, port, error) from None
    return sock


def _unusable(host: str, port: int, error: Exception) -> OSError:
    """Return the error of an address that cannot be used."""
    return OSError(f"--host {host} --port {port}: cannot be used: {getattr(error, 'strerror', None) or error}.")


def address(sock: socket.socket) -> str:
    """Return where a socket is reached."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_service(model: Any, sock: socket.socket, settings: ServiceSettings) -> int:
    """Answer for a model at a socket until a signal comes; return the exit code."""
    with logging_to_stderr(settings.is_quiet):
        server = Server(Service(model, settings), settings)
        gc.collect()
        gc.freeze()  # the model stays: no collection need look at it again
        try:
            asyncio.run(server.serve([sock]))
        finally:
            gc.unfreeze()
    return INTERRUPTED if server.force_exit else CUT_OFF if server.n_cut else DONE


def _log_loop_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody else caught; its message may quote what came."""
    error = context.get("exception")
    if isinstance(error, BaseException) and not isinstance(error, ConnectionError):
        log_failure(error)
