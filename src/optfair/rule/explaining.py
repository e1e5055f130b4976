"""Explain the decisions of a rule: who is compared with what, in which parts, by which draw, and where it would flip.

Scores are linear in z, so that those of a mixture of several models are the scores of their mean z.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from optfair.constraints.criteria import CRITERIA
from optfair.errors import brief_repr
from optfair.rule.certificate import UNDECIDED
from optfair.rule.decisions import choose, first_best, likeliest_or_drawn
from optfair.rule.explanation import Explanation
from optfair.rule.score_terms import ScoreTerms
from optfair.rule.sentences import Setting, setting_notes

if TYPE_CHECKING:
    from optfair.rule.frontier import Frontier
    from optfair.rule.rule import FairRule

SAME = 1e-12  # tolerances this close are one


@dataclass(frozen=True, eq=False)
class Subject:
    """The people to explain.

    posteriors : z by each of the models whose rules are mixed, (n, A, m) each, mostly one. offset : (n, m) or None.
    model : (n,) codes of what the model itself answers, or None. numbers : the function from positions of people to
    their numbers in [0, 1), which hashed decisions are made with. blind : see `Setting`.
    """

    posteriors: Sequence[np.ndarray]
    numbers: Callable[[np.ndarray], np.ndarray]
    offset: Any = None
    model: np.ndarray | None = None
    blind: bool | None = None

    def probabilities(self, rule: FairRule) -> np.ndarray:
        """Return h of a rule, (n, m): the mean over the models."""
        h = [rule.predict_proba(Z, offset=self.offset) for Z in self.posteriors]
        return h[0] if len(h) == 1 else np.asarray(np.mean(h, axis=0))

    def mean_posterior(self) -> np.ndarray:
        """Return the mean z, (n, p)."""
        Z = self.posteriors[0] if len(self.posteriors) == 1 else np.mean(self.posteriors, axis=0)
        return np.asarray(Z, dtype=np.float64).reshape(len(Z), Z.shape[1] * Z.shape[2])


def explain_decisions(
    rule: FairRule, subject: Subject, decision: str, path: Frontier | None = None, notes: Sequence[str] = ()
) -> Explanation:
    """Return why the rule decides as it does about people. path : rules of other tolerances. notes : further ones."""
    if rule.terms is None:
        raise ValueError("explain: this rule does not hold what its scores are made of; solve it again.")
    h = subject.probabilities(rule)
    along_path = [] if path is None else [subject.probabilities(other) for other in path.rules]
    draws = person_numbers([h, *along_path], subject.numbers) if decision == "hashed" else np.full(len(h), np.nan)
    answer = decided(h, decision, draws)
    Z, offset = subject.mean_posterior(), None if subject.offset is None else np.asarray(subject.offset, dtype=float)
    facts, parts = compare(rule.terms, rule.weights.reshape(Z.shape[1], h.shape[1]), Z, offset, answer)
    index = np.arange(len(h))
    facts |= {"probability": h[index, answer], "undecided": h.max(axis=1, initial=0.0) < UNDECIDED}
    facts |= draw_interval(h, answer, draws)
    setting = rule_setting(rule, decision, subject.blind)
    facts |= {"tolerance_other": np.full(len(h), np.nan), "answer_other": np.full(len(h), -1)}
    if path is not None:
        setting = replace(setting, tolerances=tuple(path.table["tolerance"].tolist()))
        answers = np.array([decided(other, decision, draws) for other in along_path])
        facts |= nearest_other(answer, answers, np.array(setting.tolerances), _reference(rule, setting))
    if subject.model is not None:
        facts["model"], setting = subject.model, replace(setting, has_model=True)
    rows = rule.multipliers.iloc[rule.terms.active][["criterion", "group", "against", "given", "outcome"]]
    table = _person_table(facts, rule.classes)
    return Explanation(table, parts, rows.reset_index(drop=True), setting, (*setting_notes(setting), *notes))


def check_path(path: Any, rule: FairRule) -> Any:
    """Return a path of other tolerances, or None, after checking that its rules are of the same groups and classes."""
    if path is None:
        return None
    rules = getattr(path, "rules", None)
    if not isinstance(rules, tuple) or not hasattr(path, "table"):
        raise ValueError(f"path={brief_repr(path)}: must be a Frontier, as optfair.frontier returns it.")
    if any(not (other.groups.equals(rule.groups) and other.classes.equals(rule.classes)) for other in rules):
        raise ValueError("path: its rules are for other groups or classes; compute it from the same posteriors.")
    return path


# -- decisions -----------------------------------------------------------------------------------------------
def person_numbers(probabilities: Sequence[np.ndarray], numbers: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the numbers of the people whom any of several rules draws for, (n,), NaN of the others."""
    draws = np.full(len(probabilities[0]), np.nan)
    positions = np.unique(np.concatenate([likeliest_or_drawn(h)[1] for h in probabilities]))
    if len(positions):
        draws[positions] = numbers(positions)
    return draws


