"""Run ``optfair demo``: the whole workflow on real people, in about a minute.

Five occupations (adult-occupation) by sex × race: the plain model and its gaps; the frontier of OptFair-post; three
tolerances of OptFair-in; the chosen rule, its cost, and the proof that no rule within the same tolerance is better.
"""

from __future__ import annotations

import importlib.util
import math
import time
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import metrics
from optfair.cli.columns import SEED_LIMIT, check_seed
from optfair.cli.console import Transcript, join_name, text_table
from optfair.cli.main import DONE
from optfair.cli.paths import InputError
from optfair.cli.pictures import draw_frontier, draw_rates, save_picture
from optfair.cli.tables import write_table
from optfair.datasets import Dataset, load
from optfair.errors import need_extra
from optfair.estimators.inprocess import OptFairIn
from optfair.estimators.post import OptFairPost
from optfair.metrics import ViolationInterval
from optfair.rule.frontier import Frontier
from optfair.utils.files import write_atomically
from optfair.utils.progress import stage

CRITERION, TOLERANCE, CONFIDENCE, N_TOLERANCES = "dp", 0.03, 0.95, 20
IN_TOLERANCES, IN_ROUNDS = (0.1, 0.05, 0.02), 20
TRAIN_SHARE = 0.6
MIN_PEOPLE = 2000  # the smallest group is about 6 % of them: some 50 of 800 test people
INDENT = 9  # of the paragraphs in the summary, as wide as "Before:  "


@dataclass(frozen=True)
class TestScores:
    """The predictions of a rule for the test people, and what they amount to."""

    name: str
    predictions: np.ndarray
    accuracy: float
    interval: ViolationInterval
    rates: pd.DataFrame


@dataclass(frozen=True)
class Results:
    """The results that the demo writes to its folder."""

    test: Dataset
    plain: TestScores
    fair: TestScores
    post: OptFairPost
    frontier: Frontier
    in_processing: pd.DataFrame


def run(arguments: Namespace) -> int:
    """Run the workflow; what is printed is also written to report.txt."""
    need_extra("matplotlib", "optfair demo")
    need_extra("skops", "optfair demo")
    if arguments.people is not None and arguments.people < MIN_PEOPLE:
        raise InputError(f"--people {arguments.people}: must be at least {MIN_PEOPLE}.")
    check_seed(arguments.seed, SEED_LIMIT)
    folder, transcript = Path(arguments.output), Transcript()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder.")
    start = time.perf_counter()
    data = load("adult-occupation", rows=arguments.people, random_state=arguments.seed)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _write_files(folder, _run_workflow(transcript, data, arguments.seed))
        files = sorted({*(path.name for path in folder.iterdir()), "report.txt"})
        if "report.html" in files:
            transcript.line(
                f"\nA page to send, with the plain model before and the fair rule after: {folder / 'report.html'}"
            )
        transcript.line(f"\nPictures, tables and the model are in {folder}:\n  {', '.join(files)}")
        transcript.line(f"Took {time.perf_counter() - start:.0f} s.")
        write_atomically(folder / "report.txt", transcript.text().encode())
    except BaseException:
        with suppress(OSError):
            folder.rmdir()  # if it is empty
        raise
    return DONE


