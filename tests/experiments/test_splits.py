"""Check who is trained on and who is tested on, and the features of a frozen network."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments import splits
from experiments.catalogue import read_experiment
from experiments.data_plan import SYNTHETIC, available_source
from experiments.plan import Plan, Run
from experiments.splits import load_split
from optfair.datasets import load
from optfair.errors import DataFileError
from tests.experiments.lines import lay_out


def adult_run(part="test", seed=3, rows=1333):
    return Run("adult", "adult", "ERM", "dp", None, seed, part, rows, options={"model": {}})


@pytest.mark.parametrize("seed", [1, 4])
def test_the_split_is_that_of_the_authors(tmp_path, data_plans, seed):
    whole = load("adult", rows=1333)
    order = np.random.RandomState(1 + seed).permutation(1333)
    split = load_split(data_plans["adult"], adult_run(seed=seed), tmp_path)
    for part, rows in ((split.train, order[: int(0.6 * 1333)]), (split.test, order[int(0.6 * 1333) :])):
        np.testing.assert_array_equal(part.X.to_numpy(), whole.X.iloc[rows].to_numpy(np.float32))
        assert (part.y == whole.y.iloc[rows].to_numpy(str)).all()
        assert (part.group == whole.sensitive_features.iloc[rows].to_numpy(str)).all()
    assert split.stand_in is None


def test_arrays_are_doubles_and_a_random_split_is_by_the_new_generator(tmp_path, data_plans):
    plan = replace(data_plans["adult-arrays"], split="random", rows=1333)
    split = load_split(plan, replace(adult_run(seed=7), data="adult-arrays"), tmp_path)
    whole = load("adult", rows=1333, random_state=7)  # the sample is of the same seed
    rows = np.random.default_rng(7).permutation(1333)[: int(0.6 * 1333)]
    assert split.train.X.dtype == np.float64
    np.testing.assert_array_equal(split.train.X, whole.X.iloc[rows].to_numpy(float))


def test_trials_see_no_row_of_the_test_part(tmp_path, data_plans):
    final, trial = (load_split(data_plans["adult"], adult_run(part), tmp_path) for part in ("test", "validation"))
    parts = [set(part.X.index) for part in (final.train, final.test, trial.train, trial.test)]
    assert not parts[0] & parts[1] and not parts[2] & parts[3]
    assert parts[2] | parts[3] == parts[0] and len(parts[0] | parts[1]) == 1333
    assert abs(len(parts[3]) - 0.25 * len(parts[0])) < 1


def test_synthetic_data_are_split_too(tmp_path, data_plans):
    plan = data_plans["world-3x3"]
    run = Run("world-3x3", SYNTHETIC, "ERM", "dp", None, 2, "test", 1000, {})
    final, trial = (load_split(plan, replace(run, part=part), tmp_path) for part in ("test", "validation"))
    parts = [set(part.X.itertuples(index=False)) for part in (final.train, final.test, trial.train, trial.test)]
    assert [len(part) for part in parts] == [500, 500, 375, 125]
    assert not parts[0] & parts[1] and not parts[2] & parts[3] and parts[2] | parts[3] == parts[0]
    assert final.world is not None
    other = load_split(plan, replace(run, seed=3), tmp_path)
    assert not parts[0] & set(other.train.X.itertuples(index=False))


def test_a_run_has_the_same_data_every_time(tmp_path, data_plans):
    synthetic = Run("world-5x5", SYNTHETIC, "ERM", "dp", None, 2, "test", 400, {})
    for plan, run in ((data_plans["adult"], adult_run()), (data_plans["world-5x5"], synthetic)):
        first = load_split(plan, run, tmp_path)
        splits._load.cache_clear()
        second = load_split(plan, run, tmp_path)
        for a, b in ((first.train, second.train), (first.test, second.test)):
            pd.testing.assert_frame_equal(a.X, b.X)
            assert (a.y == b.y).all() and (a.group == b.group).all()


def test_smoke_takes_synthetic_data_where_there_are_none(tmp_path, no_data, data_plans):
    assert available_source(data_plans["adult"], smoke=True) == "adult"
    for name, shape in (("enem", (192,)), ("celeba-c1", (192,)), ("images-c2", (3, 8, 8)), ("enem-boosted", (192,))):
        assert available_source(data_plans[name], smoke=True) == SYNTHETIC
        split = load_split(data_plans[name], Run(name, SYNTHETIC, "ERM", "dp", None, 1, "test", 300, {}), tmp_path)
        assert split.train.X.shape == (180, *shape) and len(split.test.y) == 120 and split.stand_in == SYNTHETIC


@pytest.mark.data
def test_lines_say_what_data_stand_in_for(data_dir, tmp_path, data_plans):
    pytest.importorskip("pyarrow")
    try:
        source = available_source(data_plans["enem"])
    except DataFileError as missing:
        pytest.skip(str(missing))
    split = load_split(data_plans["enem"], Run("enem", source, "ERM", "dp", None, 1, "test", 500, {}), tmp_path)
    assert bool(split.stand_in) == (source != "enem") and len(split.train.y) == 300


# -- features of a frozen network ---------------------------------------------------------------------------
@pytest.fixture
def faces(no_data):
    """Return a run on the features of a network, of synthetic images."""
    pytest.importorskip("torch")
    runs = lay_out(Plan({}, smoke=True, only=("celeba",)), read_experiment("frontiers"))[1]
    run = next(run for run in runs if run.method == "ERM")
    network = run.options["features"] | {"epochs": 1, "batch_size": 64}
    return replace(run, rows=150, options={**run.options, "features": network})


def test_features_are_computed_once_and_kept(faces, tmp_path, data_plans):
    plan, cache = data_plans["celeba"], tmp_path / "new" / "cache"
    first = load_split(plan, faces, cache)
    (file,) = cache.glob("*.npy")
    assert first.train.X.shape == (90, 256) and len(first.test.X) == 60 and np.isfinite(first.train.X).all()
    assert sorted(path.suffix for path in cache.iterdir()) == [".lock", ".npy"]
    before = file.stat()
    second = load_split(plan, faces, cache)
    assert (second.train.X == first.train.X).all() and (second.test.X == first.test.X).all()
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    np.save(file, np.zeros((150, 2)))  # the content of the file is used
    assert load_split(plan, faces, cache).test.X.shape == (60, 2)
    for other in (replace(faces, part="validation"), replace(faces, seed=2)):
        assert load_split(plan, other, cache).train.X.shape[1] == 256
    assert len(list(cache.glob("*.npy"))) == 3


def test_features_do_not_depend_on_the_labels_of_the_test_part(faces, tmp_path, monkeypatch, data_plans):
    X, y, group, stand_in = splits._load(json.dumps({"name": SYNTHETIC, "images": True}), (150, 0))
    order = np.random.RandomState(1 + faces.seed).permutation(150)
    features = []
    for rows in (order[:0], order[90:], order[:90]):  # reverse no label, those of the test part, those of the others
        labels = y.copy()
        labels[rows] = y[rows][::-1]
        monkeypatch.setattr(splits, "_load", lambda *_, y=labels: (X, y, group, stand_in))
        split = load_split(data_plans["celeba"], faces, tmp_path / f"{len(features)}")
        features.append(np.concatenate([split.train.X, split.test.X]))
    assert (y[order[90:]] != y[order[90:]][::-1]).any()
    np.testing.assert_array_equal(features[0], features[1])
    assert np.abs(features[0] - features[2]).max() > 1e-4
