"""Test decisions: hashed, the same person gets the same class, and the population follows the randomised rule."""

import hashlib
import hmac
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optfair
from optfair.inputs.identity import key_bytes
from optfair.rule.decisions import HASHES, check_decision, check_keys, choose, decide, uniforms
from optfair.rule.keys import KEY_BYTES, new_key
from tests.problems import blind

N = 400


@pytest.fixture(scope="module")
def Z():
    """Return rows in single precision, in place of those that the folder shares."""
    return blind(0, n=N, dtype=np.float32)


@pytest.fixture(scope="module")
def rule(Z):
    """Return a rule that is undecided on many rows, because its temperature is high."""
    return optfair.solve(Z, "eo", 0.02, temperature=0.2, random_state=0, n_jobs=1)


def test_the_rule_is_undecided_on_most_rows(rule, Z):
    h = rule.predict_proba(Z)
    assert (h.max(axis=1) < 0.9).mean() > 0.5
    assert (rule.predict(Z) != h.argmax(axis=1)).mean() > 0.1


# -- the same person, the same class -----------------------------------------------------------------------
def test_alone_in_any_batch_and_in_any_order(rule, Z):
    whole = rule.predict(Z)
    alone = np.concatenate([rule.predict(Z[i : i + 1]) for i in range(N)])
    np.testing.assert_array_equal(whole, alone)
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(rule.predict(Z[order]), whole[order])
    for size in (2, 7, 64):
        parts = [rule.predict(Z[i : i + size]) for i in range(0, N, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(rule.predict(np.repeat(Z, 3, axis=0)), np.repeat(whole, 3))


def test_exact_ties_do_not_depend_on_the_batch():
    """Every class has the same probabilities, in another order of the groups: a tie that rounding breaks."""
    rng = np.random.default_rng(1)
    base = rng.dirichlet(np.ones(5), 500) / 3
    Z = np.stack([rng.permuted(base, axis=1) for _ in range(3)], axis=2)
    rule = optfair.solve(Z, "dp", 1.0, random_state=0, n_jobs=1)
    alone = np.concatenate([rule.predict(Z[i : i + 1]) for i in range(len(Z))])
    np.testing.assert_array_equal(rule.predict(Z), alone)


def test_after_save_and_load(rule, Z, tmp_path):
    rule.save(tmp_path / "rule.json")
    copy = optfair.load_rule(tmp_path / "rule.json")
    np.testing.assert_array_equal(copy.predict(Z), rule.predict(Z))
    np.testing.assert_array_equal(copy.predict(Z, keys=range(N)), rule.predict(Z, keys=range(N)))


@pytest.mark.parametrize(
    "copied",
    [
        lambda Z: Z.astype(np.float64),
        lambda Z: Z.astype(">f4"),
        lambda Z: Z.astype(">f8"),
        lambda Z: np.asfortranarray(Z),
        lambda Z: np.repeat(Z, 2, axis=0)[::2],
        lambda Z: Z.tolist(),
    ],
    ids=["float64", "big-endian 4", "big-endian 8", "fortran", "strided", "list"],
)
def test_a_copy_of_the_row_is_the_same_person(rule, Z, copied):
    np.testing.assert_array_equal(rule.predict(copied(Z)), rule.predict(Z))


def test_minus_zero_is_zero(rule):
    Z = np.array([[0.5, 0, 0], [0, 0.25, 0], [0, 0, 0.25]])[None]
    negative = np.where(Z == 0, -0.0, Z)
    assert np.signbit(negative).any()
    different = 0
    for seed in range(50):
        keyed = replace(rule, key=new_key(seed))
        assert keyed.predict(Z) == keyed.predict(negative)
        different += int(keyed.predict(Z)[0] != rule.predict(Z)[0])
    assert different > 0  # the decision was open, so agreeing 50 times was no accident


def test_rows_that_differ_are_other_people(rule, Z):
    """Moving a row by one unit in the last place of float32 draws anew."""
    neighbours = Z.copy()
    neighbours[:, 0, 0] = np.nextafter(neighbours[:, 0, 0], np.float32(2))
    assert (rule.predict(neighbours) != rule.predict(Z)).mean() > 0.1


# -- keys ---------------------------------------------------------------------------------------------------
def test_a_key_decides_whatever_the_position(rule, Z):
    keys = [f"person {i}" for i in range(N)]
    whole = rule.predict(Z, keys=keys)
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(rule.predict(Z[order], keys=[keys[i] for i in order]), whole[order])
    alone = np.concatenate([rule.predict(Z[i : i + 1], keys=[keys[i]]) for i in range(N)])
    np.testing.assert_array_equal(whole, alone)
    assert (rule.predict(Z, keys=keys[::-1]) != whole).mean() > 0.1
    assert (rule.predict(Z) != whole).mean() > 0.1


def test_one_key_at_one_row_gives_one_answer(rule, Z):
    same = np.repeat(Z[:1], 50, axis=0)
    assert len(set(rule.predict(same, keys=["ann"] * 50))) == 1
    assert len(set(rule.predict(same, keys=range(50)))) > 1


def answers(rule, Z, key):
    """Return what a person gets at every row of Z under several secrets."""
    return [j for s in range(5) for j in replace(rule, key=new_key(s)).predict(Z, keys=[key] * len(Z)).tolist()]


@pytest.mark.parametrize(
    "same",
    [
        [1, 1.0, np.int64(1), np.uint8(1), np.float32(1), True, np.bool_(True)],
        [0, 0.0, -0.0, False],
        ["1", np.str_("1")],
        [0.5, np.float64(0.5), np.float32(0.5)],
        [("a", 1), ("a", 1.0), ["a", 1]],
        [b"ab", np.bytes_(b"ab")],
        [10**20, 1e20],
    ],
    ids=str,
)
def test_keys_that_are_one_person(rule, Z, same):
    first = answers(rule, Z, same[0])
    assert all(answers(rule, Z, key) == first for key in same[1:])


def test_keys_that_are_different_people(rule, Z):
    keys = [
        1,
        b"1",
        "01",
        (1,),
        ((1,),),
        1.5,
        "1.5",
        2,
        -1,
        ("a", "bc"),
        ("ab", "c"),
        "abc",
        "True",
    ]
    assert len({tuple(answers(rule, Z, key)) for key in keys}) == len(keys)


def test_keys_come_in_any_container(rule, Z):
    expected = rule.predict(Z, keys=list(range(N)))
    for keys in (range(N), np.arange(N), np.arange(N, dtype=np.float32), pd.Series(range(N)), pd.Index(range(N))):
        np.testing.assert_array_equal(rule.predict(Z, keys=keys), expected)
    pairs = rule.predict(Z, keys=[(i, i) for i in range(N)])
    np.testing.assert_array_equal(rule.predict(Z, keys=np.array([[i, i] for i in range(N)])), pairs)
    np.testing.assert_array_equal(rule.predict(Z, keys=pd.Series(range(N), index=range(N, 0, -1))), expected)


HOLES = [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, "", b"", bytearray(), (), ("a", ""), np.str_(""), (("",), 1)]


@pytest.mark.parametrize("hole", HOLES, ids=repr)
def test_a_missing_key_is_refused(rule, Z, hole):
    with pytest.raises(
        ValueError, match=r"^keys: 2 of 400 are missing \(None, NaN or empty\); every person needs one\.$"
    ):
        rule.predict(Z, keys=[hole, hole, *range(N - 2)])
    certain = replace(rule, temperatures=np.zeros((3, 3)))  # also where the key would not be used
    with pytest.raises(ValueError, match=r"^keys: 1 of 400 are missing"):
        certain.predict(Z, keys=[hole, *range(N - 1)])


@settings(max_examples=30)
@given(
    st.lists(
        st.integers() | st.text("ab1é☃", min_size=1, max_size=3) | st.booleans() | st.floats(allow_nan=False),
        max_size=5,
    )
)
def test_checking_keys_keeps_them(keys):
    assert check_keys(keys, len(keys)) == keys
    with pytest.raises(ValueError, match=r"^keys: "):
        check_keys(keys, len(keys) + 1)


# -- the population -----------------------------------------------------------------------------------------
def follows(counts, expected, variance):
    """Tell whether counts are within 5 standard deviations of what is expected."""
    return (np.abs(counts - expected) <= 5 * np.sqrt(variance) + 1e-9).all()


def test_hashed_answers_of_many_rows_follow_h(rule):
    Z = blind(5, n=20_000, dtype=np.float32)
    h = rule.predict_proba(Z)
    onehot = np.eye(3)[rule.predict(Z)]
    assert follows(onehot.sum(axis=0), h.sum(axis=0), (h * (1 - h)).sum(axis=0))
    # also within every group of people with a similar h, and the bound is tight enough to tell
    for j in range(3):
        for low in (0.0, 0.2, 0.4, 0.6, 0.8):
            rows = (h[:, j] >= low) & (h[:, j] < low + 0.2)
            assert follows(onehot[rows, j].sum(), h[rows, j].sum(), (h * (1 - h))[rows, j].sum())
    rows = (h[:, 0] >= 0.6) & (h[:, 0] < 0.8)
    assert not follows((h[rows].argmax(axis=1) == 0).sum(), h[rows, 0].sum(), (h * (1 - h))[rows, 0].sum())


@pytest.mark.parametrize("keys", [range(20_000), [f"id-{i}" for i in range(20_000)]], ids=["int", "str"])
def test_hashed_answers_of_many_keys_follow_h(rule, Z, keys):
    row = Z[np.argmin(np.abs(rule.predict_proba(Z).max(axis=1) - 0.6))]
    h = rule.predict_proba(row[None])[0]
    counts = np.bincount(rule.predict(np.repeat(row[None], 20_000, axis=0), keys=keys), minlength=3)
    assert follows(counts, 20_000 * h, 20_000 * h * (1 - h))


def test_uniforms_are_uniform_and_independent_of_each_other():
    u = uniforms(new_key(0), (i.to_bytes(4, "little") for i in range(50_000)))
    assert u.min() >= 0 and u.max() < 1
    deciles = np.bincount((u * 10).astype(int), minlength=10)
    assert follows(deciles, np.full(10, 5000.0), np.full(10, 4500.0))
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 5 / np.sqrt(50_000)


# -- secret keys --------------------------------------------------------------------------------------------
def test_another_secret_gives_other_answers(rule, Z):
    other = replace(rule, key=new_key(1))
    h = rule.predict_proba(Z)
    expected = 1 - (h**2).sum(axis=1).mean()  # two independent draws differ this often
    assert (other.predict(Z) != rule.predict(Z)).mean() == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(N))


def test_the_secret_comes_from_random_state_or_from_nowhere(Z):
    first, same, other = (optfair.solve(Z, "dp", 0.05, random_state=s, n_jobs=1) for s in (7, np.int64(7), 8))
    assert first.key == same.key != other.key
    fresh = {new_key(None) for _ in range(20)}
    assert len(fresh) == 20 and all(len(key) == KEY_BYTES for key in fresh)
    assert optfair.solve(Z, "dp", 0.05, n_jobs=1).key != optfair.solve(Z, "dp", 0.05, n_jobs=1).key


# -- the inverse CDF ----------------------------------------------------------------------------------------
LAST = np.nextafter(1.0, 0.0)


def test_choose_is_the_inverse_cdf():
    h = np.tile([0.25, 0.5, 0.25], (6, 1))
    u = np.array([0.0, np.nextafter(0.25, 0), 0.25, np.nextafter(0.75, 0), 0.75, LAST])
    assert choose(h, u).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("u", [0.0, 0.3, LAST])
def test_a_class_of_probability_zero_is_never_chosen(u):
    h = np.array([[0, 1.0, 0], [0, 0.5, 0.5], [0.5, 0.5, 0], [1.0, 0, 0], [0, 0, 1.0]])
    codes = choose(h, np.full(5, u))
    assert (h[np.arange(5), codes] > 0).all()


@given(
    st.lists(st.sampled_from([0.0, 1e-300, 1e-17, 0.1, 1 / 3, 0.7, 1.0]), min_size=2, max_size=6).filter(any),
    st.sampled_from([0.0, 2.0**-53, 0.1, 1 / 3, 0.5, 0.9, LAST]),
)
def test_any_row_at_any_u(masses, u):
    h = np.array([masses]) / sum(masses)
    j = int(choose(h, np.array([u]))[0])
    assert h[0, j] > 0
    before = h[0, :j].sum()
    assert before <= u + 1e-12 and u <= before + h[0, j] + 1e-12


# -- sampled ------------------------------------------------------------------------------------------------
def test_sampled_is_reproducible(rule, Z):
    first = rule.predict(Z, decision="sampled", random_state=3)
    np.testing.assert_array_equal(first, rule.predict(Z, decision="sampled", random_state=3))
    assert (first != rule.predict(Z, decision="sampled", random_state=4)).any()
    generator = np.random.default_rng(3)
    np.testing.assert_array_equal(first, rule.predict(Z, decision="sampled", random_state=generator))
    assert (first != rule.predict(Z, decision="sampled", random_state=generator)).any()  # it moved on


def test_sampled_averages_to_h(rule, Z):
    h = rule.predict_proba(Z[:50])
    generator = np.random.default_rng(0)
    draws = [np.eye(3)[rule.predict(Z[:50], decision="sampled", random_state=generator)] for _ in range(500)]
    assert follows(np.sum(draws, axis=0), 500 * h, 500 * h * (1 - h) + 1)


def test_nothing_warns(rule, Z):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule.predict(Z, keys=np.arange(N))


def test_identities_are_asked_for_where_no_keys_are_given_and_only_of_undecided_rows():
    h, secret = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]), new_key(0)
    requested = []

    def identities(index):
        requested.append(index.tolist())
        return [b"%d" % i for i in index]

    codes = decide(h, "hashed", identities, secret=secret)
    assert requested == [[1, 2]] and codes[0] == 0
    np.testing.assert_array_equal(codes[1:], choose(h[1:], uniforms(secret, [b"1", b"2"])))
    decide(h, "hashed", identities, keys=["x", "y", "z"], secret=secret)
    decide(h, "argmax", identities)
    decide(h, "sampled", identities, random_state=0)
    assert requested == [[1, 2]]


