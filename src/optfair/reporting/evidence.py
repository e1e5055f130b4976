"""Say what is known of a rule beyond the people measured: its price, proof and promise, and what is drawn by lot."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.criteria import CRITERIA
from optfair.constraints.naming import name_text, optional_text
from optfair.constraints.rows import object_frame
from optfair.reporting.wording import Mask, level_text, percent, size_text, tolerance_text
from optfair.rule.certificate import Certificate
from optfair.rule.determinism import FEW_DISTINCT, Determinism
from optfair.rule.promise import Promise

PRICE_COLUMNS = ("criterion", "group", "against")


# -- prices ----------------------------------------------------------------------------------------------------
def price_table(multipliers: pd.DataFrame | None) -> pd.DataFrame:
    """Return criterion, group, against, price: Σ|λ|, d accuracy / d tolerance, of all rows of a group or of a pair."""
    if multipliers is None:
        return object_frame(PRICE_COLUMNS, []).assign(price=np.array([], dtype=float))
    sums: dict[tuple[Any, ...], float] = {}
    for *key, multiplier in zip(*(multipliers[name] for name in (*PRICE_COLUMNS, "multiplier")), strict=True):
        sums[tuple(key)] = sums.get(tuple(key), 0.0) + abs(multiplier)
    return object_frame(PRICE_COLUMNS, list(sums)).assign(price=list(sums.values()))


def price_lines(table: pd.DataFrame, attributes: Sequence[Hashable] = ()) -> list[dict[str, Any]]:
    """Return what each group, or pair of groups, costs, the dearest first; what costs nothing is left out."""
    lines: list[dict[str, Any]] = [
        {
            "criterion": str(row.criterion),
            "group": optional_text(row.group, attributes),
            "against": None if row.against in (None, "overall") else name_text(row.against, attributes),
            "price": round(float(row.price), 6),
        }
        for row in table.sort_values("price", ascending=False, kind="stable").itertuples()
    ]
    return [line for line in lines if line["price"] > 0]


def group_prices(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the price of each group, the dearest first; the two groups of a pair have half of its price each."""
    sums: dict[str, float] = {}
    for line in lines:
        owners = [name for name in (line["group"], line["against"]) if name is not None]
        for owner in owners:
            sums[owner] = sums.get(owner, 0.0) + line["price"] / len(owners)
    return [{"group": name, "price": round(price, 6)} for name, price in sorted(sums.items(), key=lambda p: -p[1])]


# -- proof -----------------------------------------------------------------------------------------------------
def certificate_part(certificate: Certificate | None) -> dict[str, Any] | None:
    """Return the proof in numbers and in a sentence that can be quoted."""
    if certificate is None:
        return None
    unit = "value" if certificate.has_costs else "accuracy"
    sentence = (
        f"On the model's own estimates of the people fitted on, no rule within the same bounds reaches a higher {unit} "
        f"than {certificate.upper_bound:.4f}; this one reaches {certificate.value:.4f}. It is therefore at most "
        f"{math.ceil(1e4 * certificate.gap) / 1e4:.4f} below the best possible."
    )
    names = ("accuracy", "value", "upper_bound", "gap", "violation", "excess", "temperature", "residual", "seconds")
    numbers = {name: float(getattr(certificate, name)) for name in names}
    tolerance = certificate.tolerance
    return {
        "sentence": sentence,
        "status": str(certificate.status),
        "notes": list(certificate.notes),
        "tolerance": list(tolerance) if isinstance(tolerance, tuple) else tolerance,
        "passes": certificate.passes,
        "has_costs": certificate.has_costs,
        **numbers,
    }


