"""Save a fitted estimator as a skops archive; loading it runs no code from the file.

A *record* is an attribute with the names, the numbers and the secret key of a result; it is written as JSON. Everything
else that a model needs to predict is scikit-learn's, NumPy's, or a type of ours that is listed here. Any other type (a
model of your own, a function that reads the groups) must be named in ``trusted=``. Personal data are never written. The
secret key of hashed decisions is written apart, in ``<path>.key``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from optfair.errors import ModelFileError, UntrustedTypesError
from optfair.estimators.functions import unsavable_part
from optfair.estimators.promises import PromisingClassifier
from optfair.export.model_file import export_model
from optfair.portable.graph import DEFAULT_OPSET
from optfair.portable.scorer_file import SLACK
from optfair.rule.keys import find_key, write_with_key
from optfair.utils.archives import ArchiveSizeError, check_archive, need_skops
from optfair.utils.checks import check_integer
from optfair.utils.parallel import uses_cores

FORMAT, VERSION = "optfair model", 6
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


class SavableClassifier(PromisingClassifier):
    """A fair classifier with `save`, whose copies and files hold no personal data."""

    # What is written as JSON: an attribute with the names, the numbers and the key, and the way there and back.
    _record: str
    _record_content: Callable[[Any], dict[str, Any]]
    _record_from_content: Callable[[dict[str, Any]], Any]
    _personal: tuple[str, ...] = ()  # attributes that are about the people fitted on
    _savable: dict[str, type[SavableClassifier]] = {}  # noqa: RUF012 - by name, for `load_model`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        SavableClassifier._savable[cls._saved_name()] = cls

    @classmethod
    def _saved_name(cls) -> str:
        """Return the name of the class in files: plain for classes of optfair, with its module for others."""
        return cls.__name__ if cls.__module__.startswith("optfair.") else f"{cls.__module__}.{cls.__qualname__}"

    def save(self, path: Any) -> None:
        """Write the model as a skops archive, and the secret key of its decisions beside it; needs ``optfair[save]``.

        `optfair.load_model` reads it and runs no code from it; types that scikit-learn, NumPy and optfair do not define
        must be named to it as ``trusted=`` (and trees, which skops does not trust). What optfair itself keeps of the
        people fitted on is not written; some models hold rows of theirs (nearest neighbours, support vectors).

        Parameters
        ----------
        path : str or path
            The file, written atomically; the key goes to ``path`` + ".key", readable by the owner only.

        Examples
        --------
        >>> from optfair import OptFairPost, load_model
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> model.save("model.skops")  # doctest: +SKIP
        >>> copy = load_model("model.skops")  # doctest: +SKIP
        """
        save_model(self, path)

    @uses_cores
    def export(
        self, path: Any, *, inputs: str = "features", opset: int = DEFAULT_OPSET, max_difference: float = SLACK
    ) -> list[Path]:
        """Write the model for services without optfair; the secret key is in none of the files.

        The files hold test vectors, of nobody, and are written only if these come out.

        Parameters
        ----------
        path : str or path
            ``fair.onnx``, a graph with all that the model does up to the probabilities of the answers (extra
            ``onnx``); or ``fair.json``, with scorers of one file in Python and JavaScript beside it, which need P(A, Y
            | X) where the models are not linear.
        inputs : {"features", "posterior"}, default "features"
            What the graph reads: what `predict` reads, or ``joint``, (n, n_groups, n_classes), of models that are
            elsewhere.
        opset : int, default 19
            Version of the ONNX operators.
        max_difference : float, default 1e-8
            Largest difference to the probabilities of this model that is accepted.

        Returns
        -------
        list of Path
            The files written.

        Raises
        ------
        ExportError
            If a step cannot be converted, or gives other probabilities; the message says which, and another way.

        Examples
        --------
        >>> import os, tempfile
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in model.export(os.path.join(folder, "fair.json"))]
        ['fair.json', 'optfair_score.py', 'optfair_score.mjs']
        """
        check_is_fitted(self)
        return export_model(self, path, inputs=inputs, opset=opset, max_difference=max_difference)

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and skops write: the record as JSON and its key, and no personal data."""
        state = {k: v for k, v in super().__getstate__().items() if k not in self._personal}
        if self._record in state:
            record = state[self._record]
            with suppress(ValueError):  # names that JSON cannot hold, such as intervals: pickle can
                content = json.dumps(type(self)._record_content(record), allow_nan=False)
                state[self._record] = {"json": content, "key": record.key}
                del state["groups_"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state, content = dict(state), state.get(self._record)
        if isinstance(content, dict):
            record = replace(type(self)._record_from_content(json.loads(content["json"])), key=content["key"])
            state[self._record], state["groups_"] = record, record.groups
        super().__setstate__(state)


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to ``path`` (atomically), and its key to ``path`` + ".key"."""
    skops = need_skops(f"{type(model).__name__}.save")
    check_is_fitted(model)
    state = model.__getstate__()
    if not isinstance(state.get("start", ""), str):
        state["start"] = "post"  # a rule to start from is of no use to predict, and has a secret key of its own
    if "progress" in state:
        state["progress"] = False  # who fits wants to see it, not who predicts
    record = model._record
    if not isinstance(state[record], dict):
        type(model)._record_content(state[record])  # says which name cannot be written
    key, state[record] = state[record]["key"], {**state[record], "key": None}
    document = {"format": FORMAT, "version": VERSION, "class": model._saved_name(), "state": state}
    try:
        content = skops.dumps(document)
        skops.loads(content, trusted=skops.get_untrusted_types(data=content))  # a lambda is written, but never read
    except Exception as error:
        raise ModelFileError(unsavable_part(model, error)) from error
    write_with_key(Path(path), content, key)


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
