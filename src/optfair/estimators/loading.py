"""Load a fitted estimator from a skops archive; no code from the file is run.

All that a model needs to predict is scikit-learn's, NumPy's, or a type of ours that is listed here. Any other type (a
model of your own, a function that reads the groups) must be named in ``trusted=``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from optfair.errors import ModelFileError, UntrustedTypesError
from optfair.estimators.saving import FORMAT, VERSION, SavableClassifier
from optfair.rule.keys import find_key
from optfair.utils.archives import ArchiveSizeError, check_archive, need_skops
from optfair.utils.checks import check_integer

# Ours, and those of scikit-learn's own that skops does not list.
KNOWN_TYPES = {
    "optfair.constraints.criteria.Constraint",
    "optfair.constraints.criteria.MinimumRate",
    "optfair.constraints.criteria.Ratio",
    "optfair.constraints.criteria.Rows",
    "optfair.inprocessing.mixture.Mixture",
    "optfair.inprocessing.mixture.ModelScores",
    "optfair.inputs.encoder.TableEncoder",
    "optfair.inputs.feature_schema.Feature",
    "optfair.inputs.score_columns.ScoreColumns",
    "optfair.inputs.table_form.ColumnForm",
    "optfair.inputs.table_form.TableForm",
    "optfair.nn.classifier.TorchClassifier",
    "optfair.posteriors.calibration.AwareCalibration",
    "optfair.posteriors.calibration.FactorCalibration",
    "optfair.posteriors.calibration.JointCalibration",
    "optfair.posteriors.models.ClassModel",
    "optfair.posteriors.models.FactoredModel",
    "optfair.posteriors.models.GivenGroupModel",
    "optfair.posteriors.models.GroupModels",
    "optfair.posteriors.models.JointModel",
    "optfair.posteriors.scaling.AwareScaling",
    "optfair.posteriors.scaling.Scaling",
    "optfair.posteriors.scaling.ShareScaling",
    "collections.OrderedDict",
    "numpy.dtype",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
}


def untrusted_types(path: str | os.PathLike[str], max_bytes: int | None = None) -> list[str]:
    """Return the types in a model file that are neither scikit-learn's, NumPy's nor ours; nothing is executed."""
    path = Path(path)
    return _untrusted_types(path, path.read_bytes(), max_bytes)


def _untrusted_types(path: Path, content: bytes, max_bytes: int | None) -> list[str]:
    skops = need_skops("load_model")
    try:
        check_archive(content, max_bytes)
        types = sorted(set(skops.get_untrusted_types(data=content)) - KNOWN_TYPES)
    except ArchiveSizeError as error:
        raise ModelFileError(
            f"{path.name}: {error}; models are saved without compression; allow more by "
            "load_model(..., max_bytes=...) if you know where the file comes from."
        ) from None
    except Exception as error:
        raise ModelFileError(f"{path.name}: not a complete skops archive ({error}); save the model again.") from None
    foreign = [name for name in types if name.startswith("optfair.")]
    if foreign:
        raise ModelFileError(
            f"{path.name}: was written by another version of optfair, which had a type {foreign[0]}; fit and save the "
            "model again."
        )
    return types


def load_model(
    path: str | os.PathLike[str],
    *,
    trusted: Iterable[str] = (),
    key: bytes | str | None = None,
    max_bytes: int | None = None,
) -> Any:
    """Read a model written by ``save``; nothing in the file is executed. This needs ``optfair[save]``.

    Sizes are looked at before anything is unpacked, and the indices inside trees, neighbours, support vectors and
    sparse matrices before compiled code uses them. What a model answers is not checked: a stranger's file may hold any
    rule, and types named in ``trusted`` do what they do.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : iterable of str, optional
        Names of further types the file may hold, e.g. "my_package.MyClassifier".
    key : bytes or str, optional
        Key of hashed decisions; read from ``path`` + ".key" by default.
    max_bytes : int, optional
        Largest size of what is unpacked; the size of the file, or 256 MB if that is more, by default.

    Returns
    -------
    OptFairPost or OptFairIn
        The fitted classifier.

    Raises
    ------
    UntrustedTypesError
        If the file holds types that are neither known nor trusted.
    ModelFileError
        If the file is truncated, was not written by optfair, or has sizes or indices that no fitted model has.

    Examples
    --------
    >>> from optfair import load_model
    >>> model = load_model("model.skops")  # doctest: +SKIP
    """
    skops = need_skops("load_model")
    if isinstance(trusted, str):
        raise ValueError(f"trusted={trusted!r}: must be a list of type names.")
    if max_bytes is not None:
        check_integer("max_bytes", max_bytes, 1)
    path = Path(path)
    content = path.read_bytes()
    unknown = sorted(set(_untrusted_types(path, content, max_bytes)) - set(trusted))
    if unknown:
        raise UntrustedTypesError(path.name, unknown)
    try:
        document = skops.loads(content, trusted=sorted({*KNOWN_TYPES, *trusted}))
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
        if document["version"] != VERSION:
            raise ModelFileError(
                f"{path.name}: has version {document['version']!r}, but this release reads version {VERSION}."
            )
        kind, state = SavableClassifier._savable[document["class"]], document["state"]
        record = kind._record
        fingerprint = json.loads(state[record]["json"])["key"]
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ImportError, OSError, MemoryError) as error:
        raise ModelFileError(f"{path.name}: not a model written by optfair ({error}).") from None
    _check_parts(path, state)
    state[record] = {**state[record], "key": find_key(path, fingerprint, key)}
    model = kind.__new__(kind)
    try:
        model.__setstate__(state)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path.name}: a part of the model is missing or malformed ({error}).") from None
    return model


def _check_parts(path: Path, state: Any) -> None:
    """Refuse a model whose arrays point outside of themselves."""
    from optfair.utils.loaded_models import check_model  # here: it imports a good part of scikit-learn

    try:
        check_model(state)
    except ValueError as error:
        raise ModelFileError(
            f"{path.name}: a part of the model is malformed ({error}); save the model again."
        ) from None
