"""Check that every code of a finding is explained, and that codes are found where they should be."""

import re
from pathlib import Path

from optfair.reporting.findings import CODES, SEVERITIES
from tests.reporting.helpers import report_of

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "findings.md").read_text(encoding="utf-8")


def test_every_code_has_a_paragraph_and_its_severity():
    assert re.findall(r"^## (OF\d{3})$", PAGE, flags=re.M) == list(CODES)
    table = dict(re.findall(r"^\| \[(OF\d{3})\]\(#of\d{3}\) \| (\w+) \|", PAGE, flags=re.M))
    assert table == CODES and set(table.values()) <= set(SEVERITIES)


def test_findings_lead_to_their_paragraph_problems_first():
    findings = report_of("eo", tolerance=0.001).findings
    assert findings
    for finding in findings:
        assert finding.anchor == f"docs/guide/findings.md#{finding.code.lower()}"
        assert finding.severity == CODES[finding.code]
    order = [SEVERITIES.index(finding.severity) for finding in findings]
    assert order == sorted(order)


def test_a_tolerance_that_chance_exceeds():
    codes = [finding.code for finding in report_of("dp", tolerance=0.001, n=300).findings]
    assert "OF010" in codes and "OF012" in codes
    assert not {"OF010", "OF012"} & {finding.code for finding in report_of("dp", tolerance=0.5).findings}
