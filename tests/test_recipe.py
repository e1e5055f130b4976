"""z(x) is what the models by hand give, out of fold, with weights; and what cannot be used is refused in one line."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from optfair.base import People
from optfair.errors import OptFairWarning
from optfair.estimation.models import (
    ClassModel,
    default_estimator,
    default_group_estimator,
    fit_model,
    model_probabilities,
    placed,
    takes_weights,
)
from optfair.estimation.recipe import is_fitted_model, make_recipe, make_splits, out_of_fold

A, M = 2, 3


def some_people(seed=0, n=240, weighted=False):
    """X tells something about both codes; every cell is taken."""
    rng = np.random.default_rng(seed)
    a, y = rng.integers(0, A, n), rng.integers(0, M, n)
    X = rng.normal(size=(n, 3)) + np.column_stack([a, y, a * y])
    w = rng.integers(1, 4, n).astype(float) if weighted else None
    return gather(X, a, y, w)


def gather(X, a, y, weight=None, kept=None, n_given=None):
    kept = np.arange(len(a)) if kept is None else kept
    n_given = len(a) if n_given is None else n_given
    return People(X, a, y, weight, pd.RangeIndex(A), np.arange(M), kept, n_given)


def recipe_of(people, estimator=None, group_estimator=None, posterior="auto", cv=5, holds_group=False):
    return make_recipe(estimator, group_estimator, posterior, cv, people, holds_group=holds_group)


def fitted(recipe, people):
    return recipe.fit(people.X, people.a, people.y, people.weight)


class Memory(ClassifierMixin, BaseEstimator):
    """Sure of class 0 about everybody it was fitted on, and of class 1 about others; X[:, 0] is who they are."""

    def fit(self, X, y):
        self.classes_, self.seen_ = np.unique(y), set(X[:, 0])
        return self

    def predict_proba(self, X):
        seen = np.array([who in self.seen_ for who in X[:, 0]])
        P = np.zeros((len(X), len(self.classes_)))
        P[np.arange(len(X)), np.where(seen, 0, 1)] = 1.0
        return P


# -- what is learned ----------------------------------------------------------------------------------------
def test_joint_is_one_model_of_the_pair_and_absent_cells_are_zero():
    people = some_people()
    there = people.cell != 2  # nobody is (group 0, class 2)
    people = gather(people.X[there], people.a[there], people.y[there])
    Z = fitted(recipe_of(people, LogisticRegression()), people)(people.X)
    other = LogisticRegression().fit(people.X, [f"{a}{y}" for a, y in zip(people.a, people.y, strict=True)])
    assert (Z[:, 0, 2] == 0).all()
    np.testing.assert_allclose(np.delete(Z.reshape(-1, A * M), 2, axis=1), other.predict_proba(people.X), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_factored_is_a_model_of_y_times_models_of_a_in_each_class(weighted):
    people = some_people(1, weighted=weighted)
    X, a, y, w = people.X, people.a, people.y, people.weight
    Z = fitted(recipe_of(people, LogisticRegression(), posterior="factored"), people)(X)
    P = LogisticRegression().fit(X, y, sample_weight=w).predict_proba(X)
    for i in range(M):
        rows = y == i
        model = LogisticRegression().fit(X[rows], a[rows], sample_weight=None if w is None else w[rows])
        np.testing.assert_allclose(Z[:, :, i], P[:, [i]] * model.predict_proba(X), atol=1e-12)


def test_the_group_estimator_is_used_for_the_groups_only():
    people = some_people(2)
    near = KNeighborsClassifier(7)
    Z = fitted(recipe_of(people, LogisticRegression(), near, "factored"), people)(people.X)
    rows = people.y == 0
    P = LogisticRegression().fit(people.X, people.y).predict_proba(people.X)
    group = KNeighborsClassifier(7).fit(people.X[rows], people.a[rows]).predict_proba(people.X)
    np.testing.assert_allclose(Z[:, :, 0], P[:, [0]] * group, atol=1e-12)


def test_where_a_class_has_one_group_there_is_nothing_to_learn():
    people = some_people(3)
    a = np.where(people.y == 1, 1, people.a)
    people = gather(people.X, a, people.y)
    Z = fitted(recipe_of(people, LogisticRegression(), posterior="factored"), people)(people.X)
    assert (Z[:, 0, 1] == 0).all() and (Z[:, 1, 1] > 0).all()
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


def test_a_class_absent_from_the_labels_gets_no_mass():
    people = some_people(4)
    there = people.y != 2
    people = gather(people.X[there], people.a[there], people.y[there])
    Z = fitted(recipe_of(people, LogisticRegression(), posterior="factored"), people)(people.X)
    assert (Z[:, :, 2] == 0).all()
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


def test_a_class_that_only_the_fitted_model_knows_has_the_groups_of_everybody():
    people = some_people(5, weighted=True)
    model = LogisticRegression().fit(people.X, people.y)
    there = people.y != 2
    few = gather(people.X[there], people.a[there], people.y[there], people.weight[there])
    Z = fitted(recipe_of(few, model, cv="prefit"), few)(people.X)
    shares = np.bincount(few.a, few.weight) / few.weight.sum()
    np.testing.assert_allclose(Z[:, :, 2], model.predict_proba(people.X)[:, [2]] * shares, atol=1e-12)


@pytest.mark.parametrize("wrap", [lambda m: (m, "prefit"), lambda m: (FrozenEstimator(m), 5)], ids=["prefit", "frozen"])
def test_the_classes_of_a_fitted_model_are_left_as_they_are(wrap):
    people = some_people(6)
    model = LogisticRegression(C=0.01).fit(people.X[:100], people.y[:100])
    estimator, cv = wrap(model)
    Z = fitted(recipe_of(people, estimator, cv=cv), people)(people.X)
    np.testing.assert_allclose(Z.sum(axis=1), model.predict_proba(people.X), atol=1e-12)


def test_a_function_is_asked_and_never_fitted():
    people = some_people(7)
    P = np.array([0.5, 0.3, 0.2])
    recipe = recipe_of(people, lambda X: np.tile(P, (len(X), 1)))
    assert recipe.fits == M
    np.testing.assert_allclose(fitted(recipe, people)(people.X).sum(axis=1), np.tile(P, (240, 1)))


def test_where_x_holds_the_group_everybody_is_placed_in_it():
    people = some_people(8)
    recipe = recipe_of(people, LogisticRegression(), holds_group=True)
    assert recipe.fits == 1
    Z = placed(fitted(recipe, people)(people.X), people.a)
    P = LogisticRegression().fit(people.X, people.y).predict_proba(people.X)
    np.testing.assert_allclose(Z[np.arange(240), people.a], P, atol=1e-12)


@pytest.mark.parametrize("posterior, fits", [("joint", 1), ("factored", 1 + M), ("auto", 1)])
def test_fits_counts_the_models(posterior, fits):
    assert recipe_of(some_people(), LogisticRegression(), posterior=posterior).fits == fits


def test_default_models_take_texts_and_sparse_rows():
    rng = np.random.default_rng(9)
    a, y = rng.integers(0, A, 120), rng.integers(0, M, 120)
    texts = [f"group{g} class{c} word{rng.integers(5)}" for g, c in zip(a, y, strict=True)]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, y)
    people = gather(texts, a, y)
    Z = fitted(recipe_of(people, model, cv="prefit"), people)(texts)
    assert (Z.sum(axis=2).argmax(axis=1) == a).all()  # the group is in the text, and was found there
    X = sparse.csr_matrix(model[0].transform(texts))
    scaler = default_estimator(X)[0]
    assert not scaler.with_mean and default_estimator(X.toarray())[0].with_mean
    plain = default_group_estimator(model[-1], X)  # no preprocessing to share
    assert [type(step) for step in plain] == [StandardScaler, LogisticRegression]


# -- weights ------------------------------------------------------------------------------------------------
def exact(**options):
    return LogisticRegression(tol=1e-10, max_iter=5000, **options)


@pytest.mark.parametrize(
    "estimator",
    [
        exact(),
        make_pipeline(StandardScaler(), exact()),
        make_pipeline(PolynomialFeatures(2), make_pipeline(StandardScaler(), "passthrough"), exact()),
        Pipeline([("none", None), ("scale", StandardScaler()), ("model", exact())]),
    ],
    ids=["plain", "pipeline", "nested", "with holes"],
)
def test_weights_reach_every_step_as_repetitions_would(estimator):
    """The scaler too: without its weights the regularised model would be another one."""
    people = some_people(10, weighted=True)
    X = people.X * [1, 1, 30] + 5
    times = people.weight.astype(int)
    weighted = fit_model(estimator, X, people.y, people.weight)
    repeated = fit_model(estimator, np.repeat(X, times, axis=0), np.repeat(people.y, times), None)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)
    assert takes_weights(estimator)
    assert not hasattr(estimator, "classes_")  # a clone was fitted


def test_models_without_weights_are_fitted_without_and_that_is_said_once():
    people = some_people(11, weighted=True)
    near = KNeighborsClassifier(5)
    said = (
        "sample_weight: KNeighborsClassifier takes none, so it is fitted without; calibration and constraints honour "
        "them."
    )
    with pytest.warns(OptFairWarning, match=f"^{re.escape(said)}$") as caught:
        recipe = recipe_of(people, near)
    assert len(caught) == 1
    plain = KNeighborsClassifier(5).fit(people.X, people.cell).predict_proba(people.X)
    np.testing.assert_allclose(fitted(recipe, people)(people.X).reshape(-1, A * M), plain)


def test_one_model_in_two_places_is_one_warning():
    with pytest.warns(OptFairWarning) as caught:
        recipe_of(some_people(11, weighted=True), KNeighborsClassifier(5), posterior="factored")
    assert len(caught) == 1


def test_a_group_model_without_weights_is_named_beside_a_fitted_model():
    people = some_people(11, weighted=True)
    model = LogisticRegression().fit(people.X, people.y)
    with pytest.warns(OptFairWarning, match="KNeighborsClassifier"):
        recipe_of(people, model, KNeighborsClassifier(5), cv="prefit")


# -- what cannot be used ------------------------------------------------------------------------------------
@pytest.mark.parametrize("argument", ["estimator", "group_estimator"])
def test_models_without_probabilities_are_refused(argument):
    X, y = np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1]
    message = (
        f"{argument}: RidgeClassifier has no predict_proba; use a classifier that has, or wrap it in "
        "sklearn.calibration.CalibratedClassifierCV."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model_probabilities(RidgeClassifier().fit(X, y), X, argument)


@pytest.mark.parametrize(
    "output, message",
    [
        (np.full(4, 0.5), "estimator: its probabilities have shape (4,); expected (4, n_classes)."),
        (np.full((3, 2), 0.5), "estimator: its probabilities have shape (3, 2); expected (4, n_classes)."),
        (
            np.array([[0.5, 0.5], [2.0, 1.0], [0.5, 0.5], [3.0, 1.0]]),
            "estimator: 2 rows of its output are not probabilities (row 1 sums to 3); give one column per "
            "class, after a softmax.",
        ),
        (
            np.array([[0.5, 0.5], [0.5, 0.5], [1.5, -0.5], [0.5, 0.5]]),
            "estimator: 1 rows of its output are not probabilities (row 2 sums to 1); give one column per "
            "class, after a softmax.",
        ),
        (
            np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [np.nan, 0.5]]),
            "estimator: 1 rows of its output are not probabilities (row 3 sums to nan); give one column per "
            "class, after a softmax.",
        ),
    ],
    ids=["1-d", "too few", "too much", "negative", "nan"],
)
def test_output_that_is_no_probabilities_is_refused(output, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model_probabilities(lambda X: output, np.zeros((4, 1)))


def test_probabilities_that_nearly_sum_to_one_are_made_to():
    P = model_probabilities(lambda X: np.float32([[0.3, 0.7003]] * 2), np.zeros((2, 1)))
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-15)


def test_a_function_with_columns_for_other_classes_is_refused():
    message = (
        "estimator: gives 2 columns of probabilities for 3 classes; a model without classes_ needs one column per "
        "class found in y, sorted."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ClassModel(lambda X: np.full((len(X), 2), 0.5), np.arange(3), 3)(np.zeros((4, 1)))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"posterior": "both"}, "posterior='both': must be 'auto', 'joint' or 'factored'."),
        ({"cv": "prefit"}, "estimator=None: cv='prefit' needs a fitted model."),
        ({"estimator": 3}, "estimator=3: must be a classifier, or a function that gives probabilities."),
        (
            {"estimator": len, "posterior": "joint"},
            "posterior='joint': a fitted model knows the classes only; use 'factored' or 'auto'.",
        ),
        ({"cv": "kfold"}, "cv='kfold': must be a number of folds, a splitter, a list of splits, or 'prefit'."),
    ],
)
def test_arguments_that_fit_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        recipe_of(some_people(), **arguments)


def test_which_models_are_only_asked():
    model = LogisticRegression()
    assert is_fitted_model(model, "prefit") and is_fitted_model(FrozenEstimator(model), 5) and is_fitted_model(len, 5)
    assert not is_fitted_model(model, 5) and not is_fitted_model(None, KFold(3))


# -- folds --------------------------------------------------------------------------------------------------
def assert_partition(splits, n):
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(n))
    for train, test in splits:
        assert len(train) and len(test) and not set(train) & set(test)


@pytest.mark.parametrize(
    "cv, folds",
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
def test_every_row_is_tested_once(cv, folds):
    splits = make_splits(cv, some_people())
    assert len(splits) == folds
    assert_partition(splits, 240)


def test_a_generator_of_splits_is_a_list_of_them():
    assert_partition(make_splits(KFold(4).split(np.zeros(240)), some_people()), 240)


def test_as_many_folds_as_people_leaves_one_out():
    splits = make_splits(1000, some_people(n=30))
    assert_partition(splits, 30)
    assert all(len(test) == 1 for _, test in splits)


def test_folds_by_number_do_not_depend_on_the_order():
    people = some_people(12)
    order = np.random.default_rng(13).permutation(240)
    other = gather(people.X[order], people.a[order], people.y[order])

    def parts(splits, who):
        return {frozenset(who[test]) for _, test in splits}

    assert parts(make_splits(4, people), np.arange(240)) == parts(make_splits(4, other), order)


def test_folds_by_number_are_stratified_by_cell():
    people = some_people(14)
    for cell in range(A * M):
        sizes = [np.count_nonzero(people.cell[test] == cell) for _, test in make_splits(5, people)]
        assert max(sizes) - min(sizes) <= 1


def test_splits_of_the_caller_speak_of_all_the_rows_given():
    """Rows without weight are gone: positions shift, and the parts are the caller's without them."""
    weight = np.tile([1.0, 0.0, 2.0], 80)
    kept = np.flatnonzero(weight)
    full = some_people(15)
    people = gather(full.X[kept], full.a[kept], full.y[kept], weight[kept], kept, 240)
    given = list(KFold(4, shuffle=True, random_state=1).split(np.zeros(240)))
    for cv in (given, KFold(4, shuffle=True, random_state=1)):
        splits = make_splits(cv, people)
        assert_partition(splits, len(kept))
        for (train, test), (all_train, all_test) in zip(splits, given, strict=True):
            assert set(kept[train]) == set(all_train) & set(kept)
            assert set(kept[test]) == set(all_test) & set(kept)


