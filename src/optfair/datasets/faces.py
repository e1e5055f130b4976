"""Photographs of faces: CelebA by its attributes, UTKFace by age, sex and race. Pictures are read when asked for."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.datasets import store
from optfair.datasets.tables import Loaded, Request, named, need_columns, read_parquet, reading
from optfair.errors import DataFileError, need_extra, warn

SHORT = {"age": "Young", "sex": "Male", "race": "Pale_Skin"}  # as the released code of the paper calls them
WORDS = {"Young": ("old", "young"), "Male": ("female", "male"), "Pale_Skin": ("not pale", "pale")}
AGES = ("0-17", "18-29", "30-44", "45-59", "60+")  # they sort in their order
RACES, SEXES = ("white", "black", "asian", "indian", "other"), ("male", "female")  # codes 0..4 and 0, 1 of UTKFace
# age_sex_race_date; where the race is missing, the third number is the date and is not followed by another one.
UTK_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d.*jpg")
Opener = Callable[[list[str]], Sequence[Any]]


class ZippedPictures(Sequence[bytes]):
    """Files of an archive, read one by one. Every process opens the archive for itself, as they share no position."""

    def __init__(self, path: Path, members: list[str]) -> None:
        self._path, self._members = path, members
        self._archive: tuple[int, zipfile.ZipFile] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return ZippedPictures(self._path, self._members[row])
        if self._archive is None or self._archive[0] != os.getpid():
            self._archive = os.getpid(), zipfile.ZipFile(self._path)
        with reading(self._path, "an archive of pictures"):
            return self._archive[1].read(self._members[row])

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_members": self._members, "_archive": None}


# -- CelebA -----------------------------------------------------------------------------------------------
def celeba(
    request: Request,
    images: bool = True,
    labels: Sequence[str] = ("Smiling", "Big_Nose"),
    size: int = 128,
    cache: bool = False,
) -> Loaded:
    """y = Σ 2^(k−i) label_i (2·Smiling + Big_Nose) by Young, 202,599 pictures; or by other attributes.

    images : False for the table of the attributes that are neither label nor sensitive, 0 or 1, without pictures.
    labels : attributes, k of which make 2^k classes. size : pictures as (3, size, size). cache : keep them decoded.
    """
    attributes = request.entry.attributes
    asked: tuple[str, ...] = request.sensitive if isinstance(request.sensitive, tuple) else (request.sensitive,)
    groups = {name: SHORT.get(name, name) for name in asked}
    wanted = [labels] if isinstance(labels, str) else list(labels)
    if not wanted or not set(wanted) <= set(attributes) or len(set(wanted)) < len(wanted):
        raise ValueError(f"labels={labels!r}: must be one or several, each once, of {', '.join(attributes)}.")
    if len(set(groups.values())) < len(groups) or set(groups.values()) & set(wanted):
        raise ValueError(f"sensitive={request.sensitive!r}, labels={labels!r}: must be different attributes.")
    chosen = f"Classes: {' × '.join(wanted)}; groups: {' × '.join(groups.values())}."
    if not images:
        table = _celeba_attributes(request)
        table = table.take(request.sample(len(table)))
        rest = [name for name in attributes if name not in (*wanted, *groups.values())]
        X = table[rest].astype(np.float32).reset_index(drop=True)
        done = f"The {len(rest)} attributes that are neither label nor sensitive, 1 or 0; no pictures. {chosen}"
        return Loaded(X, _classes(table, wanted), _celeba_groups(table, groups), done)
    need_extra("torch", f"load({request.entry.name!r}) with images (images=False does without)")
    table = _celeba_attributes(request)
    names, open_pictures, stand_in = _celeba_pictures(request)
    there = table.index.isin(names)
    if not there.any():
        raise DataFileError("celeba: none of the pictures is named in the table of attributes, as 000001.jpg is.")
    if stand_in is None and not there.all():
        warn(f"celeba: {(~there).sum():,} of {len(table):,} pictures are missing, and their people left out.")
    table = table[there]
    table = table.take(request.sample(len(table)))
    y, who = _classes(table, wanted), _celeba_groups(table, groups)
    X = _images(open_pictures(list(table.index)), y, who, size, cache)
    done = f"The largest square around the centre, resized to {size} × {size}, with ImageNet's mean and deviation."
    return Loaded(X, y, who, f"{done} {chosen}", stand_in)


def _classes(table: pd.DataFrame, wanted: list[str]) -> pd.Series:
    """2^k classes, numbered by their attributes as binary digits, and named after those that are there."""
    code = table[wanted].to_numpy().astype(int) @ (2 ** np.arange(len(wanted))[::-1])
    names, last = [], 2 ** len(wanted) - 1
    for number in range(last + 1):
        there = [name for bit, name in enumerate(reversed(wanted)) if number >> bit & 1]
        names.append(f"{number:0{len(str(last))}d} {' + '.join(reversed(there)) or 'none'}")
    return named(code, names, "+".join(wanted))


def _celeba_groups(table: pd.DataFrame, groups: dict[str, str]) -> pd.Series | pd.DataFrame:
    columns = [
        named(table[attribute].to_numpy().astype(int), WORDS.get(attribute, (f"not {attribute}", attribute)), name)
        for name, attribute in groups.items()
    ]
    return columns[0] if len(columns) == 1 else pd.concat(columns, axis=1)


def _celeba_attributes(request: Request) -> pd.DataFrame:
    """0 or 1 by file name and attribute: of the published text file, or of the same table in $OPTFAIR_DATA."""
    attributes = list(request.entry.attributes)
    own = store.local(request.entry.local_files[0])
    if own is not None and store.find(request.entry.files[0]) is None:
        table = read_parquet(own, f"load({request.entry.name!r})")
        need_columns(table.columns, ["filename", *attributes], own, "the attributes of CelebA")
        return table.set_index("filename")[attributes]
    path = request.obtain(0)
    with reading(path, "the attributes of CelebA"):
        with open(path, encoding="ascii") as file:  # the number of lines, then the names, then the lines
            count, header = file.readline(), file.readline().split()
        need_columns(header, attributes, path, "the attributes of CelebA")
        table = pd.read_csv(path, sep=r"\s+", skiprows=2, names=["filename", *header], index_col="filename")
        if len(table) != int(count):
            raise ValueError(f"{len(table)} lines, its first line says {int(count)}")
        if not table.isin([-1, 1]).all(axis=None):
            raise ValueError("values other than -1 and 1")
    return table[attributes] > 0


def _celeba_pictures(request: Request) -> tuple[list[str], Opener, str | None]:
    """(file names in order, what opens some of them, what they are a stand-in for)"""
    if (folder := request.unpacked(1)) is not None:
        names = sorted(os.listdir(folder))
        return names, lambda wanted: [str(folder / name) for name in wanted], None
    own = store.local(request.entry.local_files[1])
    if own is not None and store.find(request.entry.files[1]) is None:
        frame = read_parquet(own, f"load({request.entry.name!r})")
        jpeg = dict(zip(frame["filename"], frame["jpeg"], strict=True))
        return list(jpeg), lambda wanted: [jpeg[name] for name in wanted], "CelebA with all its images, of 178 × 218"
    path = request.obtain(1)
    with reading(path, "an archive of pictures"), zipfile.ZipFile(path) as archive:
        member = {name.rpartition("/")[2]: name for name in archive.namelist() if not name.endswith("/")}
    return sorted(member), lambda wanted: ZippedPictures(path, [member[name] for name in wanted]), None


# -- UTKFace ----------------------------------------------------------------------------------------------
def utkface(request: Request, size: int = 64, cache: bool = False) -> Loaded:
    """Age in five bins by race (5 groups) or sex, 23,704 pictures; the three without a race are left out.

    size : pictures as (3, size, size). cache : keep them decoded.
    """
    need_extra("torch", f"load({request.entry.name!r})")
    names, open_pictures, stand_in = _utk_pictures(request)
    read = {name: found for name in sorted(names) if (found := UTK_NAME.fullmatch(name))}
    if not read:
        raise DataFileError("utkface: no picture is named as in UTKFace, age_sex_race_date.jpg.")
    people = list(read)
    codes = np.array([[int(number) for number in found.groups()] for found in read.values()])
    rows = request.sample(len(people))
    age, sex, race = codes[rows].T
    y = named(np.searchsorted([18, 30, 45, 60], age, side="right"), AGES, "age")
    groups = named(race, RACES, "race") if request.sensitive == "race" else named(sex, SEXES, "sex")
    X = _images(open_pictures([people[row] for row in rows]), y, groups, size, cache)
    done = (
        f"Age, sex and race from the file names, {len(names) - len(people)} of which lack the race and are left out; "
        f"pictures resized to {size} × {size}, with ImageNet's mean and deviation."
    )
    return Loaded(X, y, groups, done, stand_in)


def _utk_pictures(request: Request) -> tuple[list[str], Opener, str | None]:
    """(file names, what opens some of them, what they are a stand-in for)"""
    if (folder := request.unpacked()) is not None:
        names = [name for name in os.listdir(folder) if name.endswith(".jpg")]
        return names, lambda wanted: [str(folder / name) for name in wanted], None
    own = store.local(request.entry.local_files[0])
    if own is not None and store.find(request.entry.files[0]) is None:
        frame = read_parquet(own, f"load({request.entry.name!r})")
        jpeg = dict(zip(frame["filename"], frame["jpeg64"], strict=True))
        stand_in = "UTKFace at its 200 × 200"
    else:
        path, jpeg, stand_in = request.obtain(), {}, None
        # Into memory, 110 MB: out of the middle of a compressed tar nothing can be read.
        with reading(path, "the archive of UTKFace"), tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if member.isfile() and name.endswith(".jpg") and (file := archive.extractfile(member)) is not None:
                    jpeg[name] = file.read()
    return list(jpeg), lambda wanted: [jpeg[name] for name in wanted], stand_in


def _images(pictures: Sequence[Any], y: pd.Series, groups: pd.Series | pd.DataFrame, size: int, cache: bool) -> Any:
    """An `ImageDataset` whose items are (x, y, group); a group of several attributes is a tuple."""
    from optfair.nn import ImageDataset

    who = groups.tolist() if isinstance(groups, pd.Series) else list(groups.itertuples(index=False, name=None))
    return ImageDataset(pictures, y.tolist(), who, size=size, cache=cache)
