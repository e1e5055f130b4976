"""What a service says about itself: health, counters, OpenAPI, and the paths there are."""

import copy
import html
import json
import re
import shlex

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair import OptFairPost, __version__
from optfair.rule.certificate import UNDECIDED
from optfair.rule.keys import key_fingerprint
from optfair.serving import health
from tests.serving.helpers import AREA, CASES, FAST, PEOPLE, N, case, in_full, serving, table_case
from tests.serving.moody import FINE, held, moody

KEYS = [f"id-{k}" for k in range(PEOPLE)]
ROW = {"age": 41.0, "kids": 2, "flag": True, "city": "Rome", "code": "7", "word": "yes"}


@pytest.fixture(scope="module")
def blind():
    with serving(case("blind").model) as service:
        yield service


@pytest.fixture
def untiring(monkeypatch):
    """Test the model again whenever somebody asks."""
    monkeypatch.setattr(health, "SELF_TEST_SECONDS", -1.0)


# -- health ----------------------------------------------------------------------------------------------------
def test_a_service_that_is_well_says_what_it_serves(blind):
    model = case("blind").model
    status, content = blind.ask("/health")
    assert (status, content.pop("status")) == (200, "ok")
    assert content == {
        "model": model._title(model.constraints_),
        "optfair": __version__,
        "sha256": None,  # it was not loaded from a file
        "key": key_fingerprint(model.rule_.key),
        "criterion": "dp within 0.05 of everybody",
        "awareness": "blind",
        "decision": "hashed",
        "classes": model.classes_.tolist(),
        "groups": 3,
    }