@pytest.mark.parametrize(("rest", "is_hashed"), [(2.0**-29, True), (2.0**-30, False), (2.0**-40, False), (0.0, False)])
def test_a_probability_of_almost_one_is_decided_without_a_hash(rest, is_hashed):
    """No rate moves by more than 2⁻³⁰: nobody can tell this from the randomised rule."""
    requested = []

    def identities(index):
        requested.append(index.tolist())
        return [b"%d" % i for i in index]

    h = np.array([[rest, 1 - rest], [0.5, 0.5]])
    codes = decide(h, "hashed", identities, secret=new_key(0))
    assert requested == [[0, 1] if is_hashed else [1]] and codes[0] == 1
    requested.clear()
    alone = decide(h[:1], "hashed", identities, secret=new_key(0))
    assert alone[0] == codes[0] and requested == ([[0]] if is_hashed else [])


def test_uniforms_are_the_top_bits_of_the_keyed_hash():
    secret, people = new_key(1), [b"", b"a", b"b" * 300]
    digests = [hashlib.blake2b(person, key=secret, digest_size=8).digest() for person in people]
    expected = [(int.from_bytes(digest, "little") >> 11) / 2**53 for digest in digests]
    assert uniforms(secret, people).tolist() == expected
    assert uniforms(secret, []).shape == (0,)


