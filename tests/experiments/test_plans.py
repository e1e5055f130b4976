"""Check the written plans, the runs that they lay out, and the trials that choose settings."""

import inspect
import json
import random
from dataclasses import fields, replace

import pytest

from experiments.catalogue import EXPERIMENTS, PLANS, SHARED_PAGES, Experiment, pages_of, read_data, read_experiment
from experiments.catalogue import read_methods as read_method_plans
from experiments.plan import Plan, Run, Setting, TrialsNeeded, is_finished
from optfair.baselines.registry import METHODS
from optfair.errors import DataFileError
from tests.experiments.lines import constant_line, lay_out

DATA, PLANNED = read_data(), read_method_plans()
CRITERIA = {"dp", "eop", "eo"}


def smoke_runs(name, *only):
    return lay_out(Plan({}, smoke=True, only=only), read_experiment(name))[1]


# -- the written plans --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_name_only_what_exists(name):
    experiment = read_experiment(name)
    assert experiment.title and experiment.question and experiment.tables and experiment.page not in SHARED_PAGES
    plan = Plan({}, smoke=True)
    for table in experiment.tables:
        assert set(table) <= {"data", "methods", "criteria", "values", "options", "path"}
        assert set(table["methods"]) <= set(PLANNED) and set(table.get("criteria", [])) <= CRITERIA
        assert all(plan.family(data) for data in table["data"])
        with_knob = [m for m in table["methods"] if PLANNED[m].kind.knob is not None and not PLANNED[m].anchor]
        assert ("criteria" in table) == ("values" in table) == bool(with_knob)
        values = table.get("values", "grid")
        assert values in ("grid", "middle", "default") or all(isinstance(v, float) and v > 0 for v in values)


def test_every_file_of_plans_is_used():
    names = {file.stem for file in PLANS.glob("*.toml")}
    assert names == {*EXPERIMENTS, "data", "methods", "published"}
    pages = pages_of(read_experiment(name) for name in EXPERIMENTS)
    assert [member.name for members in pages.values() for member in members] == list(EXPERIMENTS)


def test_every_method_is_in_the_frontiers_along_its_whole_grid():
    tables = read_experiment("frontiers").tables
    assert {PLANNED[method].kind.name for table in tables for method in table["methods"]} == set(METHODS)
    assert {data for table in tables for data in table["data"]} == {"adult", "enem", "acs", "celeba"}
    _, runs = lay_out(Plan({}, only=("adult",)), read_experiment("frontiers"))
    for name in {run.method for run in runs}:
        alike = [run for run in runs if run.method == name]
        if PLANNED[name].kind.knob is None or PLANNED[name].anchor:
            assert len(alike) == 5  # one for each seed
        else:
            grid = PLANNED[name].grid
            assert len(grid) == 5 and {run.value for run in alike} == set(grid)
            assert {run.criterion for run in alike} == CRITERIA and len(alike) == 5 * 3 * 5


def test_seeds_and_trials():
    tuned = [name for name, plan in DATA.items() if not plan.installed]
    assert len(DATA["adult"].seeds) == 5
    assert all(len(DATA[name].seeds) == 3 for name in tuned if name != "adult")
    assert all(len(set(plan.seeds)) == len(plan.seeds) for plan in DATA.values())
    plan = Plan({})
    for data in DATA:
        for method in PLANNED:
            trials = plan.trials(data, method)
            assert len(trials) <= 6 and len({json.dumps(trial) for trial in trials}) == len(trials)
    optfair = len(PLANNED["OptFairIn"].trials)  # no more trials than the method with the most
    assert optfair <= max(len(method.trials) for name, method in PLANNED.items() if name != "OptFairIn")


def test_settings_are_arguments_of_the_classes_they_go_to():
    pytest.importorskip("torch")
    from optfair.nn import TorchClassifier

    arguments = {name: set(inspect.signature(plan.kind.load()).parameters) for name, plan in PLANNED.items()}
    arguments["OptFairInPost"] |= arguments["OptFairIn"] | {"gap"}  # the last of its second stage
    network = set(inspect.signature(TorchClassifier).parameters)
    for name, plan in PLANNED.items():
        for settings in (plan.options, *plan.trials):
            assert set(settings) - {"model"} <= arguments[name], name
            assert set(settings.get("model", {})) <= network
    for plan in DATA.values():
        assert set(plan.model or {}) <= network | {"estimator"} and set(plan.trials or {}) <= set(PLANNED)
        assert {plan.tuned_on, plan.features_of} <= {None, *DATA} and plan.split in ("authors", "random")
    for experiment in map(read_experiment, EXPERIMENTS):
        for table in experiment.tables:
            for options in table.get("options", []):
                assert all(set(options) - {"folds"} <= arguments[method] for method in table["methods"])


