"""Report on `OptFairPost`: the plain model, its probabilities recalibrated, the fair rule, and what people got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optfair.errors import brief_repr
from optfair.estimators.labelled_rows import LabelledRows
from optfair.estimators.path_points import path_points
from optfair.estimators.reports import ARGMAX, previous_answers, report_people, rows_text
from optfair.inputs.labels import encode_classes
from optfair.metrics.counts import count_codes
from optfair.posteriors.models import likeliest_classes
from optfair.reporting.measuring import make_report, normalise_rows
from optfair.reporting.report import Report
from optfair.rule.frontier import Frontier

if TYPE_CHECKING:
    from optfair.estimators.post import OptFairPost

FAIR = "fair rule"  # the rule by its probabilities
RECALIBRATED = "recalibrated"  # the likeliest class by calibrated posteriors, without constraints


def report_path(model: OptFairPost, path: Any) -> Frontier | None:
    """Return the rules of other tolerances that a report is to measure, or None."""
    if isinstance(path, Frontier):
        return path
    if path not in (True, False, "auto"):
        raise ValueError(f"path={brief_repr(path)}: must be True, False, 'auto' or a Frontier.")
    return model.path() if path is True else model.path_ if path == "auto" else None


def report_given(model: OptFairPost, people: LabelledRows, keys: Any, before: Any, rules: Frontier | None) -> Report:
    """Report on people who are given. before : what they got until now, or None. rules : of other tolerances."""
    rule = model.rule_
    features, group = model._check_new_rows(people.X, people.groups)
    models = model.fold_models_ or (model.posterior_model_,)
    posteriors = [model._posteriors_by(member, features, group)[1] for member in models]
    Z_plain, Z = model._posteriors_by(model.posterior_model_, features, group)
    h = normalise_rows(np.mean([rule.predict_proba(z) for z in posteriors], axis=0))
    answers = model.predict(people.X, sensitive_features=people.groups, keys=people.take(keys))
    decisions, _ = encode_classes(answers, model.classes_.tolist())
    decided, names = f"decisions ({model.decision})", (rule.groups, rule.classes)
    codes_of = {**previous_answers(before, people, rule.classes), model._plain_name(): likeliest_classes(Z_plain)}
    if model.calibration_ is not None and not model.keeps_classes_:
        codes_of[RECALIBRATED] = likeliest_classes(Z)
    codes_of |= {FAIR: h, decided: decisions}
    facts: dict[str, Any] = {"promise": model.promise_, "rule": rule, "probabilities": h, "keyed": keys is not None}
    facts |= {"awareness": model.awareness, "n_fitted": _people_fitted_on(model)}
    facts["after"] = FAIR if model.decision == "sampled" else decided
    if rules is not None:
        first = next(iter(codes_of.values()))
        facts["path"] = path_points(rules, model.constraints_, posteriors, people, first)
    title = model._title(model.constraints_)
    return report_people(title, model.constraints_, people, codes_of, names, **facts)


def report_fitted(model: OptFairPost, rules: Frontier | None) -> Report:
    """Report on the people fitted on, out of fold, or without their posteriors on the rule alone.

    rules : of other tolerances, or None.
    """
    facts: dict[str, Any] = {"seconds": model.seconds_, "n_fits": model.n_base_fits_, "rule": model.rule_}
    facts["promise"], title = model.promise_, model._title(model.constraints_)
    facts |= {"awareness": model.awareness, "n_fitted": _people_fitted_on(model)}
    fitted = getattr(model, "_fitted", None)
    if fitted is None:
        return make_report(title, model.constraints_, {}, **facts)
    posterior, n_all = fitted.labelled, fitted.problem.posterior.n
    index = np.flatnonzero(np.asarray(posterior.cell) < posterior.n_cells)  # those of known group
    measure, n_unknown = posterior.take(index), posterior.n - len(index)
    cluster = None if fitted.cluster is None else fitted.cluster[index]
    group, label = np.divmod(np.asarray(measure.cell), len(model.classes_))
    people = LabelledRows(None, label, group, None, measure.weight, None, cluster)
    h, names = normalise_rows(model.rule_.predict_proba(measure.Z)), (measure.groups, measure.classes)
    predictions = {model._plain_name(): fitted.plain}
    predictions |= {} if fitted.recalibrated is None else {RECALIBRATED: fitted.recalibrated}
    predictions[FAIR] = count_codes(group, label, h, measure.weight, *names, cluster)
    if model.decision == "argmax":
        predictions[ARGMAX] = count_codes(group, label, h.argmax(axis=1), measure.weight, *names, cluster)
        facts["undecided"] = 0.0
    unknown = f", and {n_unknown:,} of unknown group" if n_unknown else ""
    sample = f" (a sample of {n_all:,})" if posterior.n < n_all else ""
    title = f"{title}; {rows_text(measure.n, people.n_people)} fitted on{sample}, out of fold{unknown}"
    facts["n_unknown"] = n_unknown
    if rules is not None:
        facts["path"] = path_points(rules, model.constraints_, [np.asarray(measure.Z)], people)
    return make_report(title, model.constraints_, predictions, **facts)


def _people_fitted_on(model: OptFairPost) -> int | None:
    """Return how many people a model was fitted on, None where neither a promise nor kept posteriors tell."""
    promise, fitted = model.promise_, getattr(model, "_fitted", None)
    if promise is not None and promise.method == "fitted":
        return promise.n_people
    return None if fitted is None else int(fitted.problem.posterior.n)
