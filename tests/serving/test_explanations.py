"""Reasons over HTTP are those of `explain`, notes say what the model had never seen; and what cannot be served."""

import json
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair import OptFairPost
from optfair.serving.service import NO_REASONS, Service
from optfair.serving.settings import MAX_EXPLAINED, MAX_UNREAD, PIECE_PEOPLE, ServiceSettings
from tests.serving.helpers import FAST, PEOPLE, N, case, in_full, serving, table_case
from tests.threads import single_thread

KEYS = [f"id-{k}" for k in range(PEOPLE)]
ROW = {"age": 41.0, "kids": 2, "flag": True, "city": "Rome", "code": "7", "word": "yes"}
WORDS = ["person", "model", "plain", "answer", "against", "undecided", "sentences"]


# -- reasons ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["blind", "blind, argmax", "aware, told", "aware, two attributes", "array with texts", "sparse", "texts"]
)
def test_reasons_are_those_of_explain(name):
    asked = case(name)
    keys = KEYS if asked.model.decision == "hashed" else None
    with serving(asked.model) as service:
        people = in_full(asked.features, keys, asked.groups)
        status, content = service.ask("/explain", {"people": people})
        assert [entry["answer"] for entry in content["people"]] == service.answers(people)
    expected = asked.model.explain(asked.X, **(asked.arguments or {}), keys=keys).to_dict()
    assert status == 200 and content == json.loads(json.dumps(expected))


def test_reasons_for_people_who_are_asked_about_alone():
    """Dates of several people would become of one type; sums of a batch differ in the last digits."""
    asked = case("dates")
    with serving(asked.model) as service:
        content = service.ask("/explain", {"people": asked.features[:3]})[1]
    expected = asked.model.explain(asked.X[:3]).to_dict()
    for entry, other in zip(content["people"], expected["people"], strict=True):
        assert [entry[name] for name in WORDS] == [other[name] for name in WORDS]
        assert entry["margin"] == pytest.approx(other["margin"], abs=1e-9)


def test_reasons_for_people_with_and_without_keys_and_for_more_than_one_call():
    asked = case("blind")
    people = in_full(asked.features, KEYS)[:2] + in_full(asked.features)[:PIECE_PEOPLE]
    people = (people * 3)[: PIECE_PEOPLE + 10]
    with serving(asked.model) as service:
        content = service.ask("/explain", {"people": people})[1]
        assert [entry["person"] for entry in content["people"]] == list(range(len(people)))
        for k in (0, 1, 2, len(people) - 1):
            alone = service.ask("/explain", people[k])[1]
            for name, value in alone["people"][0].items():
                together = content["people"][k][name]
                if isinstance(value, float):
                    assert together == pytest.approx(value, abs=1e-9)
                elif name not in ("person", "terms"):
                    assert together == value
            assert len(alone["people"][0]["terms"]) == len(content["people"][k]["terms"])
            assert alone["notes"] == content["notes"]


def test_at_most_a_hundred_people_are_explained():
    with serving(case("array").model, max_people=2 * MAX_EXPLAINED) as service:
        rule = f"at most {MAX_EXPLAINED} are explained at a time; send the others in further requests."
        people = {"people": [[0, 0, 0]] * (MAX_EXPLAINED + 1)}
        assert service.error(people, "/explain") == f"people: are {MAX_EXPLAINED + 1}; {rule}"
        assert service.ask("/predict", people)[0] == 200
        people["people"].pop()
        assert len(service.ask("/explain", people)[1]["people"]) == MAX_EXPLAINED


def test_a_model_without_a_rule_has_no_reasons():
    asked = case("in-processing")
    with serving(asked.model) as service:
        assert service.error(asked.features[0], "/explain", status=409) == NO_REASONS
        assert service.ask("/predict", asked.features[0])[0] == 200


# -- notes -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def complete():
    """Serve a model with a number and a text that were never missing."""
    height = np.linspace(150, 190, N).round(1), np.full(PEOPLE, 170.0)
    kind = np.resize(["a", "b"], N), np.resize(["a", "b"], PEOPLE)
    with serving(table_case(OptFairPost(**FAST), height=height, kind=kind).model) as service:
        yield service


def notes_on(service, document, path="/predict"):
    """Return the notes on a request, without those on reasons that hold for everybody."""
    status, content = service.ask(path, document)
    assert status == 200
    everybody = service.ask(path, ROW | {"height": 170, "kind": "a"})[1]["notes"]
    assert content["notes"][: len(everybody)] == everybody
    return content["notes"][len(everybody) :]


