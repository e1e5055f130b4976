"""Check that a file which is damaged, or names code, or is no model, is refused, and that nothing in it runs."""

import io
import json
import os
import pickle
import sys
import types
import zipfile

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import optfair
from optfair import ModelFileError, RuleFileError, load_model
from optfair.errors import UntrustedTypesError
from optfair.estimators.saving import FORMAT, VERSION
from tests.estimators.helpers import SEX, X_NEW, X, Y, make_post


def above_zero(X):
    """Return groups by the sign of x1: a function that can be found by its name."""
    return np.asarray(X["x1"] > 0)


class Own(GaussianNB):
    """A classifier that skops does not know."""


@pytest.fixture(scope="module")
def model():
    return make_post().fit(X, Y, sensitive_features=SEX)


@pytest.fixture(scope="module")
def content(model, tmp_path_factory):
    """Return the bytes of the archive, without its key."""
    pytest.importorskip("skops")
    path = tmp_path_factory.mktemp("models") / "model.skops"
    model.save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def refuse(path, words=""):
    """Check that a file is refused in one line that begins with its name and holds these words; return the line."""
    with pytest.raises(ModelFileError, match=rf"^model\.skops: .*{words}") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- types that are not trusted ------------------------------------------------------------------------------
def test_other_types_must_be_named(path):
    pytest.importorskip("skops")
    model = make_post(Own(), sensitive_features=above_zero, decision="argmax").fit(X, Y)
    model.save(path)
    names = [f"{__name__}.Own", f"{__name__}.above_zero"]
    with pytest.raises(UntrustedTypesError) as caught:
        load_model(path)
    assert isinstance(caught.value, ModelFileError) and caught.value.types == names
    assert str(caught.value) == (
        f"model.skops: holds types that are not trusted: {', '.join(names)}. If you know where the file comes from, "
        f"pass trusted={names!r}."
    )
    with pytest.raises(ModelFileError, match=f"not trusted: {names[1]}. If"):
        load_model(path, trusted=names[:1])
    np.testing.assert_array_equal(load_model(path, trusted=names).predict(X_NEW), model.predict(X_NEW))
    with pytest.raises(ValueError, match=r"^trusted='x': must be a list of type names\."):
        load_model(path, trusted="x")


def rewrite(content, change):
    """Return the archive with another schema."""
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
    """Yield every dict inside a JSON document."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
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
    "an unknown loader": {"__loader__": "PickleNode", "__module__": "os", "__class__": "system"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_that_names_code_is_refused(attack, path, content, tmp_path):
    """Check one node of the archive, which names a type of ours, in place of which there is code."""
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
            **dict.fromkeys(("func", "args", "attrs", "reduce", "constructor", "obj"), arguments),
        }

    path.write_bytes(rewrite(content, change))
    assert refuse(path).startswith(("model.skops: holds types that are not trusted", "model.skops: not a "))
    assert not marker.exists()


def test_a_function_in_place_of_a_parameter_is_refused(path):
    """Check the way of an honest writer to the same: a model whose parameter is os.system."""
    pytest.importorskip("skops")
    model = make_post(sensitive_features=above_zero).fit(X, Y)
    model.sensitive_features = os.system
    model.save(path)
    refuse(path, r"holds types that are not trusted: (posix|nt|os)\.system\. If you know")


# -- files that are no model ---------------------------------------------------------------------------------
def other_zip():
    """Return a zip file with a text in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("readme.txt", "hello")
    return out.getvalue()


NO_MODELS = {
    "nothing": lambda content: b"",
    "text": lambda content: b"hello",
    "half": lambda content: content[: len(content) // 2],
    "all but the end": lambda content: content[:-10],
    "another zip": lambda content: other_zip(),
    "a pickle": lambda content: pickle.dumps({"format": "optfair model"}),
    "no schema": lambda content: rewrite(content, lambda schema: {"hello": 1}),
    "a list as schema": lambda content: rewrite(content, lambda schema: [1, 2]),
    "another protocol": lambda content: rewrite(content, lambda schema: schema | {"protocol": 10**6}),
}


@pytest.mark.parametrize("kind", NO_MODELS)
def test_what_is_no_model_is_refused(kind, path, content):
    path.write_bytes(NO_MODELS[kind](content))
    refuse(path)


def test_a_damaged_file_is_refused_or_predicts_the_same(path, content, model):
    """Check 60 bytes of the archive, and the one in the middle; any may be the damaged one."""
    key, refused = model.rule_.key, 0
    positions = np.random.default_rng(0).choice(len(content), 60, replace=False)
    for position in [len(content) // 2, *positions]:
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            other = load_model(path, key=key)
        except (ModelFileError, RuleFileError) as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        np.testing.assert_array_equal(other.predict_proba(X_NEW), model.predict_proba(X_NEW))
    assert refused > 50  # of 61: checksums cover all but some two in a hundred bytes


def document(**changes):
    """Return what a model file holds, without its content."""
    return {"format": FORMAT, "version": VERSION, "class": "OptFairPost", "state": {}} | changes


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (LogisticRegression().fit(X, Y), "not a model written by optfair"),
        ({"format": FORMAT}, "not a model written by optfair"),
        ([1, 2], "not a model written by optfair"),
        (document(format="a rule"), r"not a model written by optfair \(its format is 'a rule'\)\."),
        (document(**{"class": "Ridge"}), "not a model written by optfair"),
        (document(), "not a model written by optfair"),
        (document(version=1), f"has version 1, but this release reads version {VERSION}\\.$"),
        (document(version=99), f"has version 99, but this release reads version {VERSION}\\.$"),
    ],
    ids=["estimator", "format only", "list", "format", "class", "no record", "version 1", "version 99"],
)
def test_other_skops_files_are_refused(path, written, words):
    skops = pytest.importorskip("skops.io")
    skops.dump(written, path)
    refuse(path, words)


def test_a_file_of_another_release_of_optfair_is_named_as_such(path, monkeypatch):
    """Its types have moved or are gone: to trust them would not help."""
    skops = pytest.importorskip("skops.io")
    gone = types.ModuleType("optfair.elsewhere")
    gone.Scaling = type("Scaling", (), {"__module__": "optfair.elsewhere"})
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "optfair.elsewhere", gone)
        skops.dump(document(state={"calibration_": gone.Scaling()}), path)
    words = r"was written by another version of optfair, which had a type optfair\.elsewhere\.Scaling; fit and save"
    refuse(path, words)
    with pytest.raises(ModelFileError, match=words):
        load_model(path, trusted=["optfair.elsewhere.Scaling"])


def test_a_class_of_the_same_name_elsewhere_does_not_take_the_place_of_ours(content, path):
    class OptFairPost(optfair.OptFairPost):
        """A class of a user."""

    path.write_bytes(content)
    assert type(load_model(path)) is optfair.OptFairPost
    assert OptFairPost._saved_name() != "OptFairPost"


def test_a_file_that_does_not_exist(path):
    pytest.importorskip("skops")
    with pytest.raises(FileNotFoundError):
        load_model(path)
