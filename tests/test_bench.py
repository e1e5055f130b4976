"""The benchmark's parts: plans and their trials, people and their split, the ledger, the one scorer, shared models."""

import inspect
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from optfair.baselines.registry import METHODS
from optfair.benchmark import people as people_module
from optfair.benchmark.catalogue import EXPERIMENTS, Experiment, read_data, read_experiment
from optfair.benchmark.catalogue import read_methods as methods_of_the_plan
from optfair.benchmark.ledger import Ledger, alone
from optfair.benchmark.people import MADE_UP, People, source_of, task
from optfair.benchmark.plan import SMOKE, Plan, Run, TrialsFirst
from optfair.benchmark.work import Shared, make, perform, score
from optfair.datasets import load
from optfair.errors import DataFileError

DATA, PLANNED = read_data(), methods_of_the_plan()
CRITERIA = {"dp", "eop", "eo"}
PARTS = [round(0.6 * SMOKE["rows"]), round(0.4 * SMOKE["rows"])]  # learned from, judged on


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """A machine that has only what comes with the package."""
    for name in ("OPTFAIR_DATA", "XDG_CACHE_HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))


def line(run, accuracy=0.8, violation=0.1):
    """A line as a run leaves it, made up."""
    answers = {"accuracy": accuracy, "violation": dict.fromkeys(CRITERIA, violation)}
    answers["floor"] = dict.fromkeys(CRITERIA, 0.01)
    scores = {"answers": answers, "argmax": json.loads(json.dumps(answers))}
    return {"run": run.as_dict(), "constant": 0.5, "scores": scores}


def lay_out(plan, experiment, judge=line):
    """(the trials it asks for, one list after the other; its runs), where trials are answered by ``judge``."""
    stages = []
    while True:
        try:
            return stages, plan.runs(experiment)
        except TrialsFirst as first:
            stages.append(first.runs)
            assert all(run.key not in plan.lines for run in first.runs)
            plan.lines |= {run.key: judge(run) for run in first.runs}


def smoke_runs(name, *only):
    return lay_out(Plan({}, smoke=True, only=only), read_experiment(name))[1]


# -- the written plans --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_name_only_what_there_is(name):
    experiment = read_experiment(name)
    assert experiment.title and experiment.question and experiment.tables
    plan = Plan({}, smoke=True)
    for table in experiment.tables:
        assert set(table) <= {"data", "methods", "criteria", "values", "options"}
        assert set(table["methods"]) <= set(PLANNED) and set(table.get("criteria", [])) <= CRITERIA
        assert all(plan._family(data) for data in table["data"])
        with_knob = [m for m in table["methods"] if PLANNED[m].kind.knob is not None and not PLANNED[m].anchor]
        assert ("criteria" in table) == ("values" in table) == bool(with_knob)
        values = table.get("values", "grid")
        assert values in ("grid", "middle") or all(isinstance(value, float) and value > 0 for value in values)


def test_every_file_of_experiments_is_one_of_the_plan():
    folder = people_module.__file__.replace("people.py", "experiments")
    assert {name.removesuffix(".toml") for name in os.listdir(folder)} == {*EXPERIMENTS, "data", "methods", "published"}


def test_every_method_is_in_the_frontiers_along_its_whole_grid():
    tables = read_experiment("frontiers").tables
    assert {PLANNED[method].kind.name for table in tables for method in table["methods"]} == set(METHODS)
    assert {data for table in tables for data in table["data"]} == {"adult", "enem", "acs", "celeba"}
    _, runs = lay_out(Plan({}, only=("adult",)), read_experiment("frontiers"))
    for name in {run.method for run in runs}:
        own = [run for run in runs if run.method == name]
        kind = PLANNED[name].kind
        if kind.knob is None or PLANNED[name].anchor:
            assert len(own) == 5  # one for each seed
        else:
            grid = PLANNED[name].grid
            assert len(grid) == 5 and {run.value for run in own} == set(grid)
            assert {run.criterion for run in own} == CRITERIA and len(own) == 5 * 3 * 5


def test_seeds_and_trials():
    assert len(DATA["adult"].seeds) == 5
    assert all(len(plan.seeds) == 3 for name, plan in DATA.items() if name != "adult")
    assert all(len(set(plan.seeds)) == len(plan.seeds) for plan in DATA.values())
    plan = Plan({})
    for data in DATA:
        for method in PLANNED:
            trials = plan.trials(data, method)
            assert len(trials) <= 6 and len({json.dumps(trial) for trial in trials}) == len(trials)
    ours = len(PLANNED["OptFairIn"].trials)  # nobody may try more than what is tuned best
    assert ours <= max(len(own.trials) for name, own in PLANNED.items() if name != "OptFairIn")


def test_the_gap_asked_for_reaches_the_solver(tmp_path):
    pytest.importorskip("torch")
    plan, name = Plan({}, smoke=True), "grow 10000 x 4 x 4"
    for method, options in (("OptFairPost", {}), ("OptFairPost-calibrated", {}), ("OptFairInPost", {"threshold": 0.1})):
        run = plan.run(name, method, "dp", 0.05, 1, options)
        model = make(run, plan.methods[method], task(plan.data[name], run, tmp_path))
        assert getattr(model, "post_processing", model).gap == run.options["gap"] == 1e-4


def test_settings_are_arguments_of_the_classes_they_go_to():
    pytest.importorskip("torch")
    from optfair.nn import TorchClassifier

    known = {name: set(inspect.signature(own.kind.load()).parameters) for name, own in PLANNED.items()}
    known["OptFairInPost"] |= known["OptFairIn"] | {"gap"}  # the last of its second stage
    network = set(inspect.signature(TorchClassifier).parameters)
    for name, own in PLANNED.items():
        for settings in (own.options, *own.trials):
            assert set(settings) - {"model"} <= known[name], name
            assert set(settings.get("model", {})) <= network
    for plan in DATA.values():
        assert set(plan.model) <= network and set(plan.trials or {}) <= set(PLANNED)
        assert {plan.tuned_on, plan.features_of} <= {None, *DATA}
    for experiment in map(read_experiment, EXPERIMENTS):
        for table in experiment.tables:
            for options in table.get("options", []):
                assert all(set(options) <= known[method] for method in table["methods"])


def test_the_thresholds_of_the_ablation_are_those_of_the_paper():
    found = {}
    for table in read_experiment("ablation").tables:
        for data in table["data"]:
            for criterion in table["criteria"] if table["methods"] == ["OptFairInPost"] else []:
                found.setdefault((data, criterion), set()).update(own["threshold"] for own in table["options"])
    parity = {0.1, 0.05}
    paper = {("enem", "dp"): parity, ("acs", "dp"): parity, ("enem", "eo"): {0.15, 0.1}, ("acs", "eo"): {0.2, 0.15}}
    assert found == paper


def test_growing_people_grow_in_one_way_at_a_time():
    made = [DATA[name].made for name in DATA if name.startswith("grow ")]
    shapes = {(own["n_samples"], own["n_classes"], own["n_groups"]) for own in made}
    assert len(shapes) == len(made) == 9 and (40_000, 4, 4) in shapes
    assert all(sum(a != b for a, b in zip(shape, (40_000, 4, 4), strict=True)) <= 1 for shape in shapes)


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match=r"^nothing: there is no such experiment; there are frontiers, "):
        read_experiment("nothing")
    with pytest.raises(ValueError, match=r"^--data nobody: there is no such data; there are adult, "):
        Plan({}, only=("adult", "nobody"))


