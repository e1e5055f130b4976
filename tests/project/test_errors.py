"""Errors that carry what a caller needs, so that nobody looks for words in their messages."""

import copy
import pickle

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from optfair import Constraint, ModelFileError, OptFairPost, load_model
from optfair.baselines import LinearPost
from optfair.datasets import make_fair_classification
from optfair.errors import NotLinearError, UntrustedTypesError


def test_predictive_values_are_not_linear():
    with pytest.raises(NotLinearError, match="criterion='ppv': predictive values divide"):
        Constraint("ppv")
    with pytest.raises(ValueError, match="unknown") as error:
        Constraint("fair")
    assert not isinstance(error.value, NotLinearError)


def test_baselines_say_why_predictive_values_cannot_be_constrained():
    data = make_fair_classification(60, random_state=0)
    method = LinearPost(LogisticRegression(), criterion="precision")
    with pytest.raises(NotLinearError, match="not linear in the confusion tensor"):
        method.fit(data.X, data.y, sensitive_features=data.sensitive_features)


def test_untrusted_types_are_listed(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    data = make_fair_classification(200, random_state=0)
    model = OptFairPost(DecisionTreeClassifier(max_depth=2, random_state=0), cv=2, random_state=0)
    model.fit(data.X, data.y, sensitive_features=data.sensitive_features).save(tmp_path / "m.skops")
    with pytest.raises(UntrustedTypesError) as error:
        load_model(tmp_path / "m.skops")
    assert isinstance(error.value, ModelFileError) and error.value.types == ["sklearn.tree._tree.Tree"]
    load_model(tmp_path / "m.skops", trusted=error.value.types)


@pytest.mark.parametrize("duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_can_be_sent_to_another_process(duplicate):
    error = UntrustedTypesError("m.skops", ["a.B", "c.D"])
    assert (str(duplicate(error)), duplicate(error).types) == (str(error), ["a.B", "c.D"])
