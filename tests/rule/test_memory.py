"""Test rows that are larger than the memory of a process: they are read block by block."""

import json
import subprocess
import sys

import numpy as np
import pytest

from optfair import solve

ROWS, BLOCK = 3_000_000, 100_000
# One thread: each further one has a stack and blocks of its own, about 30 MB.
LIMITED = """
import json, resource, sys
import numpy as np
import optfair

Z = np.load(sys.argv[1], mmap_mode="r")
optfair.solve(np.array(Z[:2000]), "dp", 0.01, n_jobs=1)  # everything imported, nothing left to load
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
limit = used + int(sys.argv[2])
assert Z.nbytes > int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if sys.argv[3] == "copy":
    np.array(Z)
    print("copied")
else:
    rule = optfair.solve(Z, "dp", 0.01, random_state=0, n_jobs=1)
    c = rule.certificate
    print(json.dumps([c.accuracy, c.gap, c.violation, c.excess]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Write 300 MB of float32 rows, block by block; removed at the end."""
    path = tmp_path_factory.mktemp("large") / "Z.npy"
    Z = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, 5, 5))
    rng = np.random.default_rng(0)
    lean = 1 + np.eye(5, dtype=np.float32)  # group a leans to class a
    for start in range(0, ROWS, BLOCK):
        block = rng.random((BLOCK, 5, 5), dtype=np.float32) ** 4 * lean
        Z[start : start + BLOCK] = block / block.sum((1, 2), keepdims=True)
    Z.flush()
    del Z
    yield path
    path.unlink()


def run_limited(path, action, megabytes=150):
    """Run a process that may use so many megabytes more than it does after its imports."""
    command = [sys.executable, "-c", LIMITED, str(path), str(megabytes * 2**20), action]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts the memory of a process on Linux only")
def test_a_memory_map_larger_than_the_memory_of_the_process(large):
    copy = run_limited(large, "copy")
    assert copy.returncode != 0 and "MemoryError" in copy.stderr, copy  # the limit holds
    process = run_limited(large, "solve")
    assert process.returncode == 0, process.stderr
    accuracy, gap, violation, excess = json.loads(process.stdout)
    rule = solve(np.load(large), "dp", 0.01, random_state=0, n_jobs=2)
    assert excess == rule.certificate.excess == 0 and violation <= 0.01
    assert abs(accuracy - rule.certificate.accuracy) <= max(gap, rule.certificate.gap)
    assert rule.multipliers["multiplier"].abs().max() > 0  # there was something to do
