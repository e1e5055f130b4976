"""Check what `OptFairPost.fit` refuses, how it weighs rows, and which models it fits."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from optfair import Constraint, InfeasibleError, MinimumRate, OptFairPost, OptFairWarning
from tests.estimators.helpers import (
    FRAME,
    NEW,
    PREFIT,
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    N,
    X,
    Y,
    assert_error,
    assert_same_predictions,
    make_post,
)


# -- arguments -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"awareness": "half"}, "awareness='half': must be one of 'blind', 'aware'."),
        ({"decision": "coin"}, "decision='coin': must be one of 'hashed', 'argmax', 'sampled'."),
        ({"missing": "drop"}, "missing='drop': must be one of 'error', 'group', 'infer'."),
        ({"unseen": "ignore"}, "unseen='ignore': must be one of 'error', 'blind'."),
        (
            {"calibration": "platt"},
            "calibration='platt': must be one of 'auto', 'posterior', 'groups', 'none'.",
        ),
        ({"posterior": "full"}, "posterior='full': must be one of 'auto', 'joint', 'factored'."),
        ({"cv": "loo"}, "cv='loo': must be a number of folds, a splitter, a list of splits, or 'prefit'."),
        ({"cv": 1}, "cv=1: must be at least 2 folds, a splitter, a list of splits, or 'prefit'."),
        ({"gap": 0}, "gap=0: must be a positive number."),
        ({"cv": "prefit", "estimator": None}, "estimator=None: cv='prefit' needs a fitted model."),
        ({"estimator": "svm"}, "estimator='svm': must be a classifier, or a function that gives probabilities."),
        (
            {"estimator": LinearSVC()},
            "estimator: LinearSVC has no predict_proba; use a classifier that has, or wrap it in "
            "sklearn.calibration.CalibratedClassifierCV.",
        ),
        (
            {"cv": [(np.arange(N), np.arange(N)[::2]), (np.arange(N), np.arange(N)[1::2])]},
            "cv: a training part is empty, or holds people of its test part; they must be apart.",
        ),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_arguments_are_checked(options, message):
    model = make_post().set_params(**options)
    assert_error(message, model.fit, X, Y, sensitive_features=SEX)


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), "tight", True])
def test_a_tolerance_is_a_number_from_zero_to_one(blind_post, value):
    message = f"tolerance={value!r}: must be a number in [0, 1]{'; did you mean 0.015?' if value == 1.5 else '.'}"
    assert_error(message, make_post(tolerance=value).fit, X, Y, sensitive_features=SEX)
    assert_error(message, blind_post.with_tolerance, value)


@pytest.mark.parametrize(
    "option", [{"tolerance": 0.2}, {"tolerance": 0.01}, {"reference": "overall"}, {"outcomes": ["a"]}], ids=str
)
def test_what_constraint_objects_say_is_not_said_again(option):
    model = make_post(criterion=[Constraint("dp", 0.3), MinimumRate("recall", 0.2)], **option)
    message = f"{next(iter(option))}: already set in the constraint objects; leave it out here."
    assert_error(message, model.fit, X, Y, sensitive_features=SEX)


def test_splits_that_are_no_partition_are_an_error():
    with pytest.raises(ValueError, match=r"cv: \d+ rows are not in exactly one test part; .* such as KFold gives"):
        make_post(cv=ShuffleSplit(2, random_state=0)).fit(X, Y, sensitive_features=SEX)


def test_models_that_know_other_classes_are_an_error():
    inside = make_pipeline(StandardScaler(), FrozenEstimator(LogisticRegression().fit(X, Y)))
    with pytest.raises(ValueError, match=r"is a fitted classifier; freeze the whole"):
        make_post(inside).fit(X, Y, sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^estimator: class_weight by class is not possible"):
        make_post(LogisticRegression(class_weight={0: 2, 1: 1})).fit(X, Y, sensitive_features=SEX)


def test_the_default_model_reads_texts_as_a_column_of_numbers_would_say_it():
    """Two texts are one number of two values, up to the penalty on the redundant level."""
    groups = np.arange(N) % 2
    text = OptFairPost(random_state=0).fit(NEW[["x1", "sex"]], Y_NEW, sensitive_features=groups)
    numbers = NEW[["x1"]].assign(sex=(NEW["sex"] == "m") * 1)
    number = OptFairPost(random_state=0, cv=text.cv).fit(numbers, Y_NEW, sensitive_features=groups)
    P, Q = (model.posterior_model_(X) for model, X in ((text, NEW[["x1", "sex"]]), (number, numbers)))
    assert np.abs(P - Q).max() < 0.02


def test_a_fit_that_fails_leaves_the_earlier_model_as_it_was():
    model = make_post().fit(X, Y, sensitive_features=SEX)
    before = model.predict_proba(X_NEW)
    model.set_params(criterion=[MinimumRate("recall", 1.0)], tolerance=None)
    with pytest.raises(InfeasibleError):
        model.fit(X_NEW, Y_NEW, sensitive_features=SEX_NEW)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), before)


# -- weights -------------------------------------------------------------------------------------------------
def exact_model():
    """Return logistic regression solved to the last digit: such models differ only by what they were given."""
    return LogisticRegression(tol=1e-12, max_iter=2000)


def splits_of(fold):
    """Return (train, test) positions for the fold of each row, (n,)."""
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]


@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"calibration": "none"}, {"awareness": "aware"}])
def test_a_weight_of_two_is_two_rows(options):
    n = 120
    w = np.random.default_rng(5).integers(0, 4, n)
    index, fold = np.repeat(np.arange(n), w), np.arange(n) % 3
    options = {"gap": 1e-4, **options}
    weighted = make_post(exact_model(), cv=splits_of(fold), **options)
    weighted.fit(X[:n], Y[:n], sensitive_features=SEX[:n], sample_weight=w)
    repeated = make_post(exact_model(), cv=splits_of(fold[index]), **options)
    repeated.fit(X.iloc[index], Y[index], sensitive_features=SEX.iloc[index])
    groups = {"sensitive_features": SEX_NEW} if options.get("awareness") else {}
    Z = weighted.joint_posterior(X_NEW, **groups)
    np.testing.assert_allclose(Z, repeated.joint_posterior(X_NEW, **groups), atol=1e-4)
    for name in ("accuracy", "upper_bound", "violation"):
        one, other = getattr(weighted.certificate_, name), getattr(repeated.certificate_, name)
        assert one == pytest.approx(other, abs=3e-4)
    one, other = (model.report().measured[-1] for model in (weighted, repeated))
    assert one.accuracy == pytest.approx(other.accuracy, abs=2e-3)
    unweighted = make_post(exact_model(), cv=splits_of(fold), **options)
    unweighted.fit(X[:n], Y[:n], sensitive_features=SEX[:n])
    assert np.abs(unweighted.joint_posterior(X_NEW, **groups) - Z).max() > 1e-2


@pytest.mark.parametrize("cv", [3, KFold(3)], ids=["by content", "by position"])
def test_rows_of_weight_zero_are_left_out(cv):
    w = np.ones(N)
    w[::4] = 0
    rows = np.flatnonzero(w)
    groups, labels = np.array(SEX, dtype=object), np.array(Y, dtype=object)
    groups[::4], labels[::4] = "ghost", "never"
    present = make_post(cv=cv).fit(X, labels, sensitive_features=groups, sample_weight=w)
    if cv != 3:  # the same folds, as positions among the rows that are left
        place = np.full(N, -1)
        place[rows] = np.arange(len(rows))
        parts = [place[test][place[test] >= 0] for _, test in cv.split(X)]
        cv = [(np.setdiff1d(np.arange(len(rows)), part), part) for part in parts]
    absent = make_post(cv=cv)
    absent.fit(X.iloc[rows], labels[rows], sensitive_features=groups[rows], sample_weight=w[rows])
    assert_same_predictions(present, absent)
    assert present.groups_.tolist() == ["f", "m"] and present.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(N - 1)], "sample_weight: 1 values are negative (the least is -1)."),
        (np.r_[np.nan, np.ones(N - 1)], "sample_weight: 1 values are NaN or infinite; must be finite."),
        (np.zeros(N), f"sample_weight: all {N} values are zero; at least one row must count."),
    ],
    ids=["negative", "nan", "zero"],
)
def test_weights_are_not_negative_and_not_all_zero(weights, message):
    assert_error(message, make_post().fit, X, Y, sensitive_features=SEX, sample_weight=weights)


def test_a_model_that_takes_no_weights_is_a_warning():
    w = np.random.default_rng(0).random(N)
    with pytest.warns(OptFairWarning) as caught:
        model = make_post(KNeighborsClassifier(15)).fit(X, Y, sensitive_features=SEX, sample_weight=w)
    assert [str(warning.message) for warning in caught] == [
        "sample_weight: KNeighborsClassifier takes none, so it is fitted without; calibration and constraints honour "
        "them."
    ]
    assert model.certificate_.violation <= 0.05
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    make_post(pipeline).fit(X, Y, sensitive_features=SEX, sample_weight=w)  # a warning would be an error here


# -- small cells ---------------------------------------------------------------------------------------------
def with_rare_group():
    """Return the groups, with one row of class a as a group of its own."""
    groups = np.array(SEX, dtype=object)
    groups[np.flatnonzero(Y == "a")[0]] = "rare"
    return groups


def test_constraints_on_empty_cells_are_one_warning_that_names_them():
    with pytest.warns(OptFairWarning) as caught:
        model = make_post(criterion="eo").fit(X, Y, sensitive_features=with_rare_group())
    small, message = [str(warning.message) for warning in caught]
    assert "fewer than 10 people" in small and small.count("'rare'") == 1
    # Nobody of the rare group is b or c, and each of these has three rates.
    assert message.startswith("6 rates are left out, because nobody is in the group and class: ")
    assert message.count("'rare'") == 6 and "'b'" in message and "'c'" in message and "\n" not in message
    table = model.multipliers_
    assert set(table.loc[table["group"] == "rare", "given"]) == {"a"}
    assert model.certificate_.violation <= 0.05
    assert set(model.predict(X_NEW)) <= set("abc")


def test_a_criterion_on_whole_groups_does_not_mind_empty_cells():
    with pytest.warns(OptFairWarning) as caught:
        model = make_post().fit(X, Y, sensitive_features=with_rare_group())
    assert not any("rates are left out" in str(warning.message) for warning in caught)
    assert model.groups_.tolist() == ["f", "m", "rare"] and model.certificate_.excess == 0


@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"awareness": "aware", "calibration": "posterior"}])
def test_a_class_of_one_row_is_a_class(options):
    """Check it where the models of some folds have not seen the class."""
    labels = np.where(np.arange(N) == 0, "z", Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)  # about the cells it leaves empty
        model = make_post(criterion="eo", tolerance=0.1, **options).fit(X, labels, sensitive_features=SEX)
    assert model.classes_.tolist() == ["a", "b", "c", "z"] and model.certificate_.excess == 0


# -- models --------------------------------------------------------------------------------------------------
def test_the_number_of_models_that_are_fitted():
    m, models_per_recipe = 3, 3  # one of each of the two folds, and one of all rows
    expected = {
        models_per_recipe: make_post(),
        models_per_recipe * (1 + m): make_post(posterior="factored"),
        models_per_recipe * m: make_post(FrozenEstimator(PREFIT)),
    }
    for n_fits, model in expected.items():
        assert model.fit(X, Y, sensitive_features=SEX).n_base_fits_ == n_fits
    table = FRAME[["x1", "x2", "old"]]
    assert make_post(sensitive_features="old", awareness="aware").fit(table, Y).n_base_fits_ == 3


@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_the_seed_is_that_of_the_models_too(posterior):
    """Check that parts without a seed get it, others keep theirs, and the estimator given does not change."""
    forest = RandomForestClassifier(5, max_depth=3)
    pipeline = make_pipeline(StandardScaler(), forest)
    models = [make_post(pipeline, posterior=posterior, random_state=seed) for seed in (1, 1, 2)]
    Z = [model.fit(X, Y, sensitive_features=SEX).joint_posterior(X_NEW) for model in models]
    assert np.array_equal(Z[0], Z[1]) and not np.array_equal(Z[0], Z[2])
    assert forest.random_state is None
    seeded = RandomForestClassifier(5, max_depth=3, random_state=7)
    models = [make_post(seeded, random_state=seed, calibration="none") for seed in (1, 2)]
    Z = [model.fit(X, Y, sensitive_features=SEX).joint_posterior(X_NEW) for model in models]
    assert np.array_equal(Z[0], Z[1])
