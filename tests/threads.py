"""Run numerical libraries on one thread: the models of the tests are tiny, and threads would only wait."""

from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def single_thread():
    """Limit BLAS, OpenMP and torch (where it is installed) to one thread inside."""
    try:
        import torch
    except ImportError:
        with threadpool_limits(1):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
