"""z(x) is what models fitted by hand give, and z of the training rows comes from models that have not seen them."""

import re

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair.errors import OptFairWarning
from optfair.inputs.splits import make_splits
from optfair.posteriors.models import place_in_groups
from optfair.posteriors.out_of_fold import (
    explain_missing_column,
    fit_posteriors,
    is_fitted_model,
    make_recipe,
    out_of_fold,
    warn_unweighted,
)
from tests.inputs.helpers import N_CLASSES, N_GROUPS, gather, random_data


def recipe_of(data, estimator=None, group_estimator=None, posterior="auto", cv=5, holds_group=False):
    """Return the recipe of these arguments; all have the defaults of the estimators."""
    return make_recipe(estimator, group_estimator, posterior, cv, data, holds_group=holds_group)


def fitted_z(recipe, data, X=None):
    """Fit a recipe on all rows and return z of them, or of other rows X."""
    return recipe.fit(data.X, data.a, data.y, data.weight)(data.X if X is None else X)


def count_fits(data, estimator, posterior="auto", cv=3, **options):
    """Return the number of models that are fitted, without folds and with them."""
    counts = [
        fit_posteriors(estimator, None, posterior, cv, data, None, in_sample=in_sample, **options).n_fits
        for in_sample in (True, False)
    ]
    return tuple(counts)


class Memory(ClassifierMixin, BaseEstimator):
    """Predicts class 0 for rows it was fitted on, and class 1 for others; X[:, 0] is the number of a row."""

    def fit(self, X, y):
        self.classes_, self.rows_ = np.unique(y), set(X[:, 0])
        return self

    def predict_proba(self, X):
        fitted = np.array([number in self.rows_ for number in X[:, 0]])
        P = np.zeros((len(X), len(self.classes_)))
        P[np.arange(len(X)), np.where(fitted, 0, 1)] = 1.0
        return P