def _run_workflow(transcript: Transcript, data: Dataset, seed: int) -> Results:
    train, test = data.split(TRAIN_SHARE, random_state=seed)
    transcript.paragraph(
        f"{data.name}: {len(data):,} people of the 1994 census (UCI Adult, CC BY 4.0), {len(data.class_names)} "
        f"occupations to predict, {len(data.group_names)} groups (sex × race). The models see neither sex nor race. "
        f"{len(test):,} people are held out for the test."
    )

    transcript.title("1. The plain model, audited")
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(train.X, train.y)
    plain = _score("plain model", test, classifier.predict(test.X))
    transcript.paragraph(f"Logistic regression: accuracy {plain.accuracy:.4f}; demographic parity: {plain.interval}.")
    transcript.line("Share of each group that gets each prediction:")
    transcript.line(text_table(_with_group_column(plain.rates), digits=3))

    transcript.title(f"2. OptFair-post: the frontier, {N_TOLERANCES} tolerances")
    question: dict[str, Any] = {"criterion": CRITERION, "tolerance": TOLERANCE, "confidence": CONFIDENCE}
    post = OptFairPost(classifier, **question, unpromised="loosen", random_state=seed)
    post.fit(train.X, train.y, sensitive_features=train.sensitive_features)
    frontier = post.frontier(N_TOLERANCES, test=(test.X, test.y, test.sensitive_features))
    columns = ["tolerance", "accuracy", "gap", "price", "test_accuracy", "test_violation", "test_floor"]
    transcript.line(text_table(frontier.table[columns].rename(columns={"gap": "to_optimum"})))
    transcript.paragraph(
        "accuracy, to_optimum and price are computed with the estimates of P(A, Y | X) for the "
        f"{len(train):,} people fitted on: no rule within the tolerance is more accurate by more than to_optimum, and "
        "price is the accuracy gained per unit of tolerance. The test_ columns are computed with the labels of the "
        f"{len(test):,} held-out people, where chance alone causes violations up to test_floor."
    )

    transcript.title("3. OptFair-in: three tolerances")
    in_processing = _run_in_processing(classifier, train, test, seed)
    transcript.line(text_table(in_processing))

    transcript.title(f"4. The chosen rule: every gap within {TOLERANCE} for new people, confidence {CONFIDENCE:.0%}")
    transcript.paragraph(
        "In these reports 'unconstrained, joint' is the model of the pair (group, class) without constraints, and "
        "'recalibrated' the same after calibration with labels. Section 5 compares the fair rule with the plain model, "
        "which is trained without groups."
    )
    transcript.line(f"\n{post.report()}\n")
    transcript.line(str(post.report(test.X, test.y, sensitive_features=test.sensitive_features)))

    transcript.title("5. Summary")
    fair = _score("fair rule", test, post.predict(test.X))
    _summarise(transcript, plain, fair, post)
    return Results(test, plain, fair, post, frontier, in_processing)


def _score(name: str, test: Dataset, predictions: np.ndarray) -> TestScores:
    confusion = metrics.group_confusion(test.y, predictions, sensitive_features=test.sensitive_features)
    table = confusion.group_rates()
    table = table[table["rate"] == "selection"]
    table = table.assign(group=["everybody" if group == "overall" else join_name(group) for group in table["group"]])
    rates = table.pivot(index="group", columns="outcome", values="value")[list(test.class_names)]
    accuracy = float(np.mean(predictions == test.y.to_numpy()))
    return TestScores(name, predictions, accuracy, confusion.violation_interval(CRITERION), rates)


def _run_in_processing(classifier: Any, train: Dataset, test: Dataset, seed: int) -> pd.DataFrame:
    """Return tolerance, test_accuracy, test_violation and seconds of OptFair-in."""
    lines = []
    with stage("OptFair-in", len(IN_TOLERANCES), unit="tolerances") as work:
        for tolerance in IN_TOLERANCES:
            start = time.perf_counter()
            model = OptFairIn(classifier, criterion=CRITERION, tolerance=tolerance, rounds=IN_ROUNDS, random_state=seed)
            model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
            seconds = time.perf_counter() - start
            lines.append({"tolerance": tolerance, **_expected_scores(model, test), "seconds": seconds})
            work.advance()
    return pd.DataFrame(lines)


def _expected_scores(model: OptFairIn, test: Dataset) -> dict[str, float]:
    """Return test_accuracy and test_violation of the probabilities: what drawn decisions reach on average."""
    h, groups = model.predict_proba(test.X), {"sensitive_features": test.sensitive_features}
    accuracy = h[np.arange(len(h)), np.searchsorted(model.classes_, test.y)].mean()
    violation = metrics.violation(test.y, h, **groups, criterion=CRITERION)
    return {"test_accuracy": float(accuracy), "test_violation": violation}


