"""What an attack on in-processing found, and must not find again."""

import sys
import warnings
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor, StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

from optfair import ModelFileError, OptFairIn, OptFairInPost, OptFairPost, OptFairWarning, Rows, load_model
from optfair.inprocessing.checkpoint import _text
from optfair.inprocessing.learners import _is_part_of

pytestmark = pytest.mark.filterwarnings("ignore:tolerance. training ended outside", "ignore:estimator. remembers")


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    X = rng.standard_normal((n, 3)) + np.outer(sex == "m", [1.0, 0, 0])
    return X, np.digitize(X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(n), [0.0, 1.0]), sex


X, Y, SEX = people()


def quick(estimator=None, **options):
    estimator = LogisticRegression() if estimator is None else estimator
    return OptFairIn(estimator, **{"rounds": 3, "random_state": 0, "tolerance": 0.05} | options)


def fit(model, X=X, y=Y, sex=SEX):
    return model.fit(X, y, sensitive_features=sex)


# -- learning -----------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_of_scikit_learn_are_trained_in_every_round():
    """With warm_start they remember that they have converged, and stop after one pass."""
    net = MLPClassifier((8,), max_iter=60, learning_rate_init=0.02)
    model = fit(quick(net, tolerance=0.0, rounds=12, start="zero", max_multiplier=3.0))
    assert min(member.n_iter_ for member in model.mixture_.members) > 5
    assert model.history_["violation"].iloc[-4:].mean() < 0.5 * model.history_["violation"].iloc[0]


def test_early_stopping_by_size_counts_people_not_copies():
    base = HistGradientBoostingClassifier(max_iter=3)
    n = 6_000
    X, y, sex = people(n)
    model = fit(quick(base, start="zero", max_multiplier=2.0, rounds=2), X, y, sex)
    assert not any(member.do_early_stopping_ for member in model.mixture_.members)
    X, y, sex = people(10_500)
    with pytest.warns(OptFairWarning, match="copies of each row, which count as rows in early_stopping='auto'"):
        fit(quick(base, start="zero", max_multiplier=2.0, rounds=1), X, y, sex)


def test_votes_are_counted_on_what_members_will_see():
    """TargetEncoder gives other numbers in fit_transform (out of fold) than in transform."""
    table = pd.DataFrame({"town": np.random.default_rng(1).integers(0, 40, len(Y)).astype(str), "x": X[:, 0]})
    pipeline = make_pipeline(TargetEncoder(), LogisticRegression())
    model = fit(quick(pipeline, start="zero", max_multiplier=2.0), table)
    h = model.predict_proba(table)
    assert model.training_.accuracy == pytest.approx(h[np.arange(len(Y)), Y].mean(), abs=1e-12)


def test_the_game_is_the_same_in_other_units():
    plain = fit(quick(step=0.1, max_multiplier=3.0, rounds=6, start="zero"))
    costs = fit(quick(step=1.0, max_multiplier=30.0, rounds=6, start="zero", costs=10 * (1 - np.eye(3))))
    np.testing.assert_allclose(costs.trace_.multipliers, plain.trace_.multipliers, atol=1e-12)
    np.testing.assert_allclose(costs.multipliers_["multiplier"], 10 * plain.multipliers_["multiplier"], atol=1e-12)
    for column in ("norm", "lagrangian", "step"):
        np.testing.assert_allclose(costs.history_[column], 10 * plain.history_[column], atol=1e-9)
    assert costs.training_.cap == pytest.approx(30) and costs.training_.norm == pytest.approx(10 * plain.training_.norm)
    assert "in units of costs" in str(costs.report()) and "accuracy gained" in str(plain.report())


def test_steps_know_the_size_of_rows_of_ones_own():
    D = sparse.random_array((2, 2 * 3 * 3), density=0.5, random_state=0).tocsr() * 1000
    model = quick(criterion=Rows(D, lower=[-5, -5], upper=[5, 5]), tolerance=0.01, rounds=4, max_multiplier=2.0)
    fit(model.set_params(start="zero"))
    assert model.trace_.steps[0] == pytest.approx(2.0 / ((abs(D).max() + 5) * np.sqrt(2 * 4)))


