"""Answer HTTP: the paths of a service, on what Starlette makes of a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from optfair.serving.bodies import check_framing
from optfair.serving.counters import Counters
from optfair.serving.log import log_failure
from optfair.serving.refusals import FAILED, NOT_FOUND, WRONG_METHOD, Refusal, busy
from optfair.serving.replies import Reply, refusal_reply
from optfair.serving.settings import ANSWER_SECONDS

GONE = 0  # counted in place of a status where the client left
CONNECTION = "connection"  # the entry of the state of a request with its connection
Handler = Callable[[Request], Awaitable[Reply]]
# Nothing here is for other sites, and answers are about people.
SECURITY = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class Application:
    """An ASGI application. routes : path → (method, handler). bodies : reads those of POST. counters : of requests."""

    def __init__(self, routes: Mapping[str, tuple[str, Handler]], counters: Counters) -> None:
        self.routes, self.counters = routes, counters
        self.is_stopping = False
        self.n_answered = 0  # requests whose answer was written whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        start, status = time.perf_counter(), GONE
        try:
            reply = await self._reply(Request(scope, receive))
            status = reply.status
            await self._send(reply, scope, receive, send)
            if self._is_lost(scope):
                status = GONE  # while the reply was written
            else:
                self.n_answered += 1
        except ClientDisconnect:
            pass
        finally:
            self.counters.count_request(scope["path"], status, time.perf_counter() - start)

    async def _reply(self, request: Request) -> Reply:
        try:
            check_framing(request)
            return await self._route(request)(request)
        except Refusal as refusal:
            return refusal_reply(refusal)
        except ClientDisconnect:
            raise
        except Exception as error:
            log_failure(error)
            return refusal_reply(Refusal(FAILED, "internal error"))

    def _route(self, request: Request) -> Handler:
        path = request.scope["path"]
        if path not in self.routes:
            paths = ", ".join(f"{method} {name}" for name, (method, _) in self.routes.items())
            raise Refusal(NOT_FOUND, f"there is no such path; there are {paths}.")
        method, handler = self.routes[path]
        methods = ("GET", "HEAD") if method == "GET" else (method,)
        if request.method not in methods:
            raise Refusal(WRONG_METHOD, f"{path}: takes {method} only.", {"Allow": ", ".join(methods)})
        return handler

    async def _send(self, reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"date": formatdate(usegmt=True), **SECURITY, **reply.headers}
        response = Response(reply.content, reply.status, headers, reply.media_type)

        async def send_closing(message: Message) -> None:
            """Say at the last moment whether the connection ends: a signal may have come meanwhile."""
            if message["type"] == "http.response.start" and (reply.ends or self._ends(scope)):
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await response(scope, receive, send_closing)

    def _is_lost(self, scope: Scope) -> bool:
        """Tell whether the connection was lost, or cut, before the whole reply was handed to it."""
        connection = scope.get("state", {}).get(CONNECTION)
        return connection is not None and connection.is_lost

    def _ends(self, scope: Scope) -> bool:
        """Tell whether the service stops, and nothing else has come on this connection that waits for an answer.

        Or whether the client waits to be told to send a body: nobody knows what it sends next.
        """
        connection = scope.get("state", {}).get(CONNECTION)
        if connection is None:
            return self.is_stopping
        return connection.waits_to_send() or (self.is_stopping and not connection.has_further_bytes())


async def reply_in_time(future: asyncio.Future[Reply], request: Request) -> Reply:
    """Return the reply to come; where it comes too late, or the client leaves, nobody waits for it any more."""
    departure = asyncio.ensure_future(_wait_for_departure(request))
    try:
        await asyncio.wait((future, departure), timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        if departure.done():
            raise ClientDisconnect
        raise busy(f"the model did not come to it within {ANSWER_SECONDS:g} seconds; try again later.")
    finally:
        departure.cancel()
        future.cancel()


async def _wait_for_departure(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