def _summarise(transcript: Transcript, plain: TestScores, fair: TestScores, post: OptFairPost) -> None:
    certificate, fair_gaps = post.certificate_, fair.interval.table
    worst = plain.interval.table.loc[plain.interval.table["value"].abs().idxmax()]
    is_worst = (fair_gaps["group"] == worst["group"]) & (fair_gaps["outcome"] == worst["outcome"])
    transcript.paragraph(
        f"Before:  the plain model predicts {worst['outcome']!r} for {join_name(worst['group'])} people "
        f"{100 * abs(worst['value']):.1f} percentage points {'less' if worst['value'] < 0 else 'more'} often than for "
        f"everybody; its violation is {_interval_text(plain.interval)}.",
        INDENT,
    )
    transcript.paragraph(
        f"After:   that gap is {fair_gaps[is_worst]['value'].iloc[0]:+.4f}; the violation, the largest of all gaps, is "
        f"{_interval_text(fair.interval)}; {'some' if fair.interval.lower > TOLERANCE else 'no'} gap exceeds "
        f"{TOLERANCE} with {fair.interval.level:.0%} confidence. In these {len(fair.predictions):,} held-out people "
        f"chance is added, most in the smallest group ({fair_gaps['n'].min():,.0f} people).",
        INDENT,
    )
    promise = post.promise_
    assert promise is not None
    transcript.paragraph(
        f"Promise: with confidence {promise.confidence:.0%} every gap in the population is within "
        f"{promise.tolerance:.3g}; this costs {max(promise.cost, 0):.4f} of accuracy beside a rule that keeps "
        f"{TOLERANCE} in expectation.",
        INDENT,
    )
    transcript.paragraph(
        f"Cost:    accuracy {plain.accuracy:.4f} -> {fair.accuracy:.4f} on the held-out people; 0.01 more tolerance "
        f"would gain {0.01 * post.multipliers_['multiplier'].abs().sum():.4f}.",
        INDENT,
    )
    transcript.paragraph(
        "Proof:   with the estimates of P(A, Y | X) for the people fitted on, no rule within the bounds is more "
        f"accurate than {certificate.upper_bound:.4f}; this one reaches {certificate.accuracy:.4f}, so no rule is "
        f"better by more than {math.ceil(1e4 * certificate.gap) / 1e4:.4f}.",
        INDENT,
    )


def _interval_text(interval: ViolationInterval) -> str:
    return (
        f"{interval.value:.4f} ({interval.level:.0%} interval: {interval.lower:.4f} to {interval.upper:.4f}; by chance "
        f"alone: up to {interval.noise_floor:.4f})"
    )


def _write_files(folder: Path, results: Results) -> None:
    test, plain, fair, in_processing = results.test, results.plain, results.fair, results.in_processing
    in_points = list(zip(in_processing["test_violation"], in_processing["test_accuracy"], strict=True))
    marks = {
        "plain model": ("s", [(plain.interval.value, plain.accuracy)]),
        f"OptFair-in, tolerances {', '.join(map(str, IN_TOLERANCES))}": ("^", in_points),
        f"the chosen rule (tolerance {TOLERANCE}), its decisions": ("*", [(fair.interval.value, fair.accuracy)]),
    }
    title = "Adult, five occupations by sex × race: accuracy against demographic parity"
    save_picture(draw_frontier(results.frontier, marks, title), folder / "frontier.png")
    rates = {scores.name: scores.rates for scores in (plain, fair)}
    sizes = {str(join_name(group)): n for group, n in test.sensitive_features.value_counts().items()}
    save_picture(draw_rates(rates, sizes, "Predictions by group, before and after"), folder / "rates.png")
    predictions = {test.y.name: test.y, "plain": plain.predictions, "prediction": fair.predictions}
    tables = {
        "frontier": results.frontier.table,
        "in_processing": in_processing,
        "rates": pd.concat([_with_group_column(table).assign(rule=name) for name, table in rates.items()]),
        "answers": test.sensitive_features.assign(**predictions),
    }
    for name, table in tables.items():
        write_table(table, str(folder / f"{name}.csv"))
    results.post.save(folder / "model.skops")
    if importlib.util.find_spec("jinja2") is not None:
        options = {"sensitive_features": test.sensitive_features, "before": plain.predictions, "path": results.frontier}
        results.post.report(test.X, test.y, **options).html(folder / "report.html")


def _with_group_column(rates: pd.DataFrame) -> pd.DataFrame:
    return rates.rename_axis(columns=None).reset_index()
