"""Run ``optfair export``: write a saved model for services without optfair, and compare what was written with it."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from optfair.cli.main import DONE, NEGATIVE
from optfair.cli.model_tables import load_fair_model, model_input, note_unseen, read_model_table
from optfair.cli.paths import InputError
from optfair.cli.tables import CsvFormat, read_header
from optfair.errors import need_extra
from optfair.export.checking import Comparison, compare_graph, compare_scorers
from optfair.portable.scorer_file import SLACK
from optfair.rule.exporting import KINDS
from optfair.utils.archives import need_skops


def run(arguments: Namespace) -> int:
    """Load, export, compare, print."""
    need_skops("optfair export")
    target = Path(arguments.output)
    if target.suffix.lower() not in KINDS:
        raise InputError(f"{arguments.output}: must end in .onnx (a graph) or .json (for the scorers).")
    is_graph = target.suffix.lower() == ".onnx"
    if is_graph:
        need_extra("onnx", "optfair export")
    elif arguments.inputs != "features" or arguments.opset is not None:
        option = "--opset" if arguments.opset is not None else "--inputs"
        raise InputError(f"{option}: is for graphs (.onnx); leave it out.")
    model = load_fair_model(arguments.model, arguments.trust)
    options: dict[str, Any] = {} if arguments.opset is None else {"opset": arguments.opset}
    slack = SLACK if arguments.max_difference is None else arguments.max_difference
    paths = model.export(target, inputs=arguments.inputs, max_difference=slack, **options)
    print(f"Wrote {', '.join(str(path) for path in paths)}")
    if model.decision == "hashed":
        print(f"The secret key stays where it is, in {arguments.model}.key; a service reads it from there, or from")
        print("the environment variable OPTFAIR_KEY.")
    if not arguments.file:
        return DONE
    if not is_graph and json.loads(paths[0].read_text("utf-8"))["posterior"] is None:
        print(f"{target.name} holds no models (they are not linear): scorers are given P(A, Y | X) of your models, as")
        print("joint=, or classes= and groups=. The comparison begins there; for the features, export to .onnx.")
    comparisons = _compare(model, paths[0], arguments, is_graph)
    for comparison in comparisons:
        print(comparison)
    return NEGATIVE if any(comparison.different for comparison in comparisons) else DONE


def _compare(model: Any, path: Path, arguments: Namespace, is_graph: bool) -> list[Comparison]:
    """Compare the answers for the people of the table."""
    csv_format = CsvFormat.from_arguments(arguments)
    table, columns = read_model_table(model, arguments, read_header(arguments.file, csv_format), csv_format)
    note_unseen(model, table, columns)
    people = model_input(model, table, columns)
    question = people.X, people.arguments.get("sensitive_features"), people.keys
    return [compare_graph(model, path, *question)] if is_graph else compare_scorers(model, path, *question)
