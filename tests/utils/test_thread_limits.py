"""Test that limits of BLAS and OpenMP hold where they should and leave no trace."""

import sys
import threading
import types

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from optfair.utils import thread_limits
from optfair.utils.thread_limits import BlasLimit, openmp_limit


class FakeLibrary:
    """A library whose limit is the process's, or with ``local`` the calling thread's, as OpenMP has it."""

    user_api = "blas"

    def __init__(self, number=4, local=False):
        self.threading_layer = "openmp" if local else "pthreads"
        self.default, self.numbers = number, threading.local() if local else types.SimpleNamespace()

    def get_num_threads(self):
        return getattr(self.numbers, "value", self.default)

    def set_num_threads(self, number):
        self.numbers.value = number


@pytest.fixture
def load(monkeypatch):
    """Return a function that pretends that libraries, and nothing else, are loaded."""

    def load(*libraries):
        controller = types.SimpleNamespace(lib_controllers=list(libraries))
        monkeypatch.setattr(thread_limits, "ThreadpoolController", lambda: controller)
        monkeypatch.setattr(thread_limits, "_LIBRARIES", thread_limits._Libraries())

    return load


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


# -- BLAS --------------------------------------------------------------------------------------------------
def test_no_thread_is_started_for_a_limit():
    limit, before = BlasLimit(), threading.active_count()
    with limit():
        assert threading.active_count() == before


def test_an_interrupt_leaves_no_limit_behind(load, monkeypatch):
    first, second = FakeLibrary(), FakeLibrary()
    load(first, second)
    lower = second.set_num_threads

    def interrupted(number):
        lower(number)
        if number == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(second, "set_num_threads", interrupted)
    with pytest.raises(KeyboardInterrupt), BlasLimit()():
        raise AssertionError("not reached")
    assert (first.get_num_threads(), second.get_num_threads()) == (4, 4)


def test_a_limit_of_the_process_is_seen_by_all_threads(load):
    library, limit = FakeLibrary(), BlasLimit()
    load(library)
    with limit(), limit():
        assert library.get_num_threads() == in_thread(library.get_num_threads) == 1
    assert library.get_num_threads() == 4


def test_a_limit_of_a_thread_is_set_and_restored_in_that_thread(load):
    library, limit = FakeLibrary(local=True), BlasLimit()
    load(library)

    def elsewhere():
        before = library.get_num_threads()
        with limit():
            inside = library.get_num_threads()
        return before, inside, library.get_num_threads()

    with limit():
        with limit():
            assert library.get_num_threads() == 1
            assert in_thread(elsewhere) == (4, 1, 4)
        assert library.get_num_threads() == 1
    assert library.get_num_threads() == 4


def test_what_is_lower_already_or_unknown_is_left_alone(load):
    library, unknown, limit = FakeLibrary(1), FakeLibrary(None), BlasLimit()
    load(library, unknown)
    with limit():
        pass
    assert not vars(library.numbers) and not vars(unknown.numbers)


def test_what_others_set_meanwhile_is_left_to_them(load):
    library, limit = FakeLibrary(), BlasLimit()
    load(library)
    with limit():
        library.set_num_threads(3)
    assert library.get_num_threads() == 3


def test_a_library_that_is_loaded_later_is_limited_too(load, monkeypatch):
    first, second, limit = FakeLibrary(), FakeLibrary(), BlasLimit()
    load(first)
    with limit():
        assert (first.get_num_threads(), second.get_num_threads()) == (1, 4)
    controller = types.SimpleNamespace(lib_controllers=[first, second])
    monkeypatch.setattr(thread_limits, "ThreadpoolController", lambda: controller)
    monkeypatch.setitem(sys.modules, "a_module_with_a_library", types.ModuleType("a_module_with_a_library"))
    with limit():
        assert (first.get_num_threads(), second.get_num_threads()) == (1, 1)
    assert (first.get_num_threads(), second.get_num_threads()) == (4, 4)


def test_the_first_pass_of_a_forked_child_restores_what_its_parent_had_lowered(load):
    library, limit = FakeLibrary(), BlasLimit()
    load(library)
    limit.__enter__()
    limit.reset()  # what a child does after a fork
    with limit():
        assert library.get_num_threads() == 1
    assert library.get_num_threads() == 4


def test_a_limit_that_another_thread_of_the_user_holds_stays():
    """Its thread restores it; BLAS has then as many threads as before."""
    before = [library["num_threads"] for library in threadpool_info()]
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with threadpool_limits(1, user_api="blas"):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    with thread_limits.one_blas_thread():
        np.eye(2) @ np.eye(2)
    leave.set()
    thread.join()
    assert [library["num_threads"] for library in threadpool_info()] == before


# -- OpenMP ------------------------------------------------------------------------------------------------
def openmp_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp"]


def test_openmp_is_limited_in_the_calling_thread_and_restored_after_an_error():
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: F401  loads OpenMP

    with threadpool_limits(3, user_api="openmp"):
        with pytest.raises(ZeroDivisionError), openmp_limit(2):
            assert set(openmp_threads()) == {2}
            with openmp_limit(4):
                assert set(openmp_threads()) == {2}
            raise ZeroDivisionError
        assert set(openmp_threads()) == {3}


def test_torch_is_limited_also_where_it_has_not_computed_before():
    torch = pytest.importorskip("torch")

    def count():
        with openmp_limit(1):
            torch.ones(100_000).sum()
            return torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert count() == in_thread(count) == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