def decided(h: np.ndarray, decision: str, draws: np.ndarray) -> np.ndarray:
    """Return the decisions, (n,) codes, as `optfair.rule.decisions.decide` makes them; of samples the likeliest."""
    if decision != "hashed":
        return first_best(h.T) if len(h) else np.zeros(0, dtype=int)
    codes, drawn_rows = likeliest_or_drawn(h)
    codes[drawn_rows] = choose(h[drawn_rows], draws[drawn_rows])
    return codes


def draw_interval(h: np.ndarray, answer: np.ndarray, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Return the draw of each person and the interval of draws that give the answer; NaN where nothing was drawn."""
    cumulative = np.cumsum(h, axis=1)
    bounds = np.column_stack([np.zeros(len(h)), cumulative]) / cumulative[:, -1:]
    index, is_drawn = np.arange(len(h)), np.zeros(len(h), dtype=bool)
    is_drawn[likeliest_or_drawn(h)[1]] = True
    columns = {"draw": draws, "draw_low": bounds[index, answer], "draw_high": bounds[index, answer + 1]}
    return {name: np.where(is_drawn & ~np.isnan(draws), values, np.nan) for name, values in columns.items()}


# -- scores --------------------------------------------------------------------------------------------------
def compare(
    terms: ScoreTerms, W: np.ndarray, Z: np.ndarray, offset: np.ndarray | None, answer: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return what the answer is compared with, the margin and its parts, (n,) each; and those of the rows, (n, K₁)."""
    index, m = np.arange(len(Z)), W.shape[1]
    free = terms.preference(Z, offset)
    scores = Z @ W if offset is None else Z @ W + offset
    plain = first_best(free.T) if len(Z) else np.zeros(0, dtype=int)
    rivals = np.where(np.arange(m) == answer[:, None], -np.inf, scores)
    against = np.where(plain != answer, plain, rivals.argmax(axis=1))
    parts = terms.parts(Z, answer, against)
    facts = {"plain": plain, "answer": answer, "against": against}
    facts["margin"] = scores[index, answer] - scores[index, against]
    facts["preference"] = free[index, answer] - free[index, against]
    facts["constraints"] = parts.sum(axis=1)
    return facts, parts


# -- other tolerances ----------------------------------------------------------------------------------------
def nearest_other(
    answer: np.ndarray, answers: np.ndarray, tolerances: np.ndarray, reference: float
) -> dict[str, np.ndarray]:
    """Return the tolerance nearest to the reference that gives another answer, and that answer, −1 where none does.

    answer : (n,). answers : (T, n), of each tolerance. Of two that are as near, the looser one.
    """
    order = np.lexsort((-tolerances, np.abs(tolerances - reference)))
    order = order[np.abs(tolerances[order] - reference) > SAME]
    differs = answers[order] != answer
    if not len(order):
        return {"tolerance_other": np.full(len(answer), np.nan), "answer_other": np.full(len(answer), -1)}
    first, index = differs.argmax(axis=0), np.arange(len(answer))
    has_other = differs[first, index]
    return {
        "tolerance_other": np.where(has_other, tolerances[order][first], np.nan),
        "answer_other": np.where(has_other, answers[order][first, index], -1),
    }


def rule_setting(rule: FairRule, decision: str, blind: bool | None = None) -> Setting:
    """Return what sentences about the people of a rule have in common."""
    has_costs = rule.terms is not None and rule.terms.has_costs
    if rule.promise is not None:
        tolerance = rule.promise.tolerance
    else:
        bounds = np.unique(_gap_bounds(rule))
        tolerance = float(bounds[0]) if len(bounds) == 1 else None
    return Setting(
        groups=rule.groups,
        decision=decision,
        share=rule.share,
        has_costs=has_costs,
        blind=blind,
        tolerance=tolerance,
        promised=rule.promise is not None,
    )


def _gap_bounds(rule: FairRule) -> np.ndarray:
    """Return the upper bounds of the rows that are gaps."""
    table = rule.multipliers
    return table.loc[table["criterion"].isin(list(CRITERIA)) & table["group"].notna(), "upper"].to_numpy()


def _reference(rule: FairRule, setting: Setting) -> float:
    """Return the tolerance that others are compared with: of several the strictest."""
    if setting.tolerance is not None:
        return setting.tolerance
    return float(_gap_bounds(rule).min(initial=1.0))


def _person_table(facts: dict[str, np.ndarray], classes: pd.Index) -> pd.DataFrame:
    """Return one line per person, with classes by name."""
    names = classes.to_numpy()
    columns: dict[str, Any] = {"model": names[facts["model"]]} if "model" in facts else {}
    columns |= {name: names[facts[name]] for name in ("plain", "answer")}
    columns["probability"], columns["against"] = facts["probability"], names[facts["against"]]
    for name in ("margin", "preference", "constraints", "undecided", "draw", "draw_low", "draw_high"):
        columns[name] = facts[name]
    columns["tolerance_other"] = facts["tolerance_other"]
    labels = classes.tolist()
    other = np.empty(len(facts["answer_other"]), dtype=object)
    other[:] = [None if code < 0 else labels[code] for code in facts["answer_other"].tolist()]
    # As objects, whatever there is: pandas would make another type of a column in which all are missing.
    return pd.DataFrame(columns | {"answer_other": pd.Series(other, dtype=object)}).rename_axis("person")
