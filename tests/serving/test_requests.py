"""What is refused, in one line that names the person, the field, the value and the rule."""

import json
import math

import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair import OptFairPost
from tests.serving.helpers import FAST, case, serving, table_case, two_attributes

ROW = {"age": 41.0, "kids": 2, "flag": True, "city": "Rome", "code": "7", "word": "yes"}
NUMBER = "must be a number, or null where it is missing."
KEY = "must be text that is not empty, a number, or a list of these."
SURROGATE = "is not valid text (a lone surrogate)."


@pytest.fixture(scope="module")
def blind():
    with serving(case("blind").model, max_people=3) as service:
        yield service


def row(**values):
    return ROW | values


VALUES = [
    (row(age="old"), f'person.age="old": {NUMBER}'),
    (row(age="41"), f'person.age="41": {NUMBER}'),
    (row(age=""), f'person.age="": {NUMBER} Does it mean missing?'),
    (row(age="?"), f'person.age="?": {NUMBER} Does it mean missing?'),
    (row(age=[41]), "person.age=a list of 1: must be one value."),
    (row(city={"a": 1, "b": 2}), "person.city=an object of 2: must be one value."),
    (row(age=math.inf), "person.age=Infinity: must be finite, or null where it is missing."),
    (row(age=-math.inf), "person.age=-Infinity: must be finite, or null where it is missing."),
    (row(city=math.inf), "person.city=Infinity: must be finite, or null where it is missing."),
    (row(kids=2**53 + 1), "person.kids=9007199254740993: has more digits than a number of double precision."),
    (row(city="\ud800"), f'person.city="\\ud800": {SURROGATE}'),
    (row(age="x" * 1000), f'person.age="{"x" * 56}...: {NUMBER}'),
    ({"people": [ROW, row(age="old")]}, f'people[1].age="old": {NUMBER}'),
    (
        {"people": [{"features": row(age=True), "key": 1}, {"features": row(kids="no")}]},
        f'people[1].kids="no": {NUMBER}',
    ),
]
ENVELOPES = [
    (b"null", "person=null: must be an object with a value for each feature."),
    ([1, 2], "person=a list of 2: must be an object with a value for each feature."),
    ("x", 'person="x": must be an object with a value for each feature.'),
    ({"people": 3}, "people=3: must be a list of people."),
    ({"people": None}, "people=null: must be a list of people."),
    ({"people": {}}, "people=an object of 0: must be a list of people."),
    ({"people": []}, "people: is empty; give at least one person."),
    ({"people": [ROW] * 4}, "people: are 4; must be at most 3; send the others in further requests."),
    ({"people": [ROW, 7]}, "people[1]=7: must be an object with a value for each feature."),
    ({"people": [ROW], "mode": 1}, "body.mode: is not read beside people."),
    ({"people": [ROW], "a b": 1}, 'body["a b"]: is not read beside people.'),
    ({"features": ROW, "keys": 1}, "person.keys: is not read; a person has features, key and group."),
    ({"features": None}, "person=null: must be an object with a value for each feature."),
    (
        {"features": {}},
        "person: has none of the features that the model reads: 'age', 'kids', 'flag', 'city', 'code', 'word'.",
    ),
    ({}, "person: has none of the features that the model reads: 'age', 'kids', 'flag', 'city', 'code', 'word'."),
    ({"x": 1}, "person: has none of the features that the model reads: 'age', 'kids', 'flag', 'city', 'code', 'word'."),
    (row(key=7), 'person.key: is not a feature of the model; send {"features": {...}, "key": ...}.'),
    (row(group="g"), 'person.group: is not a feature of the model; send {"features": {...}, "group": ...}.'),
]
KEYS = [
    (None, f"person.key=null: {KEY}"),
    ("", f'person.key="": {KEY}'),
    (["a", ""], f'person.key[1]="": {KEY}'),
    ({}, f"person.key=an object of 0: {KEY}"),
    ([], f"person.key=a list of 0: {KEY}"),
    (math.nan, f"person.key=NaN: {KEY}"),
    (math.inf, f"person.key=Infinity: {KEY}"),
    (["a", None], f"person.key[1]=null: {KEY}"),
    ([["a"]], f"person.key[0]=a list of 1: {KEY}"),
    ("\udfff", f'person.key="\\udfff": {SURROGATE}'),
]


@pytest.mark.parametrize(("document", "message"), VALUES + ENVELOPES)
def test_what_no_model_can_read(blind, document, message):
    assert blind.error(document) == message
    assert blind.error(document, "/explain") == message


@pytest.mark.parametrize(("key", "message"), KEYS)
def test_keys_that_are_none(blind, key, message):
    assert blind.error({"features": ROW, "key": key}) == message


def test_a_truth_value_is_a_key_as_for_predict(blind):
    people = [{"features": ROW, "key": key} for key in (True, False, ["a", True])]
    assert blind.answers(people) == case("blind").model.predict([ROW] * 3, keys=[1, 0, ("a", 1)]).tolist()


