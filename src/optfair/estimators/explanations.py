"""Explain single answers of a post-processed classifier: its models, its draws, and its path of tolerances."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from optfair.errors import InfeasibleError
from optfair.estimators.new_rows import conform_rows
from optfair.inputs.alignment import check_row_labels
from optfair.inputs.features import check_table
from optfair.posteriors.models import likeliest_classes
from optfair.rule.decisions import check_decision, check_keys, person_draws
from optfair.rule.explaining import Subject, explain_decisions
from optfair.rule.explanation import Explanation
from optfair.rule.frontier import Frontier
from optfair.rule.tolerance_path import path_obstacle

if TYPE_CHECKING:
    from optfair.estimators.post import OptFairPost

NOT_KNOWN = "At which tolerance an answer would be another is not known:"
NO_PATH = f"{NOT_KNOWN} the model holds no path of tolerances. Fit again and call path() before save()."


def explain_people(model: OptFairPost, X: Any, sensitive_features: Any, keys: Any, path: bool) -> Explanation:
    """Return why the people of X get the answers of `predict`. path : whether to look at other tolerances."""
    check_is_fitted(model, "rule_")
    check_decision(model.decision, keys, None, model.hashing)
    check_table(X)
    X = conform_rows(model, X)
    check_row_labels(X=X, keys=keys)
    features, group = model._check_new_rows(X, sensitive_features)
    models = model.fold_models_ or (model.posterior_model_,)
    pairs = [model._posteriors_by(one_model, features, group) for one_model in models]
    plain = model._posteriors_by(model.posterior_model_, features, group)[0] if model.fold_models_ else pairs[0][0]
    numbers = partial(
        person_draws,
        identities=model._identities(X),
        keys=check_keys(keys, len(plain)),
        secret=model._key(),
        hashing=model.hashing,
    )
    subject = Subject(
        posteriors=[Z for _, Z in pairs],
        numbers=numbers,
        model=likeliest_classes(plain),
        blind=model.awareness == "blind",
    )
    rules, notes = known_path(model) if path else (None, [])
    return explain_decisions(model.rule_, subject, model.decision, rules, notes)


def known_path(model: OptFairPost) -> tuple[Frontier | None, list[str]]:
    """Return the path of tolerances of a model, computed if need be and possible, and a note where there is none."""
    obstacle = path_obstacle(model.constraints_)
    if obstacle:
        return None, [f"{NOT_KNOWN} {obstacle}"]
    if model.path_ is None and getattr(model, "_fitted", None) is None:
        return None, [NO_PATH]
    try:
        return model.path(), []
    except InfeasibleError:  # at every tolerance of the path: the other constraints need a larger one
        return None, [f"{NOT_KNOWN} the other constraints allow no rule with a smaller tolerance."]