# -- runs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs_are_fixed_by_what_is_written_in_them(name, no_data):
    runs = smoke_runs(name, *(("adult", "celeba") if name in ("frontiers", "tolerance") else ()))
    assert runs and len({run.key for run in runs}) == len(runs)
    for run in runs:
        assert run.part == "test" and run.options["model"]["epochs"] == 2 and run.options.get("rounds", 3) == 3
        assert Run(**json.loads(run.key)).key == run.key
        assert Run(**json.loads(json.dumps(run.as_dict(), ensure_ascii=False))).as_dict() == run.as_dict()


def test_a_run_with_any_other_setting_is_another_run():
    run = Run("adult", "adult", "OptFairPost", "dp", 0.1, 1, options={"model": {"lr": 0.1}, "a": 1})
    other = {
        "data": "enem",
        "source": "enem-2019",
        "method": "LinearPost",
        "criterion": "eo",
        "value": None,
        "seed": 2,
        "part": "validation",
        "rows": 10,
        "people": {"size": 64},
        "options": {"model": {"lr": 0.2}, "a": 1},
    }
    assert set(other) == {field.name for field in fields(Run)} == set(run.as_dict())
    keys = {run.key, *(replace(run, **{name: value}).key for name, value in other.items())}
    assert len(keys) == len(other) + 1
    assert replace(run, options={"a": 1, "model": {"lr": 0.1}}).key == run.key  # in any order