def test_mixtures_by_a_program_sum_to_one_and_pay_no_more_than_the_bound():
    model = fit(quick(mixture="lp", rounds=12, tolerance=0.01, start="zero", max_multiplier=2.0))
    assert model.mixture_.weights.sum() == pytest.approx(1, abs=1e-15)
    game, trace = model.game_, model.trace_

    def worth(w):  # min over multipliers of the Lagrangian
        J = np.tensordot(w, trace.confusions, axes=1)
        return (game.utility * J).sum() - game.cap * game.rows.excess(game.values(J))

    weights = np.random.default_rng(0).dirichlet(np.full(len(trace), 0.3), 300)
    best = max(worth(w) for w in [*weights, *np.eye(len(trace))])
    J_lp = model.training_.accuracy - game.cap * model.training_.excess
    assert best <= J_lp + 1e-9


# -- what is refused ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("estimator", [LinearRegression(), RandomForestRegressor(), StandardScaler()])
def test_what_is_not_a_classifier(estimator):
    with pytest.raises(ValueError, match="must be a classifier, not fitted, or a Pipeline that ends in one"):
        fit(quick(estimator))


def test_fitted_models_and_weights_by_class():
    with pytest.raises(ValueError, match="is a fitted model, frozen, and would have to be trained; use OptFairPost"):
        fit(quick(FrozenEstimator(LogisticRegression().fit(X, Y))))
    with pytest.raises(ValueError, match="class_weight by class is not possible"):
        fit(quick(LogisticRegression(class_weight={0: 1, 1: 2, 2: 3})))


@pytest.mark.parametrize("share", [1e-6, 0.999, 0.9999999])
def test_too_few_to_hold_out(share):
    with pytest.raises(ValueError, match=r"held_out=.*there are too few of them to hold some out"):
        fit(quick(held_out=share))


def test_a_rule_about_something_else_to_start_from():
    post = OptFairPost(cv=2, criterion="eo", tolerance=0.01, random_state=0).fit(X, Y, sensitive_features=SEX)
    with pytest.warns(OptFairWarning, match="start: the rule has no multiplier for any of these constraints"):
        fit(quick(start=post))


def test_warnings_point_at_the_caller():
    with pytest.warns(OptFairWarning) as caught:
        quick(rounds=1, start="zero", max_multiplier=1.0, tolerance=0.0).fit(X, Y, sensitive_features=SEX)
        OptFairPost(cv=2, random_state=0).fit(X, Y, sensitive_features=["one"] * len(Y))
    assert {warning.filename for warning in caught} == {__file__}


# -- files --------------------------------------------------------------------------------------------------
def test_the_key_of_a_rule_to_start_from_is_not_in_the_file(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    post = OptFairPost(cv=2, tolerance=0.05, random_state=None).fit(X, Y, sensitive_features=SEX)
    for start in (post, post.rule_):
        model = fit(quick(start=start))
        model.save(tmp_path / "m.skops")
        assert post.rule_.key not in (tmp_path / "m.skops").read_bytes()
        np.testing.assert_array_equal(load_model(tmp_path / "m.skops").predict(X), model.predict(X))
        assert model.start is start  # what was given is left as it is


def test_a_checkpoint_does_not_choose_what_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "package_of_mine", ModuleType("package_of_mine"))
    assert not _is_part_of(LogisticRegression(), "sklearn.no_such_module_yet.Thing")
    assert "sklearn.no_such_module_yet" not in sys.modules
    name = "sklearn.experimental.enable_halving_search_cv"
    sys.modules.pop(name, None)
    assert not _is_part_of(LogisticRegression(), f"{name}.HalvingGridSearchCV") and name not in sys.modules


def test_a_checkpoint_knows_constraints_columns_and_functions(tmp_path):
    pytest.importorskip("skops", reason="models are kept by skops")

    def refuses(first, second, X_first=X, X_second=X):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.checkpoint"
        fit(first.set_params(checkpoint=path), X_first)
        with pytest.raises(ModelFileError, match="belongs to a run with other data or settings"):
            fit(second.set_params(checkpoint=path), X_second)

    D, E = (sparse.csr_array(np.full((1, 18), 0.01 * k)) for k in (1, 2))
    refuses(*(quick(criterion=Rows(d, lower=[-1], upper=[1]), tolerance=0.01) for d in (D, E)))
    refuses(quick(), quick(), pd.DataFrame(X, columns=["a", "b", "c"]), pd.DataFrame(X, columns=["a", "b", "d"]))
    sources = [lambda X: X[:, 0] > 0, lambda X: X[:, 0] > 1]
    path = tmp_path / "functions.checkpoint"
    quick(sensitive_features=sources[0], checkpoint=path).fit(X, Y)
    with pytest.raises(ModelFileError, match="belongs to a run"):
        quick(sensitive_features=sources[1], checkpoint=path).fit(X, Y)


