"""``--html``, ``--markdown`` and ``--json`` of audit and fit: the report that is printed, as files."""

import json
import sys

import pytest

from tests.cli.helpers import FIT

AUDIT = ["--label", "truth", "--prediction", "answer", "--group", "race"]
VERDICTS = {"PASS": "within", "FAIL": "beyond", "UNDECIDED": "unknown"}


@pytest.mark.parametrize("options", [[], ["--level", "0.8", "--tolerance", "0.1"], ["--tolerance", "0.9"]])
def test_an_audit_writes_what_it_prints(run, predictions_file, tmp_path, options):
    pytest.importorskip("jinja2", reason="the page is made with jinja2")
    names = {name: tmp_path / f"report.{name}" for name in ("html", "markdown", "json")}
    words = [word for name, path in names.items() for word in (f"--{name}", path)]
    _, out, _ = run("audit", predictions_file, *AUDIT, *options, *words)
    document = json.loads(names["json"].read_text(encoding="utf-8"))
    printed = out.splitlines()[-1].partition(":")[0]
    assert document["verdict"]["value"] == VERDICTS[printed]
    for path in (names["html"], names["markdown"]):
        assert document["verdict"]["sentence"] in path.read_text(encoding="utf-8")
    assert f"Wrote the report to {names['html']}" in out


def test_a_tolerance_that_was_not_given_is_called_the_default(run, predictions_file, tmp_path):
    path, words = tmp_path / "report.json", "0.01, the default: no tolerance was given"
    for options, is_default in (([], True), (["--tolerance", "0.01"], False)):
        run("audit", predictions_file, *AUDIT, *options, "--json", path)
        (item,) = json.loads(path.read_text(encoding="utf-8"))["asked"]
        assert (words in item["sentence"]) == item["default"] == is_default and item["tolerance"] == 0.01


def test_a_fit_reports_on_the_people_held_out(run, train, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    for options, held_out in ((["--test-size", "0.4"], True), ([], False)):
        path = tmp_path / "report.json"
        words = [*FIT, "--drop", "race", *options, "-o", tmp_path / "model.skops", "--json", path]
        code, out, _ = run("fit", train, *words)
        document = json.loads(path.read_text(encoding="utf-8"))
        assert code == 0 and f"Wrote the report to {path}" in out
        assert document["fitted_on"] != held_out
        assert document["n_people"] == (96 if held_out else 240)
        assert (document["changes"] is not None) == held_out


def test_files_are_checked_before_the_work(refuse, predictions_file, tmp_path, monkeypatch):
    page, table = tmp_path / "report.html", tmp_path / "gaps.csv"
    assert "does not exist" in refuse("audit", predictions_file, *AUDIT, "--html", tmp_path / "no" / "report.html")
    assert "is also an input file" in refuse("audit", predictions_file, *AUDIT, "--json", predictions_file)
    assert "is named twice" in refuse("audit", predictions_file, *AUDIT, "--markdown", table, "-o", table)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert '--html needs jinja2: pip install "optfair[report]"' in refuse(
        "audit", predictions_file, *AUDIT, "--html", page
    )
    assert not page.exists()


def test_the_key_of_a_model_is_not_a_page(refuse, train, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    model = tmp_path / "model.skops"
    (tmp_path / "x").mkdir()
    for path in (f"{model}.key", tmp_path / "x" / ".." / "model.skops"):
        assert "is named twice" in refuse("fit", train, *FIT, "--drop", "race", "-o", model, "--json", path)
    assert not model.exists()


def test_an_audit_needs_two_groups_that_count(refuse, predictions, tmp_path):
    table = predictions.assign(w=(predictions["race"] == "A").astype(float))
    table.to_csv(tmp_path / "table.csv", index=False)
    message = "--group race: there is one group; at least two are needed."
    assert message in refuse("audit", tmp_path / "table.csv", *AUDIT, "--weight", "w")
    table.assign(race=table["race"].where(table["race"] == "A")).to_csv(tmp_path / "table.csv", index=False)
    for missing in ("drop", "infer"):
        assert message in refuse("audit", tmp_path / "table.csv", *AUDIT, "--missing", missing)
