"""Give a graph the inputs that a classifier reads: its columns, one tensor each, or one matrix; and the group.

Numbers, truth values too, are float64, and a missing one is NaN; texts are texts, and a missing one is the empty text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import ExportError
from optfair.inputs.containers import layout_of
from optfair.inputs.feature_schema import OTHER, TEXT
from optfair.inputs.frames import as_frame
from optfair.portable.graph import GraphBuilder
from optfair.portable.scorer_file import plain_label

OUTPUTS = ("probabilities", "scores", "drawn", "label")  # names that no input can have
MATRIX = "X"
OTHER_WAY = (
    "Export the rule by itself (inputs='posterior', --inputs posterior, or a .json file), and give it P(A, Y | X) of "
    "your models"
)
MISSING_TEXT = ""


@dataclass(frozen=True)
class Column:
    """A column of a table as a tensor (n, 1). name : in the table; None in an array.

    has_points : whether "7.0" is another text than "7". tensor : "" of values that are neither numbers nor texts.
    """

    name: str | None
    tensor: str
    is_text: bool
    has_points: bool = True


@dataclass(frozen=True)
class FeatureTensors:
    """What a step of a model reads: columns, or one matrix (n, d). width : d, where known. is_text : of the matrix."""

    columns: tuple[Column, ...] = ()
    tensor: str | None = None
    width: int | None = None
    is_text: bool = False

    @property
    def first(self) -> str:
        """A tensor of all rows."""
        return self.tensor or next(column.tensor for column in self.columns if column.tensor)

    def matrix(self, graph: GraphBuilder) -> str:
        """Return the columns as one tensor."""
        if self.tensor is not None:
            return self.tensor
        if self.has_texts and not all(column.is_text for column in self.columns):
            raise ExportError("X: has texts among numbers, and a step reads them as one table of one type.")
        names = [_readable(column).tensor for column in self.columns]
        return names[0] if len(names) == 1 else graph.add("Concat", *names, axis=1)

    @property
    def has_texts(self) -> bool:
        """Whether some of it is text."""
        return self.is_text or any(column.is_text for column in self.columns)

    def column(self, graph: GraphBuilder, position: int) -> Column:
        """Return one column."""
        if self.tensor is None:
            return _readable(self.columns[position])
        tensor = graph.add("Gather", self.tensor, graph.constant(np.array([position])), axis=1)
        return Column(None, tensor, self.is_text)

    def select(self, graph: GraphBuilder, positions: Sequence[int]) -> FeatureTensors:
        """Return some of the columns."""
        return FeatureTensors(tuple(self.column(graph, position) for position in positions))

    def without(self, source: Any) -> FeatureTensors:
        """Return these without the sensitive columns, by name or position."""
        items = source if isinstance(source, list) else [source]
        if source is None or not self.columns:
            if any(isinstance(item, int) for item in items):
                raise ExportError(
                    "sensitive_features: are positions in a matrix; name columns of a data frame, and fit."
                )
            return self
        positions = [item % len(self.columns) for item in items if isinstance(item, int)]
        rest = [c for k, c in enumerate(self.columns) if c.name not in items and k not in positions]
        return FeatureTensors(tuple(rest))


def _readable(column: Column) -> Column:
    """Return a column that a step reads; an ExportError where no graph can."""
    if not column.tensor:
        raise ExportError(
            f"X: the column {column.name!r} holds neither numbers nor texts; leave it out, and fit again."
        )
    return column


@dataclass
class InputNames:
    """The inputs of a graph so far: what each is called in a table, and in the graph."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, kind: Any, role: str) -> str:
        """Return the name of an input tensor: that of the column, unless it is empty or something else is called so."""
        names = {*OUTPUTS, "", *(entry["input"] for entry in self.entries)}
        tensor = name
        while tensor in names:
            tensor += "_in"
        type_name = "string" if kind is str else np.dtype(kind).name
        self.entries.append({"name": name, "input": tensor, "type": type_name, "role": role})
        return tensor


