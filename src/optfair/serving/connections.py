"""Bound what a connection may take, on uvicorn's protocol for h11: its number, and how long a request may last."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from optfair.serving.app import CONNECTION
from optfair.serving.documents import document_bytes
from optfair.serving.refusals import BAD_JSON, BUSY
from optfair.serving.settings import MAX_CONNECTIONS, REQUEST_SECONDS, RETRY_SECONDS

FULL = "too many connections; try again in a second."
RETRY_HEADER = (b"retry-after", b"%d" % RETRY_SECONDS)


class Connection(H11Protocol):
    """A connection whose requests can reach it through their state, and that knows since when it is busy."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app_state = {**self.app_state, CONNECTION: self}
        self._busy_since: float | None = None
        self._last_event = 0.0
        self._has_ended = False  # the other side sends no more, and may still read
        self.is_lost = False  # nothing that is written reaches the other side
        self.is_new = True  # nothing has come on it

    def connection_made(self, transport: Any) -> None:
        """Take a connection, or turn it away where there are too many."""
        super().connection_made(transport)
        self._busy_since = self._last_event = self.loop.time()  # until its first request has been answered
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(BUSY, FULL, [RETRY_HEADER])
            self.config.app.counters.count_refused()  # type: ignore[union-attr]

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request under way that nobody waits for its answer."""
        self.is_lost = True
        super().connection_lost(exc)

    def cut(self) -> None:
        """End the connection at once."""
        self.is_lost = True
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        self._last_event = self.loop.time()
        self.is_new = False
        super().data_received(data)
        self._note_state()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay until the requests that came whole are answered: whoever sends no more may still read."""
        self._has_ended = True
        return self.has_whole_request()

    def on_response_complete(self) -> None:
        """Go on after an answer: with bytes of another request that have come, or waiting for some."""
        self._last_event = self.loop.time()
        self._busy_since = None
        super().on_response_complete()
        self._note_state()
        if self._has_ended and not self.has_whole_request():
            self.transport.close()

    def _note_state(self) -> None:
        if self.is_idle():
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = self.loop.time()

    # -- state -------------------------------------------------------------------------------------------------
    def is_answering(self) -> bool:
        """Tell whether a request has begun that is not answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def has_whole_request(self) -> bool:
        """Tell whether a request has come whole that is not answered."""
        return self.is_answering() and not self.cycle.more_body

    def waits_to_send(self) -> bool:
        """Tell whether the client asked if it may send a body, and was not told so (Expect: 100-continue)."""
        return self.conn.they_are_waiting_for_100_continue

    def has_further_bytes(self) -> bool:
        """Tell whether bytes have come that belong to no request yet."""
        content, _ = self.conn.trailing_data
        return bool(content)

    def is_idle(self) -> bool:
        """Tell whether there is nothing to answer, and nothing of a request has come."""
        return not self.is_answering() and not self.has_further_bytes() and self.conn.their_state is not h11.SEND_BODY

    def is_quiet(self, seconds: float) -> bool:
        """Tell whether it is idle, and nothing has happened on it for so long."""
        return self.is_idle() and self.loop.time() - self._last_event > seconds

    def end_overdue(self) -> None:
        """Cut the connection if its first request, or one that has begun, takes too long."""
        if self._busy_since is not None and self.loop.time() - self._busy_since > REQUEST_SECONDS:
            self.cut()

    def probe(self) -> None:
        """Write an interim response where the other side sends no more, and waits: if it has gone, a write fails."""
        is_waiting = self._has_ended and self.has_whole_request() and self.conn.our_state is h11.SEND_RESPONSE
        if is_waiting and self.cycle.scope["http_version"] == "1.1":
            event = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self.transport.write(self.conn.send(event) or b"")

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP as everything else, with an error as JSON; or not, if an answer has gone before."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        self._refuse(BAD_JSON, msg)

    def _refuse(self, status: int, text: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Answer with an error before there is a request, and end the connection."""
        content = document_bytes({"error": text})
        standard = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        for event in (
            h11.Response(
                status_code=status,
                headers=[*standard, *headers, (b"connection", b"close")],
                reason=HTTPStatus(status).phrase.encode(),
            ),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
