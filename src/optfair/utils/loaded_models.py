"""Check the arrays of a model that comes from a file, before compiled code takes them at their word.

The loops of scikit-learn and libsvm that run at prediction read memory at the indices that a fitted model holds, and do
not look whether they are inside: a child of a tree, a feature, a support vector, a neighbour. In a model that was
fitted here they are; in a file they may be anything.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster._kmeans import _BaseKMeans
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.neighbors import BallTree, KDTree
from sklearn.neighbors._base import NeighborsBase
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from optfair.utils.boosting_arrays import BOOSTING, check_boosting

LEAF = -1  # what a tree of scikit-learn has in place of the children of a leaf
TWISTER_WORDS = 624  # of the state of a Mersenne twister, beyond which its position must not be


def check_model(root: object) -> None:
    """Raise ValueError if an object anywhere inside ``root`` has arrays that compiled code must not be given."""
    for part in _parts(root):
        if isinstance(part, BaseEstimator):
            hidden = [name for name in vars(part) if callable(getattr(type(part), name, None))]
            _require(not hidden, part, f"has an attribute in place of its method {hidden[:1]}")
        for kind, check in CHECKS:
            if isinstance(part, kind):
                try:
                    check(part)
                except (AttributeError, IndexError, KeyError, TypeError) as error:
                    raise ValueError(f"{type(part).__name__}: a part is missing or of another kind ({error})") from None


def _parts(root: object) -> Iterator[Any]:
    """Yield every object inside ``root`` once."""
    waiting, visits = [root], {}
    while waiting:
        part = waiting.pop()
        if id(part) in visits or isinstance(part, str | bytes | int | float | type | None):
            continue
        visits[id(part)] = part  # kept, so that no other object gets its id
        yield part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype == object else []
        elif isinstance(part, functools.partial):
            waiting += [part.func, part.args, part.keywords]
        elif isinstance(part, MethodType):
            waiting.append(part.__self__)
        elif isinstance(getattr(part, "__dict__", None), dict):
            waiting.append(vars(part))


def _require(condition: object, part: object, rule: str) -> None:
    if not condition:
        raise ValueError(f"{type(part).__name__}: {rule}")


def _inside(indices: Any, size: int) -> bool:
    """Tell whether all indices are in 0..size−1."""
    return bool(len(indices) == 0 or (np.min(indices) >= 0 and np.max(indices) < size))


def _n_columns(part: Any) -> int:
    """Return the columns that the estimator asks of X, which it compares with those it is given."""
    columns = vars(part)["n_features_in_"]
    _require(isinstance(columns, int | np.integer), part, "n_features_in_ is not an integer")
    return int(columns)


# -- trees -----------------------------------------------------------------------------------------------------
def _check_tree(tree: Any) -> None:
    _require(0 < tree.node_count <= tree.capacity, tree, "counts more nodes than it has")
    nodes = tree.__getstate__()["nodes"]
    inner = np.flatnonzero(nodes["left_child"] != LEAF)
    for side in ("left_child", "right_child"):
        child = nodes[side][inner]
        # Children come after their parent, or a walk from the root might never end.
        _require(_inside(child, tree.node_count) and (child > inner).all(), tree, "a child is not a later node")
    _require(_inside(nodes["feature"][inner], tree.n_features), tree, "a split is on a column beyond those of X")


def _check_tree_columns(part: Any) -> None:
    _require(isinstance(part.tree_, Tree), part, "tree_ is not a tree")
    _require(part.tree_.n_features == _n_columns(part), part, "its tree has other columns")


def _check_trees(part: Any, trees: Any, columns: int) -> None:
    """Check trees that are given X without a look at its columns."""
    for tree in trees:
        _require(isinstance(tree, BaseDecisionTree), part, "holds something else than trees")
        _require(_n_columns(tree) == columns, part, "its trees have other columns")


def _check_forest(part: Any) -> None:
    _check_trees(part, part.estimators_, _n_columns(part))


def _check_isolation(part: Any) -> None:
    columns = _n_columns(part)
    _require(len(part.estimators_) == len(part.estimators_features_), part, "has other trees than choices of columns")
    for tree, selection in zip(part.estimators_, part.estimators_features_, strict=True):
        _check_trees(part, [tree], columns if part._max_features == columns else len(selection))


def _check_stages(part: Any) -> None:
    trees = part.estimators_
    _require(isinstance(trees, np.ndarray) and trees.ndim == 2 and trees.size, part, "its trees are not a table")
    _require(trees.shape[1] == part.n_trees_per_iteration_, part, "has other trees per stage than outputs")
    _check_trees(part, trees.ravel(), _n_columns(part))


# -- neighbours, support vectors, centres ------------------------------------------------------------------------
def _check_space_tree(tree: Any) -> None:
    data, order, nodes, bounds, _, levels, size, *_, metric, weights = tree.__getstate__()
    (n, d), kinds = data.shape, (2 if isinstance(tree, KDTree) else 1)
    _require(size == len(nodes) > 0 and size == 2**levels - 1, tree, "counts other nodes than it has")
    _require(bounds.shape == (kinds, size, d), tree, "its bounds have another shape than its nodes")
    _require(order.shape == (n,) and _inside(order, n), tree, "an index is beyond the rows")
    _require(weights is None or len(weights) == n, tree, "has other weights than rows")
    first, last = nodes["idx_start"], nodes["idx_end"]
    _require(
        _inside(first, n + 1) and _inside(last, n + 1) and (first <= last).all(), tree, "a node is beyond the rows"
    )
    _require(nodes["is_leaf"][size // 2 :].all(), tree, "a node of the last level is no leaf")
    _, vector, matrix, *_ = metric.__getstate__()
    _require(len(vector) in (1, d) and matrix.shape in ((1, 1), (d, d)), tree, "its metric is for other columns")
    _require("Haversine" not in type(metric).__name__ or d == 2, tree, "its metric is for two columns")


def _check_neighbours(part: Any) -> None:
    rows = getattr(part, "_fit_X", None)
    if rows is None:
        return
    n = rows.shape[0]
    _require(n > 0 and rows.shape[1:] == (_n_columns(part),), part, "its rows have other columns")
    codes = getattr(part, "_y", None)
    if codes is not None:
        _require(len(codes) == n, part, "has other labels than rows")
    if codes is not None and hasattr(part, "classes_") and codes.ndim == 1:
        _require(_inside(codes, len(part.classes_)), part, "a label is beyond the classes")


def _check_support(part: Any) -> None:
    _require("_impl" not in vars(part), part, "says itself which kind of machine it is")
    counts, vectors, support = part._n_support, part.support_vectors_, part.support_
    is_classifier = type(part)._impl in ("c_svc", "nu_svc")
    machines = len(counts) if is_classifier else 2
    n = int(np.sum(counts)) if is_classifier else int(counts[0])
    pairs = machines * (machines - 1) // 2
    _require(len(counts) == machines >= 2 and (counts >= 0).all(), part, "has wrong counts of support vectors")
    own_kernel = part.kernel == "precomputed" or callable(part.kernel)
    _require(len(support) == n, part, "has other support vectors than it counts")
    if own_kernel:
        _require(_inside(support, int(part.shape_fit_[0])), part, "a support vector is beyond the rows")
    if not own_kernel or part._sparse:
        shape = (n, vectors.shape[1] if own_kernel else _n_columns(part))
        _require(vectors.shape == shape, part, "its support vectors have another shape")
    coefficients = part._dual_coef_.data if part._sparse else part._dual_coef_
    _require(np.size(coefficients) == (machines - 1) * n, part, "has other coefficients than support vectors")
    _require(len(part._intercept_) == pairs, part, "has other intercepts than pairs of classes")
    for numbers in (part._probA, part._probB):
        _require(len(numbers) in (0, pairs), part, "has other probabilities than pairs of classes")


def _check_centres(part: Any) -> None:
    _require(part.cluster_centers_.shape[1:] == (_n_columns(part),), part, "its centres have other columns")


# -- matrices and random numbers -----------------------------------------------------------------------------------
def _check_sparse(part: Any) -> None:
    if part.format in ("csr", "csc", "bsr"):
        block = part.blocksize if part.format == "bsr" else (1, 1)
        major, minor = (size // step for size, step in zip(part.shape, block, strict=True))
        major, minor = (minor, major) if part.format == "csc" else (major, minor)
        ends = part.indptr
        _require(len(ends) == major + 1 and ends[0] == 0 and (np.diff(ends) >= 0).all(), part, "has wrong row ends")
        _require(ends[-1] <= min(len(part.indices), len(part.data)), part, "has fewer entries than its row ends say")
        _require(_inside(part.indices[: ends[-1]], minor), part, "an index is beyond its shape")
    elif part.format == "coo":
        indices = part.coords
        _require(all(len(index) == len(part.data) for index in indices), part, "has other indices than entries")
        _require(all(map(_inside, indices, part.shape)), part, "an index is beyond its shape")


def _check_random(part: Any) -> None:
    is_old = isinstance(part, np.random.RandomState)
    state = part.get_state(legacy=False) if is_old else part.bit_generator.state
    if state["bit_generator"] == "MT19937":
        _require(0 <= state["state"]["pos"] <= TWISTER_WORDS, part, "its position is beyond its state")


def _when_fitted(check: Callable[[Any], None], attribute: str) -> Callable[[Any], None]:
    """Return the check for estimators that may not be fitted: those in parameters."""
    return lambda part: check(part) if attribute in vars(part) else None


CHECKS: tuple[tuple[Any, Callable[[Any], None]], ...] = (
    (Tree, _check_tree),
    (BaseDecisionTree, _when_fitted(_check_tree_columns, "tree_")),
    (BaseForest, _when_fitted(_check_forest, "estimators_")),
    (IsolationForest, _when_fitted(_check_isolation, "estimators_")),
    (BaseGradientBoosting, _when_fitted(_check_stages, "estimators_")),
    (BOOSTING, _when_fitted(check_boosting, "_predictors")),
    ((KDTree, BallTree), _check_space_tree),
    (NeighborsBase, _check_neighbours),
    (BaseLibSVM, _when_fitted(_check_support, "support_vectors_")),
    (_BaseKMeans, _when_fitted(_check_centres, "cluster_centers_")),
    ((sparse.spmatrix, sparse.sparray), _check_sparse),
    ((np.random.RandomState, np.random.Generator), _check_random),
)