def test_the_thresholds_of_the_ablation_are_those_of_the_paper():
    thresholds = {}
    for table in read_experiment("ablation").tables:
        for data in table["data"]:
            for criterion in table["criteria"] if table["methods"] == ["OptFairInPost"] else []:
                values = {options["threshold"] for options in table["options"]}
                thresholds.setdefault((data, criterion), set()).update(values)
    parity = {0.1, 0.05}
    paper = {("enem", "dp"): parity, ("acs", "dp"): parity, ("enem", "eo"): {0.15, 0.1}, ("acs", "eo"): {0.2, 0.15}}
    assert thresholds == paper


def test_growing_data_grow_in_one_way_at_a_time():
    arguments = [DATA[name].synthetic for name in DATA if name.startswith("grow ")]
    shapes = {(values["n_samples"], values["n_classes"], values["n_groups"]) for values in arguments}
    assert len(shapes) == len(arguments) == 9 and (40_000, 4, 4) in shapes
    assert all(sum(a != b for a, b in zip(shape, (40_000, 4, 4), strict=True)) <= 1 for shape in shapes)


def test_names_that_do_not_exist():
    with pytest.raises(ValueError, match=r"^nothing: there is no such experiment; there are frontiers, "):
        read_experiment("nothing")
    with pytest.raises(ValueError, match=r"^--data unknown: there is no such data; there are adult, "):
        Plan({}, only=("adult", "unknown"))


def test_methods_as_installed_have_the_grid_of_the_registry_and_no_other_options():
    runs = Plan({}).runs(read_experiment("installed"))
    assert all(run.options == {} for run in runs)
    swept = {run.method: {r.value for r in runs if r.method == run.method} - {None} for run in runs}
    assert swept == {name: set(METHODS[name].grid) for name in METHODS}
    assert {run.criterion for run in runs if run.value is None and run.data == "synthetic-arrays"} == CRITERIA


# -- runs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs_are_fixed_by_what_is_written_in_them(name, no_data):
    runs = smoke_runs(name, *(("adult", "celeba") if name in ("frontiers", "tolerance") else ()))
    assert runs and len({run.key for run in runs}) == len(runs)
    for run in runs:
        model = run.options["model"]
        assert run.part == "test" and run.options.get("rounds", 3) == 3 and run.rows == 800
        assert model.get("epochs", 2) == 2 and ("epochs" in model or "estimator" in model)
        assert Run.from_dict(json.loads(run.key)).key == run.key
        assert Run.from_dict(json.loads(json.dumps(run.as_dict(), ensure_ascii=False))).as_dict() == run.as_dict()


def test_a_run_with_any_other_setting_is_another_run():
    run = Run("adult", "adult", "OptFairPost", "dp", 0.1, 1, options={"model": {"lr": 0.1}, "a": 1})
    changes = {
        "data": "enem",
        "source": "enem-2019",
        "method": "LinearPost",
        "criterion": "eo",
        "value": None,
        "seed": 2,
        "part": "validation",
        "rows": 10,
        "load_arguments": {"size": 64},
        "options": {"model": {"lr": 0.2}, "a": 1},
    }
    assert set(changes) == {field.name for field in fields(Run)} and len(run.as_dict()) == len(changes)
    keys = {run.key, *(replace(run, **{name: value}).key for name, value in changes.items())}
    assert len(keys) == len(changes) + 1
    assert replace(run, options={"a": 1, "model": {"lr": 0.1}}).key == run.key  # in any order


def test_experiments_share_runs():
    plan = Plan({}, only=("adult",))
    names = [name for name in EXPERIMENTS if name not in ("installed", "labels", "tightening", "scaling", "networks")]
    keys = {name: {run.key for run in lay_out(plan, read_experiment(name))[1]} for name in names}
    assert keys["tolerance"] < keys["frontiers"]
    deterministic = {key for key in keys["randomised"] if json.loads(key)["options"].get("output")}
    assert len(deterministic) == 5 and keys["randomised"] - deterministic < keys["frontiers"]
    plain = {key for key in keys["calibration"] if json.loads(key)["method"] == "OptFairPost"}
    common = plain & keys["frontiers"]  # on the posterior that was chosen; the other is run for this alone
    assert len(common) == len(plain) / 2 and len({json.loads(key)["options"]["posterior"] for key in common}) == 1