def test_uniforms_of_the_other_hash():
    secret, people = new_key(1), [b"", b"a", b"b" * 300]
    digests = [hmac.new(secret, person, "sha256").digest()[:8] for person in people]
    expected = [(int.from_bytes(digest, "little") >> 11) / 2**53 for digest in digests]
    assert uniforms(secret, people, "hmac-sha256").tolist() == expected


def test_the_hash_is_a_choice_of_who_decides(rule, Z):
    keys = range(len(Z))
    one, other = (rule.predict(Z, keys=keys, hashing=hashing) for hashing in HASHES)
    assert (one != other).any() and (one == other)[rule.predict_proba(Z).max(axis=1) > 0.999].all()
    draws = rule.explain(Z, keys=keys, hashing="hmac-sha256").table["draw"]
    secret = rule.key
    expected = uniforms(secret, [b"k" + key_bytes(key) for key in keys], "hmac-sha256")
    np.testing.assert_array_equal(draws[draws.notna()], expected[draws.notna()])
    with pytest.raises(ValueError, match=r"^hashing='md5': must be one of 'blake2b', 'hmac-sha256'.$"):
        rule.predict(Z, hashing="md5")


def test_ties_go_to_the_first_class_whatever_the_rounding():
    h = np.array([[0.3, 0.35, 0.35], [0.35 - 1e-14, 0.3, 0.35], [0.2, 0.4, 0.4 + 1e-9]])
    assert decide(h, "argmax", lambda index: []).tolist() == [1, 0, 2]


