"""The registry of methods: complete, truthful, and usable without torch."""

import subprocess
import sys
from pathlib import Path

import pytest

import optfair
from optfair import baselines
from optfair.baselines import METHODS
from tests.baselines.helpers import CRITERIA, PAPER, load_method


def test_every_method_of_the_paper_is_there():
    assert set(PAPER) | {"OptFairIn", "OptFairPost"} == set(METHODS)
    assert set(PAPER) | {"METHODS"} == set(baselines.__all__) <= set(dir(baselines))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = baselines.Nothing


@pytest.mark.parametrize("name", METHODS)
def test_the_registry_is_truthful(name):
    method, kind = METHODS[name], load_method(name)
    assert kind.__name__ == method.name == name and kind.__doc__
    assert method.kind in ("in", "post") and method.output in ("deterministic", "randomised", "mixture")
    assert method.bounds in (None, "centre", "pairwise", "ratio")
    arguments = kind().get_params()
    if method.knob is None:
        assert method.grid == () and "criterion" not in arguments and method.criteria == ()
        return
    assert method.knob in arguments and arguments["criterion"] == "demographic_parity"
    assert len(method.grid) == 5 == len(set(method.grid)) and min(method.grid) > 0
    assert method.criteria == CRITERIA
    model = method.make("eo", method.grid[0], random_state=1)
    assert (model.criterion, getattr(model, method.knob), model.random_state) == ("eo", method.grid[0], 1)
    for other in ("oae", "nonsense", None):
        with pytest.raises(ValueError, match=f"criterion={other!r}: methods are compared by 'dp', 'eop', 'eo'"):
            method.make(other)


def test_a_method_without_a_knob():
    with pytest.raises(ValueError, match="criterion='nonsense': methods are compared by"):
        METHODS["ERM"].make("nonsense")
    with pytest.raises(ValueError, match=r"value=0.1: ERM has no knob"):
        METHODS["ERM"].make("dp", 0.1)
    assert METHODS["ERM"].make("dp").get_params() == baselines.ERM().get_params()


def test_without_torch_the_others_are_there(tmp_path):
    """A process in which torch cannot be imported: its methods say how to install it."""
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
from optfair import baselines
from optfair.baselines import METHODS
for name, method in METHODS.items():
    try:
        method.load()
        assert method.needs is None
    except ImportError as error:
        assert str(error) == f'{{name}} needs torch: pip install "optfair[torch]"', error
try:
    baselines.AdvDebias
except ImportError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == 'AdvDebias needs torch: pip install "optfair[torch]"'


def test_the_package_has_the_baselines():
    assert optfair.baselines is baselines and "baselines" in optfair.__all__
    assert {path.stem for path in Path(baselines.__file__).parent.rglob("*.py")} >= {"erm", "frappe", "registry"}
