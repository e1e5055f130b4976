"""Bad calls and what is said about them: one line each, which names the argument and a next step that exists.

A line of a table is a name, the call, and how its message begins (a regular expression). To add a case, add a line.
"""

import decimal
import functools
import re
import uuid

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, OptFairIn, OptFairPost, Rows, audit, frontier, metrics, solve
from optfair.baselines import ERM, LinearPost
from optfair.datasets import make_fair_classification
from optfair.metrics import ViolationScorer

LONGEST = 300  # characters that are read at a glance
N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = np.arange(N) % 3
GROUP = np.array(["A", "B"])[np.arange(N) // 3 % 2]
Z = RNG.dirichlet(np.ones(6), N).reshape(-1, 2, 3)
H = RNG.dirichlet(np.ones(3), N)
GAPS = pd.Series(GROUP).where(np.arange(N) > 3)
SURROGATE = np.array(["A", "\ud800"], dtype=object)[Y % 2]


@functools.cache
def fitted(kind=OptFairPost):
    return kind(random_state=0).fit(X, Y, sensitive_features=GROUP)


@functools.cache
def inferred():
    return fit(groups=GAPS, missing="infer")


def fit(rows=X, labels=Y, groups=GROUP, kind=OptFairPost, weight=None, **options):
    return kind(random_state=0, **options).fit(rows, labels, sensitive_features=groups, sample_weight=weight)


def violation(prediction=Y, true=Y, groups=GROUP, **options):
    return metrics.violation(true, prediction, sensitive_features=groups, **options)


def interval(**options):
    return metrics.violation_interval(Y, Y[::-1], sensitive_features=GROUP, **options)


def predict(rows=X, **options):
    return fitted().predict(rows, **options)


def cell(value, dtype=float):
    """X with one other value."""
    rows = X.astype(dtype)
    rows[3, 1] = value
    return rows


def frame(*names, dtype=None):
    return pd.DataFrame(X, columns=pd.Index(names, dtype=dtype))


def objects(*values):
    """One of the values for each class, as objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column[Y % len(values)]


FEATURES = {
    "nothing": (lambda: fit(None), "X: is None; must be a 2-d array"),
    "a number": (lambda: fit(np.float64(3)), "X=np.float64\\(3.0\\): must be a 2-d array"),
    "a text": (lambda: fit("abc"), "X='abc': must be a 2-d array"),
    "a mapping": (lambda: fit({"a": 1}), "X: is one record, a dict; give a data frame or a list of dicts"),
    "NaN": (lambda: fit(cell(np.nan)), "X: holds NaN \\(row 3, column 1\\), which the default logistic regression"),
    "infinity": (lambda: fit(cell(np.inf)), "X: holds inf \\(row 3, column 1\\), which the default"),
    "NaN, often": (lambda: fit(np.full((N, 2), np.nan)), "X: holds 120 times NaN or inf, the first \\(row 0, column 0"),
    "infinity in a frame": (lambda: fit(frame("a", "b", "c") / 0), "X: the column 'a' holds inf, too large"),
    "huge numbers": (lambda: fit(X * 1e300), "X: holds .*e\\+.*, too large for the default logistic regression"),
    "huge numbers in a frame": (lambda: fit(frame("a", "b", "c") * 1e300), "X: the column 'a' holds .*, too large"),
    "texts": (lambda: fit(np.full((N, 2), "hello")), "X: holds 'hello' \\(row 0, column 0\\), and the default"),
    "a text among numbers": (lambda: fit(cell("hello", object)), "X: holds 'hello' \\(row 3, column 1\\), and the de"),
    "bytes": (lambda: fit(np.full((N, 2), b"a")), "X: holds b'a' \\(row 0, column 0\\), and the default logistic"),
    "an object": (lambda: fit(cell({"a": 1}, object)), "X: holds {'a': 1} \\(row 3, column 1\\); an argument must be"),
    "one text per row": (lambda: fit(["hello"] * N), "X: has one dimension, and the default logistic regression"),
    "one dimension": (lambda: fit(X[:, 0]), "X: has one dimension.*Reshape your data: X.reshape\\(-1, 1\\)"),
    "three dimensions": (lambda: fit(X[:, :, None]), "X: has shape \\(60, 3, 1\\).*X.reshape\\(len\\(X\\), -1\\)"),
    "dates": (lambda: fit(np.full((N, 2), "2020", dtype="M8[D]")), "X: holds dates or durations \\(datetime64\\[D"),
    "complex numbers": (lambda: fit(X + 1j), "X: Complex data not supported; give real numbers"),
    "complex columns": (lambda: fit(frame(*"abc") + 1j), "X: Complex data not supported, in the column 'a'"),
    "a structured array": (lambda: fit(np.zeros(N, dtype="f8,f8")), "X: is a structured array .*give pd.DataFrame"),
    "columns of one name": (lambda: fit(frame("a", "a", "b")), "X: has 2 columns named 'a'; give every column a name"),
    "names of several types": (lambda: fit(frame("a", 1, "b")), "X: has column names of several types, 'a', 1; make"),
    "a surrogate": (lambda: fit(frame("\ud800", "b", "c", dtype=object)), "X: '.ud800' is not valid text"),
    "rows of several lengths": (lambda: fit([[1, 2], [3]] * 30), "X: has rows of 1 and of 2 values"),
    "NaN, new rows": (lambda: predict(cell(np.nan)), "X: holds NaN \\(row 3, column 1\\)"),
    "texts, new rows": (lambda: predict(np.full((5, 3), "a")), "X: holds 'a' \\(row 0, column 0\\)"),
    "nothing, new rows": (lambda: predict(None), "X: is None; must be"),
    "NaN, in-processing": (lambda: fit(cell(np.nan), kind=OptFairIn), "X: holds NaN \\(row 3, column 1\\)"),
    "NaN, baseline": (lambda: fit(cell(np.nan), kind=ERM), "X: holds NaN \\(row 3, column 1\\)"),
    "NaN, model of the groups": (
        lambda: fit(cell(np.nan), estimator=lambda rows: H),
        "X: holds NaN \\(row 3, column 1\\), which the default logistic regression \\(group_estimator=None\\)",
    ),
}
LABELS = {
    "several types": (
        lambda: fit(labels=objects("a", 1)),
        "y: Unknown label type: several, 'a' \\(str\\) and 1 \\(int",
    ),
    "several types, a list": (lambda: fit(labels=["a", 1] * 30), "y: Unknown label type: several, 'a' \\(str\\) and 1"),
    "1 and True": (lambda: fit(labels=objects(1, True, 2)), "y: holds both 1 and True, which are equal in Python"),
    "Decimal": (lambda: fit(labels=objects(*map(decimal.Decimal, (1, 2)))), "y: Unknown label type: Decimal, such as"),
    "objects": (lambda: fit(labels=objects(object(), object())), "y: Unknown label type: object, such as <object"),
    "sets": (lambda: fit(labels=[{1}] * N), "y: Unknown label type: set, such as .1.; give classes as strings"),
    "bytes": (lambda: fit(labels=np.array([b"a", b"b"])[Y % 2]), "y: has labels of type .*; give classes as strings"),
    "complex numbers": (lambda: fit(labels=Y + 1j), "y: Complex data not supported; give classes as strings"),
    "fractions": (lambda: fit(labels=Y + 0.5), "y: 0.5 is not a class label \\(continuous values\\); give classes"),
    "NaN": (lambda: fit(labels=np.where(Y == 0, np.nan, Y)), "y: 20 of 60 rows are NaN or infinite; drop them"),
    "missing in a list": (lambda: fit(labels=["a", np.nan, "b"] * 20), "y: 20 of 60 rows are missing; drop them"),
    "missing, nullable": (lambda: fit(labels=pd.array([0, None, 1] * 20, "Int64")), "y: 20 of 60 rows are missing"),
    "two columns": (lambda: fit(labels=np.c_[Y, Y]), "y: should be a 1d array, got an array of shape \\(60, 2\\)"),
    "a text": (lambda: fit(labels="abc"), "y: should be a 1d array, got an array of shape \\(\\); give one label"),
    "lists": (lambda: fit(labels=[[1, 2], [3]] * 30), "y: its rows have different lengths; give one label per row"),
    "a surrogate": (lambda: fit(labels=SURROGATE), "y: '.ud800' is not valid text \\(a lone surrogate\\); read"),
    "several types, measured": (
        lambda: violation(objects("a", 1), objects("a", 1)),
        "y_true: holds labels of several types, 'a' \\(str\\) and 1 \\(int\\), without an order; use one, or give cl",
    ),
    "other types than y_true": (lambda: violation(Y, objects("a", "b")), "prediction: its labels, such as 0, are of"),
    "a class of many": (lambda: violation(classes=range(7, 9999)), "y_true: 0 is not in classes=\\[7, .* more\\]"),
    "an outcome": (lambda: violation(outcomes=["x"]), "outcomes=\\['x'\\]: 'x' is not a class; the classes are"),
}
GROUPS = {
    "missing": (lambda: violation(groups=GAPS), "sensitive_features: 4 of 60 rows .*\\(missing='group'\\)"),
    "another word": (lambda: violation(missing="skip"), "missing='skip': must be one of 'error', 'group', 'drop'"),
    "another word, audit": (
        lambda: audit(Y, Y, sensitive_features=GAPS, missing="skip"),
        "missing='skip': must be one of 'error', 'group', 'drop', 'infer'",
    ),
    "inferred, aware": (
        lambda: fit(groups=GAPS, missing="infer", awareness="aware"),
        "missing='infer': is for awareness='blind'; a rule that uses the group must be told it",
    ),
    "inferred, joint": (
        lambda: fit(groups=GAPS, missing="infer", posterior="joint"),
        "posterior='joint': needs the group of everybody, and 4 of 60 rows have none; use 'factored' or 'auto'",
    ),
    "inferred, promised": (
        lambda: fit(groups=GAPS, missing="infer", confidence=0.95),
        "confidence=0.95: nothing is promised where groups are inferred, and 4 of 60 rows have none; leave it out, or",
    ),
    "inferred, in-processing": (
        lambda: fit(groups=GAPS, missing="infer", kind=OptFairIn),
        "missing='infer': must be one of 'error', 'group'",
    ),
    "inferred, nobody": (
        lambda: fit(groups=[None] * N, missing="infer"),
        "sensitive_features: all 60 rows have a missing value; give the groups of at least some people",
    ),
    "inferred, weights": (
        lambda: fit(groups=GAPS, missing="infer", weight=np.arange(N) < 4),
        "sample_weight: is zero for everybody whose group is known; at least some must count",
    ),
    "inferred, folds": (
        lambda: fit(
            groups=[*GROUP[:6], *[None] * 54], missing="infer", cv=[(range(6, N), range(6)), (range(6), range(6, N))]
        ),
        "cv: nobody in a training part is of known group; use fewer folds, or a number of them",
    ),
    "inferred, a promise to new people": (
        lambda: inferred().promise(X, sensitive_features=GAPS),
        "sensitive_features: 4 of 60 rows have a missing value, and nothing is promised by the others alone; give",
    ),
    "probabilities of an aware model": (
        lambda: fit(awareness="aware").group_probabilities(X),
        "awareness='aware': a model that is told the group does not infer it; fit a blind one",
    ),
    "probabilities given other classes": (
        lambda: inferred().group_probabilities(X, Y + 1),
        "y: 3 is not in classes=\\[0, 1, 2\\]",
    ),
    "probabilities of other rows": (
        lambda: inferred().group_probabilities(X, Y[:5]),
        "y: has 5 rows but X has 60; they must have the same rows",
    ),
    "named (missing)": (
        lambda: violation(groups=GAPS.replace("A", "(missing)"), missing="group"),
        "sensitive_features: has a group named '\\(missing\\)' beside missing values",
    ),
    "1 and True": (lambda: violation(groups=objects(1, True, "a")), "sensitive_features: holds both 1 and True"),
    "0 and False": (lambda: violation(groups=objects(0.0, np.False_)), "sensitive_features: holds both 0.0 and False"),
    "named overall": (lambda: violation(groups=objects("overall", "B")), "sensitive_features: a group is named 'over"),
    "named overall, solved": (lambda: solve(Z, groups=["overall", "B"]), "groups: a group is named 'overall', as"),
    "named *": (
        lambda: violation(groups=np.c_[objects("*", "B"), GROUP], attributes="both"),
        "sensitive_features: a group is named '\\*', which stands for any value",
    ),
    "a surrogate": (lambda: violation(groups=SURROGATE), "sensitive_features: '.ud800' is not valid text"),
    "a surrogate, solved": (lambda: solve(Z, groups=["\ud800", "B"]), "groups: '.ud800' is not valid text"),
    "marginals of one": (lambda: violation(attributes="marginals"), "attributes='marginals': there is one attribute"),
    "marginals of one, fit": (lambda: fit(attributes="both"), "attributes='both': there is one attribute"),
    "lists": (lambda: violation(groups=[[1], [2, 3]] * 30), "sensitive_features: holds values that cannot be labels"),
    "test data": (lambda: frontier(Z, "dp", [0.1], groups=["A", "B"], test=(Z, Y, GAPS)), ".*is not in groups="),
}
KEYS = {
    "objects": (lambda: predict(keys=[object()] * N), "keys: <object object at .* is of type object, whose text may"),
    "sets": (lambda: predict(keys=[frozenset({"a", "b"})] * N), "keys: frozenset.* is of type frozenset, whose text"),
    "sets in tuples": (lambda: predict(keys=[(1, {2})] * N), "keys: .2. is of type set, whose text may differ"),
    "a set": (lambda: predict(keys=set(range(N))), "keys={0, 1, .*: must be a list with one key per row"),
    "a mapping": (lambda: predict(keys={1: 2}), "keys={1: 2}: must be a list with one key per row"),
    "a number": (lambda: predict(keys=np.array(3)), "keys=array\\(3\\): must be a list with one key per row"),
}
NUMBERS = {
    "level": (lambda: interval(level="x"), "level='x': must be a number in \\(0, 1\\)"),
    "seed of an interval": (lambda: interval(random_state="x"), "random_state='x': must be None, an integer >= 0"),
    "seed of a floor": (
        lambda: metrics.noise_floor(Y, Y, sensitive_features=GROUP, random_state=-1),
        "random_state=-1: must be None, an integer >= 0",
    ),
    "seed of a table": (
        lambda: metrics.constraint_table(
            metrics.group_confusion(Y, Y, sensitive_features=GROUP), "dp", random_state="x"
        ),
        "random_state='x': must be None",
    ),
    "seed of a drawn decision": (
        lambda: solve(Z, random_state=0).predict(Z, decision="sampled", random_state="x"),
        "random_state='x': must be None",
    ),
    "seed of a split": (
        lambda: make_fair_classification(60, random_state=0).split(0.5, random_state="x"),
        "random_state='x': must be None",
    ),
    "complex weights": (lambda: violation(sample_weight=np.ones(N) * 1j), "sample_weight: holds complex numbers; must"),
    "huge weights": (lambda: fit(weight=1e200 * (1 + Y)), "sample_weight: the largest is 3e\\+200; must be at most"),
    "huge coefficients": (lambda: Rows(np.eye(18)[:1] * 1e200, upper=1), "Rows: the largest entry of row 0 of D is 1e"),
    "tiny coefficients": (lambda: Rows(np.eye(18)[:1] / 1e200, upper=1), "Rows: the largest entry of row 0 of D is 1e"),
    "coefficients of text": (lambda: Rows([["a"]], upper=1), "Rows: D=\\[\\['a'\\]\\] must be numbers"),
    "bounds of text": (lambda: Rows(np.eye(18)[:1], upper="x"), "Rows: upper='x' must be numbers"),
    "an array as tolerance": (lambda: Constraint("dp", np.ones(999)), "tolerance=array.*: must be a number in"),
    "an array as criterion": (lambda: Constraint(X), "criterion=array.*: unknown. Use one of dp, eop"),
    "no jobs": (lambda: fit(n_jobs=0), "n_jobs=0: must be None, -1 or a positive integer"),
    "no jobs, baseline": (lambda: fit(kind=LinearPost, n_jobs=0), "n_jobs=0: must be None, -1 or a"),
    "no jobs, solved": (lambda: solve(Z, n_jobs=0), "n_jobs=0: must be None, -1 or a positive integer"),
    "half a job": (lambda: fit(n_jobs=1.5), "n_jobs=1.5: must be None"),
    "more folds than rows": (lambda: fit(cv=1000), "cv=1000: there are 60 rows, and a fold needs one; give fewer"),
    "half a fold": (lambda: fit(cv=2.5), "cv=2.5: must be a number of folds, a splitter, a list of splits, or"),
}
NAMES = {
    "foreign columns": (
        lambda: violation(pd.DataFrame(H, columns=list("uvw"))),
        "prediction: columns 'u', 'v', 'w' are not the classes 0, 1, 2; name them so, or give an array",
    ),
    "columns in another order": (
        lambda: violation(pd.DataFrame(H, columns=["2", "1", "0"])),
        "prediction: columns '2', '1', '0' are not in the order of classes 0, 1, 2; reorder them",
    ),
    "foreign columns, offset": (
        lambda: solve(Z, classes=list("abc"), offset=pd.DataFrame(H, columns=list("bca"))),
        "offset: columns 'b', 'c', 'a' are not in the order of classes 'a', 'b', 'c'",
    ),
    "foreign columns, offset of new rows": (
        lambda: solve(Z, classes=list("abc"), random_state=0).predict(Z, offset=pd.DataFrame(H, columns=list("uvw"))),
        "offset: columns 'u', 'v', 'w' are not the classes 'a', 'b', 'c'",
    ),
    "foreign rows, costs": (
        lambda: solve(Z, classes=list("abc"), costs=pd.DataFrame(1 - np.eye(3), index=list("bca"))),
        "costs: index 'b', 'c', 'a' are not in the order of classes 'a', 'b', 'c'",
    ),
    "foreign columns, costs of training": (
        lambda: fit(kind=OptFairIn, costs=pd.DataFrame(1 - np.eye(3), columns=list("abc"))),
        "costs: columns 'a', 'b', 'c' are not the classes 0, 1, 2",
    ),
    "columns of a function in another order": (
        lambda: fit(estimator=lambda rows: pd.DataFrame(H[: len(rows)], columns=[1, 2, 0])),
        "estimator: columns 1, 2, 0 are not in the order of classes 0, 1, 2; reorder them",
    ),
    "a frame of posteriors": (lambda: solve(pd.DataFrame(Z.reshape(N, 6))), "Z: has shape \\(60, 6\\); expected \\(n"),
}
TABLES = {
    "features": FEATURES, "labels": LABELS, "groups": GROUPS, "keys": KEYS, "numbers": NUMBERS, "names": NAMES,
}  # fmt: skip
CASES = [(f"{table}: {name}", *case) for table, cases in TABLES.items() for name, case in cases.items()]


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_line_says_what_is_wrong(call, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    text = str(caught.value)
    assert re.match(message, text), text
    assert "\n" not in text and len(text) <= LONGEST


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda tensor: fit(tensor(X)), "X"),
        (lambda tensor: predict(tensor(X)), "X"),
        (lambda tensor: fit(labels=tensor(Y)), "y"),
        (lambda tensor: solve(tensor(Z)), "Z"),
        (lambda tensor: solve(Z, offset=tensor(H)), "offset"),
        (lambda tensor: violation(tensor(H)), "prediction"),
        (lambda tensor: violation(sample_weight=tensor(np.ones(N))), "sample_weight"),
    ],
)
def test_tensors_with_gradients(call, argument):
    torch = pytest.importorskip("torch", reason="tensors are torch's")
    with pytest.raises(
        ValueError, match=rf"^{argument}: is a tensor that requires grad; give {argument}\.detach\(\)\.$"
    ):
        call(lambda array: torch.tensor(array.astype(float), requires_grad=True))


def test_networks_look_at_labels_in_the_same_way():
    pytest.importorskip("torch", reason="networks need it")
    from optfair.nn import TorchClassifier

    with pytest.raises(ValueError, match=r"^y: Unknown label type: several, 'a' \(str\) and 1 \(int\); make them one"):
        TorchClassifier(epochs=1).fit(X, objects("a", 1))
    assert TorchClassifier(epochs=1).fit(X, pd.array(2**53 + Y, "Int64")).classes_.tolist() == [
        2**53, 2**53 + 1, 2**53 + 2
    ]  # fmt: skip


def test_messages_of_other_models_stay_and_say_whose_they_are():
    with pytest.raises(ValueError, match="Input X contains NaN") as caught:
        fit(cell(np.nan), estimator=LogisticRegression(), n_jobs=1)  # else a fold that meets the NaN later may be first
    assert caught.value.__notes__ == [
        "estimator: this is the message of LogisticRegression, when it was fitted to X as given."
    ]
    model = fit(estimator=LogisticRegression())
    with pytest.raises(ValueError, match="Input X contains NaN") as caught:
        model.predict(cell(np.nan))
    assert caught.value.__notes__[0].startswith("estimator: this is the message of LogisticRegression, when it was ask")


# -- the next steps exist ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["violation", "noise_floor", "violation_interval", "gaps", "group_rates", "group_confusion"]
)
def test_missing_groups_can_be_a_group_of_their_own(name):
    """What the message advises, in every metric: a group like any other, named (missing)."""

    def measure(groups, **options):
        result = getattr(metrics, name)(Y, Y[::-1], sensitive_features=groups, **options)
        result = getattr(result, "table", result)
        return result.to_frame() if name == "group_confusion" else result

    advised, plain = measure(GAPS, missing="group"), measure(GAPS.fillna("C"))  # which is the last of the groups too
    if isinstance(plain, float):
        assert advised == plain
    else:
        pd.testing.assert_frame_equal(advised, plain.replace({"group": {"C": "(missing)"}}))


def test_the_scorer_takes_missing_groups():
    scorer = ViolationScorer("dp", missing="group")
    assert scorer(fitted(), X, Y, sensitive_features=GAPS) == -violation(predict(), groups=GAPS, missing="group")


def test_one_attribute_may_be_named():
    groups = pd.DataFrame({"sex": GROUP})
    assert violation(Y[::-1], groups=groups, attributes=["sex"]) == violation(Y[::-1])


def test_stable_keys_pass():
    dates = pd.date_range("2020", periods=N)
    columns = [
        np.arange(N), [str(k) for k in range(N)], [b"%d" % k for k in range(N)], [(k, "a") for k in range(N)],
        [[k, 1] for k in range(N)], [uuid.UUID(int=k) for k in range(N)], dates, list(dates.date), dates.to_period("D"),
        [decimal.Decimal(k) for k in range(N)], ["é☃"] * N, pd.array(range(N), "Int64"), np.arange(N) > 30,
    ]  # fmt: skip
    for keys in columns:
        assert (predict(keys=keys) == predict(keys=list(keys))).all()


@pytest.mark.parametrize("columns", [[0, 1, 2], ["0", "1", "2"], [0.0, 1.0, 2.0], range(3)])
def test_columns_named_by_class_are_taken(columns):
    assert violation(pd.DataFrame(H, columns=columns)) == violation(H)


def test_default_columns_are_taken_in_order():
    named = objects("low", "mid", "high")
    assert violation(pd.DataFrame(H), named) == violation(H, named)
