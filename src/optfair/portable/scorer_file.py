"""Write the JSON file of a rule, with the scorers of one file in Python and JavaScript beside it.

    {"sha256": of all that follows, "format": "optfair scorer", "version": 1, "about": …, "classes": …, "groups": …,
     "decision", "hashing", "fingerprint" of the secret key as in its file, "aware", "missing", "unseen", "models": how
     many z are mixed, "rule": {weights (p, m), temperatures (p,), share, constant}, "calibration", "posterior",
     "vectors": {key, slack, cases}}

The secret key is never in it. A scorer refuses a file whose checksum differs, and one whose test vectors do not come
out; `write_scorer` refuses to write that.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from optfair.inputs.names import encode_name
from optfair.utils.files import write_atomically

FORMAT, VERSION = "optfair scorer", 1
SCORERS = Path(__file__).parent / "scorers"
SCORER_NAMES = ("optfair_score.py", "optfair_score.mjs")
# Of a probability: z of double precision is right to 1e-16, and a rule of the lowest temperature, 1e-4, multiplies
# that by ten thousand; libraries of other languages differ in the last digit of a logarithm.
SLACK = 1e-8
LARGEST_INTEGER = 2**53 - 1  # that JavaScript reads from JSON as it is written, and no other one as the same


def write_scorer(path: Path, document: Mapping[str, Any]) -> list[Path]:
    """Write the document and the scorers beside it, after the Python one has accepted it; return the paths."""
    content = sealed_content(document)
    scorer_module().Scorer(json.loads(content))
    write_atomically(path, content)
    paths = [path]
    for name in SCORER_NAMES:
        paths.append(path.with_name(name))
        write_atomically(paths[-1], (SCORERS / name).read_bytes())
    return paths


def sealed_content(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON that begins with the checksum of what follows."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=None, separators=(",", ":"))
    rest = f"{text[1:]}\n".encode()
    return b'{"sha256":"%s",' % hashlib.sha256(rest).hexdigest().encode() + rest


@cache
def scorer_module() -> ModuleType:
    """Return the Python scorer as a module, as it is written beside exported files."""
    spec = importlib.util.spec_from_file_location("optfair_score", SCORERS / SCORER_NAMES[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain_label(label: Any, argument: str) -> Any:
    """Return a name of a class or group as every JSON reader has it: text, number, truth value, or a list of these."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, tuple):
        return [plain_label(part, argument) for part in label]
    if isinstance(label, pd.Timestamp):
        return label.isoformat()
    if isinstance(label, int) and abs(label) > LARGEST_INTEGER:
        raise ValueError(f"{argument}: {label} has more digits than JavaScript reads; make the names text before fit.")
    value = encode_name(label)
    if isinstance(value, dict):
        raise ValueError(f"{argument}: {label!r} is a name that JSON cannot hold; make the names text before fit.")
    return value
