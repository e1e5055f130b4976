"""``optfair audit``: the gaps between groups of the answers in a table, and whether they are surely beyond tolerance.

Exit 1 if max_k (|D̂_k| − t s_k) > tolerance: then at least one gap of the population is beyond it, or an event of
probability 5 % has happened (the bounds are simultaneous over all rows of all criteria asked for).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.cli.console import heading, plain, text_table
from optfair.cli.main import DONE, NO
from optfair.cli.tables import Format, InputError, check_table_name, columns_of, pick, read_table, shown, write_table
from optfair.constraints import Constraint
from optfair.errors import warn
from optfair.metrics import GroupConfusion, ViolationInterval, group_confusion
from optfair.report import small_cells

MISSING = "(missing)"
MOST_GROUPS = 1000
IN_FILE = {"value": "gap", "n": "people", "lower": "abs_gap_from", "upper": "abs_gap_to"}


def run(arguments: Namespace) -> int:
    """Read, count, ask, tell."""
    if arguments.output:
        check_table_name(arguments.output)
    if arguments.rows < 0:
        raise InputError(f"--rows {arguments.rows}: must be at least 0.")
    people = _read(arguments)
    confusion = people.confusion
    wishes = [
        Constraint(
            name,
            arguments.tolerance,
            reference=arguments.reference,
            outcomes=outcomes_of(arguments.outcome, confusion.classes),
            attributes=arguments.attributes,
        )
        for name in arguments.criterion or ["dp"]
    ]
    wishes = list({wish.criterion: wish for wish in wishes}.values())  # "dp" and "demographic_parity" are one
    found = confusion.violation_interval(wishes, level=arguments.level, random_state=arguments.seed)
    summary = _by_criterion(confusion, wishes, found, arguments)
    if arguments.output:
        write_table(_flat(found.table).rename(columns=IN_FILE), arguments.output)
    _tell(people, wishes, found, summary, arguments)
    if found.lower > arguments.tolerance:
        verdict, code = f"FAIL: some gap is surely beyond {arguments.tolerance:g}", NO
    elif found.upper <= arguments.tolerance:
        verdict, code = f"PASS: every gap is surely within {arguments.tolerance:g}", DONE
    else:
        verdict = f"UNDECIDED: no gap is surely beyond {arguments.tolerance:g}, not all are surely within; more people"
        verdict, code = f"{verdict} would tell", NO if arguments.strict else DONE
    print(f"\n{verdict} (exit {code})")
    return code


class _People(NamedTuple):
    """What was read: the counts, the columns of the groups, and how the answers were made."""

    confusion: GroupConfusion
    groups: Sequence[str]
    answers: str


def _read(arguments: Namespace) -> _People:
    form = Format.of(arguments)
    columns = columns_of(arguments.file, form)
    label = pick([arguments.label], columns, "--label")[0]
    groups = pick(arguments.group, columns, "--group")
    weight = pick([arguments.weight] if arguments.weight else [], columns, "--weight")
    if arguments.scores:
        mapping = _score_names(arguments.scores, columns)
        answers = list(mapping)
    else:
        answers = pick([arguments.prediction], columns, "--prediction")
    wanted = list(dict.fromkeys([label, *groups, *answers, *weight]))
    names = [label, *groups, *([] if arguments.scores else answers)]
    table = read_table(arguments.file, wanted, names=names, form=form)
    for name in dict.fromkeys([label, *answers, *weight]):
        if n := int(table[name].isna().sum()):
            raise InputError(
                f"{arguments.file}: column {name!r} is empty in {n} of {len(table)} rows; fill or drop them."
            )
    group = table[groups]
    if arguments.missing == "group":
        group = group.astype(object).where(group.notna(), MISSING)
    classes = None
    prediction: Any = table[answers[0]] if not arguments.scores else None
    how = f"answers in column {answers[0]!r}"
    if arguments.scores:
        classes, prediction, how = _scored(table, label, mapping, arguments.decision)
    else:
        table[label], prediction = _same_kind(table[label], prediction)
        _check_answers(table[label], prediction)
    _check_groups(group)
    if weight and not pd.api.types.is_numeric_dtype(table[weight[0]]):
        raise InputError(f"--weight {weight[0]}: holds texts, such as {table[weight[0]].iloc[0]!r}; needs numbers.")
    confusion = group_confusion(
        table[label],
        prediction,
        sensitive_features=group if len(groups) > 1 else group[groups[0]],
        sample_weight=table[weight[0]] if weight else None,
        classes=classes,
    )
    return _People(confusion, groups, how)


def _same_kind(label: pd.Series, prediction: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Where one of the two holds texts ("K" among 0, 1, 2), both are texts."""
    texts = [pd.api.types.infer_dtype(column) == "string" for column in (label, prediction)]
    if texts[0] == texts[1]:
        return label, prediction
    return label.astype(str), prediction.astype(str)


