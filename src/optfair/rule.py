"""The fair rule: ``h(x) = softmax((z(x) W + offset) / τ(x))``, from a joint posterior z(x) to class probabilities.

    W : (A·m, m) = U − reshape(Dᵀλ)       τ(x) = Σ_c z_c τ_c       possibly mixed with a constant: (1 − s) h + s q

It needs no group at prediction, only z(x). Where all temperatures are zero it is a plain argmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair import decisions
from optfair.determinism import Determinism
from optfair.dual.certificate import Certificate
from optfair.parallel import map_blocks, n_threads
from optfair.posterior import _as_rows, check_offset, check_rows, check_values


@dataclass(frozen=True, eq=False)
class FairRule:
    """The most accurate rule within tolerance, with its proof.

    weights : (A, m, m), scores of class j are Σ z[a,i]·weights[a,i,j]. temperatures : (A, m), of each cell.
    share, constant : with probability ``share`` the answer is drawn from ``constant`` (m,) whoever asks.
    certificate, multipliers, determinism : see `optfair.solve`. key : secret of hashed decisions, or None.
    """

    weights: np.ndarray
    temperatures: np.ndarray
    share: float
    constant: np.ndarray
    groups: pd.Index
    classes: pd.Index
    multipliers: pd.DataFrame
    certificate: Certificate
    determinism: Determinism
    key: bytes | None = None

    def __repr__(self) -> str:
        A, m, _ = self.weights.shape
        c = self.certificate
        value = "" if abs(c.value - c.accuracy) <= 1e-9 else f", value {c.value:.4f}"
        outside = "" if c.excess == 0 else f", OUTSIDE its bounds by {c.excess:.1e}"
        return (
            f"<FairRule for {A} groups and {m} classes: accuracy {c.accuracy:.4f}{value}, at most {c.gap:.1e} "
            f"below the best rule, violation {c.violation:.4f}{outside}>"
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[:2]

    def predict_proba(self, Z: Any, *, offset: Any = None, n_jobs: int | None = None) -> np.ndarray:
        """h(x) for rows of Z (n, A, m), as (n, m) in the order of ``classes``."""
        Z = check_rows(Z, self.shape)
        offset = check_offset(offset, len(Z), len(self.classes))
        W, tau = flat(self.weights), self.temperatures.ravel()
        out = np.empty((len(Z), len(self.classes)))

        def fill(part: slice) -> None:
            rows = _as_rows(Z[part])
            check_values(rows, part.start)
            extra = None if offset is None else np.asarray(offset[part], dtype=np.float64)
            out[part] = rule_probabilities(rows.astype(np.float64), W, tau, self.share, self.constant, extra)

        map_blocks(fill, len(Z), 2 * W.shape[0], n_threads(n_jobs))
        return out

    def predict(
        self,
        Z: Any,
        decision: str = "hashed",
        *,
        keys: Any = None,
        random_state: Any = None,
        offset: Any = None,
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """One class per row of Z.

        decision : "hashed" (the same person always gets the same answer; the person is ``keys[i]`` if given, else the
        row of Z rounded to float32), "argmax" (the likeliest class), "sampled" (drawn with ``random_state``).
        """
        decisions.check_decision(decision, keys, random_state)
        Z = check_rows(Z, self.shape)
        keys = decisions.check_keys(keys, len(Z))
        h = self.predict_proba(Z, offset=offset, n_jobs=n_jobs)
        flat_rows = Z.reshape(len(Z), Z.shape[1] * Z.shape[2])
        chosen = decisions.decide(
            h, decision, lambda index: decisions.posterior_people(flat_rows[index]), keys, random_state, self.key
        )
        return self.classes.to_numpy()[chosen]

    def save(self, path: Any) -> None:
        """Write the rule as JSON, and its secret key beside it as ``path`` + ".key", readable by the owner only."""
        from optfair.rule_file import save_rule

        save_rule(self, path)


def flat(weights: np.ndarray) -> np.ndarray:
    """(A, m, m) -> (A·m, m)"""
    return weights.reshape(-1, weights.shape[-1])


def rule_probabilities(
    Z: np.ndarray,
    W: np.ndarray,
    tau: np.ndarray,
    share: float,
    constant: np.ndarray,
    offset: np.ndarray | None = None,
) -> np.ndarray:
    """h, (k, m).   Z: (k, p) float64   W: (p, m)   tau: (p,), all zero for argmax"""
    scores = W.T @ Z.T
    if offset is not None:
        scores += offset.T
    if tau.any():
        scores -= scores.max(axis=0)
        scores /= Z @ tau
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=0)
    else:
        best = decisions.first_best(scores)
        scores = (best == np.arange(len(scores))[:, None]).astype(np.float64)
    if share > 0:
        scores = (1.0 - share) * scores + share * constant[:, None]
    return scores.T
