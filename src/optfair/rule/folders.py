"""Apply a rule to rows of Z in folders of Parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from optfair.errors import need_extra
from optfair.rule import decisions
from optfair.storage.answers import answer_frame, as_names, content_digest, key_values, output_names
from optfair.storage.columns import Columns, check_cells, check_schema, find_columns
from optfair.storage.parts import file_parts
from optfair.storage.scoring import ScoredFiles, folder_files, score_files

if TYPE_CHECKING:
    from optfair.rule.rule import FairRule


@dataclass(frozen=True, eq=False)
class RuleAnswers:
    """The answers of a rule for a data frame of rows of Z. columns : of Z and offset. keys : columns."""

    rule: Any
    columns: Columns
    keys: list[str]
    decision: str
    hashing: str
    outputs: list[str]

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the prediction, and probabilities where there are names for them."""
        Z, offset = _numbers(frame, self.columns.z, self.columns.dtype), None
        Z = Z.reshape(len(frame), *self.rule.shape)
        if self.columns.offset:
            offset = _numbers(frame, self.columns.offset, np.dtype(np.float64))
        keys = key_values(frame, self.keys)
        answers = self.rule.predict(Z, self.decision, keys=keys, offset=offset, hashing=self.hashing)
        probabilities = self.rule.predict_proba(Z, offset=offset) if len(self.outputs) > 1 else None
        return answer_frame(self.outputs, answers, probabilities)


def _numbers(frame: pd.DataFrame, names: tuple[str, ...], dtype: np.dtype) -> np.ndarray:
    """Return columns of numbers, or one of lists of numbers, (k, number of numbers)."""
    if len(names) == 1 and len(frame) and np.ndim(frame[names[0]].iloc[0]):
        return np.stack(frame[names[0]].to_numpy())
    return np.asarray(frame[list(names)].to_numpy(dtype=dtype))


def score_rows(
    rule: FairRule,
    source: Any,
    out: Any,
    z: Any,
    offset: Any,
    keys: Any,
    decision: str,
    hashing: str,
    *,
    probabilities: bool,
    only: bool,
    client: Any,
) -> ScoredFiles:
    """Write the answers of a rule beside rows of Z; see `FairRule.score_parts`."""
    need_extra("pyarrow.parquet", "score_parts")
    people = as_names(keys, "keys")
    decisions.check_decision(decision, people or None, None, hashing)
    root, names = folder_files(source)
    schemas = [file_parts(str(root / name), None)[1] for name in names]
    columns = find_columns(schemas[0], z, None, offset, rule.groups, rule.classes)
    absent = [name for name in people if name not in schemas[0].names]
    if absent:
        raise ValueError(f"keys={absent[0]!r}: is not a column of the files.")
    for name, schema in zip(names[1:], schemas[1:], strict=True):
        check_schema(schema, schemas[0], columns.names, str(root / name))
        check_cells(schema, z, columns, str(root / name))
    outputs = output_names(rule.classes.tolist(), probabilities)
    answers = RuleAnswers(rule, columns, people, decision, hashing, outputs)
    read = list(dict.fromkeys([*columns.names, *people]))
    return score_files(source, out, answers, content_digest(answers), columns=read, only=only, client=client)
