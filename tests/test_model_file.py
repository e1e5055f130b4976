"""The file of a model: it answers the same, holds nobody's data and no secret, and runs nothing."""

import io
import json
import os
import pickle
import stat
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from optfair import Constraint, ModelFileError, OptFairPost, RuleFileError, load_model

N = 200


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": np.array(["f", "m"])[sex], "old": rng.random(n) < 0.5})
    return frame, np.array(list("abc"))[y]


FRAME, Y = people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"]
X_NEW, _ = people(seed=1)
SEX_NEW = X_NEW.pop("sex")
del X_NEW["old"]


def quick(estimator=None, **options):
    base = LogisticRegression() if estimator is None else estimator
    return OptFairPost(base, **{"cv": 2, "tolerance": 0.05} | options)


def above_zero(X):
    """A function that can be found by its name."""
    return np.asarray(X["x1"] > 0)


class Own(GaussianNB):
    """A classifier that skops has never heard of."""


@pytest.fixture(scope="module")
def model():
    """Undecided about most people, so that hashed answers need the key; a fresh secret key."""
    return quick(temperature=0.3).fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """The archive and the key file."""
    pytest.importorskip("skops")
    path = tmp_path_factory.mktemp("models") / "model.skops"
    model.save(path)
    return path.read_bytes(), path.with_name("model.skops.key").read_bytes()


@pytest.fixture
def saved(content, tmp_path):
    path = tmp_path / "model.skops"
    path.write_bytes(content[0])
    path.with_name("model.skops.key").write_bytes(content[1])
    return path


