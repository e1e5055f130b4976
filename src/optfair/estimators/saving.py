"""Save a fitted estimator as a skops archive.

A *record* is an attribute with the names, the numbers and the secret key of a result; it is written as JSON. Personal
data are never written. The secret key of hashed decisions is written apart, in ``<path>.key``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from optfair.errors import ExportError, ModelFileError, warn
from optfair.estimators.functions import unsavable_part
from optfair.estimators.promises import PromisingClassifier
from optfair.export.model_file import export_model
from optfair.portable.graph import DEFAULT_OPSET
from optfair.portable.scorer_file import SLACK
from optfair.rule.keys import read_key_file, write_with_key
from optfair.utils.archives import need_skops
from optfair.utils.parallel import uses_cores

FORMAT, VERSION = "optfair model", 6


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

    def keep_key(self, source: Any) -> Self:
        """Draw for each person as an earlier model did, by its secret key; return the model itself.

        Every fit makes a new key, so that at the border between two classes other people are drawn. When a model in
        use is replaced, keep its key: then only those get another prediction whose probabilities changed.

        Parameters
        ----------
        source : fitted classifier, or path
            The earlier model, or the key file that was saved beside it.

        Returns
        -------
        self
            The model, with the key of the other.

        Examples
        --------
        >>> from optfair import OptFairPost
        >>> from optfair.datasets import make_fair_classification
        >>> data = make_fair_classification(400, random_state=0)
        >>> old = OptFairPost(cv=2).fit(data.X, data.y, sensitive_features=data.sensitive_features)
        >>> new = OptFairPost(cv=2).fit(data.X, data.y, sensitive_features=data.sensitive_features).keep_key(old)
        >>> bool((new.predict(data.X) == old.predict(data.X)).all())
        True
        """
        check_is_fitted(self)
        if isinstance(source, str | Path):
            key: bytes | None = read_key_file(Path(source))
        elif hasattr(source, "_key"):
            check_is_fitted(source)
            key = source._key()
            if source.hashing != self.hashing:
                warn(
                    f"source: it draws by {source.hashing!r} and this model by {self.hashing!r}, so that the same key "
                    "gives other draws; fit with the same hashing=."
                )
        else:
            raise ValueError("source: must be a fitted classifier of optfair, or the path of its key file.")
        if key is None:
            raise ValueError("source: the model has no key; load it with the file that was saved beside it.")
        setattr(self, self._record, replace(getattr(self, self._record), key=key))
        path = getattr(self, "path_", None)
        if path is not None:
            self.path_ = replace(path, rules=type(path.rules)(replace(rule, key=key) for rule in path.rules))
        return self

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
        check_has_key(self, ExportError)
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


def check_has_key(model: Any, error: type[Exception]) -> None:
    """Refuse to write a model that draws by a key and has none: nothing would tell its key from any other."""
    if model.decision == "hashed" and model._key() is None:
        raise error(
            "key: missing; the file would hold no fingerprint of it, and any key would fit. Load the model with its "
            "key (load_model(path, key=...)), or keep_key of the model that has it."
        )


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to ``path`` (atomically), and its key to ``path`` + ".key"."""
    skops = need_skops(f"{type(model).__name__}.save")
    check_is_fitted(model)
    state = model.__getstate__()
    if not isinstance(state.get("start", ""), str):
        state["start"] = "post"  # a rule to start from is of no use to predict, and has a secret key of its own
    if "progress" in state:
        state["progress"] = False  # who fits wants to see it, not who predicts
    check_has_key(model, ModelFileError)
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