FULL = ROW | {"height": 170, "kind": "a"}
NEVER = "it was never missing when the model was fitted."
UNREAD = "not read by the model, and left out:"
NOTES = {
    "nothing": (FULL, []),
    "an unread field": (FULL | {"shoe": 43}, [f"1 field is {UNREAD} 'shoe'."]),
    "unread fields": (FULL | {"shoe": 43, "<i>": None}, [f"2 fields are {UNREAD} 'shoe', '<i>'."]),
    "one unread field of two people": (
        {"people": [FULL | {"shoe": 1}, FULL | {"shoe": 2}]},
        [f"1 field is {UNREAD} 'shoe'."],
    ),
    "a gap": (FULL | {"height": None}, [f"field 'height': is missing in 1 of 1 person; {NEVER}"]),
    "an absent field": (
        {"people": [FULL, ROW | {"kind": "a"}]},
        [f"field 'height': is missing in 1 of 2 people; {NEVER}"],
    ),
    "gaps where there were some": (FULL | {"age": None, "city": None}, []),
    "an unseen text": (
        {"people": [FULL, FULL | {"city": "Bern"}, FULL | {"city": "Cork"}]},
        [
            "field 'city': a text that the model has not seen in 2 of 3 people, such as 'Bern' (people[1]); it is "
            "treated as a rare text."
        ],
    ),
    "a number far out": (
        {"people": [FULL | {"height": 1e6}, FULL]},
        [
            "field 'height': far outside of what the model was fitted on in 1 of 2 people, such as 1e+06 (people[0]); "
            "it was mostly from 152 to 188."
        ],
    ),
    "everything": (
        FULL | {"kind": None, "height": None, "word": "no", "shoe": 1},
        [
            f"1 field is {UNREAD} 'shoe'.",
            "2 fields are missing in 1 of 1 person; none was when the model was fitted: 'height', 'kind'.",
            "field 'word': a text that the model has not seen in 1 of 1 person, such as 'no' (person); it is "
            "treated as a rare text.",
        ],
    ),
}


@pytest.mark.parametrize("path", ["/predict", "/explain"])
@pytest.mark.parametrize("name", NOTES)
def test_notes(complete, name, path):
    document, lines = NOTES[name]
    assert notes_on(complete, document, path) == lines


def test_notes_are_as_long_as_a_screen(complete):
    strangers = {f"{'z' * 500}{k}": k for k in range(MAX_UNREAD)}
    (line,) = notes_on(complete, FULL | strangers)
    assert f"{MAX_UNREAD} fields are" in line and "and 94 more" in line and len(line) < 400


def test_notes_on_values_without_names():
    asked = case("texts")
    with serving(asked.model) as service:
        assert service.ask("/predict", ["red blue"])[1]["notes"] == []


# -- models that cannot be served ------------------------------------------------------------------------------
def refusal_of(model):
    with pytest.raises(ValueError) as error:
        Service(model, ServiceSettings())
    return str(error.value)


def fitted(classifier, X):
    """Fit a model of two classes that are of no group more than of another."""
    y, group = np.random.default_rng(0).integers(0, 2, (2, len(X)))
    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on classes that hardly anybody gets
        return OptFairPost(classifier, **FAST).fit(X, y, sensitive_features=group)


def flatten(X):
    return X.reshape(len(X), -1)


IMAGES = "the model reads images or items of a torch data set, which no JSON request holds."


def test_models_of_images_cannot_be_served():
    pictures = np.random.default_rng(1).normal(size=(120, 3, 4, 4))
    flat = make_pipeline(FunctionTransformer(flatten), LogisticRegression())
    assert refusal_of(fitted(flat, pictures)) == IMAGES


def test_models_of_data_sets_cannot_be_served():
    torch = pytest.importorskip("torch", reason="data sets are those of torch")
    from optfair.nn import TorchClassifier

    rng = np.random.default_rng(1)
    X = torch.from_numpy(rng.normal(size=(120, 3)).astype(np.float32))
    items = torch.utils.data.TensorDataset(X, torch.from_numpy(rng.integers(0, 2, 120)), torch.arange(120) % 2)
    with single_thread():
        model = OptFairPost(TorchClassifier(hidden=(3,), epochs=1, random_state=0), **FAST).fit(items)
    assert refusal_of(model) == IMAGES


def test_a_table_too_wide_to_be_described_is_served():
    X = np.random.default_rng(1).normal(size=(120, 2_001)).round(3)
    model = fitted(LogisticRegression(), X)
    with serving(model) as service:
        assert service.answers(X[:4].tolist()) == model.predict(X[:4]).tolist()
        assert "and 1,801 more" in service.fetch("/")[2].decode()


class Moved(LogisticRegression):
    """A classifier that answers people otherwise when several are asked about at once."""

    def predict_proba(self, X):
        return super().predict_proba(X - X.mean(axis=0) if len(X) < 20 else X)


def test_a_model_that_answers_a_person_by_their_neighbours_cannot_be_served():
    X = np.random.default_rng(1).normal(size=(200, 3))
    message = "the model answers people otherwise when it is asked about several at once."
    assert refusal_of(fitted(Moved(), X)) == message
