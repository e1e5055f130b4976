"""Check what a report says of its own scope: whom it compares, what its limits are for, what was promised before."""

import copy

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from optfair import Constraint, Ratio, audit
from optfair.metrics.counts import count_codes
from optfair.reporting.measuring import make_report
from optfair.reporting.table_words import LIMITS_NOTE
from optfair.reporting.text import plain_text
from optfair.rule.promise import held_out_promise
from tests.reporting.helpers import CLASSES, people, report_of
from tests.reporting.test_estimates import world


def lines_of(report):
    """Return the sentences of the summary by their labels, of equal ones the first."""
    return {line["label"]: line["sentence"] for line in reversed(report.to_dict()["summary"])}


def crossed(n=3000, **options):
    """Return the audit of two attributes, three areas and two sexes."""
    group, y, before, after = people(n)
    features = pd.DataFrame({"area": group, "sex": np.where(np.arange(n) % 3 == 0, "f", "m")})
    return audit(y, after, before=before, sensitive_features=features, tolerance=0.1, **options)


# -- whom ----------------------------------------------------------------------------------------------------------
def test_everybody_is_those_of_the_true_class():
    pytest.importorskip("jinja2", reason="pages need it")
    _, y, *_ = people()
    report = report_of("eop")
    n_people = [int((y == name).sum()) for name in CLASSES]
    views, markdown, page = report.to_dict()["rates"], report.markdown(), report.html()
    assert sorted(view["people_overall"] for view in views) == sorted(n_people)
    for n in n_people:
        assert f"| everybody | {n} |" in markdown and f"<th>everybody<td>{n}<td>" in page
    assert {view["people_overall"] for view in report_of("dp").to_dict()["rates"]} == {len(y)}


@pytest.mark.parametrize(
    ("attributes", "part", "names", "first"),
    [
        ("marginals", {"groups": 5, "families": [1, 2]}, "5 groups compared (area, sex)", 1),
        ("intersections", {"groups": 6, "families": [0]}, "in 6 groups", 0),
        ("both", {"groups": 11, "families": [0, 1, 2]}, "11 groups compared (area × sex, area, sex)", 0),
        ("sex", {"groups": 2, "families": [2]}, "2 groups compared (sex)", 2),
    ],
)
def test_the_groups_that_are_compared_are_named_and_come_first(attributes, part, names, first):
    pytest.importorskip("jinja2", reason="pages need it")
    report = crossed(attributes=attributes)
    document, page = report.to_dict(), report.html()
    assert document["compared"] == part and names in document["subtitle"] and names in page.partition("</ul>")[0]
    assert f'name="family" value="{first}" checked' in page and page.count('name="family"') == 3
    rest = [name for k, name in enumerate(document["families"]) if k not in part["families"]]
    note = f"since nothing was asked for them: groups of {', '.join(rest)}."
    for text in (page, report.markdown()):
        assert (note in text) == bool(rest)


def test_favourable_answers_that_nobody_named_are_called_so():
    pytest.importorskip("jinja2", reason="pages need it")
    criterion = Constraint("dp", 0.1, outcomes=["high", "mid"])
    note = "“high” and “mid” are taken as favourable because the criterion names them; set favourable= if they are not."
    group, y, before, after = people()
    groups = {"sensitive_features": group, "before": before}
    taken = audit(y, after, criterion=criterion, **groups)
    named = audit(y, after, criterion=criterion, favourable=["high"], **groups)
    assert lines_of(taken)["Favourable"] == note and note in " ".join(str(taken).split())
    for report, is_told in ((taken, True), (named, False), (report_of("dp"), False)):
        assert all((note in text) == is_told for text in (report.markdown(), report.html()))
    single = audit(y, after, criterion=Ratio("dp", 0.8, outcomes=["high"]), **groups)
    assert lines_of(single)["Favourable"].startswith("“high” is taken as favourable because the criterion names it;")


# -- limits --------------------------------------------------------------------------------------------------------
def test_the_cost_has_an_interval_of_its_own():
    """That of Bonett and Price for paired shares, at the level of the report, not of all lines of a table."""
    _, y, before, after = people()
    report, n = report_of("dp"), len(y)
    gained, lost = (((before != y) & (after == y)).sum() + 1, ((before == y) & (after != y)).sum() + 1)
    plus, minus = gained / (n + 2), lost / (n + 2)
    reach = stats.norm.isf(0.025) * np.sqrt((plus + minus - (plus - minus) ** 2) / (n + 2))
    change = report.to_dict()["accuracy_change"]
    expected = [(after == y).mean() - (before == y).mean(), plus - minus - reach, plus - minus + reach]
    np.testing.assert_allclose(change, expected, atol=1e-5)
    assert "with 95 % confidence, for this number alone)" in lines_of(report)["Cost"]
    total = [line for line in report.to_dict()["quality"] if (line["group"], line["class"]) == ("everybody", None)]
    assert total[0]["change"][1] < change[1] < change[2] < total[0]["change"][2]
    group, *_ = people()
    assert audit(y, after, sensitive_features=group).to_dict()["accuracy_change"] is None