def test_experiments_share_runs():
    plan = Plan({}, only=("adult",))
    found = {name: {run.key for run in lay_out(plan, read_experiment(name))[1]} for name in EXPERIMENTS}
    assert found["tolerance"] < found["frontiers"]
    deterministic = {key for key in found["randomised"] if json.loads(key)["options"].get("output")}
    assert len(deterministic) == 5 and found["randomised"] - deterministic < found["frontiers"]
    plain = {key for key in found["calibration"] if json.loads(key)["method"] == "OptFairPost"}
    shared = plain & found["frontiers"]  # on the posterior that was chosen; the other is run for this alone
    assert len(shared) == len(plain) / 2 and len({json.loads(key)["options"]["posterior"] for key in shared}) == 1


# -- tuning -------------------------------------------------------------------------------------------------
def test_trials_come_before_runs_and_those_of_the_network_first():
    stages, runs = lay_out(Plan({}, only=("adult",)), read_experiment("frontiers"))
    assert [{run.method for run in stage} == {"ERM"} for stage in stages] == [True, False]
    tried = {name for name, own in PLANNED.items() if len(own.trials) > 1 and name != "ERM"}
    assert {run.method for run in stages[1]} == tried | {"Posterior"} and len(stages[0]) == len(PLANNED["ERM"].trials)
    for run in stages[0] + stages[1]:
        assert run.part == "validation" and run.seed == DATA["adult"].seeds[0]
    for name in tried:  # by both criteria, at two values of the grid
        own, grid = [run for run in stages[1] if run.method == name], PLANNED[name].grid
        asked = {(criterion, value) for criterion in ("dp", "eo") for value in (grid[1], grid[3])}
        assert {(run.criterion, run.value) for run in own} == asked
        assert len(own) == len(asked) * len(PLANNED[name].trials)
    assert {run.part for run in runs} == {"test"}


def test_networks_below_are_tuned_before_those_above(no_data):
    stages, runs = lay_out(Plan({}, smoke=True, only=("celeba",)), read_experiment("frontiers"))
    assert [{run.data for run in stage} for stage in stages] == [{"images-c1"}, {"celeba"}, {"celeba"}]
    assert {run.data for run in runs} == {"celeba"}
    assert all(run.options["features"]["module"] == "resnet" for run in runs)


TRIALS = [(name, k) for name, own in PLANNED.items() if len(own.trials) > 1 for k in range(len(own.trials))]


@pytest.mark.parametrize("method, best", TRIALS)
def test_the_best_trial_by_the_validation_part_is_chosen(method, best):
    plan = Plan({}, only=("adult",))
    asked = Experiment(
        "one", "", "", "", ({"data": ["adult"], "methods": [method], "criteria": ["dp"], "values": [0.1]},)
    )
    trial = PLANNED[method].trials[best]

    def judge(run):
        wanted = {run.key for run in plan.trial_runs("adult", method, trial)} if run.method == method else set()
        return (
            line(run, 0.79, 0.02)
            if run.key in wanted and method != "ERM"
            else line(run, 0.8 + (run.key in wanted) / 20)
        )

    _, runs = lay_out(plan, asked, judge)
    assert plan.choice("adult", method) == trial
    for run in runs:
        assert run.options["model"] | trial.get("model", {}) == run.options["model"]
        rest = {name: value for name, value in trial.items() if name != "model"}
        assert dict(run.options) | rest == run.options

    # Whatever the order of the lines, and whatever the test part says of the others.
    shuffled = list(plan.lines.items())
    random.Random(best).shuffle(shuffled)
    for key, own in plan.lines.items():
        run = replace(Run(**own["run"]), part="test")
        assert run.key != key
        shuffled.append((run.key, line(run, 1.0, 0.0)))
    assert Plan(dict(shuffled)).choice("adult", method) == trial


@pytest.mark.parametrize(("pair", "chosen"), [(0.7, "factored"), (0.9, "joint")])
def test_a_trial_is_scored_with_the_rule_that_it_starts_from(pair, chosen):
    """All rules of both trials are alike; plain training has 0.8, the argmax of the joint posterior less or more."""
    plan = Plan({}, only=("adult",))

    def judge(run):
        return line(run, {"ERM": 0.8, "Posterior": pair}.get(run.method, 0.6), 0.0 if run.value == 0.1 else 0.1)

    lay_out(plan, read_experiment("frontiers"), judge)
    assert plan.choice("adult", "LinearPost") == {"posterior": chosen}
    trials = plan.trials("adult", "LinearPost")
    assert len(plan.needed("adult", "LinearPost")) == 4 * len(trials) + 2  # the two rules they start from


