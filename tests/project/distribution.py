"""Use an installed optfair from an empty folder, as `make dist` does with every file that would be published.

It runs with the interpreter that optfair is installed for, and needs nothing of the repository.
"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

COMMAND = Path(sys.executable).parent / "optfair"
FIT = "people.csv --label occupation --group sex,race --criterion dp --tolerance 0.03 --no-path"
STEPS = {
    "datasets adult-occupation -o people.csv --test others.csv": {0},
    f"fit {FIT} -o fair.skops --html fit.html": {0},
    "predict fair.skops others.csv -o predictions.csv": {0},
    "audit predictions.csv --label occupation --prediction prediction --group sex,race --tolerance 0.03": {0, 1},
    "report fair.skops others.csv --label occupation -o report.html": {0, 1},
    "export fair.skops -o fair.json": {0},
}
PYTHON = """
import optfair
from optfair.datasets import load
train, test = load("adult-occupation").split(0.2, random_state=0)
model = optfair.OptFairPost(criterion="eo", tolerance=0.05, random_state=0)
model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
assert model.certificate_.gap < 1e-3 and len(model.predict(test.X)) == len(test.y)
optfair.load_model("fair.skops").predict(test.X.iloc[:3])
"""


def main() -> int:
    """Run every step in an empty folder, and return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="optfair-dist-"))
    try:
        for package in ("experiments", "tests"):
            assert importlib.util.find_spec(package) is None, f"{package} was installed with optfair"
        assert run([str(COMMAND), "--version"], folder).strip().endswith(version("optfair"))
        for step, codes in STEPS.items():
            run([str(COMMAND), *step.split()], folder, codes)
        run([sys.executable, "-c", PYTHON], folder)
        print(f"optfair {version('optfair')}: {len(STEPS) + 2} steps passed")
    finally:
        shutil.rmtree(folder)
    return 0


def run(command: list[str], folder: Path, codes: set[int] | None = None) -> str:
    """Run a command, check its exit code, and return what it prints."""
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if process.returncode not in (codes or {0}):
        sys.exit(f"{' '.join(command)}: exit {process.returncode}\n{process.stdout}{process.stderr}")
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
