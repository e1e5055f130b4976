"""What a request may take: its size, type and time; how many wait; and what one that fails costs the others."""

import http.client
import json
import socket
import struct

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair.serving import app, bodies, worker
from optfair.serving.answering import ModelAnswers
from optfair.serving.settings import MAX_EXPLAINED
from tests.serving.helpers import HOST, JSON, serving, wait_for
from tests.serving.moody import CRASH, FINE, REFUSE, ask_while_held, held, moody
from tests.serving.wire import connect, exchange, read_all, read_response, request, statuses

LIMIT = 2_000
BODY = json.dumps(FINE).encode()
TOO_LARGE = "body: is larger than 2,000 bytes; send fewer people at a time (or raise --max-bytes)."


@pytest.fixture(scope="module")
def small():
    with serving(moody(), max_bytes=LIMIT) as service:
        yield service


def chunked(*pieces):
    """Return a request whose body comes in chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return request("/predict", b"", Content_Length=None, Transfer_Encoding="chunked") + body


def error_of(content):
    """Return the (status, error) of the one response in these bytes, after which the connection has ended."""
    head, _, body = content.partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    return statuses(head)[0], json.loads(body)["error"]


# -- the body --------------------------------------------------------------------------------------------------
def test_a_body_of_the_largest_size_is_read_and_one_byte_more_is_not(small):
    assert small.ask("/predict", BODY.ljust(LIMIT))[0] == 200
    status, headers, body = small.fetch("/predict", BODY.ljust(LIMIT + 1))
    assert (status, json.loads(body), headers["connection"]) == (413, {"error": TOO_LARGE}, "close")
    assert statuses(exchange(small, chunked(BODY, b" " * (LIMIT - len(BODY))))) == [200]
    assert error_of(exchange(small, chunked(BODY, b" " * (LIMIT - len(BODY)), b" "))) == (413, TOO_LARGE)


def test_a_sender_of_far_too_much_can_read_why(small):
    """Some of what is too much is read and thrown away: else the connection is reset while the sender sends."""
    status, _, body = small.fetch("/predict", b" " * (bodies.DISCARDED_BODIES * LIMIT))
    assert (status, json.loads(body)) == (413, {"error": TOO_LARGE})


def test_whoever_asks_before_sending_is_told_at_once(small):
    with connect(small) as connection:
        connection.sendall(request("/predict", b"", Content_Length=len(BODY), Expect="100-continue"))
        assert read_response(connection)[0] == 100
        connection.sendall(BODY)
        assert read_response(connection)[0] == 200
        connection.sendall(request("/predict", b"", Content_Length=LIMIT + 1, Expect="100-continue"))
        assert error_of(read_all(connection)) == (413, TOO_LARGE)


@pytest.mark.parametrize("status", [404, 405, 415])
def test_whoever_is_refused_before_sending_need_not_send(small, status):
    """The body that was announced does not come: what is sent next would be taken for it."""
    path = {404: "/nothing", 405: "/health"}.get(status, "/predict")
    media_type = "text/plain" if status == 415 else JSON["Content-Type"]
    asking = request(path, b"", Content_Length=len(BODY), Content_Type=media_type, Expect="100-continue")
    assert error_of(exchange(small, asking, ends=False))[0] == status


@pytest.mark.parametrize(
    "media_type", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_types_that_are_json(small, media_type):
    assert small.ask("/predict", FINE, {"Content-Type": media_type, "Content-Encoding": "identity"})[0] == 200


@pytest.mark.parametrize(
    "media_type",
    [None, "", "text/plain", "text/json", "application/xml", "application/json; charset=latin-1", "application/jsonx"],
)
def test_types_that_are_not(small, media_type):
    headers = {} if media_type is None else {"Content-Type": media_type}
    assert small.ask("/predict", FINE, headers) == (415, {"error": "Content-Type: must be application/json."})


def test_packed_bodies(small):
    error = {"error": "Content-Encoding: must not be given; send the JSON as it is."}
    assert small.ask("/predict", FINE, JSON | {"Content-Encoding": "gzip"}) == (415, error)


@pytest.mark.parametrize("path", ["/predict", "/explain", "/health", "/nothing"])
def test_two_ways_to_say_where_a_request_ends(small, path):
    hidden = request("/health")
    for body in (b"0\r\n\r\n" + hidden, b"5\r\n" + BODY[:5] + b"\r\n0\r\n\r\n" + hidden):
        content = exchange(small, request(path, body, Transfer_Encoding="chunked"))
        assert error_of(content) == (400, "Content-Length: must not come with Transfer-Encoding.")


def test_a_refused_request_does_not_end_the_connection(small):
    connection = http.client.HTTPConnection(HOST, small.port, timeout=20)
    for path, body, headers, expected in (
        ("/predict", BODY, {"Content-Type": "text/plain"}, 415),
        ("/predict", b"{", JSON, 400),
        ("/nothing", BODY, JSON, 404),
        ("/predict", BODY, JSON, 200),
    ):
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        response.read()
        assert response.status == expected and response.headers["connection"] is None
    connection.close()


def test_a_slow_body(small, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.1)
    content = exchange(small, request("/predict", BODY)[:-1], ends=False)
    assert error_of(content) == (408, "body: did not arrive within 0.1 seconds.")


def test_all_bodies_together_are_bounded_and_none_is_counted_for_ever(small, monkeypatch):
    held_bodies = small.service._bodies["predict"]
    monkeypatch.setattr(held_bodies, "max_held", 1)
    full = BODY.ljust(LIMIT)
    with connect(small) as waiting:
        waiting.sendall(request("/predict", full)[:-1])
        wait_for(lambda: held_bodies._n_held == LIMIT - 1)
        content = exchange(small, request("/predict", full))
        assert error_of(content) == (503, "too many bodies are on their way; try again in a second.")
        assert b"\r\nretry-after: 1\r\n" in content
        assert small.ask("/explain", full)[0] == 200  # these have room of their own
        waiting.sendall(full[-1:])
        assert read_response(waiting)[0] == 200
    exchange(small, request("/predict", full)[:-1])  # gone in the middle
    exchange(small, request("/predict", full + b" "))
    exchange(small, chunked(full, b" "))
    assert small.ask("/predict", full)[0] == 200


def test_a_client_that_leaves_in_the_middle_is_counted_as_gone(small):
    before = small.metric('optfair_requests_total{path="/predict",status="0"}')
    assert exchange(small, request("/predict", BODY)[:-1]) == b""
    wait_for(lambda: small.metric('optfair_requests_total{path="/predict",status="0"}') == before + 1)


# -- the queue -------------------------------------------------------------------------------------------------
def test_a_queue_that_is_full(monkeypatch):
    monkeypatch.setattr(worker, "MAX_WAITING", 2)
    with serving(moody()) as service:
        with held():
            connections = ask_while_held(service, [FINE] * 3)
            assert service.metric("optfair_waiting_requests") == 2
            status, headers, body = service.fetch("/predict", FINE)
            assert (status, headers["retry-after"]) == (503, "1") and "connection" not in headers
            assert json.loads(body) == {"error": "too many requests wait; try again in a second."}
        for connection in connections:
            assert read_response(connection)[0] == 200
            connection.close()
        assert service.ask("/predict", FINE)[0] == 200
        assert service.metric("optfair_waiting_requests") == 0


def test_a_request_that_is_large_does_not_hold_up_the_others(monkeypatch):
    """One call of the model is for a bounded number of bytes; a request beyond it goes alone."""
    monkeypatch.setattr(worker, "BATCH_BYTES", 200)
    with serving(moody()) as service:
        with held():
            small, large = [FINE, FINE], {"people": [FINE] * 100}
            connections = ask_while_held(service, [FINE, *small, large, *small])
        for connection in connections:
            assert read_response(connection)[0] == 200
            connection.close()
        assert service.metric("optfair_batch_requests_count") == 4  # the first, two, the large one, two
        assert service.metric("optfair_batch_requests_sum") == 6


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_whoever_waits_too_long_is_told_so_and_not_answered(monkeypatch, path):
    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.2)
    with serving(moody()) as service:
        with held():
            (first,) = ask_while_held(service, [FINE], path)
            status, headers, body = service.fetch(path, FINE)
            assert (status, headers["retry-after"]) == (503, "1") and "connection" not in headers
            error = "the model did not come to it within 0.2 seconds; try again later."
            assert json.loads(body) == {"error": error} == json.loads(read_response(first)[2])
            first.close()
        monkeypatch.setattr(app, "ANSWER_SECONDS", 20.0)
        assert service.ask(path, FINE)[0] == 200
        assert service.metric("optfair_batch_requests_sum") == 2  # the one that was under way, and the last


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_whoever_has_gone_is_not_asked_about(path):
    with serving(moody()) as service:
        with held():
            connections = ask_while_held(service, [FINE] * 4, path)
            for connection in connections[:3]:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
            gone = f'optfair_requests_total{{path="{path}",status="0"}}'
            wait_for(lambda: service.metric(gone) == 3)
        assert read_response(connections[3])[0] == 200
        connections[3].close()
        assert service.metric("optfair_batch_requests_sum") == 2
        assert service.metric(f'optfair_requests_total{{path="{path}",status="200"}}') == 1


def test_many_explanations_do_not_hold_up_predictions():
    """Each takes four calls of the model; before, whoever asked for a prediction waited for all of them."""
    with serving(moody()) as service:
        with held():
            explanations = ask_while_held(service, [{"people": [FINE] * MAX_EXPLAINED}] * 12, "/explain")
            predictions = [connect(service) for _ in range(3)]
            for connection in predictions:
                connection.sendall(request("/predict", BODY))
            wait_for(lambda: service.service.worker.n_waiting() == 14)
            health = connect(service)
            health.sendall(request("/health"))
            wait_for(lambda: service.service.worker.n_waiting() == 15)
        for connection in (*predictions, health):
            assert read_response(connection)[0] == 200
        assert service.metric("optfair_waiting_requests") >= 6  # explanations, still
        for connection in explanations:
            assert len(json.loads(read_response(connection)[2])["people"]) == MAX_EXPLAINED
        for connection in (*predictions, *explanations, health):
            connection.close()


# -- failures --------------------------------------------------------------------------------------------------
def test_a_person_whom_the_model_cannot_answer():
    with serving(moody()) as service:
        for path in ("/predict", "/explain"):
            message = "the model cannot answer: cannot read [667002.25]"
            assert service.error(REFUSE, path) == f"person: {message}"
            assert service.error({"people": [FINE, REFUSE]}, path) == f"people[1]: {message}"
            assert service.error(CRASH, path, status=500) == "internal error"
            assert service.error({"people": [FINE, CRASH, REFUSE]}, path, status=500) == "internal error"
        for name in moody().classes_:
            assert service.metric(f'optfair_answers_total{{answer="{name}"}}') == 0


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_many_people_who_cannot_be_answered_cost_a_few_calls(monkeypatch, path):
    """The first of them is searched for in halves; the others of the request are not asked about any more."""
    calls = []
    ask = ModelAnswers._predict if path == "/predict" else ModelAnswers._explain

    def counted(answers, people):
        calls.append(len(people))
        return ask(answers, people)

    with serving(moody()) as service:
        monkeypatch.setattr(ModelAnswers, ask.__name__, counted)
        message = "the model cannot answer: cannot read [667002.25]"
        assert service.error({"people": [FINE] * 3 + [REFUSE] * 17}, path) == f"people[3]: {message}"
        assert len(calls) <= 9 and sum(calls) <= 60
        calls.clear()
        keys = [{"features": REFUSE, "key": k} for k in range(8)]  # another call for those with keys
        assert service.error({"people": [FINE, *keys, REFUSE]}, path).endswith(message)
        assert len(calls) <= 6


@pytest.mark.parametrize("path", ["/predict", "/explain"])
def test_a_failing_call_costs_nobody_else_their_answer(path):
    others = [[0.1 * k, 1, 2] for k in range(5)]
    documents = [FINE, *others[:2], CRASH, others[2], REFUSE, {"people": [FINE, CRASH]}, {"age": 1}, *others[3:]]
    with serving(moody()) as service:
        with held():
            connections = ask_while_held(service, documents, path)
        replies = [read_response(connection) for connection in connections]
        for connection in connections:
            connection.close()
        assert [status for status, *_ in replies] == [200, 200, 200, 500, 200, 422, 500, 422, 200, 200]
        assert service.metric("optfair_batch_requests_count") == 2  # they were answered together
        contents = [json.loads(body) for status, _, body in replies if status == 200]
        entries = [content["answers" if path == "/predict" else "people"][0]["answer"] for content in contents]
        assert entries == moody().predict(np.array([FINE, *others])).tolist()
        assert service.ask("/health")[0] == 200
