"""What a service writes to its log: lines for an operator, and no value of anybody."""

import asyncio
import json
import logging
import re
import warnings

import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair.serving.log import FOREIGN, LOGGER, failure_text, logging_to_stderr
from tests.serving.helpers import JSON, serving
from tests.serving.moody import CRASH, FINE, REFUSE, WARN, moody
from tests.serving.wire import exchange, request

SECRET = "x1y2z3"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ optfair serve: (.*)")


def lines_of(text):
    """Return the lines of a log without the time; every line must have one."""
    matches = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(matches), text
    return [match[1] for match in matches]


def raise_nested():
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError(SECRET) from error
    except ValueError:
        raise RuntimeError(SECRET)  # noqa: B904 - what happens while an error is handled


def test_an_error_is_told_by_its_types_and_lines_of_code():
    with pytest.raises(RuntimeError) as error:
        raise_nested()
    text = failure_text(error.value)
    assert re.fullmatch(
        r"KeyError at test_log.py:\d+ raise_nested; then ValueError at test_log.py:\d+ raise_nested; then "
        r"RuntimeError at test_log.py:\d+ test_an_error_\w+ > test_log.py:\d+ raise_nested",
        text,
    )
    assert failure_text(ValueError(SECRET)) == "ValueError at no line"


def test_an_error_that_caused_itself_is_told_once():
    first, second = ValueError(SECRET), KeyError(SECRET)
    first.__cause__, second.__cause__ = second, first
    assert failure_text(first) == "KeyError at no line; then ValueError at no line"


def test_a_day_of_a_service(capsys):
    """Everything that can go wrong is asked for, with values that must not be read anywhere but in answers."""
    with logging_to_stderr(), serving(moody(), max_bytes=2_000) as service:
        secrets = {"Content-Type": "application/json", "X-Secret": SECRET, "Cookie": SECRET}
        for person, status in ((FINE, 200), (CRASH, 500), (REFUSE, 422), (WARN, 200), ([SECRET, 1, 2], 422)):
            for document in (person, {"people": [person, FINE]}, {"features": person, "key": SECRET, "group": SECRET}):
                assert service.ask("/predict", document, secrets)[0] == status
            assert service.ask("/explain", {"features": person, "key": SECRET}, secrets)[0] == status
        service.ask(f"/{SECRET}?{SECRET}", FINE, JSON)
        service.ask("/predict", json.dumps(SECRET).encode().ljust(3_000), JSON)
        exchange(service, request("/predict", json.dumps(SECRET).encode())[:-1])
        exchange(service, f"GET /{SECRET} {SECRET}\r\n\r\n".encode())
        exchange(service, request("/predict", SECRET.encode(), Content_Length=SECRET))
        exchange(
            service, request("/predict", b"zz\r\n" + SECRET.encode(), Content_Length=None, Transfer_Encoding="chunked")
        )
    lines = lines_of(capsys.readouterr().err)
    assert lines[0] == f"started at http://127.0.0.1:{service.port}: {service.service.title}"
    assert re.fullmatch(r"stopping: \d connections are open", lines[-2])
    assert re.fullmatch(r"stopped: \d+ requests answered, 0 cut off", lines[-1])
    assert len(lines) == 3 + 4
    for line in lines[1:-2]:
        assert re.fullmatch(r"internal error: RuntimeError at answering\.py:.* > moody\.py:\d+ predict_proba", line)
    text = "\n".join(lines).lower()
    assert SECRET not in text and not any(f"{who[0]:.2f}" in text for who in (CRASH, REFUSE, WARN))


def test_a_quiet_service_logs_failures_only(capsys):
    with logging_to_stderr(is_quiet=True), serving(moody()) as service:
        assert service.ask("/predict", FINE)[0] == 200
        assert capsys.readouterr().err == ""
        assert service.ask("/predict", CRASH)[0] == 500
        (line,) = lines_of(capsys.readouterr().err)
        assert line.startswith("internal error: RuntimeError at ")
    assert capsys.readouterr().err == ""


def test_what_others_log_quotes_requests_and_is_not_written(capsys):
    with logging_to_stderr():
        for name in FOREIGN:
            logging.getLogger(name).error(SECRET)
        warnings.warn(SECRET, stacklevel=1)
        LOGGER.info("a line")
    assert lines_of(capsys.readouterr().err) == ["a line"]


def test_the_loggers_are_afterwards_what_they_were(capsys):
    loggers = [LOGGER, *map(logging.getLogger, FOREIGN)]
    before = [(x.level, x.propagate, x.disabled, list(x.handlers), x.isEnabledFor(logging.INFO)) for x in loggers]
    for is_quiet in (True, False):
        with logging_to_stderr(is_quiet):
            assert LOGGER.isEnabledFor(logging.INFO) != is_quiet
    after = [(x.level, x.propagate, x.disabled, list(x.handlers), x.isEnabledFor(logging.INFO)) for x in loggers]
    assert before == after


def test_what_a_loop_reports_is_logged_without_its_message(capsys):
    async def fail(service):
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": SECRET, "exception": ValueError(SECRET)})
        loop.call_exception_handler({"message": SECRET, "exception": ConnectionResetError(SECRET)})
        loop.call_exception_handler({"message": SECRET})

    with logging_to_stderr(is_quiet=True), serving(moody()) as service:
        asyncio.run_coroutine_threadsafe(fail(service), service.service.worker._loop).result(10)
    assert lines_of(capsys.readouterr().err) == ["internal error: ValueError at no line"]
