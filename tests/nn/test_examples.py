"""The examples of the methods that `TorchClassifier` inherits; those of public names run with the docstrings' tests."""

import doctest

import pytest

pytest.importorskip("torch")

from optfair.nn import prediction, serialization


@pytest.mark.parametrize("module", [prediction, serialization])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.failed == 0 < result.attempted
