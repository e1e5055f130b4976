"""Check the tables of a regulator: rates and ratios by counting, whom they are compared with, what is marked."""

import re

import numpy as np
import pandas as pd
import pytest

from optfair import Ratio, audit
from optfair.metrics.counts import count_rows
from optfair.reporting.impact import impact_tables
from optfair.reporting.wording import Mask


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 3000
    table = pd.DataFrame(
        {"sex": rng.choice(["f", "m"], n), "area": rng.choice(["n", "s", "w"], n, p=[0.7, 0.29, 0.01])}
    )
    rate = 0.5 - 0.25 * (table["sex"] == "f") + 0.1 * (table["area"] == "n")
    return table.assign(answer=np.where(rng.random(n) < rate, "hired", "no"))


def tables_of(people, **options):
    report = audit(None, people["answer"], sensitive_features=people[["sex", "area"]], **options)
    return report, {table["family"]: table["rows"] for table in report.to_dict()["impact"]}


def test_rates_and_ratios_are_those_of_counting(people):
    report, tables = tables_of(people, favourable=["hired"])
    assert list(tables) == ["sex × area", "sex", "area"]
    names = {"sex × area": ["sex", "area"], "sex": ["sex"], "area": ["area"]}
    for family, rows in tables.items():
        hired = (people["answer"] == "hired").groupby([people[name] for name in names[family]])
        rates, sizes = hired.mean(), hired.size()
        shown = [row for row in rows if not isinstance(row["people"], str)]
        large = sizes >= 10
        assert sorted(row["value"] for row in shown) == pytest.approx(sorted(rates[large]), abs=1e-5)
        top = rates[large].max()
        for row in shown:
            if not row["is_reference"]:
                assert row["ratio"] == pytest.approx(row["value"] / top, abs=1e-4)
                assert row["below"] == (row["value"] / top < 0.8)
                assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"] and row["test"] == "Fisher"
            assert row["is_small"] == (row["people"] < 0.02 * len(people))
        assert [row["value"] for row in shown if row["is_reference"]] == pytest.approx([top], abs=1e-5)
    assert "OF017" in {finding.code for finding in report.findings}
    assert "never" not in report.markdown() and "passed" not in report.markdown().lower()


def test_they_are_there_where_a_favourable_answer_is_named(people):
    assert tables_of(people)[1] == {}
    assert tables_of(people, criterion=Ratio("dp", 0.8, outcomes=["hired"]))[1]
    assert tables_of(people, criterion="dp", outcomes=["hired"])[1]
    with pytest.raises(ValueError, match=r"^favourable=\['promoted'\]: 'promoted' is not a class"):
        tables_of(people, favourable=["promoted"])


def test_weighted_people_are_tested_by_the_score_test(people):
    weight = np.random.default_rng(1).uniform(0.5, 2, len(people))
    _, tables = tables_of(people, favourable=["hired"], sample_weight=weight)
    tests = {row["test"] for rows in tables.values() for row in rows}
    assert tests == {"score", None}


def test_intervals_of_ratio_constraints_agree_with_their_state(people):
    report, _ = tables_of(people, criterion=Ratio("dp", 0.8, outcomes=["hired"]))
    table = report.constraints
    assert {"beyond", "unknown"} <= set(table["state"])
    beyond = table["ratio_high"] < 0.8
    assert ((table["state"] == "beyond") == beyond).all()
    assert (table["ratio"].between(table["ratio_low"], table["ratio_high"]) | table["ratio"].isna()).all()


def test_a_group_of_a_few_is_neither_shown_nor_compared_with(people):
    few = pd.concat([people, pd.DataFrame({"sex": ["x"] * 5, "area": ["n"] * 5, "answer": ["hired"] * 5})])
    _, tables = tables_of(few.reset_index(drop=True), favourable=["hired"])
    (row,) = [row for row in tables["sex"] if row["group"] == "sex: x"]
    assert row["people"] == "< 10" and row["value"] is None and row["ratio"] is None and not row["is_reference"]


def test_in_fair_audits_hardly_any_p_value_that_allows_for_all_pairs_is_small():
    rng, n_audits, n, beyond, alone = np.random.default_rng(5), 250, 900, 0, 0
    places = ["n", "s", "e", "w", "c", "i"]
    for _ in range(n_audits):
        groups = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "area": rng.choice(places, n)})
        answer = np.where(rng.random(n) < 0.52, "yes", "no")
        tables = impact_tables(count_rows(None, answer, groups), ["yes"], 0.95, Mask(10))
        rows = [row for table in tables for row in table["rows"] if row["p_value"] is not None]
        assert len(rows) == 11 + 1 + 5 and all(row["p_all"] >= row["p_value"] for row in rows)
        beyond += any(row["p_all"] < 0.05 for row in rows)  # in any of three tables
        alone += any(row["p_value"] < 0.05 for row in rows)
    assert beyond / n_audits <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_audits)
    assert alone / n_audits > 0.5  # what the finding must not count


def test_the_finding_counts_only_what_all_pairs_leave(people):
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    fair = np.where(np.random.default_rng(3).random(len(people)) < 0.05, "hired", "no")
    report, tables = tables_of(people.assign(answer=fair), favourable=["hired"])
    rows = [row for table in tables.values() for row in table if row["below"]]
    assert any(row["p_value"] < 0.3 for row in rows) and all(row["p_all"] >= 0.05 for row in rows)
    (finding,) = [finding for finding in report.findings if finding.code == "OF017"]
    assert finding.numbers["significant"] == 0
    assert "none of them is unlike 1 by more than chance (p below 0.05)" in finding.sentence
    sure, tables = tables_of(people, favourable=["hired"])
    (finding,) = [finding for finding in sure.findings if finding.code == "OF017"]
    n_sure = sum(bool(row["below"]) and row["p_all"] < 0.05 for rows in tables.values() for row in rows)
    assert finding.numbers["significant"] == n_sure > 1 and f"{n_sure} of them are unlike 1" in finding.sentence
    assert "p, all pairs" in str(sure) and "by itself" in sure.markdown()
    marks = re.findall(r'<td class="m[^>]*>([^\n]*)', sure.html().partition('id="impact"')[2])
    assert max(map(len, marks)) <= len("highest, &lt; ⅘, &lt; 2 %</tr>")  # a line of a phone, that does not wrap


def test_those_without_a_group_are_counted_and_compared_with_nobody(people):
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    table = people.assign(area=people["area"].mask(np.arange(len(people)) < 40))
    table.loc[:39, "answer"] = "hired"  # the highest rate
    report, tables = tables_of(table, favourable=["hired"], missing="group")
    for rows in tables.values():
        (top,) = [row["group"] for row in rows if row["is_reference"]]
        assert "(missing)" not in top
    assert any("(missing)" in row["group"] and row["ratio"] > 1 for row in tables["area"])
    assert report.to_dict()["without_group"] == 40 and "group is not known: 40." in report.html()
    left_out, _ = tables_of(table, favourable=["hired"], missing="drop")
    unknown, _ = tables_of(table, favourable=["hired"], missing="infer")
    assert left_out.to_dict()["without_group"] == unknown.to_dict()["without_group"] == 40
