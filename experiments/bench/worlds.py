"""Make people of many groups and classes whose posteriors are known, without any release of optfair.

    A ~ ω,   X | A=a ~ N(μ_a, I),   Y | X=x, A=a ~ softmax(x V + b_a),   z(x)[a, i] = P(A=a | x) P(Y=i | x, A=a).

Groups differ in x, through μ, and at equal x, through b; the smallest has a share of 0.2 / A. So groups are told apart
only in part, classes are not equally frequent, and every criterion costs accuracy. People are shown by features x M
with an invertible M: they are correlated, as features are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

FEATURES = 20
DISTANCE = 1.0  # root mean square length of μ_a: a group is guessed from x more often than by chance, not reliably
SEPARATION = 2.0  # standard deviation of the log-odds x V of a class: accuracies of .5 to .8
CLASS_EFFECT = 0.5  # standard deviation of the intercepts of classes: the largest is a few times the smallest
GROUP_EFFECT = 0.5  # standard deviation of what a group adds to them: its bias at equal features
FACTORS, OWN = 3, 0.3  # features share 3 factors, beside what is their own: naive Bayes is then far too certain
SMALLEST = 0.2  # share of the smallest group, in shares of a mean group
CHUNK = 32_768  # rows with one generator: a smaller sample is the beginning of a larger one
WORLD_STREAM, ROWS_STREAM = 0, 1


def group_sizes(A: int) -> np.ndarray:
    """Return shares ω (A,) that fall by a constant factor, to 0.2 / A."""
    steps = np.arange(A) / max(A - 1, 1)

    def shares(log_ratio: float) -> np.ndarray:
        sizes = np.exp(-log_ratio * steps)
        return sizes / sizes.sum()

    if A == 1:
        return np.ones(1)
    return shares(brentq(lambda log_ratio: shares(log_ratio)[-1] * A - SMALLEST, 0.0, 10.0))


@dataclass(frozen=True, eq=False)
class World:
    """sizes : ω (A,). centres : μ (A, d). slopes : V (d, m). intercepts : b (A, m). mixing : M (d, d). seed : of rows.

    Its posteriors are those of x; M, which is invertible, does not change them.
    """

    sizes: np.ndarray
    centres: np.ndarray
    slopes: np.ndarray
    intercepts: np.ndarray
    mixing: np.ndarray
    seed: int

    @classmethod
    def of(cls, A: int, m: int, seed: int = 0, d: int = FEATURES) -> World:
        """Return the world of A groups and m classes that a seed stands for."""
        rng = np.random.default_rng([seed, WORLD_STREAM])
        slopes = rng.standard_normal((d, m)) * SEPARATION / np.sqrt(d)
        centres = rng.standard_normal((A, d)) * DISTANCE / np.sqrt(d)
        intercepts = CLASS_EFFECT * rng.standard_normal(m) + GROUP_EFFECT * rng.standard_normal((A, m))
        factors = rng.standard_normal((d, FACTORS)) @ rng.standard_normal((FACTORS, d)) / np.sqrt(d)
        mixing = OWN * np.eye(d) + factors
        sizes, *arrays = (a.astype(np.float32) for a in (group_sizes(A), centres, slopes, intercepts, mixing))
        return cls(sizes, arrays[0], arrays[1], arrays[2], arrays[3], seed)

    def posteriors(self, X: np.ndarray) -> np.ndarray:
        """Return z of rows x.   (k, d) -> (k, A, m)"""
        share = _softmax(X @ self.centres.T + (np.log(self.sizes) - (self.centres**2).sum(axis=1) / 2))
        Z = _softmax((X @ self.slopes)[:, None, :] + self.intercepts)
        Z *= share[:, :, None]
        return Z

    def chunks(self, n: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.random.Generator]]:
        """Yield (rows, groups, features, generator for what else is drawn) of n people, chunk by chunk."""
        d = self.centres.shape[1]
        for number, start in enumerate(range(0, n, CHUNK)):
            rng = np.random.default_rng([self.seed, ROWS_STREAM, number])
            a = np.searchsorted(np.cumsum(self.sizes)[:-1], rng.random(CHUNK, dtype=np.float32))
            X = rng.standard_normal((CHUNK, d), dtype=np.float32) + self.centres[a]
            rows = slice(start, min(start + CHUNK, n))
            k = rows.stop - start
            yield rows, a[:k], X[:k], rng

    def people(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return features X M (n, d), groups (n,) and classes (n,) of n people."""
        X, a, y = np.empty((n, self.centres.shape[1]), np.float32), np.empty(n, np.int64), np.empty(n, np.int64)
        for rows, group, features, rng in self.chunks(n):
            h = _softmax(features @ self.slopes + self.intercepts[group])
            uniform = rng.random(CHUNK, dtype=np.float32)[: len(h), None]
            X[rows], a[rows] = features @ self.mixing, group
            y[rows] = (np.cumsum(h, axis=1)[:, :-1] < uniform).sum(axis=1)
        return X, a, y


def make_posteriors(n: int, A: int, m: int, seed: int = 0, out: np.ndarray | None = None) -> np.ndarray:
    """Return Z (n, A, m) float32 of n people. out : where to put it, such as a memory map."""
    Z = np.empty((n, A, m), np.float32) if out is None else out
    world = World.of(A, m, seed)
    for rows, _, X, _ in world.chunks(n):
        for start in range(0, len(X), 4096):  # so that rows of a thousand classes need little memory
            Z[rows][start : start + 4096] = world.posteriors(X[start : start + 4096])
    return Z


def unconstrained_gap(Z: np.ndarray) -> float:
    """Return the largest |P(h=j | group) − P(h=j)| of the likeliest class, by the posteriors."""
    n, A, m = Z.shape
    totals = np.zeros((A, m))
    for start in range(0, n, CHUNK):
        block = np.asarray(Z[start : start + CHUNK], np.float64)
        np.add.at(totals.T, block.sum(axis=1).argmax(axis=1), block.sum(axis=2))
    rates = totals / totals.sum(axis=1, keepdims=True)
    return float(np.abs(rates - totals.sum(axis=0) / n).max())


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Return softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
