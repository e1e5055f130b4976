"""Write the steps of fitted models as nodes: encoders and scalers as what they give, classifiers as probabilities.

Trees, networks and encoders are written here; all other steps of scikit-learn by skl2onnx, in double precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from optfair.errors import ExportError, brief_text, need_extra
from optfair.export.inputs import OTHER_WAY, FeatureTensors
from optfair.export.networks import add_network
from optfair.export.tables import add_columns, add_imputer, add_one_hot, add_ordinal, add_union
from optfair.export.trees import add_forest, add_gradient_boosting, add_hist_gradient_boosting, add_lightgbm
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.score_columns import ScoreColumns
from optfair.portable.graph import ML, ML_OPSET, GraphBuilder
from optfair.portable.runtime import open_graph
from optfair.posteriors.preprocessing import fitted_steps

Classifier = Callable[[GraphBuilder, Any, FeatureTensors], str]
LOCALE = "C.UTF-8"  # in which texts become lower-case; that of skl2onnx, en_US, is absent from most containers


def add_constant(graph: GraphBuilder, model: DummyClassifier, features: FeatureTensors) -> str:
    """Return the shares of the classes for every row, (n, k)."""
    rows = graph.add("Slice", graph.add("Shape", features.first), *map(graph.constant, (np.array([0]), np.array([1]))))
    shares = np.atleast_1d(np.asarray(model.class_prior_, dtype=np.float64))
    shape = graph.add("Concat", rows, graph.constant(np.array([1])), axis=0)
    return graph.add("Tile", graph.constant(shares[None]), shape)


def add_score_columns(graph: GraphBuilder, model: ScoreColumns, features: FeatureTensors) -> str:
    """Return the probabilities that stand in columns of X."""
    tensors = {column.name: column.tensor for column in features.columns}
    return graph.add("Concat", *(tensors[str(name)] for name in model.columns), axis=1)


# By the exact type: a sub-class may compute in another way.
CLASSIFIERS: dict[type, Classifier] = {
    DummyClassifier: add_constant,
    ScoreColumns: add_score_columns,
    DecisionTreeClassifier: add_forest,
    ExtraTreeClassifier: add_forest,
    RandomForestClassifier: add_forest,
    ExtraTreesClassifier: add_forest,
    GradientBoostingClassifier: add_gradient_boosting,
    HistGradientBoostingClassifier: add_hist_gradient_boosting,
}
TRANSFORMERS = {SimpleImputer: add_imputer, OneHotEncoder: add_one_hot, OrdinalEncoder: add_ordinal}
DIVIDERS = {ColumnTransformer: add_columns, FeatureUnion: add_union}
# Of packages that may be absent, by name.
NAMED_CLASSIFIERS: dict[str, Classifier] = {
    "optfair.nn.classifier.TorchClassifier": add_network,
    "lightgbm.sklearn.LGBMClassifier": add_lightgbm,
}


class StepWriter:
    """Writes steps into a graph, each once: models that have a step in common share its nodes."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self._written: dict[tuple[int, FeatureTensors], FeatureTensors] = {}

    def transform(self, steps: list[Any], features: FeatureTensors) -> FeatureTensors:
        """Return what fitted steps make of features, one after the other."""
        for step in steps:
            key = id(step), features
            if key not in self._written:
                self._written[key] = self._transform(step, features)
            features = self._written[key]
        return features

    def probabilities(self, model: Any, features: FeatureTensors) -> str:
        """Return the probabilities of a fitted classifier, (n, k), each row divided by its sum."""
        *steps, final = fitted_steps(model)
        features = self.transform(steps, features)
        kind = f"{type(final).__module__}.{type(final).__qualname__}"
        write = CLASSIFIERS.get(type(final)) or NAMED_CLASSIFIERS.get(kind)
        if write is not None:
            P = write(self.graph, final, features)
        else:
            if not hasattr(final, "predict_proba"):
                text = f"{type(final).__name__} has no predict_proba" if hasattr(final, "fit") else "is a function"
                raise ExportError(f"estimator: {text}, which cannot be converted. {OTHER_WAY}.")
            P = self._convert(final, features)[-1]
        total = self.graph.add("ReduceSum", P, self.graph.constant(np.array([1])), keepdims=1)
        return self.graph.add("Div", P, total)

    def _transform(self, step: Any, features: FeatureTensors) -> FeatureTensors:
        kind = type(step)
        if kind is TableEncoder:
            return self._encode(step, features)
        if kind in TRANSFORMERS:
            return TRANSFORMERS[kind](self.graph, step, features)
        if kind in DIVIDERS:
            return DIVIDERS[kind](self.graph, step, features, self._transform_parts)
        if kind is FunctionTransformer and step.func is None:
            return features
        if not hasattr(step, "transform"):
            raise ExportError(f"{kind.__name__}: has no transform, and is no last step. {OTHER_WAY}.")
        return FeatureTensors(tensor=self.graph.cast(self._convert(step, features)[0], np.float64))

    def _transform_parts(self, parts: list[Any], features: FeatureTensors) -> FeatureTensors:
        return self.transform([step for part in parts for step in fitted_steps(part)], features)

    def _encode(self, encoder: TableEncoder, features: FeatureTensors) -> FeatureTensors:
        """Return the columns of an encoder, whose transformer reads numbers, then texts, then what it passes on."""
        names = [column.name for column in features.columns]
        order = [*encoder.numbers_, *encoder.texts_]
        if encoder.remainder == "passthrough":
            order += [name for name in encoder.feature_names_in_.tolist() if name not in order]
        selected = features.select(self.graph, [names.index(name) for name in order])
        bad = [
            c.name for c in selected.columns if c.is_text != (c.name in encoder.texts_) and c.name in encoder.numbers_
        ]
        if bad:
            raise ExportError(
                f"X: the column {bad[0]!r} held texts that are read as numbers; convert it, and fit again."
            )
        return self._transform(encoder.transformer_, selected)

    def _convert(self, step: Any, features: FeatureTensors) -> list[str]:
        """Return the outputs of a step of scikit-learn, as skl2onnx writes it."""
        skl2onnx = need_extra("skl2onnx", "export")
        types = need_extra("skl2onnx.common.data_types", "export")
        kind, width = (types.StringTensorType if features.has_texts else types.DoubleTensorType), features.width or 1
        initial = [("X", kind([None, getattr(step, "n_features_in_", width)]))]
        inputs = [features.matrix(self.graph)]
        options: dict[int, dict[str, Any]] = {id(step): {"zipmap": False}} if hasattr(step, "predict_proba") else {}
        if type(step) in (CountVectorizer, TfidfVectorizer):
            options = {id(step): {"locale": LOCALE}}
        opsets = {"": self.graph.opset, ML: ML_OPSET}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its own parts
                model = skl2onnx.to_onnx(step, initial_types=initial, options=options, target_opset=opsets)
            open_graph(model.SerializeToString())  # some converters write what no runtime can run
        except Exception as error:
            raise ExportError(
                f"{type(step).__name__}: this step cannot be converted to ONNX ({brief_text(error, 100)}). {OTHER_WAY}."
            ) from error
        return self.graph.splice(model, inputs)
