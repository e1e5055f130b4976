"""``optfair demo``: the main job, on real people, in about a minute.

Five kinds of work (adult-occupation) by sex × race: the plain model and its gaps; the frontier of OptFair-post; three
points of OptFair-in; the rule chosen, what it costs, and the proof that nothing within the same tolerance is better.
"""

from __future__ import annotations

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
from optfair.cli.console import Transcript, plain, shows_progress, status, text_table
from optfair.cli.main import DONE
from optfair.cli.pictures import draw_frontier, draw_rates, save_picture
from optfair.cli.tables import InputError, write_table
from optfair.datasets import Dataset, load
from optfair.errors import need_extra
from optfair.files import write_atomically
from optfair.inprocess import OptFairIn
from optfair.metrics import ViolationInterval
from optfair.path import Frontier
from optfair.post import OptFairPost

CRITERION, TOLERANCE, POINTS = "dp", 0.02, 20
IN_TOLERANCES, IN_ROUNDS = (0.1, 0.05, 0.02), 20
TRAIN_SHARE, FEWEST = 0.6, 2000


@dataclass(frozen=True)
class Judged:
    """Answers to the test people, and what they amount to."""

    name: str
    answers: np.ndarray
    accuracy: float
    interval: ViolationInterval
    rates: pd.DataFrame


def run(arguments: Namespace) -> int:
    """All of it; what is printed is also written to report.txt."""
    need_extra("matplotlib", "optfair demo")
    need_extra("skops", "optfair demo")
    if arguments.people is not None and arguments.people < FEWEST:
        raise InputError(f"--people {arguments.people}: must be at least {FEWEST}.")
    clock, say = time.perf_counter(), Transcript()
    data = load("adult-occupation", rows=arguments.people, random_state=arguments.seed)
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _show(say, data, folder, arguments.seed, clock)
    except BaseException:
        with suppress(OSError):
            folder.rmdir()  # where it is empty
        raise
    return DONE


def _show(say: Transcript, data: Dataset, folder: Path, seed: int, clock: float) -> None:
    train, test = data.split(TRAIN_SHARE, random_state=seed)
    say.paragraph(
        f"{data.name}: {len(data):,} people of the 1994 census (UCI Adult, CC BY 4.0), {len(data.class_names)} kinds "
        f"of work to predict, {len(data.group_names)} groups (sex × race). The models see neither. {len(test):,} "
        "people are kept apart for the test."
    )

    say.title("1. The plain model, audited")
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(train.X, train.y)
    before = _judge("plain model", test, classifier.predict(test.X))
    say.paragraph(f"Logistic regression: accuracy {before.accuracy:.4f}; demographic parity: {before.interval}.")
    say("Share of each group that gets an answer:")
    say(text_table(_with_names(before.rates), digits=3))

    say.title(f"2. OptFair-post: the frontier, {POINTS} tolerances")
    status("fitting the model of (group, class) six times: five folds, and all")
    post = OptFairPost(classifier, criterion=CRITERION, tolerance=TOLERANCE, random_state=seed)
    post.fit(train.X, train.y, sensitive_features=train.sensitive_features)
    status(f"solving for {POINTS} tolerances")
    frontier = post.frontier(POINTS, test=(test.X, test.y, test.sensitive_features))
    columns = ["tolerance", "accuracy", "gap", "price", "test_accuracy", "test_violation", "test_floor"]
    say(text_table(frontier.table[columns].rename(columns={"gap": "to_optimum"})))
    say.paragraph(
        "accuracy, to_optimum (no rule within the tolerance is better by more) and price (accuracy per unit of "
        "tolerance) speak of P(A, Y | X) "
        f"of the {len(train):,} people fitted on; test_* of the labels of the others, where chance alone shows "
        "violations up to test_floor."
    )

    say.title("3. OptFair-in: three points")
    inside = _in_processing(classifier, train, test, seed)
    say(text_table(inside))

    say.title(f"4. The rule chosen: every gap within {TOLERANCE}")
    say.paragraph(
        "Below, 'unconstrained, joint' is the model of the pair (group, class) without any constraint: what fairness "
        "costs beside the plain model, which knows of no groups, is in section 5."
    )
    say(f"\n{post.report()}\n")
    say(str(post.report(test.X, test.y, sensitive_features=test.sensitive_features)))

    say.title("5. In short")
    after = _judge("fair rule", test, post.predict(test.X))
    _sum_up(say, before, after, post)
    _write(folder, test, before, after, post, frontier, inside)
    say(f"\nPictures, tables and the model are in {folder}:")
    say(f"  {', '.join(sorted({*(path.name for path in folder.iterdir()), 'report.txt'}))}")
    say(f"Took {time.perf_counter() - clock:.0f} s.")
    write_atomically(folder / "report.txt", say.text().encode())