def test_fair_projection_is_tuned_by_its_better_way_to_answer():
    plan = Plan({}, only=("adult",))

    def judge(run):
        own = line(run, 0.6, 0.0)
        own["scores"]["argmax"] = json.loads(json.dumps(own["scores"]["answers"]))
        if run.method == "FairProjection" and run.options.get("cv") == 1:
            own["scores"]["argmax"]["accuracy"] = 0.7
        if run.method == "OptFairIn" and run.options.get("held_out"):
            own["scores"]["argmax"]["accuracy"] = 0.9  # not what it answers
        return own

    lay_out(plan, read_experiment("frontiers"), judge)
    assert plan.choice("adult", "FairProjection") == {"cv": 1}
    assert plan.choice("adult", "OptFairIn") == PLANNED["OptFairIn"].trials[0]


def test_ties_go_to_the_first_trial_and_errors_lose():
    asked = read_experiment("frontiers")
    plan = Plan({}, only=("adult",))
    lay_out(plan, asked)
    assert all(plan.choice("adult", name) == own.trials[0] for name, own in PLANNED.items() if own.trials)
    failed = Plan({}, only=("adult",))

    def judge(run):
        trials = PLANNED[run.method].trials[:1]  # none of what others start from
        first = {own.key for trial in trials for own in failed.trial_runs("adult", run.method, trial)}
        return {"run": run.as_dict(), "error": "ValueError: no"} if run.key in first else line(run)

    lay_out(failed, asked, judge)
    for name, own in PLANNED.items():
        assert not own.trials or failed.choice("adult", name) != own.trials[0]


def test_people_cut_from_others_take_their_choices():
    def judge(run):
        return line(run, 0.7 + run.options["model"]["lr"] + run.options["model"]["epochs"] / 1000)

    stages, runs = lay_out(Plan({}), read_experiment("truth"), judge)
    assert {run.data for stage in stages for run in stage} == {"world-3x3"}
    assert DATA["world-5x5"].tuned_on == "world-3x3" and DATA["world-5x5"].model == DATA["world-3x3"].model
    by_data = [
        {(run.method, json.dumps(run.options, sort_keys=True)) for run in runs if run.data == data}
        for data in ("world-3x3", "world-5x5")
    ]
    assert by_data[0] == by_data[1]
    chosen = {(run.options["model"]["lr"], run.options["model"]["epochs"]) for run in runs if run.method == "ERM"}
    assert chosen == {(0.005, 30)}


def test_what_is_not_tuned_has_the_written_settings():
    runs = Plan({}).runs(read_experiment("seconds"))  # no trials
    plain = [run for run in runs if run.method == "ERM"]
    assert plain and all(run.options == {"model": dict(DATA[run.data].model)} for run in plain)


# -- people -------------------------------------------------------------------------------------------------
def adult(part="test", seed=3, rows=1333):
    return Run("adult", "adult", "ERM", "dp", None, seed, part, rows, options={"model": {}})


@pytest.mark.parametrize("seed", [1, 4])
def test_the_split_is_that_of_the_authors(tmp_path, seed):
    whole = load("adult", rows=1333)
    order = np.random.RandomState(1 + seed).permutation(1333)
    found = task(DATA["adult"], adult(seed=seed), tmp_path)
    for part, rows in ((found.train, order[: int(0.6 * 1333)]), (found.judged, order[int(0.6 * 1333) :])):
        np.testing.assert_array_equal(part.X.to_numpy(), whole.X.iloc[rows].to_numpy(np.float32))
        assert (part.y == whole.y.iloc[rows].to_numpy(str)).all()
        assert (part.group == whole.sensitive_features.iloc[rows].to_numpy(str)).all()
    assert found.stand_in is None


def test_trials_see_nobody_of_the_test_part(tmp_path):
    final, trial = (task(DATA["adult"], adult(part), tmp_path) for part in ("test", "validation"))
    parts = [set(part.X.index) for part in (final.train, final.judged, trial.train, trial.judged)]
    assert not parts[0] & parts[1] and not parts[2] & parts[3]
    assert parts[2] | parts[3] == parts[0] and len(parts[0] | parts[1]) == 1333
    assert abs(len(parts[3]) - 0.25 * len(parts[0])) < 1


