"""Every method of the registry, out of the box and along its knob: on Adult, and for 3 classes × 3 groups.

python benchmarks/methods.py run --lines docs/baselines.jsonl     # half an hour; resumes where it stopped
python benchmarks/methods.py page --lines docs/baselines.jsonl > docs/baselines.md
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from splits import arrays, authors_split

from optfair.baselines import METHODS
from optfair.baselines.registry import Method
from optfair.datasets import make_fair_classification
from optfair.files import write_atomically
from optfair.metrics import group_confusion

SEEDS = (1, 2, 3)
ASKED = {"adult": ("dp", "eo"), "3x3": ("dp", "eop", "eo")}  # with two classes opportunity is odds
People = tuple[np.ndarray, np.ndarray, np.ndarray]


def people(name: str, seed: int) -> tuple[People, People]:
    """(X, y, groups) to learn from and to be judged on."""
    if name == "adult":
        X, y, group = arrays("adult")
        train, test = authors_split(len(y), seed)
    else:
        options = {"n_classes": 3, "n_groups": 3, "bias": 1.5, "separation": 1.0, "random_state": seed}
        world = make_fair_classification(20_000, 6, **options)
        X, y, group = world.X, world.y, world.sensitive_features
        train, test = np.split(np.arange(20_000), [10_000])
    parts = [tuple(np.asarray(column)[part] for column in (X, y, group)) for part in (train, test)]
    return parts[0], parts[1]


def runs() -> Iterator[tuple[str, int, Method, str, float | None]]:
    """(data, seed, method, criterion, value of the knob, None for its default)."""
    for name, criteria in ASKED.items():
        for seed in SEEDS:
            for method in METHODS.values():
                for criterion in criteria if method.criteria else ("dp",):
                    yield name, seed, method, criterion, None
    for seed in SEEDS:
        for method in METHODS.values():
            for value in method.grid:
                yield "adult", seed, method, "dp", value


def score(answers: np.ndarray, classes: np.ndarray, test: People, criteria: tuple[str, ...]) -> dict[str, Any]:
    """Accuracy of what was answered, violation by each criterion, and the noise floor of each."""
    _, y, group = test
    found = group_confusion(y, answers, sensitive_features=group, classes=classes)
    return {
        "accuracy": float(np.trace(found.tensor.sum(axis=0))),
        "violation": {criterion: found.violation(criterion) for criterion in criteria},
        "floor": {criterion: found.noise_floor(criterion) for criterion in criteria},
    }


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in ("data", "seed", "method", "criterion", "value"))


def run(path: Path, only: int | None) -> None:
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    done = {key(line) for line in lines}
    for name, seed, method, criterion, value in runs():
        wanted = {"data": name, "seed": seed, "method": method.name, "criterion": criterion, "value": value}
        if key(wanted) in done or only not in (None, seed):
            continue
        train, test = people(name, seed)
        model = method.make(criterion, value, random_state=seed)
        clock = time.perf_counter()
        model.fit(*train[:2], sensitive_features=train[2])
        seconds = time.perf_counter() - clock
        line = wanted | {"n": [len(train[1]), len(test[1])], "seconds": round(seconds, 2)}
        criteria = (criterion,) if method.criteria else ASKED[name]
        line |= score(model.predict(test[0]), model.classes_, test, criteria)
        if method.output == "randomised":  # the likeliest class instead of a draw: more accurate, and less fair
            likeliest = model.classes_[model.predict_proba(test[0]).argmax(axis=1)]
            line["argmax"] = score(likeliest, model.classes_, test, criteria)
        lines.append(line)
        write_atomically(path, "".join(json.dumps(each) + "\n" for each in lines).encode())
        print(json.dumps(line), flush=True)


# -- the page -----------------------------------------------------------------------------------------------
def method_table() -> str:
    """The registry as Markdown."""
    heads = ["method", "kind", "idea", "knob", "its values, to the fairest", "bounds", "answers"]
    rows = [
        [
            f"`{m.name}`" + (" (extra `torch`)" if m.needs else ""),
            m.kind,
            m.title,
            "–" if m.knob is None else f"`{m.knob}`",
            ", ".join(f"{value:g}" for value in m.grid) or "–",
            m.bounds or "–",
            m.output,
        ]
        for m in METHODS.values()
    ]
    return markdown(heads, rows)


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows])


def mean_and_spread(values: list[float]) -> str:
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else f"{values[0]:.4f}"


TITLES = {"adult": "Adult (two classes, by sex)", "3x3": "Three classes, three groups (synthetic)"}


def page(path: Path) -> str:
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    head = (Path(__file__).parent / "methods_head.md").read_text()
    parts = [head.replace("TABLE", method_table())]
    for name, criteria in ASKED.items():
        some = [line for line in lines if line["data"] == name and line["value"] is None]
        n = " and ".join(f"{size:,}" for size in some[0]["n"])
        parts.append(f"\n## {TITLES[name]}, defaults\n\n{n} people to learn from and to be judged on; seeds {SEEDS}.\n")
        heads = ["method", *(f"{criterion}: accuracy / violation" for criterion in criteria), "seconds"]
        parts.append(markdown(heads, [row(label, own, criteria) for label, own in by_answer(some).items()]))
        floors = {c: np.mean([line["floor"][c] for line in some if c in line["floor"]]) for c in criteria}
        told = ", ".join(f"{criterion} {value:.3f}" for criterion, value in floors.items())
        parts.append(f"\nNoise floor (the violation that a fair rule shows by chance, 95 %): {told}.")
    parts.append("\n## Adult, demographic parity, along the knob\n")
    heads = ["method", "value of the knob: accuracy / violation, from the least fair to the fairest (means)"]
    swept = by_answer([line for line in lines if line["value"] is not None])
    parts.append(markdown(heads, [[label, "; ".join(points(own))] for label, own in swept.items()]))
    return "\n".join(parts) + "\n"


def by_answer(lines: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The lines of each method, in the registry's order; for randomised ones also of the likeliest class."""
    found = {}
    for name, method in METHODS.items():
        own = [line for line in lines if line["method"] == name]
        if own:
            found[f"`{name}`"] = own
        if own and method.output == "randomised":
            found[f"`{name}`, argmax"] = [line | line["argmax"] for line in own]
    return found


def row(label: str, own: list[dict[str, Any]], criteria: tuple[str, ...]) -> list[str]:
    cells = []
    for criterion in criteria:
        found = [line for line in own if criterion in line["violation"]]
        accuracy = mean_and_spread([line["accuracy"] for line in found])
        cells.append(f"{accuracy} / {mean_and_spread([line['violation'][criterion] for line in found])}")
    return [label, *cells, f"{np.median([line['seconds'] for line in own]):.1f}"]


def points(own: list[dict[str, Any]]) -> Iterator[str]:
    for value in METHODS[own[0]["method"]].grid:
        found = [(line["accuracy"], line["violation"]["dp"]) for line in own if line["value"] == value]
        accuracy, gap = np.mean(found, axis=0)
        yield f"{value:g}: {accuracy:.4f} / {gap:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "page"])
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--lines", type=Path, default=Path("docs/baselines.jsonl"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # convergence of the base models
    if asked.what == "run":
        run(asked.lines, asked.seed)
    else:
        print(page(asked.lines), end="")


if __name__ == "__main__":
    main()
