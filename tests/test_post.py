"""`OptFairPost`: what goes in, what is refused and in which words, what the models see, what the rule promises."""

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from optfair import Constraint, InfeasibleError, MinimumRate, OptFairPost, OptFairWarning, frontier, metrics, solve

N = 240


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


def people(n=N, seed=0, m=3):
    """X with x1, x2 and the columns sex and old, and labels; all depend on each other."""
    rng = np.random.default_rng(seed)
    sex, old = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, 0.7 * old]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), np.linspace(0, 1.2, m - 1))
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": np.array(["f", "m"])[sex], "old": old == 1})
    return frame, np.array(list("abcdef"))[y]


def quick(estimator=None, **options):
    """Two folds and no fresh secret: the same model every time."""
    return OptFairPost(
        LogisticRegression() if estimator is None else estimator,
        **{"cv": 2, "random_state": 0, "tolerance": 0.05} | options,
    )


FRAME, Y = people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"]
NEW, Y_NEW = people(seed=1)
X_NEW, SEX_NEW = NEW[["x1", "x2"]], NEW["sex"]


@pytest.fixture(scope="module")
def blind():
    return quick().fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="module")
def aware():
    return quick(awareness="aware").fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="module")
def soft():
    """A rule that is undecided about most people."""
    return quick(sensitive_features="sex", temperature=0.3).fit(NEW[["x1", "x2", "sex"]], Y_NEW)


def one_line(message, call, *arguments, **named):
    """Exactly this message, of one line."""
    with pytest.raises(ValueError) as caught:
        call(*arguments, **named)
    assert str(caught.value) == message
    assert "\n" not in message


def same(one, other, X=X_NEW, **asked):
    np.testing.assert_array_equal(one.predict_proba(X, **asked), other.predict_proba(X, **asked))
    np.testing.assert_array_equal(one.predict(X, **asked), other.predict(X, **asked))


# -- what bad input gets ------------------------------------------------------------------------------------
def with_holes(kind):
    """The groups as codes 0 and 1, the first two missing."""
    codes = (SEX == "m").astype(int)
    match kind:
        case "NaN":
            return np.r_[np.nan, np.nan, codes[2:]]
        case "None":
            return [None, None, *SEX[2:]]
        case "NaT":
            return pd.Series(pd.to_datetime([pd.NaT, pd.NaT, *np.where(codes[2:], "2020-01-01", "2021-01-01")]))
        case "NA":
            return pd.Series([pd.NA, pd.NA, *SEX[2:]], dtype="string")
        case "frame":
            return pd.DataFrame({"sex": [None, "f", *SEX[2:]], "old": [0.0, np.nan, *np.zeros(N - 2)]})


@pytest.mark.parametrize("kind", ["NaN", "None", "NaT", "NA", "frame"])
def test_missing_groups_are_counted(kind):
    one_line(
        f"sensitive_features: 2 of {N} rows have a missing value; drop these rows, fill them in, or make them a group "
        "of their own (missing='group').",
        quick().fit,
        X,
        Y,
        sensitive_features=with_holes(kind),
    )


@pytest.mark.parametrize("kind", ["NaN", "None", "NaT", "NA"])
def test_missing_groups_can_be_a_group(kind):
    model = quick(missing="group", awareness="aware").fit(X, Y, sensitive_features=with_holes(kind))
    assert len(model.groups_) == 3 and "(missing)" in model.groups_.tolist()
    place = model.groups_.tolist().index("(missing)")
    Z = model.joint_posterior(X, sensitive_features=with_holes(kind))
    assert (Z[:2, place].sum(axis=1) > 0.999).all() and (Z[2:, place] == 0).all()


def test_missing_groups_at_prediction_are_counted_too(aware):
    asked = {"sensitive_features": [None, *SEX[1:]]}
    with pytest.raises(ValueError, match=f"sensitive_features: 1 of {N} rows have a missing value"):
        aware.predict(X, **asked)


def test_a_group_nobody_has_seen_is_named(aware):
    one_line(
        "sensitive_features: 'x' is not in the groups seen in fit=['f', 'm'].",
        aware.predict,
        X_NEW,
        sensitive_features=["x", *SEX_NEW[1:]],
    )


def test_a_group_nobody_has_seen_can_be_answered_blindly(aware):
    model = quick(awareness="aware", unseen="blind").fit(X, Y, sensitive_features=SEX)
    asked = ["x", *SEX_NEW[1:]]
    Z = model.joint_posterior(X_NEW, sensitive_features=asked)
    np.testing.assert_array_equal(Z[0], model.posterior_model_(X_NEW)[0])
    assert (Z[0].sum(axis=1) > 0).all()  # of either group, as far as x tells
    np.testing.assert_array_equal(Z[1:], aware.joint_posterior(X_NEW, sensitive_features=SEX_NEW)[1:])
    assert model.predict(X_NEW, sensitive_features=asked)[0] in "abc"


@pytest.mark.parametrize("options", [{}, {"awareness": "aware", "sensitive_features": "sex"}])
def test_answering_unseen_groups_blindly_needs_groups_to_be_given(options):
    one_line(
        "unseen='blind': is for awareness='aware' with groups given to fit; elsewhere no group is looked up.",
        quick(unseen="blind", **options).fit,
        FRAME[["x1", "x2", "sex"]],
        Y,
    )


def test_a_group_of_one_row_and_empty_cells_are_one_warning_that_names_the_rows():
    groups = np.array(SEX, dtype=object)
    only = int(np.flatnonzero(Y == "a")[0])
    groups[only] = "rare"
    with pytest.warns(OptFairWarning) as caught:
        model = quick(criterion="eo").fit(X, Y, sensitive_features=groups)
    (message,) = [str(w.message) for w in caught]
    # nobody of them is b or c, and each has three rates
    assert message.startswith("6 rows cannot be formed, nobody is in their cells; left out: ")
    assert message.count("'rare'") == 6 and "'b'" in message and "'c'" in message and "\n" not in message
    table = model.multipliers_
    assert set(table.loc[table["group"] == "rare", "given"]) == {"a"}
    assert model.certificate_.violation <= 0.05
    assert set(model.predict(X_NEW)) <= set("abc")


def test_a_criterion_on_whole_groups_needs_no_full_cells():
    groups = np.array(SEX, dtype=object)
    groups[np.flatnonzero(Y == "a")[0]] = "rare"
    model = quick().fit(X, Y, sensitive_features=groups)  # a warning would be an error here
    assert model.groups_.tolist() == ["f", "m", "rare"] and model.certificate_.excess == 0


@pytest.mark.parametrize(
    "names",
    [np.array([-1, 1]), np.array(["no", "yes"]), np.array([False, True]), np.array([0.0, 1.0]), np.array([5, 7])],
    ids=["-1, 1", "text", "bool", "float", "5, 7"],
)
def test_labels_of_any_kind_are_kept(names):
    _, y = people(m=2)
    code = (y == "b").astype(int)
    base = quick().fit(X, code, sensitive_features=SEX)
    for labels in (names[code], names[code].tolist(), pd.Series(names[code])):
        model = quick().fit(X, labels, sensitive_features=SEX)
        answers = model.predict(X_NEW)
        np.testing.assert_array_equal(answers, names[base.predict(X_NEW)])
        assert isinstance(answers[0].item() if hasattr(answers[0], "item") else answers[0], type(names[0].item()))
        np.testing.assert_array_equal(model.classes_, names)
        np.testing.assert_array_equal(model.predict_proba(X_NEW), base.predict_proba(X_NEW))
        assert model.decision_function(X_NEW).shape == (N,)