def _judge(name: str, test: Dataset, answers: np.ndarray) -> Judged:
    confusion = metrics.group_confusion(test.y, answers, sensitive_features=test.sensitive_features)
    table = confusion.group_rates()
    table = table[table["rate"] == "selection"]
    table = table.assign(group=["everybody" if g == "overall" else plain(g) for g in table["group"]])
    rates = table.pivot(index="group", columns="outcome", values="value")[list(test.class_names)]
    accuracy = float(np.mean(answers == test.y.to_numpy()))
    return Judged(name, answers, accuracy, confusion.violation_interval(CRITERION), rates)


def _in_processing(classifier: Any, train: Dataset, test: Dataset, seed: int) -> pd.DataFrame:
    """tolerance, test_accuracy, test_violation, seconds of OptFair-in."""
    lines = []
    for tolerance in IN_TOLERANCES:
        status(f"training to a tolerance of {tolerance}, {IN_ROUNDS} rounds")
        clock = time.perf_counter()
        trained = OptFairIn(
            classifier,
            criterion=CRITERION,
            tolerance=tolerance,
            rounds=IN_ROUNDS,
            progress=shows_progress(),
            random_state=seed,
        )
        trained.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        seconds = time.perf_counter() - clock
        h = trained.predict_proba(test.X)
        violation = metrics.violation(test.y, h, sensitive_features=test.sensitive_features, criterion=CRITERION)
        own = np.searchsorted(trained.classes_, test.y)  # the probability of answering rightly
        found = {"test_accuracy": h[np.arange(len(h)), own].mean(), "test_violation": violation, "seconds": seconds}
        lines.append({"tolerance": tolerance, **found})
    return pd.DataFrame(lines)


def _sum_up(say: Transcript, before: Judged, after: Judged, post: OptFairPost) -> None:
    was, now, proof = before.interval, after.interval, post.certificate_
    worst = was.table.loc[was.table["value"].abs().idxmax()]
    same = (now.table["group"] == worst["group"]) & (now.table["outcome"] == worst["outcome"])
    gap = now.table[same]["value"].iloc[0]
    say.paragraph(
        f"Unfair:  the plain model answers {worst['outcome']!r} to {plain(worst['group'])} people "
        f"{100 * abs(worst['value']):.1f} points {'less' if worst['value'] < 0 else 'more'} often than to everybody; "
        f"its violation is {was.value:.4f} (95 %: {was.lower:.4f} to {was.upper:.4f}), where chance shows up to "
        f"{was.noise_floor:.4f}.",
        indent=9,
    )
    say.paragraph(
        f"Mended:  that gap is now {gap:+.4f}, the largest of all {now.value:.4f} (95 %: {now.lower:.4f} to "
        f"{now.upper:.4f}; chance: up to {now.noise_floor:.4f}); "
        f"{'some gap is still' if now.lower > TOLERANCE else 'no gap is'} surely beyond {TOLERANCE}. The tolerance is "
        f"kept in expectation on the people fitted on; on the {len(after.answers):,} others chance comes on top, most "
        f"of all in the smallest group ({now.table['n'].min():,.0f} people).",
        indent=9,
    )
    say.paragraph(
        f"Cost:    accuracy {before.accuracy:.4f} -> {after.accuracy:.4f} on the test people; "
        f".01 more tolerance would be worth {0.01 * post.multipliers_['multiplier'].abs().sum():.4f}.",
        indent=9,
    )
    say.paragraph(
        f"Proof:   on the P(A, Y | X) of the people fitted on, no rule within the bounds is more accurate than "
        f"{proof.upper_bound:.4f}; this one reaches {proof.accuracy:.4f}: nothing is better by more than "
        f"{proof.gap:.4f}.",
        indent=9,
    )


def _write(
    folder: Path,
    test: Dataset,
    before: Judged,
    after: Judged,
    post: OptFairPost,
    frontier: Frontier,
    inside: pd.DataFrame,
) -> None:
    in_points = list(zip(inside["test_violation"], inside["test_accuracy"], strict=True))
    marks = {
        "plain model": ("s", [(before.interval.value, before.accuracy)]),
        f"OptFair-in, tolerances {', '.join(map(str, IN_TOLERANCES))}": ("^", in_points),
        f"the rule chosen (tolerance {TOLERANCE}), its answers": ("*", [(after.interval.value, after.accuracy)]),
    }
    title = "Adult, five kinds of work by sex × race: accuracy against demographic parity"
    save_picture(draw_frontier(frontier, marks, title), folder / "frontier.png")
    rates = {judged.name: judged.rates for judged in (before, after)}
    sizes = {str(plain(group)): n for group, n in test.sensitive_features.value_counts().items()}
    save_picture(draw_rates(rates, sizes, "Who is answered what, before and after"), folder / "rates.png")
    tables = {
        "frontier": frontier.table,
        "in_processing": inside,
        "rates": pd.concat([_with_names(table).assign(rule=name) for name, table in rates.items()]),
        "answers": test.sensitive_features.assign(
            **{test.y.name: test.y, "plain": before.answers, "prediction": after.answers}
        ),
    }
    for name, table in tables.items():
        write_table(table, str(folder / f"{name}.csv"))
    post.save(folder / "model.skops")


def _with_names(rates: pd.DataFrame) -> pd.DataFrame:
    return rates.rename_axis(columns=None).reset_index()
