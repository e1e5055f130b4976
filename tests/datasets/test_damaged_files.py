"""Damaged files of every data set: one error, on one line, that names the file."""

import numpy as np
import pytest

from optfair import datasets
from optfair.errors import DataFileError
from tests.datasets.files import (
    CELEBA_TXT,
    COMPAS_CSV,
    DEFENDANTS,
    ELIGIBLE,
    ENEM_MEMBER,
    ENEM_ZIP,
    UNUSUAL_PEOPLE,
    UTK_TAR,
    celeba_table,
    celeba_text,
    compas_csv,
    enem_csv,
    pums_csv,
    tar_archive,
    write,
    zip_archive,
)

HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body>Quota exceeded; try, again</body></html>\n"
ALWAYS = {"html": HTML, "empty": b""}


def damaged_zip(member, content):
    """Return damaged versions of an archive with one table."""
    archive = zip_archive({member: content})
    return {
        **ALWAYS,
        "truncated": archive[:-200],
        "bits": archive[:200] + b"\0" * 60 + archive[260:],
        "member": zip_archive({"other.csv": "x"}),
        "column": zip_archive({member: content.replace(b"NU_NOTA_CH", b"NU_NOTA").replace(b"PINCP", b"PINC")}),
        "page": zip_archive({member: HTML}),
        "header": zip_archive({member: content.splitlines(keepends=True)[0]}),
        "values": zip_archive({member: content.replace(b";A;", b";aa;").replace(b",40,", b",forty,")}),
    }


def damaged_enem():
    return ENEM_ZIP, damaged_zip(ENEM_MEMBER, enem_csv(ELIGIBLE * 50))


def damaged_acs_income():
    return "acs-income/csv_pwy.zip", damaged_zip("psam_p56.csv", pums_csv(UNUSUAL_PEOPLE * 50).encode())


def damaged_utkface():
    archive = tar_archive({f"UTKFace/{i}_0_0_2.jpg": np.random.default_rng(i).bytes(4000) for i in range(5)})
    return UTK_TAR, {**ALWAYS, "truncated": archive[:-9000]}


def damaged_celeba():
    text = celeba_text(celeba_table()).encode()
    column, values = text.replace(b" Young", b" Yung"), text.replace(b" -1", b" 0")
    return CELEBA_TXT, {**ALWAYS, "truncated": text[:-700], "column": column, "values": values}


def damaged_compas():
    text = compas_csv(DEFENDANTS).encode()
    column, values = text.replace(b"priors_count", b"prior"), text.replace(b",34,", b",old,")
    return COMPAS_CSV, {**ALWAYS, "truncated": text[:150], "column": column, "values": values}


DAMAGED = {
    "enem": damaged_enem(),
    "acs-income": damaged_acs_income(),
    "utkface": damaged_utkface(),
    "celeba": damaged_celeba(),
    "compas": damaged_compas(),
}
OPTIONS = {"celeba": {"images": False}, "acs-income": {"states": ["WY"]}}


@pytest.mark.parametrize(("name", "damage"), [(name, damage) for name in DAMAGED for damage in DAMAGED[name][1]])
def test_a_damaged_file_is_named_in_one_line(name, damage, data_folder, no_checksums):
    if name == "utkface":
        pytest.importorskip("torch")
    file, contents = DAMAGED[name]
    path = write(data_folder / file, contents[damage])
    with pytest.raises(DataFileError) as error:
        datasets.load(name, download=False, **OPTIONS.get(name, {}))
    message = str(error.value)
    assert str(path) in message or (damage == "header" and str(path.parent) in message)
    assert "\n" not in message and len(message) < 600


@pytest.mark.parametrize("name", [name for name in datasets.names() if datasets.entry(name).stand_in_for])
def test_a_damaged_parquet_file(name, data_folder):
    pytest.importorskip("pyarrow")
    path = write(data_folder / datasets.entry(name).local_files[0], HTML)
    with pytest.raises(DataFileError, match="cannot be read as a Parquet table") as error:
        datasets.load(name)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
