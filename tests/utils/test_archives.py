"""Check that the sizes an archive declares are looked at before anything is unpacked."""

import importlib
import importlib.util
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from scipy import sparse

from optfair.utils.archives import ARRAY_LIBRARIES, SMALLEST_LIMIT, ArchiveSizeError, check_archive, need_skops


def archive(compression=zipfile.ZIP_STORED, **entries):
    """Return a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(name.replace("_", "."), data)
    return out.getvalue()


def array_bytes(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def test_honest_archives_pass():
    out, matrix = io.BytesIO(), io.BytesIO()
    np.savez_compressed(out, a=np.zeros((1000, 1000)), b=np.array("text"), c=np.zeros((0, 3)))
    check_archive(out.getvalue())
    sparse.save_npz(matrix, sparse.eye_array(5, format="csr"))
    check_archive(archive(x_npz=matrix.getvalue(), y_npy=array_bytes(np.ones(3, order="F")), schema_json="{}"))


def test_what_is_not_compressed_may_be_of_any_size():
    check_archive(archive(a_bin=bytes(SMALLEST_LIMIT + 1)))


def test_what_unpacks_to_more_than_the_limit_is_refused():
    content = archive(zipfile.ZIP_DEFLATED, a_bin=bytes(10**6))
    assert len(content) < 10**4
    check_archive(content)
    with pytest.raises(ArchiveSizeError, match=r"^unpacks to 1 MB, more than the 0 MB allowed$"):
        check_archive(content, 10**5)
    with pytest.raises(ArchiveSizeError, match=r"^unpacks to 1 MB"):
        check_archive(archive(zipfile.ZIP_DEFLATED, a_npz=archive(zipfile.ZIP_DEFLATED, a_bin=bytes(10**6))), 10**5)


def test_an_array_is_as_large_as_it_says():
    with pytest.raises(ArchiveSizeError, match=r"^a\.npy declares an array of 8 MB and holds 0\.000 MB$"):
        check_archive(archive(a_npy=array_bytes(np.zeros(10**6))[:200]))


def test_archives_inside_are_known_by_their_first_bytes_and_added_up():
    """Three archives of zeros, each within the limit, under names that say nothing."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(100_000))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        for name in ("a.bin", "b.bin", "c.bin"):
            archive.writestr(name, inner.getvalue())
    assert check_archive(outer.getvalue(), 400_000) == 300_000
    with pytest.raises(ArchiveSizeError, match="unpacks to"):
        check_archive(outer.getvalue(), 250_000)


# -- skops -------------------------------------------------------------------------------------------------
def test_skops_comes_without_torch_and_with_every_estimator():
    """Its list of types that are trusted is what it would have been."""
    pytest.importorskip("skops", reason="what is imported")
    code = f"""
import sys
from optfair.utils.archives import need_skops
need_skops("test")
print("torch" in sys.modules, [name for name in {ARRAY_LIBRARIES!r} if name in sys.modules])
from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES as names
from sklearn.utils import all_estimators
kinds = {{f"{{kind.__module__}}.{{kind.__qualname__}}" for _, kind in all_estimators()}}
print(len(names) > 100, {{name.rpartition(".")[2] for name in names}} == {{kind.rpartition(".")[2] for kind in kinds}})
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["False []", "True True"]


def test_whoever_has_torch_keeps_it():
    pytest.importorskip("skops", reason="what is imported")
    assert need_skops("test") is sys.modules["skops.io"]
    assert not any(name in sys.modules and sys.modules[name] is None for name in ARRAY_LIBRARIES)
    if importlib.util.find_spec("torch") and importlib.util.find_spec(ARRAY_LIBRARIES[-1]):
        assert importlib.import_module(ARRAY_LIBRARIES[-1])


def test_without_skops_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.delitem(sys.modules, "skops.io", raising=False)
    with pytest.raises(ImportError, match=r'^Something needs skops: pip install "optfair\[save\]"$'):
        need_skops("Something")
    assert not any(name in sys.modules and sys.modules[name] is None for name in ARRAY_LIBRARIES)
