"""The adapter for Ray, as docs/guide/large_data.md prints it, on a real Ray of two processes."""

import os
import secrets
import signal

import pytest

ray = pytest.importorskip("ray", reason="the cluster is one of Ray")
pytest.importorskip("pyarrow", reason="rows are in Parquet files")

import optfair  # noqa: E402
from optfair.storage.engines import Workers  # noqa: E402
from optfair.storage.parts import PartError  # noqa: E402
from tests.storage.clusters import N, adapter, assert_same, numbered, once, write_rows  # noqa: E402


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    token = tmp_path_factory.mktemp("ray") / "token"  # else Ray writes one to the home of the user
    token.write_text(secrets.token_hex(32))
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1", "RAY_AUTH_TOKEN_PATH": str(token)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        options = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
        ray.init(num_cpus=2, object_store_memory=100_000_000, **options)
        yield adapter("RayWorkers")()
        ray.shutdown()


def test_ray_solves_as_threads_do_bit_by_bit(client, tmp_path):
    files = optfair.read_parquet(write_rows(tmp_path / "scores"), weight="w", part_rows=N // 8)
    for criterion in ("dp", "eo"):
        assert_same(optfair.solve(files, criterion, 0.01), optfair.solve(files, criterion, 0.01, client=client))


def test_a_worker_that_is_killed_changes_nothing(client, tmp_path):
    flag = tmp_path / "killed"

    def deadly(part):
        if part.start == 2 and once(flag):
            os.kill(os.getpid(), signal.SIGKILL)
        return part.start

    assert Workers(client).map(deadly, numbered(6)) == list(range(6))
    assert flag.exists()


def test_an_error_of_a_file_is_told_in_one_line(client):
    def fail(part):
        raise PartError(f"{part.name}: cannot be read.")

    with pytest.raises(PartError) as caught:
        Workers(client).map(fail, numbered(4))
    assert str(caught.value) == "part 0: cannot be read."
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