def determinism_part(
    determinism: Determinism | None, undecided: float | None, mask: Mask, *, keyed: bool = False
) -> dict[str, Any] | None:
    """Return who gets an answer by lot, and what one answer for all alike would change.

    undecided : share of the people of a report whose answer is drawn by lot, None where that is not known. keyed :
    whether keys of persons draw for each of them.
    """
    if determinism is None:
        return None
    numbers = {name: mask.number(value) for name, value in asdict(determinism).items()}
    share = determinism.undecided if undecided is None else undecided
    sentence = (
        f"For {percent(share)} of people the fair answer is drawn by lot: once the prices of fairness are added, "
        "several answers are worth about the same, though the model may prefer one of them. "
        f"By the model's own estimates, if all got their likeliest answer instead, {_without_the_draw(determinism)}."
    )
    if share == 0:
        sentence = "No answer is drawn by lot: people alike get the same one."
    is_shared = determinism.distinct < FEW_DISTINCT and not keyed
    return {"sentence": sentence, "flip_together": bool(is_shared), **numbers}


def _without_the_draw(determinism: Determinism) -> str:
    """Say what the likeliest answer for everybody would change.

    Numbers are compared as they are printed, so that no sentence says "2.2 and not 2.2".
    """
    gap, gap_drawn = size_text(determinism.violation_argmax), size_text(determinism.violation_randomised)
    right, right_drawn = percent(determinism.accuracy_argmax), percent(determinism.accuracy_randomised)
    gaps = "as with the draw" if gap == gap_drawn else f"and not {gap_drawn}"
    answers = "as with it" if right == right_drawn else f"and not {right_drawn}"
    return f"the largest gap would be {gap} percentage points, {gaps}, and {right} of answers right, {answers}"


# -- promise ---------------------------------------------------------------------------------------------------
DECISION_WORDS = {"argmax": "always the likeliest", "sampled": "drawn anew at every call"}


def promise_subject(promise: Promise) -> str:
    """Say as a clause what is promised, its tolerance in percentage points."""
    if promise.tolerance is None:
        return promise.statement
    return f"{promise.statement.removesuffix(f'{promise.tolerance:.4g}')}{tolerance_text(promise.tolerance)}"


def promise_part(promise: Promise | None, mask: Mask) -> dict[str, Any] | None:
    """Return what is said of new people, in numbers and in a sentence that can be quoted."""
    if promise is None:
        return None
    subject = promise_subject(promise)
    gaps = promise.table[promise.table["criterion"].isin(list(CRITERIA))]
    size = np.maximum(gaps["high"], -gaps["low"]).to_numpy(dtype=float)
    is_shown = gaps["people"].to_numpy(dtype=float) >= mask.least
    bound = mask.number(size[is_shown].max()) if is_shown.any() else None
    basis = "fitted on, each judged by models that had not seen them"
    if promise.method == "held out":
        basis = "and holds if the rule was not fitted on them"
    confidence = level_text(promise.confidence)
    if promise.kept:
        sentence = f"With {confidence} confidence, {subject} among new people from the same population. "
    else:
        words = "the largest gap" if is_shown.all() else f"of groups of at least {mask.least} people the largest gap"
        reach = "" if bound is None else f"; {words} may be up to {size_text(bound)} percentage points"
        sentence = f"It cannot be said with {confidence} confidence that {subject} among new people{reach}. "
    sentence += f"This rests on {promise.n_people:,} people {basis}."
    if promise.decision in DECISION_WORDS:
        sentence += f" It is said of answers that are {DECISION_WORDS[promise.decision]}."
    return {
        "kept": promise.kept,
        "confidence": promise.confidence,
        "tolerance": promise.tolerance,
        "bound": bound,
        "method": promise.method,
        "people": mask.headcount(promise.n_people),
        "tightening": mask.number(promise.tightening),
        "share": mask.number(promise.share),
        "cost": mask.number(promise.cost),
        "sentence": sentence,
    }


def agreement(promise: Promise, verdict: str) -> str:
    """Say how what people show goes with a promise that was made in fitting, as a sentence to be added."""
    if not promise.kept:
        return ""
    return {
        "within": " That agrees with the promise made in fitting.",
        "unknown": " It does not contradict the promise made in fitting, which rests on other people: these are "
        "too few to confirm it by themselves.",
        "beyond": " This contradicts the promise made in fitting: these people may be of another population, or it is "
        "one of the few promises that are broken.",
    }[verdict]
