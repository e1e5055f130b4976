"""Describe a service as OpenAPI 3.1, by the columns, groups and classes of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optfair import __version__
from optfair.inputs.feature_schema import BOOLEAN, INTEGER, NUMBER, Feature
from optfair.serving.answering import ModelAnswers
from optfair.serving.counters import MEDIA_TYPE as METRICS_TYPE
from optfair.serving.descriptions import EXPLANATION, HEALTH, UNDECIDED
from optfair.serving.envelopes import FEATURES, GROUP, KEY, PEOPLE
from optfair.serving.examples import ExamplePeople
from optfair.serving.fields import CODES, NUMBERS, Field
from optfair.serving.groups import group_value
from optfair.serving.settings import MAX_EXPLAINED, ServiceSettings

JSON = "application/json"
SCALAR = ["string", "number", "boolean", "null"]
ERRORS = {
    "400": "The body is no JSON that all readers read alike.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "422": "A person cannot be answered; the message names the person, the field, the value and the rule.",
    "500": "Internal error.",
    "503": "Too many requests wait, or the model did not come to it in time.",
}
REQUEST_TEXT = (
    'One person, or `{"people": [...]}`. A person is `{"features": ..., "key": ..., "group": ...}`, where only the '
    "features must be there, or the features alone. Further fields are left out, with a note; one that looks like the "
    "misspelt name of an absent feature is an error. Null, NaN and an absent field all mean missing."
)
KEY_TEXT = (
    "Who the person is: text, a number, or a list of these. It fixes the random part of the answer, so that the same "
    'person gets the same answer always. A whole number is its digits: 7, 7.0 and the text "7" are one person. Without '
    "it, a person is their features."
)
TOLD_TEXT = "The group of the person, which the model is told."
COUNTED_TEXT = "The group of the person: for the counters of /metrics only. It changes no answer and is not kept."


class OpenApi:
    """What there is to say about a service."""

    def __init__(
        self, answers: ModelAnswers, examples: ExamplePeople, title: str, settings: ServiceSettings, explains: bool
    ) -> None:
        self.answers, self.examples, self.title, self.settings, self.explains = (
            answers,
            examples,
            title,
            settings,
            explains,
        )
        self.reader = answers.reader

    def document(self) -> dict[str, Any]:
        """Return the document."""
        paths: dict[str, Any] = {"/predict": {"post": self._post("Answer people.", "Answers")}}
        if self.explains:
            text = f"Say why people get their answers; at most {MAX_EXPLAINED} at a time."
            paths["/explain"] = {"post": self._post(text, "Explanations")}
        states = {
            "200": _response("It answers as at the start.", "Health"),
            "503": _response("It does not, or it is stopping: the status says which.", "Health"),
        }
        paths["/health"] = {"get": {"summary": "Ask the model about example people again.", "responses": states}}
        metrics = {
            "200": {"description": "Text for Prometheus.", "content": {METRICS_TYPE: {"schema": {"type": "string"}}}}
        }
        paths["/metrics"] = {"get": {"summary": "Count requests and answers.", "responses": metrics}}
        return {
            "openapi": "3.1.0",
            "info": {"title": self.title, "version": __version__, "description": "A model of optfair as a service."},
            "paths": paths,
            "components": {"schemas": self._schemas()},
        }

    def _post(self, summary: str, result: str) -> dict[str, Any]:
        content = {JSON: {"schema": {"$ref": "#/components/schemas/Request"}, "example": self.examples.body()}}
        errors = {status: _response(text, "Error") for status, text in ERRORS.items()}
        return {
            "summary": summary,
            "requestBody": {"required": True, "description": REQUEST_TEXT, "content": content},
            "responses": {"200": _response("One entry for each person, in order.", result), **errors},
        }

    # -- schemas -----------------------------------------------------------------------------------------------
    def _schemas(self) -> dict[str, Any]:
        people = {"type": "array", "items": {"$ref": "#/components/schemas/Person"}, "minItems": 1}
        several = _object({PEOPLE: {**people, "maxItems": self.settings.max_people}}, [PEOPLE])
        schemas = {
            "Request": {"anyOf": [several, {"$ref": "#/components/schemas/Person"}]},
            "Person": self._person_schema(),
            "Features": self._features_schema(),
            "Answers": self._answers_schema(),
            "Health": _health_schema(),
            "Error": _object({"error": {"type": "string"}}, ["error"]),
        }
        return schemas | ({"Explanations": _explanations_schema()} if self.explains else {})

    def _person_schema(self) -> dict[str, Any]:
        features = {"$ref": "#/components/schemas/Features"}
        members: dict[str, Any] = {FEATURES: features}
        if self.reader.decision == "hashed":
            part = {"type": ["string", "number"]}
            members[KEY] = {"anyOf": [part, {"type": "array", "items": part, "minItems": 1}], "description": KEY_TEXT}
        groups = self.reader.groups
        if groups.is_told or not groups.is_aware:
            members[GROUP] = self._group_schema()
        if groups.is_told and not groups.names_missing:
            return _object(members, [FEATURES, GROUP])
        return {"anyOf": [_object(members, [FEATURES]), features]}

    def _group_schema(self) -> dict[str, Any]:
        groups = self.reader.groups
        values = [group_value(label, groups.attributes) for label in groups.labels]
        if groups.is_told and not groups.takes_strangers and not groups.names_missing:
            return {"description": TOLD_TEXT, "enum": values}
        text = TOLD_TEXT if groups.is_told else COUNTED_TEXT
        return {"description": text, "type": [*SCALAR, "object"], "examples": values}

    def _features_schema(self) -> dict[str, Any]:
        fields = self.reader.rows.read_fields
        if not self.reader.rows.names:
            items = [_field_schema(part) for part in fields]
            n, longest = len(items), len(self.reader.rows.fields)
            size = {"minItems": n, "maxItems": longest}
            return {"type": "array", "prefixItems": items, **size} if n == longest else {"type": "array", **size}
        return {"type": "object", "minProperties": 1, "properties": {str(f.name): _field_schema(f) for f in fields}}

    def _answers_schema(self) -> dict[str, Any]:
        number = {"type": "number", "minimum": 0, "maximum": 1}
        names = self.answers.class_names
        answer = _object(
            {
                "answer": {"enum": self.answers.labels},
                "undecided": {"type": "boolean", "description": UNDECIDED},
                "probabilities": {
                    **_object(dict.fromkeys(names, number), names),
                    "description": "Of each class as the answer; near 0 or 1 for most people, and not P(Y | X).",
                },
            },
            ["answer", "undecided", "probabilities"],
        )
        return _object({"answers": {"type": "array", "items": answer}, "notes": _notes()}, ["answers", "notes"])


def field_text(part: Field) -> str:
    """Return what is known of a column, in a few words."""
    return ", ".join(filter(None, (field_kind(part), known_text(part))))


def known_text(part: Field) -> str:
    """Return what the values of a column were, in a few words."""
    feature, words = part.feature, []
    if feature.low is not None and feature.high is not None:
        words.append(f"mostly from {feature.low:g} to {feature.high:g}")
    if feature.levels:
        words.append(f"such as {', '.join(feature.levels)}")
    if feature.has_gaps:
        words.append("sometimes missing")
    return ", ".join(words)


def field_kind(part: Field) -> str:
    """Return what a column takes, in a word or two."""
    kinds = {INTEGER: "whole number", NUMBER: "number", BOOLEAN: "true or false"}
    if part.feature.kind == INTEGER and (part.feature.low, part.feature.high) == (0, 1):
        return "1 or 0, or true or false"
    return {NUMBERS: kinds.get(part.feature.kind, "number"), CODES: "code"}.get(part.takes, "text")


def _field_schema(part: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": field_text(part)}
    schema["type"] = ["number", "boolean", "null"] if part.takes == NUMBERS else SCALAR
    return schema | _examples(part.feature)


def _examples(feature: Feature) -> dict[str, Any]:
    if feature.levels:
        return {"examples": list(feature.levels)}
    return {} if feature.low is None or feature.high is None else {"examples": [feature.low, feature.high]}


def _explanations_schema() -> dict[str, Any]:
    person = {
        "type": "object",
        "properties": {name: {"description": text} for name, text in EXPLANATION.items()},
        "required": ["person", "answer", "sentences", "terms"],
    }
    return _object({"people": {"type": "array", "items": person}, "notes": _notes()}, ["people", "notes"])


def _health_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"description": text} for name, text in HEALTH.items()},
        "required": ["status"],
    }


def _notes() -> dict[str, Any]:
    text = "What the model had never seen, or does not read: a line each, for all people of the request."
    return {"type": "array", "items": {"type": "string"}, "description": text}


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _response(text: str, schema: str) -> dict[str, Any]:
    return {"description": text, "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}}
