"""Test explanations of single answers: decisions as they are made, draws a second time, terms, words and tables."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, Ratio, Rows, frontier, solve
from optfair.rule.decisions import CERTAIN
from optfair.rule.explaining import nearest_other
from optfair.rule.sentences import row_namer
from tests.problems import aware, blind, costs

NAMES = {"groups": ["a", "b", "c"], "classes": ["low", "mid", "high"]}
SAME = {"random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def hot():
    """Return a rule that draws for most people, because its temperature is high."""
    return solve(blind(0, n=300), "eo", 0.01, temperature=0.2, **NAMES, **SAME)


@pytest.fixture(scope="module")
def tolerance_path(Z):
    return frontier(Z, "eo", [0.2, 0.1, 0.05, 0.02, 0.01, 0.003], **NAMES, **SAME)


@pytest.fixture(scope="module")
def explanation(rule, Z, tolerance_path):
    return rule.explain(Z, path=tolerance_path)


def first_row(explanation, mask):
    """The explanation of the first person for whom something holds."""
    return explanation[int(np.flatnonzero(mask)[0])]


# -- decisions -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("decision", ["hashed", "argmax"])
@pytest.mark.parametrize("keys", [None, "ids"])
def test_the_answer_is_that_of_predict(hot, Z, decision, keys):
    if keys and decision == "argmax":
        return
    options = {} if keys is None else {"keys": [f"person {k}" for k in range(len(Z))]}
    table = hot.explain(Z, decision, **options).table
    np.testing.assert_array_equal(table["answer"], hot.predict(Z, decision, **options))
    h = hot.predict_proba(Z)
    np.testing.assert_array_equal(table["probability"], h[np.arange(len(Z)), hot.classes.get_indexer(table["answer"])])
    np.testing.assert_array_equal(table["undecided"], h.max(axis=1) < 0.99)
    assert table["undecided"].mean() > 0.5


def second_draw(key, person):
    """The number of a person: the upper 53 bits of a keyed BLAKE2b of eight bytes, as a share of 1."""
    digest = hashlib.blake2b(person, key=key, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53


def test_the_draw_is_the_hash_of_the_documented_bytes(hot, Z):
    """By id b"k" + b"i" + decimals; by default the row of Z as little-endian float32."""
    by_key, by_row = hot.explain(Z, keys=range(1000, 1000 + len(Z))).table, hot.explain(Z).table
    n_draws = 0
    for k in range(len(Z)):
        if hot.predict_proba(Z[k : k + 1]).max() >= CERTAIN:
            assert np.isnan(by_key["draw"][k]) and np.isnan(by_key["draw_low"][k])
            continue
        n_draws += 1
        assert by_key["draw"][k] == second_draw(hot.key, b"ks%d" % (1000 + k))
        assert by_row["draw"][k] == second_draw(hot.key, Z[k].astype("<f4").tobytes())
    assert n_draws > 100


def test_the_draw_is_in_the_interval_of_the_answer(hot, Z):
    table, h = hot.explain(Z).table, hot.predict_proba(Z)
    drawn = table[table["draw"].notna()]
    assert ((drawn["draw_low"] <= drawn["draw"]) & (drawn["draw"] < drawn["draw_high"])).all()
    np.testing.assert_allclose(drawn["draw_high"] - drawn["draw_low"], drawn["probability"], rtol=0, atol=1e-12)
    codes = hot.classes.get_indexer(table["answer"])
    low = np.array([h[k, :code].sum() for k, code in enumerate(codes)])
    np.testing.assert_allclose(table["draw_low"].dropna(), low[table["draw"].notna()], rtol=0, atol=1e-12)


def test_what_is_sampled_is_not_reproduced(hot, Z):
    explanation = hot.explain(Z, "sampled")
    assert explanation.table["draw"].isna().all()
    np.testing.assert_array_equal(explanation.table["answer"], hot.predict(Z, "argmax"))
    assert explanation.notes[0].startswith("decision='sampled' draws anew at every call: no answer can be reproduced")
    text = first_row(explanation, explanation.table["undecided"]).sentences[0]
    assert "A class is drawn anew at every call and no draw is kept" in text and "A draw decided" not in text


def test_the_plain_answer_is_the_unconstrained_rule(Z):
    for options in ({}, {"costs": costs(0)}):
        rule, free = (solve(Z, "dp", t, **options, **NAMES, **SAME) for t in (0.002, 1.0))
        table = rule.explain(Z).table
        np.testing.assert_array_equal(table["plain"], free.predict(Z))
        differs = table["plain"] != table["answer"]
        assert 0 < differs.sum() < len(Z)
        np.testing.assert_array_equal(table["against"][differs], table["plain"][differs])
        assert (table["preference"][differs] <= 1e-12).all()
        if options:  # least expected cost
            expected = Z.sum(axis=1) @ costs(0)
            np.testing.assert_array_equal(table["plain"], np.array(NAMES["classes"])[expected.argmin(axis=1)])


def test_without_a_change_the_answer_is_compared_with_the_runner_up(rule, Z, explanation):
    scores = Z.reshape(len(Z), -1) @ rule.weights.reshape(-1, 3)
    table = explanation.table
    for k in np.flatnonzero(table["plain"] == table["answer"]):
        rivals = {
            name: score for name, score in zip(rule.classes, scores[k], strict=True) if name != table["answer"][k]
        }
        assert table["against"][k] == max(rivals, key=rivals.get)


def test_temperature_zero_needs_no_draw(Z):
    free = solve(Z, "dp", 1.0, **NAMES, **SAME)
    assert not free.temperatures.any()
    explanation = free.explain(Z)
    assert explanation.table["draw"].isna().all() and not explanation.table["undecided"].any()
    assert explanation.parts.shape == (len(Z), 0) and explanation.terms.empty and explanation.totals.empty
    assert (explanation.table["constraints"] == 0).all() and (explanation.table["margin"] >= 0).all()


# -- terms ---------------------------------------------------------------------------------------------------
def test_terms_are_tidy_and_the_largest_come_first(explanation):
    terms, table = explanation.terms, explanation.table
    assert list(terms) == ["person", "criterion", "group", "against", "given", "outcome", "part", "share"]
    assert (terms["part"] != 0).all()
    sums = terms.groupby("person")["part"].sum().reindex(table.index, fill_value=0.0)
    np.testing.assert_allclose(sums, table["constraints"], rtol=0, atol=1e-12)
    for _, lines in terms.groupby("person"):
        assert lines["part"].abs().is_monotonic_decreasing
        assert lines["share"].sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(lines["share"], lines["part"].abs() / lines["part"].abs().sum(), rtol=1e-12)


def test_totals_are_sums_of_terms(explanation):
    sums = {}
    for line in explanation.terms.itertuples():
        key = line.person, line.criterion, line.group, line.against
        sums[key] = sums.get(key, 0.0) + line.part
    totals = explanation.totals
    assert list(totals) == ["person", "criterion", "group", "against", "part", "share"]
    assert len(totals) == len(sums) < len(explanation.terms)
    for line in totals.itertuples():
        assert line.part == pytest.approx(sums[line.person, line.criterion, line.group, line.against], abs=1e-12)


# -- other tolerances ----------------------------------------------------------------------------------------
def test_the_nearest_tolerance_with_another_answer():
    answers = np.array([[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 2, 2, 0]])  # by tolerance, then by person
    result = nearest_other(np.zeros(4, int), answers, np.array([0.4, 0.3, 0.2, 0.1]), 0.2)
    np.testing.assert_array_equal(result["tolerance_other"], [np.nan, 0.1, 0.3, 0.3])  # of equals the looser one
    np.testing.assert_array_equal(result["answer_other"], [-1, 2, 1, 1])
    only = nearest_other(np.zeros(2, int), np.ones((1, 2), int), np.array([0.2]), 0.2)
    assert np.isnan(only["tolerance_other"]).all() and (only["answer_other"] == -1).all()


def test_flips_are_those_of_the_rules_of_the_path(rule, Z, tolerance_path, explanation):
    """By one prediction after the other, with the same key."""
    tolerances = tolerance_path.table["tolerance"].tolist()
    keyed = {t: replace(other, key=rule.key) for t, other in zip(tolerances, tolerance_path.rules, strict=True)}
    table = explanation.table
    by_tolerance = {t: other.predict(Z) for t, other in keyed.items()}
    for k in range(len(Z)):
        other = [t for t in tolerances if t != 0.01 and by_tolerance[t][k] != table["answer"][k]]
        if not other:
            assert np.isnan(table["tolerance_other"][k]) and pd.isna(table["answer_other"][k])
            continue
        nearest = min(other, key=lambda t: (abs(t - 0.01), -t))
        assert (table["tolerance_other"][k], table["answer_other"][k]) == (nearest, by_tolerance[nearest][k])
    assert 0.02 < table["tolerance_other"].notna().mean() < 0.9


def test_people_whom_only_another_rule_draws_for_have_the_same_number(hot, Z, rule):
    """The path draws for nearly all, the rule for few: its decisions are those of `predict` with the same key."""
    path = frontier(Z, "eo", [0.1], temperature=0.3, **NAMES, **SAME)
    table = rule.explain(Z, path=path).table
    answers = replace(path.rules[0], key=rule.key).predict(Z)
    differs = table["answer"] != answers
    np.testing.assert_array_equal(table["answer_other"][differs], answers[differs])
    assert differs[table["draw"].isna()].any() and table["tolerance_other"][~differs].isna().all()


def test_without_a_path_nothing_is_said_of_other_tolerances(rule, Z):
    explanation = rule.explain(Z)
    assert explanation.table["tolerance_other"].isna().all() and explanation.table["answer_other"].isna().all()
    assert not any("olerance" in text for text in [*explanation.sentences, *explanation.notes])


def test_several_tolerances_are_not_compared_with_one(Z, tolerance_path):
    rule = solve(Z, [Constraint("eo", 0.05), Constraint("dp", 0.01)], **NAMES, **SAME)
    explanation = rule.explain(Z, path=tolerance_path)
    text = first_row(explanation, explanation.table["tolerance_other"].notna()).sentences[0]
    assert "for all criteria and groups it would be" in text and "instead of" not in text


# -- words ---------------------------------------------------------------------------------------------------
def test_a_person_whose_answer_was_moved(explanation):
    table = explanation.table
    person = first_row(explanation, (table["plain"] != table["answer"]) & (table["probability"] > 0.99))
    line, text = person.table.iloc[0], person.sentences[0]
    assert text.startswith(
        f"The answer is “{line['answer']}”; without constraints it would be “{line['plain']}”, ahead"
    )
    assert f"ahead by {-100 * line['preference']:.1f} percentage points" in text
    pushes = person.terms[person.terms["part"] > 0].head(2)
    for term in pushes.itertuples():
        assert f"among “{term.group}” whose true class is “{term.given}” against everybody (equalized odds)" in text
        assert f"{100 * term.part:.1f} percentage points" in text
    assert "draw" not in text


def test_a_person_whose_answer_is_the_same(explanation):
    table = explanation.table
    person = first_row(explanation, (table["plain"] == table["answer"]) & (table["probability"] > 0.99))
    line = person.table.iloc[0]
    ahead = f"ahead of “{line['against']}” by {100 * line['margin']:.1f} percentage points."
    assert person.sentences[0].startswith(f"The answer is “{line['answer']}”, the same as without constraints, {ahead}")
    assert "moved" not in person.sentences[0]


def test_a_draw_is_told_with_its_interval(hot, Z):
    explanation = hot.explain(Z)
    for person in explanation[:40]:
        line, text = person.table.iloc[0], person.sentences[0]
        assert ("A draw decided" in text) == (line["probability"] < 0.99)
        if line["probability"] < 0.99:
            number, low, high = (
                float(part)
                for part in text.partition("of this person, ")[2]
                .replace("is in its interval, from", "")
                .replace("up to", "")
                .rstrip(".")
                .replace(",", "")
                .split()[:3]
            )
            assert low <= number < high and abs(number - line["draw"]) <= 5.1e-5


def test_digits_show_that_a_draw_is_in_its_interval(hot, Z):
    """Two numbers that four decimals would not tell apart."""
    one = hot.explain(Z[:1])
    table = one.table.assign(probability=0.5, draw=0.50001, draw_low=0.0, draw_high=0.50002)
    text = replace(one, table=table).sentences[0]
    assert "the number of this person, 0.50001, is in its interval, from 0.00000 up to 0.50002." in text


ROWS = {
    "dp": (("dp", "f", "overall", None, 1), "the rate of “1” among “f” against everybody (demographic parity)"),
    "a pair": (("dp", "f", "m", None, "hi"), "the rate of “hi” among “f” against “m” (demographic parity)"),
    "eop": (
        ("eop", "f", "m", "hi", "hi"),
        "the rate of “hi” among “f” whose true class is “hi” against “m” (equal opportunity)",
    ),
    "meo": (
        ("meo", "f", "overall", "TPR+FPR", "hi"),
        "the rate of true and false answers “hi” among “f” against everybody (mean equalized odds)",
    ),
    "meo, difference": (
        ("meo", "f", "overall", "TPR-FPR", "hi"),
        "the rate of true less false answers “hi” among “f” against everybody (mean equalized odds)",
    ),
    "oae": (
        ("oae", "f", "m", None, None),
        "the share of right answers among “f” against “m” (overall accuracy equality)",
    ),
    "ratio": (
        ("dp ratio", "f", "m", None, "hi"),
        "the rate of “hi” among “f” in proportion to “m” (demographic parity ratio)",
    ),
    "minimum": (
        ("minimum recall", "overall", None, "hi", "hi"),
        "the rate of “hi” among everybody whose true class is “hi” (minimum recall)",
    ),
    "own row": (("third class", None, None, None, None), "the constraint “third class”"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_in_words(name):
    key, text = ROWS[name]
    assert row_namer(pd.Index(["f", "m"]))(key) == text


def test_groups_of_several_attributes_in_words():
    namer = row_namer(pd.MultiIndex.from_tuples([("f", "x"), ("m", "y")], names=["sex", "race"]))
    assert namer(("dp", ("f", "x"), ("m", "y"), None, "hi")).startswith(
        "the rate of “hi” among “f × x” against “m × y”"
    )
    assert namer(("dp", ("f", "*"), "overall", None, "hi")).startswith("the rate of “hi” among “sex: f” against everyb")


@pytest.mark.parametrize(
    "criterion",
    [
        Ratio("dp", 0.95),
        MinimumRate("recall", 0.5),
        Rows(np.eye(27)[:2], upper=0.05),
        Constraint("dp", 0.001, "pairwise"),
        Constraint("meo", 0.001),
    ],
    ids=["ratio", "minimum", "own rows", "pairs", "means"],
)
def test_every_kind_of_constraint_is_named(Z, criterion):
    explanation = solve(Z, criterion, **NAMES, **SAME).explain(Z)
    words, rows = explanation.row_words(), explanation.rows
    assert len(words) == len(set(words)) == len(rows) > 0
    for text, row in zip(words, rows.itertuples(), strict=True):
        for name in (row.group, row.against, row.outcome):
            assert name is None or ("everybody" if name == "overall" else f"“{name}”") in text
    moved = first_row(explanation, explanation.table["plain"] != explanation.table["answer"])
    assert any(text in moved.sentences[0] for text in words)


def test_costs_have_units_of_their_own(Z):
    text = solve(Z, "dp", 0.01, costs=costs(0), **NAMES, **SAME).explain(Z[:1]).sentences[0]
    assert "of the range of the costs" in text and "percentage points" not in text


def test_answers_that_are_drawn_from_a_constant(rule, Z):
    mixed = replace(rule, share=0.4, constant=np.array([0.0, 0.0, 1.0]))
    explanation = mixed.explain(Z)
    assert "40.0 % of all answers are drawn from fixed probabilities, whoever the person is." in explanation.notes
    texts = " ".join(explanation.sentences)
    assert "No constraint speaks for it: 40.0 % of all answers are drawn from fixed probabilities." in texts
    np.testing.assert_array_equal(explanation.table["answer"], mixed.predict(Z))


def test_a_bare_rule_says_nothing_of_what_it_knows(rule, Z, explanation):
    assert not any("person's group" in text for text in explanation.sentences)
    assert any(
        "person's group" in text
        for text in replace(explanation, setting=replace(explanation.setting, blind=True)).sentences
    )


# -- the object ----------------------------------------------------------------------------------------------
def test_people_are_found_by_position(explanation):
    assert len(explanation) == 300 and len(explanation[7]) == 1 and len(explanation[10:14]) == 4
    assert (
        explanation[7].sentences == [explanation.sentences[7]]
        and explanation[-1].sentences[0] == explanation.sentences[-1]
    )
    assert explanation[7].table.index.tolist() == [7]
    pd.testing.assert_frame_equal(
        explanation[7].terms, explanation.terms[explanation.terms["person"] == 7].reset_index(drop=True)
    )
    assert [person.sentences[0] for person in explanation] == explanation.sentences
    for index in (300, -301):
        with pytest.raises(IndexError, match=rf"^explanation\[{index}\]: there are 300 people, from 0 on\.$"):
            explanation[index]
    with pytest.raises(TypeError, match=r"^explanation\['a'\]: give the position of a person, or a slice\.$"):
        explanation["a"]


def test_print_shows_the_first_people(explanation):
    text = str(explanation)
    assert text.splitlines()[0].startswith("300 people: ") and "undecided" in text.splitlines()[0]
    assert explanation.sentences[4] in text and explanation.sentences[5] not in text
    assert "and 295 more" in text and text.splitlines()[-1] == explanation.notes[-1]
    assert repr(explanation).startswith("<Explanation of 300 people;")


def test_print_of_one_person_shows_the_sum(explanation):
    person = first_row(explanation, explanation.table["constraints"] != 0)
    lines = str(person).splitlines()
    parts = [float(line.split()[0]) for line in lines if line.startswith(("  +", "  -"))]
    margin = float(next(line for line in lines if " minus " in line).rpartition(" ")[2])
    assert sum(parts) == pytest.approx(margin, abs=5e-4)
    assert len(parts) == 1 + min(len(person.terms), 9)


@pytest.mark.parametrize("n", [0, 1])
def test_nobody_and_one_person(rule, Z, tolerance_path, n):
    explanation = rule.explain(Z[:n], path=tolerance_path)
    assert len(explanation) == len(explanation.sentences) == len(list(explanation)) == n
    assert explanation.parts.shape[0] == n and len(explanation.to_dict()["people"]) == n
    assert str(explanation) and explanation._repr_html_().count("<tr>") == n + 1
    assert list(explanation.terms) == list(rule.explain(Z).terms)


def test_names_are_escaped_in_html():
    names = ["<script>alert(1)</script>", "a & b", '"quoted"']
    Z = blind(2, 200)
    explanation = solve(Z, "dp", 0.001, groups=names, classes=names, **SAME).explain(Z)
    page = explanation._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page and "a &amp; b" in page
    assert page.count("<tr>") == 21 and "and 180 more" in page


def test_numbers_as_classes_keep_their_type():
    Z = aware(1, 100)
    rule = solve(Z, "dp", 0.01, classes=[3, 5, 10**15], **SAME)
    table = rule.explain(Z).table
    assert table["answer"].dtype == rule.predict(Z).dtype == np.int64
    assert "“5”" in " ".join(rule.explain(Z).sentences)


def test_tuples_as_classes_and_groups():
    Z, names = blind(1, 100), [("a", 1), ("b", 2), ("c", 3)]
    rule = solve(Z, "dp", 0.01, classes=names, groups=names, **SAME)
    explanation = rule.explain(Z)
    assert explanation.table["answer"].tolist() == rule.predict(Z).tolist()
    json.dumps(explanation.to_dict(), allow_nan=False)
    assert "“b × 2”" in " ".join(explanation.sentences)


def test_json_holds_everything(explanation):
    document = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert document["notes"] == list(explanation.notes)
    for k, person in enumerate(document["people"]):
        assert person["person"] == k and person["sentences"] == explanation.sentences[k]
        parts = [term["part"] for term in person["terms"]]
        assert sum(parts) == pytest.approx(explanation.table["constraints"][k], abs=1e-12)
        assert person["margin"] == explanation.table["margin"][k]
    assert {type(person["draw"]) for person in document["people"]} == {float, type(None)}


# -- errors --------------------------------------------------------------------------------------------------
def test_arguments_are_checked(rule, Z, tolerance_path):
    cases = {
        r"decision='best': must be one of": lambda: rule.explain(Z, "best"),
        r"keys: only decision='hashed' uses them; got decision='argmax'\.": lambda: rule.explain(Z, "argmax", keys=[1]),
        r"keys: 1 given for 300 rows; give one key per row\.": lambda: rule.explain(Z, keys=[1]),
        r"path=3: must be a Frontier, as optfair\.frontier returns it\.": lambda: rule.explain(Z, path=3),
        r"path: its rules are for other groups or classes; compute it from the same posteriors\.": lambda: rule.explain(
            Z, path=frontier(Z, "dp", [0.1], **SAME)
        ),
        r"decision='hashed': this rule was loaded without its key\.": lambda: replace(rule, key=None).explain(Z),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=f"^{message}") as caught:
            call()
        assert "\n" not in str(caught.value)
    replace(rule, key=None).explain(Z, "argmax", path=tolerance_path)  # needs no key
