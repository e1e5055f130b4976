"""Check what is said of single comparisons: whom a sign is about, whose people count, and why it cannot be told."""

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, Ratio, audit
from optfair.reporting.judging import halfway_room, interval_width, judge_again
from tests.reporting.helpers import people

SIZES = {"many": 3000, "some": 600, "other": 380, "few": 30}
RATES = {"many": 0.4, "some": 0.7, "other": 0.8, "few": 0.75}


def audit_of(criterion, sizes=SIZES, rates=RATES, **options):
    """Return an audit of groups of these sizes, exactly these shares of whom get "yes"."""
    group = np.repeat(list(sizes), list(sizes.values()))
    answer = np.concatenate([np.arange(n) < round(n * rates[name]) for name, n in sizes.items()])
    return audit(None, np.where(answer, "yes", "no"), sensitive_features=group, criterion=criterion, **options)


# -- whom a sign is about ------------------------------------------------------------------------------------------
def test_a_ratio_that_is_too_small_is_a_sign_of_the_smaller_rate_only():
    """3 pairs are beyond, each because of "many"; the groups they are compared with carry no ✗."""
    report = audit_of(Ratio("dp", 0.8, outcomes=["yes"]))
    table, view = report.constraints, report.to_dict()["rates"][0]
    beyond = table[table["state"] == "beyond"]
    assert set(beyond["group"]) == {"many"} and {"some", "other"} <= set(beyond["against"])
    states = dict(zip(view["groups"], view["after"]["state"], strict=True))
    assert [name for name, state in states.items() if state == "beyond"] == ["many"]
    for name, state in states.items():
        own = set(table["state"][table["group"] == name])
        assert state == ("beyond" if "beyond" in own else "unknown" if "unknown" in own else "within")


def test_a_gap_is_a_sign_of_both_groups_of_a_pair():
    report = audit_of(Constraint("dp", 0.1, reference="pairwise", outcomes=["yes"]))
    view = report.to_dict()["rates"][0]
    states = dict(zip(view["groups"], view["after"]["state"], strict=True))
    assert states["many"] == states["some"] == states["other"] == "beyond"


# -- whose people --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo", "oae"])
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_people_of_both_sides_are_those_of_counting(criterion, reference):
    group, y, _, after = people(900)
    constraint = Constraint(criterion, 0.1, reference=reference)
    report = audit(y, after, sensitive_features=group, criterion=constraint, min_cell=1)
    lines = report.to_dict()["gaps"]
    assert len(lines) == min(len(report.constraints), 40)

    def count(line, name):
        mine = group == name
        if line["given"] is None:
            return mine.sum()
        if criterion == "meo":  # the fewer of those of the class and the others
            of_class = (mine & (y == line["outcome"])).sum()
            return min(of_class, mine.sum() - of_class)
        return (mine & (y == line["given"])).sum()

    for line in lines:
        assert line["people"] == count(line, line["group"])
        expected = None if reference == "overall" else count(line, line["against"])
        assert line["people_against"] == expected


def test_a_comparison_of_a_pair_names_the_people_of_both():
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    report = audit_of(Ratio("dp", 0.8, outcomes=["yes"]))
    assert "3,000 and 380 people" in report.verdict.sentence
    for text in (str(report), report.markdown(), report.html()):
        assert "3,000 and 380" in text and "every dp ratio" not in text
    assert "every rate is at least 0.8 times that of any other group" in report.to_dict()["check"]["sentence"]


# -- why it cannot be told -----------------------------------------------------------------------------------------
CRITERIA = {
    "dp": "dp",
    "eo": "eo",
    "meo": "meo",
    "oae": "oae",
    "pairs": Constraint("eop", 0.08, reference="pairwise"),
    "ratio": Ratio("dp", 0.8),
    "ratio to everybody": Ratio("eop", 0.9, reference="overall"),
    "several": [Constraint("dp", 0.05), MinimumRate("recall", 0.6), Ratio("oae", 0.9)],
}


