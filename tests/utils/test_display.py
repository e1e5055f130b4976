"""The display: lines for a log, a bar for a terminal, and nothing that can do harm."""

import io
import itertools
import sys
import threading
import time
from contextlib import contextmanager, redirect_stderr

import pytest

from optfair.utils import display
from optfair.utils.display import Display, clear_bars, show_progress, with_progress
from optfair.utils.progress import is_watched, stage
from tests.utils.stages import recorded

LINE, LOOKS = 0.05, 0.01  # seconds


class Log(io.StringIO):
    """A stream that notes when it was written to."""

    def __init__(self, is_terminal=False):
        super().__init__()
        self.is_terminal, self.times = is_terminal, []

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.times.append(time.monotonic())
        return super().write(text)

    @property
    def lines(self):
        return self.getvalue().splitlines()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(display, "LINE_SECONDS", LINE)
    monkeypatch.setattr(display, "BAR_DELAY", LOOKS)
    monkeypatch.setattr(display, "BAR_SECONDS", LOOKS)


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def terminal(monkeypatch):
    pytest.importorskip("tqdm", reason="bars are tqdm's")
    monkeypatch.setenv("TERM", "xterm")
    return Log(is_terminal=True)


@contextmanager
def shown_on(stream):
    """Show progress on a stream; pytest exchanges sys.stderr between a fixture and its test."""
    with redirect_stderr(stream), show_progress():
        yield


