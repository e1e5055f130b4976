"""Answers over HTTP are those of `predict`, alone and among others, for every kind of model."""

import json
import math
import random
import threading

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair import OptFairPost, load_model
from optfair.rule.certificate import UNDECIDED
from tests.serving.helpers import CASES, FAST, PEOPLE, case, in_full, serving, table_case

KEYS = [f"id-{k}" for k in range(PEOPLE)]


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_predict(name):
    asked = case(name)
    keys = KEYS if asked.model.decision == "hashed" else None
    people = in_full(asked.features, keys, asked.groups)
    with serving(asked.model) as service:
        expected = asked.expected(keys)
        assert service.answers(people) == expected
        order = random.Random(0).sample(range(PEOPLE), PEOPLE)
        assert service.answers([people[k] for k in order]) == [expected[k] for k in order]
        for k in range(0, PEOPLE, 4):
            status, content = service.ask("/predict", people[k])
            assert status == 200 and [entry["answer"] for entry in content["answers"]] == [expected[k]]
        if keys is not None:  # whoever has no key is known by the features
            unnamed = in_full(asked.features, None, asked.groups)
            assert service.answers(unnamed) == asked.expected()
            mixed = [(people if k % 2 else unnamed)[k] for k in range(PEOPLE)]
            by_features = asked.expected()
            assert service.answers(mixed) == [(expected if k % 2 else by_features)[k] for k in range(PEOPLE)]


def test_probabilities_are_those_of_the_model():
    asked = case("blind")
    h = asked.model.predict_proba(asked.X)
    with serving(asked.model) as service:
        _, content = service.ask("/predict", {"people": asked.features})
    for entry, row in zip(content["answers"], h, strict=True):
        assert list(entry["probabilities"]) == asked.model.classes_.tolist()
        np.testing.assert_allclose(list(entry["probabilities"].values()), row, atol=1e-9)
        assert entry["undecided"] == bool(row.max() < UNDECIDED)
    assert any(entry["undecided"] for entry in content["answers"])
    assert content["notes"] == []


def test_who_asks_at_the_same_time_makes_no_difference():
    asked = case("blind")
    expected = asked.expected(KEYS)
    people = in_full(asked.features, KEYS)
    wrong, n_batches = [], 0
    with serving(asked.model) as service:

        def ask(seed):
            chance = random.Random(seed)
            for _ in range(15):
                k = chance.randrange(PEOPLE)
                if chance.random() < 0.2:  # a neighbour who cannot be answered
                    status, _ = service.ask("/predict", {"features": {"age": "old"}})
                    wrong.extend([] if status == 422 else [status])
                elif service.answers([people[k]]) != [expected[k]]:
                    wrong.append(k)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        n_batches = service.metric("optfair_batch_requests_count")
        assert service.metric("optfair_batch_requests_sum") == 8 * 15
    assert wrong == []
    assert n_batches < 8 * 15  # some were answered together


@pytest.mark.parametrize("name", ["blind", "aware, told", "in-processing", "trees on a table"])
def test_missing_is_missing_however_it_is_written(name):
    asked = case(name)
    fields = list(asked.features[0])
    with serving(asked.model) as service:
        for k, field in enumerate([*fields, *fields[:2]]):
            rows = [dict(row) for row in asked.features]
            variants = [
                [row | {field: None} for row in rows],
                [row | {field: math.nan} for row in rows],
                [{key: value for key, value in row.items() if key != field} for row in rows],
            ]
            answers = [service.answers(in_full(people, KEYS, asked.groups)) for people in variants]
            frame = asked.X.assign(**{field: [None] * PEOPLE})
            expected = asked.model.predict(frame, **(asked.arguments or {}), keys=KEYS).tolist()
            assert answers == [expected] * 3, (k, field)


def test_numbers_are_the_same_however_they_are_written():
    asked = case("blind")
    row = {"age": 41.0, "kids": 2, "flag": True, "city": "Rome", "code": "7", "word": "yes"}
    twins = [row, row | {"kids": 2.0, "flag": 1}, row | {"code": 7, "flag": 1.0}, row | {"code": 7.0, "age": 41}]
    with serving(asked.model) as service:
        _, content = service.ask("/predict", {"people": twins})
        alone = [service.ask("/predict", twin)[1]["answers"][0] for twin in twins]
    assert all(entry == content["answers"][0] for entry in [*content["answers"], *alone])
    assert content["answers"][0]["answer"] == asked.model.predict(row)[0]


def test_all_neighbours_of_a_code_leave_it_as_it_is():
    """In a column that held numbers "7" alone is the number 7; beside "x7" it must stay so."""
    asked = case("numbers that are codes")
    row = asked.features[0]
    values = ["101", 101, 101.0, "x7", None, "", "nan", True, "1_0"]
    people = in_full([row | {"zip": value} for value in values])
    with serving(asked.model) as service:
        together = service.ask("/predict", {"people": people})[1]["answers"]
        alone = [service.ask("/predict", person)[1]["answers"][0] for person in people]
    assert together == alone
    assert together[0] == together[1] == together[2] and together[4] == together[5] == together[6]
    for value, entry in zip(values, alone, strict=True):
        assert entry["answer"] == asked.model.predict([row | {"zip": value}])[0], value