def random_audit(seed, criterion, attributes="intersections"):
    """Return an audit of groups of very different sizes, some of which get other answers than others."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(300, 6000))
    sex, area = rng.choice(["f", "m"], n, p=[0.4, 0.6]), rng.choice(["n", "s", "w"], n, p=[0.7, 0.27, 0.03])
    y = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    answer = np.where(rng.random(n) < 0.7, y, rng.choice(["a", "b", "c"], n))
    answer = np.where((area == "s") & (rng.random(n) < rng.uniform(0, 0.3)), "a", answer)
    features = pd.DataFrame({"sex": sex, "area": area}) if attributes != "one" else area
    options = {} if attributes == "one" else {"attributes": attributes}
    options |= {"tolerance": float(rng.choice([0.01, 0.03, 0.08, 0.15]))} if isinstance(criterion, str) else {}
    if not isinstance(criterion, str):
        options = {}
    return audit(y, answer, sensitive_features=features, criterion=criterion, **options)


@pytest.mark.parametrize("attributes", ["one", "intersections", "marginals", "both"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.filterwarnings("ignore:.*left out")
def test_surely_few_people_and_small_groups_never_contradict(criterion, attributes):
    """Every comparison that cannot be told has one reason at most, and the list of small groups is made of these."""
    reasons = set()
    for seed in range(3):
        report = random_audit(seed, CRITERIA[criterion], attributes)
        table, document = report.constraints, report.to_dict()
        is_open = table["state"] == "unknown"
        assert not table["reason"][~is_open].astype(bool).any()  # of nothing that is sure
        reasons |= set(table["reason"][is_open])
        rows = report.facts.judged.rows.rows
        width, room = interval_width(table), halfway_room(rows, table)
        few, near = (table["reason"] == "few").to_numpy(), (table["reason"] == "near").to_numpy()
        compared = ~np.isnan(room)
        assert (few[compared] == (is_open & (width > room))[compared]).all()
        assert (few | near)[compared & is_open].all() and not (few | near)[~compared].any()
        # Near: what was measured is in the outer half of what is allowed, or as little beyond it.
        ratios = np.array([isinstance(rows.constraints[k], Ratio) for k in rows.source])
        distance = np.where(ratios, table["value"], rows.upper - table["value"].abs())
        assert (np.abs(distance[near]) <= room[near] + 1e-12).all()
        # The list of small groups: as many comparisons, none of them sure, the answers those of few people.
        assert sum(cell["comparisons"] for cell in document["small"]) == few.sum() == document["reasons"]["few"]
        assert document["reasons"]["near"] == near.sum() and len(report.small) == few.sum()
        for cell in document["small"]:
            assert 1 <= cell["comparisons"] <= cell["of"]
        for line in document["gaps"]:
            assert (line["reason"] is None) or line["state"] == "unknown"
        sentence, codes = report.verdict.sentence, {finding.code for finding in report.findings}
        assert ("OF012" in codes) == bool(few.any())
        if report.verdict.value == "unknown":
            assert ("too few people" in sentence) == bool(few.any())
            assert ("so near to what is allowed" in sentence) == bool(near.any())
        else:
            assert "too few people" not in sentence
    assert reasons  # something was open


def test_all_reasons_occur():
    counted = {"few": 0, "near": 0, "": 0}
    for seed in range(20):
        for name, number in random_audit(seed, "oae", "one").constraints["reason"].value_counts().items():
            counted[name] += number
    assert all(counted.values())


def test_a_gap_at_the_tolerance_of_many_people_is_near_and_not_of_few():
    """1,498 people measure −4.99 at a tolerance of 5: more people are no help, a rule that leaves room is."""
    sizes, rates = {"A": 1498, "B": 1498}, {"A": 0.4501, "B": 0.5499}
    report = audit_of(Constraint("dp", 0.05, outcomes=["yes"]), sizes, rates)
    table = report.constraints
    assert table["value"].abs().max() == pytest.approx(0.0499, abs=2e-4) and set(table["reason"]) == {"near"}
    assert report.verdict.value == "unknown" and "too few" not in report.verdict.sentence
    assert "so near to what is allowed that it cannot be told, such as group “" in report.verdict.sentence
    document = report.to_dict()
    assert document["people_needed"] is None and document["small"] == []
    (finding,) = [finding for finding in report.findings if finding.code == "OF002"]
    assert "only a rule with smaller gaps would" in finding.sentence and "people in each part" not in finding.sentence


def test_as_many_people_as_are_said_to_be_needed_are_more_than_there_are_and_enough():
    sizes, rates = {"A": 2000, "B": 150}, {"A": 0.5, "B": 0.5}
    constraint = Constraint("dp", 0.05, outcomes=["yes"])
    document = audit_of(constraint, sizes, rates).to_dict()
    needed = document["people_needed"]
    assert document["reasons"]["few"] >= 1 and needed > 150
    assert f"about {needed:,} people" in " ".join(finding["sentence"] for finding in document["findings"])
    # Each part with so many people, and a gap of half of the tolerance: it can be told.
    sizes, rates = {"A": needed, "B": needed}, {"A": 0.476, "B": 0.524}
    table = audit_of(constraint, sizes, rates).constraints
    assert table["value"].abs().to_numpy() == pytest.approx(0.0245, abs=5e-4) and (table["state"] == "within").all()


# -- the tolerance that was asked for --------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_rows_that_are_judged_again_are_as_if_asked_for_at_once(criterion):
    group, y, _, after = people(2500, seed=2)
    after = np.where((group == "A") & (np.arange(len(y)) % 4 == 0), "low", after)
    reports = {
        t: audit(y, after, sensitive_features=group, criterion=criterion, tolerance=t) for t in (0.02, 0.06, 0.12)
    }
    for start in reports.values():
        for tolerance, expected in reports.items():
            judged = judge_again(start.facts.judged.rows, [Constraint(criterion, tolerance)])
            assert judged.table["state"].tolist() == expected.constraints["state"].tolist()
            assert judged.table["reason"].tolist() == expected.constraints["reason"].tolist()


def test_groups_that_a_mapping_does_not_name_are_asked_for_nothing():
    report = audit_of(Constraint("dp", 0.01))
    judged = judge_again(report.facts.judged.rows, [Constraint("dp", {"many": 0.01, "few": 0.9})])
    states = dict(zip(judged.table["group"], judged.table["state"], strict=True))
    assert states == {"many": "beyond", "some": "within", "other": "within", "few": "within"}
