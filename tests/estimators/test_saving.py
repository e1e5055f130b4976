"""Check copies and files of a model: they predict the same, and hold neither personal data nor the secret key."""

import copy
import functools
import os
import pickle
import stat
import sys
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from optfair import Constraint, ModelFileError, OptFairPost, OptFairWarning, RuleFileError, load_model
from optfair.errors import ExportError
from optfair.estimators.functions import function_kind
from tests.estimators.helpers import (
    FRAME,
    NEW,
    NOT_AVAILABLE,
    SEX,
    SEX_NEW,
    X_NEW,
    N,
    X,
    Y,
    assert_error,
    assert_same_predictions,
    make_people,
    make_post,
)


def assert_same_model(one, other):
    """Check that two models tell the same about themselves, and that the other one has no posteriors."""
    assert other.groups_.equals(one.groups_) and other.groups_.names == one.groups_.names
    assert other.certificate_ == one.certificate_ and other.determinism_ == one.determinism_
    pd.testing.assert_frame_equal(other.multipliers_, one.multipliers_)
    assert not hasattr(other, "_fitted")
    assert_error(NOT_AVAILABLE, other.with_tolerance, 0.1)


# -- pickle --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["blind_post", "aware_post"])
def test_a_pickle_predicts_the_same_and_holds_no_posteriors(name, request):
    model = request.getfixturevalue(name)
    groups = {"sensitive_features": SEX_NEW} if name == "aware_post" else {}
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_same_predictions(model, other, **groups)
        assert_same_model(model, other)
    assert not hasattr(clone(model), "rule_") and clone(model).get_params().keys() == model.get_params().keys()


