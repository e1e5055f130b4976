"""Texts that mean missing: --na reads them so in every command, and a note names those that look like it."""

import numpy as np
import pandas as pd
import pytest

from optfair import load_model
from optfair.cli.placeholders import placeholder_notes, remove_placeholders
from tests.cli.helpers import FIT, UNFAIR, make_train, make_unfair

# That columns of other names are left out is said in a warning, which test_missing.py of the estimators looks at.
pytestmark = pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out")


def write_tables(folder, kind):
    """Write a table with gaps, and one with "?" (and -9 where a column has numbers only); return the options."""
    table = make_train()
    marked = table.assign(code=table["code"].where(table["code"].notna(), "?"))
    if kind == "parquet":
        table.to_parquet(folder / "gaps.parquet")
        marked.assign(x2=table["x2"].fillna(-9)).to_parquet(folder / "marks.parquet")
        return ["--na", "?", "--na", "-9"]
    table.to_csv(folder / "gaps.csv", index=False)
    numbers = table["x2"].astype(object).where(table["x2"].notna(), " ?")  # the blank does not count
    marked.assign(x2=numbers).to_csv(folder / "marks.csv", index=False)
    return ["--na", "?"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_na_is_the_same_as_an_empty_cell(run, tmp_path, kind):
    pytest.importorskip("skops", reason="models are saved by skops")
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    options = write_tables(tmp_path, kind)
    gaps, marks = tmp_path / f"gaps.{kind}", tmp_path / f"marks.{kind}"
    for path, words in ((gaps, []), (marks, options)):
        code, _, err = run("fit", path, *FIT, *words, "-o", path.with_suffix(".skops"))
        assert code == 0 and "note" not in err
    model = tmp_path / "gaps.skops"
    people = make_train()
    same = load_model(tmp_path / "marks.skops").predict_proba(people)
    np.testing.assert_array_equal(load_model(model).predict_proba(people), same)
    for path, words in ((gaps, []), (marks, options)):
        code, _, err = run("predict", model, path, *words, "-o", path.with_suffix(".out.csv"))
        assert code == 0 and "has not seen" not in err
    answers, others = (pd.read_csv(tmp_path / f"{name}.out.csv") for name in ("gaps", "marks"))
    assert answers["prediction"].tolist() == others["prediction"].tolist()
    assert "?" in others["code"].tolist()  # the columns of the table are written as they are


def test_a_missing_group_by_na(run, refuse, tmp_path):
    table = make_unfair()
    table.loc[:9, "g"] = "?"
    table.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run("audit", tmp_path / "t.csv", *UNFAIR)
    assert (
        code == 1 and "note: --group g: '?' is a group like any other (10 of 400 rows); if it means missing, add" in err
    )
    assert "add --na '?'." in err
    assert "--group g is missing in 10 of 400 rows" in refuse("audit", tmp_path / "t.csv", *UNFAIR, "--na", "?")
    code, out, err = run("audit", tmp_path / "t.csv", *UNFAIR, "--na", "?", "--missing", "group")
    assert code == 1 and err == "" and "(missing)" in out


def test_placeholders_among_groups_and_features_are_noted_once(run, tmp_path):
    table = make_train()
    table.loc[:29, "sex"] = "unknown"
    table["x2"] = table["x2"].astype(object).where(table["x2"].notna(), "-")  # numbers but for "-"
    table["code"] = table["code"].where(table["code"].notna(), "-")
    table.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run("frontier", tmp_path / "t.csv", *FIT, "--points", "2", "-o", tmp_path / "out.csv")
    assert code == 0
    assert "note: --group sex: 'unknown' is a group like any other (30 of 240 rows)" in err
    assert "note: '-' is a text like any other in the columns x2, code; if it means missing, add --na -." in err
    assert err.count("'unknown'") == 1 and "replace(" not in err


def test_rare_placeholders_and_ordinary_words_are_no_matter():
    words = pd.DataFrame({"a": ["None", "Other"] * 500, "b": ["x"] * 999 + ["?"], "c": range(1000), "d": [[1]] * 1000})
    assert placeholder_notes(words, {"a": "--group", "d": "--group"}, ["a", "b", "c", "d"]) == []
    numbers = pd.DataFrame({"b": ["1.5", "2"] * 500 + ["?"]})
    assert placeholder_notes(numbers, {}, ["b"]) != []
    assert placeholder_notes(numbers, {"b": "--label"})[0].startswith("--label b: '?' is a class like any other (1 of")


def test_nothing_is_removed_that_na_does_not_name():
    table = pd.DataFrame({"a": ["?", "x"], "b": [-9, 1], "c": [True, False], "d": [1.0, 2.0]})
    assert remove_placeholders(table, ()) is table and remove_placeholders(table, ("y", "7")) is table
    removed = remove_placeholders(table, ("?", "-9", "1"))
    assert removed.isna().to_numpy().tolist() == [[True, True, False, True], [False, True, False, False]]


def test_a_placeholder_that_the_model_has_not_seen(model, run, refuse, tmp_path):
    table = make_train().assign(code=["?"] + ["007"] * 239)
    table.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = run("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert code == 0 and "it is treated as a rare text (if '?' means missing, add --na '?')." in err
    table.assign(x1="?").to_csv(tmp_path / "new.csv", index=False)
    message = refuse("predict", model, tmp_path / "new.csv", "-o", tmp_path / "other.csv")
    assert "column 'x1': '?' (row 1) is not a number" in message and "--na '?' on the command line" in message
