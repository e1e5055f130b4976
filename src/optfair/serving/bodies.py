"""Read the body of a request: whole, in time, of a bounded size, and of the one type that is understood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request

from optfair.serving.refusals import BAD_JSON, TOO_LARGE, TOO_SLOW, WRONG_TYPE, Refusal, busy
from optfair.serving.settings import BODY_SECONDS, DISCARD_SECONDS, DISCARDED_BODIES

MEDIA_TYPE = "application/json"


def check_framing(request: Request) -> None:
    """Refuse a request that says in two ways where it ends: two servers in a row may disagree on it."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        raise Refusal(BAD_JSON, "Content-Length: must not come with Transfer-Encoding.", ends=True)


class BodyReader:
    """Reads bodies of at most so many bytes, and of so many times that all together."""

    def __init__(self, max_bytes: int, max_held: int) -> None:
        self.max_bytes, self.max_held = max_bytes, max_held
        self._n_held = 0

    async def read(self, request: Request) -> bytes:
        """Return a body; `release` is to be called when nobody needs it any more. A Refusal holds nothing."""
        self._check_headers(request)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                stream = request.stream()
                async for chunk in stream:
                    if len(body) + len(chunk) > self.max_bytes:
                        await self._discard(stream, len(body) + len(chunk))
                        raise self._too_large()
                    if self._n_held + len(chunk) > self.max_held * self.max_bytes:
                        raise busy("too many bodies are on their way; try again in a second.", ends=True)
                    body += chunk
                    self._n_held += len(chunk)
        except BaseException as error:
            self.release(body)
            if isinstance(error, TimeoutError):
                raise Refusal(TOO_SLOW, f"body: did not arrive within {BODY_SECONDS:g} seconds.", ends=True) from None
            raise
        return bytes(body)

    def release(self, body: bytes | bytearray) -> None:
        """Count a body as gone."""
        self._n_held -= len(body)

    def _too_large(self) -> Refusal:
        text = f"body: is larger than {self.max_bytes:,} bytes; send fewer people at a time (or raise --max-bytes)."
        return Refusal(TOO_LARGE, text, ends=True)

    def _check_headers(self, request: Request) -> None:
        headers = request.headers
        media_type, _, parameter = headers.get("content-type", "").partition(";")
        charset = parameter.strip().lower().removeprefix("charset=").strip('"')
        if media_type.strip().lower() != MEDIA_TYPE or charset not in ("", "utf-8"):
            raise Refusal(WRONG_TYPE, f"Content-Type: must be {MEDIA_TYPE}.")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refusal(WRONG_TYPE, "Content-Encoding: must not be given; send the JSON as it is.")
        expects = headers.get("expect", "").lower() == "100-continue"
        length = headers.get("content-length", "0")
        if expects and length.isdecimal() and int(length) > self.max_bytes:
            raise self._too_large()  # before anything is sent

    async def _discard(self, stream: AsyncIterator[bytes], n_read: int) -> None:
        """Read on for a while: a sender whose connection is cut while it is sending never reads why."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                async for chunk in stream:
                    n_read += len(chunk)
                    if n_read > DISCARDED_BODIES * self.max_bytes:
                        return
        except TimeoutError:
            return
