"""Fair classifiers for people in folders: the models are those of a sample, the rule is of everybody."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import optfair
from optfair import OptFairPost, ScoreColumns, load_model
from optfair.estimators.folders import sample_rows, without_rows
from optfair.storage.engines import Threads
from optfair.storage.measure import PartMeasure
from optfair.storage.parts import PartError
from optfair.storage.tables import find_table
from tests.estimators.folder_people import (
    FEATURES,
    PEOPLE,
    SAMPLE,
    N,
    keep_in_files,
    make_post,
    table_of_people,
    write_people,
)
from tests.estimators.helpers import NOT_AVAILABLE, X_NEW, Y_NEW, Prefit, X, Y, assert_error, assert_same_predictions
from tests.problems import confusion

pytest.importorskip("pyarrow", reason="people are in Parquet files")

CLASSIFIER = LogisticRegression().fit(X_NEW, Y_NEW)
KEYWORDS = {"tolerance": 0.03, "cv": 2, "random_state": 0}
ROLES = {"y": "y", "sensitive_features": "sex"}


@pytest.fixture(autouse=True)
def rows_in_files(monkeypatch):
    keep_in_files(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people") / "all", PEOPLE)


def assert_same_rule(model, other):
    """Check that two models have the same rule, bit by bit, and the same key."""
    for name in ("weights", "temperatures"):
        np.testing.assert_array_equal(getattr(model.rule_, name), getattr(other.rule_, name))
    np.testing.assert_array_equal(model.multipliers_["multiplier"], other.multipliers_["multiplier"])
    assert model.rule_.key == other.rule_.key
    assert model.certificate_.accuracy == other.certificate_.accuracy


def assert_optimal(model, table=PEOPLE, features=FEATURES, groups=None, weight=None):
    """Check the rule against another solve, of all rows in memory, and its certificate against their sums."""
    assert isinstance(model._fitted.problem.posterior, PartMeasure)
    w = None if weight is None else table[weight].to_numpy()
    told = {} if groups is None else {"sensitive_features": table[groups]}
    Z = model.joint_posterior(table[features], **told)
    names = {"groups": model.groups_, "classes": model.classes_}
    other = optfair.solve(Z, model.constraints_, sample_weight=w, random_state=0, n_jobs=1, **names).certificate
    own = model.certificate_
    assert own.gap <= 1e-4 and own.upper_bound == pytest.approx(other.upper_bound, abs=2e-4)
    h = model.rule_.predict_proba(Z)
    J = confusion(Z, h, w)
    assert own.accuracy == pytest.approx(np.einsum("aii->", J), abs=1e-6)
    rows = model._fitted.problem.rows
    values, slack = rows.matrix(J.sum(axis=2)) @ J.ravel(), 1e-5
    assert (values <= rows.upper + slack).all() and (values >= rows.lower - slack).all()
    return Z


# -- fitting: few people, whom the sample holds ------------------------------------------------------------------
@pytest.mark.parametrize(
    "case",
    {
        "blind": ({}, ROLES, {}),
        "fitted": ({"estimator": FrozenEstimator(CLASSIFIER)}, ROLES, {}),
        "aware": ({"awareness": "aware", "criterion": "eo"}, ROLES, {}),
        "weights": ({}, ROLES | {"sample_weight": "w", "cluster": "id"}, {}),
        "intersections": ({"tolerance": 0.1}, ROLES | {"sensitive_features": ["sex", "old"]}, {}),
        "in X": ({"sensitive_features": "sex"}, {"y": "y"}, {"features": [*FEATURES, "sex"]}),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_sample_of_everybody_is_fit(folder, case):
    _, (options, roles, named) = case
    features = named.get("features", FEATURES)
    model = make_post(**options).fit_parts(folder, **roles, features=features, sample=N)
    columns = {name: PEOPLE[column] for name, column in roles.items() if name != "y"}
    other = make_post(**options).fit(PEOPLE[features], PEOPLE["y"], **columns)
    assert_same_rule(model, other)
    told = {"sensitive_features": PEOPLE["sex"]} if model._asks_for_groups() else {}
    assert_same_predictions(model, other, PEOPLE[features], **told)


def test_the_default_model_reads_texts_and_gaps(folder):
    features = [*FEATURES, "code"]
    model = OptFairPost(**KEYWORDS).fit_parts(folder, **ROLES, features=features, sample=N)
    other = OptFairPost(**KEYWORDS).fit(PEOPLE[features], PEOPLE["y"], sensitive_features=PEOPLE["sex"])
    assert_same_rule(model, other)


def test_categories_of_files_are_texts(tmp_path):
    """Files number their categories each in its own way; the models see what they stand for."""
    features = [*FEATURES, "code"]
    folder = write_people(tmp_path / "all", PEOPLE, dictionaries=["code", "sex", "y"])
    model = OptFairPost(**KEYWORDS).fit_parts(folder, **ROLES, features=features, sample=N)
    other = OptFairPost(**KEYWORDS).fit(PEOPLE[features], PEOPLE["y"], sensitive_features=PEOPLE["sex"])
    assert_same_rule(model, other)
    smaller = OptFairPost(**KEYWORDS).fit_parts(folder, **ROLES, features=features, sample=SAMPLE)
    assert_optimal(smaller, features=features)


# -- fitting: everybody ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
@pytest.mark.parametrize("estimator", [FrozenEstimator(CLASSIFIER), None], ids=["fitted", "unfitted"])
def test_the_rule_is_of_everybody(folder, estimator, criterion):
    model = make_post(estimator, criterion=criterion).fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    assert_optimal(model)
    assert model._fitted.labelled.n == SAMPLE


def test_the_models_are_those_of_a_fit_to_the_sample(folder):
    model = make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    rows = sample_rows(find_table(folder), ["id"], SAMPLE, 0, Threads())["id"]
    assert rows.is_monotonic_increasing and rows.is_unique and len(rows) == SAMPLE
    people = PEOPLE.set_index("id").loc[rows].reset_index()
    other = make_post().fit(people[FEATURES], people["y"], sensitive_features=people["sex"])
    np.testing.assert_array_equal(model.joint_posterior(PEOPLE[FEATURES]), other.joint_posterior(PEOPLE[FEATURES]))
    assert model.rule_.key == other.rule_.key
    assert (model.rule_.weights != other.rule_.weights).any()


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_aware_rules_are_told_the_groups_of_everybody(folder, criterion):
    model = make_post(awareness="aware", criterion=criterion)
    Z = assert_optimal(model.fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE), groups="sex")
    assert (Z.sum(axis=2).max(axis=1) > 1 - 1e-9).all()


def test_weights_count(folder):
    model = make_post().fit_parts(folder, **ROLES, features=FEATURES, sample_weight="w", sample=SAMPLE)
    assert_optimal(model, weight="w")


@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_intersections_of_two_columns(folder, awareness):
    groups = ["sex", "old"]
    model = make_post(awareness=awareness, tolerance=0.05)
    model.fit_parts(folder, y="y", sensitive_features=groups, features=FEATURES, sample=2 * SAMPLE)
    assert list(model.groups_.names) == groups and len(model.groups_) == 4
    assert_optimal(model, groups=groups if awareness == "aware" else None)


@pytest.mark.parametrize("awareness", ["blind", "aware"])
def test_groups_among_the_features(folder, awareness):
    model = make_post(sensitive_features="sex", awareness=awareness)
    estimator = None if awareness == "blind" else make_encoded()
    model.set_params(estimator=estimator)
    model.fit_parts(folder, y="y", features=[*FEATURES, "sex"], sample=SAMPLE)
    assert_optimal(model, features=[*FEATURES, "sex"])


def make_encoded():
    """Return a logistic regression that reads texts too."""
    return make_pipeline(optfair.TableEncoder(), LogisticRegression())


def test_scores_that_stand_in_columns(tmp_path):
    P = CLASSIFIER.predict_proba(PEOPLE[FEATURES])
    names = [f"p_{name}" for name in CLASSIFIER.classes_]
    table = PEOPLE.assign(**dict(zip(names, P.T, strict=True)))
    folder = write_people(tmp_path / "all", table)
    scores = ScoreColumns(names, CLASSIFIER.classes_.tolist())
    model = make_post(scores).fit_parts(folder, **ROLES, features=names, sample=SAMPLE)
    Z = assert_optimal(model, table, names)
    np.testing.assert_allclose(Z.sum(axis=1), P, atol=1e-9)  # of a model that is only asked, P(Y|X) stays


def test_a_fitted_model_of_the_user_is_never_cloned(folder):
    model = make_post(Prefit(CLASSIFIER), cv="prefit")
    model.fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    assert_optimal(model)


@pytest.mark.parametrize("missing", ["group", "infer"])
def test_missing_groups(tmp_path, missing):
    unknown = np.random.default_rng(1).random(N) < 0.2
    table = PEOPLE.assign(sex=PEOPLE["sex"].where(~unknown, None))
    folder = write_people(tmp_path / "all", table)
    model = make_post(missing=missing).fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    assert len(model.groups_) == (3 if missing == "group" else 2)
    assert (model.n_unknown_ > 0) == (missing == "infer")
    assert_optimal(model, table)
    if missing == "group":
        told = make_post(missing=missing, awareness="aware")
        told.fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
        assert_optimal(told, table, groups="sex")


def test_texts_with_gaps_by_the_default_model(folder):
    features = [*FEATURES, "code"]
    model = OptFairPost(**KEYWORDS).fit_parts(folder, **ROLES, features=features, sample=SAMPLE)
    assert_optimal(model, features=features)


@pytest.mark.parametrize("cut", [(1, 10_000), (1, 300), (7, 999)], ids=str)
def test_it_does_not_matter_how_rows_are_cut_into_files(folder, tmp_path, cut):
    other = write_people(tmp_path / "cut", PEOPLE, *cut)
    models = [make_post().fit_parts(f, **ROLES, features=FEATURES, sample=SAMPLE) for f in (folder, other)]
    Z = [model.joint_posterior(PEOPLE[FEATURES]) for model in models]
    np.testing.assert_array_equal(*Z)  # the same people are drawn
    accuracies, bounds = zip(*((m.certificate_.accuracy, m.certificate_.upper_bound) for m in models), strict=True)
    assert max(accuracies) <= min(bounds) + 1e-9


def test_many_numbers_are_kept_in_single_precision(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("optfair.estimators.folders.SINGLE_PRECISION_NUMBERS", 6 * N - 1)
    model = make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE, cache=tmp_path / "cache")
    assert model._fitted.problem.posterior.dtype == np.float32
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) == N * 6 * 4
    assert_optimal(model)
    monkeypatch.setattr("optfair.estimators.folders.SINGLE_PRECISION_NUMBERS", 6 * N)
    model = make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    assert model._fitted.problem.posterior.dtype == np.float64


@pytest.mark.slow
def test_so_many_rows_that_they_stay_in_files_by_themselves(tmp_path, monkeypatch):
    monkeypatch.undo()
    table = table_of_people(60_000, seed=3)
    folder = write_people(tmp_path / "all", table, 4, 6_000)
    for options, groups in (({}, None), ({"awareness": "aware", "criterion": "eo"}, "sex")):
        model = make_post(**options).fit_parts(folder, **ROLES, features=FEATURES, sample=5_000)
        assert_optimal(model, table, groups=groups)


# -- the cache, processes ----------------------------------------------------------------------------------------
class Counted:
    """A function X -> probabilities that counts the rows it is asked about."""

    classes_ = CLASSIFIER.classes_

    def __init__(self):
        self.n_rows = 0

    def __call__(self, X):
        self.n_rows += len(X)
        return CLASSIFIER.predict_proba(X[FEATURES])


def test_with_a_cache_a_model_is_asked_once(folder, tmp_path):
    counts, models = [], []
    sample = sample_rows(find_table(folder), [*FEATURES, "y", "sex"], SAMPLE, 0, Threads())
    counted = Counted()
    make_post(counted).fit(sample[FEATURES], sample["y"], sensitive_features=sample["sex"])
    n_fit = counted.n_rows
    for cache in (None, tmp_path / "cache"):
        counted = Counted()
        models.append(make_post(counted, n_jobs=1))
        models[-1].fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE, cache=cache)
        counts.append(counted.n_rows)
    assert_same_rule(*models)
    assert counts[1] == n_fit + N and counts[0] >= n_fit + 5 * N
    counted.n_rows = 0
    models[1].with_tolerance(0.1)
    assert counted.n_rows == 0


def test_a_cache_is_used_again_by_the_same_models(folder, tmp_path):
    roles = {**ROLES, "features": FEATURES, "sample": SAMPLE, "cache": tmp_path / "cache"}
    make_post().fit_parts(folder, **roles)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    make_post(tolerance=0.1, criterion="dp").fit_parts(folder, **roles)
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    make_post(calibration="none").fit_parts(folder, **roles)
    assert len(list((tmp_path / "cache").iterdir())) == 2 * len(files)


def test_a_cache_keeps_attributes_and_weights_apart(tmp_path):
    """One fitted model, and groups and weights that are features too: nothing but their roles differs."""
    table = PEOPLE.assign(sex=(PEOPLE["sex"] == "f") * 1.0, old=(PEOPLE["x2"] > 0) * 1.0, w2=4 - PEOPLE["w"])
    features = [*FEATURES, "sex", "old", "w", "w2"]
    model = LogisticRegression(max_iter=1000).fit(table[features], table["y"])
    folder = write_people(tmp_path / "all", table)
    for attribute, weight in (("sex", "w"), ("old", "w"), ("old", "w2")):
        rules = []
        for cache in (None, tmp_path / "cache"):
            post = make_post(FrozenEstimator(model), awareness="aware", sensitive_features=attribute)
            roles = {"y": "y", "sample_weight": weight, "features": features, "sample": SAMPLE}
            rules.append(post.fit_parts(folder, **roles, cache=cache))
        assert_same_rule(*rules)


def test_processes_give_the_same_bit_by_bit(folder, tmp_path):
    pytest.importorskip("cloudpickle", reason="functions are sent by it")
    roles = ROLES | {"features": FEATURES, "sample": SAMPLE, "sample_weight": "w"}
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        for options in ({}, {"awareness": "aware", "estimator": FrozenEstimator(CLASSIFIER)}):
            here = make_post(**options).fit_parts(folder, **roles)
            there = make_post(**options).fit_parts(folder, **roles, client=executor)
            assert_same_rule(here, there)
            assert_same_rule(here.with_tolerance(0.1), there.with_tolerance(0.1))
        told = {"sensitive_features": "sex", "keys": "id", "probabilities": True}
        results = [there.score_parts(folder, tmp_path / "there", **told, client=executor)]
        results.append(here.score_parts(folder, tmp_path / "here", **told))
    assert [result.n_rows for result in results] == [N, N]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "here"), pd.read_parquet(tmp_path / "there"))


def test_what_is_sent_holds_nobody(folder):
    """The sizes of what a worker gets, and of files, do not depend on how many people there are."""
    models = [make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=n) for n in (SAMPLE, 4 * SAMPLE)]
    sizes = [len(pickle.dumps(model)) for model in models]
    assert abs(sizes[0] - sizes[1]) < 400 and max(sizes) < 30_000  # of more people, more texts are shared by ten
    for model in models:
        assert without_rows(model)._fitted is None and model._fitted is not None
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert getattr(other, "_fitted", None) is None
            np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
            assert_error(NOT_AVAILABLE, other.with_tolerance, 0.1)


# -- afterwards --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def post(folder):
    """Return a model fitted to the folder, of rows that stay in files."""
    with pytest.MonkeyPatch.context() as patch:
        keep_in_files(patch)
        return make_post(criterion="eo").fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)


def test_other_tolerances_and_criteria(post):
    for other in (post.with_tolerance(0.1), post.with_criterion("dp", 0.05)):
        assert_optimal(other)
        assert other.rule_.key == post.rule_.key
    assert post.with_tolerance(0.1).certificate_.accuracy > post.certificate_.accuracy


def test_frontiers_and_paths(post):
    frontier = post.frontier([0.1, 0.03])
    assert frontier.table["accuracy"].is_monotonic_decreasing
    rule = frontier.rules[-1]
    assert rule.certificate.accuracy == pytest.approx(post.certificate_.accuracy, abs=2e-4)
    other = post.with_tolerance(0.03)
    assert len(other.path([0.1, 0.05, 0.03]).rules) == 3
    explanation = other.explain(PEOPLE[FEATURES][:20])
    assert explanation.table["answer"].tolist() == other.predict(PEOPLE[FEATURES][:20]).tolist()


def test_a_report_tells_the_sample_from_everybody(post, folder):
    assert f"; {SAMPLE} people fitted on (a sample of {N:,}), out of fold" in str(post.report().title)
    whole = make_post(criterion="eo").fit_parts(folder, **ROLES, features=FEATURES, sample=N)
    assert "sample" not in whole.report().title


def test_saved_models_answer_alike(post, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    post.save(tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict(PEOPLE[FEATURES]), post.predict(PEOPLE[FEATURES]))
    assert_error(NOT_AVAILABLE, loaded.with_tolerance, 0.1)


def test_posteriors_need_not_be_kept(folder):
    model = make_post(keep_posteriors=False).fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    assert_error(NOT_AVAILABLE, model.with_tolerance, 0.1)
    kept = make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    assert_same_rule(model, kept)


def test_a_promise_is_that_of_the_sample(folder):
    options = {"confidence": 0.9, "tolerance": 0.25, "estimator": FrozenEstimator(CLASSIFIER)}
    model = make_post(**options).fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    rows = sample_rows(find_table(folder), ["id"], SAMPLE, 0, Threads())["id"]
    people = PEOPLE.set_index("id").loc[rows]
    other = make_post(**options).fit(people[FEATURES], people["y"], sensitive_features=people["sex"])
    assert_same_rule(model, other)
    pd.testing.assert_frame_equal(model.promise_.table, other.promise_.table)


# -- which columns are features ----------------------------------------------------------------------------------
def test_features_are_those_that_a_fitted_model_names(folder):
    model = make_post(FrozenEstimator(CLASSIFIER)).fit_parts(folder, **ROLES, sample=SAMPLE)
    assert model.feature_names_in_.tolist() == FEATURES
    model = make_post(FrozenEstimator(CLASSIFIER), sensitive_features=["sex", "old"], tolerance=0.1)
    model.fit_parts(folder, y="y", sample=SAMPLE)
    assert model.feature_names_in_.tolist() == [*FEATURES, "sex", "old"]


def test_features_are_all_other_columns(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "all").mkdir()
    kept = PEOPLE[PEOPLE["x1"] > -2]  # pandas writes the labels of these rows, as a column
    pq.write_table(pa.Table.from_pandas(kept, preserve_index=True), tmp_path / "all" / "0.parquet")
    model = OptFairPost(**KEYWORDS)
    model.fit_parts(tmp_path / "all", **ROLES, sample_weight="w", cluster="id", sample=SAMPLE)
    assert model.feature_names_in_.tolist() == [*FEATURES, "old", "code"]


# -- refusals ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": "z"}, "y='z': is not a column; there are ['x1', 'x2', 'sex', 'old', 'code', 'y' and 2 more]."),
        ({"y": None}, "y: missing; name the column of the true classes."),
        ({"y": 3}, "y=3: must name columns of the files."),
        ({"sensitive_features": ["sex", "race"]}, "sensitive_features='race': is not a column; "),
        ({"sample_weight": "v"}, "sample_weight='v': is not a column; "),
        ({"cluster": "v"}, "cluster='v': is not a column; "),
        ({"features": ["x1", "x9"]}, "features='x9': is not a column; "),
        ({"sample": 0}, "sample=0: must be"),
        ({"sensitive_features": None}, "sensitive_features: missing; "),
        ({"client": 3}, "client: is a int; must be"),
    ],
)
def test_arguments_that_are_refused(folder, arguments, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        make_post().fit_parts(folder, **(ROLES | {"features": FEATURES} | arguments))
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_mixtures_of_folds_are_refused(folder):
    message = "ensemble=True: the models of the folds are asked about people in memory; leave it out."
    assert_error(message, make_post(ensemble=True).fit_parts, folder, **ROLES)


def write_with(tmp_path, place, **values):
    """Write people of whom the one in row ``place`` holds these values, which a sample is unlikely to have."""
    table = PEOPLE.copy()
    for name, value in values.items():
        table[name] = table[name].astype(object) if isinstance(value, str) or value is None else table[name]
        table.loc[place, name] = value
    return write_people(tmp_path / "odd", table)


def odd_row():
    """Return a row of the last file that the sample does not have."""
    rng = np.random.default_rng(0)
    drawn = set(np.sort(rng.choice(N, SAMPLE, replace=False, shuffle=False)).tolist())
    return next(row for row in range(N - 1, 0, -1) if row not in drawn)


def test_a_group_that_the_sample_does_not_have_names_its_file(tmp_path):
    folder = write_with(tmp_path, odd_row(), sex="x")
    with pytest.raises(PartError) as caught:
        make_post(awareness="aware").fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    text = str(caught.value)
    assert text.startswith(f"{folder}/2.parquet, row group") and "sensitive_features" in text and "'x'" in text
    make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)  # a blind rule is told no group
    model = make_post(awareness="aware", unseen="blind")
    model.fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)


def test_a_gap_in_features_of_a_model_without_gaps_names_its_file(tmp_path):
    folder = write_with(tmp_path, odd_row(), x1=np.nan)
    model = make_post(FrozenEstimator(CLASSIFIER)).fit(X, Y, sensitive_features=PEOPLE["sex"][: len(X)])
    before = dict(model.__dict__)
    with pytest.raises(PartError) as caught:
        model.fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)
    text = str(caught.value)
    assert text.startswith(f"{folder}/2.parquet, row group") and "NaN" in text
    assert model.__dict__ == before  # the model is what it was


def test_missing_labels_are_refused(tmp_path):
    table = PEOPLE.assign(y=PEOPLE["y"].where(PEOPLE.index % 7 > 0, None))
    folder = write_people(tmp_path / "all", table)
    with pytest.raises(ValueError, match=r"^y: \d+ of \d+"):
        make_post().fit_parts(folder, **ROLES, features=FEATURES, sample=SAMPLE)


def test_columns_that_not_all_files_have(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    folder = write_people(tmp_path / "all", PEOPLE)
    table = pq.read_table(folder / "1.parquet")
    roles = ROLES | {"features": FEATURES, "sample": SAMPLE}
    pq.write_table(table.drop_columns(["x2"]), folder / "1.parquet")
    message = f"{folder}/1.parquet: has no column 'x2', which the first file has."
    assert_error(message, make_post().fit_parts, folder, **roles)
    texts = table.column("x2").cast("string")
    pq.write_table(table.set_column(table.schema.get_field_index("x2"), "x2", texts), folder / "1.parquet")
    message = f"{folder}/1.parquet: column 'x2' is of type string; in the first file it is double."
    assert_error(message, make_post().fit_parts, folder, **roles)
    # What nobody reads may be of any type, and numbers of any width.
    table = table.set_column(table.schema.get_field_index("id"), "id", table.column("id").cast("string"))
    table = table.set_column(table.schema.get_field_index("w"), "w", table.column("w").cast("int32"))
    pq.write_table(table, folder / "1.parquet")
    make_post().fit_parts(folder, **roles, sample_weight="w")