def test_a_shuffled_index_is_no_obstacle(blind):
    order = np.random.default_rng(3).permutation(N)
    moved = X.set_axis(order), pd.Series(Y, index=order), SEX.set_axis(order)
    same(blind, quick().fit(moved[0], moved[1], sensitive_features=moved[2]))
    # labels that have nothing to do with each other say nothing about the order
    same(blind, quick().fit(X, pd.Series(Y, index=order + 10 * N), sensitive_features=SEX.to_numpy()))


@pytest.mark.parametrize("name", ["y", "sensitive_features", "sample_weight"])
def test_the_same_row_labels_in_another_order_are_refused(name):
    given = {"y": pd.Series(Y), "sensitive_features": SEX, "sample_weight": pd.Series(np.ones(N))}
    given[name] = given[name].iloc[::-1]
    one_line(
        f"{name}: has the row labels of X in another order, and rows are matched by position; reorder it first, e.g. "
        f"{name}.loc[X.index].",
        quick().fit,
        X,
        **given,
    )


def test_one_class_is_refused():
    one_line(
        "y: has one class, 'a'; at least two classes are needed to choose from.",
        quick().fit,
        X,
        np.full(N, "a"),
        sensitive_features=SEX,
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("y", f"y: has {N - 1} rows but X has {N}; they must have the same rows."),
        ("sensitive_features", f"sensitive_features: has {N - 1} rows but X has {N}; they must have the same rows."),
        ("sample_weight", f"sample_weight: has shape ({N - 1},); must be ({N},), one number per row."),
    ],
)
def test_every_length_is_checked(name, message):
    given = {"y": Y, "sensitive_features": SEX, "sample_weight": np.ones(N)}
    given[name] = given[name][:-1]
    one_line(message, quick().fit, X, **given)


def test_lengths_at_prediction(aware, blind):
    one_line(
        f"sensitive_features: has 3 rows, the data has {N}; give one group per row.",
        aware.predict,
        X,
        sensitive_features=["f", "m", "f"],
    )
    one_line(f"keys: 3 given for {N} rows; give one key per row.", blind.predict, X, keys=[1, 2, 3])


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), "tight", True])
def test_a_tolerance_is_a_fraction(blind, value):
    message = f"tolerance={value!r}: must be a number in [0, 1]."
    one_line(message, quick(tolerance=value).fit, X, Y, sensitive_features=SEX)
    one_line(message, blind.with_tolerance, value)


def test_nan_in_x_gets_the_message_of_the_base_estimator():
    bad = X.copy()
    bad.iloc[0, 0] = np.nan
    with pytest.raises(ValueError) as ours:
        quick().fit(bad, Y, sensitive_features=SEX)
    with pytest.raises(ValueError) as theirs:
        LogisticRegression().fit(bad, Y)
    assert str(ours.value) == str(theirs.value)


def test_missing_y_and_empty_x():
    one_line(
        "OptFairPost requires y to be passed, but the target y is None; give one label per row.",
        quick().fit,
        X,
        None,
        sensitive_features=SEX,
    )
    one_line(
        "X: has 0 sample(s); give at least one row for each of two classes.",
        quick().fit,
        X[:0],
        Y[:0],
        sensitive_features=SEX[:0],
    )
    with pytest.raises(ValueError, match=r"is not a class label|Unknown label type"):
        quick().fit(X, X["x1"], sensitive_features=SEX)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"awareness": "half"}, "awareness='half': must be one of 'blind', 'aware'."),
        ({"decision": "coin"}, "decision='coin': must be one of 'hashed', 'argmax', 'sampled'."),
        ({"missing": "drop"}, "missing='drop': must be one of 'error', 'group'."),
        ({"unseen": "ignore"}, "unseen='ignore': must be one of 'error', 'blind'."),
        ({"calibration": "platt"}, "calibration='platt': must be one of 'none', 'posterior', 'labels', 'both'."),
        ({"posterior": "full"}, "posterior='full': must be 'auto', 'joint' or 'factored'."),
        ({"cv": "loo"}, "cv='loo': must be a number of folds, a splitter, a list of splits, or 'prefit'."),
        ({"cv": 1}, "cv=1: must be at least 2 folds, a splitter, a list of splits, or 'prefit'."),
        ({"gap": 0}, "gap=0: must be a positive number."),
        ({"cv": "prefit", "estimator": None}, "estimator=None: cv='prefit' needs a fitted model."),
        ({"estimator": "svm"}, "estimator='svm': must be a classifier, or a function that gives probabilities."),
    ],
)
def test_choices_are_checked(options, message):
    model = quick().set_params(**options)
    one_line(message, model.fit, X, Y, sensitive_features=SEX)


def test_splits_that_are_no_partition_are_refused():
    with pytest.raises(ValueError, match=r"cv: \d+ rows are not in exactly one test part; .* such as KFold gives"):
        quick(cv=ShuffleSplit(2, random_state=0)).fit(X, Y, sensitive_features=SEX)


def test_a_model_without_probabilities_is_told_what_to_do():
    from sklearn.svm import LinearSVC

    one_line(
        "estimator: LinearSVC has no predict_proba; use a classifier that has, or wrap it in "
        "sklearn.calibration.CalibratedClassifierCV.",
        quick(LinearSVC()).fit,
        X,
        Y,
        sensitive_features=SEX,
    )


def test_one_group_is_a_warning():
    with pytest.warns(OptFairWarning, match="sensitive_features: there is one group, 'f'; nothing is compared"):
        quick().fit(X, Y, sensitive_features=np.full(N, "f"))


def test_nothing_can_be_asked_of_a_model_that_is_not_fitted():
    for call in (lambda m: m.predict(X), lambda m: m.report(), lambda m: m.frontier(), lambda m: m.certificate_):
        with pytest.raises(NotFittedError):
            call(quick())


# -- weights ------------------------------------------------------------------------------------------------
def exact():
    """Logistic regression to the last digit, so that models differ by what they were given only."""
    return LogisticRegression(tol=1e-12, max_iter=2000)


@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"calibration": "none"}, {"awareness": "aware"}])
def test_weights_are_repetitions(options):
    n = 120
    w = np.random.default_rng(5).integers(0, 4, n)
    index = np.repeat(np.arange(n), w)
    fold = np.arange(n) % 3

    def splits(of):
        return [(np.flatnonzero(of != k), np.flatnonzero(of == k)) for k in range(3)]

    weighted = quick(exact(), cv=splits(fold), gap=1e-4, **options)
    weighted.fit(X[:n], Y[:n], sensitive_features=SEX[:n], sample_weight=w)
    repeated = quick(exact(), cv=splits(fold[index]), gap=1e-4, **options)
    repeated.fit(X.iloc[index], Y[index], sensitive_features=SEX.iloc[index])
    asked = {"sensitive_features": SEX_NEW} if options.get("awareness") else {}
    np.testing.assert_allclose(
        weighted.joint_posterior(X_NEW, **asked), repeated.joint_posterior(X_NEW, **asked), atol=1e-4
    )
    for name in ("accuracy", "upper_bound", "violation"):
        one, other = getattr(weighted.certificate_, name), getattr(repeated.certificate_, name)
        assert one == pytest.approx(other, abs=3e-4)
    one, other = (m.report().measured[-1] for m in (weighted, repeated))
    assert one.accuracy == pytest.approx(other.accuracy, abs=2e-3)
    unweighted = quick(exact(), cv=splits(fold), **options).fit(X[:n], Y[:n], sensitive_features=SEX[:n])
    assert np.abs(unweighted.joint_posterior(X_NEW, **asked) - weighted.joint_posterior(X_NEW, **asked)).max() > 1e-2