def _check_answers(label: pd.Series, prediction: pd.Series) -> None:
    """Labels and answers must be about the same classes."""
    true, answered = set(label.unique()), set(prediction.unique())
    if not true & answered:
        raise InputError(
            f"--label {label.name} and --prediction {prediction.name} have no class in common (labels such as "
            f"{label.tolist()[0]!r}, answers such as {prediction.tolist()[0]!r}); are these the right columns?"
        )
    if strange := sorted(answered - true, key=str):
        warn(f"--prediction {prediction.name}: nobody's label is {shown(strange, 5)}; right column?")


def _check_groups(group: pd.DataFrame) -> None:
    count, n = len(group.drop_duplicates()), len(group)
    if count < 2:
        raise InputError(f"--group {','.join(group.columns)}: there is one group; nothing to compare.")
    if count > MOST_GROUPS or (count > 20 and count > n / 2):
        raise InputError(
            f"--group {','.join(group.columns)}: {count} groups among {n} rows; cut a number into a few bands."
        )


def _score_names(given: Sequence[str], columns: Sequence[str]) -> dict[str, str | None]:
    """column → class, where said as CLASS=COLUMN; else None."""
    mapping: dict[str, str | None] = {}
    for item in given:
        for part in [item] if item in columns else [piece.strip() for piece in item.split(",")]:
            name, equals, column = part.rpartition("=")
            if part in columns or not equals:
                name, column = "", part
            mapping[pick([column], columns, "--scores")[0]] = name or None
    if len(mapping) < 2:
        raise InputError("--scores: name a column for each class, at least two.")
    return mapping


def _scored(
    table: pd.DataFrame, label: str, mapping: dict[str, str | None], decision: str
) -> tuple[list[Any], np.ndarray, str]:
    """(classes in the order of the columns, labels or probabilities, how in words)."""
    columns = list(mapping)
    known = {str(value): value for value in pd.unique(table[label])}
    named = [name for name in mapping.values() if name is not None]
    names = list(mapping.values()) if named else _without_prefix(columns, list(known))
    if None in names:
        raise InputError(f"--scores: say CLASS=COLUMN for every column or for none; {columns} is mixed.")
    absent = [name for name in known if name not in names]
    if absent:
        raise InputError(
            f"--scores: no column for class {absent[0]!r} of {label!r} (columns {columns}); call the columns as the "
            "classes, with one prefix or none, or say CLASS=COLUMN."
        )
    if all(isinstance(value, bool | np.bool_) for value in known.values()):
        known |= {"True": True, "False": False}
    numbers = all(
        isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known.values()
    )
    classes = [known[name] if name in known else _as_number(name) if numbers else name for name in map(str, names)]
    wrong = [name for name in columns if not pd.api.types.is_numeric_dtype(table[name])]
    if wrong:
        raise InputError(
            f"--scores: column {wrong[0]!r} holds texts, such as {table[wrong[0]].iloc[0]!r}; needs numbers."
        )
    order = sorted(range(len(classes)), key=lambda k: classes[k])
    classes, columns = [classes[k] for k in order], [columns[k] for k in order]
    scores = table[columns].to_numpy(dtype=float)
    if decision == "sampled":
        return classes, scores, "answers drawn with the probabilities in --scores"
    if not np.isfinite(scores).all():
        raise InputError(f"--scores: {int((~np.isfinite(scores)).any(1).sum())} rows hold infinite values.")
    answered = np.eye(len(columns))[scores.argmax(axis=1)]
    return classes, answered, "answer: the class with the largest of --scores"