@pytest.fixture(scope="module")
def two_sizes():
    """Return models of 900 and of 2250 rows: of so many all cells are calibrated at once, and files hold as much."""
    models = []
    for n in (900, 2250):
        frame, y = make_people(n)
        models.append(make_post().fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"]))
        assert len(models[-1]._fitted.problem.posterior.cell) == n
    return models


def test_the_size_of_a_pickle_does_not_depend_on_the_number_of_rows(two_sizes):
    sizes = [len(pickle.dumps(model)) for model in two_sizes]
    assert abs(sizes[1] - sizes[0]) < 1500  # an eighth of a number for each of the further rows


@pytest.fixture(scope="module")
def interval_groups():
    """Return a model whose groups are named by intervals, which JSON does not have."""
    age = pd.Series(pd.cut(pd.Series(np.arange(N) % 60), [-1, 20, 40, 60]))
    return make_post().fit(X, Y, sensitive_features=age)


def test_groups_named_by_intervals_can_be_pickled(interval_groups):
    assert_same_predictions(pickle.loads(pickle.dumps(interval_groups)), interval_groups)


def test_groups_named_by_intervals_cannot_be_saved(interval_groups, tmp_path):
    pytest.importorskip("skops")
    message = "save: a name of type Interval cannot be written; use text, numbers or tuples of them."
    assert_error(message, interval_groups.save, tmp_path)


# -- files ---------------------------------------------------------------------------------------------------
def fit_given(**options):
    """Return an OptFairPost fitted with groups that are given, with a fresh key."""
    return make_post(random_state=None, **options).fit(X, Y, sensitive_features=SEX)


MODELS = {
    "blind": lambda: fit_given(),
    "factored": lambda: fit_given(posterior="factored", calibration="none"),
    "aware": lambda: fit_given(awareness="aware"),
    "aware, from X": lambda: make_post(awareness="aware", sensitive_features="old").fit(FRAME[["x1", "x2", "old"]], Y),
    "intersections": lambda: make_post(tolerance=0.2).fit(X, Y, sensitive_features=FRAME[["sex", "old"]]),
    "fitted model": lambda: fit_given(estimator=FrozenEstimator(LogisticRegression().fit(X, Y))),
    "default": lambda: OptFairPost(cv=2).fit(X, Y, sensitive_features=SEX),
    "trees": lambda: fit_given(estimator=HistGradientBoostingClassifier(max_iter=3)),
    "constraint objects": lambda: fit_given(criterion=[Constraint("dp", 0.1)]),
    "numbers as labels": lambda: make_post().fit(X, np.searchsorted(["a", "b", "c"], Y), sensitive_features=SEX),
    "truth values as labels": lambda: make_post().fit(X, Y == "a", sensitive_features=SEX == "m"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_loaded_model_predicts_as_the_saved_one(kind, tmp_path):
    pytest.importorskip("skops")
    model = MODELS[kind]()
    model.save(tmp_path / "model.skops")
    other = load_model(tmp_path / "model.skops")
    groups = {"sensitive_features": SEX_NEW} if kind == "aware" else {}
    table = NEW[["x1", "x2", "old"]] if kind == "aware, from X" else X_NEW
    assert_same_predictions(other, model, table, **groups)
    assert other.predict(table, **groups).dtype == model.predict(table, **groups).dtype
    assert_same_model(model, other)
    assert str(other.report()).splitlines()[0] == str(model.report()).splitlines()[0].partition(";")[0]


@pytest.fixture(scope="module")
def model():
    """Return a model that is undecided on most rows, so that hashed predictions need its key, which is fresh."""
    return fit_given(temperature=0.3)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """Return the bytes of the archive and of the key file."""
    pytest.importorskip("skops")
    path = tmp_path_factory.mktemp("models") / "model.skops"
    model.save(path)
    return path.read_bytes(), path.with_name("model.skops.key").read_bytes()


@pytest.fixture
def saved(content, tmp_path):
    """Return the path of a saved model, with its key beside it."""
    path = tmp_path / "model.skops"
    path.write_bytes(content[0])
    path.with_name("model.skops.key").write_bytes(content[1])
    path.with_name("model.skops.key").chmod(0o600)
    return path


def test_a_path_may_be_text(saved, model):
    np.testing.assert_array_equal(load_model(str(saved)).predict(X_NEW), model.predict(X_NEW))


def test_a_file_holds_nothing_of_the_rows_fitted_on(two_sizes, tmp_path):
    pytest.importorskip("skops")
    sizes = []
    for model in two_sizes:
        model.save(tmp_path / "model.skops")
        with zipfile.ZipFile(tmp_path / "model.skops") as archive:
            sizes.append(sum(info.file_size for info in archive.infolist()))
            schema = archive.read("schema.json").decode()
        assert '"_fitted"' not in schema and "FittedPosteriors" not in schema and "FairProblem" not in schema
    assert abs(sizes[1] - sizes[0]) < 1350  # a byte for each of the further rows would be more


def test_the_key_is_in_a_file_of_its_own_for_the_owner_only(model, tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "model.skops"
    model.save(path)
    key = model.rule_.key
    beside = path.with_name("model.skops.key")
    assert stat.S_IMODE(os.stat(beside).st_mode) == 0o600
    assert key.hex() in beside.read_text()
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            inside = archive.read(name)
            assert key not in inside and key.hex().encode() not in inside
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.skops", "model.skops.key"]


def test_hashed_predictions_need_the_key(saved, content, model):
    beside = saved.with_name("model.skops.key")
    beside.unlink()
    locked = load_model(saved)
    np.testing.assert_array_equal(locked.predict_proba(X_NEW), model.predict_proba(X_NEW))
    assert_error(
        "decision='hashed': this rule was loaded without its key. Keep the .key file beside the rule, pass it as key= "
        "when loading, or use decision='argmax' or 'sampled'.",
        locked.predict,
        X_NEW,
    )
    locked.set_params(decision="argmax").predict(X_NEW)
    for key in (model.rule_.key, content[1].decode()):
        np.testing.assert_array_equal(load_model(saved, key=key).predict(X_NEW), model.predict(X_NEW))
    with pytest.raises(RuleFileError, match=r"^key: not the 32-byte key that was written with this rule"):
        load_model(saved, key=bytes(32))
    beside.write_text("0" * 16 + " " + "0" * 64 + "\n")
    with pytest.raises(RuleFileError, match=r"^model\.skops\.key: not the 32-byte key"):
        load_model(saved)


# -- writing -------------------------------------------------------------------------------------------------
def fit_with_lambda():
    """Return a model that cannot be saved, because a lambda reads its groups."""
    return make_post(sensitive_features=lambda X: X["x1"] > 0).fit(X, Y)


def test_a_lambda_cannot_be_saved(tmp_path):
    pytest.importorskip("skops")
    with pytest.raises(
        ModelFileError, match=r"^save: sensitive_features is a lambda, which no file can hold; name the"
    ):
        fit_with_lambda().save(tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


class LockedModel:
    """A model behind a lock, which cannot be written."""

    def __init__(self):
        self.lock = threading.Lock()

    def probabilities(self, X):
        with self.lock:
            return np.tile([0.2, 0.3, 0.5], (len(X), 1))

    def __call__(self, X):
        return self.probabilities(X)


def function_inside(X):
    return LockedModel().probabilities(X)


def make_inner_function():
    def inner(X):
        return LockedModel().probabilities(X)

    return inner


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            LockedModel().probabilities,
            "estimator is the method LockedModel.probabilities of an object, which no file can",
        ),
        (
            lambda X: LockedModel().probabilities(X),
            "estimator is a lambda, which no file can hold; give the model itself",
        ),
        (make_inner_function(), "estimator is inner, a function inside another, which no file can hold"),
        (functools.partial(LockedModel().probabilities), "estimator is a partial function, which no file can hold"),
        (LockedModel(), r"a part of the model cannot be written \(.*\); use types that skops can write"),
    ],
)
def test_the_function_that_cannot_be_saved_is_named(estimator, message, tmp_path):
    pytest.importorskip("skops")
    model = fit_given(estimator=estimator, calibration="none")
    with pytest.raises(ModelFileError, match=f"^save: {message}"):
        model.save(tmp_path / "model.skops")


def test_a_function_of_a_step_is_named(tmp_path):
    pytest.importorskip("skops")
    model = fit_given(estimator=make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression()))
    with pytest.raises(ModelFileError, match=r"^save: estimator__functiontransformer__func is a lambda, which no file"):
        model.save(tmp_path / "model.skops")


def test_functions_that_can_be_imported_are_no_obstacle():
    assert [function_kind(value) for value in (function_inside, np.sum, len, LockedModel, None, "text")] == [""] * 6


def test_a_model_that_cannot_be_saved_leaves_the_old_file(saved, content):
    with pytest.raises(ModelFileError):
        fit_with_lambda().save(saved)
    assert saved.read_bytes() == content[0]
    assert saved.with_name("model.skops.key").read_bytes() == content[1]
    assert len(list(saved.parent.iterdir())) == 2


def test_a_new_model_replaces_the_old_one_and_its_key(saved, model):
    other = fit_given()
    other.save(saved)
    np.testing.assert_array_equal(load_model(saved).predict(X_NEW), other.predict(X_NEW))
    with pytest.raises(RuleFileError):
        load_model(saved, key=model.rule_.key)


def test_only_a_fitted_model_can_be_saved(tmp_path):
    pytest.importorskip("skops")
    with pytest.raises(NotFittedError):
        make_post().save(tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_without_skops_one_line_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for caller, call in (("OptFairPost.save", model.save), ("load_model", load_model)):
        with pytest.raises(ImportError) as caught:
            call(tmp_path / "model.skops")
        assert str(caught.value) == f'{caller} needs skops: pip install "optfair[save]"'


def test_a_model_that_replaces_another_keeps_its_draws(tmp_path):
    old, new = (make_post(random_state=seed).fit(X, Y, sensitive_features=SEX) for seed in (1, 2))
    assert new._key() != old._key()
    assert new.keep_key(old) is new and new._key() == old._key()
    pytest.importorskip("skops", reason="models are saved by skops")
    old.save(tmp_path / "old.skops")
    other = make_post(random_state=3).fit(X, Y, sensitive_features=SEX).keep_key(tmp_path / "old.skops.key")
    assert other._key() == old._key()
    (tmp_path / "old.skops.key").unlink()
    with pytest.raises(ValueError, match=r"^source: the model has no key; load it with the file that was saved besid"):
        new.keep_key(load_model(tmp_path / "old.skops"))
    (tmp_path / "text").write_text("no key")
    with pytest.raises(RuleFileError, match=r"^text: not a key file, which has lines of a fingerprint and a key."):
        new.keep_key(tmp_path / "text")
    with pytest.raises(NotFittedError):
        make_post().keep_key(old)


def test_a_save_that_fails_leaves_the_key_of_the_model_that_is_there(tmp_path, monkeypatch):
    pytest.importorskip("skops", reason="models are saved by skops")
    from optfair.rule import keys

    old, new = (make_post().fit(X, Y, sensitive_features=SEX) for _ in range(2))
    old.save(tmp_path / "m.skops")
    write = keys.write_atomically

    def fail(path, content, **options):
        if path.name == "m.skops":
            raise OSError(28, "No space left on device")
        write(path, content, **options)

    monkeypatch.setattr(keys, "write_atomically", fail)
    with pytest.raises(OSError, match="No space left"):
        new.save(tmp_path / "m.skops")
    assert new.keep_key(tmp_path / "m.skops.key")._key() == old._key() == load_model(tmp_path / "m.skops")._key()


def test_a_key_file_of_two_models_is_no_choice(tmp_path):
    """A process that ended between two writes leaves both keys; the model tells which one is its own."""
    pytest.importorskip("skops", reason="models are saved by skops")
    model, other = (make_post(random_state=None).fit(X, Y, sensitive_features=SEX) for _ in range(2))
    model.save(tmp_path / "m.skops")
    other.save(tmp_path / "n.skops")
    both = (tmp_path / "n.skops.key").read_text() + (tmp_path / "m.skops.key").read_text()
    (tmp_path / "m.skops.key").write_text(both)
    with pytest.raises(
        RuleFileError, match=r"^m.skops.key: holds the keys of two models, since the second was not wri"
    ):
        other.keep_key(tmp_path / "m.skops.key")
    assert other.keep_key(load_model(tmp_path / "m.skops"))._key() == model._key()
    damaged = (tmp_path / "n.skops.key").read_text()
    (tmp_path / "n.skops.key").write_text(damaged[:-2] + ("0" if damaged[-2] != "0" else "1") + "\n")
    with pytest.raises(RuleFileError, match=r"^n.skops.key: not a key file"):
        other.keep_key(tmp_path / "n.skops.key")


def test_what_a_key_is_not_taken_from():
    model = make_post().fit(X, Y, sensitive_features=SEX)
    for source in (None, b"k" * 32, model.rule_):
        with pytest.raises(
            ValueError, match=r"^source: must be a fitted classifier of optfair, or the path of its key"
        ):
            model.keep_key(source)
    with pytest.raises(NotFittedError):
        model.keep_key(make_post())
    other = make_post(hashing="hmac-sha256").fit(X, Y, sensitive_features=SEX)
    with pytest.warns(OptFairWarning, match=r"^source: it draws by 'hmac-sha256' and this model by 'blake2b', so that"):
        model.keep_key(other)


def test_other_tolerances_draw_by_the_key_that_is_kept():
    old, new = (make_post(random_state=seed).fit(X, Y, sensitive_features=SEX) for seed in (1, 2))
    new.path()
    new.keep_key(old)
    assert {rule.key for rule in new.path_.rules} == {old._key()}


def test_a_model_without_its_key_is_not_written(tmp_path):
    """Its file would hold no fingerprint, and any key would fit."""
    pytest.importorskip("skops", reason="models are saved by skops")
    make_post().fit(X, Y, sensitive_features=SEX).save(tmp_path / "m.skops")
    key = (tmp_path / "m.skops.key").read_text()
    (tmp_path / "m.skops.key").unlink()
    model = load_model(tmp_path / "m.skops")
    for write, error in ((model.save, ModelFileError), (model.export, ExportError)):
        with pytest.raises(error, match=r"^key: missing; the file would hold no fingerprint of it, and any key would"):
            write(tmp_path / ("n.skops" if error is ModelFileError else "n.json"))
    load_model(tmp_path / "m.skops", key=key).export(tmp_path / "n.json")
    model.set_params(decision="argmax").save(tmp_path / "n.skops")  # needs none