def test_a_number_that_double_precision_holds_is_one(blind):
    for value in (2**53, -(2**60), 10**20):
        assert blind.ask("/predict", row(age=value))[0] == 200
    assert "has more digits" in blind.error(row(age=10**400))
    assert "must be finite" in blind.error(b'{"age": 1e999, "kids": 1}')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: is not JSON: Expecting value (line 1, column 1)."),
        (b'{"age":\n }', "body: is not JSON: Expecting value (line 2, column 2)."),
        (b'{"age": 1, "age": 2}', 'body: an object has the key "age" twice; give it once.'),
        (b'{"people": [{"a b": 1, "a b": 2}]}', 'body: an object has the key "a b" twice; give it once.'),
        (b'{"age": "\xff"}', "body: is not UTF-8 (byte 10)."),
        (b"[" * 100_000, "body: is nested too deeply; a person is an object of single values."),
        (b'{"a":' * 100_000, "body: is nested too deeply; a person is an object of single values."),
        (b'{"age": %b}' % (b"9" * 5_000), "body: holds a number of too many digits."),
        (b"\xef\xbb\xbf{}", "body: is not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) (line 1, column 1)."),
    ],
)
def test_bodies_that_are_no_json(blind, body, message):
    assert blind.error(body, status=400) == message


def test_an_object_of_many_keys_one_of_them_twice(blind):
    """In linear time: to count every key would take minutes."""
    pairs = ", ".join(f'"{k}": 1' for k in range(60_000))
    assert blind.error(f'{{{pairs}, "59999": 2}}'.encode(), status=400).startswith("body: an object has the key")


def test_features_may_be_called_anything():
    """A person in full is never ambiguous; the words of ours, as names of features, are explained."""
    names = ["people", "features", "key", "group", "a.b", "", "ü", "<i>"]
    columns = {name: ([0.0, 1.0] * 150, [0.0, 1.0] * 12) for name in names}
    asked = table_case(OptFairPost(**FAST), **columns)
    with serving(asked.model) as service:
        for k in range(0, 24, 7):
            features = asked.features[k]
            expected = asked.model.predict([features]).tolist()
            assert service.answers([{"features": features}]) == expected
            status, content = service.ask("/predict", {"features": features})
            assert status == 200 and content["answers"][0]["answer"] == expected[0]
        message = 'must be a list of people. Is "people" a feature here? Then send {"features": {...}}.'
        assert service.error({"people": 1.0, "age": 2}) == f"people=1.0: {message}"
        message = 'is not read beside people. Is "people" a feature here? Then send {"features": {...}}.'
        assert service.error({"people": [], "age": 2}) == f"body.age: {message}"
        rule = 'a person has features, key and group. Is "features" a feature here? Then send {"features": {...}}.'
        assert service.error({"features": 1.0, "age": 2}) == f"person.age: is not read; {rule}"
        assert service.error({"features": {"": "x", "age": 1}}).startswith('person[""]="x": must be a number')
        assert service.error({"features": {"a.b": "x"}}).startswith('person["a.b"]="x": ')
        assert service.error({"features": {"ü": "x"}}).startswith('person["\\u00fc"]="x": ')
        assert service.ask("/predict", {"key": 1.0, "age": 3})[0] == 200  # a feature here, and read as one


def test_models_without_names_take_lists():
    rule = "must be a list of 3 values, one for each column of the model."
    with serving(case("array").model) as service:
        for document in (
            [1.0, 2.0, 3],
            {"features": [1, 2, 3], "key": 1},
            {"people": [[1, 2, 3], {"features": [1, 2, 3]}]},
        ):
            assert service.ask("/predict", document)[0] == 200
        assert service.error({"people": [[1, 2]]}) == f"people[0]=a list of 2: {rule}"
        assert service.error({"a": 1}) == f"person=an object of 1: {rule}"
        assert service.error(7) == f"person=7: {rule}"
        assert service.error([1, "x", 3]) == f'person[1]="x": {NUMBER}'
        assert service.error({"people": [[1, 2, 3], [1, 2, [3]]]}) == "people[1][2]=a list of 1: must be one value."


def test_what_the_model_itself_refuses_is_refused_to_that_person_alone():
    """A model of complete numbers, asked about a gap: its own words, and the other people are answered."""
    with serving(case("array").model) as service:
        message = service.error({"people": [[1, 2, 3], [1, None, 3]]})
        assert message.startswith("people[1]: the model cannot answer: X: holds NaN (row 0, column 1)")
        assert service.ask("/predict", [1, 2, 3])[0] == 200


def test_keys_of_decisions_that_use_none():
    with serving(case("blind, argmax").model) as service:
        message = "person.key: the decisions of the model are 'argmax' and use no keys; leave it out."
        assert service.error({"features": ROW, "key": 1}) == message


