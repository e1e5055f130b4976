"""Make up people whom a model can answer: for examples, and to test a service that is running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optfair.inputs.feature_schema import BOOLEAN, INTEGER, NUMBER, TEXT, Feature
from optfair.inputs.score_columns import ScoreColumns
from optfair.serving.envelopes import FEATURES, GROUP, KEY, PEOPLE
from optfair.serving.groups import group_value, label_parts
from optfair.serving.people import PeopleReader

SHOWN_PEOPLE = 2
UNKNOWN_RANGE = (0.0, 1.0)  # of columns too short for a range that tells nothing of single people


class ExamplePeople:
    """People of nobody, as a request holds them: spread over the range of each column, each from another end."""

    def __init__(self, model: Any, reader: PeopleReader) -> None:
        self.reader = reader
        inner = getattr(getattr(getattr(model, "posterior_model_", None), "classes", None), "model", None)
        # Columns of probabilities, which must sum to one.
        self._scores = list(inner.columns) if isinstance(inner, ScoreColumns) else []

    def body(self) -> dict[str, Any]:
        """Return a request that works."""
        return {PEOPLE: self.people(min(SHOWN_PEOPLE, self.reader.max_people))}

    def people(self, n: int) -> list[dict[str, Any]]:
        """Return n people."""
        return [self._person(k, n) for k in range(n)]

    def _person(self, k: int, n: int) -> dict[str, Any]:
        rows, groups = self.reader.rows, self.reader.groups
        label = groups.labels[k % len(groups.labels)]
        given: dict[Any, Any] = dict.fromkeys(self._scores, 1 / max(len(self._scores), 1))
        given |= {
            part.name or part.position: value
            for part, value in zip(rows.group_fields, label_parts(label), strict=False)
        }
        values = [
            given.get(part.name or part.position, example_value(part.feature, (k + place) % n, n))
            for place, part in enumerate(rows.read_fields)
        ]
        names = [str(part.name) for part in rows.read_fields]
        person: dict[str, Any] = {FEATURES: dict(zip(names, values, strict=True)) if rows.names else values}
        if self.reader.decision == "hashed":
            person[KEY] = f"person-{k + 1}"
        if groups.is_told:
            person[GROUP] = group_value(label, groups.attributes)
        return person


def example_value(feature: Feature, step: int, n: int) -> Any:
    """Return value number ``step`` of ``n`` of a column."""
    if feature.kind == BOOLEAN:
        return step % 2 == 1
    if feature.kind in (INTEGER, NUMBER):
        low, high = UNKNOWN_RANGE if feature.low is None or feature.high is None else (feature.low, feature.high)
        value = low + (high - low) * step / max(n - 1, 1)
        return round(value) if feature.kind == INTEGER else float(f"{value:.3g}")
    levels: Sequence[str | None] = feature.levels or (("text",) if feature.kind == TEXT else (None,))
    return levels[step % len(levels)]
