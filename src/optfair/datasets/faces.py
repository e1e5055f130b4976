"""Read photographs of faces, decoded on demand: CelebA by its attributes, UTKFace by age, sex and race."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.datasets.reading import LoadRequest, RawDataset, check_columns, parsing
from optfair.datasets.tables import name_codes
from optfair.errors import DataFileError, need_extra, warn

# The short names of three attributes are those of the paper's released code.
ATTRIBUTE_OF = {"age": "Young", "sex": "Male", "race": "Pale_Skin"}
GROUP_NAMES = {"Young": ("old", "young"), "Male": ("female", "male"), "Pale_Skin": ("not pale", "pale")}
AGES = ("0-17", "18-29", "30-44", "45-59", "60+")  # their order is the alphabetical one
RACES, SEXES = ("white", "black", "asian", "indian", "other"), ("male", "female")  # codes 0..4 and 0, 1 of UTKFace
# age_sex_race_date; where the race is missing, the third number is the date and is not followed by another one.
UTK_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d.*jpg")
CELEBA_CONTENT = "the attributes of CelebA"
ARCHIVE_CONTENT = "an archive of pictures"


class ZippedPictures(Sequence[bytes]):
    """Read pictures of an archive one by one. Every process opens the archive itself, as its position is not shared."""

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
        with parsing(self._path, ARCHIVE_CONTENT):
            return self._archive[1].read(self._members[row])

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "_members": self._members, "_archive": None}


class Pictures(NamedTuple):
    """File names; a function that opens pictures by name; the original that they stand in for, or None."""

    names: list[str]
    open: Callable[[list[str]], Sequence[Any]]
    stand_in: str | None


# -- CelebA -----------------------------------------------------------------------------------------------
def celeba(
    request: LoadRequest,
    images: bool = True,
    labels: Sequence[str] = ("Smiling", "Big_Nose"),
    size: int = 128,
    cache: bool = False,
) -> RawDataset:
    """Read y = Σ 2^(k−i) label_i (2·Smiling + Big_Nose) by Young, 202,599 pictures; or by other attributes.

    images : False returns a table of the attributes that are neither label nor sensitive, 0 or 1, without pictures.
    labels : attributes, k of which form 2^k classes. size : pictures are (3, size, size). cache : keep them decoded.
    """
    label_names, groups = _check_attributes(request, labels)
    text = f"Classes: {' × '.join(label_names)}; groups: {' × '.join(groups.values())}."
    if not images:
        table = _celeba_attributes(request)
        table = table.take(request.sample(len(table)))
        features = [name for name in request.entry.attributes if name not in (*label_names, *groups.values())]
        X = table[features].astype(np.float32).reset_index(drop=True)
        preparation = (
            f"The {len(features)} attributes that are neither label nor sensitive, 1 or 0; no pictures. {text}"
        )
        return RawDataset(X, _celeba_classes(table, label_names), _celeba_groups(table, groups), preparation)
    need_extra("torch", f"load({request.entry.name!r}) with images (images=False does without)")
    table = _celeba_attributes(request)
    pictures = _celeba_pictures(request)
    has_picture = table.index.isin(pictures.names)
    if not has_picture.any():
        raise DataFileError("celeba: no picture has a name of the table of attributes, such as 000001.jpg.")
    if pictures.stand_in is None and not has_picture.all():
        warn(f"celeba: {(~has_picture).sum():,} of {len(table):,} pictures are missing; their rows are left out.")
    table = table[has_picture]
    table = table.take(request.sample(len(table)))
    y, sensitive_features = _celeba_classes(table, label_names), _celeba_groups(table, groups)
    X = _image_dataset(pictures.open(list(table.index)), y, sensitive_features, size, cache)
    preparation = (
        f"The largest square around the centre, resized to {size} × {size} and normalised by ImageNet's mean and "
        f"standard deviation. {text}"
    )
    return RawDataset(X, y, sensitive_features, preparation, pictures.stand_in)


def _check_attributes(request: LoadRequest, labels: Any) -> tuple[list[str], dict[str, str]]:
    """Return the attributes of the labels, and {name: attribute} of the groups; raise where they overlap."""
    attributes = request.entry.attributes
    names: tuple[str, ...] = request.sensitive if isinstance(request.sensitive, tuple) else (request.sensitive,)
    groups = {name: ATTRIBUTE_OF.get(name, name) for name in names}
    label_names = [labels] if isinstance(labels, str) else list(labels)
    if not label_names or not set(label_names) <= set(attributes) or len(set(label_names)) < len(label_names):
        raise ValueError(f"labels={labels!r}: must be one or several, each once, of {', '.join(attributes)}.")
    if len(set(groups.values())) < len(groups) or set(groups.values()) & set(label_names):
        raise ValueError(f"sensitive={request.sensitive!r}, labels={labels!r}: must be different attributes.")
    return label_names, groups


def _celeba_classes(table: pd.DataFrame, label_names: list[str]) -> pd.Series:
    """Return 2^k classes, numbered by their attributes as binary digits and named after those that are present."""
    code = table[label_names].to_numpy().astype(int) @ (2 ** np.arange(len(label_names))[::-1])
    names, last = [], 2 ** len(label_names) - 1
    for number in range(last + 1):
        present = [name for bit, name in enumerate(reversed(label_names)) if number >> bit & 1]
        names.append(f"{number:0{len(str(last))}d} {' + '.join(reversed(present)) or 'none'}")
    return name_codes(code, names, "+".join(label_names))


def _celeba_groups(table: pd.DataFrame, groups: dict[str, str]) -> pd.Series | pd.DataFrame:
    columns = [
        name_codes(
            table[attribute].to_numpy().astype(int), GROUP_NAMES.get(attribute, (f"not {attribute}", attribute)), name
        )
        for name, attribute in groups.items()
    ]
    return columns[0] if len(columns) == 1 else pd.concat(columns, axis=1)


def _celeba_attributes(request: LoadRequest) -> pd.DataFrame:
    """Read 0 or 1 by file name and attribute from the published text file, or from the same table in $OPTFAIR_DATA."""
    attributes = list(request.entry.attributes)
    if (substitute := request.substitute(0)) is not None:
        table = request.read_parquet(substitute)
        check_columns(table.columns, ["filename", *attributes], substitute, CELEBA_CONTENT)
        return table.set_index("filename")[attributes]
    path = request.obtain(0)
    with parsing(path, CELEBA_CONTENT):
        with open(path, encoding="ascii") as file:  # the number of lines, then the names, then the lines
            count, header = file.readline(), file.readline().split()
        check_columns(header, attributes, path, CELEBA_CONTENT)
        table = pd.read_csv(path, sep=r"\s+", skiprows=2, names=["filename", *header], index_col="filename")
        if len(table) != int(count):
            raise ValueError(f"{len(table)} lines, its first line says {int(count)}")
        if not table.isin([-1, 1]).all(axis=None):
            raise ValueError("values other than -1 and 1")
    return table[attributes] > 0


def _celeba_pictures(request: LoadRequest) -> Pictures:
    """Find the pictures in an unpacked folder, a table of $OPTFAIR_DATA, or the published archive."""
    if (folder := request.unpacked(1)) is not None:
        return Pictures(sorted(os.listdir(folder)), lambda names: [str(folder / name) for name in names], None)
    if (substitute := request.substitute(1)) is not None:
        frame = request.read_parquet(substitute)
        jpeg = dict(zip(frame["filename"], frame["jpeg"], strict=True))
        stand_in = "CelebA with all its images, of 178 × 218"
        return Pictures(list(jpeg), lambda names: [jpeg[name] for name in names], stand_in)
    path = request.obtain(1)
    with parsing(path, ARCHIVE_CONTENT), zipfile.ZipFile(path) as archive:
        member = {name.rpartition("/")[2]: name for name in archive.namelist() if not name.endswith("/")}
    return Pictures(sorted(member), lambda names: ZippedPictures(path, [member[name] for name in names]), None)


# -- UTKFace ----------------------------------------------------------------------------------------------
def utkface(request: LoadRequest, size: int = 64, cache: bool = False) -> RawDataset:
    """Read age in five bins by race (5 groups) or sex, 23,704 pictures; the three without a race are left out.

    size : pictures are (3, size, size). cache : keep them decoded.
    """
    need_extra("torch", f"load({request.entry.name!r})")
    pictures = _utk_pictures(request)
    matches = {name: match for name in sorted(pictures.names) if (match := UTK_NAME.fullmatch(name))}
    if not matches:
        raise DataFileError("utkface: no picture is named as in UTKFace, age_sex_race_date.jpg.")
    names = list(matches)
    codes = np.array([[int(number) for number in match.groups()] for match in matches.values()])
    rows = request.sample(len(names))
    age, sex, race = codes[rows].T
    y = name_codes(np.searchsorted([18, 30, 45, 60], age, side="right"), AGES, "age")
    groups = name_codes(race, RACES, "race") if request.sensitive == "race" else name_codes(sex, SEXES, "sex")
    X = _image_dataset(pictures.open([names[row] for row in rows]), y, groups, size, cache)
    preparation = (
        f"Age, sex and race are read from the file names, {len(pictures.names) - len(names)} of which lack the race "
        f"and are left out; pictures are resized to {size} × {size} and normalised by ImageNet's mean and standard "
        "deviation."
    )
    return RawDataset(X, y, groups, preparation, pictures.stand_in)


def _utk_pictures(request: LoadRequest) -> Pictures:
    """Find the pictures in an unpacked folder, a table of $OPTFAIR_DATA, or the published archive."""
    if (folder := request.unpacked()) is not None:
        names = [name for name in os.listdir(folder) if name.endswith(".jpg")]
        return Pictures(names, lambda names: [str(folder / name) for name in names], None)
    if (substitute := request.substitute()) is not None:
        frame = request.read_parquet(substitute)
        jpeg = dict(zip(frame["filename"], frame["jpeg64"], strict=True))
        stand_in = "UTKFace at its 200 × 200"
    else:
        path, jpeg, stand_in = request.obtain(), {}, None
        # Into memory, 110 MB: single members of a compressed tar cannot be read without those before them.
        with parsing(path, "the archive of UTKFace"), tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if member.isfile() and name.endswith(".jpg") and (file := archive.extractfile(member)) is not None:
                    jpeg[name] = file.read()
    return Pictures(list(jpeg), lambda names: [jpeg[name] for name in names], stand_in)


def _image_dataset(
    pictures: Sequence[Any], y: pd.Series, groups: pd.Series | pd.DataFrame, size: int, cache: bool
) -> Any:
    """Return an `ImageDataset` whose items are (x, y, group); a group of several attributes is a tuple."""
    from optfair.nn import ImageDataset

    labels = groups.tolist() if isinstance(groups, pd.Series) else list(groups.itertuples(index=False, name=None))
    return ImageDataset(pictures, y.tolist(), labels, size=size, cache=cache)
