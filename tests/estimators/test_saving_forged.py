"""Check files whose arrays or sizes are forged: they are refused, and the process that reads them lives."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from optfair import ModelFileError, load_model
from optfair.estimators.loading import untrusted_types
from optfair.utils.loaded_models import _parts
from tests.estimators.helpers import SEX, X_NEW, X, Y, make_post

pytest.importorskip("skops")
# What a user would do with the file; its exit code is negative where the process crashed.
SCRIPT = """
import sys
import numpy as np
from optfair import ModelFileError, load_model
from optfair.estimators.loading import untrusted_types
try:
    model = load_model(sys.argv[1], trusted=untrusted_types(sys.argv[1]))
except ModelFileError as error:
    sys.exit(str(error))
model.predict_proba(np.zeros((50, 2)), sensitive_features=None)
"""
TREES = {
    "tree": DecisionTreeClassifier(max_depth=3),
    "forest": RandomForestClassifier(3, max_depth=3),
    "boosting": GradientBoostingClassifier(n_estimators=3),
}


def find(model, kind):
    """Return the first object inside a model whose type has this name."""
    return next(part for part in _parts(vars(model)) if type(part).__name__ == kind)


def forge_tree(tree, side, value):
    """Write a value into the root of a tree of scikit-learn."""
    state = tree.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][side][0] = value
    tree.__setstate__(state)


def refuse(path, words):
    """Load a file in a process of its own, and return the line that it ends with."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 1, process.stderr
    line = process.stderr.strip()
    assert line.startswith("model.skops: ") and words in line and "\n" not in line, line


def refuse_here(path, words):
    with pytest.raises(ModelFileError, match=rf"^model\.skops: a part of the model is malformed \(.*{words}") as caught:
        load_model(path, trusted=untrusted_types(path))
    assert "\n" not in str(caught.value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


# -- trees -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left", 2**31, "a child is not a later node"),
        ("feature_idx", 10**9, "a split is on a column beyond"),
        ("feature_idx", 5000, "a split is on a column beyond"),
        ("left", 0, "a child is not a later node"),
    ],
    ids=["child far outside", "feature far outside", "feature outside", "itself"],
)
def test_histogram_boosting(field, value, words, path):
    """The four files that crashed the process, read foreign memory or never ended."""
    model = make_post(HistGradientBoostingClassifier(max_iter=3)).fit(X, Y, sensitive_features=SEX)
    model.save(path)
    np.testing.assert_array_equal(load_model(path).predict_proba(X_NEW), model.predict_proba(X_NEW))
    nodes = find(model, "TreePredictor").nodes
    nodes[field][0] = value
    if field == "left":
        nodes["right"][0] = value
    model.save(path)
    refuse(path, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: setattr(model, "_in_fit", True), "was not fitted to its end"),
        (lambda model: delattr(model, "n_features_in_"), "a part is missing"),
        (lambda model: setattr(model, "n_features_in_", "2"), "n_features_in_ is not an integer"),
        (lambda model: model._predictors[0].__setitem__(0, 1), "something else than trees"),
        (lambda model: model._predictors[0][0].nodes["is_categorical"].fill(1), "is on a column of numbers"),
        (
            lambda model: model._bin_mapper.__dict__.update(is_categorical_=np.ones(9, bool)),
            "bins are for other columns",
        ),
        (lambda model: model._bin_mapper.__dict__.update(is_categorical_=[1, 0]), "columns have no kinds"),
        (lambda model: model._predictors[0][0].__dict__.update(nodes=model._predictors[0][0].nodes[:0]), "no nodes"),
        (lambda model: vars(model).update(_bin_mapper=None), "its bins are of another kind"),
        (lambda model: vars(model).update(predict=np.negative), "in place of its method"),
        (lambda model: vars(model).update(_preprocessor=1), "its encoder of categories is of another kind"),
    ],
)
def test_other_parts_of_histogram_boosting(change, words, path):
    model = make_post(HistGradientBoostingClassifier(max_iter=2)).fit(X, Y, sensitive_features=SEX)
    change(find(model, "HistGradientBoostingClassifier"))
    model.save(path)
    refuse_here(path, words)


