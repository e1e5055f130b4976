"""Parts cut nobody through, do not depend on the order of the rows, and share out every stratum."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, check_cv

from optfair.inputs.clusters import count_cut, deal_clusters, encode_clusters
from optfair.inputs.splits import held_out_rows, make_splits, split_held_out
from tests.inputs.helpers import gather, random_data


def with_clusters(data, cluster):
    return replace(data, given_clusters=encode_clusters(cluster, data.n_given))


def people(data, mean_rows=3, seed=7):
    """Return an id of each row: some people have several."""
    return np.random.default_rng(seed).integers(0, data.n_given // mean_rows, data.n_given)


# -- codes ---------------------------------------------------------------------------------------------------
@given(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from("abc")), min_size=1, max_size=30), st.randoms())
def test_codes_tell_the_same_people_apart_whatever_the_order(ids, random):
    codes = encode_clusters(ids, len(ids))
    assert sorted(set(codes)) == list(range(len(set(ids))))
    assert len({*zip(ids, codes, strict=True)}) == len(set(ids))
    order = random.sample(range(len(ids)), len(ids))
    np.testing.assert_array_equal(encode_clusters([ids[k] for k in order], len(ids)), codes[order])


def test_codes_do_not_depend_on_the_container():
    ids = [5, 3, 5, 9, 1]
    expected = encode_clusters(ids, 5)
    for values in (np.array(ids), pd.Series(ids, index=list("abcde")), tuple(ids), np.array(ids, dtype=float)):
        np.testing.assert_array_equal(encode_clusters(values, 5), expected)
    assert encode_clusters(None, 5) is None


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("person", r"cluster='person': give the id of every row, such as X\['person'\]"),
        ([1, 2], "cluster: has 2 rows but X has 3; they must have the same rows"),
        (np.ones((3, 2)), r"cluster: has shape \(3, 2\); must be 1-d, one id per row"),
        ([1, None, float("nan")], "cluster: 2 of 3 rows are missing; drop them, or give each an id of its own"),
        ([[1], [2], [3]], "cluster: holds values that cannot be ids; use numbers or texts"),
    ],
)
def test_what_is_no_id_per_row_is_refused(cluster, message):
    with pytest.raises(ValueError, match=message):
        encode_clusters(cluster, 3)


# -- parts ---------------------------------------------------------------------------------------------------
@st.composite
def clustered(draw):
    """Draw (cluster, strata, number of parts), with at least as many clusters as parts."""
    n = draw(st.integers(5, 60))
    cluster = draw(st.lists(st.integers(0, n), min_size=n, max_size=n))
    strata = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(cluster), np.array(strata), draw(st.integers(1, min(5, len(set(cluster)))))


@given(clustered(), st.randoms())
def test_clusters_are_whole_no_part_is_empty_and_the_order_of_rows_does_not_matter(table, random):
    cluster, strata, k = table
    part = deal_clusters(cluster, strata, np.full(k, 1 / k))
    assert set(part) == set(range(k))
    assert len({*zip(cluster, part, strict=True)}) == len(set(cluster))
    order = random.sample(range(len(cluster)), len(cluster))
    np.testing.assert_array_equal(deal_clusters(cluster[order], strata[order], np.full(k, 1 / k)), part[order])


@given(clustered())
def test_clusters_of_one_row_are_dealt_as_evenly_as_rows(table):
    _, strata, k = table
    part = deal_clusters(np.arange(len(strata)), strata, np.full(k, 1 / k))
    for mask in [strata == s for s in np.unique(strata)] + [np.ones(len(strata), bool)]:
        counts = np.bincount(part[mask], minlength=k)
        assert counts.max() - counts.min() <= 1


def test_many_clusters_of_one_row_are_dealt_in_blocks(monkeypatch):
    strata = np.random.default_rng(0).integers(0, 3, 500)
    monkeypatch.setattr("optfair.inputs.clusters.SINGLE_BLOCK", 7)
    part = deal_clusters(np.arange(500), strata, np.full(4, 0.25))
    for s in range(3):
        counts = np.bincount(part[strata == s])
        assert counts.max() - counts.min() <= 1


def test_strata_are_shared_out_as_well_as_scikit_learn_does():
    """Compare the spread of the strata over five folds with that of StratifiedGroupKFold."""
    rng = np.random.default_rng(0)

    def spread(part, strata):
        counts = np.array([np.bincount(strata[part == f], minlength=6) for f in range(5)])
        return (counts / counts.sum(axis=0)).std(axis=0).mean()

    ours, theirs = [], []
    for n_clusters in (20, 60, 300, 1500):
        cluster = rng.integers(0, n_clusters, 2000)
        strata = cluster % 3 * 2 + rng.integers(0, 2, 2000)
        other = np.empty(2000, dtype=int)
        for fold, (_, test) in enumerate(StratifiedGroupKFold(5).split(strata, strata, cluster)):
            other[test] = fold
        ours.append(spread(deal_clusters(cluster, strata, np.full(5, 0.2)), strata))
        theirs.append(spread(other, strata))
    assert np.mean(ours) < 1.2 * np.mean(theirs)


# -- splits --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cv", [4, None, "prefit", GroupKFold(4), StratifiedGroupKFold(3)], ids=str)
def test_no_split_cuts_a_person_through(cv):
    data = random_data(16)
    data = with_clusters(data, people(data))
    splits = make_splits(cv, data)
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(240))
    assert count_cut(data.cluster, splits) == 0
    assert count_cut(data.cluster, make_splits(cv if isinstance(cv, int) else 4, random_data(16))) > 0


def test_folds_of_people_do_not_depend_on_the_order_of_the_rows():
    data = random_data(17)
    ids, order = people(data), np.random.default_rng(18).permutation(240)
    permuted = with_clusters(gather(data.X[order], data.a[order], data.y[order]), ids[order])
    one, other = make_splits(4, with_clusters(data, ids)), make_splits(4, permuted)
    assert [set(test) for _, test in one] == [set(order[test]) for _, test in other]


def test_people_are_known_among_all_given_rows():
    """Rows of weight zero are left out, and a splitter is told the people of all rows, as it is told their number."""
    positions = np.flatnonzero(np.arange(240) % 3)
    full = random_data(19)
    ids = people(full)
    data = with_clusters(gather(full.X[positions], full.a[positions], full.y[positions], None, positions, 240), ids)
    expected = list(GroupKFold(4).split(np.zeros(240), None, encode_clusters(ids, 240)))
    for (_, test), (_, all_test) in zip(make_splits(GroupKFold(4), data), expected, strict=True):
        assert set(positions[test]) == set(all_test) & set(positions)
    assert data.take(np.arange(5)).cluster.tolist() == data.cluster[:5].tolist()


def test_splits_that_cut_people_through_are_refused_with_their_number():
    data = random_data(20)
    data = with_clusters(data, np.r_[np.arange(239), 0])  # one person, in the first and the last fold
    with pytest.raises(ValueError, match=r"cv: cuts 1 clusters through, with rows in a training part and in its test"):
        make_splits(KFold(4), data)
    assert len(make_splits(check_cv([(np.r_[60:180], np.r_[0:60, 180:240]), (np.r_[0:60], np.r_[60:180])]), data)) == 2


def test_more_folds_than_people_are_refused():
    data = random_data(21)
    with pytest.raises(ValueError, match="cv=5: there are 3 clusters, and a fold needs one; give fewer folds"):
        make_splits(5, with_clusters(data, np.arange(240) % 3))
    assert len(make_splits(3, with_clusters(data, np.arange(240) % 3))) == 3


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_people_are_held_out_whole_in_the_share_asked_for(share):
    data = random_data(22)
    data = with_clusters(data, people(data))
    _, test = split_held_out(data, share, 1)
    mask = np.isin(np.arange(240), test)
    assert not set(data.cluster[mask]) & set(data.cluster[~mask])
    assert abs(mask.sum() - share * 240) <= 3
    other = held_out_rows(data.cell, share, 2, data.cluster)
    assert (other != mask).any() and (mask == held_out_rows(data.cell, share, 1, data.cluster)).all()