def test_made_up_people_are_divided_too(tmp_path):
    plan = DATA["world-3x3"]
    run = Run("world-3x3", MADE_UP, "ERM", "dp", None, 2, "test", 1000, {})
    final, trial = (task(plan, replace(run, part=part), tmp_path) for part in ("test", "validation"))
    parts = [set(part.X.itertuples(index=False)) for part in (final.train, final.judged, trial.train, trial.judged)]
    assert [len(part) for part in parts] == [500, 500, 375, 125]
    assert not parts[0] & parts[1] and not parts[2] & parts[3] and parts[2] | parts[3] == parts[0]
    assert final.world is not None
    other = task(plan, replace(run, seed=3), tmp_path)
    assert not parts[0] & set(other.train.X.itertuples(index=False))


def test_a_run_has_the_same_people_every_time(tmp_path):
    for plan, run in (
        (DATA["adult"], adult()),
        (DATA["world-5x5"], Run("world-5x5", MADE_UP, "ERM", "dp", None, 2, "test", 400, {})),
    ):
        one = task(plan, run, tmp_path)
        people_module._whole.cache_clear()
        other = task(plan, run, tmp_path)
        for a, b in ((one.train, other.train), (one.judged, other.judged)):
            pd.testing.assert_frame_equal(a.X, b.X)
            assert (a.y == b.y).all() and (a.group == b.group).all()


def test_smoke_takes_made_up_people_where_there_are_none(tmp_path, no_data):
    assert source_of(DATA["adult"], smoke=True) == "adult"
    for name, shape in (("enem", (192,)), ("celeba-c1", (192,)), ("images-c2", (3, 8, 8))):
        assert source_of(DATA[name], smoke=True) == MADE_UP
        found = task(DATA[name], Run(name, MADE_UP, "ERM", "dp", None, 1, "test", 300, {}), tmp_path)
        assert found.train.X.shape == (180, *shape) and len(found.judged.y) == 120 and found.stand_in == MADE_UP


def test_without_data_one_line_says_what_is_needed(no_data):
    with pytest.raises(DataFileError) as caught:
        Plan({}, only=("enem",)).runs(read_experiment("frontiers"))
    said = str(caught.value)
    assert said == (
        "ENEM: enem or enem-2019 is neither in $OPTFAIR_DATA nor in the cache; "
        "`optfair datasets enem` or `optfair datasets enem-2019` says how to get it."
    )


@pytest.mark.data
def test_stand_ins_are_told(data_dir, tmp_path):
    pytest.importorskip("pyarrow")
    try:
        source = source_of(DATA["enem"])
    except DataFileError as missing:
        pytest.skip(str(missing))
    found = task(DATA["enem"], Run("enem", source, "ERM", "dp", None, 1, "test", 500, {}), tmp_path)
    assert bool(found.stand_in) == (source != "enem") and len(found.train.y) == 300


# -- features of a frozen network ---------------------------------------------------------------------------
@pytest.fixture
def faces(no_data):
    """A run on the features of a network, of made-up pictures."""
    pytest.importorskip("torch")
    run = next(run for run in smoke_runs("frontiers", "celeba") if run.method == "ERM")
    small = run.options["features"] | {"epochs": 1, "batch_size": 64}
    return replace(run, rows=150, options={**run.options, "features": small})


def test_features_are_learned_once_and_kept(faces, tmp_path):
    cache = tmp_path / "new" / "cache"
    first = task(DATA["celeba"], faces, cache)
    (file,) = cache.glob("*.npy")
    assert first.train.X.shape == (90, 256) and len(first.judged.X) == 60 and np.isfinite(first.train.X).all()
    assert sorted(path.suffix for path in cache.iterdir()) == [".lock", ".npy"]
    before = file.stat()
    again = task(DATA["celeba"], faces, cache)
    assert (again.train.X == first.train.X).all() and (again.judged.X == first.judged.X).all()
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    np.save(file, np.zeros((150, 2)))  # what is in the file is what is taken
    assert task(DATA["celeba"], faces, cache).judged.X.shape == (60, 2)
    for other in (replace(faces, part="validation"), replace(faces, seed=2)):
        assert task(DATA["celeba"], other, cache).train.X.shape[1] == 256
    assert len(list(cache.glob("*.npy"))) == 3


def test_features_do_not_know_the_labels_of_those_judged(faces, tmp_path, monkeypatch):
    X, y, group, stand_in = people_module._whole(json.dumps({"name": MADE_UP, "images": True}), 150)
    order = np.random.RandomState(1 + faces.seed).permutation(150)
    found = []
    for turned in (order[:0], order[90:], order[:90]):  # nobody's label, theirs, those of the others
        mine = y.copy()
        mine[turned] = y[turned][::-1]
        monkeypatch.setattr(people_module, "_whole", lambda *_, y=mine: (X, y, group, stand_in))
        own = task(DATA["celeba"], faces, tmp_path / f"{len(found)}")
        found.append(np.concatenate([own.train.X, own.judged.X]))
    assert (y[order[90:]] != y[order[90:]][::-1]).any()
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[0] - found[2]).max() > 1e-4


