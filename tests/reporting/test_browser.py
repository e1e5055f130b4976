"""Open the page in a real Chromium: switches, print, dark, without JavaScript, without network."""

import shutil

import numpy as np
import pytest

from tests.reporting.helpers import report_of

pytest.importorskip("jinja2", reason="the page is made with jinja2")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)

SECTIONS = ["findings", "rates", "comparisons", "people", "small", "proof", "words"]


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
    groups = np.array(["A", "B", "<script>document.title='x'</script>"])
    return report_of("eo", groups=groups)


@pytest.fixture
def opened(browser, report, tmp_path):
    """Return a function that opens the page, and what the browser complained about or requested."""
    contexts = []
    report.html(tmp_path / "report.html")

    def open_page(**options):
        context = browser.new_context(**options)
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


def shown(page):
    """Return the text of the panels that are shown."""
    panels = page.locator("#rates .panel")
    return [panels.nth(k).inner_text() for k in range(panels.count()) if panels.nth(k).is_visible()]


def test_the_switch_changes_the_numbers(opened, report):
    page, events = opened()
    document = report.to_dict()
    (first,) = shown(page)
    assert "true class is “high”" in first and f"{100 * document['rates'][0]['after']['value'][0]:.1f} %" in first
    page.get_by_label("mid").first.check()  # the true class
    page.get_by_label("low").nth(1).check()  # the answer
    (second,) = shown(page)
    view = next(view for view in document["rates"] if (view["given"], view["outcome"]) == ("mid", "low"))
    assert view["question"] in second and second != first
    for value in view["after"]["value"]:
        assert f"{100 * value:.1f} %" in second
    assert page.locator("#rates [role=status]").inner_text() == view["question"]
    assert events == [page.url]  # nothing in the console, and one request: the file itself
    assert page.title().startswith("Fairness report")  # a group called <script> is a group


def test_the_keyboard_is_enough(opened):
    page, _ = opened()
    (first,) = shown(page)
    page.locator("#rates input[type=radio]").first.focus()
    page.keyboard.press("ArrowRight")
    (second,) = shown(page)
    assert first != second
    assert page.evaluate("document.activeElement.checked")


def test_the_changes_of_each_group_can_be_chosen(opened):
    page, _ = opened()
    panels = page.locator("#people .panel")
    assert [panels.nth(k).is_visible() for k in range(3)] == [True, False, False]
    page.locator("#people select").select_option("1")
    assert [panels.nth(k).is_visible() for k in range(3)] == [False, True, False]


def test_the_print_has_every_section_and_every_table(opened):
    page, _ = opened()
    page.emulate_media(media="print")
    for name in SECTIONS:
        assert page.locator(f"#{name}").is_visible(), name
    assert len(shown(page)) == 9
    assert not page.locator(".switches").first.is_visible()
    assert len(page.pdf()) > 10_000


def test_without_javascript_all_tables_are_shown(opened):
    page, events = opened(java_script_enabled=False)
    assert len(shown(page)) == 9
    assert not page.locator(".switches").first.is_visible()
    assert page.locator("#rates table").count() == 9 and events == [page.url]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(opened, scheme):
    """Contrast of at least 4.5 between text and ground (WCAG AA), for every colour of words."""
    page, _ = opened(color_scheme=scheme)
    script = """() => {
      const ground = getComputedStyle(document.body).backgroundColor;
      return [...document.querySelectorAll('p, td, th, i, small, caption, .tag, dt, h2, a')]
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


def test_it_does_not_scroll_sideways_on_a_telephone(opened):
    page, _ = opened(viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_json_is_unpacked_by_the_browser(browser, tmp_path):
    import json

    from tests.reporting.test_page import many

    large = many()
    large.html(tmp_path / "large.html")
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.goto((tmp_path / "large.html").as_uri())
    with page.expect_download() as download:
        page.locator("#json").click()
    download.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == large.to_dict()
    context.close()
