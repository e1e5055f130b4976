"""Ask a service over raw sockets, and tell exactly what became of each request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HOST = "127.0.0.1"
SECONDS = 30.0  # that an answer may take


class RefusedError(ConnectionError):
    """A connection that was not accepted: nothing was sent."""


class UnansweredError(ConnectionError):
    """A connection that ended after a request was sent. n_bytes : of the answer that had come."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        super().__init__(f"the connection ended after {n_bytes} bytes of an answer")


@dataclass(frozen=True)
class Response:
    """What came back. headers : by lower-case name."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.body)

    @property
    def ends(self) -> bool:
        """Whether the service closes the connection."""
        return self.headers.get("connection", "") == "close"


class Client:
    """A connection that is kept as long as the service keeps it, and opened again when it is needed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, content: bytes) -> Response:
        """Send the bytes of a request, and return the response."""
        async with asyncio.timeout(SECONDS):
            reader, writer = await self._open()
            try:
                writer.write(content)
                await writer.drain()
                response = await read_response(reader)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                await self.close()
                raise UnansweredError(len(getattr(error, "partial", b""))) from None
        if response.ends:
            await self.close()
        return response

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            try:
                self._streams = await asyncio.open_connection(HOST, self.port)
            except OSError:
                raise RefusedError from None
        return self._streams

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def read_response(reader: asyncio.StreamReader) -> Response:
    """Return a response with a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    try:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError as error:
        raise asyncio.IncompleteReadError(head + error.partial, error.expected) from None
    return Response(int(first.split()[1]), headers, body)


def post_bytes(path: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a request with a body."""
    fields = {"Host": HOST, "Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
    return request_bytes("POST", path, fields) + body


def request_bytes(method: str, path: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the head of a request."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in (headers or {"Host": HOST}).items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def get(port: int, path: str) -> Response:
    """Return the response to GET, on a connection of its own."""

    async def ask() -> Response:
        client = Client(port)
        try:
            return await client.ask(request_bytes("GET", path))
        finally:
            await client.close()

    return asyncio.run(ask())


# -- many at once --------------------------------------------------------------------------------------------
@dataclass
class Tally:
    """What became of the requests of a load. seconds : of each answer. unanswered : sent, and no byte came back."""

    seconds: list[float] = field(default_factory=list)
    n_right: int = 0
    n_wrong: int = 0
    n_other: int = 0  # another status than 200
    n_refused: int = 0
    n_unanswered: int = 0
    n_broken: int = 0

    @property
    def n_sent(self) -> int:
        """Requests that were sent."""
        return self.n_right + self.n_wrong + self.n_other + self.n_unanswered + self.n_broken


@dataclass(frozen=True)
class Load:
    """Requests about one person each, and their right answers. keeps : whether connections are kept."""

    bodies: Sequence[dict[str, Any]]
    answers: Sequence[Any]
    keeps: bool = True

    def drive(self, port: int, at_once: int, after: Callable[[int], None] | None = None) -> Tally:
        """Send all requests, so many at once, until the service refuses. after : is told the number of answers."""
        return asyncio.run(self.drive_here(port, at_once, after))

    async def drive_here(self, port: int, at_once: int, after: Callable[[int], None] | None = None) -> Tally:
        """Do so in the event loop that runs."""
        tally, turns = Tally(), iter(range(len(self.bodies)))
        await asyncio.gather(*(self._ask_in_turn(port, turns, tally, after) for _ in range(at_once)))
        return tally

    async def _ask_in_turn(
        self, port: int, turns: Iterator[int], tally: Tally, after: Callable[[int], None] | None
    ) -> None:
        client = Client(port)
        for k in turns:
            content = post_bytes("/predict", json.dumps(self.bodies[k]).encode())
            start = time.perf_counter()
            try:
                response = await client.ask(content)
            except RefusedError:
                tally.n_refused += 1
                break
            except UnansweredError as error:
                tally.n_unanswered += error.n_bytes == 0
                tally.n_broken += error.n_bytes > 0
                continue
            tally.seconds.append(time.perf_counter() - start)
            self._check(response, self.answers[k], tally)
            if after is not None:
                after(len(tally.seconds))
            if not self.keeps:
                await client.close()
        await client.close()

    @staticmethod
    def _check(response: Response, answer: Any, tally: Tally) -> None:
        if response.status != 200:
            tally.n_other += 1
        elif [entry["answer"] for entry in response.content["answers"]] == [answer]:
            tally.n_right += 1
        else:
            tally.n_wrong += 1