@pytest.mark.parametrize("cv", [3, KFold(3)])
def test_whoever_has_weight_zero_is_not_there(cv):
    w = np.ones(N)
    w[::4] = 0
    kept = np.flatnonzero(w)
    groups, labels = np.array(SEX, dtype=object), np.array(Y, dtype=object)
    groups[::4], labels[::4] = "ghost", "never"
    absent = quick(cv=cv if cv == 3 else [(np.setdiff1d(kept, t), t) for _, t in cv.split(X)])
    if cv != 3:
        where = np.full(N, -1)
        where[kept] = np.arange(len(kept))
        parts = [where[t][where[t] >= 0] for _, t in cv.split(X)]
        absent.set_params(cv=[(np.setdiff1d(np.arange(len(kept)), t), t) for t in parts])
    absent.fit(X.iloc[kept], labels[kept], sensitive_features=groups[kept], sample_weight=w[kept])
    present = quick(cv=cv).fit(X, labels, sensitive_features=groups, sample_weight=w)
    same(present, absent)
    assert present.groups_.tolist() == ["f", "m"] and present.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (-1.0, "sample_weight: 1 values are negative (the least is -1)."),
        (np.nan, "sample_weight: 1 values are NaN or infinite; must be finite."),
    ],
)
def test_weights_are_numbers_of_people(change, message):
    w = np.ones(N)
    w[7] = change
    one_line(message, quick().fit, X, Y, sensitive_features=SEX, sample_weight=w)
    zero = f"sample_weight: all {N} values are zero; at least one row must count."
    one_line(zero, quick().fit, X, Y, sensitive_features=SEX, sample_weight=np.zeros(N))


def test_a_model_that_takes_no_weights_is_said():
    w = np.random.default_rng(0).random(N)
    with pytest.warns(OptFairWarning) as caught:
        model = quick(KNeighborsClassifier(15)).fit(X, Y, sensitive_features=SEX, sample_weight=w)
    assert [str(one.message) for one in caught] == [
        "sample_weight: KNeighborsClassifier takes none, so it is fitted without; calibration and constraints honour "
        "them."
    ]
    assert model.certificate_.violation <= 0.05
    quick(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, Y, sensitive_features=SEX, sample_weight=w)


# -- what the models see ------------------------------------------------------------------------------------
class Recorder(ClassifierMixin, BaseEstimator):
    """A nearest centroid that remembers what it was given."""

    def fit(self, X, y):
        self.classes_, self.saw_, self.asked_ = np.unique(y), X, []
        self.centres_ = np.array([self._numbers(X)[y == c].mean(axis=0) for c in self.classes_])
        return self

    def _numbers(self, X):
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return X.reshape(len(X), -1)[:, :2].astype(float)

    def predict_proba(self, X):
        self.asked_.append(X)
        far = ((self._numbers(X)[:, None] - self.centres_) ** 2).sum(axis=2)
        P = np.exp(-far)
        return P / P.sum(axis=1, keepdims=True)


def test_a_blind_model_never_sees_the_named_columns():
    model = quick(Recorder(), sensitive_features=["sex", "old"]).fit(FRAME, Y)
    inner = model.posterior_model_.model
    assert list(inner.saw_.columns) == ["x1", "x2"]
    model.predict(NEW)
    model.predict(NEW[["x1", "x2"]])  # without the sensitive columns: nothing is missed
    assert [list(asked.columns) for asked in inner.asked_] == [["x1", "x2"]] * 2
    np.testing.assert_array_equal(model.predict(NEW), model.predict(NEW[["x1", "x2"]]))
    assert model.n_features_in_ == 4 and model.feature_names_in_.tolist() == list(FRAME)
    array = np.c_[SEX == "m", X]
    model = quick(Recorder(), sensitive_features=0).fit(array, Y)
    np.testing.assert_array_equal(model.posterior_model_.model.saw_, X.to_numpy())
    np.testing.assert_array_equal(model.predict(array), model.predict(array[:, 1:]))


def test_an_aware_model_sees_them():
    model = quick(Recorder(), sensitive_features="sex", awareness="aware").fit(FRAME, Y)
    assert list(model.posterior_model_.classes.model.saw_.columns) == list(FRAME)
    with pytest.raises(ValueError, match=r"The feature names should match|sex"):
        model.predict(NEW[["x1", "x2", "old"]])


def test_half_of_the_sensitive_columns_is_a_mistake():
    model = quick(sensitive_features=["sex", "old"]).fit(FRAME, Y)
    one_line(
        "sensitive_features=['sex', 'old']: X has 'sex' but not 'old'; give all of them or none.",
        model.predict,
        NEW[["x1", "x2", "sex"]],
    )


def text_people(n=90):
    frame, y = people(n)
    words = np.array(["apple pear", "plum fig", "kiwi lime"])
    frame["text"] = words[np.unique(y, return_inverse=True)[1]] + np.where(frame["sex"] == "m", " red", " blue")
    return frame, y


def columns():
    return make_pipeline(
        ColumnTransformer([("t", TfidfVectorizer(), "text"), ("n", StandardScaler(), ["x1", "x2"])]),
        LogisticRegression(),
    )


def test_text_columns_in_pandas_and_polars():
    polars = pytest.importorskip("polars")
    frame, y = text_people()
    other = polars.DataFrame({c: frame[c].tolist() for c in frame})
    one = quick(columns(), sensitive_features="sex").fit(frame, y)
    two = quick(columns(), sensitive_features="sex").fit(other, y)
    np.testing.assert_allclose(one.predict_proba(frame), two.predict_proba(other), atol=1e-9)
    np.testing.assert_array_equal(one.predict(frame), two.predict(other))
    np.testing.assert_array_equal(one.predict(frame), one.predict(other))  # the same people in another container
    prefit = FrozenEstimator(columns().fit(frame, y))
    model = quick(prefit, tolerance=1.0, calibration="none", sensitive_features="sex").fit(other, y)
    np.testing.assert_array_equal(model.predict(frame), prefit.predict(frame))


def test_a_list_of_texts():
    frame, y = text_people()
    texts = frame["text"].tolist()
    base = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = quick(base).fit(texts, y, sensitive_features=frame["sex"])
    assert model.predict_proba(texts[:5]).shape == (5, 3)
    np.testing.assert_array_equal(model.predict(texts), model.predict(frame["text"]))
    red = quick(base, sensitive_features=lambda X: [t.endswith("red") for t in X]).fit(texts, y)
    assert red.groups_.tolist() == [False, True]
    np.testing.assert_allclose(red.predict_proba(texts), model.predict_proba(texts))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_x_stays_sparse(kind):
    table = kind(np.c_[X, SEX == "m"])
    folds = KFold(3)  # by position: a sparse row is another person than a dense one, and would be in another fold
    model = quick(Recorder(), sensitive_features=2, cv=folds).fit(table, Y)
    saw = model.posterior_model_.model.saw_
    assert sparse.issparse(saw) and saw.shape == (N, 2) and saw.format == table.format
    dense = quick(Recorder(), cv=folds).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_allclose(model.predict_proba(table), dense.predict_proba(X), atol=1e-9)
    default = OptFairPost(cv=3).fit(table, Y, sensitive_features=SEX)
    assert default.predict(table).shape == (N,)


def test_nan_reaches_a_model_that_takes_it():
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2)
    base = HistGradientBoostingClassifier(max_iter=5, early_stopping=False)
    model = quick(base).fit(holes, Y, sensitive_features=SEX)
    assert model.certificate_.violation <= 0.05
    np.testing.assert_array_equal(model.predict(holes), model.predict(holes[::-1])[::-1])
    assert model.__sklearn_tags__().input_tags.allow_nan


def test_three_dimensional_x():
    images = np.stack([X.to_numpy(), X.to_numpy() ** 2], axis=2)
    model = quick(Recorder()).fit(images, Y, sensitive_features=SEX)
    assert model.posterior_model_.model.saw_.shape == (N, 2, 2)
    np.testing.assert_array_equal(model.predict(images), model.predict(images[::-1])[::-1])