def _as_number(name: str) -> Any:
    try:
        return int(name)
    except ValueError:
        try:
            return float(name)
        except ValueError:
            raise InputError(f"--scores: class {name!r} is not a number like the labels.") from None


def _without_prefix(columns: Sequence[str], known: Sequence[str]) -> list[str | None]:
    """The names after the prefix under which most of the known classes are columns; the shortest of such."""
    prefixes = {c[: len(c) - len(name)] for c in columns for name in known if c.endswith(name)} | {""}
    shared = [prefix for prefix in prefixes if all(column.startswith(prefix) for column in columns)]
    best = max(sorted(shared, key=len), key=lambda prefix: sum(prefix + name in columns for name in known))
    return [column[len(best) :] for column in columns]


def outcomes_of(given: Sequence[str] | None, classes: Sequence[Any]) -> list[Any] | None:
    """The classes named on the command line, as the table has them."""
    if not given:
        return None
    known = {str(value): value for value in classes}
    for name in given:
        if name not in known:
            raise InputError(f"--outcome {name}: there is no such class; there are {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(given)]


def _by_criterion(
    confusion: GroupConfusion, wishes: Sequence[Constraint], found: ViolationInterval, arguments: Namespace
) -> pd.DataFrame:
    """One line per criterion: the largest gap, its simultaneous bounds, the noise floor, the verdict."""
    lines = []
    for wish in wishes:
        rows = found.table[found.table["criterion"] == wish.criterion]
        low, high = rows["lower"].max(), rows["upper"].max()
        floor = confusion.noise_floor(wish, level=arguments.level, random_state=arguments.seed)
        beyond = int((rows["lower"] > arguments.tolerance).sum())
        verdict = (
            f"beyond, surely ({beyond} gap{'s' * (beyond > 1)})"
            if beyond
            else "within, surely"
            if high <= arguments.tolerance
            else ""
        )
        lines.append(
            {
                "criterion": wish.criterion,
                "gaps": len(rows),
                "largest": rows["value"].abs().max(),
                "low": low,
                "high": high,
                "noise floor": floor,
                f"tolerance {arguments.tolerance:g}": verdict or "too few people to tell",
            }
        )
    return pd.DataFrame(lines)


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    """Columns a file can hold: tuples of several attributes as "a × b"."""
    return table.assign(**{name: [plain(value) for value in table[name]] for name in ("group", "against")})


def _tell(
    people: _People,
    wishes: Sequence[Constraint],
    found: ViolationInterval,
    summary: pd.DataFrame,
    arguments: Namespace,
) -> None:
    confusion = people.confusion
    n, A, m = int(confusion.n_people.sum()), len(confusion.groups), len(confusion.classes)
    print(f"{arguments.file}: {n:,} people, {m} classes, {A} groups ({' × '.join(people.groups)}); {people.answers}")
    print(f"accuracy {np.einsum('aii->', confusion.tensor):.4f}\n")
    against = "everybody" if arguments.reference == "overall" else "every other group"
    print(heading(f"Violations (each group against {against}; simultaneous {found.level:.0%} bounds low and high)"))
    print(text_table(summary))
    table = _flat(found.table).assign(size=found.table["value"].abs())
    worst = table.sort_values(["lower", "size"], ascending=False)
    names = ["criterion", "group", *(["against"] if arguments.reference == "pairwise" else []), "given", "outcome"]
    lines = worst.head(arguments.rows)[[*names, "value", "lower", "upper", "n"]]
    lines = lines.rename(columns={"value": "gap", "lower": "|gap| from", "upper": "to", "n": "people"})
    lines = lines.assign(people=lines["people"].round().astype(int))
    if len(lines):
        print("\n" + heading(f"Gaps, the surest first ({len(lines)} of {len(worst)})"))
        print(text_table(lines))
    small = small_cells(confusion, wishes)
    if len(small):
        few = [
            f"{plain(r.group)}{'' if r.given is None else f', true {r.given}'}: {r.n}"
            for r in small.head(6).itertuples()
        ]
        more = f"; and {len(small) - 6} more" if len(small) > 6 else ""
        print(f"\nToo few people to judge within {arguments.tolerance:g}: {'; '.join(few)}{more}")
    if arguments.output:
        print(f"\nEvery gap: {arguments.output}")
