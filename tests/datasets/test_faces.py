"""CelebA and UTKFace, on small files written as their sources do."""

import pickle

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairWarning, datasets
from optfair.errors import DataFileError
from tests.datasets.files import (
    CELEBA_FOLDER,
    CELEBA_TXT,
    CELEBA_ZIP,
    UTK_FOLDER,
    UTK_TAR,
    celeba_table,
    celeba_text,
    check_table,
    jpeg,
    tar_archive,
    write,
    zip_archive,
)

CLASSES = ["0 none", "1 Big_Nose", "2 Smiling", "3 Smiling + Big_Nose"]


@pytest.fixture
def celeba(data_folder, no_checksums):
    """The table of attributes, which is also in $OPTFAIR_DATA as the published text file."""
    table = celeba_table()
    write(data_folder / CELEBA_TXT, celeba_text(table))
    return table


def test_celeba_attributes(celeba):
    data = check_table(datasets.load("celeba", images=False, download=False))
    assert data.y.tolist() == CLASSES * 2 and data.class_names == CLASSES and data.stand_in is None
    assert data.sensitive_features.name == "age"
    assert data.sensitive_features.tolist() == ["young" if young else "old" for young in celeba["Young"]]
    features = celeba.drop(columns=["Smiling", "Big_Nose", "Young"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(data.X, features, check_dtype=False)
    by_sex = datasets.load("celeba", images=False, sensitive="sex", labels="Smiling", rows=5)
    assert by_sex.class_names == ["0 none", "1 Smiling"] and len(by_sex) == 5 and "Male" not in by_sex.X
    assert datasets.load("celeba", images=False, sensitive="race").sensitive_features.isin(["pale", "not pale"]).all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_scalability_sets_of_the_paper(celeba, k):
    attributes = ("Young", "Male", "Black_Hair")[:k]
    labels = ("Smiling", "Big_Nose", "Attractive", "Bags_Under_Eyes")[: k + 1]
    data = check_table(datasets.load("celeba", images=False, sensitive=attributes, labels=labels))
    code = sum(celeba[label] * 2 ** (k - i) for i, label in enumerate(labels))
    assert [int(name.split()[0]) for name in data.y] == code.tolist()
    assert data.class_names == sorted(data.class_names, key=lambda name: int(name.split()[0]))
    assert data.X.shape[1] == 40 - k - (k + 1)
    groups = data.sensitive_features if k > 1 else data.sensitive_features.to_frame()
    for attribute in attributes:
        name = {"Young": "young", "Male": "male"}.get(attribute, attribute)
        np.testing.assert_array_equal(groups[attribute] == name, celeba[attribute] == 1)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of Python 3.12, for fork where threads are
@pytest.mark.parametrize("source", ["zip", "folder"])
def test_celeba_pictures(celeba, data_folder, source):
    torch = pytest.importorskip("torch")
    colours = {name: (30 * i, 10, 250 - 30 * i) for i, name in enumerate(celeba.index)}
    if source == "zip":
        members = {"img_align_celeba/": b""} | {f"img_align_celeba/{n}": jpeg(c) for n, c in reversed(colours.items())}
        write(data_folder / CELEBA_ZIP, zip_archive(members))
    else:
        for name, colour in colours.items():
            write(data_folder / CELEBA_FOLDER / name, jpeg(colour))
    data = datasets.load("celeba", size=8, download=False)
    assert len(data) == 8 and data.feature_names == [] and "an image each" in repr(data) and data.stand_in is None
    for row, colour in enumerate(colours.values()):
        assert np.abs(data.X.picture(row).astype(int) - colour).max() <= 3
    x, y, group = data.X[2]
    assert x.shape == (3, 8, 8) and (y, group) == (data.y[2], data.sensitive_features[2])
    restored = pickle.loads(pickle.dumps(data.X))  # with the archive open
    np.testing.assert_array_equal(restored[5][0], data.X[5][0])
    items = list(torch.utils.data.DataLoader(data.X, batch_size=None, num_workers=2))
    assert [item[1] for item in items] == data.y.tolist()
    assert all(torch.equal(item[0], data.X[i][0]) for i, item in enumerate(items))
    pairs = datasets.load("celeba", size=8, sensitive=("age", "sex"), rows=3)
    assert pairs.X[0][2] == tuple(pairs.sensitive_features.iloc[0]) and list(pairs.sensitive_features) == ["age", "sex"]
    part = data.take(np.array([3, 1]))
    assert part.X[0][1] == data.y[3] == part.y[0]


def test_celeba_with_pictures_missing(celeba, data_folder):
    pytest.importorskip("torch")
    members = {f"img_align_celeba/{name}": jpeg((9, 9, 9)) for name in celeba.index[:6]}
    path = write(data_folder / CELEBA_ZIP, zip_archive(members | {"img_align_celeba/.DS_Store": b"x"}))
    with pytest.warns(OptFairWarning, match="2 of 8 pictures are missing"):
        assert len(datasets.load("celeba", size=8)) == 6
    write(path, zip_archive({"a/b.jpg": b""}))
    with pytest.raises(DataFileError, match="no picture has a name of the table of attributes"):
        datasets.load("celeba", size=8)


def test_the_stand_in_of_celeba(celeba, data_folder):
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    pictures = {"filename": celeba.index[:3], "jpeg": [jpeg((i, i, i), (89, 109)) for i in (10, 20, 30)]}
    pd.DataFrame(pictures).to_parquet(data_folder / "celeba" / "celeba_first10k_images_89x109_jpeg.parquet")
    data = datasets.load("celeba", size=8, download=False)
    assert len(data) == 3 and data.stand_in.startswith("CelebA") and data.stand_in in data.description
    assert data.y.tolist() == CLASSES[:3] and data.X.picture(2)[0, 0].tolist() == [30, 30, 30]
    (data_folder / CELEBA_TXT).unlink()
    table = (celeba == 1).rename_axis("filename").reset_index()
    table.to_parquet(data_folder / "celeba" / "celeba_attributes.parquet")
    assert datasets.load("celeba", size=8, download=False).y.tolist() == CLASSES[:3]
    assert datasets.load("celeba", images=False, download=False).stand_in is None


def test_the_published_checksum_counts(data_folder):
    write(data_folder / CELEBA_TXT, celeba_text(celeba_table()))
    with pytest.raises(DataFileError, match=r"list_attr_celeba.txt: its md5 is .*published by torchvision"):
        datasets.load("celeba", images=False, download=False)


UTK = {  # name: (age, sex, race), or None where it is left out
    "1_0_0_20161219140623097.jpg.chip.jpg": ("0-17", "male", "white"),
    "17_1_1_20170109.jpg.chip.jpg": ("0-17", "female", "black"),
    "18_0_2_20170109.jpg.chip.jpg": ("18-29", "male", "asian"),
    "29_1_3_20170109 .jpg.chip.jpg": ("18-29", "female", "indian"),
    "30_0_4_20170109jpg.chip.jpg": ("30-44", "male", "other"),
    "44_1_0_20170109.jpg": ("30-44", "female", "white"),
    "45_0_0_20170109.jpg.chip.jpg": ("45-59", "male", "white"),
    "59_1_1_20170109.jpg.chip.jpg": ("45-59", "female", "black"),
    "60_0_1_20170109.jpg.chip.jpg": ("60+", "male", "black"),
    "116_1_0_20170120134921760.jpg.chip.jpg": ("60+", "female", "white"),
    "61_1_20170109142408075.jpg.chip.jpg": None,
    "39_1_20170116174525125.jpg.chip.jpg": None,
}


@pytest.mark.parametrize("source", ["tar", "folder"])
def test_utkface(data_folder, source):
    pytest.importorskip("torch")
    pictures = {name: jpeg((20 * i, 0, 0), (200, 200)) for i, name in enumerate(UTK)}
    if source == "folder":
        for name, content in pictures.items():
            write(data_folder / UTK_FOLDER / name, content)
    else:
        members = pictures | {"._1_0_0_2.jpg": b"Mac OS X", "README": b""}
        write(data_folder / UTK_TAR, tar_archive({f"UTKFace/{name}": content for name, content in members.items()}))
    data = datasets.load("utkface", size=8, download=False)
    names = sorted(name for name, truth in UTK.items() if truth)
    assert data.y.tolist() == [UTK[name][0] for name in names] and data.stand_in is None
    assert data.sensitive_features.tolist() == [UTK[name][2] for name in names]
    assert data.class_names == ["0-17", "18-29", "30-44", "45-59", "60+"]
    for row, name in enumerate(names):
        assert abs(int(data.X.picture(row)[4, 4, 0]) - 20 * list(UTK).index(name)) <= 3
    by_sex = datasets.load("utkface", sensitive="sex", rows=4)
    assert set(by_sex.group_names) <= {"male", "female"} and by_sex.X[0][0].shape == (3, 64, 64)
