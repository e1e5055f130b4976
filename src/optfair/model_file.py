"""A fitted estimator as a skops archive: loading it runs no code from the file.

Types that scikit-learn, NumPy and optfair define are known; any other (a model of your own, a function that reads the
groups) must be named in ``trusted=``. The secret key of hashed decisions is written apart, in ``<path>.key``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from optfair.errors import ModelFileError, need_extra
from optfair.inprocess import OptFairIn
from optfair.post import OptFairPost
from optfair.record import RecordedClassifier
from optfair.rule_file import find_key, write_with_key

FORMAT, VERSION = "optfair model", 1
ESTIMATORS: tuple[type[RecordedClassifier], ...] = (OptFairPost, OptFairIn)
# Ours, and those of scikit-learn's own that skops does not know of.
KNOWN_TYPES = {
    "optfair.constraints.criteria.Constraint",
    "optfair.constraints.criteria.MinimumRate",
    "optfair.constraints.criteria.Ratio",
    "optfair.constraints.criteria.Rows",
    "optfair.estimation.calibration.Scaling",
    "optfair.estimation.models.ClassModel",
    "optfair.estimation.models.FactoredModel",
    "optfair.estimation.models.GivenGroupModel",
    "optfair.estimation.models.GroupModels",
    "optfair.estimation.models.JointModel",
    "optfair.inprocessing.mixture.Mixture",
    "optfair.inprocessing.mixture.Scores",
    "optfair.nn.classifier.TorchClassifier",
    "collections.OrderedDict",
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
}


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to ``path`` (atomically), and its key to ``path`` + ".key"."""
    skops = need_extra("skops.io", f"{type(model).__name__}.save")
    check_is_fitted(model)
    state = model.__getstate__()
    if not isinstance(state.get("start", ""), str):
        state["start"] = "post"  # a rule to start from is of no use to predict, and has a secret key of its own
    record = model._record
    if not isinstance(state[record], dict):
        type(model)._record_content(state[record])  # says which name cannot be written
    key, state[record] = state[record]["key"], {**state[record], "key": None}
    document = {"format": FORMAT, "version": VERSION, "class": type(model).__name__, "state": state}
    try:
        content = skops.dumps(document)
        skops.loads(content, trusted=skops.get_untrusted_types(data=content))  # a lambda is written, but never read
    except Exception as error:
        raise ModelFileError(
            f"save: a part of the model cannot be written ({error}); functions must be importable by name (no lambda)."
        ) from error
    write_with_key(Path(path), content, key)


def untrusted_types(path: str | os.PathLike[str]) -> list[str]:
    """The types in a model file that are neither scikit-learn's, NumPy's nor ours, by name; nothing is executed."""
    skops, path = need_extra("skops.io", "load_model"), Path(path)
    content = path.read_bytes()
    try:
        return sorted(set(skops.get_untrusted_types(data=content)) - KNOWN_TYPES)
    except Exception as error:
        raise ModelFileError(f"{path.name}: not a complete skops archive ({error}); save the model again.") from None


def load_model(path: str | os.PathLike[str], *, trusted: Iterable[str] = (), key: bytes | str | None = None) -> Any:
    """Read a model written by ``save``; nothing in the file is executed.

    trusted : names of further types the file may hold, e.g. "my_package.MyClassifier". key : that of hashed decisions,
    else it is read from ``path`` + ".key".
    """
    skops = need_extra("skops.io", "load_model")
    if isinstance(trusted, str):
        raise ValueError(f"trusted={trusted!r}: must be a list of type names.")
    path = Path(path)
    unknown = sorted(set(untrusted_types(path)) - set(trusted))
    if unknown:
        raise ModelFileError(
            f"{path.name}: holds types that are not trusted: {', '.join(unknown)}. If you know where the file comes "
            f"from, pass trusted={unknown!r}."
        )
    try:
        document = skops.loads(path.read_bytes(), trusted=sorted({*KNOWN_TYPES, *trusted}))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise ModelFileError(f"{path.name}: is {document['format']!r}, version {document['version']!r}.")
        kind, state = {kind.__name__: kind for kind in ESTIMATORS}[document["class"]], document["state"]
        record = kind._record
        fingerprint = json.loads(state[record]["json"])["key"]
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise ModelFileError(f"{path.name}: not a model written by optfair ({error}).") from None
    state[record] = {**state[record], "key": find_key(path, fingerprint, key)}
    model = kind.__new__(kind)
    try:
        model.__setstate__(state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path.name}: a part of the model is missing or malformed ({error}).") from None
    return model
