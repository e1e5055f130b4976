"""Check that sound models of all kinds pass, and that arrays which point outside of themselves do not."""

import functools

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest
from sklearn.neighbors import BallTree, KDTree, KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC
from sklearn.tree import DecisionTreeClassifier

from optfair.utils.loaded_models import check_model

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)), np.arange(90) % 3
SPARSE = sparse.csr_array(X * (X > 0))
SOUND = {
    "best-first tree": lambda: DecisionTreeClassifier(max_leaf_nodes=7).fit(X, Y),
    "pruned tree": lambda: DecisionTreeClassifier(ccp_alpha=0.01).fit(X, Y),
    "stump": lambda: DecisionTreeClassifier(max_depth=1).fit(X, np.zeros(90)),
    "forest": lambda: ExtraTreesClassifier(3).fit(X, Y),
    "isolation": lambda: IsolationForest(n_estimators=3).fit(X),
    "isolation of columns": lambda: IsolationForest(n_estimators=3, max_features=2).fit(X),
    "k-d tree": lambda: KNeighborsClassifier(algorithm="kd_tree").fit(X, Y),
    "ball tree": lambda: KNeighborsClassifier(
        algorithm="ball_tree", metric="seuclidean", metric_params={"V": np.ones(4)}
    ).fit(X, Y),
    "two columns": lambda: BallTree(X[:, :2], metric="haversine"),
    "one row": lambda: KDTree(X[:1]),
    "radius": lambda: RadiusNeighborsClassifier(algorithm="brute").fit(X, Y),
    "several outputs": lambda: KNeighborsClassifier().fit(X, np.c_[Y, Y]),
    "support": lambda: SVC().fit(X, Y),
    "sparse support": lambda: NuSVC(nu=0.2).fit(SPARSE, Y),
    "kernel": lambda: SVC(kernel="precomputed").fit(X @ X.T, Y),
    "regression": lambda: SVR().fit(X, Y),
    "centres": lambda: KMeans(3, n_init=1, random_state=0).fit(X),
    "not fitted": lambda: [DecisionTreeClassifier(), SVC(), KNeighborsClassifier(), KMeans(), ExtraTreesClassifier()],
    "matrices": lambda: [SPARSE, SPARSE.tocsc(), SPARSE.tocoo(), sparse.bsr_array(X, blocksize=(3, 2)), SPARSE.tolil()],
    "random numbers": lambda: [
        np.random.RandomState(0),
        np.random.default_rng(0),
        np.random.Generator(np.random.MT19937(0)),
    ],
}


@pytest.mark.parametrize("kind", SOUND)
def test_sound_models_pass(kind):
    check_model(SOUND[kind]())


def forged_space_tree(kind, position, change):
    """Return a tree of points with a part of its state changed."""
    tree = kind(X, leaf_size=5)
    state = list(tree.__getstate__())
    state[position] = change(state[position])
    tree.__setstate__(tuple(state))
    return tree


def with_first(values, value, field=None):
    """Return a copy of an array with another first value."""
    values = np.array(values)
    (values if field is None else values[field])[0] = value
    return values


def forged(estimator, **attributes):
    """Return an estimator with other attributes: functions of the old ones."""
    for name, change in attributes.items():
        vars(estimator)[name] = change(getattr(estimator, name))
    return estimator


def forged_matrix(matrix, part, change):
    setattr(matrix, part, change(getattr(matrix, part)))
    return matrix


def forged_random():
    state = np.random.RandomState(0)
    content = state.get_state(legacy=False)
    content["state"]["pos"] = 10**6
    state.set_state(content)
    return state


def forged_count():
    tree = DecisionTreeClassifier(max_depth=2).fit(X, Y).tree_
    tree.__setstate__(tree.__getstate__() | {"node_count": 10**6})
    return tree


