"""The examples of the methods that baselines inherit; those of public names run with the docstrings' tests."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["base", "posteriors", "registry", "networks.network"])
def test_examples(name):
    if name.startswith("networks"):
        pytest.importorskip("torch")
    result = doctest.testmod(importlib.import_module(f"optfair.baselines.{name}"))
    assert result.failed == 0 < result.attempted
