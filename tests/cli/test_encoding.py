"""Columns as features: which are used, how they are read, and what is noted about them."""

import numpy as np
import pandas as pd
import pytest

from optfair import load_model
from optfair.cli.encoding import OPTIONS
from optfair.inputs.schema import find_schema
from tests.cli.helpers import FIT, FIT_WORDS, N_TRAIN, make_train, make_words


def test_useless_columns_are_not_used(run, train, tmp_path):
    table = make_train().assign(
        name=[f"person {k}" for k in range(N_TRAIN)],
        same="x",
        nobody=np.nan,
        row=np.arange(N_TRAIN) + 7,
        rare=[f"r{k // 8}" for k in range(N_TRAIN)],
    )
    table.to_csv(train, index=False)
    frontier = ["frontier", train, *FIT, "--points", "2", "-o", tmp_path / "out.csv"]
    code, _, err = run(*frontier)
    assert code == 0
    identifier = (
        f"note: column 'name' seems to be an identifier ({N_TRAIN} different texts in {N_TRAIN} rows): it is not"
    )
    assert identifier in err and "(--drop name silences this note)" in err
    assert "column 'same' is 'x' in every row" in err and "column 'nobody' is empty" in err
    assert f"column 'row' numbers the rows (7 to {N_TRAIN + 6})" in err
    assert "'rare' has no text that 10 people share" in err
    code, _, err = run(*frontier, "--drop", "name,same", "--drop", "nobody,row,rare")
    assert code == 0 and "note" not in err


def test_if_no_column_is_left_the_error_says_why():
    with pytest.raises(ValueError, match=r"no column is left to predict from.*column 'a' is 1 in every row"):
        find_schema(pd.DataFrame({"a": [1, 1, 1]}))


def test_notes_are_returned_and_not_raised():
    schema, notes = find_schema(pd.DataFrame({"a": [1, 1, 1], "b": [1, 2, 1]}))
    assert schema.columns == ["b"] and len(notes) == 1 and notes[0].startswith("column 'a' is 1 in every row")


