"""Counts add up: the counts of parts are those of everybody, bit by bit for labels; text holds all of them."""

import json

import numpy as np
import pandas as pd
import pytest

from optfair.metrics import GroupConfusion, group_confusion
from tests.metrics.helpers import random_rows

FIELDS = ("tensor", "second_moment", "n_people")
HALVES = slice(None, 90), slice(90, None)


def counted(rows=slice(None), kind="labels", **options):
    y, label, h, a, w = random_rows(0)
    prediction = {"labels": label, "soft": h, "weighted": label}[kind][rows]
    weight = w[rows] if kind == "weighted" else None
    options = {"classes": [0, 1, 2], "groups": [0, 1, 2]} | options
    return group_confusion(y[rows], prediction, sensitive_features=a[rows], sample_weight=weight, **options)


def assert_same(first, second, exact=True):
    for name in FIELDS:
        x, y = getattr(first, name), getattr(second, name)
        if exact:
            np.testing.assert_array_equal(x, y)
        else:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)
    assert first.groups.equals(second.groups) and first.classes.equals(second.classes)
    assert (first.hard, first.labelled, first.equal_weights) == (second.hard, second.labelled, second.equal_weights)


# -- sums --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["labels", "soft"])
def test_parts_add_up_to_everybody(kind):
    assert_same(counted(HALVES[0], kind) + counted(HALVES[1], kind), counted(kind=kind), exact=kind == "labels")


def test_many_parts_add_up_bit_by_bit():
    y, label, _, a, _ = random_rows(1, n=1000)
    total = group_confusion(y[:1], label[:1], sensitive_features=a[:1], classes=[0, 1, 2], groups=[0, 1, 2])
    for start in range(1, 1000, 37):
        rows = slice(start, min(start + 37, 1000))
        total = total.update(y[rows], label[rows], sensitive_features=a[rows])
    whole = group_confusion(y, label, sensitive_features=a)
    assert_same(total, whole)
    assert total.violation_interval("eo", random_state=0).upper == whole.violation_interval("eo", random_state=0).upper


def test_labels_and_probabilities_add_up():
    y, label, h, a, _ = random_rows(0)
    mixed = np.concatenate([np.eye(3)[label[:90]], h[90:]])
    assert_same(
        counted(HALVES[0]) + counted(HALVES[1], "soft"), group_confusion(y, mixed, sensitive_features=a), exact=False
    )


def test_names_are_aligned_whatever_their_order():
    turned = counted(HALVES[1], classes=[2, 0, 1], groups=[1, 2, 0])
    assert_same(counted(HALVES[0]) + turned, counted())
    more = counted(HALVES[1], groups=[3, 2, 1, 0])  # one knows all groups of the other
    assert_same(counted(HALVES[0]) + more, counted(groups=[3, 2, 1, 0]))
    assert_same(more + counted(HALVES[0]), counted(groups=[3, 2, 1, 0]))


def test_intersections_are_aligned():
    y, label, _, a, _ = random_rows(0)
    features = pd.DataFrame({"sex": a % 2, "age": a // 2})
    parts = [group_confusion(y[r], label[r], sensitive_features=features.iloc[r]) for r in HALVES]
    assert_same(parts[0] + parts[1], group_confusion(y, label, sensitive_features=features))
    other = group_confusion(y, label, sensitive_features=features.rename(columns={"age": "race"}))
    with pytest.raises(ValueError, match=r"^groups: are of \['sex', 'age'\] and of \['sex', 'race'\]; count both"):
        parts[0] + other


def test_unlabelled_counts_add_up():
    _, label, _, a, _ = random_rows(0)
    parts = [group_confusion(None, label[r], sensitive_features=a[r], classes=[0, 1, 2]) for r in HALVES]
    assert_same(parts[0] + parts[1], group_confusion(None, label, sensitive_features=a))
    assert_same(parts[0].update(None, label[90:], sensitive_features=a[90:]), parts[0] + parts[1])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: counted(kind="weighted"), "counts: weighted rows, and people with several rows, cannot be added"),
        (
            lambda: group_confusion(None, [0, 1, 2], sensitive_features=[0, 1, 2]),
            "counts: only one of the two has true",
        ),
        (
            lambda: group_confusion([0, 5], [0, 1], sensitive_features=[0, 1]),
            "classes: 2 is only in the first counts and 5 only in the second; name all of them when counting, by clas",
        ),
        (
            lambda: group_confusion([0, 1], [0, 2], sensitive_features=["A", "B"]),
            "groups: 0 is only in the first counts and 'A' only in the second; name all",
        ),
    ],
)
def test_counts_of_other_things_are_refused(other, message):
    with pytest.raises(ValueError, match=f"^{message}") as error:
        counted() + other()
    assert "\n" not in str(error.value)