FORGED = {
    "a count of nodes": (forged_count, "Tree: counts more nodes than it has"),
    "no tree": (lambda: forged(DecisionTreeClassifier().fit(X, Y), tree_=lambda old: 1), "tree_ is not a tree"),
    "other trees": (lambda: forged(ExtraTreesClassifier(2).fit(X, Y), estimators_=lambda old: [1]), "else than trees"),
    "isolation": (
        lambda: forged(IsolationForest(n_estimators=2).fit(X), estimators_=lambda old: old[:1]),
        "other trees than choices",
    ),
    "order": (lambda: forged_space_tree(KDTree, 1, lambda old: with_first(old, 10**9)), "an index is beyond the rows"),
    "range": (
        lambda: forged_space_tree(BallTree, 2, lambda old: with_first(old, 10**9, "idx_end")),
        "a node is beyond the rows",
    ),
    "leaves": (
        lambda: forged_space_tree(KDTree, 2, lambda old: np.array([(*n.tolist()[:2], 0, 1.0) for n in old], old.dtype)),
        "of the last level is no leaf",
    ),
    "count": (lambda: forged_space_tree(KDTree, 6, lambda old: 10**6), "counts other nodes"),
    "bounds": (lambda: forged_space_tree(KDTree, 3, lambda old: old[:1]), "its bounds have another shape"),
    "metric": (
        lambda: forged_space_tree(
            BallTree, 11, lambda old: BallTree(X[:, :2], metric="seuclidean", V=np.ones(2)).__getstate__()[11]
        ),
        "its metric is for other columns",
    ),
    "haversine": (
        lambda: forged_space_tree(BallTree, 11, lambda old: BallTree(X[:, :2], metric="haversine").__getstate__()[11]),
        "its metric is for two columns",
    ),
    "weights": (lambda: forged_space_tree(KDTree, 12, lambda old: np.ones(3)), "has other weights than rows"),
    "labels": (lambda: forged(KNeighborsClassifier().fit(X, Y), _y=lambda old: old[:5]), "other labels than rows"),
    "label": (lambda: forged(KNeighborsClassifier().fit(X, Y), _y=lambda old: old - 1), "label is beyond the classes"),
    "rows": (
        lambda: forged(KNeighborsClassifier().fit(X, Y), _fit_X=lambda old: old[:, :2]),
        "rows have other columns",
    ),
    "support counts": (lambda: forged(SVC().fit(X, Y), _n_support=lambda old: old * 100), "than it counts"),
    "negative counts": (
        lambda: forged(SVC().fit(X, Y), _n_support=lambda old: old * np.array([-1, 1, 1], np.int32)),
        "wrong counts of support vectors",
    ),
    "support vectors": (lambda: forged(SVC().fit(X, Y), support_vectors_=lambda old: old[:, :1]), "another shape"),
    "coefficients": (lambda: forged(SVC().fit(X, Y), _dual_coef_=lambda old: old[:1]), "other coefficients"),
    "intercepts": (lambda: forged(SVC().fit(X, Y), _intercept_=lambda old: old[:1]), "other intercepts"),
    "probabilities": (lambda: forged(SVC().fit(X, Y), _probA=lambda old: np.ones(1)), "other probabilities than pairs"),
    "machine": (lambda: forged(SVC().fit(X, Y), _impl=lambda old: "epsilon_svr"), "which kind of machine"),
    "kernel": (
        lambda: forged(SVC(kernel="precomputed").fit(X @ X.T, Y), support_=lambda old: old + 1000),
        "a support vector is beyond the rows",
    ),
    "centres": (
        lambda: forged(KMeans(2, n_init=1).fit(X), cluster_centers_=lambda old: old[:, :1]),
        "centres have other columns",
    ),
    "indices": (lambda: forged_matrix(SPARSE.copy(), "indices", lambda old: old + 9), "an index is beyond its shape"),
    "row ends": (lambda: forged_matrix(SPARSE.copy(), "indptr", lambda old: -old), "has wrong row ends"),
    "entries": (lambda: forged_matrix(SPARSE.copy(), "data", lambda old: old[:3]), "fewer entries than its row ends"),
    "coordinates": (
        lambda: forged_matrix(SPARSE.tocoo(), "coords", lambda old: (old[0], old[1] + 9)),
        "an index is beyond its shape",
    ),
    "coordinate": (
        lambda: forged_matrix(SPARSE.tocoo(), "coords", lambda old: (old[0], old[1][:3])),
        "other indices than entries",
    ),
    "random numbers": (forged_random, "its position is beyond its state"),
    "a method": (lambda: forged(SVC().fit(X, Y), predict=lambda old: np.negative), "in place of its method"),
    "nothing": (lambda: forged(SVC().fit(X, Y), support_=lambda old: None), "a part is missing or of another kind"),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_arrays_are_refused(kind):
    make, words = FORGED[kind]
    with pytest.raises(ValueError, match=words):
        check_model(make())


def test_parts_are_found_wherever_they_are():
    """Inside of tables, pipelines, functions with arguments, methods, and objects that hold each other."""
    bad, _ = forged_count(), None
    holder = StandardScaler()
    holder.itself, holder.part = holder, bad
    table = np.empty(2, dtype=object)
    table[1] = {"deep": (bad,)}
    places = [
        table,
        {bad: 1},
        make_pipeline(FunctionTransformer(functools.partial(print, part=[bad]))),
        holder,
        holder.fit,
    ]
    for place in places:
        with pytest.raises(ValueError, match="counts more nodes"):
            check_model(place)