def test_a_fold_of_people_without_weight_is_left_out():
    full = some_people(15)
    kept = np.arange(80, 240)
    people = gather(full.X[kept], full.a[kept], full.y[kept], np.ones(160), kept, 240)
    Z, _ = out_of_fold(recipe_of(people), people, make_splits(KFold(3), people), None)
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


@pytest.mark.parametrize("cv", [0, 1, -3])
def test_too_few_folds_are_refused(cv):
    message = f"cv={cv}: must be at least 2 folds, a splitter, a list of splits, or 'prefit'."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_splits(cv, some_people())


@pytest.mark.parametrize("cv", [True, 2.5])
def test_what_makes_no_splits_is_refused(cv):
    message = f"cv={cv}: must be a number of folds, a splitter, a list of splits, or 'prefit' ("
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make_splits(cv, some_people())


@pytest.mark.parametrize("cv", [[], [(np.arange(3),)], [(np.arange(3), np.arange(900, 903))], np.arange(3)], ids=str)
def test_what_is_no_list_of_splits_is_refused_by_name(cv):
    with pytest.raises(ValueError, match=r"^cv"):
        make_splits(cv, some_people())


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(1, test_size=0.5, random_state=0),
        [(np.arange(120), np.arange(120, 240))],
        [(np.arange(120, 240), np.arange(120))] * 2 + [(np.arange(120), np.arange(120, 240))],
    ],
    ids=["random", "half of them", "half of them twice"],
)
def test_splits_that_are_no_partition_are_refused(cv):
    message = (
        "cv: 120 rows are not in exactly one test part; out-of-fold posteriors need a partition, such as KFold gives."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_splits(cv, some_people())


# -- out of fold --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cv", [4, KFold(3)])
def test_nobody_is_judged_by_a_model_that_has_seen_them(cv):
    people = some_people(16)
    people.X[:, 0] = np.arange(240)
    recipe = recipe_of(people, Memory())
    Z, model = out_of_fold(recipe, people, make_splits(cv, people), None)
    assert (Z.reshape(240, -1)[:, 1] == 1).all()
    assert (model(people.X).reshape(240, -1)[:, 0] == 1).all()  # fitted on all, for the people to come


@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_each_part_comes_from_models_of_the_other_parts(posterior):
    people = some_people(17, weighted=True)
    recipe = recipe_of(people, LogisticRegression(), posterior=posterior)
    splits = make_splits(3, people)
    Z, model = out_of_fold(recipe, people, splits, None)
    for train, test in splits:
        alone = recipe.fit(people.X[train], people.a[train], people.y[train], people.weight[train])
        np.testing.assert_allclose(Z[test], alone(people.X[test]), atol=1e-12)
    np.testing.assert_allclose(model(people.X), fitted(recipe, people)(people.X), atol=1e-12)


def test_jobs_change_nothing():
    people = some_people(18, weighted=True)
    recipe, splits = recipe_of(people, LogisticRegression()), make_splits(3, people)
    one, model = out_of_fold(recipe, people, splits, 1)
    two, other = out_of_fold(recipe, people, splits, 2)
    np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_allclose(model(people.X), other(people.X), atol=1e-12)


def test_a_fitted_model_beside_a_known_group_needs_no_folds():
    people = some_people(19)
    model = LogisticRegression().fit(people.X, people.y)
    recipe = recipe_of(people, model, cv="prefit", holds_group=True)
    assert recipe.fits == 0
    Z, _ = out_of_fold(recipe, people, make_splits("prefit", people), None)
    np.testing.assert_allclose(Z.sum(axis=1), model.predict_proba(people.X), atol=1e-12)


def test_a_cell_of_one_person_is_absent_where_they_are_tested():
    people = some_people(20)
    a = np.where(people.y == 2, 1, people.a)
    a[np.flatnonzero(people.y == 2)[0]] = 0  # the only one in (0, 2)
    people = gather(people.X, a, people.y)
    for posterior in ("joint", "factored"):
        Z, model = out_of_fold(recipe_of(people, posterior=posterior), people, make_splits(4, people), None)
        alone = np.flatnonzero(people.cell == 2)
        assert Z[alone, 0, 2] == 0 and model(people.X)[alone, 0, 2] > 0
        np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


@pytest.mark.parametrize("holds_group", [False, True])
def test_a_class_of_one_person_is_absent_where_they_are_tested(holds_group):
    people = some_people(21)
    y = np.zeros(240, dtype=int)
    y[7] = 1
    people = gather(people.X, people.a, y)
    recipe = recipe_of(people, posterior="factored", holds_group=holds_group)
    Z, _ = out_of_fold(recipe, people, make_splits(4, people), None)
    assert (Z[7, :, 1] == 0).all()


# -- known groups -------------------------------------------------------------------------------------------
def test_placed_conditions_on_the_group():
    rng = np.random.default_rng(22)
    Z = rng.dirichlet(np.ones(A * M), 50).reshape(50, A, M)
    group = rng.integers(-1, A, 50)
    before = Z.copy()
    out = placed(Z, group)
    np.testing.assert_allclose(out.sum(axis=(1, 2)), 1)
    assert (out[group < 0] == Z[group < 0]).all() and (before == Z).all()
    for a in range(A):
        mine = group == a
        np.testing.assert_allclose(out[mine, a], Z[mine, a] / Z[mine, a].sum(axis=1, keepdims=True))
        assert (np.delete(out[mine], a, axis=1) == 0).all()


def test_placed_in_a_group_that_was_ruled_out_is_answered_as_anybody():
    Z = np.zeros((1, A, M))
    Z[0, 0] = [0.2, 0.3, 0.5]
    np.testing.assert_allclose(placed(Z, np.array([1]))[0], [[0, 0, 0], [0.2, 0.3, 0.5]])