# -- z by hand -----------------------------------------------------------------------------------------------
def test_joint_is_one_model_of_the_pair_and_absent_cells_are_zero():
    data = random_data()
    data = data.take(np.flatnonzero(data.cell != 2))  # no row is (group 0, class 2)
    Z = fitted_z(recipe_of(data, LogisticRegression()), data)
    model = LogisticRegression().fit(data.X, [f"{a}{y}" for a, y in zip(data.a, data.y, strict=True)])
    assert (Z[:, 0, 2] == 0).all()
    cells = np.delete(Z.reshape(-1, N_GROUPS * N_CLASSES), 2, axis=1)
    np.testing.assert_allclose(cells, model.predict_proba(data.X), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_factored_is_a_model_of_y_times_models_of_a_in_each_class(weighted):
    data = random_data(1, weighted=weighted)
    X, a, y, w = data.X, data.a, data.y, data.weight
    Z = fitted_z(recipe_of(data, LogisticRegression(), posterior="factored"), data)
    P = LogisticRegression().fit(X, y, sample_weight=w).predict_proba(X)
    for i in range(N_CLASSES):
        rows = y == i
        model = LogisticRegression().fit(X[rows], a[rows], sample_weight=None if w is None else w[rows])
        np.testing.assert_allclose(Z[:, :, i], P[:, [i]] * model.predict_proba(X), atol=1e-12)


def test_the_group_estimator_is_used_for_the_groups_only():
    data = random_data(2)
    Z = fitted_z(recipe_of(data, LogisticRegression(), KNeighborsClassifier(7), "factored"), data)
    rows = data.y == 0
    P = LogisticRegression().fit(data.X, data.y).predict_proba(data.X)
    group = KNeighborsClassifier(7).fit(data.X[rows], data.a[rows]).predict_proba(data.X)
    np.testing.assert_allclose(Z[:, :, 0], P[:, [0]] * group, atol=1e-12)


def test_a_class_with_rows_of_one_group_has_mass_in_this_group_only():
    data = random_data(3)
    data = gather(data.X, np.where(data.y == 1, 1, data.a), data.y)
    Z = fitted_z(recipe_of(data, LogisticRegression(), posterior="factored"), data)
    assert (Z[:, 0, 1] == 0).all() and (Z[:, 1, 1] > 0).all()
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


def test_a_class_absent_from_the_labels_gets_no_mass():
    data = random_data(4)
    data = data.take(np.flatnonzero(data.y != 2))
    Z = fitted_z(recipe_of(data, LogisticRegression(), posterior="factored"), data)
    assert (Z[:, :, 2] == 0).all()
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


def test_a_class_that_only_the_fitted_model_knows_has_the_shares_of_the_groups():
    data = random_data(5, weighted=True)
    model = LogisticRegression().fit(data.X, data.y)
    selection = data.take(np.flatnonzero(data.y != 2))
    Z = fitted_z(recipe_of(selection, model, cv="prefit"), selection, data.X)
    shares = np.bincount(selection.a, selection.weight) / selection.weight.sum()
    np.testing.assert_allclose(Z[:, :, 2], model.predict_proba(data.X)[:, [2]] * shares, atol=1e-12)


@pytest.mark.parametrize("wrap", [lambda m: (m, "prefit"), lambda m: (FrozenEstimator(m), 5)], ids=["prefit", "frozen"])
def test_the_class_probabilities_of_a_fitted_model_do_not_change(wrap):
    data = random_data(6)
    model = LogisticRegression(C=0.01).fit(data.X[:100], data.y[:100])
    estimator, cv = wrap(model)
    Z = fitted_z(recipe_of(data, estimator, cv=cv), data)
    np.testing.assert_allclose(Z.sum(axis=1), model.predict_proba(data.X), atol=1e-12)


def test_a_function_gives_probabilities_and_is_never_fitted():
    data = random_data(7)
    P = np.array([0.5, 0.3, 0.2])

    def function(X):
        return np.tile(P, (len(X), 1))

    assert count_fits(data, function) == (N_CLASSES, 4 * N_CLASSES)  # models of the group in each class
    np.testing.assert_allclose(fitted_z(recipe_of(data, function), data).sum(axis=1), np.tile(P, (240, 1)))


def test_where_x_holds_the_group_every_row_is_placed_in_it():
    data = random_data(8)
    assert count_fits(data, LogisticRegression(), holds_group=True) == (1, 4)
    Z = place_in_groups(fitted_z(recipe_of(data, LogisticRegression(), holds_group=True), data), data.a)
    P = LogisticRegression().fit(data.X, data.y).predict_proba(data.X)
    np.testing.assert_allclose(Z[np.arange(240), data.a], P, atol=1e-12)


@pytest.mark.parametrize("posterior, n_models", [("joint", 1), ("factored", 1 + N_CLASSES), ("auto", 1)])
def test_n_fits_counts_the_models(posterior, n_models):
    assert count_fits(random_data(), LogisticRegression(), posterior) == (n_models, 4 * n_models)


@pytest.mark.parametrize("piped", [False, True])
def test_auto_is_one_network_of_the_pair_and_factored_beside_a_fitted_network(piped):
    pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    data = random_data(10)
    network = TorchClassifier("mlp", hidden=(4,), epochs=2, random_state=0)
    network = make_pipeline(StandardScaler(), network) if piped else network
    assert count_fits(data, network) == (1, 4)
    joint = clone(network).fit(data.X, data.cell).predict_proba(data.X)  # every cell has rows
    np.testing.assert_allclose(fitted_z(recipe_of(data, network), data).reshape(joint.shape), joint, atol=1e-6)
    network.fit(data.X, data.y)
    for recipe in (recipe_of(data, network, cv="prefit"), recipe_of(data, FrozenEstimator(network))):
        assert recipe.kind == "factored"
        np.testing.assert_allclose(fitted_z(recipe, data).sum(axis=1), network.predict_proba(data.X), atol=1e-6)


def test_default_models_read_the_texts_of_a_fitted_pipeline():
    rng = np.random.default_rng(9)
    a, y = rng.integers(0, N_GROUPS, 120), rng.integers(0, N_CLASSES, 120)
    texts = [f"group{g} class{c} word{rng.integers(5)}" for g, c in zip(a, y, strict=True)]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, y)
    data = gather(texts, a, y)
    Z = fitted_z(recipe_of(data, model, cv="prefit"), data)
    assert (Z.sum(axis=2).argmax(axis=1) == a).all()  # each text holds its group


