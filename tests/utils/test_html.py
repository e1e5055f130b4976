"""Check what notebooks show: the numbers of the result, and names that stay names."""

from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn

import optfair
from optfair import OptFairIn, OptFairPost, metrics
from optfair.datasets import make_fair_classification
from optfair.utils.html import card, table
from tests.threads import single_thread

STRANGE = "<script>alert(1)</script>"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)


@pytest.fixture(scope="module")
def rule():
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 400).reshape(-1, 2, 3)
    return optfair.solve(Z, "dp", 0.02, groups=[STRANGE, "b"], classes=["x", "y", STRANGE], random_state=0)


def test_texts_are_escaped():
    for text in (card(STRANGE, [(STRANGE, STRANGE)], STRANGE), table(STRANGE, [STRANGE], [[STRANGE]], STRANGE)):
        assert "script" not in Tags(text).tags and text.count("&lt;script&gt;") == 4


def test_rules_certificates_and_frontiers(rule):
    assert f"{rule.certificate.accuracy:.4f}" in rule._repr_html_()
    assert f"{rule.certificate.upper_bound:.6f}" in rule.certificate._repr_html_()
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 400).reshape(-1, 2, 3)
    path = optfair.frontier(Z, "dp", [0.1, 0.02], random_state=0)
    shown = path._repr_html_()
    assert all(f"{value:.4f}" in shown for value in path.table["accuracy"])
    for text in (rule._repr_html_(), rule.certificate._repr_html_(), shown):
        assert "script" not in Tags(text).tags


def test_intervals_and_promises():
    rng = np.random.default_rng(0)
    group, y = rng.choice([STRANGE, "b"], 600), rng.integers(0, 2, 600)
    interval = metrics.violation_interval(y, y, sensitive_features=group)
    text = interval._repr_html_()
    assert f"{interval.bound:.4f}" in text and "script" not in Tags(text).tags
    data = make_fair_classification(2000, random_state=0)
    with single_thread():
        model = OptFairPost(tolerance=0.15, confidence=0.9, random_state=0)
        model.fit(data.X, data.y, sensitive_features=np.where(np.asarray(data.sensitive_features) == "A", STRANGE, "b"))
    text = model.promise_._repr_html_()
    assert "Promise: kept" in text and "script" not in Tags(text).tags


@pytest.mark.parametrize("model", [OptFairPost(random_state=0), OptFairIn(rounds=2, tolerance=0.2, random_state=0)])
def test_a_fitted_estimator_shows_its_result_below_its_diagram(model):
    before = model._repr_html_()
    data = make_fair_classification(400, random_state=0)
    with single_thread():
        model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    word = "Fair rule for 2 groups" if isinstance(model, OptFairPost) else "rounds; the result is"
    for after in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert word in after and word not in before and "sk-top-container" in after
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_") and "text/html" not in model._repr_mimebundle_()
