"""Apply the fair rule: ``h(x) = softmax((z(x) W + offset) / τ(x))``, from a joint posterior z(x) to probabilities.

    W : (A·m, m) = U − reshape(Dᵀλ)       τ(x) = Σ_c z_c τ_c       possibly mixed with a constant: (1 − s) h + s q

It needs no group at prediction, only z(x). Where all temperatures are zero it is a plain argmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from optfair.dual.posterior import as_rows, check_offset, check_rows, check_values
from optfair.inputs.identity import posterior_bytes
from optfair.inputs.values import check_columns
from optfair.portable.graph import DEFAULT_OPSET
from optfair.rule import decisions, file
from optfair.rule.certificate import Certificate
from optfair.rule.determinism import Determinism
from optfair.rule.explaining import Subject, check_path, explain_decisions
from optfair.rule.explanation import Explanation
from optfair.rule.exporting import export_rule
from optfair.rule.folders import score_rows
from optfair.rule.promise import Promise
from optfair.rule.score_terms import ScoreTerms
from optfair.storage.scoring import ScoredFiles
from optfair.utils.html import card
from optfair.utils.parallel import map_blocks

if TYPE_CHECKING:
    from optfair.rule.frontier import Frontier


@dataclass(frozen=True, eq=False)
class FairRule:
    """The most accurate rule within tolerance, with its proof; `optfair.solve` returns it.

    Attributes
    ----------
    weights : ndarray of shape (n_groups, n_classes, n_classes)
        The score of class j is ``Σ z[a, i] · weights[a, i, j]``.
    temperatures : ndarray of shape (n_groups, n_classes)
        Temperature of each cell; all zero for a plain argmax.
    share : float
        With this probability the prediction is drawn from ``constant``, whatever x is; this brings a rule that missed
        its bounds by a little within them.
    constant : ndarray of shape (n_classes,)
        Probabilities of the constant rule that is mixed in.
    groups : pandas.Index
        Names of the groups.
    classes : pandas.Index
        Names of the classes.
    multipliers : pandas.DataFrame
        One line per constraint row: criterion, group, against, given, outcome, multiplier λ, price (Σ|λ| of its
        criterion and group), value, lower and upper.
    certificate : Certificate
        How close to the best rule this one is.
    determinism : Determinism
        What predicting the likeliest class for everybody would change.
    key : bytes or None
        Secret of hashed decisions.
    promise : Promise or None
        What is promised to new people, where a confidence was asked for.
    terms : ScoreTerms or None
        What the weights are made of, for `explain`: the utility, and one term for every constraint row.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import solve
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> rule = solve(Z, "dp", 0.01, classes=["low", "mid", "high"], random_state=0)
    >>> rule.predict_proba(Z).shape
    (500, 3)
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
    promise: Promise | None = None
    terms: ScoreTerms | None = None

    def __repr__(self) -> str:
        A, m, _ = self.weights.shape
        c = self.certificate
        value = f", value {c.value:.4f}" if c.has_costs else ""
        outside = "" if c.excess == 0 else f", OUTSIDE its bounds by {c.excess:.1e}"
        return (
            f"<FairRule for {A} groups and {m} classes: accuracy {c.accuracy:.4f}{value}, at most {c.gap:.1e} "
            f"below the best rule, violation {c.violation:.4f}{outside}>"
        )

    def _repr_html_(self) -> str:
        c, d = self.certificate, self.determinism
        A, m, _ = self.weights.shape
        rows = [
            ("accuracy", f"{c.accuracy:.4f}"),
            *([("value", f"{c.value:.4f}")] if c.has_costs else []),
            ("below the best rule by at most", f"{c.gap:.1e}"),
            ("largest gap", f"{c.violation:.4f}"),
            ("outside its bounds by", f"{c.excess:.1e}" if c.excess else "nothing"),
            ("people whose answer is drawn by lot", f"{d.undecided:.2%}"),
            ("status", str(c.status)),
            *([("promise", str(self.promise))] if self.promise is not None else []),
        ]
        return card(f"Fair rule for {A} groups and {m} classes", rows, "By the estimates that it was solved for.")

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of groups and classes."""
        return self.weights.shape[:2]

    @property
    def has_costs(self) -> bool:
        """Whether something else than the accuracy was maximised."""
        return self.certificate.has_costs

    def predict_proba(self, Z: Any, *, offset: Any = None, n_jobs: int | None = None) -> np.ndarray:
        """Return h(x), the probability of each class as the prediction.

        Parameters
        ----------
        Z : array of shape (n, n_groups, n_classes)
            Joint posteriors; each row sums to 1.
        offset : array of shape (n, n_classes), optional
            Utilities added to the scores, as in `optfair.solve`.
        n_jobs : int, optional
            Cores to use, all by default; see "Cores" in the user guide.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of ``classes``.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> h = solve(Z, "dp", 0.01, random_state=0).predict_proba(Z)
        >>> bool(np.allclose(h.sum(axis=1), 1))
        True
        """
        Z = check_rows(Z, self.shape)
        check_columns(offset, self.classes, "offset")
        offset = check_offset(offset, len(Z), len(self.classes))
        h = np.empty((len(Z), len(self.classes)))

        def fill(part: slice) -> None:
            rows = as_rows(Z[part])
            check_values(rows, part.start)
            extra = None if offset is None else np.asarray(offset[part], dtype=np.float64)
            h[part] = probabilities_of(self, rows.astype(np.float64), extra)

        map_blocks(fill, len(Z), 2 * self.temperatures.size, n_jobs)
        return h

    def predict(
        self,
        Z: Any,
        decision: str = "hashed",
        *,
        keys: Any = None,
        random_state: Any = None,
        offset: Any = None,
        hashing: str = "blake2b",
        n_jobs: int | None = None,
    ) -> np.ndarray:
        """Predict one class per row.

        Parameters
        ----------
        Z : array of shape (n, n_groups, n_classes)
            Joint posteriors; each row sums to 1.
        decision : {"hashed", "argmax", "sampled"}, default "hashed"
            By a keyed hash of the person, so that the same person always gets the same class (a class of probability
            1 − 2⁻³⁰ or more whoever it is); the likeliest class; or drawn with ``random_state``.
        keys : sequence of n keys, optional
            Who each person is, for "hashed" (an id is best); the row of Z rounded to float32 by default.
        random_state : int or Generator, optional
            Seed of "sampled".
        offset : array of shape (n, n_classes), optional
            Utilities added to the scores, as in `optfair.solve`.
        hashing : {"blake2b", "hmac-sha256"}, default "blake2b"
            Hash of "hashed"; with another one, undecided people get other answers.
        n_jobs : int, optional
            Cores to use, all by default; see "Cores" in the user guide.

        Returns
        -------
        ndarray of shape (n,)
            Class labels.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> rule = solve(Z, "dp", 0.01, classes=["low", "mid", "high"], random_state=0)
        >>> bool((rule.predict(Z) == rule.predict(Z)).all())
        True
        """
        decisions.check_decision(decision, keys, random_state, hashing)
        Z = check_rows(Z, self.shape)
        keys = decisions.check_keys(keys, len(Z))
        h = self.predict_proba(Z, offset=offset, n_jobs=n_jobs)
        rows = Z.reshape(len(Z), Z.shape[1] * Z.shape[2])
        drawing = keys, random_state, self.key, hashing
        codes = decisions.decide(h, decision, lambda index: posterior_bytes(rows[index]), *drawing)
        return self.classes.to_numpy()[codes]

    def score_parts(
        self,
        source: Any,
        out: Any,
        *,
        z: Any = "z_*",
        offset: Any = None,
        keys: Any = None,
        decision: str = "hashed",
        hashing: str = "blake2b",
        probabilities: bool = False,
        only: bool = False,
        client: Any = None,
    ) -> ScoredFiles:
        """Predict for rows of Z in a folder of Parquet files, and write each file with its answers into another folder.

        A file is whole or absent. A second call leaves those alone that were made by the same rule from the same file.

        Parameters
        ----------
        source : str or path
            Folder of Parquet files.
        out : str or path
            Folder to write to, made if need be.
        z, offset : str or sequence of str
            Columns of Z, and of utilities that are added to the scores; see `optfair.read_parquet`.
        keys : str or sequence of str, optional
            Columns that say who each person is; see `predict`.
        decision : {"hashed", "argmax", "sampled"}, default "hashed"
            How a class is chosen; see `predict`.
        hashing : {"blake2b", "hmac-sha256"}, default "blake2b"
            Hash of "hashed".
        probabilities : bool, default False
            Whether to write ``predict_proba`` too, a column for each class.
        only : bool, default False
            Whether to leave out the columns that were there.
        client : dask.distributed.Client, executor, or object with an ordered ``map``, optional
            Cluster whose machines share both folders.

        Returns
        -------
        ScoredFiles
            Which files were written and kept, rows and seconds.

        Examples
        --------
        >>> from optfair import load_rule
        >>> load_rule("rule.json").score_parts("scores/", out="answers/", keys="id")  # doctest: +SKIP
        """
        options = {"probabilities": probabilities, "only": only, "client": client}
        return score_rows(self, source, out, z, offset, keys, decision, hashing, **options)

    def explain(
        self,
        Z: Any,
        decision: str = "hashed",
        *,
        keys: Any = None,
        offset: Any = None,
        hashing: str = "blake2b",
        path: Frontier | None = None,
    ) -> Explanation:
        """Explain single answers: the model's preference, what each constraint adds, the draw, and what would flip it.

        ``β_j − β_i = Σ_c z_c (U_cj − U_ci) − Σ_k λ_k Σ_c z_c (D_kcj − D_kci)``, exactly.

        Parameters
        ----------
        Z : array of shape (n, n_groups, n_classes)
            Joint posteriors; each row sums to 1.
        decision : {"hashed", "argmax", "sampled"}, default "hashed"
            How `predict` chooses a class. What is sampled is not reproduced: the likeliest class is then explained.
        keys : sequence of n keys, optional
            Who each person is, as in `predict`; the draw is the very number that `predict` uses.
        offset : array of shape (n, n_classes), optional
            Utilities added to the scores, as in `optfair.solve`.
        hashing : {"blake2b", "hmac-sha256"}, default "blake2b"
            Hash of "hashed", as in `predict`.
        path : Frontier, optional
            Rules of other tolerances on the same posteriors, to say at which of them an answer would be another.

        Returns
        -------
        Explanation
            A table with a line per person, all terms, and sentences; ``print`` it.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> rule = solve(Z, "dp", 0.01, groups=["A", "B"], classes=["low", "mid", "high"], random_state=0)
        >>> explanation = rule.explain(Z)
        >>> bool((explanation.table["answer"] == rule.predict(Z)).all())
        True
        >>> explanation.sentences[0]
        'The answer is “high”, the same as without constraints, ahead of “mid” by 2.0 percentage points.'
        """
        decisions.check_decision(decision, keys, None, hashing)
        Z = check_rows(Z, self.shape)
        keys = decisions.check_keys(keys, len(Z))
        check_columns(offset, self.classes, "offset")
        offset = check_offset(offset, len(Z), len(self.classes))
        rows = Z.reshape(len(Z), Z.shape[1] * Z.shape[2])
        numbers = partial(
            decisions.person_draws,
            identities=lambda index: posterior_bytes(rows[index]),
            keys=keys,
            secret=self.key,
            hashing=hashing,
        )
        return explain_decisions(self, Subject([Z], numbers, offset), decision, check_path(path, self))

    def save(self, path: Any) -> None:
        """Write the rule as JSON, and its secret key beside it, readable by the owner only.

        Parameters
        ----------
        path : str or path
            The file; the key goes to ``path`` + ".key". Both are written atomically.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from optfair import load_rule, solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> rule = solve(Z, "dp", 0.01, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rule.save(os.path.join(folder, "rule.json"))
        ...     copy = load_rule(os.path.join(folder, "rule.json"))
        >>> bool((copy.predict(Z) == rule.predict(Z)).all())
        True
        """
        file.write_document(Path(path), file.rule_content(self), self.key)

    def export(
        self, path: Any, decision: str = "hashed", *, hashing: str = "blake2b", opset: int = DEFAULT_OPSET
    ) -> list[Path]:
        """Write the rule for services without optfair; the secret key is in none of the files.

        The files hold test vectors, and are written only if these come out.

        Parameters
        ----------
        path : str or path
            ``fair.json``, with scorers of one file in Python and JavaScript beside it; or ``fair.onnx``, a graph from
            ``joint``, (n, n_groups, n_classes), to ``probabilities``, ``scores`` and ``undecided`` (extra ``onnx``).
        decision : {"hashed", "argmax", "sampled"}, default "hashed"
            How a class is chosen; see `predict`.
        hashing : {"blake2b", "hmac-sha256"}, default "blake2b"
            Hash of "hashed"; the second is in every language.
        opset : int, default 19
            Version of the ONNX operators.

        Returns
        -------
        list of Path
            The files written.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from optfair import solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> rule = solve(Z, "dp", 0.01, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in rule.export(os.path.join(folder, "fair.json"))]
        ['fair.json', 'optfair_score.py', 'optfair_score.mjs']
        """
        return export_rule(self, path, decision, hashing, opset)


def flat(weights: np.ndarray) -> np.ndarray:
    """Return the rows of all cells.   (A, m, m) -> (A·m, m)"""
    return weights.reshape(-1, weights.shape[-1])


def probabilities_of(rule: FairRule, Z: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
    """Return h of rows that are known to be sound, (k, m).   Z: (k, p) float64   offset: (k, m) float64 or None"""
    W, tau = flat(rule.weights), rule.temperatures.ravel()
    return rule_probabilities(Z, offset, W, tau, rule.share, rule.constant)


def rule_probabilities(
    Z: np.ndarray,
    offset: np.ndarray | None,
    W: np.ndarray,
    tau: np.ndarray,
    share: float,
    constant: np.ndarray,
    scores: np.ndarray | None = None,
) -> np.ndarray:
    """Return h, (k, m).   Z: (k, p) float64   offset: (k, m) or None   W: (p, m)   tau: (p,), all zero for argmax

    scores : (Z W + offset)ᵀ, (m, k), where they are known; they are written to.
    """
    if scores is None:
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