def test_what_the_two_limits_are_for_is_said():
    pytest.importorskip("jinja2", reason="pages need it")
    report = report_of("dp")
    assert LIMITS_NOTE in " ".join(str(report).split())
    assert LIMITS_NOTE in report.markdown() and LIMITS_NOTE in report.html() and "| at most |" in report.markdown()
    assert "and on this limit the verdict “within” rests" in lines_of(report)["After"]
    assert LIMITS_NOTE not in report_of(Ratio("dp", 0.8), tolerance=None).markdown()
    fitted, _ = world(False, [Constraint("dp", 0.1)])
    assert LIMITS_NOTE not in fitted.markdown() + " ".join(str(fitted).split())


# -- a promise -----------------------------------------------------------------------------------------------------
def test_a_promise_stands_beside_a_verdict_that_cannot_tell():
    constraints = [Constraint("dp", 0.2)]

    def counts(n, gap=0.0):
        group, y, *_ = people(n)
        answer = np.where(np.random.default_rng(1).random(n) < 0.5 + gap * (group == "A"), "low", "high")
        codes = (np.unique(values, return_inverse=True)[1] for values in (group, y))
        names = (pd.Index(["A", "B", "C"]), pd.Index(sorted(CLASSES)))
        return count_codes(*codes, names[1].get_indexer(answer), None, *names)

    promise = held_out_promise(counts(6000), constraints, 0.95, "")
    assert promise.kept
    sentence = (
        "When it was fitted it was promised, with 95 % confidence, that every gap is within 20 percentage points;"
    )
    for n, gap, value, ending in (
        (60, 0.15, "unknown", "60 people are too few to confirm it by themselves."),
        (4000, 0.31, "unknown", "4,000 people cannot confirm it by themselves."),
        (4000, 0.0, "within", None),
        (4000, 0.5, "beyond", None),
    ):
        report = make_report("title", constraints, {"fair rule": counts(n, gap)}, promise=promise)
        assert report.verdict.value == value and report.verdict.sentence == report.to_dict()["verdict"]["sentence"]
        assert report.verdict.sentence.endswith(f"{sentence} these {ending}") == (ending is not None)
        bare = make_report("title", constraints, {"fair rule": counts(n, gap)})
        assert "promised" not in bare.verdict.sentence


def test_bounds_that_were_tightened_for_a_promise_are_called_so():
    document = copy.deepcopy(world(False, [Constraint("dp", 0.1)])[0].to_dict())
    document["determinism"]["excess_argmax"] = 0.0011
    assert "the likeliest answer for all is outside the bounds by 0.001100" in plain_text(document)
    document["promise"] = {"tightening": 2.0, "sentence": "Promised."}
    words = "the likeliest answer for all is outside the bounds that were tightened for the promise by 0.001100"
    assert words in plain_text(document)


# -- sentences -----------------------------------------------------------------------------------------------------
def test_falls_of_right_answers_name_whose_and_what():
    group, y, _, _ = people(4000)
    after = np.where((group == "A") & (y == "low"), "high", y)

    def sentence(answers, **options):
        report = audit(y, answers, before=y, sensitive_features=group, **options)
        return next(finding for finding in report.findings if finding.code == "OF008").sentence

    assert sentence(after).startswith("4 rates of right answers clearly fell. The largest fall: of “A” people whose ")
    assert sentence(after).endswith("whose true class is “low”, 0.0 % are recognised; before, 100.0 %.")
    single = audit(y[:900], after[:900], before=y[:900], sensitive_features=np.full(900, "A"), min_cell=1)
    (finding,) = [finding for finding in single.findings if finding.code == "OF008"]
    assert " are recognised; before, 100.0 %." in finding.sentence


def test_the_cell_that_needs_more_people_is_named():
    report = report_of("eop", n=300)
    (finding,) = [finding for finding in report.findings if finding.code == "OF002"]
    cell = report.to_dict()["small"][0]
    assert (
        f"in every compared cell, such as {cell['group']} with true class “{cell['given']}” (now {cell['people']}),"
        in (finding.sentence)
    )
    whole = next(finding for finding in report_of("dp", n=200).findings if finding.code == "OF002")
    assert "in every compared cell, such as " in whole.sentence and "true class" not in whole.sentence


def test_heads_of_answers_are_words():
    group, y, before, after = people()
    single, both = audit(y, after, sensitive_features=group), report_of("dp")
    assert "true class   get it  recognised" in str(single) and ", after" not in str(single)
    assert all(f"{word}, {role}" in str(both) for word in ("get it", "recognised") for role in ("before", "after"))
    assert "recognised" not in str(audit(None, after, before=before, sensitive_features=group))