# -- groups from every side ---------------------------------------------------------------------------------
def test_every_way_of_giving_groups_is_the_same(blind):
    given = [SEX.to_numpy(), SEX.tolist(), SEX.to_frame(), pd.Categorical(SEX), SEX.to_numpy()[:, None]]
    for groups in given:
        model = quick().fit(X, Y, sensitive_features=groups)
        assert model.groups_.tolist() == ["f", "m"]
        same(blind, model)
    for source in ("sex", ["sex"], 2, -1):
        same(quick(sensitive_features=source).fit(FRAME[["x1", "x2", "sex"]], Y), blind)
    called = quick(sensitive_features=lambda X: np.where(X["x1"].isin(X["x1"]), SEX, "")).fit(X, Y)
    same(called, blind)


def test_several_columns_are_intersections():
    both = FRAME[["sex", "old"]]
    model = quick(tolerance=0.1).fit(X, Y, sensitive_features=both)
    assert model.groups_.tolist() == [("f", False), ("f", True), ("m", False), ("m", True)]
    assert list(model.groups_.names) == ["sex", "old"]
    same(model, quick(tolerance=0.1).fit(X, Y, sensitive_features=both.to_numpy()))
    same(model, quick(tolerance=0.1, sensitive_features=["sex", "old"]).fit(FRAME, Y))
    marginal = quick(attributes="marginals").fit(X, Y, sensitive_features=both)
    assert set(marginal.multipliers_["group"]) == {("f", "*"), ("m", "*"), ("*", False), ("*", True)}
    assert marginal.certificate_.violation <= 0.05


def test_groups_are_given_once():
    given_twice = "sensitive_features: given here and in the constructor; give it once."
    one_line(given_twice, quick(sensitive_features="sex").fit, FRAME, Y, sensitive_features=SEX)
    one_line(
        "sensitive_features: missing; give the group of every row, or its column(s) in the constructor.",
        quick().fit,
        X,
        Y,
    )


def test_a_blind_rule_takes_no_group(blind, aware):
    one_line(
        "sensitive_features: a blind rule does not use it; leave it out, or fit with 'aware'.",
        blind.predict,
        X,
        sensitive_features=SEX,
    )
    with pytest.raises(ValueError, match=r"^sensitive_features: missing; give the group of every row"):
        aware.predict(X)


def test_three_classes_are_the_point(blind):
    assert blind.classes_.tolist() == ["a", "b", "c"]
    h = blind.predict_proba(X_NEW)
    assert h.shape == (N, 3) and blind.decision_function(X_NEW).shape == (N, 3)
    np.testing.assert_allclose(h.sum(axis=1), 1)
    assert set(blind.predict(X_NEW)) == {"a", "b", "c"}


# -- a fitted model is only asked ---------------------------------------------------------------------------
class Stubborn(ClassifierMixin, BaseEstimator):
    """A fitted model that must not be fitted, nor copied."""

    def __init__(self, model=None, names=None):
        self.model = model
        self.names = names

    @property
    def classes_(self):
        return self.model.classes_ if self.names is None else np.array(self.names)

    def fit(self, X, y):
        raise AssertionError("fitted again")

    def __sklearn_clone__(self):
        raise AssertionError("cloned")

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return self.model.predict_proba(X)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


PREFIT = Stubborn(LogisticRegression().fit(X_NEW, Y_NEW))
BLACK_BOXES = [
    (FrozenEstimator(PREFIT), {}),
    (PREFIT, {"cv": "prefit"}),
    (PREFIT.predict_proba, {}),
]


@pytest.mark.parametrize(("box", "options"), BLACK_BOXES, ids=["frozen", "prefit", "function"])
def test_where_nothing_binds_a_black_box_answers_as_ever(box, options):
    for awareness in ("blind", "aware"):
        model = quick(box, tolerance=1.0, calibration="none", awareness=awareness, **options)
        model.fit(X, Y, sensitive_features=SEX)
        asked = {"sensitive_features": SEX_NEW} if awareness == "aware" else {}
        np.testing.assert_allclose(model.joint_posterior(X_NEW, **asked).sum(axis=1).sum(axis=1), 1)
    model = quick(box, tolerance=1.0, calibration="none", **options).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_array_equal(model.predict(X_NEW), PREFIT.predict(X_NEW))
    np.testing.assert_allclose(model.joint_posterior(X_NEW).sum(axis=1), PREFIT.predict_proba(X_NEW))


@pytest.mark.parametrize(("box", "options"), BLACK_BOXES, ids=["frozen", "prefit", "function"])
def test_a_search_does_not_refit_a_black_box(box, options):
    table = FRAME[["x1", "x2", "sex"]]
    model = quick(box, sensitive_features="sex", **options)
    search = GridSearchCV(model, {"tolerance": [0.02, 0.2]}, cv=2, error_score="raise").fit(table, Y)
    assert search.best_estimator_.certificate_.violation <= search.best_params_["tolerance"]
    kept = clone(model).estimator  # not a copy either: it may be large, or have no copy
    assert getattr(kept, "__self__", kept) is getattr(box, "__self__", box)


def test_lightgbm_as_a_black_box():
    lightgbm = pytest.importorskip("lightgbm")
    box = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, min_child_samples=5, verbose=-1, n_jobs=1)
    box.fit(X_NEW, Y_NEW)
    before = box.booster_.model_to_string()
    for options in ({"cv": "prefit"}, {}):
        model = quick(box if options else FrozenEstimator(box), tolerance=1.0, calibration="none", **options)
        model.fit(X, Y, sensitive_features=SEX)
        np.testing.assert_array_equal(model.predict(X), box.predict(X))
        fair = model.with_tolerance(0.05)
        assert fair.certificate_.violation <= 0.05 < model.certificate_.violation
    assert box.booster_.model_to_string() == before


def test_what_a_black_box_cannot_do():
    one_line(
        "posterior='joint': a fitted model knows the classes only; use 'factored' or 'auto'.",
        quick(FrozenEstimator(PREFIT), posterior="joint").fit,
        X,
        Y,
        sensitive_features=SEX,
    )
    two = np.where(Y == "c", "b", Y)
    one_line(
        "estimator: gives 3 columns of probabilities for 2 classes; a model without classes_ needs one column per "
        "class found in y, sorted.",
        quick(PREFIT.predict_proba).fit,
        X,
        two,
        sensitive_features=SEX,
    )
    with pytest.raises(
        ValueError,
        match=r"^estimator: \d+ rows of its output are not probabilities \(row 0 sums to .*\); give one column",
    ):
        quick(PREFIT.model.decision_function).fit(X, Y, sensitive_features=SEX)


def test_classes_that_only_one_side_knows():
    two = np.where(Y == "c", "b", Y)
    for options in ({"estimator": FrozenEstimator(PREFIT)}, {"estimator": PREFIT, "cv": "prefit"}):
        model = quick(**options).fit(X, two, sensitive_features=SEX)  # the model knows c
        assert model.classes_.tolist() == ["a", "b", "c"] and model.predict_proba(X).shape == (N, 3)
        more = Y.copy()
        more[0] = "d"
        one_line("y: 'd' is not in classes=['a', 'b', 'c'].", quick(**options).fit, X, more, sensitive_features=SEX)


def test_a_class_that_y_lacks_keeps_its_name():
    long = Stubborn(PREFIT.model, ["a", "b", "somewhere else"])
    model = quick(FrozenEstimator(long), tolerance=1.0, calibration="none")
    model.fit(X, np.where(Y == "c", "b", Y), sensitive_features=SEX)
    assert model.classes_.tolist() == ["a", "b", "somewhere else"]
    np.testing.assert_array_equal(model.predict(X_NEW), long.predict(X_NEW))


@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"awareness": "aware", "calibration": "both"}])
def test_a_class_of_one_row_is_still_a_class(options):
    """Some folds have never seen it."""
    labels = np.where(np.arange(N) == 0, "z", Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)  # the cells it leaves empty, tested above
        model = quick(criterion="eo", tolerance=0.1, **options).fit(X, labels, sensitive_features=SEX)
    assert model.classes_.tolist() == ["a", "b", "c", "z"] and model.certificate_.excess == 0


