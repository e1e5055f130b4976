"""Make requests that are wrong in many ways, and send each as it is: what comes back must be an answer, or nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.service.client import HOST, post_bytes, read_response, request_bytes

CLOSED = "closed"  # the connection ended without an answer
SECONDS = 20.0
LIMIT = 1_000_000  # bytes of a body, by default
DEEP = 100_000
DIGITS = "9" * 5_000


@dataclass(frozen=True)
class WrongRequest:
    """The bytes of a request, in the pieces they are sent in. statuses : that may come back; none: any but a 5xx."""

    name: str
    pieces: tuple[bytes, ...]
    statuses: tuple[int | str, ...] = ()

    def allows(self, status: int | str) -> bool:
        """Tell whether this is how the request may end."""
        return status in self.statuses if self.statuses else status == CLOSED or int(status) < 500


def wrong_requests(body: dict[str, Any], n_fuzzed: int, seed: int = 0) -> list[WrongRequest]:
    """Return all kinds of wrong requests, made from a right one, and so many that chance has spoiled."""
    return [*wrong_json(body), *wrong_values(body), *wrong_http(body), *fuzzed(body, n_fuzzed, seed)]


def wrong_json(body: dict[str, Any]) -> Iterator[WrongRequest]:
    """Yield bodies that are no JSON, or that readers do not agree on."""
    text = json.dumps(body)
    texts: dict[str, bytes] = {
        "empty": b"",
        "blank": b" \n ",
        "cut": text[: len(text) // 2].encode(),
        "one brace": b"{",
        "a word": b"hello",
        "single quotes": text.replace('"', "'").encode(),
        "a comma too many": text.replace("}", ",}").encode(),
        "two documents": (text * 2).encode(),
        "a comment": b"// people\n" + text.encode(),
        "a key twice": b'{"features": {}, "features": {}}',
        "a feature twice": b'{"features": {"age": 1, "age": 2}}',
        "not UTF-8": b'{"features": {"age": "\xff\xfe"}}',
        "UTF-16": text.encode("utf-16"),
        "a mark before": b"\xef\xbb\xbf" + text.encode(),
        "Latin-1": '{"features": {"workclass": "é"}}'.encode("latin-1"),
        "deep lists": b"[" * DEEP,
        "deep lists, closed": b"[" * DEEP + b"]" * DEEP,
        "deep objects": b'{"a":' * DEEP,
        "many digits": b'{"features": {"age": %b}}' % DIGITS.encode(),
        "a control character": b'{"features": {"age": "\x01"}}',
        "NUL": b"\x00",
        "undefined": b'{"features": {"age": undefined}}',
        "hexadecimal": b'{"features": {"age": 0x10}}',
        "a leading zero": b'{"features": {"age": 01}}',
        "a plus": b'{"features": {"age": +1}}',
        "half an escape": b'{"features": {"workclass": "\\ud8"}}',
    }
    for name, content in texts.items():
        yield WrongRequest(f"JSON: {name}", (post_bytes("/predict", content),), (400,))


def wrong_values(body: dict[str, Any]) -> Iterator[WrongRequest]:
    """Yield JSON that says nothing about people, or what no model can read."""
    features = body["features"]
    documents: dict[str, Any] = {
        "null": None,
        "true": True,
        "a number": 7,
        "a text": "age",
        "a list": [1, 2, 3],
        "nobody": {"people": []},
        "no list": {"people": features},
        "people null": {"people": None},
        "people of null": {"people": [None]},
        "people of lists": {"people": [[1], [2]]},
        "one of two": {"people": [body, 3]},
        "too many": {"people": [{"age": 1}] * 1_001},
        "beside the people": {"people": [body], "mode": "fast"},
        "beside the features": {**body, "weight": 1},
        "no features": {"features": {}},
        "features null": {"features": None},
        "features in features": {"features": {"features": features}},
        "strangers only": {"features": {"x": 1, "y": 2}},
        "misspelt": {"features": {"agee": 1, **{name: v for name, v in features.items() if name != "age"}}},
        "a key among features": {**features, "key": "id"},
        "many strangers": {"features": {**features, **{f"{'x' * 30}{k}": k for k in range(5_000)}}},
    }
    values: dict[str, Any] = {
        "text": "abc",
        "numeric text": "12",
        "empty text": "",
        "list": [1],
        "object": {"a": 1},
        "infinite": float("inf"),
        "minus infinite": float("-inf"),
        "too many digits": 2**53 + 1,
        "beyond double": 10**400,
        "surrogate": "\ud800",
        "long text": "x" * 10_000,
    }
    documents |= {f"age: {name}": {**body, "features": {**features, "age": value}} for name, value in values.items()}
    texts = {"list": ["a"], "object": {}, "infinite": float("inf"), "surrogate": "a\udfff", "pair": "\udc00\ud800"}
    for name, value in texts.items():
        documents[f"workclass: {name}"] = {**body, "features": {**features, "workclass": value}}
    keys: dict[str, Any] = {
        "null": None,
        "object": {},
        "empty": [],
        "nested": [["a"]],
        "empty text": "",
        "infinite": float("inf"),
    }
    documents |= {f"key: {name}": {**body, "key": value} for name, value in keys.items()}
    documents["key: surrogate"] = {**body, "key": "\ud800"}
    documents |= {"group: list": {**body, "group": [["a"]]}, "group: attribute": {**body, "group": {"height": 1}}}
    for name, document in documents.items():
        yield WrongRequest(f"values: {name}", (post_bytes("/predict", json.dumps(document).encode()),), (422,))
        if name in ("null", "nobody", "age: text", "key: null"):
            yield WrongRequest(f"explain: {name}", (post_bytes("/explain", json.dumps(document).encode()),), (422,))
    many = json.dumps({"people": [body] * 101}).encode()
    yield WrongRequest("explain: too many", (post_bytes("/explain", many),), (422,))


def wrong_http(body: dict[str, Any]) -> Iterator[WrongRequest]:
    """Yield what is wrong before anybody looks at the body."""
    content = json.dumps(body).encode()
    good = post_bytes("/predict", content)

    def headed(**headers: str) -> bytes:
        return post_bytes("/predict", content, {name.replace("_", "-"): value for name, value in headers.items()})

    yield WrongRequest("path: unknown", (post_bytes("/nothing", content),), (404,))
    yield WrongRequest("path: up", (post_bytes("/../predict", content),), (404,))
    yield WrongRequest("path: encoded", (request_bytes("GET", "/%2e%2e/%00"),), (404,))
    yield WrongRequest("path: long", (request_bytes("GET", "/" + "a" * 100_000),), (400, 404))
    yield WrongRequest("path: not ASCII", (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",), (400, 404))
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"):
        yield WrongRequest(f"method: {method}", (request_bytes(method, "/predict"),), (405,))
    yield WrongRequest("method: POST /health", (post_bytes("/health", content),), (405,))
    yield WrongRequest("method: CONNECT", (request_bytes("CONNECT", "host:443"),), (400, 404, 405))
    for media_type in (
        "text/plain",
        "application/xml",
        "multipart/form-data; boundary=x",
        "",
        "application/json; charset=utf-16",
    ):
        yield WrongRequest(f"type: {media_type or 'none'}", (headed(Content_Type=media_type),), (415,))
    yield WrongRequest("type: gzip", (headed(Content_Encoding="gzip"),), (415,))
    yield WrongRequest("length: too large", (post_bytes("/predict", b" " * (LIMIT + 1)),), (413,))
    yield WrongRequest(
        "length: said to be huge", (headed(Content_Length="99999999999", Expect="100-continue")[:300],), (413,)
    )
    yield WrongRequest("length: too long", (headed(Content_Length=str(len(content) + 10)),), (CLOSED,))
    yield WrongRequest("length: too short", (headed(Content_Length=str(len(content) - 10)),), (400,))
    yield WrongRequest("length: negative", (headed(Content_Length="-1"),), (400,))
    yield WrongRequest("length: a word", (headed(Content_Length="many"),), (400,))
    yield WrongRequest("length: twice", (headed(content_length="3"),), (400,))
    chunked = {"Transfer_Encoding": "chunked"}
    yield WrongRequest("chunks and a length", (headed(**chunked),), (400,))
    head = request_bytes(
        "POST", "/predict", {"Host": HOST, "Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    )
    chunk = b"%x\r\n%b\r\n" % (len(content), content)
    yield WrongRequest("chunks: no number", (head + b"zz\r\n" + content,), (400, CLOSED))
    yield WrongRequest("chunks: cut", (head + chunk[: len(chunk) // 2],), (CLOSED,))
    endless = (head, *[b"%x\r\n%b\r\n" % (LIMIT // 4, b" " * (LIMIT // 4))] * 8, b"0\r\n\r\n")
    yield WrongRequest("chunks: too large", endless, (413,))
    heads = {
        "no request line": b"\r\n\r\n\r\n",
        "one word": b"POST\r\n\r\n",
        "no version": b"GET /health\r\n\r\n",
        "version 0.9": b"GET /health HTTP/0.9\r\n\r\n",
        "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "no Host": b"GET /health HTTP/1.1\r\n\r\n",
        "two Hosts": b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "a header without colon": b"GET /health HTTP/1.1\r\nHost: a\r\nwrong\r\n\r\n",
        "a header with NUL": b"GET /health HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
        "a large header": b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        "many headers": b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        "TLS": bytes.fromhex("16030100a5010000a10303") + b"\x00" * 100,
        "zeros": b"\x00" * 1_000,
    }
    for name, bad in heads.items():
        yield WrongRequest(f"head: {name}", (bad,))
    yield WrongRequest("head: cut", (good[:40],), (CLOSED,))
    yield WrongRequest(
        "head: WebSocket",
        (request_bytes("GET", "/health", {"Host": HOST, "Connection": "Upgrade", "Upgrade": "websocket"}),),
        (200,),
    )
    yield WrongRequest("nothing", (b"",), (CLOSED,))


def fuzzed(body: dict[str, Any], n: int, seed: int) -> Iterator[WrongRequest]:
    """Yield right requests whose bytes chance has changed, removed, repeated or exchanged; some may still be right."""
    rng = np.random.default_rng(seed)
    content = json.dumps(body).encode()
    for k in range(n):
        if k % 2:
            yield WrongRequest(f"fuzz: body {k}", (post_bytes("/predict", spoiled(content, rng)),))
        else:
            yield WrongRequest(f"fuzz: bytes {k}", (spoiled(post_bytes("/predict", content), rng),))


def spoiled(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with a few mistakes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        start, length = int(rng.integers(len(data))), int(rng.integers(1, 20))
        kind = rng.integers(4)
        if kind == 0:
            data[start] = int(rng.integers(256))
        elif kind == 1:
            del data[start : start + length]
        elif kind == 2:
            data[start:start] = data[start : start + length]
        else:
            data[start:start] = rng.bytes(length)
        data = data or bytearray(b"x")
    return bytes(data)


# -- sending -------------------------------------------------------------------------------------------------
def send_all(port: int, requests: Sequence[WrongRequest]) -> list[int | str]:
    """Return the status that each request gets, or CLOSED; each has a connection of its own."""
    return asyncio.run(_send_all(port, requests))


async def _send_all(port: int, requests: Sequence[WrongRequest]) -> list[int | str]:
    return [await send(port, request) for request in requests]


async def send(port: int, request: WrongRequest) -> int | str:
    """Send one request, say that nothing more comes, and return what came back."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        async with asyncio.timeout(SECONDS):
            for piece in request.pieces:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            return (await read_response(reader)).status
    except (asyncio.IncompleteReadError, ConnectionError):
        return CLOSED
    finally:
        writer.close()
