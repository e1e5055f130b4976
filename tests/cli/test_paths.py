"""Files that are named: checked before anything heavy is imported."""

import pytest

from tests.cli.helpers import AUDIT

PREDICTION = [*AUDIT, "--prediction", "answer"]


def test_paths_are_checked_before_anything_heavy_is_imported(process):
    code = (
        "import sys; from optfair.cli.main import main; "
        "print(main(['fit', 'absent.csv', '--label', 'y', '--group', 'g', '-o', 'm.skops']), 'pandas' in sys.modules)"
    )
    result = process("-c", code)
    assert result.stdout.split() == ["2", "False"] and "absent.csv: there is no such file" in result.stderr


def test_inputs_that_are_missing_or_folders(refuse, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert "there is no such file" in refuse("audit", tmp_path / "no.csv", *PREDICTION)
    assert "holds no Parquet files" in refuse("audit", tmp_path / "folder.csv", *PREDICTION)
    plan = ["--label", "truth", "--group", "race"]
    assert "is a folder; give a file" in refuse("plan", tmp_path / "folder.csv", *plan)


def test_outputs_that_are_folders_or_inputs(refuse, tmp_path, predictions_file):
    content = predictions_file.read_bytes()
    (tmp_path / "folder.csv").mkdir()
    folder = refuse("audit", predictions_file, *PREDICTION, "-o", tmp_path / "folder.csv")
    assert "is a folder; give the name of a file" in folder
    same = refuse("audit", predictions_file, *PREDICTION, "-o", predictions_file)
    assert "is also an input file" in same and predictions_file.read_bytes() == content


@pytest.mark.parametrize(
    ("output", "message"),
    [("nowhere/gaps.csv", "the folder nowhere does not exist"), ("gaps.docx", "the name of a table must end in .csv")],
)
def test_outputs_that_cannot_be_written(refuse, tmp_path, monkeypatch, predictions_file, output, message):
    monkeypatch.chdir(tmp_path)
    assert message in refuse("audit", predictions_file, *PREDICTION, "-o", output)
    assert list(tmp_path.iterdir()) == []