class Stop(Exception):
    pass


class Three(LogisticRegression):
    """Fails at its sixth fit."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        Three.fits += 1
        if Three.fits == 6:
            raise Stop
        return super().fit(X, y, sample_weight)


def power(k):
    return lambda X: np.column_stack([X[:, 0] ** j for j in range(k)])


def test_functions_are_known_by_what_they_do():
    """Nested code and closures count; names, addresses, paths and orders of sets do not."""
    assert _text(power(2)) != _text(power(3))
    assert _text(power(2)) == _text(power(2))
    namespace = {}
    exec(compile("def f(v):\n    return [v + 1 for _ in range(3)]", "/one/place.py", "exec"), namespace)
    here = namespace["f"]
    exec(compile("\n\n\ndef f(v):\n    return [v + 1 for _ in range(3)]", "/another/place.py", "exec"), namespace)
    there = namespace["f"]
    exec(compile("def f(v):\n    return [v + 2 for _ in range(3)]", "/one/place.py", "exec"), namespace)
    assert _text(here) == _text(there) != _text(namespace["f"])
    words = [f"word {k}" for k in range(50)]
    assert _text(set(words)) == _text(set(reversed(words)))
    objects = [np.array(list("".join(words)), dtype=object) for _ in range(2)]
    assert _text(objects[0]) == _text(objects[1]) != _text(objects[0][::-1])


def test_a_checkpoint_of_many_rows_is_small(tmp_path):
    """The matrix of the constraints stays sparse: EO of 12 groups and 10 classes has 1,200 rows and columns."""
    pytest.importorskip("skops", reason="models are kept by skops")
    rng = np.random.default_rng(0)
    n = 2_400
    y, group = np.arange(n) % 10, np.arange(n) // 10 % 12
    model = quick(criterion="eo", rounds=1, start="zero", max_multiplier=1.0, checkpoint=tmp_path / "wide.checkpoint")
    model.fit(rng.standard_normal((n, 2)), y, sensitive_features=group)
    assert len(model.game_.rows) == 1_200


def test_data_sets_drawn_anew_go_on(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return len(Y)

        def __getitem__(self, i):
            return torch.from_numpy(X[i].astype(np.float32)) + 0.1 * torch.randn(3), int(Y[i]), str(SEX[i])

    options = {"start": "zero", "max_multiplier": 2.0, "checkpoint": tmp_path / "noisy.checkpoint"}
    models = [quick(TorchClassifier(epochs=1), **options).fit(Noisy()) for _ in range(2)]
    np.testing.assert_array_equal(models[0].trace_.multipliers, models[1].trace_.multipliers)
    assert models[1].n_fits_ == 0


class Duck:
    """A classifier that inherits nothing."""

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self

    def fit(self, X, y, sample_weight=None):
        self.model_ = LogisticRegression().fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.mark.filterwarnings("ignore:estimator. StackingClassifier is fitted to up to 3 weighted copies")
def test_whatever_classifies_will_do():
    assert fit(quick(Duck())).predict(X).shape == Y.shape
    stack = StackingClassifier([("one", LogisticRegression())], cv=2)  # has predict once it is fitted
    assert fit(quick(stack, without_weights="resample", rounds=1)).predict(X).shape == Y.shape


def test_a_failed_fit_never_leaves_a_gap():
    model = fit(quick())
    before = dict(model.__dict__)
    with pytest.raises(ValueError):
        model.fit(X[:, :2], Y[:10], sensitive_features=SEX)
    assert model.__dict__ == before and model.n_features_in_ == 3
    assert model.predict(X).shape == Y.shape


def test_too_few_to_hold_out_in_then_post():
    for share in (1e-6, 0.995):
        with pytest.raises(ValueError, match=r"held_out=.*there are too few of them to hold some out"):
            OptFairInPost(quick(), held_out=share).fit(X, Y, sensitive_features=SEX)


def test_a_run_with_a_generator_goes_on_with_what_it_drew(tmp_path):
    pytest.importorskip("skops", reason="models are kept by skops")
    options = {"held_out": 0.25, "rounds": 6}
    whole = fit(quick(**options, random_state=np.random.default_rng(3)))

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stop):
        fit(quick(Three(), **options, random_state=np.random.default_rng(3), checkpoint=path))
    again = fit(quick(Three(), **options, random_state=np.random.default_rng(99), checkpoint=path))
    np.testing.assert_array_equal(again.trace_.multipliers, whole.trace_.multipliers)


def test_columns_of_text_in_then_post():
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "town": np.where(X[:, 2] > 0, "east", "west")})
    encoder = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OptFairInPost(OptFairIn(encoder, rounds=2, start="zero"), threshold=0.5, random_state=0)
        model.fit(table, Y, sensitive_features=SEX)
    assert model.predict(table).shape == Y.shape


# -- networks -----------------------------------------------------------------------------------------------
def test_a_module_that_a_factory_builds_around_is_left_alone():
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    backbone = torch.nn.Linear(3, 4)
    before = backbone.weight.detach().clone()

    def head(shape, n_outputs):
        return torch.nn.Sequential(backbone, torch.nn.ReLU(), torch.nn.Linear(4, n_outputs))

    one, two = (TorchClassifier(head, epochs=2, random_state=0).fit(X, Y) for _ in range(2))
    assert torch.equal(backbone.weight, before)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    with pytest.raises(ValueError, match=r"module=Linear\(...\): is a module; must be a function"):
        TorchClassifier(torch.nn.Linear(3, 3)).fit(X, Y)
    with pytest.raises(ValueError, match=r"must be callable as \(input_shape, n_outputs\)"):
        TorchClassifier(lambda shape: backbone).fit(X, Y)


def test_data_sets_of_every_form():
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    class Items(torch.utils.data.Dataset):
        def __init__(self, shape, kind):
            self.shape_, self.kind = shape, kind

        def __len__(self):
            return len(Y)

        def __getitem__(self, i):
            x = torch.from_numpy(np.append(X[i], 1.0).astype(np.float32).reshape(self.shape_))
            return self.kind((x, int(Y[i]), str(SEX[i])))

    flat, square, lists = Items((4,), tuple), Items((2, 2), tuple), Items((4,), list)
    options = {"rounds": 2, "start": "zero", "max_multiplier": 2.0}
    answers = [
        quick(TorchClassifier("linear", epochs=1), **options).fit(d).predict_proba(d) for d in (flat, square, lists)
    ]
    np.testing.assert_allclose(answers[1], answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])
    named = quick(TorchClassifier("linear", epochs=1), sensitive_features=lambda d: SEX, **options).fit(flat)
    np.testing.assert_array_equal(named.predict_proba(flat), answers[0])
    assert "fair model" in str(named.report(flat, Y))
    with pytest.raises(ValueError, match="X: is a torch data set, which LogisticRegression cannot read"):
        quick(**options).fit(flat)
    with pytest.raises(ValueError, match="estimator=None: cannot read a torch data set"):
        OptFairIn(**options).fit(flat)
    with pytest.raises(ValueError, match="X: is a DataLoader; give the data set it reads"):
        quick(TorchClassifier(), **options).fit(torch.utils.data.DataLoader(flat))


def test_a_deterministic_network_is_trained_as_long_as_the_first(monkeypatch):
    pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    net = TorchClassifier("linear", epochs=7, batch_size=100)
    model = fit(quick(net, output="deterministic", start="zero", max_multiplier=2.0))
    assert model.mixture_.members[0].n_iter_ == 7


def test_weights_of_any_size_train_a_network():
    pytest.importorskip("torch", reason="needs the extra torch")
    from optfair.nn import TorchClassifier

    plain = TorchClassifier("linear", epochs=2, random_state=0).fit(X, Y, sample_weight=np.ones(len(Y)))
    huge = TorchClassifier("linear", epochs=2, random_state=0).fit(X, Y, sample_weight=np.full(len(Y), 1e306))
    np.testing.assert_array_equal(huge.predict_proba(X), plain.predict_proba(X))
