"""Write the steps of fitted models as nodes: encoders and scalers as what they give, classifiers as probabilities.

Trees, networks and encoders are written here; all other steps of scikit-learn by skl2onnx, in double precision.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
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
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from optfair.errors import ExportError, brief_text, need_extra
from optfair.export.inputs import OTHER_WAY, FeatureTensors
from optfair.export.networks import add_network
from optfair.export.tables import add_columns, add_imputer, add_one_hot, add_ordinal, add_scaler, add_union
from optfair.export.trees import add_forest, add_gradient_boosting, add_hist_gradient_boosting, add_lightgbm
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.score_columns import ScoreColumns
from optfair.portable.graph import ML, ML_OPSET, GraphBuilder
from optfair.portable.rule_graph import add_choice, add_where_number
from optfair.portable.runtime import open_graph
from optfair.posteriors.logistic_stack import is_plain
from optfair.posteriors.preprocessing import fitted_steps

Classifier = Callable[[GraphBuilder, Any, FeatureTensors], str]
NEIGHBOURS = (KNeighborsClassifier, RadiusNeighborsClassifier)
LOCALE = "C.UTF-8"  # in which texts become lower-case; that of skl2onnx, en_US, is absent from most containers


def add_constant(graph: GraphBuilder, model: DummyClassifier, features: FeatureTensors) -> str:
    """Return the shares of the classes for every row, (n, k)."""
    rows = graph.add("Slice", graph.add("Shape", features.first), *map(graph.constant, (np.array([0]), np.array([1]))))
    shares = np.atleast_1d(np.asarray(model.class_prior_, dtype=np.float64))
    shape = graph.add("Concat", rows, graph.constant(np.array([1])), axis=0)
    return graph.add("Tile", graph.constant(shares[None]), shape)


def add_linear_scores(graph: GraphBuilder, model: Any, features: FeatureTensors) -> str:
    """Return the scores whose best is what a linear classifier predicts, (n, k); of two classes, 0 and its own."""
    n_zeros = len(model.classes_) - len(model.coef_)
    slopes = np.vstack([np.zeros((n_zeros, model.coef_.shape[1])), model.coef_])
    intercepts = np.append(np.zeros(n_zeros), model.intercept_)
    product = graph.add("MatMul", features.matrix(graph), graph.constant(slopes.T))
    return graph.add("Add", product, graph.constant(intercepts))


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
TRANSFORMERS = {
    SimpleImputer: add_imputer,
    OneHotEncoder: add_one_hot,
    OrdinalEncoder: add_ordinal,
    StandardScaler: add_scaler,
}
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
        P = self._classify(model, features)[-1]
        total = self.graph.add("ReduceSum", P, self.graph.constant(np.array([1])), keepdims=1)
        return self.graph.add("Div", P, total)

    def votes(self, model: Any, features: FeatureTensors, m: int) -> str:
        """Return which of m classes a fitted classifier of codes predicts, (n, m): ones, else zeros."""
        *steps, final = fitted_steps(model)
        if getattr(type(final), "predict", None) is LogisticRegression.predict:  # of all linear classifiers
            scores = add_linear_scores(self.graph, final, self.transform(steps, features))
            labels = []  # the likeliest class need not be the best score, where probabilities are cut at one
        else:
            *labels, scores = self._classify(model, features)
        if labels:
            codes = self.graph.add("Reshape", labels[0], self.graph.constant(np.array([-1, 1])))
        else:
            best = self.graph.add("ArgMax", scores, axis=1, keepdims=1)
            codes = self.graph.add("Gather", self.graph.constant(np.asarray(model.classes_, np.int64)), best, axis=0)
        return add_where_number(self.graph, scores, add_choice(self.graph, codes, m))

    def _classify(self, model: Any, features: FeatureTensors) -> list[str]:
        """Return what a fitted classifier predicts, (n,), if its converter tells, and its probabilities, (n, k)."""
        *steps, final = fitted_steps(model)
        features = self.transform(steps, features)
        kind = f"{type(final).__module__}.{type(final).__qualname__}"
        write = CLASSIFIERS.get(type(final)) or NAMED_CLASSIFIERS.get(kind)
        if write is not None:
            return [write(self.graph, final, features)]
        if hasattr(final, "coef_") and is_plain(final, final.coef_.shape[1]):
            return [self.graph.add("Softmax", add_linear_scores(self.graph, final, features), axis=1)]
        reason = None
        if not hasattr(final, "predict_proba"):
            reason = f"{type(final).__name__} has no predict_proba" if hasattr(final, "fit") else "is a function"
        for part in (final, *final.get_params().values()) if hasattr(final, "get_params") else ():
            if isinstance(part, NEIGHBOURS):
                reason = f"{type(part).__name__} puts neighbours at the same distance in an order of its own"
            elif isinstance(part, CalibratedClassifierCV) and part.method == "isotonic":
                reason = "CalibratedClassifierCV(method='isotonic') interpolates, and its converter rounds"
        if reason is not None:
            raise ExportError(f"estimator: {reason}, which cannot be converted. {OTHER_WAY}.")
        return self._convert(final, features)

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
        outputs = self._convert(step, features)
        return FeatureTensors(tensor=self.graph.cast(outputs[-1], np.float64))  # before it, what clusters predict

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
        # The encoder itself reads 7.0 as 7.
        columns = tuple(replace(c, has_points=False) if c.is_text else c for c in selected.columns)
        return self._transform(encoder.transformer_, replace(selected, columns=columns))

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