TAMPERINGS = {
    "W": lambda model: model.rule_.weights.__iadd__(np.eye(3)[::-1]),
    "temperatures": lambda model: model.rule_.temperatures.__imul__(40),
    "the classifier": lambda model: setattr(model, "posterior_model_", None),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_model_that_was_changed_in_place_is_failing(untiring, name):
    model = copy.deepcopy(case("blind").model)
    with serving(model) as service:
        assert service.ask("/health")[1]["status"] == "ok"
        before = copy.deepcopy(model.__dict__)
        TAMPERINGS[name](model)
        status, content = service.ask("/health")
        assert (status, content["status"]) == (503, "failing")
        model.__dict__.update(before)
        assert service.ask("/health")[0] == 200


def test_whoever_asks_within_a_second_is_told_the_same_self_test(monkeypatch):
    model = copy.deepcopy(case("blind").model)
    monkeypatch.setattr(health, "SELF_TEST_SECONDS", 3600.0)
    with serving(model) as service:
        assert service.ask("/health")[0] == 200
        TAMPERINGS["W"](model)
        assert service.ask("/health")[0] == 200


def test_a_model_that_does_not_answer_is_stuck(untiring, monkeypatch):
    monkeypatch.setattr(health, "HEALTH_SECONDS", 0.05)
    with serving(moody()) as service:
        with held():
            for _ in range(2):
                status, content = service.ask("/health")
                assert (status, content["status"]) == (503, "stuck")
        monkeypatch.setattr(health, "HEALTH_SECONDS", 5.0)
        assert service.ask("/health")[1]["status"] == "ok"


def test_a_service_that_stops_says_so():
    with serving(case("array").model, grace=2.0) as service:
        service.server.handle_exit(15, None)
        status, headers, body = service.fetch("/health")
        assert (status, json.loads(body)["status"], headers["connection"]) == (503, "stopping", "close")


# -- counters --------------------------------------------------------------------------------------------------
def test_requests_and_answers_are_counted():
    asked = case("blind")
    with serving(asked.model) as service, serving(asked.model) as other:
        people = in_full(asked.features, KEYS, ["g", "h", "z"] * (PEOPLE // 3))
        answers = service.answers(people)
        service.answers(people[:1])
        service.error({"age": "old"})
        service.ask("/health")
        service.fetch("/%3Cscript%3E")
        service.fetch("/predict", method="BREW")
        requests = {("/predict", 200): 2, ("/predict", 422): 1, ("/health", 200): 1, ("(other)", 404): 1}
        for (path, status), count in (requests | {("/predict", 405): 1}).items():
            assert service.metric(f'optfair_requests_total{{path="{path}",status="{status}"}}') == count
            assert other.metric(f'optfair_requests_total{{path="{path}",status="{status}"}}') == 0
        assert service.metric('optfair_request_seconds_count{path="/predict"}') == 4
        for name in asked.model.classes_:
            total = answers.count(name) + (answers[0] == name)
            assert service.metric(f'optfair_answers_total{{answer="{name}"}}') == total
            for group, count in (
                ("g", answers[::3].count(name) + (answers[0] == name)),
                ("(other)", answers[2::3].count(name)),
            ):
                assert service.metric(f'optfair_group_answers_total{{answer="{name}",group="{group}"}}') == count
        h = asked.model.predict_proba(asked.X).max(axis=1)
        assert service.metric("optfair_undecided_total") == (h < UNDECIDED).sum() + (h[0] < UNDECIDED)
        assert service.metric("optfair_batch_requests_sum") == 3


def test_every_class_is_counted_from_the_start_and_nobody_who_did_not_say_their_group():
    with serving(case("blind").model) as service:
        service.answers([{"features": ROW, "group": None}, ROW])
        text = service.fetch("/metrics")[2].decode()
        assert sorted(re.findall(r'^optfair_answers_total\{answer="(\w+)"\}', text, flags=re.M)) == ["hi", "lo", "mid"]
        assert not re.findall(r"^optfair_group_answers_total\{", text, flags=re.M)


def test_groups_among_the_features_are_counted():
    asked = case("blind, group in the table")
    with serving(asked.model) as service:
        answers = service.answers(in_full(asked.features, KEYS))
        service.answers([asked.features[0] | {"area": "nowhere"}])
        for group in "ghi":
            for name in asked.model.classes_:
                count = sum((answer, own) == (name, group) for answer, own in zip(answers, AREA[1], strict=True))
                assert service.metric(f'optfair_group_answers_total{{answer="{name}",group="{group}"}}') == count
        text = service.fetch("/metrics")[2].decode()
        assert 'group="(other)"' in text and "nowhere" not in text


def test_no_label_is_what_a_client_chose():
    with serving(case("blind").model) as service:
        strange = "x1y2z3"
        service.answers([{"features": ROW | {strange: strange, "city": strange}, "key": strange, "group": strange}])
        service.ask(f"/{strange}?{strange}=1", {strange: strange}, {strange: strange, "Content-Type": strange})
        service.fetch(f"/{strange}", method=strange.upper())
        status, headers, body = service.fetch("/metrics")
        assert status == 200 and headers["content-type"].startswith("text/plain; version=")
        assert strange not in body.decode().lower()


# -- OpenAPI ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_the_description_is_true(name):
    """The example is valid and works, as people do; what comes back is as described."""
    jsonschema = pytest.importorskip("jsonschema", reason="schemas are checked by jsonschema")
    asked = case(name)
    with serving(asked.model) as service:
        document = service.ask("/openapi.json")[1]
        components = document["components"]
        validators = {
            schema: jsonschema.Draft202012Validator(
                {"$ref": f"#/components/schemas/{schema}", "components": components}
            )
            for schema in components["schemas"]
        }
        for schema in components["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)
        keys = KEYS if asked.model.decision == "hashed" else None
        validators["Request"].validate({"people": in_full(asked.features, keys, asked.groups)})
        posts = {path: entry["post"] for path, entry in document["paths"].items() if "post" in entry}
        assert list(posts) == (["/predict", "/explain"] if hasattr(asked.model, "rule_") else ["/predict"])
        for path, post in posts.items():
            example = post["requestBody"]["content"]["application/json"]["example"]
            validators["Request"].validate(example)
            for body in (example, example["people"][0]):
                status, content = service.ask(path, body)
                assert status == 200 and (content["notes"] == [] or path == "/explain"), content
                result = post["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
                validators[result].validate(content)
        validators["Health"].validate(service.ask("/health")[1])
        validators["Error"].validate(service.ask("/predict", {})[1])
        assert not any(validators["Request"].is_valid(nobody) for nobody in ({}, [], 7, None))


def test_a_request_of_the_description_fits_where_one_person_is_the_most():
    with serving(case("blind").model, max_people=1) as service:
        post = service.ask("/openapi.json")[1]["paths"]["/predict"]["post"]
        status, content = service.ask("/predict", post["requestBody"]["content"]["application/json"]["example"])
        assert status == 200, content


def test_the_command_on_the_page_is_a_request_that_works():
    names = ["it's", '"quoted"', "<i>", "$HOME"]
    asked = table_case(OptFairPost(**FAST), **{name: ([0.0, 1.0] * (N // 2), [0.0, 1.0] * 12) for name in names})
    with serving(asked.model) as service:
        page = service.fetch("/")[2].decode()
        words = shlex.split(html.unescape(re.search(r'id="command">(.*?)</pre>', page)[1]))
        assert words[0] == "curl" and words[-1].endswith("/predict")
        body = words[words.index("-d") + 1]
        assert {*names} < {*json.loads(body)["features"]}
        assert service.ask("/predict", body.encode(), dict([words[words.index("-H") + 1].split(": ")]))[0] == 200
        assert "<i>" not in page


# -- paths -----------------------------------------------------------------------------------------------------
def test_paths_and_methods_that_are_not_there(blind):
    paths = "GET /, POST /predict, POST /explain, GET /health, GET /metrics, GET /openapi.json"
    for path in ("/nothing", "/predict/", "/PREDICT", "//health", "/health%00", "/../predict"):
        assert blind.ask(path) == (404, {"error": f"there is no such path; there are {paths}."})
    for path, method, allowed in (
        ("/predict", "GET", "POST"),
        ("/predict", "HEAD", "POST"),
        ("/explain", "DELETE", "POST"),
        ("/health", "POST", "GET, HEAD"),
        ("/", "OPTIONS", "GET, HEAD"),
    ):
        status, headers, body = blind.fetch(path, method=method)
        assert (status, headers["allow"]) == (405, allowed)
        error = f"{path}: takes {allowed.split(',')[0]} only."
        assert body == b"" if method == "HEAD" else json.loads(body) == {"error": error}


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/openapi.json", "/predict", "/nothing"])
def test_answers_are_for_this_site_and_not_kept(blind, path):
    body = ROW if path == "/predict" else None
    _, headers, _ = blind.fetch(path, body)
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer" and headers["cross-origin-resource-policy"] == "same-origin"
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'" and "unsafe" not in str(policy)
    assert "server" not in headers and "access-control-allow-origin" not in headers


def test_head_is_get_without_a_body(blind):
    for path in ("/", "/health", "/openapi.json"):
        status, headers, body = blind.fetch(path)
        head_status, head_headers, nothing = blind.fetch(path, method="HEAD")
        assert (head_status, nothing) == (status, b"") and int(headers["content-length"]) == len(body)
        assert headers | {"date": ""} == head_headers | {"date": ""}


def test_a_service_without_reasons():
    with serving(case("array").model, explains=False) as service:
        assert service.ask("/explain", FINE)[0] == 404 and service.ask("/predict", FINE)[0] == 200
        assert list(service.ask("/openapi.json")[1]["paths"]) == ["/predict", "/health", "/metrics"]
        assert "explain" not in service.fetch("/")[2].decode()