def wait_for(condition, seconds=20):
    """Wait until something is true, on a machine that may be busy."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def displays():
    return [thread for thread in threading.enumerate() if thread.name == "optfair-progress"]


# -- lines ---------------------------------------------------------------------------------------------------
def test_lines_say_what_is_done_outermost_first(log):
    with shown_on(log), stage("tolerances", 20) as work, stage("solving") as inner:
        work.advance(5)
        inner.advance(3, gap=0.5)
        wait_for(lambda: len(log.lines) >= 2)
    assert log.lines[0].startswith("... tolerances: 5 of 20, ")
    assert "; solving: step 3, gap 0.5, 0 s so far" in log.lines[0]


def test_lines_are_not_closer_than_they_may_be(log):
    with shown_on(log), stage("working"):
        wait_for(lambda: len(log.lines) >= 4)
    begins = log.times[::2]  # print writes the text and the end of the line
    assert len(begins) == len(log.lines)
    assert min(b - a for a, b in itertools.pairwise(begins)) >= 0.9 * LINE


def test_work_that_ends_soon_shows_nothing(log, monkeypatch):
    monkeypatch.setattr(display, "LINE_SECONDS", 60.0)
    begin = time.monotonic()
    with shown_on(log), stage("working", 3) as work:
        work.advance(3)
    assert log.getvalue() == "" and time.monotonic() - begin < 30  # nor does it wait


def test_the_longer_it_takes_the_rarer_the_lines(log, monkeypatch):
    monkeypatch.setattr(display, "LINE_SHARE", 1.0)  # then the times of lines double
    with shown_on(log), stage("working"):
        time.sleep(16 * LINE)
    assert len(log.lines) <= 6


def test_between_stages_nothing_is_said(log):
    with shown_on(log):
        time.sleep(4 * LINE)
    assert log.getvalue() == ""


def test_a_look_within_a_look_shows_once(log):
    with shown_on(log):
        with shown_on(log):
            assert len(displays()) == 1
        assert is_watched() and len(displays()) == 1
    assert not is_watched() and displays() == []


def test_not_to_show_leaves_everything_as_it_is(log):
    with redirect_stderr(log), show_progress(False):
        assert not is_watched() and displays() == []
    with recorded(), show_progress(False):
        assert is_watched()


# -- a stream that fails -----------------------------------------------------------------------------------------
class Full(Log):
    def write(self, text):
        super().write(text)
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_full_disk_is_harmless(is_terminal):
    full = Full(is_terminal)
    with shown_on(full), stage("working", 3) as work:
        wait_for(lambda: full.times)
        wait_for(lambda: not displays())  # it is not tried again
        work.advance()
    assert work.count == 1


def test_a_closed_stream_is_harmless(log):
    with shown_on(log), stage("working"):
        log.close()
        wait_for(lambda: not displays())


def test_no_stream_at_all_is_harmless():
    with shown_on(None), stage("working"):
        assert not is_watched() and displays() == []


def test_an_error_ends_the_display(log):
    with pytest.raises(KeyboardInterrupt), shown_on(log), stage("working"):
        raise KeyboardInterrupt
    assert displays() == [] and not is_watched()


# -- bars ----------------------------------------------------------------------------------------------------
def visible_line(terminal):
    """Return what a terminal shows in its line, by the carriage returns written so far."""
    line = ""
    for part in terminal.getvalue().split("\r"):
        line = part + line[len(part) :]
    return line


def test_a_terminal_has_a_bar_that_is_gone_at_the_end(terminal):
    with shown_on(terminal):
        with stage("fitting models", 4) as work:
            work.advance(2)
            wait_for(lambda: "2 of 4" in visible_line(terminal))
            assert visible_line(terminal).startswith("fitting models |##########          | 2 of 4, ")
        assert visible_line(terminal).strip() == ""  # at once, before anybody prints
        with stage("solving"):
            wait_for(lambda: visible_line(terminal).startswith("solving: "))
            assert "|" not in visible_line(terminal)  # how many steps it takes is not known
    assert visible_line(terminal).strip() == "" and "\n" not in terminal.getvalue()


def test_the_bar_is_of_the_outermost_stage_that_has_a_number_of_steps(terminal):
    with shown_on(terminal), stage("fitting"), stage("rounds", 10) as work, stage("epochs", 2):
        work.advance(5)
        wait_for(lambda: "epochs: 0 of 2" in visible_line(terminal))
        assert visible_line(terminal).startswith("rounds |##########          | 5 of 10")


def test_a_line_is_not_longer_than_the_terminal(terminal, monkeypatch):
    monkeypatch.setattr(display, "DEFAULT_WIDTH", 40)
    with shown_on(terminal):
        for total in (None, 5):
            with stage("a name that is far too long for a terminal of forty columns", total):
                wait_for(lambda: "a name" in visible_line(terminal))
    assert max(map(len, terminal.getvalue().split("\r"))) <= 40


def test_bars_give_way_to_what_is_printed(terminal, monkeypatch):
    with shown_on(terminal), stage("fitting models", 4):
        wait_for(lambda: "0 of 4" in visible_line(terminal))
        clear_bars()
        wait_for(lambda: "0 of 4" in visible_line(terminal))  # it comes back
        monkeypatch.setattr(display, "BAR_SECONDS", 60.0)  # the next look is far away
        time.sleep(10 * LOOKS)
        clear_bars()
        assert visible_line(terminal).strip() == ""


@pytest.mark.parametrize("reason", ["no tqdm", "a dumb terminal", "another thread"])
def test_where_a_bar_cannot_be_there_are_lines(terminal, monkeypatch, reason):
    def work():
        with shown_on(terminal), stage("fitting models", 4):
            wait_for(lambda: terminal.lines)

    if reason == "no tqdm":
        monkeypatch.setitem(sys.modules, "tqdm", None)
    if reason == "a dumb terminal":
        monkeypatch.setenv("TERM", "dumb")
    thread = threading.Thread(target=work)
    run = (thread.start, thread.join) if reason == "another thread" else (work,)
    for call in run:
        call()
    assert terminal.lines[0] == "... fitting models: 0 of 4, 0 s so far" and "\r" not in terminal.getvalue()


def test_a_stream_that_cannot_tell_whether_it_is_a_terminal_has_lines():
    assert not Display(object()).has_bar


# -- at the door ---------------------------------------------------------------------------------------------
class Model:
    progress = True

    @with_progress
    def fit(self):
        return is_watched()


@with_progress
def solve(Z, *, progress=False):
    return is_watched()


def test_keyword_and_attribute_ask_for_it(log):
    with redirect_stderr(log):
        assert Model().fit() is True and solve(1) is False and solve(1, progress=True) is True
    model = Model()
    model.progress = False
    assert model.fit() is False
    assert solve(Model()) is False  # of a function the keyword counts


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_progress_is_true_or_false(value):
    message = rf"^progress={value!r}: must be True or False\.$"
    with pytest.raises(ValueError, match=message):
        solve(1, progress=value)
    model = Model()
    model.progress = value
    with pytest.raises(ValueError, match=message):
        model.fit()