# -- groups ----------------------------------------------------------------------------------------------------
def test_the_group_that_a_model_is_told():
    with serving(case("aware, told").model) as service:
        person = {"features": ROW}
        assert service.error(person) == 'person.group: is missing; the model needs it: "g", "h", "i".'
        assert service.error(ROW) == 'person.group: is missing; the model needs it: "g", "h", "i".'
        assert service.error(person | {"group": None}) == 'person.group: is missing; the model needs it: "g", "h", "i".'
        message = 'person.group="z": the model does not know this group; it knows "g", "h", "i".'
        assert service.error(person | {"group": "z"}) == message
        rule = "must be one value, or an object with a value for each attribute."
        assert service.error(person | {"group": ["g"]}) == f"person.group=a list of 1: {rule}"
        message = "person.group.sex: is no attribute; give attribute 1."
        assert service.error(person | {"group": {"sex": "g"}}) == message
        same = service.answers([person | {"group": "h"}, person | {"group": {"attribute 1": "h"}}])
        assert same == case("aware, told").model.predict([ROW, ROW], sensitive_features=["h", "h"]).tolist()


def test_groups_of_several_attributes():
    asked = case("aware, two attributes")
    with serving(asked.model) as service:
        person = {"features": ROW}
        group = asked.groups[0]
        for variant in (
            group,
            list(group.values()),
            dict(reversed(group.items())),
            group | {"race": float(group["race"])},
        ):
            assert service.answers([person | {"group": variant}]) == service.answers([person | {"group": group}])
        choice = '{"sex": "f", "race": 0}, {"sex": "f", "race": 1}, {"sex": "m", "race": 0}, {"sex": "m", "race": 1}.'
        message = f"person.group: is missing; the model needs it: {choice}"
        assert service.error(person | {"group": {"sex": "f"}}) == message
        message = f"person.group=an object of 2: the model does not know this group; it knows {choice}"
        assert service.error(person | {"group": {"sex": "x", "race": 0}}) == message
        rule = "must be an object with the keys sex, race."
        assert service.error(person | {"group": "f"}) == f'person.group="f": {rule}'
        assert service.error(person | {"group": ["f"]}) == f"person.group=a list of 1: {rule}"
        rule = "must be one value, or an object with a value for each attribute."
        assert service.error(person | {"group": {"sex": [], "race": 0}}) == f"person.group=a list of 0: {rule}"


def test_a_group_that_the_model_reads_from_the_features():
    asked = case("aware, group in the table")
    with serving(asked.model) as service:
        message = "person.group: the model reads the group from the features; leave it out."
        assert service.error({"features": asked.features[0], "group": "g"}) == message
        message = 'person.features="z": the model does not know this group; it knows "g", "h", "i".'
        assert service.error(asked.features[0] | {"area": "z"}) == message
        absent = {name: value for name, value in asked.features[0].items() if name != "area"}
        assert service.error(absent) == 'person.features: is missing; the model needs it: "g", "h", "i".'


def test_missing_and_unknown_groups_where_the_model_has_an_answer_to_them():
    told, others = (frame["sex"].copy() for frame in two_attributes())
    told[:40] = None
    lenient = OptFairPost(awareness="aware", missing="group", unseen="blind", **FAST)
    asked = table_case(lenient, told=(told, others))
    variants = ["f", "m", None, "z", "y", True, 7, ""]
    people = [{"features": asked.features[k % 24], "group": value} for k, value in enumerate(variants * 4)]
    frame = asked.X.iloc[[k % 24 for k in range(len(people))]]
    expected = lenient.predict(frame, sensitive_features=[p["group"] for p in people]).tolist()
    with serving(lenient) as service:
        assert service.answers(people) == expected
        for person, answer in zip(people, expected, strict=True):
            assert service.answers([person]) == [answer]
        assert service.answers([{"features": asked.features[0]}]) == service.answers(
            [people[2] | {"features": asked.features[0]}]
        )


def test_a_blind_model_may_be_told_the_group_and_does_not_look_at_it():
    asked = case("blind")
    person = {"features": asked.features[0], "key": 1}
    groups = ["g", "h", "z", None, {"attribute 1": "g"}, 7, True]
    with serving(asked.model) as service:
        answers = service.answers([person, *(person | {"group": group} for group in groups)])
        assert len(set(answers)) == 1
        assert (
            service.error(person | {"group": {"height": 1}})
            == "person.group.height: is no attribute; give attribute 1."
        )
        assert service.error(person | {"group": [1]}).startswith("person.group=a list of 1: must be one value")


def test_a_blind_model_does_without_the_group_that_was_in_its_table():
    for name in ("blind, group in the table", "array, group in it"):
        asked = case(name)
        is_list = isinstance(asked.features[0], list)
        without = [f[:-1] if is_list else {k: v for k, v in f.items() if k != "area"} for f in asked.features]
        with serving(asked.model) as service:
            _, content = service.ask("/predict", {"people": without})
            assert [entry["answer"] for entry in content["answers"]] == asked.expected()
            assert content["notes"] == []


def test_json_text_is_one_short_line():
    from optfair.serving.refusals import json_text, member

    for value in ("a\nb", "\x00" * 100, "\ud800", "ü" * 100, ["\n"] * 1000, 10**500, 1e300, None):
        text = json_text(value)
        assert "\n" not in text and len(text) <= 60 and text.isascii()
    assert json.loads(json_text("a\nb")) == "a\nb"
    assert member("x" * 1000) == f'["{"x" * 56}...]'
