"""``optfair audit``: what it prints is what the metrics say, and its exit code is the verdict."""

import numpy as np
import pandas as pd
import pytest

from optfair import metrics
from tests.cli.helpers import AUDIT, CLASSES, SCORES, UNFAIR, make_predictions

PREDICTION = [*AUDIT, "--prediction", "answer"]


def test_the_audit_prints_what_the_metrics_say(run, predictions_file, predictions, tmp_path):
    output = tmp_path / "gaps.csv"
    code, out, err = run("audit", predictions_file, *PREDICTION, "--tolerance", 0.02, "-o", output)
    assert (code, err) == (1, "")
    interval = metrics.violation_interval(
        predictions["truth"], predictions["answer"], sensitive_features=predictions["race"]
    )
    for number in (interval.value, interval.lower, interval.upper, interval.bound, interval.noise_floor):
        assert f"{100 * number:.2f}" in out
    n_exceeded = int((interval.table["lower"] > 0.02).sum())
    assert f"{n_exceeded} of 9 comparisons are outside of what is allowed" in out
    assert f"{len(predictions):,} people" in out and str(tmp_path) not in out.replace(str(output), "")
    gaps = pd.read_csv(output)
    np.testing.assert_allclose(gaps["value"], interval.table["value"])
    below, above = (np.maximum(gaps["from"], 0), np.minimum(gaps["to"], 0))
    np.testing.assert_allclose(np.maximum(below, -above), interval.table["lower"])
    np.testing.assert_allclose(np.maximum(gaps["at_most"], -gaps["at_least"]), interval.table["bound"])
    assert (gaps["verdict"] == "beyond").sum() == n_exceeded and (gaps["allowed_to"] == 0.02).all()
    assert out.rstrip().splitlines()[-1].startswith("FAIL: With 95 % confidence") and out.endswith("(exit 1)\n")
    shares = predictions.groupby("race")["answer"].value_counts(normalize=True)
    for share in shares:  # the rates themselves
        assert f"{100 * share:.2f} %" in out  # rounded once


def test_the_audit_of_a_fair_rule_exits_with_0(run, tmp_path):
    path = tmp_path / "fair.csv"
    make_predictions(bias=0.0, seed=1).to_csv(path, index=False)
    code, out, _ = run("audit", path, *PREDICTION, "--tolerance", 0.05)
    assert code == 0 and "outside of" not in out and "FAIL" not in out


def test_several_criteria_groups_and_references(run, predictions_file, predictions):
    criteria = ["--criterion", "dp", "--criterion", "equalized_odds"]
    options = ["--reference", "pairwise", *criteria, "--tolerance", 0.2, "--prediction", "answer"]
    code, out, _ = run("audit", predictions_file, *AUDIT, "--group", "sex", *options)
    assert "6 groups" in out and "dp within 0.2 of every other group, eo within 0.2" in out and "A × F against" in out
    interval = metrics.violation_interval(
        predictions["truth"],
        predictions["answer"],
        sensitive_features=predictions[["race", "sex"]],
        criterion=["dp", "eo"],
        reference="pairwise",
    )
    assert code == int(interval.lower > 0.2)
    assert f"{100 * interval.upper:.2f}" in out
    assert run("audit", predictions_file, "--label", "truth", "--group", "race,sex", *options)[:2] == (code, out)


def test_a_criterion_with_two_names_is_counted_once(run, refuse, unfair):
    twice = run("audit", unfair, *UNFAIR, "--criterion", "dp", "--criterion", "demographic_parity")
    assert run("audit", unfair, *UNFAIR, "--criterion", "dp") == twice
    assert "--rows -1: must be at least 0" in refuse("audit", unfair, *UNFAIR, "--rows", -1)


def test_weights(run, predictions_file, predictions):
    out = run("audit", predictions_file, *PREDICTION, "--weight", "w")[1]
    violation = metrics.violation(
        predictions["truth"],
        predictions["answer"],
        sensitive_features=predictions["race"],
        sample_weight=predictions["w"],
    )
    assert f"{100 * violation:.2f}" in out