MODELS = {
    "blind": lambda: quick().fit(X, Y, sensitive_features=SEX),
    "factored": lambda: quick(posterior="factored", calibration="none").fit(X, Y, sensitive_features=SEX),
    "aware": lambda: quick(awareness="aware").fit(X, Y, sensitive_features=SEX),
    "aware, from X": lambda: quick(awareness="aware", sensitive_features="old").fit(FRAME[["x1", "x2", "old"]], Y),
    "intersections": lambda: quick(tolerance=0.2).fit(X, Y, sensitive_features=FRAME[["sex", "old"]]),
    "a fitted model": lambda: quick(FrozenEstimator(LogisticRegression().fit(X, Y))).fit(X, Y, sensitive_features=SEX),
    "default": lambda: OptFairPost(cv=2).fit(X, Y, sensitive_features=SEX),
    "trees": lambda: quick(HistGradientBoostingClassifier(max_iter=3)).fit(X, Y, sensitive_features=SEX),
    "constraint objects": lambda: quick(criterion=[Constraint("dp", 0.1)], tolerance=0.01).fit(
        X, Y, sensitive_features=SEX
    ),
    "numbers as labels": lambda: quick().fit(X, np.searchsorted(["a", "b", "c"], Y), sensitive_features=SEX),
    "truth values as labels": lambda: quick().fit(X, Y == "a", sensitive_features=SEX == "m"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_read_answers_as_what_was_written(kind, tmp_path):
    pytest.importorskip("skops")
    model = MODELS[kind]()
    model.save(tmp_path / "model.skops")
    other = load_model(tmp_path / "model.skops")
    asked = {"sensitive_features": SEX_NEW} if kind == "aware" else {}
    table = X_NEW.assign(old=above_zero(X_NEW)) if kind == "aware, from X" else X_NEW
    np.testing.assert_array_equal(other.predict_proba(table, **asked), model.predict_proba(table, **asked))
    np.testing.assert_array_equal(other.predict(table, **asked), model.predict(table, **asked))
    assert other.predict(table, **asked).dtype == model.predict(table, **asked).dtype
    assert other.groups_.equals(model.groups_) and other.groups_.names == model.groups_.names
    assert other.certificate_ == model.certificate_ and other.determinism_ == model.determinism_
    pd.testing.assert_frame_equal(other.multipliers_, model.multipliers_)
    assert str(other.report()).splitlines()[0] == str(model.report()).splitlines()[0].partition(";")[0]
    with pytest.raises(ValueError, match=r"posteriors are not there .* a file of the model"):
        other.with_tolerance(0.1)


def test_text_of_the_path_will_do(saved, model):
    np.testing.assert_array_equal(load_model(str(saved)).predict(X_NEW), model.predict(X_NEW))


# -- the secret ---------------------------------------------------------------------------------------------
def test_the_key_is_apart_and_for_the_owner_only(model, tmp_path):
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


def test_hashed_answers_need_the_key(saved, content, model):
    beside = saved.with_name("model.skops.key")
    beside.unlink()
    locked = load_model(saved)
    np.testing.assert_array_equal(locked.predict_proba(X_NEW), model.predict_proba(X_NEW))
    with pytest.raises(ValueError) as caught:
        locked.predict(X_NEW)
    assert str(caught.value) == (
        "decision='hashed': this rule was loaded without its key. Keep the .key file beside the rule, pass it as key= "
        "when loading, or use decision='argmax' or 'sampled'."
    )
    locked.set_params(decision="argmax").predict(X_NEW)
    for key in (model.rule_.key, content[1].decode()):
        np.testing.assert_array_equal(load_model(saved, key=key).predict(X_NEW), model.predict(X_NEW))
    with pytest.raises(RuleFileError, match=r"^key: not the 32-byte key that was written with this rule"):
        load_model(saved, key=bytes(32))
    beside.write_text("0" * 16 + " " + "0" * 64 + "\n")
    with pytest.raises(RuleFileError, match=r"^model\.skops\.key: not the 32-byte key"):
        load_model(saved)


def test_nobodys_posteriors_are_in_the_file(tmp_path):
    pytest.importorskip("skops")
    sizes = []
    for n in (150, 1500):
        frame, y = people(n)
        model = quick(random_state=0).fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
        path = tmp_path / f"{n}.skops"
        model.save(path)
        with zipfile.ZipFile(path) as archive:
            sizes.append(sum(info.file_size for info in archive.infolist()))
            assert "_kept" not in archive.read("schema.json").decode()
    assert abs(sizes[1] - sizes[0]) < 1350  # a byte for each of the further people would be more


# -- what is not trusted ------------------------------------------------------------------------------------
def test_types_of_ones_own_must_be_named(tmp_path):
    pytest.importorskip("skops")
    model = quick(Own(), sensitive_features=above_zero, decision="argmax").fit(X, Y)
    path = tmp_path / "model.skops"
    model.save(path)
    names = [f"{__name__}.Own", f"{__name__}.above_zero"]
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"model.skops: holds types that are not trusted: {', '.join(names)}. If you know where the file comes from, "
        f"pass trusted={names!r}."
    )
    with pytest.raises(ModelFileError, match=f"not trusted: {names[1]}. If"):
        load_model(path, trusted=names[:1])
    np.testing.assert_array_equal(load_model(path, trusted=names).predict(X_NEW), model.predict(X_NEW))
    with pytest.raises(ValueError, match=r"^trusted='x': must be a list of type names\."):
        load_model(path, trusted="x")


def rewritten(content, change):
    """The archive with another schema."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json":
                schema = json.loads(data)
                data = json.dumps(change(schema) or schema).encode()
            new.writestr(name, data)
    return out.getvalue()


def nodes(part):
    if isinstance(part, dict):
        yield part
        for value in part.values():
            yield from nodes(value)
    elif isinstance(part, list):
        for value in part:
            yield from nodes(value)


ATTACKS = {
    "a function": {"__loader__": "FunctionNode", "__module__": "os", "__class__": "system"},
    "a type": {"__loader__": "TypeNode", "__module__": "subprocess", "__class__": "Popen"},
    "an object": {"__loader__": "ObjectNode", "__module__": "subprocess", "__class__": "Popen"},
    "a reduced object": {"__loader__": "ReduceNode", "__module__": "os", "__class__": "system"},
    "a method": {"__loader__": "MethodNode", "__module__": "builtins", "__class__": "method"},
    "an operator": {"__loader__": "OperatorFuncNode", "__module__": "operator", "__class__": "methodcaller"},
    "a partial": {"__loader__": "PartialNode", "__module__": "functools", "__class__": "partial"},
    "nothing known": {"__loader__": "PickleNode", "__module__": "os", "__class__": "system"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_that_names_code_is_refused(attack, saved, content, tmp_path):
    """Every node of the archive in turn could be the one; the first with an own type will do."""
    marker = tmp_path / "ran"
    command = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "is_json": True, "__id__": 1}
    text = command | {"content": json.dumps(f"touch {marker}")}

    def change(schema):
        victim = next(node for node in nodes(schema) if node.get("__class__") == "JointModel")
        victim |= ATTACKS[attack]
        listed = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "__id__": 2}
        arguments = listed | {"content": [text]}
        victim["content"] = {
            "module_path": ATTACKS[attack]["__module__"],
            "function": ATTACKS[attack]["__class__"],
            "func": arguments,
            "args": arguments,
            "attrs": arguments,
            "reduce": arguments,
            "constructor": arguments,
            "obj": arguments,
        }

    saved.write_bytes(rewritten(content[0], change))
    with pytest.raises(ModelFileError, match=r"^model\.skops: (holds types that are not trusted|not a )") as caught:
        load_model(saved)
    assert "\n" not in str(caught.value)
    assert not marker.exists()


def test_a_function_in_place_of_a_parameter_is_refused(tmp_path):
    """The honest writer's way to the same: a model whose parameter is os.system."""
    pytest.importorskip("skops")
    model = quick(sensitive_features=above_zero).fit(X, Y)
    model.sensitive_features = os.system
    path = tmp_path / "model.skops"
    model.save(path)
    with pytest.raises(ModelFileError, match=r"holds types that are not trusted: (posix|nt|os)\.system\. If you know"):
        load_model(path)


def garbage(content):
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("readme.txt", "hello")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    return {
        "nothing": b"",
        "text": b"hello",
        "half": content[: len(content) // 2],
        "all but the end": content[:-10],
        "another zip": zipped.getvalue(),
        "a pickle": pickle.dumps({"format": "optfair model"}),
        "no schema": rewritten(content, lambda schema: {"hello": 1}),
        "a list as schema": rewritten(content, lambda schema: [1, 2]),
        "another protocol": rewritten(content, lambda schema: schema | {"protocol": 10**6}),
        "one bit flipped": bytes(flipped),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "nothing",
        "text",
        "half",
        "all but the end",
        "another zip",
        "a pickle",
        "no schema",
        "a list as schema",
        "another protocol",
    ],
)
def test_what_is_no_model_is_refused(kind, saved, content):
    saved.write_bytes(garbage(content[0])[kind])
    with pytest.raises(ModelFileError, match=r"^model\.skops: ") as caught:
        load_model(saved)
    assert "\n" not in str(caught.value)


def test_a_damaged_file_is_refused_or_whole(saved, content, model):
    """Any byte of the archive may be the damaged one."""
    data = content[0]
    for position in np.random.default_rng(0).choice(len(data), 60, replace=False):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        saved.write_bytes(bytes(damaged))
        try:
            other = load_model(saved)
        except (ModelFileError, RuleFileError) as error:
            assert "\n" not in str(error)
            continue
        np.testing.assert_array_equal(other.predict_proba(X_NEW), model.predict_proba(X_NEW))


def test_other_skops_files_are_refused(tmp_path):
    skops = pytest.importorskip("skops.io")
    path = tmp_path / "model.skops"
    for thing, words in (
        (LogisticRegression().fit(X, Y), "not a model written by optfair"),
        ({"format": "optfair model"}, "not a model written by optfair"),
        ([1, 2], "not a model written by optfair"),
        ({"format": "optfair model", "version": 99, "class": "OptFairPost", "state": {}}, "version 99"),
        ({"format": "optfair model", "version": 1, "class": "Ridge", "state": {}}, "not a model written by optfair"),
        ({"format": "optfair model", "version": 1, "class": "OptFairPost", "state": {}}, "not a model written"),
    ):
        skops.dump(thing, path)
        with pytest.raises(ModelFileError, match=rf"^model\.skops: .*{words}") as caught:
            load_model(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nowhere.skops")


# -- writing ------------------------------------------------------------------------------------------------
def test_a_lambda_cannot_be_written(tmp_path):
    pytest.importorskip("skops")
    model = quick(sensitive_features=lambda X: X["x1"] > 0).fit(X, Y)
    path = tmp_path / "model.skops"
    with pytest.raises(ModelFileError, match=r"^save: .*functions must be importable by name \(no lambda\)\.$"):
        model.save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_cannot_be_written_leaves_the_old_file(saved, content):
    model = quick(sensitive_features=lambda X: X["x1"] > 0).fit(X, Y)
    with pytest.raises(ModelFileError):
        model.save(saved)
    assert saved.read_bytes() == content[0]
    assert saved.with_name("model.skops.key").read_bytes() == content[1]
    assert len(list(saved.parent.iterdir())) == 2


def test_a_new_model_takes_the_place_of_the_old_with_its_own_key(saved, model):
    other = quick().fit(X, Y, sensitive_features=SEX)
    other.save(saved)
    np.testing.assert_array_equal(load_model(saved).predict(X_NEW), other.predict(X_NEW))
    with pytest.raises(RuleFileError):
        load_model(saved, key=model.rule_.key)


def test_only_a_fitted_model_can_be_written(tmp_path):
    pytest.importorskip("skops")
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "model.skops")
    assert list(tmp_path.iterdir()) == []


def test_without_skops_one_line_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for caller, call in (("OptFairPost.save", model.save), ("load_model", load_model)):
        with pytest.raises(ImportError) as caught:
            call(tmp_path / "model.skops")
        assert str(caught.value) == f'{caller} needs skops: pip install "optfair[save]"'
