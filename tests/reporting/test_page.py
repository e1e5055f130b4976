"""Check the page and the Markdown: every number from the document, every name escaped, one small file."""

import base64
import gzip
import json
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest

from optfair.reporting.downloads import csv_text
from tests.reporting.helpers import people, report_of

pytest.importorskip("jinja2", reason="the page is made with jinja2")


class Reader(HTMLParser):
    """Collect what a browser would show as text, the elements and their links."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags, self.links, self._silent = [], [], {}, False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self._silent = tag in ("script", "style")
        if "download" in attributes:
            self.links[attributes["download"]] = attributes["href"]

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        if not self._silent:
            self.text.append(data.strip())


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_numbers_of_pages_are_those_of_the_document(criterion):
    report = report_of(criterion)
    document, texts = report.to_dict(), (" ".join(Reader(report.html()).text), report.markdown())
    for view in document["rates"]:
        for role in ("before", "after"):
            shown = [f"{100 * value:.1f} %" for value in [*view[role]["value"], view[role]["overall"]]]
            assert all(value in text for value in shown for text in texts)
    states = document["states"]
    assert f"{states['within']} of {sum(states.values())} comparisons surely within" in " ".join(texts[0].split())
    for text in texts:
        assert document["verdict"]["sentence"] in text
        for finding in document["findings"]:
            assert finding["code"] in text
    for line in document["performance"]:
        assert f"{100 * line['noise_floor']:.1f}" in texts[0]


def test_downloads_hold_the_document():
    report = report_of("dp")
    links = Reader(report.html()).links
    kind, _, content = links["report.json"].partition(",")
    assert kind == "data:application/json;charset=utf-8"
    assert json.loads(unquote(content)) == report.to_dict()
    assert unquote(links["rates.csv"].partition(",")[2]) == csv_text(report.to_dict())
    lines = csv_text(report.to_dict()).splitlines()
    assert lines[0].startswith("rate,true_class,answer,group,people,before,before_low,before_high,after")
    assert len(lines) == 1 + 3 * 3 + 4 * (1 + 3 + 3)  # rates; accuracy, recalls and wrong answers of four groups


def many(criterion="eo", reference="overall"):
    """Return a report of twenty groups with long names and five classes."""
    groups = np.array([f"female × Asian-Pacific {k:02d}" for k in range(20)])
    classes = np.array(["admitted", "deferred", "interview", "rejected", "waiting list"])
    return report_of(criterion, 0.05, 20_000, groups=groups, classes=classes, reference=reference)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_a_page_of_twenty_groups_and_five_classes_is_small(reference):
    report = many(reference=reference)
    page = report.html()
    assert len(page.encode()) < 300_000
    assert len(report.to_dict()["rates"]) == 25
    content = Reader(page).links["report.json.gz"].partition(",")[2]
    assert json.loads(gzip.decompress(base64.b64decode(content))) == report.to_dict()


def test_what_is_left_out_of_very_many_questions_is_said():
    classes = np.array([f"class {k}" for k in range(12)])
    report = report_of("eo", 0.3, 40_000, groups=np.array(list("ABCDEFGHIJ")), classes=classes)
    assert report.to_dict()["rates_left_out"] == 144 - 42
    assert "102 questions" in report.html() and len(report.html().encode()) < 300_000


NAMES = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "a|b`*_[x](y)&amp;",
    "=1+1",
    "{{ 7*7 }}",
    "%27",
]


def test_names_are_names():
    """Whatever a group or a class is called, the page has the same elements, and shows the name as it is."""
    strange = report_of("eo", groups=np.array(NAMES), classes=np.array(NAMES[:3]))
    plain = report_of("eo", groups=np.array(list("ABCDEF")), classes=np.array(list("ABC")))
    pages = [Reader(report.html()) for report in (strange, plain)]
    counts = [{tag: page.tags.count(tag) for tag in set(page.tags)} for page in pages]
    assert counts[0]["script"] == counts[1]["script"] == 1
    assert counts[0].keys() == counts[1].keys() and counts[0]["th"] == counts[1]["th"]
    for name in NAMES:
        assert name in pages[0].text
    assert "<script>alert" not in strange.markdown() and "<img" not in strange.markdown()
    assert "'=1+1" in csv_text(strange.to_dict())
    frame = strange._repr_html_()
    assert frame.startswith("<iframe") and frame.count("<") == 2


def test_the_same_report_gives_the_same_page():
    first, second = report_of("eop"), report_of("eop")
    assert first.html() == first.html() == second.html()
    assert first.markdown() == second.markdown() and first.json() == second.json()


def test_nothing_is_asked_from_elsewhere():
    page = report_of("dp").html()
    assert not re.findall(r"(?:src|href|action)=[\"'](?!data:|#)", page)
    assert "http:" not in page and "https:" not in page and "//" not in page and "@import" not in page


def test_files_are_written_whole(tmp_path):
    report = report_of("dp")
    for name in ("html", "markdown", "json"):
        path = tmp_path / f"report.{name}"
        assert getattr(report, name)(path) is None
        assert path.read_text(encoding="utf-8") == getattr(report, name)()
    assert len(list(tmp_path.iterdir())) == 3


def test_without_jinja2_there_are_text_and_files_but_no_page(monkeypatch):
    from optfair.reporting import page

    page._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    report = report_of("dp")
    with pytest.raises(ImportError, match=r'Report.html needs jinja2: pip install "optfair\[report\]"'):
        report.html()
    assert report._repr_html_().startswith("<pre>") and report.markdown() and report.json()


def test_a_report_without_measurements_says_so():
    from optfair import OptFairIn
    from optfair.datasets import make_fair_classification
    from tests.threads import single_thread

    data = make_fair_classification(300, random_state=0)
    with single_thread():
        model = OptFairIn(tolerance=0.2, rounds=2, random_state=0)
        model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    report = model.report()
    assert report.verdict is None and report.findings == [] and report.to_dict()["rates"] == []
    assert "Nothing was measured" in report.html() and report.markdown().startswith("# Fairness report")


def test_templates_are_in_the_wheel():
    """What hatchling packs is the folder of the package, whatever is not ignored by git."""
    from importlib import resources

    assert (resources.files("optfair.reporting") / "templates" / "report.html.j2").is_file()


def test_no_row_of_a_person_is_in_the_page():
    *_, after = people()
    text = " ".join(map(str, after[:40]))
    assert text not in report_of("dp").html().replace(",", " ")