def test_missing_groups(run, refuse, predictions, tmp_path):
    path = tmp_path / "holes.csv"
    predictions.assign(race=predictions["race"].where(predictions["race"] != "C")).to_csv(path, index=False)
    message = refuse("audit", path, *PREDICTION)
    assert "--group race is missing in" in message and "--missing group" in message
    assert "(missing)" in run("audit", path, *PREDICTION, "--missing", "group")[1]


def test_a_group_that_is_named_like_the_missing_ones(refuse, predictions, tmp_path):
    path, race = tmp_path / "holes.csv", predictions["race"]
    predictions.assign(race=race.where(race != "C").replace("A", "(missing)")).to_csv(path, index=False)
    message = refuse("audit", path, *PREDICTION, "--missing", "group")
    assert "has a group named '(missing)' beside missing values" in message


def test_the_marginals_of_one_attribute_are_its_groups(run, predictions_file):
    plain, marginals = (
        run("audit", predictions_file, *PREDICTION, *more) for more in ((), ("--attributes", "marginals"))
    )
    assert plain == marginals


def test_predictions_that_are_never_a_label_are_noted(run, predictions, tmp_path):
    path = tmp_path / "people.csv"
    predictions.assign(answer=predictions["answer"].replace("mid", "none")).to_csv(path, index=False)
    err = run("audit", path, *PREDICTION)[2]
    assert "note: --prediction answer: none is predicted but never a label" in err


# -- the verdict ------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_an_audit_at_the_tolerance_rarely_fails(run, tmp_path):
    """500 audits of a rule whose gaps are all exactly the tolerance: at most 7 % may exit with 1 (5 % are expected)."""
    tolerance, sizes = 0.05, [0.3, 0.3, 0.2, 0.2]
    # Half of the people 0.05 above the overall rates, half below: every gap of every group is ±0.05.
    signs = np.array([1, -1, 1, -1])
    rates = np.array([[0.4 + tolerance * sign, 0.35, 0.25 - tolerance * sign] for sign in signs])
    assert np.abs(rates - np.array(sizes) @ rates).max() == pytest.approx(tolerance)
    rng = np.random.default_rng(2026)
    path, codes = tmp_path / "sample.csv", []
    audit = ["audit", path, *UNFAIR, "--tolerance"]
    for _ in range(500):
        group = rng.choice(4, 800, p=sizes)
        prediction = (rng.random((800, 1)) > rates[group].cumsum(axis=1)).sum(axis=1)
        truth = rng.integers(0, 3, 800)
        pd.DataFrame({"g": group, "y": truth, "p": prediction}).to_csv(path, index=False)
        codes.append(run(*audit, tolerance)[0])
    assert set(codes) <= {0, 1}
    assert np.mean(codes) <= 0.07
    # The same audit does fail where it should: the same people, a tolerance of 0.
    assert run(*audit, 0)[0] == 1


def test_an_undecided_audit_fails_only_if_strict(run, tmp_path):
    path = tmp_path / "few.csv"
    make_predictions(n=120, bias=0.0, seed=1).to_csv(path, index=False)
    audit = ["audit", path, *PREDICTION, "--tolerance"]
    code, out, _ = run(*audit, 0.05)
    assert code == 0 and "UNDECIDED: There are too few people to tell with 95 % confidence" in out
    code, out, _ = run(*audit, 0.05, "--strict")
    assert code == 1 and "UNDECIDED" in out
    code, out, _ = run(*audit, 1, "--strict")
    assert code == 0 and "PASS: With 95 % confidence, every gap between groups is within 100 percentage points" in out


# -- scores -----------------------------------------------------------------------------------------------------
def test_scores_are_decided_by_the_largest_or_drawn(run, predictions_file, predictions):
    truth, race, scores = predictions["truth"], predictions["race"], predictions[SCORES].to_numpy()
    by_largest = run("audit", predictions_file, *AUDIT, "--scores", ",".join(SCORES))[1]
    largest = np.array(CLASSES)[scores.argmax(axis=1)]
    assert f"{100 * metrics.violation(truth, largest, sensitive_features=race):.2f}" in by_largest
    sampled = run("audit", predictions_file, *AUDIT, "--scores", ",".join(SCORES), "--decision", "sampled")[1]
    assert f"{100 * metrics.violation(truth, scores, sensitive_features=race):.2f}" in sampled
    named = [word for name in reversed(CLASSES) for word in ("--scores", f"{name}=p_{name}")]
    assert run("audit", predictions_file, *AUDIT, *named)[1] == by_largest


