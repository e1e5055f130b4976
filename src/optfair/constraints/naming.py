"""Write the names of groups and classes as a reader would."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from optfair.constraints.events import ALL


def name_text(value: Any, attributes: Sequence[Hashable] = ()) -> str:
    """Return a group or a class as text: "female × white", and of a marginal group "sex: female"."""
    if not isinstance(value, tuple):
        return str(value)
    parts = [(k, part) for k, part in enumerate(value) if part != ALL]
    if len(parts) < len(value) and len(attributes) == len(value):
        return " × ".join(f"{attributes[k]}: {part}" for k, part in parts)
    return " × ".join(str(part) for _, part in parts)


def optional_text(value: Any, attributes: Sequence[Hashable] = ()) -> str | None:
    """Return a name as text, None where there is none."""
    return None if value is None else name_text(value, attributes)


def attribute_names(groups: pd.Index) -> list[Hashable]:
    """Return the names of the attributes that groups are made of, as far as they have any."""
    return [name if name is not None else f"attribute {k + 1}" for k, name in enumerate(groups.names)]