def test_a_black_box_may_order_its_classes_as_it_likes():
    unsorted = Stubborn(PREFIT.model, ["b", "c", "a"])  # it calls class a what others call b, and so on
    renamed = np.array(["b", "c", "a"])[np.searchsorted(["a", "b", "c"], Y)]
    model = quick(FrozenEstimator(unsorted), tolerance=1.0, calibration="none")
    model.fit(X, renamed, sensitive_features=SEX)
    answers = model.predict(X)
    np.testing.assert_array_equal(answers, unsorted.predict(X))
    measured = {one.name: one for one in model.report(X, renamed, sensitive_features=SEX).measured}
    expected = np.mean(answers == renamed)
    assert expected == pytest.approx(model.score(X, renamed))
    for name in ("plain model", "decisions (hashed)", "fair rule"):
        assert measured[name].accuracy == pytest.approx(expected)


def test_how_many_models_are_fitted():
    m = 3
    counts = {
        3: quick(),
        3 * (1 + m): quick(posterior="factored"),
        3 * m: quick(FrozenEstimator(PREFIT)),
    }
    for fits, model in counts.items():
        assert model.fit(X, Y, sensitive_features=SEX).n_base_fits_ == fits
    table = FRAME[["x1", "x2", "old"]]
    assert quick(sensitive_features="old", awareness="aware").fit(table, Y).n_base_fits_ == 3