# -- the ledger ---------------------------------------------------------------------------------------------
def runs(n):
    return [Run("adult", "adult", "ERM", "dp", None, seed, options={"model": {"lr": 0.1}}) for seed in range(n)]


def test_lines_of_all_files_are_found(tmp_path):
    ledger = Ledger(tmp_path)
    for run, name in zip(runs(4), ("a", "b", "a", "tuning"), strict=True):
        ledger.add(name, line(run) | {"notes": ["Țifrea × \u2028 \x85 \n ü"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl", "tuning.jsonl"]
    assert (tmp_path / "a.jsonl").read_bytes().count(b"\n") == 2
    again = Ledger(tmp_path)
    assert again.lines == ledger.lines and set(again.lines) == {run.key for run in runs(4)}
    before = (tmp_path / "a.jsonl").read_bytes()
    again.add("a", line(runs(5)[4]))
    assert (tmp_path / "a.jsonl").read_bytes().startswith(before) and len(Ledger(tmp_path).lines) == 5


TORN = {
    "torn": b'{"run": {"data": "ad',
    "garbage": b"hello",
    "no run": b'{"scores": 1}',
    "a list": b"[1]",
    "zeros": bytes(40),
    "no text": b'{"run": "\xff\xfe"}',
}


@pytest.mark.parametrize("what", TORN)
@pytest.mark.parametrize("gap", [b"", b"\n"])
def test_a_torn_line_is_named(tmp_path, what, gap):
    one, other = (json.dumps(line(run)).encode() + b"\n" for run in runs(2))
    file = tmp_path / "frontiers.jsonl"
    file.write_bytes(one + gap + TORN[what] + b"\n" + other)
    with pytest.raises(DataFileError) as caught:
        Ledger(tmp_path)
    assert str(caught.value).startswith(f"{file}, line {3 if gap else 2}: is no line of a run")
    file.write_bytes(one + gap + other)  # as the message says
    assert set(Ledger(tmp_path).lines) == {run.key for run in runs(2)}


ADDING = """
import sys
sys.path.insert(0, {tests!r})
import test_bench as t
from pathlib import Path
ledger = t.Ledger(Path({folder!r}))
for number, run in enumerate(t.runs(100_000)):
    ledger.add("x", t.line(run))
    print(number + 1, flush=True)
"""


def test_a_line_is_on_disk_when_add_returns(tmp_path):
    """Killed anywhere: what was told is there, and what is there is whole."""
    script = ADDING.format(tests=os.path.dirname(__file__), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        stop = int(np.random.default_rng().integers(1, 60))
        told = 0
        for text in process.stdout:
            told = int(text)
            if told >= stop:
                break
        process.send_signal(signal.SIGKILL)
        told = max([told, *map(int, process.stdout.read().split(b"\n")[:-1])])
    assert told >= stop, "it has not started"
    found = Ledger(tmp_path)
    assert told <= len(found.lines) <= told + 1
    assert set(found.lines) == {run.key for run in runs(len(found.lines))}
    found.add("x", line(runs(1000)[-1]))
    assert len(Ledger(tmp_path).lines) == len(found.lines)


HOLDING = """
from pathlib import Path
from optfair.benchmark.ledger import alone
with alone(Path({file!r})):
    print("mine", flush=True)
    input()
"""


def test_one_process_at_a_time_holds_a_lock(tmp_path):
    pytest.importorskip("fcntl", reason="locks of POSIX")
    file = tmp_path / ".lock"
    command = [sys.executable, "-c", HOLDING.format(file=str(file))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"mine\n"
        with pytest.raises(BlockingIOError), alone(file, wait=False):
            pass
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            os.set_blocking(other.stdout.fileno(), False)
            assert other.stdout.read() is None  # it waits
            holder.send_signal(signal.SIGKILL)
            os.set_blocking(other.stdout.fileno(), True)
            assert other.stdout.readline() == b"mine\n"  # free, though nobody has given it back
            other.communicate(b"\n")
            assert other.returncode == 0
    with alone(file, wait=False), pytest.raises(BlockingIOError), alone(file, wait=False):
        pass


# -- the one scorer -----------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:.*nobody is in their cells")
@pytest.mark.parametrize("seed", range(4))
def test_the_scorer_against_pandas(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"y": rng.choice(list("abc"), 700), "g": rng.choice(["x × u", "y", "z"], 700, p=[0.6, 0.3, 0.1])}
    )
    table["answer"] = np.where(rng.random(700) < 0.5, table["y"], rng.choice(list("abcd"), 700))  # nobody is a "d"
    found = score(
        table["answer"].to_numpy(str),
        People(None, table["y"].to_numpy(str), table["g"].to_numpy(str)),
        np.array(list("abcd")),
    )

    def worst(some, answers):
        rates = pd.crosstab(some["g"], some["answer"], normalize="index").reindex(columns=answers, fill_value=0)
        overall = some["answer"].value_counts(normalize=True).reindex(answers, fill_value=0)
        return (rates - overall).abs().to_numpy().max()

    classes = [(c, table[table["y"] == c]) for c in "abc"]
    expected = {
        "dp": worst(table, list("abcd")),
        "eop": max(worst(some, [c]) for c, some in classes),
        "eo": max(worst(some, list("abcd")) for _, some in classes),
    }
    assert found["violation"] == pytest.approx(expected, abs=1e-6)
    assert found["accuracy"] == pytest.approx((table["y"] == table["answer"]).mean(), abs=1e-6)
    assert set(found["floor"]) == CRITERIA and all(0 < floor < 1 for floor in found["floor"].values())


# -- runs that are done -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small():
    """One run of each method on Adult, as in the smoke run of the frontiers."""
    pytest.importorskip("torch")
    found = {}
    for run in smoke_runs("frontiers", "adult"):
        found.setdefault(run.method, run)
    assert {PLANNED[name].kind.name for name in found} == set(METHODS)
    return found


@pytest.fixture(scope="module")
def done(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    Shared._models.clear()
    return {name: perform(run, DATA["adult"], PLANNED[name], folder) for name, run in small.items()}


def test_every_method_gives_a_line(small, done):
    for name, own in done.items():
        assert "error" not in own, own
        assert own["run"] == small[name].as_dict() and own["n"] == PARTS and own["stand_in"] is None
        assert (own["classes"], own["groups"]) == (2, 2) and 0.5 <= own["constant"] <= 1
        assert own["cpu_seconds"] >= 0 and json.loads(json.dumps(own)) == own
        randomised = PLANNED[name].kind.output != "deterministic"
        assert set(own["scores"]) == {"answers", *(["argmax"] if randomised else [])}
        for scores in own["scores"].values():
            assert 0 <= scores["accuracy"] <= 1 and set(scores["violation"]) == CRITERIA
    assert done["OptFairPost"]["certificate"]["gap"] < 0.01
    assert "small_cells" in done["ERM"] and "small_cells" in done["Posterior"]


def test_what_a_method_says_is_noted(small, tmp_path):
    """Three rounds do not reach such a tolerance, and OptFairIn says so."""
    own = perform(replace(small["OptFairIn"], value=1e-6), DATA["adult"], PLANNED["OptFairIn"], tmp_path)
    assert any("training ended outside" in note for note in own.get("notes", []))


@pytest.mark.parametrize("name", sorted(PLANNED.keys() - {"OptFairInPost"}))
def test_a_run_done_twice_has_the_same_scores(small, done, tmp_path, name):
    """Also by a worker that has fitted nothing yet."""
    Shared._models.clear()
    assert perform(small[name], DATA["adult"], PLANNED[name], tmp_path)["scores"] == done[name]["scores"]


def test_post_processors_stand_on_the_same_posteriors(small, tmp_path):
    people = task(DATA["adult"], small["LinearPost"], tmp_path)
    Shared._models.clear()
    posteriors, fits = {}, set()
    for name in ("OptFairPost", "Posterior", "LinearPost", "FairProjection"):
        model = make(small[name], PLANNED[name], people)
        model.fit(people.train.X, people.train.y, sensitive_features=people.train.group)
        posteriors[name] = model.joint_posterior(people.judged.X)
        fits.add(len(Shared._models))
    for name, z in posteriors.items():
        np.testing.assert_array_equal(z, posteriors["OptFairPost"], err_msg=name)
    assert fits == {6}  # five folds and everybody, once for all


def test_what_a_method_cannot_do_is_a_line_and_a_fault_is_not(small, tmp_path):
    for name, value in (("OptFairPost", -1.0), ("LinearPost", -1.0)):
        own = perform(replace(small[name], value=value), DATA["adult"], PLANNED[name], tmp_path)
        assert own["error"].startswith("ValueError: ") and "scores" not in own and own["n"] == PARTS
        assert json.loads(json.dumps(own)) == own
    wrong = replace(small["ERM"], options={**small["ERM"].options, "no_such_option": 1})
    with pytest.raises(TypeError, match="no_such_option"):
        perform(wrong, DATA["adult"], PLANNED["ERM"], tmp_path)


def test_the_truth_is_asked_where_it_is_known(tmp_path):
    pytest.importorskip("torch")
    run = next(run for run in smoke_runs("truth", "world-3x3") if run.method == "ERM")
    found = perform(run, DATA["world-3x3"], PLANNED["ERM"], tmp_path)["truth"]
    assert 0 < found["accuracy"] < 1 and 0 <= found["violation"] <= 1 and found["regret"] > -1e-3


# -- shared models ------------------------------------------------------------------------------------------
def test_shared_models_are_fitted_once_for_the_same_people():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    Shared._models.clear()
    Shared.seconds = Shared.fitting = 0.0

    def model(X, y, **settings):
        return Shared(LogisticRegression(**settings)).fit(X, y).model_

    first = model(X, y)
    spent = Shared.fitting
    assert spent > 0 and Shared.seconds == spent
    assert model(X.copy(), y.copy()) is first and model(pd.DataFrame(X), y) is first
    assert Shared.fitting == spent and Shared.seconds == pytest.approx(3 * spent)
    names = np.array(["f", "m"])[y]
    X_other = X.copy()
    X_other[7, 1] += 1e-3
    others = [model(X, 1 - y), model(X, y, C=0.5), model(X_other, y), model(X[::-1], y), model(X, names)]
    assert len({id(other) for other in [first, *others]}) == 6 == len(Shared._models)
    assert model(X, names.copy()) is others[-1] and set(Shared(LogisticRegression()).fit(X, names).classes_) == {
        "f",
        "m",
    }
    with pytest.raises(ValueError, match=r"^sample_weight: shared models take none"):
        Shared(LogisticRegression()).fit(X, y, sample_weight=np.ones(80))


def test_shared_models_answer_as_the_model_does():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 3, 60)
    shared, plain = Shared(LogisticRegression()).fit(X, y), LogisticRegression().fit(X, y)
    np.testing.assert_array_equal(shared.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_array_equal(shared.predict(X), plain.predict(X))


def test_a_run_that_was_stopped_and_finished_elsewhere_is_finished(tmp_path):
    run, (first, later) = runs(1)[0], ("a", "b")
    stopped = {"run": run.as_dict(), "error": "stopped after 10 seconds", "limit": 10.0}
    for order in ((first, later), (later, first)):
        for file in tmp_path.glob("*.jsonl"):
            file.unlink()
        ledger = Ledger(tmp_path)
        ledger.add(order[0], stopped)
        ledger.add(order[1], line(run))
        assert "scores" in ledger.lines[run.key] and "scores" in Ledger(tmp_path).lines[run.key]
        ledger.add(order[0], stopped)
        assert "scores" in ledger.lines[run.key] and "scores" in Ledger(tmp_path).lines[run.key]


def test_trials_that_were_stopped_choose_nothing_where_they_may_take_longer():
    plan = Plan({}, only=("adult",))
    lay_out(plan, read_experiment("frontiers"))
    (trial,) = plan.trial_runs("adult", "ERM", plan.trials("adult", "ERM")[1])
    lines = plan.lines | {trial.key: {"run": trial.as_dict(), "error": "stopped", "limit": 10.0}}
    assert Plan(lines, limit=10.0).choice("adult", "ERM") == plan.trials("adult", "ERM")[0]
    with pytest.raises(TrialsFirst) as first:
        Plan(lines, limit=20.0).choice("adult", "ERM")
    assert [run.key for run in first.value.runs] == [trial.key]


def test_a_revision_makes_other_runs(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    plan = Plan({}, only=("adult",))
    lay_out(plan, read_experiment("frontiers"))
    before = plan.run("adult", "LinearPost", "dp", 0.1, 1, trial={})
    monkeypatch.setitem(plan.methods, "LinearPost", replace(plan.methods["LinearPost"], revision=2))
    after = plan.run("adult", "LinearPost", "dp", 0.1, 1, trial={})
    assert before.key != after.key and after.options["revision"] == 2
    assert (
        "revision" not in make(after, plan.methods["LinearPost"], task(DATA["adult"], adult(), tmp_path)).get_params()
    )