def test_only_counts_are_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        counted() + 1


# -- text --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["labels", "soft", "weighted"])
def test_text_holds_everything(kind):
    counts = counted(kind=kind)
    assert_same(GroupConfusion.from_json(counts.to_json()), counts)


def test_names_keep_their_type():
    features = pd.DataFrame({"sex": ["f", "m", "f"], "age": [1, 2, 2]})
    counts = group_confusion(None, [True, False, True], sensitive_features=features)
    copy = GroupConfusion.from_json(counts.to_json())
    assert_same(copy, counts)
    assert list(copy.groups) == list(counts.groups) and copy.groups.names == ["sex", "age"]
    assert [type(name) for name in copy.classes] == [type(name) for name in counts.classes]


def altered(kind="labels", **parts):
    content = json.loads(counted(kind=kind).to_json())
    for name, value in parts.items():
        if value is None:
            del content[name]
        else:
            content[name] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (7, "must be a JSON document"),
        ("{", "not a complete JSON document"),
        ("[" * 100_000, "not a complete JSON document"),
        ("[]", "not counts written by to_json"),
        ('{"format": "optfair rule"}', "not counts written by to_json"),
        (altered(version=2), "has version 2, but this release reads version 1"),
        (altered(version=True), "has version True"),
        (altered(groups=None), "missing or malformed"),
        (altered(groups={"labels": [[1], [2], [3]], "names": [None], "several": False}), "malformed"),
        (altered(groups={"labels": [0, 0, 1], "names": [None], "several": False}), "malformed"),
        (altered(groups={"labels": [0, 1], "names": [None], "several": False}), "expected numbers of shape"),
        (altered(groups={"labels": list(range(9**7)), "names": [None], "several": False}), "too many groups"),
        (altered(labelled=1), "1 is neither true nor false"),
        (altered(people=[[0] * 3] * 3, counts=[[[0] * 3] * 3] * 3), "nobody is counted"),
        (altered(people=[[1.5] * 3] * 3), "not whole"),
        (altered(people=[[-1] * 3] * 3), "negative"),
        (altered(people=[[10**400] * 3] * 3), "malformed"),
        (altered(people=[["a"] * 3] * 3), "expected numbers"),
        (altered(people=[[True] * 3] * 3), "expected numbers"),
        (altered(people=[[1] * 3] * 3), "do not add up"),
        (altered(counts=None), "malformed"),
        (altered("soft", shares=[[[1 / 27] * 3] * 3] * 3), "not those of the people"),
        (altered("soft", shares=[[[0.5] * 3] * 3] * 3), "do not add up to one"),
        (altered("soft", moments=[[[1] * 3] * 3]), "expected numbers of shape"),
        (altered("soft", equal_weights="yes"), "neither true nor false"),
        (altered().replace('"labelled": true', '"labelled": NaN'), "neither true nor false"),
    ],
)  # fmt: skip
def test_forged_counts_are_refused(text, words):
    with pytest.raises(ValueError, match=words) as error:
        GroupConfusion.from_json(text)
    assert str(error.value).startswith("text: ") and "\n" not in str(error.value)