# -- decisions ----------------------------------------------------------------------------------------------
def test_the_same_person_gets_the_same_answer(soft):
    polars = pytest.importorskip("polars")
    answers = soft.predict(X_NEW)
    assert (answers != soft.classes_[soft.predict_proba(X_NEW).argmax(axis=1)]).mean() > 0.05
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(soft.predict(X_NEW.iloc[order]), answers[order])
    one_by_one = np.concatenate([soft.predict(X_NEW.iloc[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(one_by_one, answers[:40])
    np.testing.assert_array_equal(soft.predict(polars.DataFrame({c: X_NEW[c].to_numpy() for c in X_NEW})), answers)
    same_people = quick(sensitive_features=2, temperature=0.3)
    table = np.c_[X_NEW, SEX_NEW == "m"]
    same_people.fit(table, Y_NEW)
    np.testing.assert_array_equal(same_people.predict(table), same_people.predict(table.tolist()))


def test_a_blind_answer_does_not_depend_on_the_group(soft):
    other = NEW[["x1", "x2", "sex"]].assign(sex=np.where(SEX_NEW == "f", "m", "f"))
    unknown = other.assign(sex="neither")
    for table in (other, unknown, X_NEW):
        np.testing.assert_array_equal(soft.predict(table), soft.predict(NEW[["x1", "x2", "sex"]]))


def test_keys_are_people(soft):
    keys = [f"person {i}" for i in range(N)]
    answers = soft.predict(X_NEW, keys=keys)
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(soft.predict(X_NEW.iloc[order], keys=[keys[i] for i in order]), answers[order])
    assert (answers != soft.predict(X_NEW)).any() and (answers != soft.predict(X_NEW, keys=range(N))).any()
    undecided = X_NEW.iloc[[int(soft.predict_proba(X_NEW).max(axis=1).argmin())] * 100]
    assert len(set(soft.predict(undecided))) == 1  # one row, one person
    assert len(set(soft.predict(undecided, keys=range(100)))) > 1  # a hundred people with the same x
    one_line(
        "keys: 1 of 240 are missing (None or NaN); every person needs one.", soft.predict, X_NEW, keys=[None, *keys[1:]]
    )


def test_hashed_answers_have_the_rates_of_the_rule(soft):
    big, _ = people(4000, seed=9)
    h = soft.predict_proba(big[["x1", "x2"]])
    answers = soft.predict(big[["x1", "x2"]])
    for j, name in enumerate(soft.classes_):
        error = np.sqrt((h[:, j] * (1 - h[:, j])).sum()) / len(h)
        assert abs((answers == name).mean() - h[:, j].mean()) < 4 * error


def test_drawn_answers(soft):
    drawn = copy.copy(soft).set_params(decision="sampled")
    first = drawn.predict(X_NEW, random_state=1)
    np.testing.assert_array_equal(first, drawn.predict(X_NEW, random_state=1))
    assert (first != drawn.predict(X_NEW, random_state=2)).any()
    np.testing.assert_array_equal(drawn.predict(X_NEW), drawn.predict(X_NEW, random_state=0))  # the constructor's
    one_line("random_state: only decision='sampled' draws; got decision='hashed'.", soft.predict, X, random_state=1)
    one_line("keys: only decision='hashed' uses them; got decision='sampled'.", drawn.predict, X, keys=range(N))


def test_the_likeliest_class(soft):
    likeliest = copy.copy(soft).set_params(decision="argmax")
    h = soft.predict_proba(X_NEW)
    np.testing.assert_array_equal(likeliest.predict(X_NEW), soft.classes_[h.argmax(axis=1)])
    scores = soft.decision_function(X_NEW)
    if soft.rule_.share == 0:
        np.testing.assert_array_equal(h.argmax(axis=1), scores.argmax(axis=1))
    assert soft.determinism_.undecided > 0.2


def test_a_fresh_key_unless_there_is_a_seed():
    keys = [quick(random_state=seed).fit(X, Y, sensitive_features=SEX).rule_.key for seed in (None, None, 0, 0)]
    assert keys[0] != keys[1] and keys[2] == keys[3]


@pytest.mark.parametrize("posterior", ["joint", "factored"])
def test_a_seed_is_that_of_the_models_too(posterior):
    """Of the parts that have none; those that have one keep it, and the estimator given is left as it is."""
    forest = RandomForestClassifier(5, max_depth=3)
    models = [quick(make_pipeline(StandardScaler(), forest), posterior=posterior, random_state=k) for k in (1, 1, 2)]
    found = [model.fit(X, Y, sensitive_features=SEX).joint_posterior(X_NEW) for model in models]
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])
    assert forest.random_state is None
    own = RandomForestClassifier(5, max_depth=3, random_state=7)
    found = [quick(own, random_state=k, calibration="none").fit(X, Y, sensitive_features=SEX) for k in (1, 2)]
    assert np.array_equal(*(model.joint_posterior(X_NEW) for model in found))


def test_rules_from_the_same_posteriors_share_the_secret():
    """Whoever is undecided under both is answered from the same number."""
    model = quick(random_state=None).fit(X, Y, sensitive_features=SEX)
    others = [model.with_tolerance(0.1), model.with_criterion("oae")]
    rules = [other.rule_ for other in others] + list(model.frontier([0.1, 0.2]).rules)
    assert {rule.key for rule in rules} == {model.rule_.key}


# -- what is promised ---------------------------------------------------------------------------------------
CASES = [
    {},
    {"criterion": "eo"},
    {"criterion": "eop", "outcomes": ["a"]},
    {"criterion": "meo", "reference": "pairwise"},
    {"criterion": "oae"},
    {"criterion": "eo", "awareness": "aware"},
    {"criterion": "dp", "awareness": "aware", "posterior": "factored", "calibration": "none"},
    {"criterion": [Constraint("dp", 0.05), Constraint("oae", 0.1)], "tolerance": 0.01},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_the_rule_is_within_tolerance_on_the_posteriors_it_was_solved_for(options):
    model = quick(**{"calibration": "posterior"} | options).fit(X, Y, sensitive_features=SEX)
    c = model.certificate_
    assert c.excess == 0 and c.accuracy <= c.upper_bound + 1e-12 and c.gap <= 1e-3
    # by hand: the same rates from Z and h, for every pair of group and overall
    Z = model._kept.task.posterior.Z
    assert np.allclose(Z.sum(axis=(1, 2)), 1)
    h = model.rule_.predict_proba(Z)
    J = np.einsum("xai,xj->aij", Z, h) / len(Z)
    assert np.trace(J.sum(axis=0)) == pytest.approx(c.accuracy)
    if options.get("criterion", "dp") == "dp":
        rates = J.sum(axis=1) / J.sum(axis=(1, 2))[:, None]
        worst = np.abs(rates - J.sum(axis=(0, 1))).max()
        assert worst == pytest.approx(c.violation) and worst <= 0.05
    if options.get("criterion") == "eo":
        rates = J / J.sum(axis=2, keepdims=True)
        overall = J.sum(axis=0) / J.sum(axis=(0, 2))[:, None]
        worst = np.abs(rates - overall).max()
        assert worst == pytest.approx(c.violation) and worst <= 0.05


def test_posteriors_are_out_of_fold():
    """With copies of one label per row nearest neighbours are always right about rows they have seen."""
    rng = np.random.default_rng(0)
    noise = rng.choice(list("ab"), N)
    model = quick(KNeighborsClassifier(1), calibration="none", tolerance=1.0)
    model.fit(X, noise, sensitive_features=SEX)
    plain = model.report().measured[0]
    assert plain.name == "unconstrained, joint" and plain.accuracy < 0.7
    assert model.score(X, noise) == 1.0  # the model of all rows has seen them


def biased(X):
    """P(Y | X) of a model that is far too sure of class a for those who look like the second group."""
    P = PREFIT.predict_proba(X[["x1", "x2"]]) * np.exp(2.5 * X[["looks"]].to_numpy() * np.array([1.0, 0.0, 0.0]))
    return P / P.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def miscalibrated():
    """Labelled out-of-fold violation by calibration, of a rule on top of `biased`."""
    frame, y = people(3000, seed=4)
    groups, doubt = frame["sex"], np.random.default_rng(4).random(3000) < 0.1
    table = frame[["x1", "x2"]].assign(looks=(groups == "m") ^ doubt)
    found = {}
    for calibration in ("none", "posterior", "labels", "both"):
        model = quick(biased, calibration=calibration, criterion="eo", tolerance=0.02, cv=2)
        model.fit(table, y, sensitive_features=groups)
        h = model.rule_.predict_proba(model._kept.task.posterior.Z)
        found[calibration] = metrics.violation(y, h, sensitive_features=groups, criterion="eo", classes=model.classes_)
    return found


@pytest.mark.parametrize("calibration", ["posterior", "labels", "both"])
def test_labels_mend_what_a_miscalibrated_model_breaks(miscalibrated, calibration):
    assert miscalibrated["none"] > 5 * 0.02  # the plug-in promise alone was worth nothing
    assert miscalibrated[calibration] < miscalibrated["none"] / 2


def test_bounds_moved_by_labels_hold_for_the_labels(miscalibrated):
    assert miscalibrated["labels"] < 2 * 0.02  # shrinkage leaves a part of what may be noise


# -- aware --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"posterior": "factored"}, {"calibration": "none"}])
def test_the_posterior_of_an_aware_model_lies_in_the_block_of_the_group(options):
    model = quick(awareness="aware", **options).fit(X, Y, sensitive_features=SEX)
    Z = model.joint_posterior(X_NEW, sensitive_features=SEX_NEW)
    own = (SEX_NEW == "m").astype(int).to_numpy()
    np.testing.assert_allclose(Z[np.arange(N), own].sum(axis=1), 1)
    assert (Z[np.arange(N), 1 - own] == 0).all()
    assert model.certificate_.excess == 0
    flipped = model.predict_proba(X_NEW, sensitive_features=np.where(own, "f", "m"))
    assert (flipped != model.predict_proba(X_NEW, sensitive_features=SEX_NEW)).any()
    assert model.score(X, Y, sensitive_features=SEX) > 0.5


def test_joint_and_factored_aware_models_are_bayes_rule():
    """P(Y | X, A=a) = z[a] / Σ z[a] of the blind posterior of the same models."""
    for posterior in ("joint", "factored"):
        one = quick(posterior=posterior, calibration="none").fit(X, Y, sensitive_features=SEX)
        two = quick(posterior=posterior, calibration="none", awareness="aware").fit(X, Y, sensitive_features=SEX)
        own = (SEX_NEW == "m").astype(int).to_numpy()
        z = one.joint_posterior(X_NEW)[np.arange(N), own]
        Z = two.joint_posterior(X_NEW, sensitive_features=SEX_NEW)
        np.testing.assert_allclose(Z[np.arange(N), own], z / z.sum(axis=1, keepdims=True))


def test_an_aware_model_whose_x_holds_the_group_is_the_class_model_itself():
    table, new = FRAME[["x1", "x2", "old"]], NEW[["x1", "x2", "old"]]
    model = quick(awareness="aware", sensitive_features="old", calibration="none").fit(table, Y)
    expected = LogisticRegression().fit(table, Y).predict_proba(new)
    Z = model.joint_posterior(new)
    np.testing.assert_allclose(Z.sum(axis=1), expected, atol=1e-9)
    np.testing.assert_array_equal(Z[:, 1].sum(axis=1) > 0, new["old"])
    assert model.certificate_.excess == 0
    assert model.predict(new).shape == (N,)  # nobody has to say the group again


# -- other rules from the same posteriors -------------------------------------------------------------------
@pytest.mark.parametrize("name", ["blind", "aware"])
def test_another_tolerance_is_a_fresh_solve_on_the_same_posteriors(name):
    model = quick(awareness=name, calibration="posterior").fit(X, Y, sensitive_features=SEX)
    Z = model._kept.task.posterior.Z
    before = model.certificate_
    for tolerance in (0.0, 0.01, 0.2, 1.0):
        other = model.with_tolerance(tolerance)
        fresh = solve(Z, "dp", tolerance, groups=model.groups_, classes=model.classes_)
        c, f = other.certificate_, fresh.certificate
        assert c.violation <= tolerance + 1e-6  # at 0 no rule but a constant is inside to the last digit
        assert c.violation <= tolerance + c.excess and other.n_base_fits_ == 0 and other.tolerance == tolerance
        assert c.accuracy <= f.upper_bound + 1e-9 and f.accuracy <= c.upper_bound + 1e-9
        assert abs(c.accuracy - f.accuracy) <= max(c.gap, f.gap) + 1e-9
        assert other.rule_.key == model.rule_.key and other.posterior_model_ is model.posterior_model_
    assert model.certificate_ is before and model.tolerance == 0.05


def test_another_criterion_is_a_fresh_solve_on_the_same_posteriors():
    blind = quick(calibration="posterior").fit(X, Y, sensitive_features=SEX)
    Z = blind._kept.task.posterior.Z
    for criterion, tolerance in (("eo", None), ("oae", 0.02), (MinimumRate("recall", 0.4), None)):
        if isinstance(criterion, MinimumRate):
            other = blind.with_criterion(criterion)
            fresh = solve(Z, criterion, groups=blind.groups_, classes=blind.classes_)
        else:
            other = blind.with_criterion(criterion, tolerance)
            fresh = solve(Z, criterion, tolerance or 0.05, groups=blind.groups_, classes=blind.classes_)
        c, f = other.certificate_, fresh.certificate
        assert c.excess == 0 == f.excess
        assert abs(c.accuracy - f.accuracy) <= max(c.gap, f.gap) + 1e-9
        assert other.predict(X_NEW).shape == (N,)


def test_constraint_objects_move_with_the_tolerance():
    wish = [Constraint("dp", 0.3), MinimumRate("recall", 0.2)]
    model = quick(criterion=wish, tolerance=0.01).fit(X, Y, sensitive_features=SEX)
    other = model.with_tolerance(0.05)
    assert other.certificate_.violation <= 0.05 and other.certificate_.tolerance == (0.05, 0.2)
    assert clone(other).get_params()["criterion"][0].tolerance == 0.05
    with pytest.raises(ValueError, match=r"^tolerance: already said by the constraint objects"):
        quick(criterion=wish, tolerance=0.2).fit(X, Y, sensitive_features=SEX)


def test_the_frontier_falls_towards_zero(blind):
    found = blind.frontier(5, test=(X_NEW, Y_NEW, SEX_NEW))
    table = found.table
    assert (np.diff(table["tolerance"]) < 0).all()
    assert (table["violation"] <= table["tolerance"] + 1e-9).all()
    assert (np.diff(table["upper_bound"]) <= 1e-3).all()  # what is possible can only shrink
    assert (np.diff(table["accuracy"]) <= table["gap"].to_numpy()[:-1] + 1e-9).all()
    for rule, line in zip(found.rules, table.itertuples(), strict=True):
        h = rule.predict_proba(blind.joint_posterior(X_NEW))
        assert line.test_accuracy == pytest.approx(h[np.arange(N), np.searchsorted(blind.classes_, Y_NEW)].mean())
        assert line.test_violation == pytest.approx(metrics.violation(Y_NEW, h, sensitive_features=SEX_NEW))
        assert rule.key == blind.rule_.key
    Z = blind._kept.task.posterior.Z
    fresh = frontier(Z, "dp", table["tolerance"].tolist(), groups=blind.groups_, classes=blind.classes_).table
    np.testing.assert_allclose(fresh["accuracy"], table["accuracy"], atol=1e-3)
    one_line(
        "test: must be (X_test, y_test, groups_test) or (X_test, y_test, groups_test, weights).",
        blind.frontier,
        3,
        test=(X_NEW, Y_NEW),
    )


def test_the_frontier_of_an_aware_model_takes_the_groups_from_the_test_data(aware):
    table = aware.frontier([0.02, 0.1], test=(X_NEW, Y_NEW, SEX_NEW, np.ones(N))).table
    assert len(table) == 2 and (table["violation"] <= table["tolerance"] + 1e-9).all()


GONE = (
    "the out-of-fold posteriors are not there (keep_posteriors=False, or a copy or a file of the model, which "
    "never hold them); fit again."
)


def test_without_posteriors_there_is_no_other_rule(blind):
    model = quick(keep_posteriors=False).fit(X, Y, sensitive_features=SEX)
    same(model, blind)
    one_line(GONE, model.with_tolerance, 0.1)
    one_line(GONE, model.with_criterion, "eo")
    one_line(GONE, model.frontier)
    text = str(model.report())
    assert "Certificate" in text and "With labels" not in text
    assert "fair rule" in str(model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW))


@pytest.mark.parametrize("name", ["blind", "aware"])
def test_a_pickle_answers_the_same_and_holds_no_posteriors(name, request):
    model = request.getfixturevalue(name)
    asked = {"sensitive_features": SEX_NEW} if name == "aware" else {}
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        same(model, other, **asked)
        assert not hasattr(other, "_kept") and other.groups_.equals(model.groups_)
        assert other.certificate_ == model.certificate_ and other.determinism_ == model.determinism_
        pd.testing.assert_frame_equal(other.multipliers_, model.multipliers_)
        one_line(GONE, other.with_tolerance, 0.1)
    assert not hasattr(clone(model), "rule_") and clone(model).get_params().keys() == model.get_params().keys()


def test_a_pickle_does_not_grow_with_the_people():
    sizes = []
    for n in (150, 1500):
        frame, y = people(n)
        model = quick().fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
        sizes.append(len(pickle.dumps(model)))
        assert len(model._kept.cell) == n
    assert abs(sizes[1] - sizes[0]) < 1500  # an eighth of a number for each of the further people


# -- the report ---------------------------------------------------------------------------------------------
def test_the_report_of_the_people_fitted_on(blind):
    report = blind.report()
    text = str(report)
    for part in (
        "OptFairPost, dp within 0.05 of overall, blind: 2 groups, 3 classes; 240 people fitted on, out of fold",
        "Certificate (on z(x), the estimates of P(A, Y | X), out of fold)",
        "upper bound",
        "Prices (accuracy gained per unit of tolerance)",
        "Price of determinism",
        "With labels (largest gap of any group;",
        "unconstrained, joint",
        "fair rule",
        "Constraints with labels: ",
        "Took: models ",
        "(3 model fits)",
    ):
        assert part in text
    h = blind.rule_.predict_proba(blind._kept.task.posterior.Z)
    plain, fair = report.measured
    assert fair.accuracy == pytest.approx(h[np.arange(N), np.searchsorted(blind.classes_, Y)].mean())
    assert fair.interval.value == pytest.approx(metrics.violation(Y, h, sensitive_features=SEX))
    assert fair.interval.lower <= fair.interval.value <= fair.interval.upper
    assert plain.interval.value > fair.interval.value
    assert len(report.constraints) == 2 * 3
    prices = blind.multipliers_.groupby("group")["multiplier"].apply(lambda s: s.abs().sum())
    np.testing.assert_allclose(report.prices.set_index("group")["price"], prices)


@pytest.mark.parametrize("name", ["blind", "aware", "soft"])
def test_the_report_on_labelled_people(name, request):
    model = request.getfixturevalue(name)
    w = np.random.default_rng(0).random(N)
    table = X_NEW if name != "soft" else NEW[["x1", "x2", "sex"]]
    given = {} if name == "soft" else {"sensitive_features": SEX_NEW}
    asked = given if name == "aware" else {}
    report = model.report(table, Y_NEW, sample_weight=w, **given)
    assert f"{N} people given" in str(report) and "Took" not in str(report) and "Certificate" not in str(report)
    measured = {one.name: one for one in report.measured}
    assert list(measured) == ["unconstrained, joint", "decisions (hashed)", "fair rule"]
    answers = model.predict(table, **asked)
    assert measured["decisions (hashed)"].accuracy == pytest.approx(np.average(answers == Y_NEW, weights=w))
    for label, prediction in (("decisions (hashed)", answers), ("fair rule", model.predict_proba(table, **asked))):
        expected = metrics.violation(Y_NEW, prediction, sensitive_features=SEX_NEW, sample_weight=w)
        assert measured[label].interval.value == pytest.approx(expected)


def test_the_report_says_when_nothing_binds_and_which_cells_are_small():
    model = quick(tolerance=1.0).fit(X, Y, sensitive_features=SEX)
    assert "Prices: no constraint binds; the rule costs nothing." in str(model.report())
    small = str(quick(tolerance=0.01).fit(X, Y, sensitive_features=SEX).report())
    sizes = SEX.value_counts()
    assert "Cells too small to judge: chance moves their rates by more than the tolerance (people): " in small
    assert f"'f': {sizes['f']}" in small and f"'m': {sizes['m']}" in small


def test_the_report_refuses_what_predict_refuses(blind):
    with pytest.raises(ValueError, match=r"^sensitive_features: missing"):
        blind.report(X, Y)
    with pytest.raises(ValueError, match=re.escape("y: 'z' is not in classes=['a', 'b', 'c']")):
        blind.report(X, np.full(N, "z"), sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^y: has 239 rows but X has 240"):
        blind.report(X, Y[:-1], sensitive_features=SEX)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blind.report(X, Y, sensitive_features=SEX)


# -- found by an attack -------------------------------------------------------------------------------------
def test_another_criterion_on_many_rows_does_not_start_from_another_matrix():
    """The solver remembers where it was; the rows of D in another order, or fewer of them, are another problem."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((60_000, 3))
    group = (features[:, 0] + rng.standard_normal(60_000) > 0).astype(int) + (rng.random(60_000) < 0.2)
    label = (features[:, 1] + 0.5 * group + rng.standard_normal(60_000) > 0.5).astype(int) + (features[:, 2] > 1)
    both = [Constraint("dp", 0.02), Constraint("oae", 0.01)]
    model = OptFairPost(GaussianNB(), criterion=both, cv=2, calibration="posterior", random_state=0)
    model.fit(features, label, sensitive_features=group)
    for other in (both[::-1], both[:1], [*both, Constraint("eo", 0.1)]):
        again = model.with_criterion(other)
        assert again.certificate_.excess == 0 and again.certificate_.gap <= 2e-3


def test_aware_labels_do_not_rule_out_a_class_that_nobody_of_a_small_group_had():
    y, sex = np.array(["a", "b"] * 100 + ["a"] * 4), np.array(["f", "m"] * 50 + ["m", "f"] * 50 + ["x"] * 4)
    features = np.random.default_rng(0).standard_normal((204, 2))
    model = OptFairPost(FrozenEstimator(LogisticRegression().fit(features[:200], y[:200])), awareness="aware", cv=2)
    model.fit(features, y, sensitive_features=sex)
    Z = model.joint_posterior(features, sensitive_features=np.full(204, "x"))
    assert Z[:, 2].max() < 1


def test_columns_of_groups_are_matched_by_name():
    both = NEW[["sex"]].assign(other=np.arange(len(NEW)) % 2)
    model = quick(awareness="aware").fit(X_NEW, Y_NEW, sensitive_features=both)
    same(model, model, sensitive_features=both)
    np.testing.assert_array_equal(
        model.predict_proba(X_NEW, sensitive_features=both[["other", "sex"]]),
        model.predict_proba(X_NEW, sensitive_features=both),
    )
    wrong = both.rename(columns={"other": "another"})
    message = "sensitive_features: has the columns ['sex', 'another']; fit had ['sex', 'other']."
    one_line(message, model.predict, X_NEW, sensitive_features=wrong)


def test_rows_in_another_order_are_refused_after_fit_too(blind, aware):
    shuffled = Y_NEW[::-1] if isinstance(Y_NEW, pd.Series) else pd.Series(Y_NEW, index=X_NEW.index)[::-1]
    with pytest.raises(ValueError, match="in another order"):
        blind.report(X_NEW, shuffled, sensitive_features=SEX_NEW)
    with pytest.raises(ValueError, match="in another order"):
        aware.predict(X_NEW, sensitive_features=SEX_NEW[::-1])


def test_a_frame_without_its_sensitive_column_has_the_others_in_order():
    model = quick(sensitive_features="sex").fit(NEW[["x1", "x2", "sex"]], Y_NEW)
    one_line(
        "X: has the columns ['x2', 'x1']; expected those of fit, in order: ['x1', 'x2'].",
        model.predict,
        NEW[["x2", "x1"]],
    )


def test_splits_that_overlap_are_refused():
    everybody = np.arange(len(X))
    halves = [(everybody, everybody[::2]), (everybody, everybody[1::2])]
    message = "cv: a training part is empty, or holds people of its test part; they must be apart."
    one_line(message, quick(cv=halves).fit, X, Y, sensitive_features=SEX)


def test_what_is_frozen_inside_is_refused():
    inside = make_pipeline(StandardScaler(), FrozenEstimator(LogisticRegression().fit(X, Y)))
    with pytest.raises(ValueError, match=r"is a fitted classifier; freeze the whole"):
        quick(inside).fit(X, Y, sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^estimator: class_weight by class is not possible"):
        quick(LogisticRegression(class_weight={0: 2, 1: 1})).fit(X, Y, sensitive_features=SEX)


def test_a_fit_that_fails_leaves_the_earlier_model_whole():
    model = quick().fit(X, Y, sensitive_features=SEX)
    before = model.predict_proba(X_NEW)
    model.set_params(criterion=[MinimumRate("recall", 1.0)], tolerance=0.01)
    with pytest.raises(InfeasibleError):
        model.fit(X_NEW, Y_NEW, sensitive_features=SEX_NEW)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), before)


def test_groups_among_the_features_are_said():
    with pytest.warns(
        OptFairWarning, match=r"^sensitive_features: X holds them too, as 'sex', so the rule is not blind"
    ):
        quick(make_pipeline(FunctionTransformer(lambda f: f[["x1"]]), LogisticRegression())).fit(
            NEW[["x1", "sex"]], Y_NEW, sensitive_features=SEX_NEW
        )


def test_a_blind_rule_may_be_scored_with_groups_and_objects_say_their_tolerance(blind):
    assert blind.score(X_NEW, Y_NEW, sensitive_features=SEX_NEW) == blind.score(X_NEW, Y_NEW)
    message = "tolerance: already said by the constraint objects; leave it out here."
    one_line(message, blind.with_criterion, Constraint("eo", 0.3), 0.01)
    rates = blind.with_criterion(MinimumRate("recall", 0.1))
    one_line("tolerance: none of the constraints has one; use with_criterion.", rates.with_tolerance, 0.1)
    message = (
        "estimator=None: the default logistic regression cannot read the column 'sex', not a number; pass a Pipeline"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        OptFairPost().fit(NEW[["x1", "sex"]].rename(columns={"sex": "sex"}), Y_NEW, sensitive_features=np.arange(N) % 2)


def test_keys_in_a_report_are_those_of_predict(soft):
    people = NEW[["x1", "x2", "sex"]]
    decided = soft.report(people, Y_NEW, keys=np.arange(N)).measured[1]
    assert decided.accuracy == pytest.approx(np.mean(soft.predict(people, keys=np.arange(N)) == np.asarray(Y_NEW)))


def test_groups_named_by_intervals_pickle_but_are_not_written(tmp_path):
    age = pd.Series(pd.cut(pd.Series(np.arange(N) % 60), [-1, 20, 40, 60]))
    model = quick().fit(X, Y, sensitive_features=age)
    same(pickle.loads(pickle.dumps(model)), model)
    pytest.importorskip("skops")
    one_line(
        "save: a name of type Interval cannot be written; use text, numbers or tuples of them.", model.save, tmp_path
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_estimator": 3}, "group_estimator=3: must be a classifier"),
        ({"group_estimator": LogisticRegression}, "group_estimator=<class"),
        ({"posterior": "joint"}, "posterior='joint': a fitted model knows the classes only"),
        ({"cv": 1}, "cv=1: must be at least 2 folds"),
    ],
)
def test_wrong_arguments_are_not_blamed_on_the_fitted_model(change, message):
    """Though the name of the sensitive column, a letter, is in every message."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(200), "a": rng.integers(0, 2, 200)})
    y = (frame["x"] > 0).to_numpy()
    fitted = FrozenEstimator(LogisticRegression().fit(frame[["x"]], y))
    with pytest.raises(ValueError) as error:
        OptFairPost(fitted, sensitive_features="a", **change).fit(frame, y)
    assert str(error.value).startswith(message)


def test_a_fitted_model_that_needs_the_sensitive_column_is_told_in_one_line():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(200), "a": rng.integers(0, 2, 200)})
    y = (frame["x"] > 0).to_numpy()
    fitted = FrozenEstimator(LogisticRegression().fit(frame, y))
    with pytest.raises(ValueError, match=r"^estimator: the fitted model seems to need the sensitive column 'a'"):
        OptFairPost(fitted, sensitive_features="a").fit(frame, y)


@pytest.mark.parametrize("column", ["a", "of"])
def test_errors_of_a_function_are_its_own(column):
    """Though a word of theirs is the name of the sensitive column."""
    frame = pd.DataFrame({"x": np.arange(40.0), column: np.arange(40) % 2})
    with pytest.raises(ValueError, match="rows of its output are not probabilities"):
        OptFairPost(lambda Z: np.ones((len(Z), 2)), sensitive_features=column).fit(frame, np.arange(40) % 3 > 0)
