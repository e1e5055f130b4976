"""Check the arrays of histogram boosting that comes from a file; see `optfair.utils.loaded_models`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.utils import check_array

BOOSTING = BaseHistGradientBoosting
BITSET_WORDS = 8  # of 32 bits each: one bit per category


def check_boosting(part: Any) -> None:
    """Raise ValueError if a tree of a fitted histogram boosting points outside of its arrays or of the columns of X."""
    columns = vars(part)["n_features_in_"]
    _require(isinstance(columns, int | np.integer), "n_features_in_ is not an integer")
    _require(not hasattr(part, "_in_fit"), "was not fitted to its end")  # it would not look at X
    mapper = part._bin_mapper
    _require(isinstance(mapper, _BinMapper) and "transform" not in vars(mapper), "its bins are of another kind")
    _require("make_known_categories_bitsets" not in vars(mapper), "its bins are of another kind")
    categorical = mapper.is_categorical_
    _require(isinstance(categorical, np.ndarray) and categorical.dtype in (bool, np.uint8), "its columns have no kinds")
    _require(categorical.shape == (columns,), "its bins are for other columns")
    if part._preprocessor is not None:
        _check_encoder(part._preprocessor, int(columns))
    for stage in part._predictors:
        for tree in stage:
            _require(isinstance(tree, TreePredictor) and "predict" not in vars(tree), "holds something else than trees")
            _check_nodes(tree, categorical.astype(bool))


def _check_nodes(tree: Any, categorical: np.ndarray) -> None:
    nodes, bitsets = tree.nodes, tree.raw_left_cat_bitsets
    _require(nodes.ndim == 1 and len(nodes), "a tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    for side in ("left", "right"):
        child = nodes[side][inner].astype(np.int64)
        # Children come after their parent, or a walk from the root might never end.
        _require(((child > inner) & (child < len(nodes))).all(), "a child is not a later node")
    feature = nodes["feature_idx"][inner]
    _require(((feature >= 0) & (feature < len(categorical))).all(), "a split is on a column beyond those of X")
    _require(bitsets.ndim == 2 and bitsets.shape[1] == BITSET_WORDS, "its sets of categories have another shape")
    by_category = nodes["is_categorical"][inner] != 0
    _require(categorical[feature[by_category]].all(), "a split by category is on a column of numbers")
    _require((nodes["bitset_idx"][inner][by_category] < len(bitsets)).all(), "a set of categories does not exist")


def _check_encoder(encoder: Any, columns: int) -> None:
    """Check that the encoder of the categories keeps the number of columns: nobody looks at them behind it."""
    problem = "its encoder of categories is of another kind"
    _require(isinstance(encoder, ColumnTransformer), problem)
    (first, categories, _), (second, numbers, _), *rest = encoder.transformers_
    _require((first, second, encoder.n_features_in_) == ("encoder", "numerical", columns), problem)
    _require(all(transformer == "drop" for _, transformer, _ in rest), problem)
    selection = [np.atleast_1d(encoder._transformer_to_input_indices[name]) for name in (first, second)]
    _require(np.array_equal(np.sort(np.concatenate(selection)), np.arange(columns)), problem)
    _require(isinstance(categories, OrdinalEncoder | str) and isinstance(numbers, FunctionTransformer | str), problem)
    _require(categories not in ("drop",) and (numbers != "drop" or len(selection[1]) == 0), problem)
    if isinstance(numbers, FunctionTransformer):
        function = numbers.func
        _require(isinstance(function, functools.partial) and function.func is check_array, problem)


def _require(condition: object, rule: str) -> None:
    if not condition:
        raise ValueError(f"histogram boosting: {rule}")
