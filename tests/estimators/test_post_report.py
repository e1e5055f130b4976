"""Check `OptFairPost.report`: of the rows fitted on, out of fold, and of labelled rows that are given."""

import pickle
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, OptFairPost, OptFairWarning, load_model, metrics
from optfair.datasets import make_fair_classification
from tests.estimators.helpers import NEW, SEX, SEX_NEW, X_NEW, Y_NEW, N, X, Y, make_post, out_of_fold_z


@pytest.fixture(scope="module")
def small_group():
    """Return (a fitted model, X, y, groups) where group "y" is a tenth of the rows."""
    rng = np.random.default_rng(7)
    a, y = rng.choice(["x", "y"], 500, p=[0.9, 0.1]), rng.integers(0, 2, 500)
    X = rng.normal(size=(500, 2)) + np.column_stack([a == "x", y + (a == "x")])
    y = np.array(["no", "yes"])[y]
    model = OptFairPost(LogisticRegression(), criterion="eo", tolerance=0.02, cv=3, random_state=0)
    return model.fit(X, y, sensitive_features=a), X, y, a


# -- rows fitted on ------------------------------------------------------------------------------------------
def test_the_report_of_the_rows_fitted_on(blind_post):
    report = blind_post.report()
    text = str(report)
    for part in (
        "OptFairPost, dp within 0.05 of everybody, blind: 2 groups, 3 classes; 240 people fitted on, out of fold",
        "Certificate (on z(x), the estimates of P(A, Y | X), out of fold)",
        "upper bound",
        "Prices (accuracy gained per unit of tolerance)",
        "Price of determinism",
        "With labels, 240 people (gaps in percentage points;",
        "unconstrained, joint",
        "fair rule",
        "6 comparisons: ",
        "Took: models ",
        "(3 model fits)",
    ):
        assert part in text
    assert len(report.constraints) == 2 * 3
    prices = blind_post.multipliers_.groupby("group")["multiplier"].apply(lambda s: s.abs().sum())
    np.testing.assert_allclose(report.prices.set_index("group")["price"], prices)


def test_the_rows_fitted_on_are_measured_out_of_fold(blind_post):
    h = blind_post.rule_.predict_proba(out_of_fold_z(blind_post))
    plain, recalibrated, fair = blind_post.report().measured
    likeliest = blind_post.classes_[out_of_fold_z(blind_post).sum(axis=1).argmax(axis=1)]
    assert recalibrated.accuracy == pytest.approx(np.mean(likeliest == Y))
    assert fair.accuracy == pytest.approx(h[np.arange(N), np.searchsorted(blind_post.classes_, Y)].mean())
    assert fair.interval.value == pytest.approx(metrics.violation(Y, h, sensitive_features=SEX))
    assert fair.interval.lower <= fair.interval.value <= fair.interval.upper
    assert plain.interval.value > fair.interval.value


def test_the_report_names_models_rules_and_small_groups(small_group):
    model = small_group[0]
    report = model.report()
    text = str(report)
    assert "eo within 0.02 of everybody, blind: 2 groups, 2 classes; 500 people fitted on, out of fold" in text
    assert f"({model.n_base_fits_} model fits)" in text and model.n_base_fits_ == 4
    assert [one.name for one in report.measured] == ["unconstrained, joint", "recalibrated", "fair rule"]
    assert report.small["group"].tolist()[:2] == ["y", "y"]
    assert report.rule is model.rule_


def test_the_report_says_when_nothing_binds_and_which_cells_are_small(blind_post):
    assert "Prices: no constraint binds by the model's estimates; by these the rule costs nothing." in str(
        blind_post.with_tolerance(1.0).report()
    )
    small = str(blind_post.with_tolerance(0.01).report())
    sizes = SEX.value_counts()
    assert "Too few people to tell, since chance moves these comparisons by more than half of what is" in small
    assert f"f: {sizes['f']}" in small and f"m: {sizes['m']}" in small


# -- labelled rows that are given ----------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["blind_post", "aware_post", "undecided_post"])
def test_the_report_on_labelled_rows(name, request):
    model = request.getfixturevalue(name)
    w = np.random.default_rng(0).random(N)
    table = NEW[["x1", "x2", "sex"]] if name == "undecided_post" else X_NEW
    groups = {} if name == "undecided_post" else {"sensitive_features": SEX_NEW}
    report = model.report(table, Y_NEW, sample_weight=w, **groups)
    assert f"{N} people given" in str(report) and "Took" not in str(report) and "Certificate" not in str(report)
    measured = {one.name: one for one in report.measured}
    assert list(measured) == ["unconstrained, joint", "recalibrated", "fair rule", "decisions (hashed)"]
    asked = groups if name == "aware_post" else {}
    predictions = model.predict(table, **asked)
    assert measured["decisions (hashed)"].accuracy == pytest.approx(np.average(predictions == Y_NEW, weights=w))
    for label, prediction in (("decisions (hashed)", predictions), ("fair rule", model.predict_proba(table, **asked))):
        expected = metrics.violation(Y_NEW, prediction, sensitive_features=SEX_NEW, sample_weight=w)
        assert measured[label].interval.value == pytest.approx(expected)


def test_the_report_on_other_rows_measures_their_predictions(small_group):
    model, X, y, a = small_group
    report = model.report(X[:300], y[:300], sensitive_features=a[:300])
    accuracies = {one.name: one.accuracy for one in report.measured}
    assert list(accuracies) == ["unconstrained, joint", "recalibrated", "fair rule", "decisions (hashed)"]
    assert accuracies["decisions (hashed)"] == pytest.approx(np.mean(model.predict(X[:300]) == y[:300]))
    h = model.predict_proba(X[:300])
    assert accuracies["fair rule"] == pytest.approx(h[np.arange(300), (y[:300] == "yes").astype(int)].mean())
    assert "300 people given" in str(report)


