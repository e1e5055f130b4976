"""Fixtures of the tests of the command line: commands in this process or another, tables, a fitted model."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from optfair import OptFairPost
from optfair.cli.main import main
from optfair.utils import display
from tests.cli.helpers import FEATURES, FIT, make_predictions, make_train, make_unfair


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Use one BLAS thread: the models are tiny, and threads would only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def no_progress_lines(monkeypatch):
    """Keep the stderr of commands in this process free of lines that appear on a busy machine only."""
    monkeypatch.setattr(display, "LINE_SECONDS", 3600.0)


@pytest.fixture
def run(capsys):
    """Return a function that runs a command in this process: (exit code, stdout, stderr)."""

    def call(*argv):
        code = main([str(word) for word in argv])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def refuse(run):
    """Return a function that runs a command, requires exit code 2 and one line of stderr, and returns that line."""

    def call(command, *argv):
        code, out, err = run(command, *argv)
        assert (code, out) == (2, ""), err
        assert err.startswith(f"optfair {command}: ") and err.count("\n") == 1, err
        return err

    return call


@pytest.fixture
def process(tmp_path):
    """Return a function that runs `python ARGV` in another process; text=False gives bytes."""

    def call(*argv, shell_suffix="", text=True, **environment):
        command = [sys.executable, *map(str, argv)]
        if shell_suffix:  # "$@" are the arguments
            command = ["bash", "-c", f'"$@" {shell_suffix}', "bash", *command]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | environment
        return subprocess.run(command, capture_output=True, text=text, env=environment, timeout=120, cwd=tmp_path)

    return call


@pytest.fixture(scope="session")
def predictions():
    """Return a table with biased predictions."""
    return make_predictions()


@pytest.fixture(scope="session")
def predictions_file(predictions, tmp_path_factory):
    path = tmp_path_factory.mktemp("predictions") / "people.csv"
    predictions.to_csv(path, index=False)
    return path


@pytest.fixture
def unfair(tmp_path):
    """Write predictions that fail an audit and return their file."""
    make_unfair().to_csv(tmp_path / "unfair.csv", index=False)
    return tmp_path / "unfair.csv"


@pytest.fixture
def train(tmp_path):
    make_train().to_csv(tmp_path / "train.csv", index=False)
    return tmp_path / "train.csv"


@pytest.fixture(scope="session")
def model_files(tmp_path_factory):
    """Fit a model without race and return the content of its files, by name."""
    pytest.importorskip("skops", reason="models are saved by skops")
    folder = tmp_path_factory.mktemp("model")
    make_train().to_csv(folder / "train.csv", index=False)
    assert main(["fit", str(folder / "train.csv"), *FIT, "--drop", "race", "-o", str(folder / "model.skops")]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def model(model_files, tmp_path):
    """Return the file of that model, with its key and train.csv next to it."""
    for name, content in model_files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "model.skops.key").chmod(0o600)  # as it was written
    return tmp_path / "model.skops"


@pytest.fixture(scope="session")
def python_model():
    """Fit what `optfair fit` is documented to fit for `model_files`, written independently."""
    encoder = ColumnTransformer(
        [
            ("n", SimpleImputer(strategy="median", add_indicator=True), ["x1", "x2", "flag"]),
            ("t", OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=10), ["code"]),
        ]
    )
    classifier = make_pipeline(encoder, StandardScaler(), LogisticRegression(max_iter=5000))
    table = make_train()
    table["code"] = table["code"].where(table["code"].notna(), np.nan)  # as pandas reads it from a file
    model = OptFairPost(classifier, tolerance=0.1, random_state=0)
    return model.fit(table[FEATURES], table["y"], sensitive_features=table["sex"])
