"""List what a reader of a report should know: findings with stable codes, which docs/guide/findings.md explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

PAGE = "docs/guide/findings.md"  # a paragraph per code, with an anchor of its name
SEVERITIES = ("problem", "caution", "note")
CODES = {
    "OF001": "problem",
    "OF002": "caution",
    "OF003": "caution",
    "OF004": "caution",
    "OF005": "note",
    "OF006": "problem",
    "OF007": "caution",
    "OF008": "caution",
    "OF009": "note",
    "OF010": "caution",
    "OF011": "note",
    "OF012": "caution",
    "OF013": "caution",
    "OF014": "note",
    "OF015": "note",
    "OF016": "caution",
    "OF017": "caution",
    "OF018": "note",
    "OF019": "caution",
    "OF020": "caution",
    "OF021": "caution",
}


@dataclass(frozen=True)
class Finding:
    """A statement about a report that people and programs can refer to.

    Attributes
    ----------
    code : str
        Stable, such as "OF012".
    severity : {"problem", "caution", "note"}
        How much it matters.
    sentence : str
        What was found, with its numbers.
    numbers : dict
        The same numbers, for programs.
    anchor : str
        Where the code is explained.

    Examples
    --------
    >>> from optfair import audit
    >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70, tolerance=0.1)
    >>> [finding.code for finding in report.findings]
    ['OF002', 'OF010', 'OF012', 'OF009']
    """

    code: str
    severity: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    anchor: str = ""


def finding(code: str, sentence: str, **numbers: Any) -> Finding:
    """Make a finding of a code."""
    return Finding(code, CODES[code], sentence, numbers, f"{PAGE}#{code.lower()}")


def finding_document(item: Finding) -> dict[str, Any]:
    """Return a finding as JSON can hold it."""
    return {**asdict(item), "numbers": dict(item.numbers)}
