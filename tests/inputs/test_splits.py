"""Folds depend on the content of the rows, every row is in one test part, and each stratum is divided evenly."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import KFold, ShuffleSplit

from optfair.inputs.containers import take_rows
from optfair.inputs.splits import content_folds, held_out_rows, make_splits, split_held_out
from tests.inputs.helpers import N_CLASSES, N_GROUPS, gather, random_data, to_objects, to_pandas


# -- folds by content ----------------------------------------------------------------------------------------
@st.composite
def tables(draw):
    """Draw (rows, strata, number of folds)."""
    row = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "c"]))
    rows = draw(st.lists(row, min_size=1, max_size=40))
    strata = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    return [list(row) for row in rows], np.array(strata), draw(st.integers(2, 5))


@given(tables(), st.randoms())
def test_folds_depend_on_the_rows_and_not_on_their_positions(table, random):
    rows, strata, k = table
    order = random.sample(range(len(rows)), len(rows))
    permuted = take_rows(rows, order), strata[order]
    folds, permuted_folds = content_folds(rows, strata, k), content_folds(*permuted, k)
    assert folds.shape == (len(rows),) and folds.min() >= 0 and folds.max() < k

    def members(X, stratum, fold):
        return sorted((tuple(row), int(s), int(f)) for row, s, f in zip(X, stratum, fold, strict=True))

    # Copies in one stratum are the same row to every model, so it does not matter which of them is in which fold.
    assert members(rows, strata, folds) == members(*permuted, permuted_folds)


@given(tables())
def test_folds_are_balanced_in_every_stratum_and_for_every_row_of_it(table):
    rows, strata, k = table
    folds = content_folds(rows, strata, k)
    pairs = [(tuple(row), s) for row, s in zip(rows, strata, strict=True)]
    masks = [strata == s for s in np.unique(strata)] + [np.ones(len(rows), bool)]
    masks += [np.array([other == pair for other in pairs]) for pair in set(pairs)]
    for mask in masks:
        counts = np.bincount(folds[mask], minlength=k)
        assert counts.max() - counts.min() <= 1


def test_small_strata_do_not_all_begin_in_one_fold():
    folds = content_folds(np.arange(10)[:, None], np.arange(10), 5)
    assert np.bincount(folds).tolist() == [2, 2, 2, 2, 2]


def test_folds_do_not_depend_on_the_container():
    rows, strata = [[f"t{i % 7}", i % 5] for i in range(60)], np.arange(60) % 3
    expected = content_folds(rows, strata, 4)
    assert len(set(expected)) == 4
    for X in (to_objects(rows), to_pandas(rows), to_pandas(rows).astype({"c0": "category", "c1": float})):
        assert np.array_equal(content_folds(X, strata, 4), expected)
    texts = [row[0] for row in rows]
    assert np.array_equal(content_folds(texts, strata, 4), content_folds(np.array(texts), strata, 4))
    assert content_folds(sparse.eye_array(6).tocsr(), np.zeros(6, int), 3).tolist().count(0) == 2


def test_copies_of_a_row_are_in_several_folds():
    """Check that means of y out of fold, one per distinct x, agree with the labels: each x is in every fold."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 23, (4000, 1))
    y = (rng.random(4000) < rng.uniform(0.2, 0.8, 23)[X[:, 0]]).astype(int)
    folds = content_folds(X, y, 5)
    means = np.empty(4000)
    for k in range(5):
        for x in range(23):
            means[(X[:, 0] == x) & (folds == k)] = y[(X[:, 0] == x) & (folds != k)].mean()
    assert np.corrcoef(means, y)[0, 1] > 0.25


# -- splits --------------------------------------------------------------------------------------------------
def assert_partition(splits, n):
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(n))
    for train, test in splits:
        assert len(train) and len(test) and not set(train) & set(test)


@pytest.mark.parametrize(
    "cv, n_folds",
    [
        (4, 4),
        (np.int64(3), 3),
        (None, 5),
        ("prefit", 5),
        (KFold(3), 3),
        (KFold(3, shuffle=True, random_state=0), 3),
        (list(KFold(6).split(np.zeros(240))), 6),
    ],
    ids=["int", "numpy int", "None", "prefit", "splitter", "shuffled", "list"],
)
def test_every_row_is_in_one_test_part(cv, n_folds):
    splits = make_splits(cv, random_data())
    assert len(splits) == n_folds
    assert_partition(splits, 240)


def test_a_generator_of_splits_is_a_list_of_splits():
    assert_partition(make_splits(KFold(4).split(np.zeros(240)), random_data()), 240)


def test_there_are_at_most_as_many_folds_as_rows():
    splits = make_splits(30, random_data(n=30))
    assert_partition(splits, 30)
    assert all(len(test) == 1 for _, test in splits)
    with pytest.raises(ValueError, match=r"^cv=1000: there are 30 rows, and a fold needs one; give fewer folds"):
        make_splits(1000, random_data(n=30))
    assert_partition(make_splits(5, random_data(n=4)), 4)  # the default number of folds does for fewer rows


