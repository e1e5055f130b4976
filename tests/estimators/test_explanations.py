"""Test explanations by classifiers: the answers of `predict`, sums for every kind of model, paths, flips and files."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from optfair import (
    Constraint,
    MinimumRate,
    ModelFileError,
    OptFairIn,
    OptFairInPost,
    OptFairPost,
    Ratio,
    Rows,
    load_model,
)
from optfair.errors import InfeasibleError, OptFairWarning
from optfair.estimators.explanations import NO_PATH
from optfair.estimators.saving import save_model
from optfair.inputs.identity import row_bytes
from optfair.posteriors.models import likeliest_classes
from optfair.rule.decisions import uniforms
from optfair.utils.parallel import one_blas_thread
from tests.estimators.helpers import (
    FRAME,
    NEW,
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    X,
    Y,
    assert_error,
    make_people,
    make_post,
)
from tests.threads import single_thread

# That columns of other names are left out is said in a warning, which test_missing.py of the estimators looks at.
pytestmark = pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out")

COSTS = np.array([[0, 1, 4], [1, 0, 1], [2, 1, 0]])
BOTH = FRAME[["sex", "old"]]


def fit(**options):
    return make_post(**options).fit(X, Y, sensitive_features=SEX)


MODELS = {
    "blind": lambda: fit(),
    "factored": lambda: fit(posterior="factored"),
    "not calibrated": lambda: fit(calibration="none"),
    "a fitted model": lambda: fit(estimator=FrozenEstimator(LogisticRegression().fit(X_NEW, Y_NEW))),
    "costs": lambda: fit(costs=COSTS),
    "undecided": lambda: fit(temperature=0.3),
    "argmax": lambda: fit(decision="argmax"),
    "pairwise": lambda: fit(criterion="eo", reference="pairwise", tolerance=0.2),
    "ratio beside a criterion": lambda: fit(criterion=[Ratio("dp", 0.5), Constraint("oae", 0.1)]),
    "intersections": lambda: make_post(tolerance=0.2).fit(X, Y, sensitive_features=BOTH),
    "marginals": lambda: make_post(attributes="marginals").fit(X, Y, sensitive_features=BOTH),
    "folds": lambda: fit(estimator=DecisionTreeClassifier(max_depth=3, random_state=0), ensemble=True),
    "column of X": lambda: make_post(sensitive_features="sex").fit(FRAME[["x1", "x2", "sex"]], Y),
    "aware": lambda: fit(awareness="aware"),
    "aware, unseen groups": lambda: fit(awareness="aware", unseen="blind"),
}


@pytest.fixture(scope="module")
def fitted():
    """Return a function that fits each of the models once."""
    models = {}

    def get(name):
        if name not in models:
            with single_thread(), one_blas_thread():
                models[name] = MODELS[name]()
        return models[name]

    return get


@pytest.fixture(scope="module")
def promised():
    """Return a model that is promised to new people, by the mixture of the rules of its folds."""
    frame, y = make_people(3000, m=2)
    model = make_post(tolerance=0.08, confidence=0.9, unpromised="mix", ensemble=True)
    with single_thread(), one_blas_thread():
        return model.fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])


def arguments(name):
    """What `predict` is asked with."""
    if name == "column of X":
        return NEW[["x1", "x2", "sex"]], {}
    groups = SEX_NEW.where(np.arange(len(SEX_NEW)) % 7 > 0, "x") if "unseen" in name else SEX_NEW
    return X_NEW, {"sensitive_features": groups} if name.startswith("aware") else {}


# -- sums and answers ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_predict_and_parts_add_up(name, fitted):
    model, (rows, groups) = fitted(name), arguments(name)
    explanation = model.explain(rows, **groups)
    table = explanation.table
    np.testing.assert_array_equal(table["answer"], model.predict(rows, **groups))
    h, codes = model.predict_proba(rows, **groups), np.searchsorted(model.classes_, table["answer"].to_list())
    np.testing.assert_array_equal(table["probability"], h[np.arange(len(h)), codes])
    scores = model.joint_posterior(rows, **groups).reshape(len(h), -1) @ model.rule_.weights.reshape(-1, 3)
    against = np.searchsorted(model.classes_, table["against"].to_list())
    margin = scores[np.arange(len(h)), codes] - scores[np.arange(len(h)), against]
    np.testing.assert_allclose(table["margin"], margin, rtol=0, atol=1e-9)
    np.testing.assert_allclose(table["preference"] + explanation.parts.sum(axis=1), margin, rtol=0, atol=1e-9)
    assert table["tolerance_other"].notna().any()
    assert (table["answer"] != table["plain"]).any()


def test_a_promised_mixture_of_folds(promised):
    assert promised.promise_ is not None and promised.fold_models_
    explanation = promised.explain(X_NEW)
    np.testing.assert_array_equal(explanation.table["answer"], promised.predict(X_NEW))
    table = explanation.table
    np.testing.assert_allclose(table["preference"] + table["constraints"], table["margin"], rtol=0, atol=1e-9)
    assert any(
        "rules without the promise, for which the rule in use was tightened" in note for note in explanation.notes
    )
    flips = [text for text in explanation.sentences if "it would be" in text.rpartition(". ")[2]]
    assert flips and all("and no promise it would be" in text for text in flips)


def test_a_promised_rule_that_is_mixed_with_a_constant(promised):
    with pytest.warns(OptFairWarning, match="hardly anybody"):
        mixed = promised.with_tolerance(0.002)
    assert mixed.rule_.share > 0.05 and mixed.path_ is promised.path_
    explanation = mixed.explain(X_NEW)
    table = explanation.table
    np.testing.assert_array_equal(table["answer"], mixed.predict(X_NEW))
    np.testing.assert_allclose(table["preference"] + table["constraints"], table["margin"], rtol=0, atol=1e-9)
    assert any("of all answers are drawn from fixed probabilities" in note for note in explanation.notes)


def test_the_answers_without_constraints(fitted):
    """The model itself, its calibrated probabilities, and what costs least."""
    model = fitted("factored")
    table = model.explain(X_NEW).table
    own, calibrated = model._posteriors_of(X_NEW, None)
    np.testing.assert_array_equal(table["model"], model.classes_[likeliest_classes(own)])
    np.testing.assert_array_equal(table["plain"], model.classes_[calibrated.sum(axis=1).argmax(axis=1)])
    table = fitted("a fitted model").explain(X_NEW).table
    box = LogisticRegression().fit(X_NEW, Y_NEW)
    np.testing.assert_array_equal(table["model"], box.predict(X_NEW))
    np.testing.assert_array_equal(table["plain"], table["model"])  # its classes are not recalibrated
    model = fitted("costs")
    expected = model.joint_posterior(X_NEW).sum(axis=1) @ COSTS
    np.testing.assert_array_equal(model.explain(X_NEW).table["plain"], model.classes_[expected.argmin(axis=1)])


def test_draws_are_those_of_predict(fitted):
    """By the bytes of the row without its groups, or by keys; the same secret."""
    model = fitted("undecided")
    table = model.explain(X_NEW, path=False).table
    drawn = table["draw"].notna()
    assert drawn.mean() > 0.5
    expected = uniforms(model.rule_.key, row_bytes(X_NEW))
    np.testing.assert_array_equal(table["draw"][drawn], expected[drawn])
    keys = [f"id {k}" for k in range(len(X_NEW))]
    by_key = model.explain(X_NEW, keys=keys, path=False).table
    np.testing.assert_array_equal(by_key["answer"], model.predict(X_NEW, keys=keys))
    assert (by_key["draw"] != table["draw"])[drawn].all()
    inside = (by_key["draw_low"] <= by_key["draw"]) & (by_key["draw"] < by_key["draw_high"])
    assert inside[by_key["draw"].notna()].all()


def test_one_person_in_every_form(fitted):
    model, table = fitted("blind"), fitted("blind").explain(X_NEW).table
    record = X_NEW.iloc[3].to_dict()
    for rows in (record, [record], X_NEW.iloc[[3]], pd.DataFrame([record | {"further": 1}])):
        explanation = model.explain(rows)
        assert len(explanation) == 1
        pd.testing.assert_frame_equal(explanation.table, table.iloc[[3]].reset_index(drop=True).rename_axis("person"))


def test_nobody_is_refused_as_by_predict(fitted):
    for ask in (fitted("blind").predict, fitted("blind").explain):
        with pytest.raises(ValueError, match="X: has no rows; give at least one"):
            ask(X_NEW.iloc[:0])


def test_row_labels_do_not_matter(fitted):
    model = fitted("blind")
    shuffled = X_NEW.set_axis(X_NEW.index[::-1], axis=0)
    pd.testing.assert_frame_equal(model.explain(shuffled).table, model.explain(X_NEW).table)


def test_arguments_are_checked(fitted):
    model = fitted("blind")
    message = "sensitive_features: a blind rule does not use it; leave it out, or fit with awareness='aware'."
    assert_error(message, model.explain, X_NEW, sensitive_features=SEX_NEW)
    assert_error("keys: 1 given for 240 rows; give one key per row.", model.explain, X_NEW, keys=[1])
    with pytest.raises(ValueError, match=r"^sensitive_features: "):
        fitted("aware").explain(X_NEW, sensitive_features=["x"] * len(X_NEW))
    with pytest.raises(ValueError, match="not fitted yet"):
        make_post().explain(X_NEW)


# -- words ---------------------------------------------------------------------------------------------------
def test_only_a_blind_rule_says_that_it_does_not_know_the_group(fitted):
    for name in ("blind", "aware"):
        rows, groups = arguments(name)
        explanation = fitted(name).explain(rows, **groups)
        changes = explanation.table["answer"] != explanation.table["plain"]
        texts = [text for text, change in zip(explanation.sentences, changes, strict=True) if change]
        says = ["The rule does not know the person's group" in text for text in texts if "What moved it most" in text]
        assert says and all(says) == any(says) == (name == "blind")


def test_both_groups_of_a_pair_are_named(fitted):
    explanation = fitted("pairwise").explain(X_NEW)
    words = explanation.row_words()
    assert words and all("among “f” whose true class is" in text and "against “m”" in text for text in words)
    assert any(text in sentence for text in words for sentence in explanation.sentences)


def test_the_model_is_named_where_it_says_something_else(fitted):
    explanation = fitted("costs").explain(X_NEW)
    table = explanation.table
    for k in np.flatnonzero(table["model"] != table["plain"])[:5]:
        assert f"(the model itself: “{table['model'][k]}”)" in explanation.sentences[k]
    assert (table["model"] != table["plain"]).any()
    same = explanation[int(np.flatnonzero(table["model"] == table["plain"])[0])]
    assert "the model itself" not in same.sentences[0]


def test_what_is_sampled(fitted):
    model = copy.copy(fitted("undecided")).set_params(decision="sampled")
    explanation = model.explain(X_NEW, path=False)
    assert "no answer can be reproduced" in explanation.notes[0]
    np.testing.assert_array_equal(explanation.table["answer"], model.set_params(decision="argmax").predict(X_NEW))


# -- the path ------------------------------------------------------------------------------------------------
def test_a_path_is_computed_once_and_at_need():
    model = fit()
    assert model.path_ is None
    repr(model), model._repr_html_(), dir(model)  # scikit-learn looks at every attribute
    assert model.path_ is None
    model.explain(X_NEW, path=False)
    assert model.path_ is None
    model.explain(X_NEW)
    path = model.path_
    assert path is model.path() and len(path.rules) == 20 and {rule.key for rule in path.rules} == {model.rule_.key}
    assert model.path(5) is model.path_ and len(model.path_.rules) == 5
    assert model.path([0.1, 0.2]).table["tolerance"].tolist() == [0.2, 0.1]
    model.fit(X, Y, sensitive_features=SEX)
    assert model.path_ is None and not hasattr(clone(model), "path_")


def test_a_path_is_that_of_frontier(fitted):
    model = fitted("blind")
    tolerances = model.path().table["tolerance"].tolist()
    same = model.frontier(tolerances)
    np.testing.assert_allclose(model.path().table["accuracy"], same.table["accuracy"], atol=2e-4)
    assert all(t == float(f"{t:.4g}") for t in tolerances)


@pytest.mark.parametrize("tolerances", [1, 0, True, [], "many", [2.0]])
def test_bad_tolerances_of_a_path(tolerances, fitted):
    with pytest.raises(ValueError, match=r"^tolerances=.*: must be "):
        fitted("undecided").path(tolerances)


def test_flips_are_those_of_with_tolerance(fitted):
    """Solved again, a rule differs a little: who is decided under both gets the same answer, and most others do."""
    model, rows = fitted("blind"), make_people(2000, seed=5)[0][["x1", "x2"]]
    table, Z = model.explain(rows).table, model.joint_posterior(rows)
    tolerances, n_flips = model.path_.table["tolerance"].tolist(), table["tolerance_other"].count()
    n_clear = n_same = 0
    for tolerance in table["tolerance_other"].dropna().unique():
        other = model.with_tolerance(tolerance)
        people = np.flatnonzero(table["tolerance_other"] == tolerance)
        clear = np.ones(len(people), dtype=bool)
        for rule in (other.rule_, model.path_.rules[tolerances.index(tolerance)]):
            clear &= rule.predict_proba(Z[people]).max(axis=1) > 0.99
        agrees = other.predict(rows)[people] == table["answer_other"].to_numpy()[people]
        assert agrees[clear].all()
        n_clear, n_same = n_clear + clear.sum(), n_same + agrees.sum()
    assert n_clear > 100 and n_same > 0.8 * n_flips


def test_flips_of_people_who_are_drawn_for_use_the_same_number(fitted):
    model = fitted("undecided")
    table = model.explain(X_NEW).table
    Z = model.joint_posterior(X_NEW)
    for k in np.flatnonzero(table["tolerance_other"].notna() & table["draw"].notna())[:30]:
        at = model.path_.table["tolerance"].tolist().index(table["tolerance_other"][k])
        h = model.path_.rules[at].predict_proba(Z[k : k + 1])[0]
        assert table["answer_other"][k] == model.classes_[(table["draw"][k] >= np.cumsum(h)).sum()]


def test_who_shares_a_path(fitted):
    model = fitted("blind")
    path = model.path()
    assert model.with_tolerance(0.1).path_ is path
    assert model.with_tolerance({"f": 0.1}).path_ is None
    assert model.with_criterion("oae", 0.1).path_ is None
    assert model.with_people(X_NEW).path_ is None
    looser = model.with_tolerance(0.1)
    assert "instead of 0.1" in " ".join(looser.explain(X_NEW).sentences)


def test_constraints_without_a_tolerance_have_no_path():
    cases = {
        "a frontier needs a criterion with a tolerance": {"criterion": MinimumRate("recall", 0.4)},
        "a tolerance per group does not move along a frontier": {"criterion": Constraint("dp", {"f": 0.05})},
    }
    for words, options in cases.items():
        model = fit(**options)
        explanation = model.explain(X_NEW)
        assert explanation.table["tolerance_other"].isna().all()
        assert explanation.notes[-1].startswith(f"At which tolerance an answer would be another is not known: {words}")
        with pytest.raises(ValueError, match=f"^criterion: {words}"):
            model.path()


def test_constraints_that_need_a_large_tolerance_have_no_path():
    """The answer "c" for one group and hardly for the other: the gap is larger than that without constraints."""
    D = np.zeros((2, 2, 3, 3))
    D[0, 0, :, 2] = D[1, 1, :, 2] = 1
    rows = Rows(D, lower=[-np.inf, 0.4], upper=[0.02, np.inf])
    model = fit(criterion=[Constraint("dp", 0.95), rows], awareness="aware")
    explanation = model.explain(X_NEW, sensitive_features=SEX_NEW)
    assert explanation.notes[-1].endswith("not known: the other constraints allow no rule with a smaller tolerance.")
    assert "the constraint “row 1”" in " ".join(explanation.sentences) and model.path_ is None
    with pytest.raises(InfeasibleError):
        model.path()


def test_a_model_without_posteriors_says_how_to_get_a_path(fitted):
    for model in (fit(keep_posteriors=False), copy.deepcopy(fit()), fitted("blind").with_people(X_NEW)):
        explanation = model.explain(X_NEW)
        assert explanation.notes[-1] == NO_PATH and explanation.table["tolerance_other"].isna().all()
        assert not any("tolerance" in text for text in explanation.sentences)
        with pytest.raises(ValueError, match=r"^the out-of-fold posteriors are not available"):
            model.path()


def test_set_params_does_not_change_what_is_explained():
    model = fit()
    before = model.explain(X_NEW).table
    model.set_params(criterion="eo", tolerance=0.4)
    model.path_ = None
    pd.testing.assert_frame_equal(model.explain(X_NEW).table, before)


# -- files ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_explains_as_the_saved_one(name, fitted, tmp_path):
    pytest.importorskip("skops")
    model, (rows, groups) = fitted(name), arguments(name)
    explanation = model.explain(rows, **groups)
    model.save(tmp_path / "model.skops")
    trusted = ["sklearn.tree._tree.Tree"] if name == "folds" else []
    other = load_model(tmp_path / "model.skops", trusted=trusted)
    for duplicate in (other, pickle.loads(pickle.dumps(model))):
        same = duplicate.explain(rows, **groups)
        pd.testing.assert_frame_equal(same.table, explanation.table, rtol=0, atol=1e-12)
        assert same.sentences == explanation.sentences and same.notes == explanation.notes
    pd.testing.assert_frame_equal(other.path_.table, model.path_.table)
    np.testing.assert_allclose(
        other.rule_.terms.weights().reshape(model.rule_.weights.shape), model.rule_.weights, rtol=0, atol=1e-9
    )
    assert {rule.key for rule in other.path_.rules} == {model.rule_.key}


def test_the_path_holds_no_key(fitted, tmp_path):
    pytest.importorskip("skops")
    model = fitted("blind")
    model.path()
    model.save(tmp_path / "model.skops")
    assert model.rule_.key.hex().encode() not in (tmp_path / "model.skops").read_bytes()
    (tmp_path / "model.skops.key").unlink()
    locked = load_model(tmp_path / "model.skops")
    assert {rule.key for rule in locked.path_.rules} == {None}
    locked.set_params(decision="argmax").explain(X_NEW)


def test_groups_that_json_cannot_name_are_pickled_with_their_path():
    age = pd.cut(pd.Series(np.arange(len(X)) % 60), [-1, 20, 40, 60])
    model = make_post(tolerance=0.2).fit(X, Y, sensitive_features=age)
    table = model.explain(X_NEW).table
    other = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(other.explain(X_NEW).table, table)


FORGERIES = {
    "a path of something else": lambda state: state.update(path_=3),
    "a path that is no JSON": lambda state: state["path_"].update(json="{"),
    "a path that is very deep": lambda state: state["path_"].update(json="[" * 100_000),
    "a path without rules": lambda state: change_path(state, lambda path: path.update(rules=[])),
    "tolerances that rise": lambda state: change_path(state, lambda path: path["table"]["tolerance"].reverse()),
    "other classes": lambda state: change_path(state, lambda path: path["common"]["classes"].update(labels=[1, 2, 3])),
    "an infinite weight": lambda state: change_path(
        state, lambda path: path["rules"][0]["weights"][0][0].__setitem__(0, 10**400)
    ),
    "an index outside": lambda state: change_path(
        state, lambda path: path["common"]["terms"]["hits"]["column"].__setitem__(0, 10**9)
    ),
    "a rule whose terms are others": lambda state: change_rule(
        state, lambda rule: rule["terms"].update(rate_weights=[5.0] * len(rule["terms"]["rate_weights"]))
    ),
}


def change_path(state, change):
    content = json.loads(state["path_"]["json"])
    change(content)
    state["path_"] = {"json": json.dumps(content)}


def change_rule(state, change):
    content = json.loads(state["rule_"]["json"])
    change(content)
    state["rule_"] = state["rule_"] | {"json": json.dumps(content)}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused(name, fitted, tmp_path, monkeypatch):
    pytest.importorskip("skops")
    model, original = fitted("blind"), OptFairPost.__getstate__
    model.path()

    def forged(self):
        state = original(self)
        FORGERIES[name](state)
        return state

    monkeypatch.setattr(OptFairPost, "__getstate__", forged)
    save_model(model, tmp_path / "model.skops")
    with pytest.raises(
        ModelFileError, match=r"^model\.skops: a part of the model is missing or malformed \("
    ) as caught:
        load_model(tmp_path / "model.skops")
    assert "\n" not in str(caught.value)


# -- other classifiers ---------------------------------------------------------------------------------------
def test_in_processing_says_what_can_explain():
    assert_error(
        "explain: OptFairIn answers by a vote of trained models, whose scores are no sums of constraint terms; use "
        "OptFairPost, or OptFairInPost for a rule on top of such a training.",
        OptFairIn().explain,
        X_NEW,
    )


def test_in_then_post_delegates():
    frame, y = make_people(600)
    model = OptFairInPost(OptFairIn(start="zero", tolerance=0.05, random_state=0), threshold=0.3, random_state=0)
    model.fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
    assert model.path(4) is model.post_.path_
    explanation = model.explain(X_NEW, keys=range(len(X_NEW)))
    np.testing.assert_array_equal(explanation.table["answer"], model.predict(X_NEW, keys=range(len(X_NEW))))
    assert len(explanation.setting.tolerances) == 4
