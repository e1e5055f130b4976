"""Check what a report leads with: the clearest comparison, right answers beside the commonest class, who gets what."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from optfair import MinimumRate, OptFairPost, Ratio, audit, compare, metrics
from optfair.datasets import make_fair_classification
from optfair.reporting.markdown import escape
from optfair.reporting.measuring import PATH_REPLICATES, measure_rule
from optfair.reporting.table_words import gap_place
from optfair.reporting.verdict import verdict_value
from optfair.reporting.wording import points
from tests.reporting.helpers import CLASSES, people, report_of
from tests.threads import single_thread

CLOSE = {"abs": 1e-5}


def tiles(report):
    """Return the texts of the tiles of a page."""
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    (part,) = re.findall(r'<ul class="tiles">(.*?)</ul>', report.html(), flags=re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", " ", tile).split()) for tile in part.split("<li>")[1:]]


def lines_of(report):
    """Return the sentences of "In short" by their labels."""
    return {line["label"]: line["sentence"] for line in report.to_dict()["summary"]}


# -- the clearest and the largest ----------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def crowd():
    """Return group, answer: a gap of 9 points among many, one of 35 among 14 people, and six people hidden."""
    sizes, hits = {"A": 3000, "B": 3000, "C": 14, "D": 6}, {"A": 1770, "B": 1230, "C": 12, "D": 6}
    group = np.repeat(list(sizes), list(sizes.values()))
    answer = np.concatenate([np.where(np.arange(n) < hits[name], "yes", "no") for name, n in sizes.items()])
    return group, answer


def test_a_report_leads_with_the_clearest_gap_and_names_the_largest_beside_it(crowd):
    group, answer = crowd
    report = audit(None, answer, sensitive_features=group, tolerance=0.02, outcomes=["yes"])
    document = report.to_dict()
    lead, largest = (document["headlines"]["after"][name] for name in ("clearest", "largest"))
    assert lead["group"] in ("A", "B") and largest["group"] == "C"
    table = report.constraints.set_index("group")
    assert lead["low"] == pytest.approx(table.loc[lead["group"], "low"], **CLOSE)
    surplus = np.maximum(table["low"], -table["high"])
    assert surplus.idxmax() == lead["group"] == "B" and lead["rate"] == pytest.approx(0.41)
    sentence = lines_of(report)["Measured"]
    assert sentence.startswith("Of “B” people (3,000), 41.0 % get the answer “yes”, 9.1 percentage points less than of")
    assert sentence.index("“B”") < sentence.index("C, answer “yes”; 14 people") and "“C”" not in sentence
    (tile,) = [tile for tile in tiles(report) if "gap" in tile]
    assert tile.startswith("9.1 points clearest gap: B, answer “yes”. 2 allowed; 95 % interval −")


def test_the_tile_shows_the_clearest_gap_of_each_time():
    """Before, B gets fewer "yes"; after, as many, and fewer "no": another gap is the clearest."""
    group = np.repeat(["A", "B"], 3000)
    share = np.arange(3000) / 3000

    def answers(*ends):
        """Return the answers of A and of B; ends : of "yes" and of "no" in each."""
        return np.concatenate([np.select([share < yes, share < no], ["yes", "no"], "wait") for yes, no in ends])

    before, after = answers((0.6, 0.8), (0.4, 0.7)), answers((0.5, 0.8), (0.5, 0.7))
    report = audit(None, after, before=before, sensitive_features=group)
    lines = report.to_dict()["headlines"]
    assert (lines["before"]["clearest"]["outcome"], lines["after"]["clearest"]["outcome"]) == ("yes", "no")
    (tile,) = [tile for tile in tiles(report) if "gap" in tile]
    assert tile.startswith("10.0 → 5.0 points clearest gap, before: ") and "“yes”; after: " in tile and "“no”" in tile


def test_hidden_groups_are_in_no_number_and_everywhere_alike(crowd):
    """The largest gap and its limits are those of the groups that are shown, in the tile, the text and the tables."""
    group, answer = crowd
    report = audit(None, answer, sensitive_features=group, tolerance=0.02, outcomes=["yes"])
    (line,) = report.to_dict()["performance"]
    rates = metrics.group_rates(None, answer, sensitive_features=group)
    rates = rates[rates["outcome"] == "yes"].set_index("group")["value"]
    gaps = (rates.drop("overall") - rates["overall"]).abs()
    assert gaps.idxmax() == "D" and line["violation"] == pytest.approx(gaps.drop("D").max(), **CLOSE)
    assert line["hidden"] == 1
    shown = report.constraints.set_index("group").drop("D")
    assert line["lower"] == pytest.approx(np.maximum(shown["low"], -shown["high"]).clip(lower=0).max(), **CLOSE)
    assert line["bound"] == pytest.approx(np.maximum(shown["most"], -shown["least"]).max(), **CLOSE)
    interval = metrics.violation_interval(None, answer, sensitive_features=group, outcomes=["yes"])
    assert line["noise_floor"] < interval.noise_floor  # which six people set
    for text, digits in ((str(report), 2), (report.markdown(), 1)):
        assert f"{100 * line['violation']:.{digits}f}" in text and "Groups of fewer than 10 people" in text
    assert not any("–" in tile for tile in tiles(report))
    texts = report.html() + str(report) + report.markdown()
    assert points(gaps["D"]) not in texts and points(gaps["C"]) in texts


def test_no_tile_is_a_dash_where_all_groups_are_hidden():
    group, y, _, after = people(40)
    report = audit(y, after, sensitive_features=group, tolerance=0.1, min_cell=30)
    assert report.to_dict()["headlines"]["after"] == {"clearest": None, "largest": None}
    assert not any("–" in tile or "gap" in tile for tile in tiles(report))


def test_gaps_that_could_be_chance_are_said_to_be():
    group, y, _, after = people(300, seed=1)
    report = audit(y, after, sensitive_features=group, tolerance=0.3)
    table = report.constraints
    assert ((table["low"] < 0) & (table["high"] > 0)).all()
    document = report.to_dict()
    assert document["headlines"]["after"]["clearest"] is None
    largest = document["headlines"]["after"]["largest"]
    assert abs(largest["value"]) == pytest.approx(table["value"].abs().max(), **CLOSE)
    assert "could be chance, as could all others" in lines_of(report)["Measured"]
    assert any(tile.startswith(f"{100 * abs(largest['value']):.1f} points largest gap") for tile in tiles(report))


def test_the_same_comparison_before_and_after(crowd):
    group, answer = crowd
    before = np.where((group == "B") & (np.arange(len(group)) % 10 == 0), "no", answer)
    report = audit(None, answer, before=before, sensitive_features=group, tolerance=0.02, outcomes=["yes"])
    lead = report.to_dict()["headlines"]["before"]["clearest"]
    for role, answers in (("before", before), ("after", answer)):
        rate, overall = np.mean(answers[group == lead["group"]] == "yes"), np.mean(answers == "yes")
        assert lead["rules"][role]["rate"] == pytest.approx(rate, **CLOSE)
        assert lead["rules"][role]["value"] == pytest.approx(rate - overall, **CLOSE)
    sentence = lines_of(report)["Before"]
    assert " got the answer “yes”, " in sentence
    assert f"Now it is {100 * lead['rules']['after']['rate']:.1f} %" in sentence


def test_a_ratio_audit_speaks_of_ratios(crowd):
    group, answer = crowd
    report = audit(None, answer, sensitive_features=group, criterion=Ratio("dp", 0.8, outcomes=["yes"]))
    sentence = lines_of(report)["Measured"]
    assert sentence.startswith(
        "Of “B” people (3,000), 41.0 % get the answer “yes”: 0.69 times the share of “A” people (3,000), which is "
        "59.0 %; at least 0.80 times is asked for."
    )
    assert "0.48 (B against C, answer “yes”; 3,000 and 14 people)" in sentence and "point" not in sentence
    lead = report.to_dict()["headlines"]["after"]["clearest"]
    assert lead["ratio"] == pytest.approx(0.41 / 0.59, **CLOSE)
    assert any(tile.startswith("0.69 times clearest ratio: B against A") for tile in tiles(report))
    assert not any("dp ratio" in line["sentence"] for line in report.to_dict()["summary"])


def test_a_least_rate_leads_with_the_rate(crowd):
    group, answer = crowd
    report = audit(None, answer, sensitive_features=group, criterion=MinimumRate("selection", 0.5, outcomes=["yes"]))
    assert lines_of(report)["Measured"].startswith(
        "Of “B” people (3,000), 41.0 % get the answer “yes”; at least 50.0 % is asked for."
    )


def test_intervals_of_sentences_have_their_confidence_and_are_those_of_the_table(crowd):
    group, answer = crowd
    report = audit(None, answer, sensitive_features=group, tolerance=0.02, outcomes=["yes"], level=0.9)
    (line,), sentence = report.to_dict()["performance"], lines_of(report)["Measured"]
    lower, upper, bound = (f"{100 * line[name]:.1f}" for name in ("lower", "upper", "bound"))
    assert f"is between {lower} and {upper} by the same intervals; asked alone how large it can be, " in sentence
    assert f"it is at most {bound}, and on this limit the verdict" in sentence and "with 90 % confidence" in sentence


# -- one number, one text ------------------------------------------------------------------------------------------
def test_differences_and_ratios_of_a_page_are_those_of_its_tables():
    group, _, _, after = people(977)
    document = audit(None, after, sensitive_features=group, tolerance=0.1, favourable=list(CLASSES)).to_dict()
    gaps = {(line["group"], line["outcome"]): line["value"] for line in document["gaps"]}
    ratios = {(row["group"], part["outcome"]): row["ratio"] for part in document["impact"] for row in part["rows"]}
    for view in document["rates"]:
        for k, name in enumerate(view["groups"]):
            assert view["after"]["difference"][k] == gaps[name, view["outcome"]]
            assert view["after"]["ratio"][k] == ratios[name, view["outcome"]]


# -- right answers -------------------------------------------------------------------------------------------------
def rare(n=3000, seed=0):
    """Return group, true class, answer: of 12 % whose class is "rare" hardly anybody gets it."""
    rng = np.random.default_rng(seed)
    group, y = rng.choice(["A", "B"], n), rng.choice(["none", "some", "rare"], n, p=[0.55, 0.33, 0.12])
    answer = np.where(rng.random(n) < 0.7, y, rng.choice(["none", "some"], n))
    hidden = (answer == "rare") & (np.arange(n) % 40 > 0)
    return group, y, np.where(hidden, "none", answer)


def test_a_class_that_is_hardly_ever_answered_is_a_finding():
    group, y, after = rare()
    before = np.where(np.arange(len(y)) % 200 == 0, "rare", after)
    for options in ({}, {"before": before}):
        report = audit(y, after, sensitive_features=group, tolerance=0.3, **options)
        (finding,) = [finding for finding in report.findings if finding.code == "OF020"]
        recall = np.mean(after[y == "rare"] == "rare")
        assert finding.numbers["class"] == "rare" and finding.numbers["recall"] == pytest.approx(recall, **CLOSE)
        assert f"{100 * recall:.1f} % of them get it" in finding.sentence and 0 < recall < 0.1
        assert f"they are {100 * np.mean(y == 'rare'):.1f} % of people" in finding.sentence
        assert ("before)" in finding.sentence) == bool(options)
    report = compare({"bad": after, "good": y}, y, sensitive_features=group, tolerance=0.3)
    (finding,) = [finding for finding in report.findings if finding.code == "OF020"]
    assert finding.numbers["rule"] == "bad" and "“bad”" in finding.sentence
    few = np.flatnonzero(y == "rare")[:25]  # of so few nobody can be sure
    keep = np.union1d(few, np.flatnonzero(y != "rare")[:800])
    report = audit(y[keep], after[keep], sensitive_features=group[keep], tolerance=0.3)
    assert "OF020" not in {finding.code for finding in report.findings}
    assert "OF020" not in {finding.code for finding in audit(y, y, sensitive_features=group).findings}


def test_a_class_that_nobody_gets_has_one_finding_and_not_two():
    group, y, after = rare()
    after = np.where(after == "rare", "none", after)
    codes = [finding.code for finding in audit(y, after, sensitive_features=group, tolerance=0.3).findings]
    assert "OF007" in codes and "OF020" not in codes


@pytest.mark.parametrize("weighted", [False, True])
def test_the_commonest_class_is_beside_the_accuracy_in_every_form(weighted):
    group, y, after = rare()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighted else None
    report = audit(y, after, sensitive_features=group, tolerance=0.3, sample_weight=weight)
    share = np.average(y == "none", weights=weight)
    assert report.to_dict()["commonest"] == {"class": "none", "share": pytest.approx(share, **CLOSE)}
    sentence = f"“none” for everybody would be right for {100 * share:.1f} %"
    assert sentence in lines_of(report)["Right answers"] and sentence in report.markdown()
    assert any(sentence in tile for tile in tiles(report))
    assert f"“none” for everybody would be right for {100 * round(share, 5):.2f} %." in " ".join(str(report).split())
    assert audit(None, after, sensitive_features=group).to_dict()["commonest"] is None


# -- who gets favourable answers -----------------------------------------------------------------------------------
def test_who_gets_a_favourable_answer_and_who_is_denied_it_is_counted():
    group, y, before, after = people()
    options = {"before": before, "sensitive_features": group, "favourable": ["high"]}
    document = audit(y, after, **options).to_dict()
    assert {line["rate"] for line in document["favourable"]} == {"given", "denied wrongly", "denied rightly"}
    for line in document["favourable"]:
        chosen = np.ones(len(y), bool) if line["group"] == "everybody" else group == line["group"]
        if line["rate"] != "given":
            chosen &= (y == "high") == (line["rate"] == "denied wrongly")
        assert line["people"] == chosen.sum()
        rates = [np.mean((answers[chosen] == "high") == (line["rate"] == "given")) for answers in (before, after)]
        assert [line["before"][0], line["after"][0]] == pytest.approx(rates, **CLOSE)
        assert line["change"][0] == pytest.approx(rates[1] - rates[0], **CLOSE)
    assert "favourable" not in "".join(lines_of(report_of("dp")))
    assert audit(None, after, sensitive_features=group, favourable=["high"]).to_dict()["favourable"] == []


def test_gain_and_loss_are_of_favourable_answers_only():
    pytest.importorskip("jinja2", reason="pages need it")
    group, y, before, _ = people(4000)
    after = np.where((group == "A") & (before == "low"), "high", before)
    named = audit(y, after, before=before, sensitive_features=group, favourable=["high"])
    plain = audit(y, after, before=before, sensitive_features=group)
    sentence = lines_of(named)["Favourable"]
    more, less = (part.partition(".")[0] for part in sentence.split("Clearly ")[1:])
    assert more.startswith("more often: “A” (") and "“B”" not in more and less == "less often: no group"
    assert "Favourable" not in lines_of(plain)
    for report in (named, plain):
        (finding,) = [finding for finding in report.findings if finding.code == "OF008"]
        start = f"{finding.numbers['rates']} rates of right answers clearly fell. The largest fall: of “A” people "
        assert finding.sentence.startswith(start) and "worse" not in finding.sentence
        assert "Who gains" not in report.markdown() and "Who gains" not in report.html()


# -- words ---------------------------------------------------------------------------------------------------------
def test_a_tolerance_that_nobody_chose_is_called_the_default():
    group, y, before, after = people(300)
    groups, words = {"sensitive_features": group}, "(0.01, the default: no tolerance was given)"
    for report, is_default in (
        (audit(y, after, **groups), True),
        (audit(y, after, tolerance=0.01, **groups), False),
        (audit(y, after, criterion={"dp": 0.01}, **groups), False),
        (audit(y, after, criterion=["dp", "eo"], **groups), True),
        (compare({"a": before, "b": after}, y, **groups), True),
    ):
        assert all((words in item["sentence"]) == is_default == item["default"] for item in report.to_dict()["asked"])
        assert (escape(words) in report.markdown()) == is_default


def test_ordered_categories_keep_their_order():
    group, y, before, after = people(400)
    order = ["low", "mid", "high"]
    ordered = pd.Series(pd.Categorical(after, [*order, "never"], ordered=True))
    options = {"sensitive_features": group}
    assert audit(None, ordered, **options).to_dict()["classes"] == order
    assert audit(y, ordered, before=before, **options).to_dict()["classes"] == order
    assert compare({"a": ordered, "b": before}, y, **options).to_dict()["classes"] == order
    assert audit(y, after, **options).to_dict()["classes"] == sorted(order)
    strange = np.where(np.arange(400) < 9, "other", before)  # a class that the order does not have
    assert audit(y, ordered, before=strange, **options).to_dict()["classes"] == sorted({*order, "other"})
    by_class = audit(y, ordered, criterion="eop", **options).to_dict()["gaps"]
    plain = audit(y, after, criterion="eop", **options).to_dict()["gaps"]
    values = [{(line["group"], line["given"]): line["value"] for line in lines} for lines in (by_class, plain)]
    assert values[0] == values[1]


def test_the_subtitle_is_in_plain_words():
    group, y, _, after = people(300)
    subtitle = audit(y, after, sensitive_features=group, tolerance=0.01).to_dict()["subtitle"]
    assert subtitle == (
        "Audit of answers: demographic parity within 1 percentage point of everybody. "
        "300 people in 3 groups, 3 possible answers."
    )
    ratio = audit(None, after, sensitive_features=group, criterion=Ratio("dp", 0.8, outcomes=["high"])).to_dict()
    assert "no group's share of “high” below 80 % of that of any other group" in ratio["subtitle"]


# -- fitted models -------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def fitted():
    """Return a model, and people whom it was not fitted on, four of one group among them."""
    train, test = make_fair_classification(3000, n_groups=3, random_state=0).split(0.5, random_state=0)
    groups = np.asarray(test.sensitive_features).astype(object)
    keep = (groups != groups[0]) | (np.cumsum(groups == groups[0]) <= 4)
    with single_thread():
        model = OptFairPost(tolerance=0.04, random_state=0)
        model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        model.path()
    return model, test.X[keep], np.asarray(test.y)[keep], groups[keep]


def test_a_path_is_judged_by_what_was_asked_for(fitted):
    model, X, y, groups = fitted
    report = model.report(X, y, sensitive_features=groups)
    path = report.to_dict()["path"]
    verdicts = {point["tolerance"]: point["verdict_asked"] for point in path["points"]}
    assert len(set(verdicts.values())) > 1 and path["chosen"] is not None
    chosen = path["points"][path["chosen"]]
    assert chosen["verdict_asked"] == chosen["verdict"]
    for point, line in zip(report.facts.path, path["points"], strict=True):  # measured anew, by what was asked for
        anew = measure_rule("", point.metrics.counts, model.constraints_, n_replicates=PATH_REPLICATES)
        assert verdict_value(anew.rows) == line["verdict_asked"]
    within = [point for point in path["points"] if point["verdict_asked"] == "within"]
    if within:
        best = max(within, key=lambda point: point["accuracy"])
        assert f"{100 * best['accuracy']:.1f} % of its answers are right" in path["sentence"]
        assert "test it on others" in path["sentence"]
    else:
        assert path["sentence"].startswith("None of these rules is surely within")
    assert model.report().to_dict()["path"]["sentence"] == ""  # of those fitted on nothing is judged
    assert {point["verdict_asked"] for point in model.report().to_dict()["path"]["points"]} == {None}


def test_a_path_is_shown_where_a_group_is_hidden(fitted):
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    model, X, y, groups = fitted
    report = model.report(X, y, sensitive_features=groups)
    document, page = report.to_dict(), report.html()
    assert [line["people"] for line in document["groups"]].count("< 10") == 1
    assert all(point["violation"] is not None and point["hidden"] for point in document["path"]["points"])
    assert 'id="tolerance"' in page and '<a href="#path">' in page
    unlabelled = model.report(X, sensitive_features=groups).html()
    assert 'id="tolerance"' not in unlabelled and '<a href="#path">' not in unlabelled
    assert "cannot be drawn: the true classes of these people are not known." in unlabelled


def test_a_report_says_what_before_is_and_what_was_not_promised(fitted):
    pytest.importorskip("jinja2", reason="pages need it")
    model, X, y, groups = fitted
    options = {"X": X, "y": y, "sensitive_features": groups}
    plain, given = model.report(**options), model.report(**options, before=y)
    assert "would get the answer" in lines_of(plain)["Before"] and " by the plain model" in lines_of(plain)["Before"]
    assert " got the answer" in lines_of(given)["Before"] and "plain model" not in lines_of(given)["Before"]
    assert "than the plain model would give them" in lines_of(plain)["Changes"]
    assert "another answer than before" in lines_of(given)["Changes"]
    assert lines_of(plain)["Promise"].startswith("No promise to new people was asked for")
    assert "the rule does not look at the group" in plain.to_dict()["subtitle"]
    assert plain.to_dict()["n_fitted"] == 1500 and "fitted on 1,500 people" in plain.to_dict()["subtitle"]
    notes = " ".join(model.explain(X[:5]).notes)
    assert "“Without constraints” is the best answer by the probabilities that the rule is made of" in notes
    labels = {line["rule"]: line["label"] for line in plain.to_dict()["performance"]}
    assert labels["decisions (hashed)"] == "fair rule, as decided" and labels["unconstrained, joint"] == "plain model"
    page = re.sub(r"<script.*?</script>|data:[^']*'", "", plain.html(), flags=re.DOTALL)
    assert "decisions (hashed)" not in page and "unconstrained, joint" not in page
    assert "decisions (hashed)" in str(plain)


def test_keys_of_persons_end_the_advice_to_give_keys():
    """People of four kinds share four draws, unless each has a key."""
    rng = np.random.default_rng(0)
    X, group = rng.integers(0, 2, (1200, 2)).astype(float), rng.choice(["a", "b"], 1200, p=[0.3, 0.7])
    X[:, 0] = np.where(rng.random(1200) < 0.3, group == "a", X[:, 0])
    y = np.where(rng.random(1200) < 0.2 + 0.6 * X[:, 0], "yes", "no")
    with single_thread():
        model = OptFairPost(tolerance=0.02, random_state=0).fit(X, y, sensitive_features=group)
        options = {"X": X, "y": y, "sensitive_features": group}
        without, keyed = model.report(**options), model.report(**options, keys=np.arange(1200))
    assert "OF019" in {finding.code for finding in without.findings}
    assert "OF019" not in {finding.code for finding in keyed.findings}
    assert "OF014" in {finding.code for finding in keyed.findings}


def test_gap_places_of_headlines_are_in_the_table(crowd):
    group, answer = crowd
    document = audit(None, answer, sensitive_features=group, tolerance=0.02).to_dict()
    places = [gap_place(line) for line in document["gaps"]]
    for line in document["headlines"]["after"].values():
        assert gap_place(line) in places
    json.dumps(document)