def test_numbers_as_classes_and_scores_of_a_class_without_rows(run, tmp_path):
    rng = np.random.default_rng(0)
    columns = [f"class{k}" for k in range(4)]
    table = pd.DataFrame(rng.dirichlet(np.ones(4), 600), columns=columns)
    path = tmp_path / "numbers.csv"
    table.assign(y=rng.integers(0, 3, 600), g=rng.choice(["a", "b"], 600)).to_csv(path, index=False)
    audit = ["audit", path, "--label", "y", "--group", "g", "--scores", ",".join(columns), "--tolerance", 0.3]
    code, out, _ = run(*audit)
    assert code == 0 and "4 classes" in out
    code, out, _ = run(*audit, "--outcome", "2")
    assert code == 0 and "answer “2”" in out and "answer “1”" not in out


def test_truth_values_of_which_one_is_never_the_label(run, tmp_path):
    rng = np.random.default_rng(0)
    path, q = tmp_path / "true.csv", rng.random(100)
    table = {"g": rng.choice(["a", "b"], 100), "y": True, "p_False": q, "p_True": 1 - q}
    pd.DataFrame(table).to_csv(path, index=False)
    options = ["--label", "y", "--group", "g", "--scores", "p_False,p_True", "--tolerance", 1]
    code, out, _ = run("audit", path, *options)
    assert code == 0 and "2 classes" in out


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ("p_high,p_low", "no column for class 'mid'"),
        ("p_high", "at least two"),
        ("p_high,p_low,race", "no column for class"),
        ("high=p_high,low=p_low,mid=race", "--scores race holds texts"),
        ("high=p_high,p_low,p_mid", "for every column or for none"),
        ("high=p_high,low=p_low,mid=nothing", "there is no such column"),
    ],
)
def test_invalid_scores_are_refused(refuse, predictions_file, scores, message):
    assert message in refuse("audit", predictions_file, *AUDIT, "--scores", scores)


def test_scores_that_are_not_probabilities(refuse, tmp_path, predictions):
    path = tmp_path / "people.csv"
    predictions.assign(p_high=predictions["p_high"] + 1).to_csv(path, index=False)
    options = ["--scores", ",".join(SCORES)]
    assert "not probabilities" in refuse("audit", path, *AUDIT, *options, "--decision", "sampled")
    predictions.assign(p_high=np.inf).to_csv(path, index=False)
    assert "infinite" in refuse("audit", path, *AUDIT, *options)


# -- invalid tables and options -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("A,high,low\nA,low,low\n", "there is one group; at least two are needed"),
        ("A,high,low\nB,,low\n", "--label truth is missing in 1 of 2 rows"),
        ("A,1,low\nB,2,high\n", "have no class in common (labels such as '1', predictions such as 'low')"),
        ("A,high,A\nB,low,B\n", "are these the right columns?"),
    ],
)
def test_tables_that_cannot_be_audited(refuse, tmp_path, rows, message):
    (tmp_path / "people.csv").write_text(f"race,truth,answer\n{rows}")
    assert message in refuse("audit", tmp_path / "people.csv", *PREDICTION, "-o", tmp_path / "gaps.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["people.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tolerance", "-0.1"], "tolerance"),
        (["--criterion", "kindness"], "--criterion kindness: unknown; use one of dp, eop"),
        (["--outcome", "best"], "--outcome best: there is no such class; there are high, low, mid"),
        (["--group", "colour"], "--group colour: there is no such column"),
        (["--level", "2"], "level"),
        (["--seed", "-3"], "--seed -3: must be a whole number of at least 0"),
        (["--weight", "race"], "--weight race holds texts"),
        (["--group", "p_low"], "groups in 1500 rows; cut a number into a few bands"),
        (["--decimal", ",,"], "--decimal ,,: must be one character"),
        (["--encoding", "klingon"], "unknown encoding"),
    ],
)
def test_invalid_options_are_refused(refuse, predictions_file, options, message):
    assert message in refuse("audit", predictions_file, *PREDICTION, *options)
