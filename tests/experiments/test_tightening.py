"""The walk solves for what it says, measured on new people; its page counts steps that go backward in both ways."""

import numpy as np
import pytest

from experiments.alternatives import ALTERNATIVES, AlternativePost
from experiments.catalogue import read_data
from experiments.plan import Run
from experiments.splits import load_split
from experiments.walk import walk
from optfair import Constraint, OptFairPost
from optfair.metrics import group_confusion
from tests.experiments.lines import finished_plan, page_text

DATA = read_data()
PATH = {
    "criteria": ["dp", "eo"],
    "views": [["overall", "intersections"], ["pairwise", "marginals"]],
    "tolerances": [0.05],
}


def crossed_split(tmp_path, name="occupation-crossed"):
    """Return a small sample of Adult occupation, whose groups are crossed with thirds of age."""
    run = Run(name, "adult-occupation", "OptFairPost", "dp", None, 0, rows=1500)
    return load_split(DATA[name], run, tmp_path)


def test_groups_are_crossed_with_columns_of_x(tmp_path):
    split = crossed_split(tmp_path)
    attributes = split.train.attributes
    assert list(attributes.columns) == ["group", "age"] and sorted(attributes["age"].unique()) == ["0", "1", "2"]
    assert (attributes["group"] == split.train.group).all()


def test_a_plan_may_say_how_many_of_the_rows_are_for_training(tmp_path):
    split = crossed_split(tmp_path, "scaling-occupation")
    assert (len(split.train.y), len(split.test.y)) == (390, 1110) and DATA["scaling-occupation"].train_share == 0.26


@pytest.mark.filterwarnings("ignore:.*rates are left out")  # of cells that nobody is in
def test_rules_of_a_walk_are_those_of_fits_and_measured_on_the_test_part(tmp_path):
    split = crossed_split(tmp_path)
    options = {"calibration": "posterior", "random_state": 0, "cv": 2}
    fit = {"X": split.train.X, "y": split.train.y, "sensitive_features": split.train.attributes}
    model = OptFairPost(criterion="dp", tolerance=0.5, **options).fit(**fit)
    walked = walk(model, split, PATH)
    path = walked["path"]
    assert list(path) == [f"{c} {v}" for c in ("dp", "eo") for v in ("overall intersections", "pairwise marginals")]
    constraint = Constraint("eo", 0.05, reference="pairwise", attributes="marginals")
    h = OptFairPost(criterion=constraint, **options).fit(**fit).predict_proba(split.test.X)
    groups = split.test.attributes
    confusion = group_confusion(split.test.y, h, sensitive_features=groups, classes=model.classes_)
    floors = walked["floors"]
    assert list(floors) == list(path) and 0 < floors["dp pairwise marginals"] < floors["eo pairwise marginals"] < 1
    (free, *_), (tolerance, accuracy, violation) = path["eo pairwise marginals"]
    assert (free, tolerance) == (1.0, 0.05)
    assert accuracy == pytest.approx(np.trace(confusion.tensor.sum(axis=0)), abs=5e-3)  # certified gaps of both
    assert violation == pytest.approx(confusion.violation("eo", reference="pairwise", attributes="marginals"), abs=0.02)


@pytest.mark.parametrize("calibration", ALTERNATIVES)
def test_alternatives_are_fitted_and_solved_again(calibration, tmp_path):
    split = crossed_split(tmp_path)
    model = AlternativePost(calibration=calibration, random_state=0, cv=2, tolerance=0.1)
    model.fit(split.train.X, split.train.y, sensitive_features=split.train.group)
    assert model.with_tolerance(0.05).certificate_.excess == 0
    np.testing.assert_allclose(model.joint_posterior(split.test.X).sum(axis=(1, 2)), 1)
    with pytest.raises(
        ValueError, match="calibration='groups': must be one of 'joint', 'labels', 'both', 'posterior and"
    ):
        model.set_params(calibration="groups").fit(split.train.X, split.train.y, sensitive_features=split.train.group)


def test_the_page_counts_steps_backward(tmp_path):
    pytest.importorskip("jinja2", reason="the extra experiments is not installed")

    def change(run, line):
        if run.options["calibration"] == "both":
            for points in line["path"].values():
                points[-1][1:] = [points[-2][1] - 0.01, points[-2][2] + 0.03]

    text = page_text(finished_plan(("tightening",), (), change, smoke=False), ("tightening",), tmp_path)
    n_paths = 4 * 10 * 5  # questions, seeds, data
    assert f"| none | 0 of {4 * n_paths} | 0 | 0.0000 | 0.0000 |" in text
    assert f"| joint, moved bounds | {n_paths} of {4 * n_paths} | {n_paths} | 0.0300 | 0.0100 |" in text
    assert "| 0.03 | 0.6030 / 0.0260 | 0.6030 / 0.0260 |" in text


def test_the_page_shows_changes_from_no_calibration_in_the_same_split(tmp_path):
    pytest.importorskip("jinja2", reason="the extra experiments is not installed")

    def change(run, line):
        if run.options["calibration"] == "diagonal":
            for points in line["path"].values():
                for point in points[1:]:
                    point[1:] = [point[1] + 0.02, point[2] - 0.01 * (1 + run.seed % 2)]

    text = page_text(finished_plan(("scaling",), (), change, smoke=False), ("scaling",), tmp_path)
    same, better = "+0.0 / 0.000 ± 0.000", "+2.0 / −0.015 ± 0.003"  # half of 0.9: 1.833 · 0.00527 / √10
    changes = " | ".join([same, same, same, better, same, same, "–"])
    row = f"ACS government, race × sex, logistic | demographic parity | 0.02 | 0.050 | 60.2 / 0.024 | {changes} |"
    assert row in text
