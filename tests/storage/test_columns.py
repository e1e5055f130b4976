"""Tell from the names and types of columns which groups, classes, weights and offsets they are."""

import numpy as np
import pandas as pd
import pytest

from optfair.storage.columns import check_schema, find_columns, rename
from optfair.storage.parts import PartError
from tests.storage.helpers import CLASSES, GROUPS, cell_names, pa

NUMBER, SINGLE = pa.float64(), pa.float32()


def schema(names, kind=NUMBER, **others):
    return pa.schema([(name, kind) for name in names] + list(others.items()))


def found(names, z="z_*", kind=NUMBER, **options):
    """What the columns of a schema with columns of cells, weights, offsets and others are."""
    others = {"person": pa.string(), "w": NUMBER, "u_low": NUMBER, "u_mid": NUMBER, "u_high": NUMBER}
    arguments = {"weight": None, "offset": None, "groups": None, "classes": None} | options
    return find_columns(schema(names, kind, **others), z, **arguments)


# -- names -------------------------------------------------------------------------------------------------------
CALLED = {
    "underscores": (cell_names(), "z_*", GROUPS, CLASSES),
    "classes of several words": (["1f_so low", "1f_high", "1m_so low", "1m_high"], "1*", "fm", ["so low", "high"]),
    "groups of several words": (
        ["z_female old__low", "z_female old__high", "z_m_x__low", "z_m_x__high"],
        "z_*",
        ["female old", "m_x"],
        ["low", "high"],
    ),
    "a bar before underscores": (["zg_1|x_", "zg_1|y_", "zg_2|x_", "zg_2|y_"], "z*", ["g_1", "g_2"], ["x_", "y_"]),
    "other letters": (["P(ä: 低)", "P(ä: 高)", "P(ö: 低)", "P(ö: 高)"], "P(*)", "äö", [" 低", " 高"]),
    "one group": (["z_all_low", "z_all_high"], "z_*", ["all"], ["low", "high"]),
    "an ending": (["a_low.p", "a_high.p", "b_low.p", "b_high.p"], "*.p", "ab", ["low", "high"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", CALLED)
def test_groups_and_classes_are_read_off_the_names(kind):
    names, pattern, groups, classes = CALLED[kind]
    columns = found(names, pattern)
    assert list(columns.z) == names and columns.names == names
    assert columns.groups.tolist() == list(groups) and columns.classes.tolist() == list(classes)


def test_the_order_is_that_of_the_columns():
    names = cell_names(["b", "a"], ["no", "yes"])
    columns = found(names)
    assert columns.groups.tolist() == ["b", "a"] and list(columns.z) == names
    columns = found(sorted(names), names)  # named one by one
    assert columns.groups.tolist() == ["b", "a"] and list(columns.z) == names


def test_names_of_the_user_come_first():
    numbered = [f"q{k}" for k in range(6)]
    columns = found(numbered, "q*", groups=["x", "y"], classes=[False, True, "?"])
    assert columns.groups.tolist() == ["x", "y"] and columns.classes.tolist() == [False, True, "?"]
    assert found(numbered, "q*", groups=["x", "y"]).classes.tolist() == [0, 1, 2]
    assert found(numbered, "q*", classes=["x", "y"]).groups.tolist() == [0, 1, 2]
    intersections = pd.MultiIndex.from_product([["f", "m"], ["old", "young"]], names=["sex", "age"])
    names = [f"z_{sex}_{age}_{name}" for sex, age in intersections for name in ("no", "yes")]
    assert found(names, groups=intersections, classes=["no", "yes"]).groups.equals(intersections)


def test_a_pattern_leaves_weights_and_offsets_alone():
    names = [*cell_names(GROUPS, CLASSES, ""), "w", "u_low", "u_mid", "u_high"]
    columns = find_columns(schema(names), "*_*", "w", "u_*", None, None)
    assert columns.z == tuple(cell_names(start="")) and columns.weight == "w"
    assert columns.offset == ("u_low", "u_mid", "u_high") and columns.names == names


def test_patterns_with_several_stars_and_names_that_are_patterns():
    names = ["q[1]_a_low", "q[1]_a_high"]
    assert found(names, names, groups=["a"], classes=["low", "high"]).z == tuple(names)
    assert found(["xay", "xby"], "x*[ab]*y", groups=["g"]).classes.tolist() == [0, 1]
    listed = schema(["p[*]"], pa.list_(NUMBER, 6))
    assert find_columns(listed, "p[*]", None, None, ["a", "b"], None).z == ("p[*]",)


REFUSED = {
    "no such column": (lambda: found(["a"]), r"z='z_\*': matches no column; there are \['a', 'person', 'w', .*\]\."),
    "no such columns": (lambda: found(["a"], ["a", "b"]), r"z: \['b'\] names no column; \['a', .*\] do\."),
    "no columns": (lambda: found(["a"], []), r"z: \[\] names no column"),
    "not named by both": (
        lambda: found(["z_a_low", "z_a_high", "z_b_low"]),
        r"groups, classes: missing; the columns of z, \['a_low', .*\], are not named by group and class\. Name both",
    ),
    "two ways to read them": (
        lambda: found(cell_names(["f_old", "f_young", "m_old", "m_young"], ["no", "yes"])),
        r"groups, classes: missing; by the columns of z the groups are \['f', 'm'\] or \['f_old', .*\]\. Name both",
    ),
    "another order of groups": (
        lambda: found(cell_names(), groups=["b", "a", "c"], classes=CLASSES),
        r"groups: \['b', 'a', 'c'\] is not the order of the columns, \['a', 'b', 'c'\]; leave them out, or give",
    ),
    "another order of classes": (
        lambda: found(cell_names(), groups=GROUPS, classes=CLASSES[::-1]),
        r"classes: .* is not the order of the columns, \['low', 'mid', 'high'\]",
    ),
    "wrong number": (
        lambda: found([f"z_{k}" for k in range(7)], groups=["a", "b"], classes=["x", "y", "z"]),
        r"z: has 7 numbers a row; 2 groups and 3 classes need 6, and two classes\.",
    ),
    "one class": (
        lambda: found(["z_0", "z_1"], groups=["a", "b"]),
        r"z: has 2 numbers a row; 2 groups and 1 classes need 2, and two classes\.",
    ),
    "more groups than columns": (
        lambda: found(["z_0", "z_1"], classes=["a", "b", "c"]),
        r"z: has 2 numbers a row; 0 groups and 3 classes need 0, and two classes\.",
    ),
    "a name twice": (lambda: found(cell_names(), groups=["a", "a", "c"]), "groups: holds a name twice, 'a'"),
    "no list of names": (lambda: found(cell_names(), groups=3), "groups=3: must be a list of names"),
    "pairs as classes": (
        lambda: found(["z_0", "z_1"], classes=pd.MultiIndex.from_tuples([("a", 0), ("b", 1)])),
        "classes: must be plain names, not a MultiIndex",
    ),
    "no such weight": (lambda: found(cell_names(), weight="v"), r"weight='v': is not a column; there are \['z_a_low'"),
    "no such offset": (lambda: found(cell_names(), offset="v_*"), r"offset='v_\*': matches no column; there are"),
    "few offsets": (
        lambda: found(cell_names(), offset=["u_low", "u_mid"]),
        r"offset: names 2 columns; needs one for each of 3 classes\.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_columns_that_cannot_be_meant_are_refused(kind):
    function, message = REFUSED[kind]
    with pytest.raises(ValueError, match=message) as error:
        function()
    assert "\n" not in str(error.value)


def test_names_that_are_given_later():
    index = pd.Index(["a", "b"])
    assert rename(index, None, "groups") is index
    assert rename(index, ["A", "B"], "groups").tolist() == ["A", "B"]
    assert rename(pd.RangeIndex(2), [1, 0], "groups").tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"groups: \['b', 'a'\] is not the order of the columns"):
        rename(index, ["b", "a"], "groups")
    with pytest.raises(ValueError, match="groups: 1 names given, but Z has 2 of them"):
        rename(index, ["A"], "groups")


# -- types -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind, dtype",
    [
        (NUMBER, "float64"),
        (SINGLE, "float32"),
        (pa.float16(), "float32"),
        (pa.int8(), "float64"),
        (pa.uint64(), "float64"),
        (pa.dictionary(pa.int8(), SINGLE), "float32"),
    ],
    ids=str,
)
def test_rows_are_read_in_the_type_of_their_columns(kind, dtype):
    columns = found(cell_names(), kind=kind, weight="w", offset="u_*")
    assert columns.dtype == dtype
    array = (
        pa.array([0, 1, 1]).cast(kind.value_type).dictionary_encode()
        if "dict" in str(kind)
        else pa.array([0, 1, 1], kind)
    )
    plain = pa.array([0.1, 0.2, 1e300])
    names = [*cell_names(), "w", "u_low", "u_mid", "u_high"]
    batch = pa.RecordBatch.from_arrays([array] * 9 + [plain] * 4, names)
    Z, weight, offset = columns.arrays(batch, "a.parquet")
    assert Z.dtype == dtype and Z.flags.c_contiguous and weight.dtype == offset.dtype == "float64"
    np.testing.assert_array_equal(Z, np.repeat([[0], [1], [1]], 9, axis=1))
    np.testing.assert_array_equal(offset[:, 2], [0.1, 0.2, 1e300])


def test_one_column_of_another_type_decides():
    mixed = pa.schema([(name, SINGLE) for name in cell_names()[:-1]] + [(cell_names()[-1], NUMBER)])
    assert find_columns(mixed, "z_*", None, None, None, None).dtype == np.float64


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.bool_(), pa.date32(), pa.timestamp("ns"), pa.list_(NUMBER), pa.decimal128(5, 2), pa.null()],
    ids=str,
)
def test_columns_of_z_must_hold_numbers(kind):
    with pytest.raises(ValueError, match=r"column 'z_a_low' holds .*; it must hold numbers\."):
        found(cell_names(), kind=kind)
    with pytest.raises(ValueError, match=r"column 'v' holds .*; it must hold numbers\."):
        find_columns(schema(cell_names(), v=kind), "z_*", "v", None, None, None)


VALUES = {
    "missing": ([0.1, None, None], r"a\.parquet: column 'z_a_low' has 2 missing values; fill them in\."),
    "texts": (["0.1", "0.2", "0.3"], r"a\.parquet: column 'z_a_low' holds string; it must hold numbers\."),
    "truth values": ([True, False, True], r"a\.parquet: column 'z_a_low' holds bool; it must hold numbers\."),
    "lists": ([[0.1], [0.2], [0.3]], r"a\.parquet: column 'z_a_low' holds list<.*>; it must hold numbers\."),
}


@pytest.mark.parametrize("kind", VALUES)
def test_batches_of_other_types_are_refused(kind):
    """Sources other than files say their types batch by batch."""
    values, message = VALUES[kind]
    columns = found(cell_names())
    arrays = [pa.array(values)] + [pa.array([0.1, 0.2, 0.3])] * 8
    with pytest.raises(PartError, match=message):
        columns.arrays(pa.RecordBatch.from_arrays(arrays, cell_names()), "a.parquet")


# -- lists -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [pa.list_(SINGLE, 6), pa.list_(SINGLE), pa.large_list(SINGLE)], ids=str)
def test_a_column_of_lists(kind):
    names = {"groups": ["a", "b"], "classes": ["x", "y", "z"]}
    columns = found(["z"], "z", kind, weight="w", **names)
    assert columns.z == ("z",) and columns.dtype == np.float32 and columns.n_cells == 6
    rows = np.random.default_rng(0).random((5, 6)).astype(np.float32)
    batch = pa.RecordBatch.from_arrays([pa.array(rows.tolist(), kind), pa.array(np.arange(5.0))], ["z", "w"])
    for part, expected in ((batch, rows), (batch.slice(2, 2), rows[2:4])):
        Z, weight, offset = columns.arrays(part, "a.parquet")
        np.testing.assert_array_equal(Z, expected)
        assert offset is None and len(weight) == len(Z)


def test_lists_whose_length_must_be_said():
    with pytest.raises(ValueError, match=r"groups, classes: missing; column 'z' holds lists of any length\. Name both"):
        found(["z"], "z", pa.list_(SINGLE), groups=["a", "b"])
    with pytest.raises(ValueError, match="groups, classes: missing; name them, so that 6 numbers a row are a table"):
        found(["z"], "z", pa.list_(SINGLE, 6))
    with pytest.raises(ValueError, match=r"z: has 7 numbers a row; 2 groups and 3 classes need 6"):
        found(["z"], "z", pa.list_(SINGLE, 7), groups=["a", "b"], classes=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"column 'z' holds fixed_size_list<.*string.*; it must hold numbers"):
        found(["z"], "z", pa.list_(pa.string(), 6), groups=["a", "b"])


LISTS = {
    "wrong lengths of the right sum": (pa.array([[0.5, 0.25, 0.25], [1.0]]), "lists that are not of 2 numbers each"),
    "another fixed length": (pa.array([[0.5, 0.25, 0.25]] * 2, pa.list_(NUMBER, 3)), "lists that are not of 2 numbers"),
    "a missing number": (pa.array([[0.5, None], [0.5, 0.5]]), "1 missing values; fill them in"),
    "a missing list": (pa.array([None, [0.5, 0.5]]), "1 missing values; fill them in"),
    "texts": (pa.array([["0.5", "0.5"]] * 2), r"list<.*string>; it must hold lists of numbers"),
    "numbers": (pa.array([1.0, 1.0]), r"double; it must hold lists of 2 numbers"),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_that_are_no_rows(kind):
    array, message = LISTS[kind]
    columns = found(["z"], "z", pa.list_(NUMBER, 2), groups=["a"], classes=["x", "y"])
    with pytest.raises(PartError, match=rf"a\.parquet: column 'z' (has|holds) {message}"):
        columns.arrays(pa.RecordBatch.from_arrays([array], ["z"]), "a.parquet")


# -- several files -----------------------------------------------------------------------------------------------
def test_files_must_have_the_same_columns():
    first = schema(cell_names(), person=pa.string(), w=NUMBER)
    check_schema(schema([*cell_names()[::-1], "w", "more"]), first, [*cell_names(), "w"], "b.parquet")
    check_schema(schema(cell_names(), person=pa.dictionary(pa.int8(), pa.string())), first, ["person"], "b.parquet")
    with pytest.raises(PartError, match=r"b\.parquet: has no column 'w', which the first file has\."):
        check_schema(schema(cell_names()), first, [*cell_names(), "w"], "b.parquet")
    with pytest.raises(PartError, match=r"b\.parquet: column 'w' is of type string; in the first file it is double\."):
        check_schema(schema(cell_names(), w=pa.string()), first, [*cell_names(), "w"], "b.parquet")