def test_values_that_cannot_be_features(run, refuse, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    table, path = make_train(), tmp_path / "t.parquet"
    columns = {
        "spell": pd.to_timedelta(np.arange(N_TRAIN), unit="h"),
        "list": [[1, 2]] * N_TRAIN,
        "bytes": [b"x"] * N_TRAIN,
    }
    for name, values in columns.items():
        table.assign(**{name: values}).to_parquet(path)
        message = refuse("frontier", path, *FIT, "-o", tmp_path / "out.csv")
        assert f"column '{name}': holds values of type" in message and f"--drop {name}" in message
    assert run("frontier", path, *FIT, "--drop", "bytes", "--points", "2", "-o", tmp_path / "out.csv")[0] == 0


def test_dates_in_parquet_are_left_out_as_in_csv(run, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(N_TRAIN) % 30, unit="D")
    make_train().assign(when=days, day=days.date).to_parquet(tmp_path / "t.parquet")
    code, _, err = run("frontier", tmp_path / "t.parquet", *FIT, "--points", "2", "-o", tmp_path / "out.csv")
    assert code == 0 and "column 'when' holds dates, such as '2026-01-01 00:00:00'" in err
    assert "column 'day' holds dates, such as '2026-01-01', which do not recur" in err


def test_infinite_values_are_refused(refuse, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x1,sex,y\n" + "1,f,a\n2,m,b\ninf,m,b\n" * 20)
    message = refuse("frontier", path, *FIT, "-o", tmp_path / "out.csv")
    assert "column 'x1': 20 values are infinite (the first in row 3)" in message


# -- the tests below fit a model ----------------------------------------------------------------------------------
def test_numbers_can_be_categories(run, train, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    table = make_train()[["x1", "sex", "y"]].assign(zip=[f"0{k % 3}" for k in range(N_TRAIN)])
    table.to_csv(train, index=False)
    model = tmp_path / "m.skops"
    assert run("fit", train, *FIT, "--category", "zip", "-o", model)[0] == 0
    encoder = load_model(model).posterior_model_.model.named_steps["encoder"]
    assert encoder.transformer_.named_transformers_["texts"].categories_[0].tolist() == ["00", "01", "02"]
    assert run("predict", model, train, "-o", tmp_path / "out.csv")[::2] == (0, "")


def test_codes_are_the_same_with_and_without_a_point(run, refuse, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    table, model = make_words(), tmp_path / "m.skops"
    with_point = table.assign(code=table["code"].astype(float).where(table.index > 0))  # pandas then writes 7.0
    with_point.to_csv(tmp_path / "point.csv", index=False)
    table.to_csv(tmp_path / "whole.csv", index=False)
    assert run("fit", tmp_path / "point.csv", *FIT_WORDS, "--category", "code", "-o", model)[0] == 0
    code, _, err = run("predict", model, tmp_path / "whole.csv", "-o", tmp_path / "out.csv")
    assert code == 0 and "has not seen" not in err
    table.assign(kind="?").to_csv(tmp_path / "other.csv", index=False)
    message = refuse("predict", model, tmp_path / "other.csv", "-o", tmp_path / "other-out.csv")
    assert "the model has seen none of its texts, such as '?'; it knows None, Some" in message
    assert not (tmp_path / "other-out.csv").exists()


def test_none_and_na_are_words_in_texts(run, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pytest.importorskip("skops", reason="models are saved by skops")
    table, model = make_words(), tmp_path / "m.skops"
    table.to_parquet(tmp_path / "people.parquet")
    table.to_csv(tmp_path / "people.csv", index=False)
    assert run("fit", tmp_path / "people.parquet", *FIT_WORDS, "-o", model)[0] == 0
    for kind in ("parquet", "csv"):
        assert run("predict", model, tmp_path / f"people.{kind}", "-o", tmp_path / f"{kind}.csv")[0] == 0
    by_parquet, by_csv = (pd.read_csv(tmp_path / f"{kind}.csv")["prediction"].tolist() for kind in ("parquet", "csv"))
    assert by_parquet == by_csv
    table.assign(kind=table["kind"].where(table.index > 9)).to_csv(tmp_path / "holes.csv", index=False)
    code, _, err = run("predict", model, tmp_path / "holes.csv", "-o", tmp_path / "out.csv")
    assert code == 0 and f"column 'kind': is missing in 10 of {len(table)} rows; it was never missing" in err


def test_nameless_columns_blank_lines_and_short_lines(run, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    table, path = make_words(), tmp_path / "people.csv"
    rows = np.arange(len(table))
    table = table.assign(note=np.where(rows % 3, "some", None))
    table.index = pd.Index(np.where(rows % 7, "row", None))
    table.to_csv(path)
    fit = ["fit", path, *FIT_WORDS, "-o", tmp_path / "m.skops"]
    assert run(*fit)[0] == 0
    lines = path.read_text().splitlines()
    lines[1] = lines[1].rstrip(",")  # some programs leave out empty cells at the end
    path.write_text("\n".join([*lines, "   ", ""]))
    assert run(*fit)[0] == 0


def test_dates_and_decimal_commas(run, refuse, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    table, rng, model = make_train(), np.random.default_rng(0), tmp_path / "m.skops"
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 30, N_TRAIN), "D")
    table.assign(day=days.strftime("%Y-%m-%d")).to_csv(tmp_path / "dates.csv", index=False)
    code, _, err = run("fit", tmp_path / "dates.csv", *FIT, "-o", model)
    assert code == 0 and "column 'day' holds dates, such as '2020-01-" in err
    path, csv_format = tmp_path / "commas.csv", ["--separator", ";", "--decimal", ","]
    table.assign(price=rng.normal(size=N_TRAIN)).to_csv(path, index=False, sep=";", decimal=",")
    message = refuse("fit", path, *FIT, *csv_format[:2], "-o", model)
    assert "holds numbers with decimal commas, such as" in message and "add --decimal ','" in message
    assert run("fit", path, *FIT, *csv_format, "-o", model)[0] == 0
    output = tmp_path / "answers.csv"
    assert run("predict", model, path, *csv_format, "-o", output, "--probabilities")[0] == 0
    assert "prediction;p_hi" in output.read_text().splitlines()[0]  # written as it was read
    options = [*csv_format, "--label", "y", "--group", "sex", "--scores", "p_hi,p_lo,p_mid"]
    code, out, _ = run("audit", output, *options)
    assert code in (0, 1) and f"{N_TRAIN} people" in out


def test_a_number_that_is_an_id_is_noted_and_still_a_feature():
    """Check ids that repeat: a column of texts would be left out, and one that numbers the rows as well."""
    table = pd.DataFrame({"patient_nbr": np.arange(300) // 1.5, "cost": np.arange(300) * 7}).astype(int)
    schema, notes = find_schema(table, (), OPTIONS)
    assert schema.columns == ["patient_nbr", "cost"]
    assert notes == [
        "column 'patient_nbr' looks like an id (200 values among 300 rows); leave it out by --drop patient_nbr, or say "
        "--cluster patient_nbr if it tells which rows are of one person."
    ]
    assert find_schema(table[["cost"]], (), OPTIONS)[1] == []
