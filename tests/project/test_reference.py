"""The reference: every public name is on a page, every fitted attribute is described, options are current."""

import dataclasses
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

import optfair
from optfair.datasets import make_fair_classification

pytest.importorskip("numpydoc", reason="the reference is made by it")
from tests.project.test_docstrings import DOORS, OBJECTS, RETURNED

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(path for path in REFERENCE.glob("*.md") if path.name != "index.md")
# Shared by the classifiers, whose pages describe what they have of these.
BASES = {name for name in RETURNED if name.rpartition(".")[2] in ("FairClassifier", "RuleSolver", "SavableClassifier")}
MODULES = {"optfair.baselines", "optfair.datasets", "optfair.metrics"}
SCIKIT_LEARN = {"n_features_in_", "feature_names_in_"}  # every estimator of scikit-learn has them


def named_objects(text):
    """The full names that a page of the reference describes, in order."""
    module, names = "optfair", []
    for line in text.splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   (?!:)([\w.]+)|\.\. py:data:: (\w+)", line):
            names.append(f"{module}.{match[1] or match[2]}")
    return names


def resolve(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


DESCRIBED = [name for path in PAGES for name in named_objects(path.read_text("utf-8"))]


def importable(name):
    """Networks are on the pages whether or not torch is here."""
    if name.startswith("optfair.nn.") or name.rpartition(".")[2] in ("AdvDebias", "FairBatch", "FDivergence", "Frappe"):
        return importlib.util.find_spec("torch") is not None
    return True


@pytest.mark.parametrize("door", DOORS)
def test_every_public_name_is_on_a_page(door):
    if door == "optfair.nn":
        pytest.importorskip("torch", reason="optfair.nn needs it")
    public = {f"{door}.{name}" for name in importlib.import_module(door).__all__} - MODULES
    assert public <= set(DESCRIBED)


def test_what_public_functions_return_is_on_a_page():
    assert set(RETURNED) - BASES <= {
        *DESCRIBED,
        *(f"{resolve(n).__module__}.{n.rpartition('.')[2]}" for n in OUR_NAMES),
    }


OUR_NAMES = [name for name in DESCRIBED if name.startswith("optfair.") and name.count(".") == 1]


def test_every_name_on_a_page_exists_once():
    assert len(DESCRIBED) == len(set(DESCRIBED)) > 60
    for name in filter(importable, DESCRIBED):
        assert resolve(name) is not None, name


def test_the_errors_are_all_there():
    from optfair import errors

    ours = {value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)}
    assert ours <= {resolve(name) for name in named_objects((REFERENCE / "errors.md").read_text("utf-8"))}


def test_the_index_lists_every_page_and_name():
    text = (REFERENCE / "index.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| \[[^\]]+\]\((\w+\.md)\)(.*)\|$", text, flags=re.MULTILINE))
    assert list(rows) == [line + ".md" for line in text.rpartition(":maxdepth: 1\n")[2].split("`")[0].split()]
    for path in PAGES:
        names = re.findall(r"\{py:obj\}`~([\w.]+)`", rows[path.name])
        assert names == named_objects(path.read_text("utf-8")), path.name


def documented_attributes(kind):
    """The names under "Attributes" in a docstring, and properties that have one of their own."""
    text = inspect.getdoc(kind)
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\w+\n---|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    names = set(re.findall(r"^(\w+) :", section[1], flags=re.MULTILINE)) if section else set()
    members = {name: inspect.getattr_static(kind, name, None) for name in dir(kind)}
    properties = {name for name, value in members.items() if isinstance(value, property) and value.__doc__}
    return names | {name for name in properties if not name.startswith("_")}


def fitted_models():
    from optfair.baselines import ERM, FairProjection, LinearPost, WeightedERM

    data = make_fair_classification(300, 4, random_state=0)
    models = [
        optfair.OptFairPost(random_state=0),
        optfair.OptFairPost(random_state=0, ensemble=True, cv=2),
        optfair.OptFairIn(rounds=3, tolerance=0.1, random_state=0),
        optfair.OptFairInPost(optfair.OptFairIn(start="zero", rounds=4, random_state=0), threshold=0.3, random_state=0),
        ERM(random_state=0),
        LinearPost(alpha=0.1, cv=2, random_state=0),
        FairProjection(alpha=0.2, cv=2, random_state=0),
        WeightedERM(rounds=4, random_state=0),
    ]
    return [model.fit(data.X, data.y, sensitive_features=data.sensitive_features) for model in models]


@pytest.mark.filterwarnings("ignore::optfair.OptFairWarning")
def test_every_attribute_of_a_fitted_model_is_documented():
    for model in fitted_models():
        fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
        properties = {name for name in dir(type(model)) if name.endswith("_") and not name.startswith("_")}
        documented = documented_attributes(type(model))
        assert fitted <= documented | SCIKIT_LEARN, type(model).__name__
        missing = {name for name in documented if name.endswith("_")} - fitted - properties - SCIKIT_LEARN
        assert not missing, f"{type(model).__name__} documents what it does not have: {missing}"


def test_results_document_their_fields():
    results = [
        value
        for value in OBJECTS.values()
        if dataclasses.is_dataclass(value) and "Parameters\n---" not in (inspect.getdoc(value) or "")
    ]
    assert len(results) > 8
    for value in results:
        public = {field.name for field in dataclasses.fields(value) if not field.name.startswith("_")}
        assert public <= documented_attributes(value), value.__name__


# -- the command line ---------------------------------------------------------------------------------------


@pytest.fixture
def command_line(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))
    yield importlib.import_module("command_line")
    sys.modules.pop("command_line", None)


def test_the_page_of_commands_is_current(command_line):
    text = command_line.PAGE.read_text("utf-8")
    assert text == command_line.write(text), "run python docs/extensions/command_line.py"


def test_every_command_has_a_section_with_an_example_and_its_options(command_line):
    text = command_line.PAGE.read_text("utf-8")
    sections = {part.split("\n")[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)}
    for name, parser in command_line.command_parsers().items():
        section = sections[f"optfair {name}"]
        assert re.search(rf"^(\$ )?optfair {name}\b", section, flags=re.MULTILINE), name
        assert f"<!-- options: {name} -->" in section
        for action in command_line.options(parser):
            if not {*action.option_strings} & {*command_line.SHARED}:
                assert f"- `{command_line.invocation(action)}`" in section


def test_a_new_option_would_be_seen(command_line):
    text = command_line.PAGE.read_text("utf-8")
    older = text.replace("- `--tolerance TOLERANCE`", "- `--allowance TOLERANCE`", 1)
    assert older != text == command_line.write(older)
