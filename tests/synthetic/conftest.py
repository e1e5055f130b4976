"""Worlds, made once: balancing the classes of one takes .06 s."""

import functools

import pytest

from optfair.datasets import make_fair_classification


@pytest.fixture(scope="session")
def make_world():
    """A function that makes the world of a seed and options; the same ones give the same object."""
    return functools.cache(lambda seed=0, **options: make_fair_classification(1, random_state=seed, **options).world)


@pytest.fixture(scope="session")
def world(make_world):
    """A world with the default options."""
    return make_world()


@pytest.fixture(scope="session")
def unequal():
    """Options of a world with groups of unequal sizes and direct bias."""
    return {"n_classes": 3, "n_groups": 3, "group_sizes": (0.6, 0.3, 0.1), "direct_bias": 0.7}