# -- tuning -------------------------------------------------------------------------------------------------
def test_trials_come_before_runs_and_those_of_the_network_first():
    stages, runs = lay_out(Plan({}, only=("adult",)), read_experiment("frontiers"))
    assert [{run.method for run in stage} == {"ERM"} for stage in stages] == [True, False]
    tuned = {name for name, method in PLANNED.items() if len(method.trials) > 1 and name != "ERM"}
    assert {run.method for run in stages[1]} == tuned | {"Posterior"} and len(stages[0]) == len(PLANNED["ERM"].trials)
    for run in stages[0] + stages[1]:
        assert run.part == "validation" and run.seed == DATA["adult"].seeds[0]
    for name in tuned:  # by both criteria, at two values of the grid
        alike, grid = [run for run in stages[1] if run.method == name], PLANNED[name].grid
        points = {(criterion, value) for criterion in ("dp", "eo") for value in (grid[1], grid[3])}
        assert {(run.criterion, run.value) for run in alike} == points
        assert len(alike) == len(points) * len(PLANNED[name].trials)
    assert {run.part for run in runs} == {"test"}


def test_networks_below_are_tuned_before_those_above(no_data):
    stages, runs = lay_out(Plan({}, smoke=True, only=("celeba",)), read_experiment("frontiers"))
    assert [{run.data for run in stage} for stage in stages] == [{"images-c1"}, {"celeba"}, {"celeba"}]
    assert {run.data for run in runs} == {"celeba"}
    assert all(run.options["features"]["module"] == "resnet" for run in runs)


TRIALS = [(name, k) for name, method in PLANNED.items() if len(method.trials) > 1 for k in range(len(method.trials))]


@pytest.mark.parametrize("method, best", TRIALS)
def test_the_best_trial_by_the_validation_part_is_chosen(method, best):
    plan = Plan({}, only=("adult",))
    table = {"data": ["adult"], "methods": [method], "criteria": ["dp"], "values": [0.1]}
    trial = PLANNED[method].trials[best]

    def make_line(run):
        favoured = run.method == method and run.key in {r.key for r in plan.trial_runs("adult", method, trial)}
        if favoured and method != "ERM":
            return constant_line(run, 0.79, 0.02)
        return constant_line(run, 0.8 + favoured / 20)

    _, runs = lay_out(plan, Experiment("one", "", "", "", (table,), "one"), make_line)
    assert plan.choice("adult", method) == trial
    for run in runs:
        assert run.options["model"] | trial.get("model", {}) == run.options["model"]
        assert dict(run.options) | {k: v for k, v in trial.items() if k != "model"} == run.options

    # Whatever the order of the lines, and whatever the test part says of the other trials.
    shuffled = list(plan.lines.items())
    random.Random(best).shuffle(shuffled)
    for key, line in plan.lines.items():
        run = replace(Run.from_dict(line["run"]), part="test")
        assert run.key != key
        shuffled.append((run.key, constant_line(run, 1.0, 0.0)))
    assert Plan(dict(shuffled)).choice("adult", method) == trial


@pytest.mark.parametrize(("joint", "choice"), [(0.7, "factored"), (0.9, "joint")])
def test_a_trial_is_scored_with_the_rule_that_it_starts_from(joint, choice):
    """Let all rules of both trials be alike; plain training has 0.8, the argmax of the joint posterior less or more."""
    plan = Plan({}, only=("adult",))

    def make_line(run):
        accuracy = {"ERM": 0.8, "Posterior": joint}.get(run.method, 0.6)
        return constant_line(run, accuracy, 0.0 if run.value == 0.1 else 0.1)

    lay_out(plan, read_experiment("frontiers"), make_line)
    assert plan.choice("adult", "LinearPost") == {"posterior": choice}
    trials = plan.trials("adult", "LinearPost")
    assert len(plan.tuning_runs("adult", "LinearPost")) == 4 * len(trials) + 2  # the two rules they start from


