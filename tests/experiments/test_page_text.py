"""Check the text of the pages: numbers are looked up, never written; notes of what a page lacks are left out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from experiments.catalogue import read_experiment
from experiments.page.results import MissingRuns, Results
from experiments.page.templates import TEMPLATES, PageTextError, environment, on_this_page, rewrapped
from experiments.page.write import make_writer
from experiments.plan import Run
from tests.experiments.lines import COMMAND, as_experiments, failed_line, finished_plan, page_text, small_frontiers

pytest.importorskip("jinja2", reason="the templates of the pages")


def note_text(plan, names, folder, text: str, section: str = "frontiers") -> str:
    """Return a note as the page of these experiments would show it."""
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / f"{section}.md.j2").write_text(f"An answer.\n\n## Reading notes\n\n{text}\n", "utf-8")
    return make_writer(Results(plan, as_experiments(names), COMMAND), folder).note(section)[1]


@pytest.fixture(scope="module")
def adult_randomised():
    return finished_plan(("randomised",), ("adult",))


# -- lookups --------------------------------------------------------------------------------------------------
def test_notes_are_filled_in_from_lines(adult_plan, tmp_path):
    cells = Results(adult_plan, [read_experiment("frontiers")], COMMAND).cells["frontiers"]
    cell = next(cell for cell in cells if (cell.method, cell.criterion, cell.value) == ("OptFairPost", "dp", 0.01))
    setting = 'data="adult", method="OptFairPost", criterion="dp", value=0.01'
    gain = 'kind="post", data="adult", criterion="dp", against'
    text = note_text(
        adult_plan,
        ("frontiers",),
        tmp_path,
        f'A {{{{ accuracy({setting}) }}}} B {{{{ violation({setting}, decision="argmax") }}}} '
        f'C {{{{ seconds({setting}) }}}} D {{{{ gain({gain}="LinearPost") }}}} '
        f'E {{{{ gain({gain}="FairProjection", decision="argmax", of="OptFairPost-calibrated") }}}} '
        'F {{ violation(data="adult", method="ERM", criterion="eo") }} '
        'G {{ published("released.OptFairPost.dp_01.accuracy") }} H {{ knob(0.01) }} I {{ rows("adult") }}.',
    )
    text = " ".join(text.split())
    accuracy = cell.mean("accuracy")
    violation = cell.decided("argmax").mean("violation").value
    assert f"## Reading notes A {accuracy.value:.2f} ± {accuracy.half:.2f} B {violation:.4f} ± " in text
    assert text.endswith("G 83.31 H 0.01 I 1,500.") and "{" not in text


def test_a_note_may_name_options(adult_randomised, tmp_path):
    note = '{{ accuracy(data="adult", method="OptFairIn", criterion="dp", value=0.001, output="deterministic") }}'
    assert "Reading notes" in note_text(adult_randomised, ("randomised",), tmp_path, note, "randomised")


def test_a_note_finds_the_run_that_two_experiments_ask_for(tmp_path):
    names = (small_frontiers("OptFairPost", criteria=("eo",)), "calibration")
    plan = finished_plan(names, ("adult",), smoke=False)
    setting = 'data="adult", method="OptFairPost", criterion="eo", value=0.05'
    choice = plan.choice("adult", "OptFairPost")["posterior"]
    note = f'Plainly {{{{ accuracy({setting}) }}}}.\n\nChosen {{{{ accuracy({setting}, posterior="{choice}") }}}}.'
    numbers = re.findall(r"(?:Plainly|Chosen) (\d\d\.\d\d ± \d\.\d\d)\.", note_text(plan, names, tmp_path, note))
    assert len(numbers) == 2 and numbers[0] == numbers[1]
    # A page without the experiment that has both posteriors leaves that paragraph out.
    alone = note_text(plan, names[:1], tmp_path, note)
    assert "Plainly" in alone and "Chosen" not in alone
    with pytest.raises(MissingRuns, match="no run of these pages is like that"):
        note_text(plan, names, tmp_path, f'{{{{ accuracy({setting}, posterior="other") }}}}.')


SETTING = 'data="adult", method="OptFairPost", criterion="dp"'


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("It has 83.1 %.", r"frontiers\.md\.j2: 83\.1 is a bare number; look it up instead"),
        ("About 1e-3.", "1e-3 is a bare number"),
        ("It won 11 of C1's panels.", "11 is a bare number"),
        ("It has {{ 83.1 }} %.", r"83\.1 is a bare number"),
        ('It has {{ "83.1" ~ knob(0.01) }} %.', r"83\.1 is a bare number"),
        (f"{{{{ accuracy({SETTING}, value=0.5) }}}}", "no run of these pages is like that"),
        (f"{{{{ accuracy({SETTING}) }}}}", "settings fit; say data, method, criterion, value and options"),
        ('{{ beauty(data="adult") }}', r"frontiers\.md\.j2: 'beauty' is undefined"),
        ('{{ accuracy("adult") }}', r"accuracy\('adult'\): its arguments are name=value"),
        ("{{ published() }}", r"published\(\): takes one value"),
        ('{{ published("a.b") }}', r"published\.toml has no a\.b"),
        ('{{ published("released.OptFairPost") }}', "is more than one number"),
        ("{{ knob(0.77) }}", "nothing on these pages was run with it"),
        ('{{ rows("unknown") }}', "no run of these pages is on such data"),
        ('{{ gain(kind="post") }}', "needs kind, data, criterion and against"),
        (
            '{{ gain(kind="post", data="adult", criterion="dp", against="Unknown") }}',
            "no panel of these pages is like that",
        ),
        ("{{ accuracy(", r"frontiers\.md\.j2, line \d+: "),
    ],
)
def test_notes_that_fail_the_page(adult_plan, note, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        note_text(adult_plan, ("frontiers",), tmp_path, note)


@pytest.mark.parametrize("text", ["C1 and C2", "Nadeau and Bengio 2003", "ENEM 2019", "`cv=1`", "```\nx = 1\n```"])
def test_names_years_and_code_are_no_bare_numbers(adult_plan, text, tmp_path):
    assert text in note_text(adult_plan, ("frontiers",), tmp_path, text)


def test_every_template_is_free_of_bare_numbers():
    names = [str(file.relative_to(TEMPLATES)).removesuffix(".md.j2") for file in TEMPLATES.rglob("*.md.j2")]
    assert len(names) >= 14
    for name in names:
        environment().get_template(name)  # which checks it


def test_a_note_about_a_method_that_cannot_fails(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        if run.method == "Frappe" and run.part == "test":
            failed_line(line)

    experiment = small_frontiers("OptFairPost", "Frappe")
    plan = finished_plan((experiment,), ("adult",), broken)
    note = '{{ accuracy(data="adult", method="Frappe", criterion="dp", value=5.0) }}'
    with pytest.raises(PageTextError, match="has no number, the method cannot: too few"):
        note_text(plan, (experiment,), tmp_path, note)
    note = '{{ gain(kind="post", data="adult", criterion="dp", against="Frappe") }}'
    with pytest.raises(PageTextError, match="has no number, one of the methods cannot"):
        note_text(plan, (experiment,), tmp_path, note)


def test_a_note_about_seconds_that_old_lines_do_not_have(tmp_path):
    def old(run: Run, line: dict[str, Any]) -> None:
        line["seconds"] = line.pop("cpu_seconds")

    plan = finished_plan(("frontiers",), ("adult",), old)
    with pytest.raises(MissingRuns, match="ERM on adult, seed 1: its line has no seconds"):
        note_text(plan, ("frontiers",), tmp_path, '{{ seconds(data="adult", method="ERM") }}')


# -- notes of what a page lacks -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "note",
    [
        '{{ gain(kind="post", data="adult", criterion="dp", against="LinearPost") }}',
        '{{ accuracy(data="enem", method="OptFairPost", criterion="dp", value=0.001) }}',
        '{{ accuracy(data="adult", method="Frappe", criterion="dp", value=5.0) }}',
        "{{ knob(0.05) }}",
        '{{ rows("enem") }}',
    ],
)
def test_a_part_of_the_page_has_no_notes_about_the_rest(adult_randomised, note, tmp_path):
    text = note_text(adult_randomised, ("randomised",), tmp_path, f"Here.\n\nThere: {note}.", "randomised")
    assert text == "## Reading notes\n\nHere."
    assert note_text(adult_randomised, ("randomised",), tmp_path, f"There: {note}.", "randomised") == ""


def test_notes_are_wrapped_but_not_lists_tables_and_code():
    text = "### A\n\nb\nc\n\n- d\n- e\n\n| f |\n| g |\n\n```\nh\ni\n```"
    assert rewrapped(text) == text.replace("b\nc", "b c")


def test_headings_without_text_are_dropped():
    assert on_this_page("### A\n\nx \0\n\n### B\n\ny") == "### B\n\ny"
    assert on_this_page("### A\n\nx\n\n### B\n\n\0") == "### A\n\nx"


def test_notes_are_printed_in_their_section(adult_randomised, tmp_path):
    note_text(adult_randomised, ("randomised",), tmp_path, "A note.", "randomised")
    text = page_text(adult_randomised, ("randomised",), tmp_path)
    assert "**Answer.** An answer.\n" in text
    assert text.index("## How to read") < text.index("## Reading notes\n\nA note.") < text.index("## Every rule")


def test_a_note_without_headings_is_an_answer_alone(adult_randomised, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "randomised.md.j2").write_text("All is well.", "utf-8")
    writer = make_writer(Results(adult_randomised, as_experiments(["randomised"]), COMMAND), tmp_path)
    assert writer.note("randomised") == ("All is well.", "") and writer.note("truth") == ("", "")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere", b"text", r"nowhere\.md\.j2: is the note of no page; there are ablation"),
        ("frontiers", b"\xff\xfe", "is no text in UTF-8"),
    ],
)
def test_notes_that_cannot_be_read(adult_plan, name, content, message, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / f"{name}.md.j2").write_bytes(content)
    with pytest.raises(PageTextError, match=message):
        make_writer(Results(adult_plan, as_experiments(["frontiers"]), COMMAND), tmp_path).note(name)
