"""Write the steps that read columns of tables as nodes: imputers, encoders of categories, and what divides a table.

skl2onnx has them for single precision, or not for missing values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from optfair.errors import ExportError
from optfair.export.inputs import MISSING_TEXT, Column, FeatureTensors
from optfair.portable.graph import ML, GraphBuilder

WHOLE = re.compile(r"-?\d+")
TEXTS_OPSET = 19  # compares texts
Transform = Callable[[list[Any], FeatureTensors], FeatureTensors]


def add_codes(graph: GraphBuilder, column: Column, labels: Sequence[Any], missing: int, other: int) -> str:
    """Return the position of each entry of a column among labels, (n, 1).

    missing, other : of a missing value, and of any other. None and NaN among the labels are missing values too.
    """
    entries = [(label, k) for k, label in enumerate(labels) if not is_missing(label)]
    if column.is_text:
        keys, codes = [str(label) for label, _ in entries], [k for _, k in entries]
        if not column.has_points:  # 7.0 is 7: numbers as texts, as a column with gaps has them
            whole = [(f"{key}.0", k) for key, k in zip(keys, codes, strict=True) if WHOLE.fullmatch(key)]
            keys, codes = [*keys, *(key for key, _ in whole)], [*codes, *(k for _, k in whole)]
        if MISSING_TEXT not in keys:
            keys, codes = [*keys, MISSING_TEXT], [*codes, missing]
        options = {"keys_strings": keys, "values_int64s": codes, "default_int64": other}
        return graph.add("LabelEncoder", column.tensor, domain=ML, **options)
    try:
        numbers = np.array([float(label) for label, _ in entries])
    except (TypeError, ValueError):
        raise ExportError(f"X: the column {column.name!r} holds numbers, and the model knows texts of it.") from None
    if not entries:
        code = graph.add("Mul", graph.cast(graph.add("IsNaN", column.tensor), np.int64), graph.constant(np.array(0)))
        code = graph.add("Add", code, graph.constant(np.array(other)))
    else:
        offsets = np.array([k - other for _, k in entries], dtype=np.int64)[:, None]
        equal = graph.cast(graph.add("Equal", column.tensor, graph.constant(numbers)), np.int64)
        code = graph.add("Add", graph.add("MatMul", equal, graph.constant(offsets)), graph.constant(np.array(other)))
    return graph.add("Where", graph.add("IsNaN", column.tensor), graph.constant(np.array(missing)), code)


def is_missing(label: Any) -> bool:
    """Tell whether a label is None or NaN."""
    return label is None or bool(label != label)


# -- steps -------------------------------------------------------------------------------------------------
def add_imputer(graph: GraphBuilder, step: Any, features: FeatureTensors) -> FeatureTensors:
    """Return columns without gaps, and behind them indicators of gaps, if the step has them."""
    if not is_missing(step.missing_values):
        raise ExportError(f"SimpleImputer: missing_values={step.missing_values!r} is not exported; use NaN.")
    filled, indicators = [], [] if step.indicator_ is None else step.indicator_.features_.tolist()
    columns = [features.column(graph, k) for k in range(len(step.statistics_))]
    for column, value in zip(columns, step.statistics_.tolist(), strict=True):
        if is_missing(value):
            if step.keep_empty_features:
                value = 0.0
            else:
                continue  # a column without values is left out
        fill = graph.constant(np.array(str(value), dtype=object) if column.is_text else np.float64(value))
        tensor = graph.add("Where", _gaps(graph, column), fill, column.tensor)
        filled.append(Column(None, tensor, column.is_text))
    unit, zero = graph.constant(np.float64(1.0)), graph.constant(np.float64(0.0))
    for k in indicators:
        filled.append(Column(None, graph.add("Where", _gaps(graph, columns[k]), unit, zero), False))
    return FeatureTensors(tuple(filled))


def add_scaler(graph: GraphBuilder, step: Any, features: FeatureTensors) -> FeatureTensors:
    """Return columns less their mean, divided by their scale."""
    tensor = features.matrix(graph)
    if step.with_mean:
        tensor = graph.add("Sub", tensor, graph.constant(step.mean_.astype(np.float64)))
    if step.scale_ is not None and step.scale_.size == 1:
        # onnxruntime makes a division by one constant, before a product, part of that: in single precision.
        tensor = graph.add("MatMul", tensor, graph.constant(1 / step.scale_[None].astype(np.float64)))
    elif step.scale_ is not None:
        tensor = graph.add("Div", tensor, graph.constant(step.scale_.astype(np.float64)))
    return FeatureTensors(tensor=tensor)


def _gaps(graph: GraphBuilder, column: Column) -> str:
    if not column.is_text:
        return graph.add("IsNaN", column.tensor)
    if graph.opset < TEXTS_OPSET:
        raise ExportError(f"opset={graph.opset}: missing texts are filled in from opset={TEXTS_OPSET} on.")
    return graph.add("Equal", column.tensor, graph.constant(np.array(MISSING_TEXT, dtype=object)))


def add_one_hot(graph: GraphBuilder, step: Any, features: FeatureTensors) -> FeatureTensors:
    """Return the indicators of categories, column by column; what a step would refuse is not a number."""
    parts = []
    for k, categories in enumerate(step.categories_):
        labels, rare = categories.tolist(), _rare_labels(step, k)
        is_rare = [any(_same(label, other) for other in rare) for label in labels] if rare else [False] * len(labels)
        n_frequent = len(labels) - sum(is_rare)
        places = np.cumsum([not flag for flag in is_rare]) - 1
        places[is_rare] = n_frequent
        size = n_frequent + bool(rare)
        strange = size if step.handle_unknown == "error" else -1
        other = n_frequent if rare and step.handle_unknown != "error" and step.handle_unknown != "ignore" else strange
        missing = next((int(place) for label, place in zip(labels, places, strict=True) if is_missing(label)), other)
        # What has the place of an unknown one needs no name in the file: rare texts may be names of people.
        named = [
            (x, int(place)) for x, place in zip(labels, places, strict=True) if not is_missing(x) and place != other
        ]
        table, label_places = [label for label, _ in named], [place for _, place in named]
        code = add_codes(graph, features.column(graph, k), table, len(table), len(table) + 1)
        place = graph.add("Gather", graph.constant(np.array([*label_places, missing, other])), code, axis=0)
        columns = np.arange(size)
        if step.drop_idx_ is not None and step.drop_idx_[k] is not None:
            columns = np.delete(columns, int(step.drop_idx_[k]))
        indicators = graph.cast(graph.add("Equal", place, graph.constant(columns)), np.float64)
        if step.handle_unknown == "error":
            is_strange = graph.add("Equal", place, graph.constant(np.array(size)))
            indicators = graph.add("Where", is_strange, graph.constant(np.float64(np.nan)), indicators)
        parts.append(Column(None, indicators, False))
    return FeatureTensors(tensor=FeatureTensors(tuple(parts)).matrix(graph))


def add_ordinal(graph: GraphBuilder, step: Any, features: FeatureTensors) -> FeatureTensors:
    """Return the codes of categories; what a step would refuse is not a number."""
    parts = []
    for k, categories in enumerate(step.categories_):
        if _rare_labels(step, k):
            raise ExportError("OrdinalEncoder: rare categories as one are not exported; use OneHotEncoder.")
        table = [label for label in categories.tolist() if not is_missing(label)]
        has_gap = len(table) < len(categories)
        other = float(step.unknown_value) if step.handle_unknown == "use_encoded_value" else np.nan
        values = [*map(float, range(len(table))), float(step.encoded_missing_value) if has_gap else other, other]
        code = add_codes(graph, features.column(graph, k), table, len(table), len(table) + 1)
        parts.append(Column(None, graph.add("Gather", graph.constant(np.array(values)), code, axis=0), False))
    return FeatureTensors(tuple(parts))


def add_columns(graph: GraphBuilder, step: Any, features: FeatureTensors, transform: Transform) -> FeatureTensors:
    """Return what the parts of a ColumnTransformer make of their columns. transform : writes the steps of a part."""
    parts = []
    for name, part, _ in step.transformers_:
        positions = step._transformer_to_input_indices[name]
        if len(positions) and not (isinstance(part, str) and part == "drop"):
            selected = features.select(graph, [int(position) for position in positions])
            weight = (step.transformer_weights or {}).get(name)
            if weight is not None:
                raise ExportError("ColumnTransformer: transformer_weights are not exported; scale the columns.")
            parts.append(selected if isinstance(part, str) else transform([part], selected))
    return _joined(graph, parts)


def add_union(graph: GraphBuilder, step: Any, features: FeatureTensors, transform: Transform) -> FeatureTensors:
    """Return what all parts of a FeatureUnion make of the same columns."""
    if step.transformer_weights:
        raise ExportError("FeatureUnion: transformer_weights are not exported; scale the columns.")
    parts = [part for _, part in step.transformer_list if part != "drop"]
    return _joined(graph, [features if part == "passthrough" else transform([part], features) for part in parts])


def _joined(graph: GraphBuilder, parts: Sequence[FeatureTensors]) -> FeatureTensors:
    """Return several tables side by side."""
    columns = [column for part in parts for column in (part.columns or (Column(None, part.first, part.is_text),))]
    if any(column.is_text for column in columns):
        if any(part.tensor is not None for part in parts):
            raise ExportError("ColumnTransformer: gives texts beside other columns, which is not exported.")
        return FeatureTensors(tuple(columns))
    return FeatureTensors(tensor=FeatureTensors(tuple(columns)).matrix(graph))


def _rare_labels(step: Any, k: int) -> list[Any]:
    rare = getattr(step, "infrequent_categories_", None)  # only there where rare ones are joined
    return [] if rare is None or rare[k] is None else list(rare[k].tolist())


def _same(label: Any, other: Any) -> bool:
    return (is_missing(label) and is_missing(other)) or bool(label == other)