def test_folds_by_number_do_not_depend_on_the_order():
    data = random_data(12)
    order = np.random.default_rng(13).permutation(240)
    permuted = gather(data.X[order], data.a[order], data.y[order])

    def parts(splits, row_ids):
        return {frozenset(row_ids[test]) for _, test in splits}

    assert parts(make_splits(4, data), np.arange(240)) == parts(make_splits(4, permuted), order)


def test_folds_by_number_are_stratified_by_cell():
    data = random_data(14)
    for cell in range(N_GROUPS * N_CLASSES):
        sizes = [np.count_nonzero(data.cell[test] == cell) for _, test in make_splits(5, data)]
        assert max(sizes) - min(sizes) <= 1


def test_splits_of_the_caller_are_positions_among_all_given_rows():
    """Rows of weight zero are left out: positions shift, and the parts are those of the caller without these rows."""
    weight = np.tile([1.0, 0.0, 2.0], 80)
    positions = np.flatnonzero(weight)
    full = random_data(15)
    data = gather(full.X[positions], full.a[positions], full.y[positions], weight[positions], positions, 240)
    expected = list(KFold(4, shuffle=True, random_state=1).split(np.zeros(240)))
    for cv in (expected, KFold(4, shuffle=True, random_state=1)):
        splits = make_splits(cv, data)
        assert_partition(splits, len(positions))
        for (train, test), (all_train, all_test) in zip(splits, expected, strict=True):
            assert set(positions[train]) == set(all_train) & set(positions)
            assert set(positions[test]) == set(all_test) & set(positions)


@pytest.mark.parametrize("cv", [0, 1, -3])
def test_too_few_folds_are_refused(cv):
    message = f"cv={cv}: must be at least 2 folds, a splitter, a list of splits, or 'prefit'."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_splits(cv, random_data())


@pytest.mark.parametrize("cv", [True, 2.5])
def test_what_makes_no_splits_is_refused(cv):
    message = f"cv={cv}: must be a number of folds, a splitter, a list of splits, or 'prefit' ("
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make_splits(cv, random_data())


@pytest.mark.parametrize("cv", [[], [(np.arange(3),)], [(np.arange(3), np.arange(900, 903))], np.arange(3)], ids=str)
def test_what_is_no_list_of_splits_is_refused_by_name(cv):
    with pytest.raises(ValueError, match=r"^cv"):
        make_splits(cv, random_data())


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(1, test_size=0.5, random_state=0),
        [(np.arange(120), np.arange(120, 240))],
        [(np.arange(120, 240), np.arange(120))] * 2 + [(np.arange(120), np.arange(120, 240))],
    ],
    ids=["random", "half of the rows", "half of the rows twice"],
)
def test_splits_that_are_no_partition_are_refused(cv):
    message = (
        "cv: 120 rows are not in exactly one test part; out-of-fold posteriors need a partition, such as KFold gives."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_splits(cv, random_data())


@pytest.mark.parametrize("train", [np.arange(60), np.arange(0)], ids=["overlaps its test part", "empty"])
def test_training_parts_must_be_apart_from_their_test_parts(train):
    splits = [(train, np.arange(30)), (np.arange(30), np.arange(30, 60))]
    with pytest.raises(ValueError, match="cv: a training part is empty, or holds people of its test part"):
        make_splits(splits, random_data(n=60))


# -- rows held out -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_the_same_share_of_every_stratum_is_held_out(share):
    strata = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [200, 40, 20]))
    mask = held_out_rows(strata, share, 1)
    counts = np.bincount(strata, mask)
    assert (np.abs(counts - share * np.array([200, 40, 20])) <= 1).all() and abs(mask.sum() - share * 260) <= 1
    assert (mask == held_out_rows(strata, share, 1)).all() and (mask != held_out_rows(strata, share, 2)).any()


def test_rows_held_out_are_a_part_with_every_group_and_class():
    data = random_data(3)
    train, test = split_held_out(data, 0.25, 0)
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(240))
    mask = held_out_rows(data.cell, 0.25, 0)
    np.testing.assert_array_equal(test, np.flatnonzero(mask))
    for part in (train, test):
        assert set(data.a[part]) == set(range(N_GROUPS)) and set(data.y[part]) == set(range(N_CLASSES))


def test_a_group_of_one_row_cannot_be_held_out():
    data = random_data(4)
    lonely = gather(data.X, np.r_[1, np.zeros(239, int)], data.y)
    with pytest.raises(ValueError, match=r"held_out=0.25: divides the people into 180 and 60, of whom one part lacks"):
        split_held_out(lonely, 0.25, 0)