def test_keys_in_a_report_are_those_of_predict(undecided_post):
    table, keys = NEW[["x1", "x2", "sex"]], np.arange(N)
    decided = undecided_post.report(table, Y_NEW, keys=keys).measured[3]
    assert decided.accuracy == pytest.approx(np.mean(undecided_post.predict(table, keys=keys) == Y_NEW))


def test_the_report_refuses_what_predict_refuses(blind_post):
    with pytest.raises(ValueError, match=r"^sensitive_features: missing"):
        blind_post.report(X, Y)
    with pytest.raises(ValueError, match=re.escape("y: 'z' is not in classes=['a', 'b', 'c']")):
        blind_post.report(X, np.full(N, "z"), sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^y: has 239 rows but X has 240"):
        blind_post.report(X, Y[:-1], sensitive_features=SEX)
    blind_post.report(X, Y, sensitive_features=SEX)  # a warning would be an error here


# -- parameters that change after fitting ----------------------------------------------------------------------
def test_the_report_is_about_what_was_fitted(tmp_path):
    """Parameters set later are for the next fit: the title, the table and a file say what the rule was solved for."""
    model = make_post().fit(X, Y, sensitive_features=SEX)
    before, table = model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW), model.multipliers_
    model.set_params(tolerance=0.5, criterion="eo", reference="pairwise")
    after = model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW)
    assert after.title == before.title and "dp within 0.05 of everybody" in after.title
    assert model.constraints_ == [Constraint("dp", 0.05)] and after.constraints.equals(before.constraints)
    assert model.multipliers_.equals(table)
    assert "dp within 0.05 of everybody" in model.report().title
    copy = pickle.loads(pickle.dumps(model))
    assert copy.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW).title == before.title
    pytest.importorskip("skops")
    model.save(tmp_path / "model.skops")
    assert load_model(tmp_path / "model.skops").report(X_NEW, Y_NEW, sensitive_features=SEX_NEW).title == before.title


def test_other_rules_report_what_they_were_solved_for():
    model = make_post().fit(X, Y, sensitive_features=SEX)
    assert "dp within 0.1 of everybody" in model.with_tolerance(0.1).report().title
    several = model.with_criterion({"dp": 0.1, "oae": 0.2})
    assert several.constraints_ == [Constraint("dp", 0.1), Constraint("oae", 0.2)]
    assert several.certificate_.tolerance == (0.1, 0.2)
    fitted = make_post(criterion={"dp": 0.1, "oae": 0.2}).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_allclose(fitted.certificate_.accuracy, several.certificate_.accuracy, atol=2e-3)
    with pytest.raises(ValueError, match=r"^tolerance: already set in the mapping of criteria to tolerances"):
        model.with_criterion({"dp": 0.1}, 0.2)


def test_a_report_leaves_out_people_of_groups_nobody_was_fitted_on():
    data = make_fair_classification(600, random_state=3)
    model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
    groups = np.asarray(data.sensitive_features, dtype=object).copy()
    groups[:5] = "new"
    with pytest.warns(OptFairWarning, match="5 of 600 rows are left out, because their groups were not seen in fit"):
        report = model.report(data.X, data.y, sensitive_features=groups, keys=range(600), sample_weight=np.ones(600))
    kept = model.report(data.X[5:], data.y[5:], sensitive_features=groups[5:], keys=range(5, 600))
    note = "  OF018 note: < 10 people are left out: their groups were not seen when the rule was fitted.\n"
    assert report.n_people == 595 and str(report).replace(note, "") == str(kept)
    groups[:] = "new"
    with pytest.raises(ValueError, match="'new' is not in the groups seen in fit"):
        model.report(data.X, data.y, sensitive_features=groups)


def test_no_answer_is_drawn_by_lot_where_decisions_are_the_likeliest():
    drawn, likeliest = (
        make_post(temperature=0.3, decision=decision).fit(X, Y, sensitive_features=SEX)
        for decision in ("hashed", "argmax")
    )
    given = {"X": X_NEW, "y": Y_NEW, "sensitive_features": SEX_NEW}
    for options in ({}, given):
        report = likeliest.report(**options)
        assert report.facts.judged.name == "decisions (argmax)" and report.to_dict()["undecided"] == 0
        assert not {finding.code for finding in report.findings} & {"OF014", "OF019"}
        assert "OF014" in {finding.code for finding in drawn.report(**options).findings}
    Z = np.asarray(likeliest._fitted.problem.posterior.draw(N).Z)
    share = np.mean(likeliest.classes_[likeliest.rule_.predict_proba(Z).argmax(axis=1)] == Y)
    assert likeliest.report().measured[-1].accuracy == pytest.approx(share)


def test_favourable_answers_are_named_by_whoever_reports(blind_post, tmp_path):
    favourable = [blind_post.classes_[1]]
    report = blind_post.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW, favourable=favourable)
    assert {line["class"] for line in report.to_dict()["favourable"]} == {str(favourable[0])}
    assert report.to_dict()["impact"] and not blind_post.report().to_dict()["favourable"]
    assert blind_post.report(favourable=favourable).to_dict()["favourable"]  # of the people fitted on too
    with pytest.raises(ValueError, match=r"^favourable=\['nothing'\]: 'nothing' is not a class; "):
        blind_post.report(favourable=["nothing"])