def feature_tensors(graph: GraphBuilder, model: Any, names: InputNames) -> FeatureTensors:
    """Declare the inputs of the features that a classifier was fitted on, without those that a blind one leaves out."""
    form, features = model._form, model._features
    if form.layout == "dataset" or (form.layout == "array" and not features and not hasattr(model, "n_features_in_")):
        raise ExportError(f"X: was a data set or images. {OTHER_WAY}.")
    if not form.names:
        return _matrix_tensor(graph, model, names)
    source = model.sensitive_features
    blind = model.awareness == "blind"
    left_out = [item for item in (source if isinstance(source, list) else [source]) if blind and isinstance(item, str)]
    texts = form.texts
    columns = []
    for position, (name, column) in enumerate(zip(form.names, form.columns, strict=True)):
        if name in left_out:
            continue
        is_text = name in texts
        if column.kind == OTHER and not is_text and not (features and features[position].kind not in (OTHER, TEXT)):
            columns.append(Column(name, "", False))
            continue
        kind: Any = str if is_text else np.float64
        tensor = graph.add_input(names.add(name, kind, "feature"), kind, ("n", 1))
        columns.append(Column(name, tensor, is_text, column.has_points))
    return FeatureTensors(tuple(columns))


def _matrix_tensor(graph: GraphBuilder, model: Any, names: InputNames) -> FeatureTensors:
    """Declare one matrix of numbers, or one column of texts."""
    features = model._features
    has_texts = any(feature.kind in (TEXT, OTHER) for feature in features)
    if has_texts and len(features) > 1:
        raise ExportError("X: was an array with texts; give a data frame, whose columns have names, and fit again.")
    if has_texts:
        tensor = graph.add_input(names.add(MATRIX, str, "feature"), str, ("n", 1))
        return FeatureTensors((Column(None, tensor, True),))
    width = int(getattr(model, "n_features_in_", None) or len(features) or 1)
    tensor = graph.add_input(names.add(MATRIX, np.float64, "feature"), np.float64, ("n", width))
    return FeatureTensors(tensor=tensor, width=width)


def graph_feeds(names: InputNames, X: Any, groups: Any = None) -> dict[str, np.ndarray]:
    """Return the tensors of rows: those of a data frame, or of an array, and of their groups."""
    feeds: dict[str, np.ndarray] = {}
    is_table = layout_of(X) in ("pandas", "polars")
    frame = as_frame(X) if is_table else None
    group_frame = None if groups is None else pd.DataFrame(groups).reset_index(drop=True)
    for entry in names.entries:
        if entry["role"] == "feature":
            values = X if frame is None else frame[entry["name"]]
        else:
            assert group_frame is not None
            position = [e["input"] for e in names.entries if e["role"] == "group"].index(entry["input"])
            values = group_frame.iloc[:, position]
        feeds[entry["input"]] = _feed(values, entry["type"])
    return feeds


def _feed(values: Any, kind: str) -> np.ndarray:
    if kind == "string":
        series = pd.Series(list(values), dtype=object)
        texts = series.where(series.notna(), MISSING_TEXT).astype(str)
        return texts.to_numpy(dtype=object).reshape(-1, 1)
    if isinstance(values, pd.Series):
        return values.to_numpy(dtype=np.float64 if kind == "float64" else kind, na_value=np.nan).reshape(-1, 1)
    return np.asarray(values, dtype=np.float64)


# -- groups ------------------------------------------------------------------------------------------------
def group_names(model: Any) -> Sequence[str]:
    """Return what the inputs of the groups are called: as the attributes, or "group"."""
    names = list(model.groups_.names)
    if len(names) == 1:
        return ["group" if names[0] is None else str(names[0])]
    return [f"group_{k}" if name is None else str(name) for k, name in enumerate(names)]


def plain_groups(groups: pd.Index) -> list[Any]:
    """Return the names of groups as JSON has them."""
    return [plain_label(group, "groups") for group in groups]