def test_fair_projection_is_tuned_by_its_better_way_to_decide():
    plan = Plan({}, only=("adult",))

    def make_line(run):
        line = constant_line(run, 0.6, 0.0)
        if run.method == "FairProjection" and run.options.get("cv") == 1:
            line["scores"]["argmax"]["accuracy"] = 0.7
        if run.method == "OptFairIn" and run.options.get("held_out"):
            line["scores"]["argmax"]["accuracy"] = 0.9  # not its predictions
        return line

    lay_out(plan, read_experiment("frontiers"), make_line)
    assert plan.choice("adult", "FairProjection") == {"cv": 1}
    assert plan.choice("adult", "OptFairIn") == PLANNED["OptFairIn"].trials[0]


def test_ties_go_to_the_first_trial_and_errors_lose():
    experiment = read_experiment("frontiers")
    plan = Plan({}, only=("adult",))
    lay_out(plan, experiment)
    assert all(plan.choice("adult", name) == method.trials[0] for name, method in PLANNED.items() if method.trials)
    failed = Plan({}, only=("adult",))

    def make_line(run):
        trials = PLANNED[run.method].trials[:1]  # none of the methods that others start from
        first = {r.key for trial in trials for r in failed.trial_runs("adult", run.method, trial)}
        return {"run": run.as_dict(), "error": "ValueError: no"} if run.key in first else constant_line(run)

    lay_out(failed, experiment, make_line)
    for name, method in PLANNED.items():
        assert not method.trials or failed.choice("adult", name) != method.trials[0]


def test_data_cut_from_others_take_their_choices():
    def make_line(run):
        return constant_line(run, 0.7 + run.options["model"]["lr"] + run.options["model"]["epochs"] / 1000)

    stages, runs = lay_out(Plan({}), read_experiment("truth"), make_line)
    assert {run.data for stage in stages for run in stage} == {"world-3x3"}
    assert DATA["world-5x5"].tuned_on == "world-3x3" and DATA["world-5x5"].model == DATA["world-3x3"].model
    by_data = [
        {(run.method, json.dumps(run.options, sort_keys=True)) for run in runs if run.data == data}
        for data in ("world-3x3", "world-5x5")
    ]
    assert by_data[0] == by_data[1]
    choices = {(run.options["model"]["lr"], run.options["model"]["epochs"]) for run in runs if run.method == "ERM"}
    assert choices == {(0.005, 30)}


def test_data_that_are_not_tuned_have_the_written_settings():
    runs = Plan({}).runs(read_experiment("seconds"))  # no trials
    plain = [run for run in runs if run.method == "ERM"]
    assert plain and all(run.options == {"model": dict(DATA[run.data].model)} for run in plain)


def test_trials_that_were_stopped_choose_nothing_where_they_may_take_longer():
    plan = Plan({}, only=("adult",))
    lay_out(plan, read_experiment("frontiers"))
    (trial,) = plan.trial_runs("adult", "ERM", plan.trials("adult", "ERM")[1])
    lines = plan.lines | {trial.key: {"run": trial.as_dict(), "error": "stopped", "limit": 10.0}}
    assert Plan(lines, limit=10.0).choice("adult", "ERM") == plan.trials("adult", "ERM")[0]
    with pytest.raises(TrialsNeeded) as caught:
        Plan(lines, limit=20.0).choice("adult", "ERM")
    assert [run.key for run in caught.value.runs] == [trial.key]


def test_a_run_that_was_stopped_is_repeated_where_it_may_take_longer():
    stopped = {"error": "stopped after 10 seconds", "limit": 10.0}
    assert is_finished(stopped, 10.0) and is_finished(stopped, 5.0) and not is_finished(stopped, 11.0)
    assert is_finished({"error": "ValueError: no"}, 11.0) and not is_finished(None, 11.0)


def test_a_revision_makes_other_runs(monkeypatch):
    plan = Plan({}, only=("adult",))
    lay_out(plan, read_experiment("frontiers"))
    setting = Setting("adult", "LinearPost", "dp", 0.1, {})
    before = plan.run(setting, 1, trial={})
    monkeypatch.setitem(plan.methods, "LinearPost", replace(plan.methods["LinearPost"], revision=2))
    after = plan.run(setting, 1, trial={})
    assert before.key != after.key and after.options["revision"] == 2


# -- data that are not available ----------------------------------------------------------------------------
def test_without_data_one_line_says_what_is_needed(no_data):
    with pytest.raises(DataFileError) as caught:
        Plan({}, only=("enem",)).runs(read_experiment("frontiers"))
    assert str(caught.value) == (
        "ENEM: enem or enem-2019 is neither in $OPTFAIR_DATA nor in the cache; "
        "`optfair datasets enem` or `optfair datasets enem-2019` says how to get it."
    )