# -- estimators without weights ------------------------------------------------------------------------------
def test_models_without_weights_are_fitted_without():
    data = random_data(11, weighted=True)
    recipe = recipe_of(data, KNeighborsClassifier(5))
    assert recipe.unweighted == ("KNeighborsClassifier",)
    plain = KNeighborsClassifier(5).fit(data.X, data.cell).predict_proba(data.X)
    np.testing.assert_allclose(fitted_z(recipe, data).reshape(-1, N_GROUPS * N_CLASSES), plain)


def test_unweighted_names_the_estimators_that_took_no_weights():
    """Check that the fact has each name once, also of a model in two places, and is empty without weights."""
    data, near = random_data(11, weighted=True), KNeighborsClassifier(5)
    model = LogisticRegression().fit(data.X, data.y)

    def unweighted(*arguments, rows=data):
        return fit_posteriors(*arguments, rows, None, in_sample=True).unweighted

    assert unweighted(near, None, "joint", 5) == unweighted(near, None, "factored", 5) == ("KNeighborsClassifier",)
    assert unweighted(LogisticRegression(), near, "joint", 5) == ()  # a joint model needs no group estimator
    assert unweighted(LogisticRegression(), near, "factored", 5) == ("KNeighborsClassifier",)
    assert unweighted(model, near, "auto", "prefit") == ("KNeighborsClassifier",)
    assert unweighted(near, None, "joint", 5, rows=random_data(11)) == ()
    folds = fit_posteriors(near, None, "joint", 3, data, None)
    assert folds.unweighted == ("KNeighborsClassifier",) and len(folds.splits) == 3


def test_the_warning_about_models_without_weights():
    message = (
        "sample_weight: KNeighborsClassifier takes none, so it is fitted without; calibration and constraints honour "
        "them."
    )
    with pytest.warns(OptFairWarning, match=f"^{re.escape(message)}$") as record:
        warn_unweighted(["KNeighborsClassifier"])
    assert len(record) == 1
    warn_unweighted([])  # warnings are errors in the tests


# -- arguments -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"posterior": "both"}, "posterior='both': must be one of 'auto', 'joint', 'factored'."),
        ({"cv": "prefit"}, "estimator=None: cv='prefit' needs a fitted model."),
        ({"estimator": 3}, "estimator=3: must be a classifier, or a function that gives probabilities."),
        (
            {"estimator": len, "posterior": "joint"},
            "posterior='joint': a fitted model knows the classes only; use 'factored' or 'auto'.",
        ),
        ({"cv": "kfold"}, "cv='kfold': must be a number of folds, a splitter, a list of splits, or 'prefit'."),
        ({"group_estimator": 3}, "group_estimator=3: must be a classifier; it is fitted to the groups."),
    ],
)
def test_arguments_that_fit_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        recipe_of(random_data(), **arguments)


def test_which_models_are_never_fitted():
    model = LogisticRegression()
    assert is_fitted_model(model, "prefit") and is_fitted_model(FrozenEstimator(model), 5) and is_fitted_model(len, 5)
    assert not is_fitted_model(model, 5) and not is_fitted_model(None, KFold(3))


@pytest.mark.parametrize("error", [KeyError("'sex'"), ValueError("Feature names seen at fit time:\n- sex\n")])
def test_a_fitted_model_that_misses_a_sensitive_column_is_explained(error):
    message = "estimator: the fitted model seems to need the sensitive column 'sex', which a blind rule leaves out"
    with pytest.raises(ValueError, match=message), explain_missing_column(["age", "sex"]):
        raise error
    for left_out in (None, ["age"], 0):  # other errors stay as they are
        with pytest.raises(type(error)) as reraised, explain_missing_column(left_out):
            raise error
        assert reraised.value is error


