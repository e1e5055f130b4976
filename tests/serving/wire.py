"""Requests as bytes, and what comes back for them: for what no library of a client would send."""

import re
import socket

from tests.serving.helpers import HOST, JSON

SECONDS = 20


def request(path, body=None, **headers):
    """Return the bytes of a request; one with a body is a POST of JSON, unless the headers say otherwise."""
    fields = {"Host": HOST}
    if body is not None:
        fields |= JSON | {"Content-Length": len(body)}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}\r\n" for name, value in fields.items() if value is not None]
    return f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + (body or b"")


def read_all(connection):
    """Return what comes until the other side ends the connection."""
    content = b""
    while piece := connection.recv(65_536):
        content += piece
    return content


def statuses(content):
    """Return the statuses of all responses, in order."""
    return [int(number) for number in re.findall(rb"HTTP/1\.1 (\d+) ", content)]


def connect(service):
    """Return a connection to a service; close it."""
    return socket.create_connection((HOST, service.port), timeout=SECONDS)


def exchange(service, *pieces, ends=True):
    """Return all that comes back for bytes. ends : whether the sender says that no more comes."""
    with connect(service) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


def read_response(connection):
    """Return the (status, headers by lower-case name, body) of one response; the connection stays."""
    with connection.makefile("rb", buffering=0) as file:
        status = int(file.readline().split()[1])
        lines = iter(lambda: file.readline().strip(), b"")
        headers = {
            name.lower().decode(): value.strip().decode() for name, _, value in (x.partition(b":") for x in lines)
        }
        body = b""
        while len(body) < int(headers.get("content-length", 0)):
            body += file.read(int(headers["content-length"]) - len(body))
    return status, headers, body


def is_cut(connection):
    """Tell whether a connection ends without an answer."""
    try:
        return read_all(connection) == b""
    except ConnectionResetError:
        return True
