"""Open the page in a real Chromium: slider, switches, downloads, print, dark, without JavaScript, without network."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairPost, audit, compare
from optfair.datasets import make_fair_classification
from optfair.reporting.page import clearest_view
from optfair.reporting.wording import points
from tests.reporting.helpers import CLASSES, people, report_of
from tests.threads import single_thread

pytest.importorskip("jinja2", reason="the page is made with jinja2")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)

HOSTILE = "<script>document.title='x'</script>"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        try:
            chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"chromium does not start: {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report():
    return report_of("eo", groups=np.array(["A", "B", HOSTILE]))


@pytest.fixture(scope="module")
def crossed():
    """Return an audit of two attributes, with a favourable answer."""
    group, y, before, after = people(3000, groups=np.array(["n", "s", "w"]))
    features = pd.DataFrame({"area": group, "sex": np.where(np.arange(len(y)) % 3 == 0, "f", HOSTILE)})
    question = {"attributes": "both", "favourable": ["high"], "tolerance": 0.1}
    return audit(y, after, before=before, sensitive_features=features, **question)


@pytest.fixture(scope="module")
def model_report():
    train, test = make_fair_classification(1600, n_groups=3, random_state=0).split(0.5, random_state=0)
    with single_thread():
        model = OptFairPost(tolerance=0.05, random_state=0)
        model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
        return model.report(test.X, test.y, sensitive_features=test.sensitive_features, path=True)


@pytest.fixture
def opened(browser, tmp_path):
    """Return a function that opens the page of a report, and what the browser complained about or requested."""
    contexts = []

    def open_page(report, **options):
        report.html(tmp_path / "report.html")
        context = browser.new_context(accept_downloads=True, **options)
        contexts.append(context)
        page, events = context.new_page(), []
        page.on("console", lambda message: events.append(message.text))
        page.on("pageerror", lambda error: events.append(str(error)))
        page.on("request", lambda request: events.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        return page, events

    yield open_page
    for context in contexts:
        context.close()


def shown(page, selector="#rates .panel"):
    """Return the text of the elements that are shown."""
    parts = page.locator(selector)
    return [parts.nth(k).inner_text() for k in range(parts.count()) if parts.nth(k).is_visible()]


# -- switches --------------------------------------------------------------------------------------------------
def test_the_switch_changes_the_numbers(opened, report):
    page, events = opened(report)
    document = report.to_dict()
    (first,) = shown(page)
    clearest = document["rates"][clearest_view(document["rates"], "before")]  # what the page begins with
    assert clearest["question"] in first and f"{100 * clearest['after']['value'][0]:.1f} %" in first
    page.get_by_label("mid").first.check()  # the true class
    page.get_by_label("low").nth(1).check()  # the answer
    (second,) = shown(page)
    view = next(view for view in document["rates"] if (view["given"], view["outcome"]) == ("mid", "low"))
    assert view["question"] in second and second != first
    for value in view["after"]["value"]:
        assert f"{100 * value:.1f} %" in second
    assert page.locator("#rates .switches [role=status]").inner_text() == view["question"]
    assert events == [page.url]  # nothing in the console, and one request: the file itself
    assert page.title().startswith("Fairness report")  # a group called <script> is a group


def test_rates_as_differences_and_ratios(opened, report):
    page, events = opened(report)
    views = report.to_dict()["rates"]
    view = views[clearest_view(views, "before")]["after"]
    row = page.locator("#rates .panel:not(.off) tr[data-f]").first
    page.get_by_label("difference from everybody").check()
    difference = f"{100 * (view['value'][0] - view['overall']):+.1f}".replace("-", "−")
    assert row.locator("td").last.inner_text().startswith(difference)
    page.get_by_label("ratio to the highest").check()
    assert row.locator("td").last.inner_text().startswith(f"{view['value'][0] / max(view['value']):.2f}")
    page.get_by_role("radio", name="rate", exact=True).check()
    assert row.locator("td").last.inner_text().startswith(f"{100 * view['value'][0]:.1f} %")
    assert events == [page.url]


def test_the_script_writes_every_number_as_the_page_does_without_it(opened):
    """5/16 = 31.25 % and 1,268/1,498 = 84.646…: two ways of rounding, once or twice, would give other digits."""
    sizes, hits = {"A": 1498, "B": 32, "C": 1000}, {"A": 1268, "B": 10, "C": 944}
    group = np.repeat(list(sizes), list(sizes.values()))
    answer = np.concatenate([np.where(np.arange(n) < hits[name], "yes", "no") for name, n in sizes.items()])
    report = audit(None, answer, sensitive_features=group, tolerance=0.1, favourable=["yes"])
    page, _ = opened(report)
    still, _ = opened(report, java_script_enabled=False)
    rows = "#rates .panel tr[data-f] td:last-child"
    cells = [part.evaluate("cell => cell.textContent") for part in page.locator(rows).all()]
    assert cells == [part.text_content() for part in still.locator(rows).all()]
    assert any(text.startswith("84.6 %") for text in cells) and any(text.startswith("31.2 %") for text in cells)
    document = report.to_dict()
    for mode, name, text_of in (
        ("difference from everybody", "difference", points),
        ("ratio to the highest", "ratio", lambda value: f"{value:.2f}"),
    ):
        page.get_by_label(mode).check()
        expected = [text_of(value) for view in document["rates"] for value in view["after"][name]]
        firsts = [part.evaluate("cell => cell.firstChild.nodeValue") for part in page.locator(rows).all()]
        assert firsts == expected
    ratios = {row["group"]: f"{row['ratio']:.2f}" for row in document["impact"][0]["rows"]}
    assert dict(zip("ABC", firsts[-3:], strict=True)) == ratios  # the answer "yes" is the last
    regulator = page.locator("#impact").inner_text()
    assert "84.6 %" in regulator and "84.7" not in page.content()


def test_groups_of_each_attribute(opened, crossed):
    page, events = opened(crossed)

    def names():
        return [text.split("\t")[0] for text in shown(page, "#rates .panel:not(.off) tr[data-f]")]

    assert len(names()) == 6 and f"n × {HOSTILE}" in names()
    page.get_by_role("radio", name="area", exact=True).check()
    assert names() == ["area: n", "area: s", "area: w"]
    page.get_by_role("radio", name="sex", exact=True).check()
    assert sorted(names()) == sorted([f"sex: {HOSTILE}", "sex: f"])
    assert events == [page.url] and "For a regulator" in page.locator("#impact").inner_text()


def test_the_slider_moves_the_numbers(opened, model_report):
    page, events = opened(model_report)
    points = model_report.to_dict()["path"]["points"]
    slider, card = page.locator("#tolerance"), page.locator("#path .card")
    texts = set()
    slider.focus()
    page.keyboard.press("Home")
    for k, point in enumerate(points):
        assert slider.input_value() == str(k)
        text = card.inner_text()
        assert f"Tolerance: {100 * point['tolerance']:.3g} points" in text
        assert f"{100 * point['accuracy']:.1f} %" in text
        assert f"{100 * point['violation']:.1f} points" in text and f"{100 * point['changed']:.1f} %" in text
        assert slider.get_attribute("aria-valuetext") == f"tolerance {100 * point['tolerance']:.3g} points"
        assert page.locator("#path .dot.on").count() == 1
        texts.add(text)
        page.keyboard.press("ArrowRight")
    assert len(texts) == len(points)
    page.locator("#path .dot").first.dispatch_event("click")  # dots may lie upon each other
    assert slider.input_value() == "0" and events == [page.url]


def test_the_keyboard_is_enough(opened, report):
    page, _ = opened(report)
    (first,) = shown(page)
    page.locator("#rates .switches input[type=radio]").first.focus()
    page.keyboard.press("ArrowRight")
    (second,) = shown(page)
    assert first != second
    assert page.evaluate("document.activeElement.checked")


def test_the_changes_of_each_group_can_be_chosen(opened, report):
    page, _ = opened(report)
    titles = "#people .panel h3"
    assert shown(page, titles) == ["Right answers by group", "everybody: from which answer to which"]
    page.locator("#people select").select_option("A")
    page.get_by_role("radio", name="Wrong answers").check()
    assert shown(page, titles) == ["Wrong answers by group", "A: from which answer to which"]


# -- downloads and writing -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["report", "model_report"])
def test_downloads(opened, request, tmp_path, name):
    report = request.getfixturevalue(name)
    page, events = opened(report)
    for anchor, file in (("json", "report.json"), ("csv", "rates.csv")):
        with page.expect_download() as download:
            page.locator(f"#{anchor}").click()
        assert download.value.suggested_filename == file
        download.value.save_as(tmp_path / file)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == report.to_dict()
    assert len(pd.read_csv(tmp_path / "rates.csv")) > 5
    assert not [event for event in events if not event.startswith(("file:", "data:", "blob:"))]


def test_a_person_can_complete_the_page(opened, report):
    page, _ = opened(report)
    field = page.get_by_role("textbox", name="Intended use")
    field.click()
    page.keyboard.type("<b>Advice</b> only")
    assert field.inner_text() == "<b>Advice</b> only" and field.locator("b").count() == 0


# -- print, dark, telephone, no JavaScript -----------------------------------------------------------------------
def test_the_print_has_every_section_and_every_table(opened, model_report, crossed):
    for report, sections in (
        (model_report, ["summary", "findings", "rates", "path", "people", "comparisons", "prices", "small", "proof"]),
        (crossed, ["summary", "findings", "rates", "people", "comparisons", "small", "impact", "sign", "words"]),
    ):
        page, _ = opened(report)
        page.emulate_media(media="print")
        for name in sections:
            assert page.locator(f"#{name}").is_visible(), name
        assert len(shown(page)) == len(report.to_dict()["rates"])
        for selector in (".switches", ".tools", "nav", "#copy", ".more"):
            assert not any(part.is_visible() for part in page.locator(selector).all())
        if report is model_report:
            assert page.locator("#path details table").is_visible()
        assert len(page.pdf()) > 10_000


def test_without_javascript_all_tables_are_shown(opened, model_report):
    page, events = opened(model_report, java_script_enabled=False)
    document = model_report.to_dict()
    assert len(shown(page)) == len(document["rates"])
    for selector in (".switches", ".tools", "#tolerance", "#copy", "nav"):
        assert not any(part.is_visible() for part in page.locator(selector).all()), selector
    assert len(shown(page, "#path details tbody tr")) == len(document["path"]["points"])
    assert len(shown(page, "#people .panel")) == 2 + 1 + 3  # right, wrong; everybody and three groups
    assert events == [page.url]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "model_report"])
def test_text_can_be_read_in_light_and_dark(opened, request, scheme, name):
    """Contrast of at least 4.5 between text and ground (WCAG AA), for every colour of words."""
    page, _ = opened(request.getfixturevalue(name), color_scheme=scheme)
    script = """() => {
      const ground = getComputedStyle(document.body).backgroundColor;
      return [...document.querySelectorAll('p, td, th, i, b, span, caption, .tag, dt, dd, h2, a')]
        .filter(e => e.textContent.trim() && !e.closest('.lamp') && !e.closest('fieldset'))
        .map(e => getComputedStyle(e).color).filter((c, k, all) => all.indexOf(c) === k).map(c => [c, ground])
    }"""
    pairs = page.evaluate(script)
    assert len(pairs) >= 5
    for colours in pairs:
        light = sorted(luminance(text) for text in colours)
        assert (light[1] + 0.05) / (light[0] + 0.05) >= 4.5, colours


def luminance(text):
    """Return the relative luminance of a colour such as rgb(1, 2, 3)."""
    channels = [int(part) / 255 for part in text.strip("rgba()").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["report", "crossed", "model_report"])
def test_it_does_not_scroll_sideways_on_a_telephone(opened, request, name):
    page, _ = opened(request.getfixturevalue(name), viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("name", ["report", "crossed", "model_report"])
def test_verdicts_are_seen_on_a_telephone(opened, request, name):
    """The sign of every line of a table with verdicts stands beside its name, where no table need be moved."""
    page, _ = opened(request.getfixturevalue(name), viewport={"width": 390, "height": 800})
    signs = page.locator("#comparisons tbody th .s, #path tbody th .s")
    assert signs.count() >= len(page.locator("#comparisons tbody tr").all()) > 3
    for part in signs.all()[:20]:
        assert part.inner_text() in ("✓", "✗", "?") or not part.is_visible()  # of a table that is folded away
        box = part.bounding_box()
        assert box is None or box["x"] + box["width"] <= 390
    wide, _ = opened(request.getfixturevalue(name), viewport={"width": 1200, "height": 800})
    assert not wide.locator("#comparisons tbody th .s").first.is_visible()  # the column of words is there


def test_every_link_inside_the_page_leads_somewhere(opened, model_report):
    page, _ = opened(model_report)
    script = "() => [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
    anchors = page.evaluate(script)
    assert len(anchors) > 10
    assert page.evaluate("ids => ids.filter(id => !document.getElementById(id))", anchors) == []


# -- other pages -----------------------------------------------------------------------------------------------
def test_rules_side_by_side(opened):
    group, y, before, after = people()
    rules = {"old": before, "new": after, "the truth": y, HOSTILE: np.full(len(y), CLASSES[0])}
    page, events = opened(compare(rules, y, sensitive_features=group, criterion="eop", tolerance=0.1))
    assert page.locator("#rates .panel:not(.off) tr[data-f]").first.locator("path").count() == 4
    text = page.locator("body").inner_text()
    assert all(name in text for name in rules) and "4 rules side by side" in text
    assert events == [page.url] and page.title().startswith("Fairness report")


@pytest.fixture(scope="module")
def large():
    """Return an audit of fifty groups and six classes."""
    rng = np.random.default_rng(0)
    n, groups = 40_000, np.array([f"group {k:02d} of a long name" for k in range(50)])
    classes = np.array(["admitted", "deferred", "interview", "referred", "rejected", "waiting list"])
    group, y = groups[rng.integers(0, 50, n)], classes[rng.integers(0, 6, n)]
    before, after = (np.where(rng.random(n) < 0.5, y, classes[rng.integers(0, 6, n)]) for _ in range(2))
    return audit(y, after, before=before, sensitive_features=group, criterion="eo", tolerance=0.1)


def test_a_page_of_fifty_groups_and_six_classes_can_be_read(opened, large):
    assert len(large.html().encode()) < 1_000_000
    page, events = opened(large)
    assert len(shown(page, "#rates .panel:not(.off) tr[data-f]")) == 15  # the furthest from everybody
    page.get_by_label("Find").fill("group 07")
    assert [text.split("\t")[0] for text in shown(page, "#rates .panel:not(.off) tr[data-f]")] == [
        "group 07 of a long name"
    ]
    page.get_by_label("Find").fill("")
    page.locator("#rates .more").click()
    assert len(shown(page, "#rates .panel:not(.off) tr[data-f]")) == 50
    page.get_by_label("Order").select_option("people")
    numbers = [int(text.split("\t")[1]) for text in shown(page, "#rates .panel:not(.off) tr[data-f]")]
    assert numbers == sorted(numbers, reverse=True) and events == [page.url]


def test_a_packed_document_is_unpacked_by_the_browser(opened, large, tmp_path):
    page, _ = opened(large)
    with page.expect_download() as download:
        page.locator("#json").click()
    download.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == large.to_dict()