# -- out of fold ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("cv", [4, KFold(3)])
def test_no_row_gets_z_from_a_model_that_has_seen_it(cv):
    data = random_data(16)
    data.X[:, 0] = np.arange(240)
    Z, model, _ = out_of_fold(recipe_of(data, Memory()), data, make_splits(cv, data), None)
    assert (Z.reshape(240, -1)[:, 1] == 1).all()
    assert (model(data.X).reshape(240, -1)[:, 0] == 1).all()  # the model of new rows is fitted on all


@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_each_part_comes_from_models_of_the_other_parts(posterior):
    data = random_data(17, weighted=True)
    recipe = recipe_of(data, LogisticRegression(), posterior=posterior)
    fit = fit_posteriors(LogisticRegression(), None, posterior, 3, data, None)
    for (train, test), (expected_train, expected_test) in zip(fit.splits, make_splits(3, data), strict=True):
        np.testing.assert_array_equal(np.r_[train, test], np.r_[expected_train, expected_test])
        part = recipe.fit(data.X[train], data.a[train], data.y[train], data.weight[train])
        np.testing.assert_allclose(fit.Z[test], part(data.X[test]), atol=1e-12)
    np.testing.assert_allclose(fit.model(data.X), fitted_z(recipe, data), atol=1e-12)


def test_in_sample_both_z_and_the_model_are_of_all_rows():
    data = random_data(17)
    fit = fit_posteriors(LogisticRegression(), None, "joint", 3, data, None, in_sample=True)
    np.testing.assert_array_equal(fit.Z, fit.model(data.X))
    assert fit.splits == []


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_the_number_of_jobs_changes_nothing(backend):
    """Processes are started once per run; that takes seconds, so they are left to the slow tests."""
    data = random_data(18, weighted=True)
    recipe, splits = recipe_of(data, LogisticRegression()), make_splits(3, data)
    serial, model, _ = out_of_fold(recipe, data, splits, 1)
    with parallel_config(backend):
        parallel, other_model, _ = out_of_fold(recipe, data, splits, 2)
    np.testing.assert_allclose(serial, parallel, atol=1e-12)
    np.testing.assert_allclose(model(data.X), other_model(data.X), atol=1e-12)


def test_a_fitted_model_beside_a_known_group_needs_no_folds():
    data = random_data(19)
    model = LogisticRegression().fit(data.X, data.y)
    assert count_fits(data, model, cv="prefit", holds_group=True) == (0, 0)
    recipe = recipe_of(data, model, cv="prefit", holds_group=True)
    Z, _, _ = out_of_fold(recipe, data, make_splits("prefit", data), None)
    np.testing.assert_allclose(Z.sum(axis=1), model.predict_proba(data.X), atol=1e-12)


def test_a_fold_of_rows_without_weight_is_left_out():
    full = random_data(15)
    positions = np.arange(80, 240)
    data = gather(full.X[positions], full.a[positions], full.y[positions], np.ones(160), positions, 240)
    Z, _, _ = out_of_fold(recipe_of(data), data, make_splits(KFold(3), data), None)
    np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


def test_a_cell_of_one_row_is_absent_where_the_row_is_tested():
    data = random_data(20)
    a = np.where(data.y == 2, 1, data.a)
    a[np.flatnonzero(data.y == 2)[0]] = 0  # the only row in (0, 2)
    data = gather(data.X, a, data.y)
    for posterior in ("joint", "factored"):
        Z, model, _ = out_of_fold(recipe_of(data, posterior=posterior), data, make_splits(4, data), None)
        row = np.flatnonzero(data.cell == 2)
        assert Z[row, 0, 2] == 0 and model(data.X)[row, 0, 2] > 0
        np.testing.assert_allclose(Z.sum(axis=(1, 2)), 1)


@pytest.mark.parametrize("holds_group", [False, True])
def test_a_class_of_one_row_is_absent_where_the_row_is_tested(holds_group):
    data = random_data(21)
    y = np.zeros(240, dtype=int)
    y[7] = 1
    data = gather(data.X, data.a, y)
    recipe = recipe_of(data, posterior="factored", holds_group=holds_group)
    Z, _, _ = out_of_fold(recipe, data, make_splits(4, data), None)
    assert (Z[7, :, 1] == 0).all()
