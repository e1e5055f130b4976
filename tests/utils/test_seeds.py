"""Test seeds: a `random_state` of any kind becomes one integer."""

import numpy as np
import pytest

from optfair.utils.seeds import DRAWN_SEEDS, as_seed, fresh_seed, short_seed


def test_an_integer_stands_for_itself():
    for value in (0, 7, 2**40, np.int64(7), np.uint8(7)):
        assert as_seed(value) == value and type(as_seed(value)) is int
    assert as_seed(None) is None


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_gives_the_next_number_of_its_own(make):
    generator = make(3)
    first, second = as_seed(generator), as_seed(generator)
    assert first != second  # it moved on
    assert as_seed(make(3)) == first
    assert 0 <= first < DRAWN_SEEDS and type(first) is int


def test_the_global_generator_is_used_only_where_it_is_meant():
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(0)  # noqa: NPY002
        expected = as_seed(np.random.RandomState(0))
        as_seed(5), as_seed(None), as_seed(np.random.default_rng(0)), fresh_seed(), short_seed(1)
        assert as_seed(np.random) == expected
    finally:
        np.random.set_state(state)  # noqa: NPY002


@pytest.mark.parametrize("value", [-1, 1.5, "seed", True, [1], np.float64(1)])
def test_other_values_are_refused(value):
    with pytest.raises(ValueError) as caught:
        as_seed(value)
    assert str(caught.value) == f"random_state={value!r}: must be None, an integer >= 0, or a NumPy generator."


def test_fresh_seeds_differ_and_have_32_bits():
    seeds = {fresh_seed() for _ in range(50)}
    assert len(seeds) == 50 and all(0 <= seed < 2**32 for seed in seeds)


def test_a_short_seed_has_32_bits_and_depends_on_every_bit_of_the_long_one():
    long = 2**127 + 12345
    seeds = [short_seed(long ^ (1 << bit)) for bit in range(128)]
    assert len({short_seed(long), *seeds}) == 129
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert short_seed(long) == short_seed(long)