def test_categories_of_pandas(tmp_path):
    words = pd.Categorical(np.resize(["a", "b", "1.0"], 300)), pd.Categorical(np.resize(["b", "zz", "1"], PEOPLE))
    asked = table_case(OptFairPost(**FAST), kind=words)
    with serving(asked.model) as service:
        assert service.answers(in_full(asked.features, KEYS)) == asked.expected(KEYS)
        for k in (0, 1, 2):
            assert service.answers(in_full(asked.features[k : k + 1], KEYS[k:])) == asked.expected(KEYS)[k : k + 1]


def test_a_saved_model_and_its_key(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    asked = case("blind")
    asked.model.save(tmp_path / "m.skops")
    with serving(load_model(tmp_path / "m.skops")) as service:
        assert service.answers(in_full(asked.features, KEYS)) == asked.expected(KEYS)


def test_keys_are_those_of_predict():
    asked = case("blind")
    undecided = np.flatnonzero(asked.model.predict_proba(asked.X).max(axis=1) < 0.9)
    row, frame = asked.features[undecided[0]], asked.X.iloc[[undecided[0]]]
    long = 10**400 + 7  # beyond any number of double precision
    keys = [7, "7", 7.0, 7.5, ["a", 1], ["a", "1"], "ä", 2**70, True, "17.0", -1, long, -long, ["a", long], [long]]
    with serving(asked.model) as service:
        answers = service.answers([{"features": row, "key": key} for key in keys])
        digits = service.answers([{"features": row, "key": str(long)}])
        reasons = service.ask("/explain", {"features": row, "key": long})[1]["people"]
    assert digits == [entry["answer"] for entry in reasons] == [answers[keys.index(long)]]
    expected = [asked.model.predict(frame, keys=[tuple(key) if isinstance(key, list) else key])[0] for key in keys]
    assert answers == expected and answers[0] == answers[2]


def test_sampled_decisions_are_drawn_anew():
    """By the seed of the model every request would get the same draw, and a person one class only."""
    asked = table_case(OptFairPost(decision="sampled", **FAST))
    h = asked.model.predict_proba(asked.X)
    k = int(np.argmin(np.abs(h.max(axis=1) - 0.5)))
    with serving(asked.model) as service:
        answers = [service.ask("/predict", asked.features[k])[1]["answers"][0]["answer"] for _ in range(60)]
        together = service.answers(in_full([asked.features[k]] * 400))
    for sample in (answers, together):
        share = np.mean([answer == asked.model.classes_[h[k].argmax()] for answer in sample])
        assert abs(share - h[k].max()) < 5 * np.sqrt(0.25 / len(sample))


def test_two_requests_that_are_the_same_get_draws_of_their_own():
    asked = table_case(OptFairPost(decision="sampled", **FAST))
    people = in_full([row for row in asked.features if asked.model.predict_proba([row]).max() < 0.9] * 30)
    answers = []
    for _ in range(2):  # two services too: copies of one would draw alike
        with serving(asked.model) as service:
            answers += [service.answers(people) for _ in range(2)]
    for k in range(4):
        for other in answers[:k]:
            n_other = sum(one != two for one, two in zip(answers[k], other, strict=True))
            assert 0.02 * len(people) < n_other < 0.9 * len(people)


@pytest.mark.parametrize("labels", [[1, 2, 3], [0.0, 1.0, 2.0], [True, False, True], ["ü", "<b>", '"']])
def test_labels_keep_their_type(labels):
    base = case("array")
    rng = np.random.default_rng(0)
    y = np.array(labels)[rng.integers(0, 3, 300)]
    X = rng.normal(size=(300, 3))
    model = OptFairPost(**FAST).fit(X, y, sensitive_features=rng.integers(0, 2, 300))
    with serving(model) as service:
        _, content = service.ask("/predict", {"people": base.features})
        assert service.ask("/health")[1]["classes"] == [str(label) for label in model.classes_.tolist()]
    answers = [entry["answer"] for entry in content["answers"]]
    expected = model.predict(np.array(base.features)).tolist()
    assert answers == expected and [type(a) for a in answers] == [type(e) for e in expected]
    assert list(content["answers"][0]["probabilities"]) == [str(label) for label in model.classes_.tolist()]


def test_answers_are_json_that_every_reader_reads():
    asked = case("blind")
    with serving(asked.model) as service:
        status, headers, body = service.fetch("/predict", {"people": asked.features})
    assert status == 200 and headers["content-type"] == "application/json"
    json.loads(body.decode("utf-8"), parse_constant=lambda name: pytest.fail(name))
