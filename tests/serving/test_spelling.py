"""Names that look like features: the same as `predict` finds, and at a cost that no request can raise."""

import difflib
import random

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair import OptFairPost
from optfair.inputs.frames import read_records
from optfair.serving import spelling
from optfair.serving.rows import COSTLY
from optfair.serving.settings import COMPARED_LENGTH, MAX_UNREAD
from optfair.serving.spelling import CostlyComparisonError, NameComparisons, NameIndex
from tests.serving.helpers import FAST, case, serving
from tests.threads import single_thread

ROW = {"age": 41.0, "kids": 2, "flag": True, "city": "Rome", "code": "7", "word": "yes"}
LETTERS = "abcdeAß "


@pytest.fixture(scope="module")
def blind():
    with serving(case("blind").model, max_people=3) as service:
        yield service


@pytest.fixture
def compared(monkeypatch):
    """Return the pairs of names that are compared letter by letter."""
    pairs = []

    class Matcher(difflib.SequenceMatcher):
        def __init__(self, **names):
            pairs.append((names["b"], names["a"]))
            super().__init__(**names)

    monkeypatch.setattr(spelling.difflib, "SequenceMatcher", Matcher)
    return pairs


def similar_to(name, features, present=()):
    return NameComparisons().likest(name, NameIndex(features), present)


# -- what is similar -------------------------------------------------------------------------------------------
def test_misspelt_features(blind):
    without = {name: value for name, value in ROW.items() if name != "age"}
    assert blind.error(without | {"Age": 41}) == (
        'person.Age: the model does not read it; is it "age"? Rename it, or leave it out.'
    )
    message = 'people[1].citty: the model does not read it; is it "city"? Rename it, or leave it out.'
    lost = {name: value for name, value in ROW.items() if name != "city"} | {"citty": "Rome"}
    assert blind.error({"people": [ROW, lost]}) == message
    assert blind.error({"people": [ROW | {"citty": "Rome"}, lost]}) == message
    assert blind.ask("/predict", ROW | {"Age": 41})[0] == 200  # age is there too


def test_names_are_as_similar_as_predict_finds_them():
    chance = random.Random(0)

    def word(n):
        return "".join(chance.choice(LETTERS) for _ in range(n))

    n_similar = 0
    for _ in range(300):
        features = [word(chance.randrange(1, 9)) for _ in range(4)]
        name = features[0][: chance.randrange(9)] + word(chance.randrange(3))
        if name in features:
            continue
        texts = {feature.casefold(): feature for feature in features}
        expected = difflib.get_close_matches(name.casefold(), texts, n=1, cutoff=spelling.SIMILAR)
        similar = similar_to(name, features)
        assert (similar is None) == (not expected), (name, features)
        if expected and len(texts) == len(features):
            assert similar == texts[expected[0]]
            with pytest.raises(ValueError, match="which the model does not read"):
                read_records({name: 1, "x": 1}, [*features, "x"])
            n_similar += 1
    assert n_similar > 30


def test_the_likest_of_those_that_are_absent():
    features = ["income", "incomes", "Income"]
    assert similar_to("INCOME", features) == "income" and similar_to("incomess", features) == "incomes"
    assert similar_to("incomess", features, present=["incomes"]) == "income"
    assert similar_to("incomess", features, present=features) is None
    assert similar_to("x", []) is None and similar_to("", ["", "a"]) == "" and similar_to("\ud800", ["\ud801"]) is None


def test_a_long_name_is_compared_but_for_its_capitals(compared):
    longest = "a" * COMPARED_LENGTH
    assert similar_to(longest[1:], [longest]) == longest and len(compared) == 1
    assert similar_to(longest, [longest + "b"]) is None and similar_to(longest + "b", [longest]) is None
    assert similar_to("B" * 200_000, ["b" * 200_000]) == "b" * 200_000
    assert len(compared) == 1


# -- what it costs ---------------------------------------------------------------------------------------------
def test_how_many_fields_of_others_a_request_may_have(blind):
    strangers = {f"{'z' * 20}{k}": k for k in range(MAX_UNREAD + 1)}
    message = f"is one of more than {MAX_UNREAD} different fields that the model does not read."
    assert blind.error(ROW | strangers) == f"person.{'z' * 20}{MAX_UNREAD}: {message}"
    people = {"people": [ROW | dict(list(strangers.items())[:60]), ROW | dict(list(strangers.items())[50:])]}
    assert message in blind.error(people)


def test_nothing_is_compared_while_no_feature_is_absent(blind, compared):
    blind.answers([{"features": ROW | {"cityy": 1, "agee": 2}}] * 3)
    assert compared == []


def test_each_pair_of_names_is_compared_once_and_only_if_its_letters_may_agree(blind, compared):
    absent = {name: value for name, value in ROW.items() if name not in ("city", "word")}
    blind.answers([{"features": absent | {"drow": 1, "height": 2}}] * 3)
    assert compared == [("drow", "word")]


def test_names_that_take_long_to_compare_are_refused():
    """300 features of 80 letters, and 100 names of the same letters in another order: four seconds without a bound."""
    names = [f"answer to question number {k} of the questionnaire, as a share of the points" for k in range(300)]
    rng, chance = np.random.default_rng(0), random.Random(0)
    X = rng.normal(size=(120, len(names))).round(2)
    group, y = rng.integers(0, 2, (2, len(X)))
    with single_thread():
        model = OptFairPost(**FAST).fit(pd.DataFrame(X, columns=names), y, sensitive_features=group)
    strangers = {"".join(chance.sample(names[k], len(names[k]))): k for k in range(MAX_UNREAD)}
    whole = dict(zip(names, X[0].tolist(), strict=True))
    with serving(model) as service:
        assert service.ask("/predict", whole | strangers)[0] == 200
        message = service.error(dict(list(whole.items())[:100]) | strangers)
        assert message.startswith('person["') and message.endswith(f"...]: {COSTLY}")
    with pytest.raises(CostlyComparisonError):
        comparisons, index = NameComparisons(), NameIndex(names)
        for name in strangers:
            comparisons.likest(name, index, ())
    assert comparisons._n_pairs < 1.02 * spelling.COMPARED_PAIRS
