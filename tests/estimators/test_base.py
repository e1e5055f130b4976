"""Check rows at the door of a fair classifier: groups, labels, order and number of the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from optfair import OptFairWarning
from optfair.errors import PlaceholderWarning
from optfair.estimators.base import clone_keeping_prefit
from tests.estimators.helpers import (
    FRAME,
    NEW,
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    N,
    X,
    Y,
    assert_error,
    assert_same_predictions,
    make_people,
    make_post,
)


# -- missing groups ------------------------------------------------------------------------------------------
def with_holes(kind):
    """Return the groups, the first two of them missing."""
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
def test_missing_groups_are_an_error_that_counts_them(kind):
    assert_error(
        f"sensitive_features: 2 of {N} rows have a missing value; drop these rows, fill them in, or make them a group "
        "of their own (missing='group'), or unknown (missing='infer').",
        make_post().fit,
        X,
        Y,
        sensitive_features=with_holes(kind),
    )


@pytest.mark.parametrize("kind", ["NaN", "None", "NaT", "NA"])
def test_missing_groups_can_be_a_group(kind):
    groups = with_holes(kind)
    with pytest.warns(OptFairWarning, match=r"fewer than 10 people, whose rates nobody can tell: '\(missing\)' \(2\)"):
        model = make_post(missing="group", awareness="aware").fit(X, Y, sensitive_features=groups)
    assert len(model.groups_) == 3 and "(missing)" in model.groups_.tolist()
    place = model.groups_.tolist().index("(missing)")
    Z = model.joint_posterior(X, sensitive_features=groups)
    assert (Z[:2, place].sum(axis=1) > 0.999).all() and (Z[2:, place] == 0).all()


def test_missing_groups_at_prediction_are_counted_too(aware_post):
    with pytest.raises(ValueError, match=f"sensitive_features: 1 of {N} rows have a missing value"):
        aware_post.predict(X, sensitive_features=[None, *SEX[1:]])


# -- unseen groups -------------------------------------------------------------------------------------------
def test_a_group_that_fit_has_not_seen_is_named(aware_post):
    assert_error(
        "sensitive_features: 'x' is not in the groups seen in fit: ['f', 'm'].",
        aware_post.predict,
        X_NEW,
        sensitive_features=["x", *SEX_NEW[1:]],
    )


def test_a_group_that_fit_has_not_seen_can_be_predicted_blindly(aware_post):
    model = make_post(awareness="aware", unseen="blind").fit(X, Y, sensitive_features=SEX)
    groups = ["x", *SEX_NEW[1:]]
    Z = model.joint_posterior(X_NEW, sensitive_features=groups)
    np.testing.assert_array_equal(Z[0], model.posterior_model_(X_NEW)[0])
    assert (Z[0].sum(axis=1) > 0).all()  # of either group, as far as x tells
    np.testing.assert_array_equal(Z[1:], aware_post.joint_posterior(X_NEW, sensitive_features=SEX_NEW)[1:])
    assert model.predict(X_NEW, sensitive_features=groups)[0] in "abc"


@pytest.mark.parametrize("options", [{}, {"awareness": "aware", "sensitive_features": "sex"}])
def test_unseen_groups_are_looked_up_only_where_groups_are_given(options):
    assert_error(
        "unseen='blind': is for awareness='aware' with groups given to fit; elsewhere no group is looked up.",
        make_post(unseen="blind", **options).fit,
        FRAME[["x1", "x2", "sex"]],
        Y,
    )


# -- ways to give groups -------------------------------------------------------------------------------------
def test_every_way_to_give_groups_is_the_same(blind_post):
    for groups in [SEX.to_numpy(), SEX.tolist(), SEX.to_frame(), pd.Categorical(SEX), SEX.to_numpy()[:, None]]:
        model = make_post().fit(X, Y, sensitive_features=groups)
        assert model.groups_.tolist() == ["f", "m"]
        assert_same_predictions(blind_post, model)
    for source in ("sex", ["sex"], 2, -1):
        model = make_post(sensitive_features=source).fit(FRAME[["x1", "x2", "sex"]], Y)
        assert_same_predictions(model, blind_post)
    function = make_post(sensitive_features=lambda X: np.where(X["x1"].isin(X["x1"]), SEX, "")).fit(X, Y)
    assert_same_predictions(function, blind_post)


def test_several_columns_are_intersections():
    both = FRAME[["sex", "old"]]
    model = make_post(tolerance=0.1).fit(X, Y, sensitive_features=both)
    assert model.groups_.tolist() == [("f", False), ("f", True), ("m", False), ("m", True)]
    assert list(model.groups_.names) == ["sex", "old"]
    assert_same_predictions(model, make_post(tolerance=0.1).fit(X, Y, sensitive_features=both.to_numpy()))
    assert_same_predictions(model, make_post(tolerance=0.1, sensitive_features=["sex", "old"]).fit(FRAME, Y))
    marginal = make_post(attributes="marginals").fit(X, Y, sensitive_features=both)
    assert set(marginal.multipliers_["group"]) == {("f", "*"), ("m", "*"), ("*", False), ("*", True)}
    assert marginal.certificate_.violation <= 0.05


def test_columns_of_groups_are_matched_by_name():
    both = NEW[["sex"]].assign(other=np.arange(len(NEW)) % 2)
    model = make_post(awareness="aware").fit(X_NEW, Y_NEW, sensitive_features=both)
    for method in (model.predict_proba, model.predict):
        exchanged = method(X_NEW, sensitive_features=both[["other", "sex"]])
        np.testing.assert_array_equal(exchanged, method(X_NEW, sensitive_features=both))
    renamed = both.rename(columns={"other": "another"})
    message = "sensitive_features: has the columns ['sex', 'another']; fit had ['sex', 'other']."
    assert_error(message, model.predict, X_NEW, sensitive_features=renamed)


def test_groups_are_given_once():
    assert_error(
        "sensitive_features: given here and in the constructor; give it once.",
        make_post(sensitive_features="sex").fit,
        FRAME,
        Y,
        sensitive_features=SEX,
    )
    assert_error(
        "sensitive_features: missing; give the group of every row, or its column(s) in the constructor.",
        make_post().fit,
        X,
        Y,
    )
    assert_error(
        "sensitive_features='sex': give the group of every row; columns of X are named in the constructor.",
        make_post().fit,
        FRAME,
        Y,
        sensitive_features="sex",
    )


def test_only_an_aware_classifier_takes_groups_at_prediction(blind_post, aware_post):
    assert_error(
        "sensitive_features: a blind rule does not use it; leave it out, or fit with awareness='aware'.",
        blind_post.predict,
        X,
        sensitive_features=SEX,
    )
    with pytest.raises(ValueError, match=r"^sensitive_features: missing; give the group of every row"):
        aware_post.predict(X)


def test_a_blind_classifier_may_be_scored_with_groups(blind_post):
    assert blind_post.score(X_NEW, Y_NEW, sensitive_features=SEX_NEW) == blind_post.score(X_NEW, Y_NEW)


def test_groups_that_a_function_finds_have_row_labels_of_their_own():
    """Rows are matched by position; only what is given to `fit` is compared with the labels of X."""
    order = np.random.default_rng(0).permutation(N)
    shuffled, y = X.iloc[order], Y[order]
    found = make_post(sensitive_features=lambda X: pd.Series(SEX.to_numpy()[order])).fit(shuffled, y)
    given = make_post().fit(shuffled, y, sensitive_features=SEX.to_numpy()[order])
    np.testing.assert_array_equal(found.rule_.weights, given.rule_.weights)
    with pytest.raises(ValueError, match="sensitive_features: has the row labels of X in another order"):
        make_post().fit(shuffled, y, sensitive_features=SEX)


def test_one_group_is_a_warning():
    with pytest.warns(OptFairWarning, match="sensitive_features: there is one group, 'f'; nothing is compared"):
        make_post().fit(X, Y, sensitive_features=np.full(N, "f"))


def test_groups_among_the_features_of_a_blind_rule_are_a_warning():
    model = make_post(make_pipeline(FunctionTransformer(lambda frame: frame[["x1"]]), LogisticRegression()))
    with pytest.warns(
        OptFairWarning, match=r"^sensitive_features: X holds them too, as 'sex', so the rule is not blind"
    ):
        model.fit(NEW[["x1", "sex"]], Y_NEW, sensitive_features=SEX_NEW)


# -- labels --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def two_classes():
    """Return labels 0 and 1, and an OptFairPost that was fitted to them."""
    codes = (make_people(m=2)[1] == "b").astype(int)
    return codes, make_post().fit(X, codes, sensitive_features=SEX)


@pytest.mark.parametrize(
    "names",
    [np.array([-1, 1]), np.array(["no", "yes"]), np.array([False, True]), np.array([0.0, 1.0]), np.array([5, 7])],
    ids=["-1, 1", "text", "bool", "float", "5, 7"],
)
def test_labels_of_any_kind_are_kept(names, two_classes):
    codes, model_of_codes = two_classes
    for labels in (names[codes], names[codes].tolist(), pd.Series(names[codes])):
        model = make_post().fit(X, labels, sensitive_features=SEX)
        predictions = model.predict(X_NEW)
        np.testing.assert_array_equal(predictions, names[model_of_codes.predict(X_NEW)])
        first = predictions[0]
        assert isinstance(first.item() if hasattr(first, "item") else first, type(names[0].item()))
        np.testing.assert_array_equal(model.classes_, names)
        np.testing.assert_array_equal(model.predict_proba(X_NEW), model_of_codes.predict_proba(X_NEW))
        assert model.decision_function(X_NEW).shape == (N,)


def test_one_class_is_an_error():
    assert_error(
        "y: has one class, 'a'; at least two classes are needed to choose from.",
        make_post().fit,
        X,
        np.full(N, "a"),
        sensitive_features=SEX,
    )


def test_missing_y_and_empty_x():
    assert_error(
        "OptFairPost requires y to be passed, but the target y is None; give one label per row.",
        make_post().fit,
        X,
        None,
        sensitive_features=SEX,
    )
    assert_error(
        "X: has 0 sample(s); give at least one row for each of two classes.",
        make_post().fit,
        X[:0],
        Y[:0],
        sensitive_features=SEX[:0],
    )
    with pytest.raises(ValueError, match=r"is not a class label|Unknown label type"):
        make_post().fit(X, X["x1"], sensitive_features=SEX)


# -- order and number of the rows ----------------------------------------------------------------------------
def test_rows_are_matched_by_position_whatever_their_index(blind_post):
    order = np.random.default_rng(3).permutation(N)
    model = make_post().fit(X.set_axis(order), pd.Series(Y, index=order), sensitive_features=SEX.set_axis(order))
    assert_same_predictions(blind_post, model)
    # A default index says nothing beside labels of another kind.
    model = make_post().fit(X, pd.Series(Y, index=order + 10 * N), sensitive_features=SEX.to_numpy())
    assert_same_predictions(blind_post, model)


@pytest.mark.parametrize("name", ["y", "sensitive_features", "sample_weight"])
def test_the_same_row_labels_in_another_order_are_an_error(name):
    arguments = {"y": pd.Series(Y), "sensitive_features": SEX, "sample_weight": pd.Series(np.ones(N))}
    arguments[name] = arguments[name].iloc[::-1]
    assert_error(
        f"{name}: has the row labels of X in another order (first at position 0: {N - 1}, not 0); align them with "
        ".loc[X.index], or pass .to_numpy() to match rows by position.",
        make_post().fit,
        X,
        **arguments,
    )


def test_rows_in_another_order_are_an_error_after_fit_too(blind_post, aware_post):
    reverse = pd.Series(Y_NEW, index=X_NEW.index)[::-1]
    with pytest.raises(ValueError, match="in another order"):
        blind_post.report(X_NEW, reverse, sensitive_features=SEX_NEW)
    with pytest.raises(ValueError, match="in another order"):
        aware_post.predict(X_NEW, sensitive_features=SEX_NEW[::-1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("y", f"y: has {N - 1} rows but X has {N}; they must have the same rows."),
        ("sensitive_features", f"sensitive_features: has {N - 1} rows but X has {N}; they must have the same rows."),
        ("sample_weight", f"sample_weight: has shape ({N - 1},); must be ({N},), one number per row."),
    ],
)
def test_every_number_of_rows_is_checked(name, message):
    arguments = {"y": Y, "sensitive_features": SEX, "sample_weight": np.ones(N)}
    arguments[name] = arguments[name][:-1]
    assert_error(message, make_post().fit, X, **arguments)


def test_numbers_of_rows_are_checked_at_prediction(aware_post, blind_post):
    assert_error(
        f"sensitive_features: has 3 rows, the data has {N}; give one group per row.",
        aware_post.predict,
        X,
        sensitive_features=["f", "m", "f"],
    )
    assert_error(f"keys: 3 given for {N} rows; give one key per row.", blind_post.predict, X, keys=[1, 2, 3])


@pytest.mark.parametrize(
    "ask",
    [lambda m: m.predict(X), lambda m: m.report(), lambda m: m.frontier(), lambda m: m.certificate_],
    ids=["predict", "report", "frontier", "certificate_"],
)
def test_nothing_can_be_asked_before_fit(ask):
    with pytest.raises(NotFittedError):
        ask(make_post())


# -- clones ---------------------------------------------------------------------------------------------------
class Holder(BaseEstimator):
    """A classifier with a base estimator that may be fitted."""

    def __init__(self, estimator=None, cv=5):
        self.estimator = estimator
        self.cv = cv

    def __sklearn_clone__(self):
        return clone_keeping_prefit(self)


def test_clones_share_a_fitted_base_estimator_and_copy_others():
    model = LogisticRegression()
    assert clone(Holder(model, "prefit")).estimator is model
    frozen = FrozenEstimator(model)
    assert clone(Holder(frozen)).estimator is frozen and clone(Holder(len)).estimator is len
    copy = clone(Holder(model, 3)).estimator
    assert copy is not model and isinstance(copy, LogisticRegression)


def test_a_group_that_looks_like_a_missing_value_is_named():
    groups = np.where(np.arange(N) < 40, "?", SEX)
    message = (
        r"^sensitive_features: '\?' is a group like any other; if it means missing, give replace\('\?', None\), and "
        r"missing='group' to keep these rows\.$"
    )
    with pytest.warns(PlaceholderWarning, match=message):
        make_post().fit(X, Y, sensitive_features=groups)
    with pytest.warns(PlaceholderWarning, match="'Unknown' is a group"):
        make_post().fit(
            X, Y, sensitive_features=pd.DataFrame({"sex": SEX, "b": np.where(groups == "?", "Unknown", "b")})
        )
    make_post(missing="group").fit(X, Y, sensitive_features=pd.Series(groups).replace("?", None))