def test_categories_of_histogram_boosting(path):
    """A tree with splits by category is loaded as it was; one whose set of categories does not exist is not."""
    data = X.assign(x1=np.arange(len(X)) % 5)
    labels = np.where(np.arange(len(X)) % 5 < 2, Y, "c")
    model = make_post(HistGradientBoostingClassifier(max_iter=3, categorical_features=[0]))
    model.fit(data, labels, sensitive_features=SEX)
    model.save(path)
    names = untrusted_types(path)
    np.testing.assert_array_equal(load_model(path, trusted=names).predict_proba(data), model.predict_proba(data))
    trees = [part for part in _parts(vars(model)) if type(part).__name__ == "TreePredictor"]
    tree = next(tree for tree in trees if tree.nodes["is_categorical"].any())
    tree.nodes["bitset_idx"].fill(10**6)
    model.save(path)
    refuse_here(path, "a set of categories does not exist")
    tree.nodes["bitset_idx"].fill(0)
    tree.raw_left_cat_bitsets = tree.raw_left_cat_bitsets[:, :2].copy()
    model.save(path)
    refuse_here(path, "sets of categories have another shape")


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left_child", 2**40, "a child is not a later node"),
        ("feature", 10**9, "a split is on a column beyond"),
        ("right_child", 0, "a child is not a later node"),
    ],
    ids=["child", "feature", "itself"],
)
def test_trees_of_scikit_learn(kind, field, value, words, path):
    model = make_post(TREES[kind]).fit(X, Y, sensitive_features=SEX)
    model.save(path)
    names = untrusted_types(path)
    np.testing.assert_array_equal(load_model(path, trusted=names).predict_proba(X_NEW), model.predict_proba(X_NEW))
    tree = find(model, "Tree")
    forge_tree(tree, field, value)
    if field == "right_child":
        forge_tree(tree, "left_child", value)
    model.save(path)
    if (kind, field) == ("tree", "left_child"):
        refuse(path, words)
    refuse_here(path, words)


@pytest.mark.parametrize("kind", TREES)
def test_trees_for_other_columns(kind, path):
    """A sound tree of ten columns would read beyond the two of X: who checks X must ask for as many."""
    model = make_post(TREES[kind]).fit(X, Y, sensitive_features=SEX)
    wide = DecisionTreeClassifier(max_depth=2).fit(np.tile(X, (1, 5)), Y)
    victim = find(model, type(TREES[kind]).__name__)
    if kind == "tree":
        victim.tree_ = wide.tree_
    else:
        victim.estimators_[0] = wide  # of boosting: the trees of the first stage
    model.save(path)
    refuse_here(path, "other columns")


# -- other models that compiled code reads -----------------------------------------------------------------------
def test_neighbours(path):
    model = make_post(KNeighborsClassifier(algorithm="brute")).fit(X, Y, sensitive_features=SEX)
    model.save(path)
    np.testing.assert_array_equal(load_model(path).predict_proba(X_NEW), model.predict_proba(X_NEW))
    neighbours = find(model, "KNeighborsClassifier")
    neighbours._y = neighbours._y + 10**7
    model.save(path)
    refuse_here(path, "a label is beyond the classes")


# -- sizes -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.skops"
    make_post().fit(X, Y, sensitive_features=SEX).save(path)
    return path.read_bytes()


def repack(content, **entries):
    """Return the archive compressed, with further or other entries (functions of the old ones)."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, entries.get(name.rpartition(".")[2], lambda data: data)(old.read(name)))
    return out.getvalue()


def test_an_archive_that_unpacks_to_gigabytes(path, content):
    path.write_bytes(repack(content, json=lambda data: data + b" " * (1 << 30)))
    assert path.stat().st_size < 3e6
    refuse(path, "MB allowed; models are saved without compression; allow more by load_model(..., max_bytes=...)")


def test_the_limit_can_be_raised_and_lowered(path, content):
    path.write_bytes(repack(content))
    load_model(path)  # compressed once more by its owner: small models may be
    with pytest.raises(ModelFileError, match=r"^model\.skops: unpacks to 0 MB, more than the 0 MB allowed; "):
        load_model(path, max_bytes=1000)
    load_model(path, max_bytes=10**9)
    with pytest.raises(ValueError, match=r"^max_bytes=0: must be an integer >= 1\.$"):
        load_model(path, max_bytes=0)


def test_an_array_that_declares_more_than_it_holds(path, content):
    """800 GB in a header of 100 bytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
    path.write_bytes(repack(content, npy=lambda data: header.getvalue()))
    with pytest.raises(
        ModelFileError, match=r"^model\.skops: .* declares an array of 800,000 MB and holds 0\.000 MB; "
    ):
        load_model(path)


def test_an_array_that_is_named_many_times(path, content):
    big = io.BytesIO()
    np.save(big, np.zeros(10**6))

    def repeat(data):
        schema = json.loads(data)
        return json.dumps(schema | {"copies": [{"file": next_file(schema)}] * 100}).encode()

    path.write_bytes(repack(content, json=repeat, npy=lambda data: big.getvalue()))
    with pytest.raises(ModelFileError, match=r"^model\.skops: unpacks to [\d,]+ MB, more than the 268 MB allowed"):
        load_model(path)


def next_file(schema):
    """Return the name of an array of the archive."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and str(part.get("file", "")).endswith(".npy"):
            return part["file"]
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
    raise AssertionError
