"""A counted data set answers every question as the functions of one call do, and warns once about empty cells."""

import numpy as np
import pandas as pd
import pytest

from optfair import metrics
from optfair.errors import OptFairWarning
from optfair.metrics import group_confusion, violation
from tests.metrics.helpers import empty_cell, random_rows

QUESTIONS = ["violation", "gaps", "group_rates", "noise_floor", "violation_interval"]


def equal(first, second):
    """Compare two answers of any kind, to the last bit."""
    if isinstance(first, metrics.ViolationInterval):
        return all(equal(value, getattr(second, name)) for name, value in vars(first).items())
    return first.equals(second) if isinstance(first, pd.DataFrame) else first == second


@pytest.mark.parametrize("name", QUESTIONS)
def test_methods_answer_as_the_functions_do(name):
    y, label, _, a, w = random_rows(0)
    frame = pd.DataFrame({"sex": a, "old": a % 2})
    data = {"sensitive_features": frame, "sample_weight": w}
    options = {"reference": "pairwise", "outcomes": [0, 1], "attributes": "marginals"}
    options = {} if name == "group_rates" else {"criterion": "eo", **options}
    if name in ("noise_floor", "violation_interval"):
        options |= {"level": 0.9, "n_replicates": 50, "random_state": 3}
    method = getattr(group_confusion(y, label, **data), name)
    assert equal(getattr(metrics, name)(y, label, **data, **options), method(**options))


def test_the_frame_of_the_confusion_is_the_tensor():
    y, label, _, a, _ = random_rows(13)
    confusion = group_confusion(y, label, sensitive_features=a)
    assert confusion.tensor.sum() == pytest.approx(1)
    for row in confusion.to_frame().itertuples():
        cell = (a == row.group) & (y == row.given)
        assert row.share == pytest.approx(np.mean(cell & (label == row.outcome)))
        assert row.n == cell.sum()


def test_its_text_says_what_was_counted():
    y, label, h, a, _ = random_rows(0)
    texts = [repr(group_confusion(y, prediction, sensitive_features=a)) for prediction in (label, h)]
    assert texts == [
        f"<GroupConfusion of 200 people, 3 groups, 3 classes, by {kind}; see .to_frame()>"
        for kind in ("labels", "probabilities")
    ]


def test_tuples_can_name_groups_in_every_table():
    y, label, _, a, _ = random_rows(14)
    confusion = group_confusion(y, label, sensitive_features=pd.DataFrame({"a": a, "b": a % 2}))
    assert confusion.to_frame()["group"][0] == (0, 0)
    assert confusion.gaps("dp")["group"][0] == (0, 0)
    assert set(confusion.group_rates()["group"]) == {(0, 0), (1, 1), (2, 0), "overall"}


def test_a_list_of_groups_sets_the_order_and_may_hold_empty_ones():
    y, label, _, a, _ = random_rows(15)
    confusion = group_confusion(y, label, sensitive_features=a, groups=[2, 7, 1, 0])
    assert confusion.groups.tolist() == [2, 7, 1, 0] and confusion.n_people[1].sum() == 0
    with pytest.warns(OptFairWarning, match=r"3 rates are left out.*group 7 against overall, outcome 0"):
        assert confusion.violation("dp") == violation(y, label, sensitive_features=a)
    with pytest.warns(OptFairWarning, match=r"5 rates are left out.*conditional of 7 given 2"):
        assert 7 not in set(confusion.group_rates()["group"])


@pytest.mark.parametrize("name", QUESTIONS)
def test_methods_and_functions_warn_once_about_empty_cells(name):
    """Check the one warning, that it names the rows, and that it points at the line of the caller."""
    y, label, a = empty_cell()
    options = {} if name == "group_rates" else {"criterion": "eo"}
    method = getattr(group_confusion(y, label, sensitive_features=a), name)
    calls = [lambda: method(**options), lambda: getattr(metrics, name)(y, label, sensitive_features=a, **options)]
    for call in calls:
        with pytest.warns(OptFairWarning) as record:
            call()
        assert len(record) == 1 and record[0].filename == __file__
        message, row = str(record[0].message), "eo: group 'm' against overall, given 1, outcome 0"
        begin, first = ("1 rate is", "conditional of 'm' given 1") if name == "group_rates" else ("2 rates are", row)
        assert message.startswith(f"{begin} left out, because nobody is in the group and class: ") and first in message


def test_inputs_are_not_changed():
    y, label, h, a, w = random_rows(18)
    before = [x.copy() for x in (y, label, h, a, w)]
    group_confusion(y, h, sensitive_features=a, sample_weight=w).violation_interval("eo", n_replicates=20)
    for x, copy in zip((y, label, h, a, w), before, strict=True):
        np.testing.assert_array_equal(x, copy)


# -- rows without a group -----------------------------------------------------------------------------------
LEFT_OUT = r"^sensitive_features: 50 of 200 rows have a missing value and are left out; optfair.metrics.unknown_group_b"


@pytest.mark.parametrize("kind", ["labels", "probabilities", "weights", "clusters", "no labels"])
def test_rows_without_a_group_can_be_left_out(kind):
    y, label, h, group, _ = random_rows(0)
    missing = np.arange(200) % 4 == 0
    columns = {
        "y_true": None if kind == "no labels" else y,
        "prediction": h if kind == "probabilities" else label,
        "sample_weight": np.random.default_rng(0).uniform(1, 2, 200) if kind == "weights" else None,
        "cluster": np.arange(200) // 3 if kind == "clusters" else None,
    }
    part = {name: None if column is None else column[~missing] for name, column in columns.items()}
    with pytest.warns(OptFairWarning, match=LEFT_OUT):
        counts = group_confusion(
            **columns, sensitive_features=pd.Series(group, dtype=object).mask(missing, None), missing="drop"
        )
    alone = group_confusion(**part, sensitive_features=group[~missing])
    np.testing.assert_array_equal(counts.tensor, alone.tensor)
    np.testing.assert_array_equal(counts.second_moment, alone.second_moment)
    np.testing.assert_array_equal(counts.n_people, alone.n_people)
    assert counts.groups.tolist() == alone.groups.tolist() and counts.n_clusters == alone.n_clusters


def test_whoever_misses_one_attribute_is_left_out():
    frame = pd.DataFrame({"a": ["x", None, "y", "x"], "b": [1, 2, None, 2]}, dtype=object)
    with pytest.warns(OptFairWarning, match="2 of 4 rows have a missing value and are left out"):
        counts = group_confusion([0, 1, 0, 1], [0, 1, 0, 0], sensitive_features=frame, missing="drop")
    assert counts.groups.tolist() == [("x", 1), ("x", 2)] and counts.n_people.sum() == 2


def test_nothing_is_said_where_nobody_is_left_out():
    assert metrics.violation([0, 1], [0, 1], sensitive_features=["A", "B"], missing="drop") == 0.5


def test_updates_leave_rows_out_too():
    counts = group_confusion([0, 1], [0, 1], sensitive_features=["A", "B"])
    with pytest.warns(OptFairWarning, match="1 of 2 rows have a missing value and are left out"):
        more = counts.update([0, 1], [1, 1], sensitive_features=["A", None], missing="drop")
    assert more.n_people.sum() == 3
