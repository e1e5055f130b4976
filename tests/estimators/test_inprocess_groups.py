"""Test whose groups `OptFairIn` compares, and how an aware one sees them: columns, containers, missing groups."""

import numpy as np
import pytest
from scipy import sparse

from optfair import OptFairWarning
from tests.inprocessing.helpers import CODE, FEW_ROUNDS, FRAME, SEX, SEX_NEW, X_NEW, XA, X, Y, fit, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

GROUP_COLUMNS, NEW_GROUP_COLUMNS = (np.eye(2)[(sex == "m").astype(int)] for sex in (SEX, SEX_NEW))


# -- awareness ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def with_columns():
    """Return a blind model that is given the group as columns of X."""
    return quick().fit(np.hstack([XA, GROUP_COLUMNS]), Y, sensitive_features=SEX)


CONTAINERS = {
    "frame": (lambda X: X, 1e-9),
    "array": (lambda X: X.to_numpy(), 1e-9),
    "sparse array": (lambda X: sparse.csr_array(X.to_numpy()), 1e-6),
    "sparse matrix": (lambda X: sparse.csc_matrix(X.to_numpy()), 1e-6),
    "names that are numbers": (lambda X: X.set_axis([3, 7], axis=1), 1e-9),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_an_aware_model_sees_the_group_as_columns(kind, with_columns):
    contain, atol = CONTAINERS[kind]
    model = quick(awareness="aware").fit(contain(X), Y, sensitive_features=SEX)
    np.testing.assert_allclose(model.trace_.multipliers, with_columns.trace_.multipliers, atol=atol)
    h = model.predict_proba(contain(X_NEW), sensitive_features=SEX_NEW)
    np.testing.assert_allclose(h, with_columns.predict_proba(np.hstack([X_NEW, NEW_GROUP_COLUMNS])))
    assert model.predict(contain(X_NEW), sensitive_features=SEX_NEW).shape == (len(X_NEW),)


def test_an_aware_model_needs_the_groups_at_prediction_too():
    model = fit(quick(awareness="aware", rounds=2))
    with pytest.raises(ValueError, match=r"^sensitive_features: missing; give the group of every row"):
        model.predict(X_NEW)
    with pytest.raises(ValueError, match=r"sensitive_features.*'x'"):
        model.predict(X_NEW, sensitive_features=["x"] * len(X_NEW))
    with pytest.raises(ValueError, match=r"^sensitive_features: a blind rule does not use it"):
        fit(quick(rounds=2)).predict(X_NEW, sensitive_features=SEX_NEW)


NO_COLUMNS = (
    "awareness='aware': groups given to fit can be added to a 2-d array, a sparse matrix or a pandas frame "
    "only; name the columns of X that hold them in the constructor."
)


@pytest.mark.parametrize("rows", [XA.tolist(), ["x y"] * len(Y)], ids=["lists", "texts"])
def test_groups_cannot_be_added_to_rows_without_columns(rows):
    with pytest.raises(ValueError) as error:
        quick(awareness="aware").fit(rows, Y, sensitive_features=SEX)
    assert str(error.value) == NO_COLUMNS


def test_groups_cannot_be_added_to_a_polars_frame():
    polars = pytest.importorskip("polars", reason="the frame is polars'")
    with pytest.raises(ValueError) as error:
        quick(awareness="aware").fit(polars.DataFrame(X.to_dict("list")), Y, sensitive_features=SEX)
    assert str(error.value) == NO_COLUMNS


# -- where the groups are ----------------------------------------------------------------------------------
def test_groups_named_in_the_constructor():
    frame = X.assign(sex=(SEX == "m").astype(float))
    blind = quick(sensitive_features="sex").fit(frame, Y)
    given = quick().fit(X, Y, sensitive_features=frame["sex"])
    np.testing.assert_array_equal(blind.trace_.multipliers, given.trace_.multipliers)
    np.testing.assert_array_equal(blind.predict(frame), blind.predict(X))
    aware = quick(sensitive_features="sex", awareness="aware").fit(frame, Y)
    assert aware.mixture_.members[0].n_features_in_ == 3  # it is among the features, nothing is added
    assert aware.predict(frame).shape == (len(Y),)
    by_position = quick(sensitive_features=2).fit(frame.to_numpy(), Y)
    np.testing.assert_array_equal(by_position.trace_.multipliers, given.trace_.multipliers)
    with pytest.raises(ValueError, match="given here and in the constructor"):
        quick(sensitive_features="sex").fit(frame, Y, sensitive_features=SEX)


def test_intersections_and_missing_groups():
    model = quick(tolerance=0.2, rounds=2).fit(X, Y, sensitive_features=FRAME[["sex", "old"]])
    assert len(model.groups_) == 4 and model.groups_.names == ["sex", "old"]
    some = SEX.astype(object).where(np.arange(len(Y)) % 10 > 0, None)
    with pytest.raises(ValueError, match=r"^sensitive_features: .* missing"):
        quick().fit(X, Y, sensitive_features=some)
    assert len(quick(missing="group", tolerance=0.2, rounds=2).fit(X, Y, sensitive_features=some).groups_) == 3


def test_one_group_has_no_violation():
    with pytest.warns(OptFairWarning, match=r"^sensitive_features: there is one group, 'f'; nothing is compared\.$"):
        model = quick(rounds=2).fit(X, Y, sensitive_features=["f"] * len(Y))
    assert model.training_.violation == 0


def test_empty_cells_are_warned_about_once():
    """Not once more by post-processing, which sets the bound on the multipliers."""
    keep = ~((SEX == "f") & (Y == "c"))
    with pytest.warns(OptFairWarning) as caught:
        model = quick(criterion="eop", rounds=2, max_multiplier="auto")
        model.fit(X[keep], Y[keep], sensitive_features=SEX[keep])
    messages = [str(warning.message) for warning in caught if "left out" in str(warning.message)]
    assert len(messages) == 1
    assert "1 rate is left out, because nobody is in the group and class: eop: group 'f'" in messages[0]


# -- classes -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("labels", [CODE, CODE.astype(float), CODE == 1, Y.astype(object)], ids=lambda y: str(y.dtype))
def test_classes_keep_their_type(labels):
    model = quick(rounds=2).fit(X, labels, sensitive_features=SEX)
    assert model.predict(X_NEW).dtype == labels.dtype
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