def test_arguments_belong_to_their_decision():
    check_decision("hashed", ["key"], None)
    check_decision("sampled", None, 0)
    with pytest.raises(ValueError, match=r"^decision='dice': must be one of 'hashed', 'argmax', 'sampled'\.$"):
        check_decision("dice", None, None)


def test_an_id_of_several_columns_is_that_of_tuples(rule, Z):
    """Check frames too: to go through one gives the names of its columns, which are not people."""
    tuples = [(k // 7, f"v{k % 7}") for k in range(N)]
    expected = rule.predict(Z, keys=tuples)
    frame = pd.DataFrame(tuples, columns=["site", "visit"])
    for keys in (frame, [list(key) for key in tuples], [(str(site), visit) for site, visit in tuples]):
        np.testing.assert_array_equal(rule.predict(Z, keys=keys), expected)
    np.testing.assert_array_equal(rule.predict(Z, keys=frame[["site"]]), rule.predict(Z, keys=frame["site"]))
    with pytest.raises(ValueError, match="keys: 3 given for 400 rows"):
        rule.predict(Z, keys=frame[:3])


TIMES = np.array(["2020-01-01", "1969-12-31", "2262-01-01"], dtype="M8[ns]")


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_dates_are_the_same_people_in_every_container(unit, rule, Z):
    times = np.resize(TIMES.astype(f"M8[{unit}]"), N)
    expected = check_keys(pd.Series(times), N)
    expected_bytes = [key_bytes(key) for key in expected]
    table = pd.DataFrame({"date": times, "site": 1})
    assert len(set(expected_bytes)) == 3
    for keys in (times, list(times), times.astype(object) if unit in ("s", "ms", "us") else times, pd.Index(times)):
        assert [key_bytes(key) for key in check_keys(keys, N)] == expected_bytes
        np.testing.assert_array_equal(rule.predict(Z, keys=keys), rule.predict(Z, keys=pd.Series(times)))
    pairs = [(time, 1) for time in times]
    np.testing.assert_array_equal(rule.predict(Z, keys=pairs), rule.predict(Z, keys=table))
    twice = np.column_stack([times, times])
    assert [key_bytes(key) for key in check_keys(twice, N)] == [key_bytes((key, key)) for key in expected]


def test_durations_are_the_same_people_in_every_container():
    spans = np.array([1, 90, 86_400_000], dtype="m8[ms]")
    expected = [key_bytes(key) for key in check_keys(pd.Series(spans), 3)]
    for keys in (spans, list(spans), spans.astype("m8[ns]")):
        assert [key_bytes(key) for key in check_keys(keys, 3)] == expected
    with pytest.raises(ValueError, match=r"^keys: 1 of 2 are missing"):
        check_keys(np.array([1, "NaT"], dtype="m8[ms]"), 2)


@pytest.mark.parametrize("key", ["\ud800", ("a", "\udfff"), ["a", ["\ud800"]]])
def test_a_key_is_valid_text(key, rule, Z):
    with pytest.raises(ValueError, match=r"^keys: '.ud.*' is not valid text \(a lone surrogate\); read the data with"):
        rule.predict(Z[:1], keys=[key])
