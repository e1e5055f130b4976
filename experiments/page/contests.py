"""Compare a method of OptFair with every rival on every panel, and count what was won, lost and within noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.areas import Mean
from experiments.page.panels import Competitor, Panel
from experiments.page.results import CRITERIA, Results, unique
from experiments.page.tables import DIGITS, Table, cannot, number
from experiments.splits import TRAIN_SHARE

TEST_RATIO = (1 - TRAIN_SHARE) / TRAIN_SHARE  # test rows / training rows
WON, NOISE, LOST = "won", "within noise", "lost"


@dataclass(frozen=True)
class Comparison:
    """A difference of areas. gain : None where there is none; then reason says why. counted : see `_counts`.

    cannot : whether that is because a method failed. failed : runs without a rule.
    """

    data: str
    criterion: str
    optfair: Competitor
    rival: Competitor
    counted: bool
    gain: Mean | None = None
    reason: str = ""
    cannot: bool = False
    failed: int = 0

    @property
    def verdict(self) -> str:
        """Return won, within noise, lost or one seed; empty where there is no gain."""
        if self.gain is None:
            return ""
        return "one seed" if self.gain.n == 1 else self.gain.verdict

    @property
    def is_clear(self) -> bool:
        """Tell whether a verdict stays when the interval is widened for splits that overlap."""
        clear = self.verdict in (WON, LOST) and self.gain is not None
        return clear and self.gain is not None and self.gain.widened(TEST_RATIO).verdict == self.verdict

    @property
    def name(self) -> str:
        """Return what is compared, in words."""
        return f"{self.data}, {CRITERIA[self.criterion]}, against {self.rival.title}"

    def __str__(self) -> str:
        """Return the gain with its verdict, bold where that is clear."""
        if self.gain is None:
            return self.reason
        word = self.verdict.upper() if self.verdict == LOST else self.verdict
        text = f"{number(self.gain, DIGITS['gain'], sign=True)} {word}"
        return (f"**{text}**" if self.is_clear else text) + (
            f" (without {self.failed} failed runs)" * bool(self.failed)
        )


def compare(results: Results, panels: Sequence[Panel], optfair: Competitor, *, common: bool) -> list[Comparison]:
    """Return the comparisons of a method with all rivals, by criterion, rival and data. common : see `Panel.gain`."""
    order = [(criterion, rival) for criterion in unique(p.criterion for p in panels) for rival in panels[0].rivals]
    return [
        _comparison(results, panel, optfair, rival, common=common)
        for criterion, rival in order
        for panel in panels
        if panel.criterion == criterion
    ]


def _comparison(results: Results, panel: Panel, optfair: Competitor, rival: Competitor, *, common: bool) -> Comparison:
    names = results.data_title(panel.data), panel.criterion, optfair, rival, _counts(results, panel, rival)
    if panel.judgeable is None:
        return Comparison(
            *names, reason=f"{results.title(panel.plain.method)} {cannot(panel.plain.errors)}", cannot=True
        )
    for side in (optfair, rival):
        if not panel.areas(side):
            return Comparison(*names, reason=f"{side.title} {cannot(panel.errors(side))}", cannot=True)
    if not panel.judgeable:
        return Comparison(*names, reason="not judged")
    gain = panel.gain(optfair, rival, common=common)
    if gain is None:
        return Comparison(*names, reason="cannot: no seed has rules of both", cannot=True)
    return Comparison(*names, gain=gain, failed=len(panel.errors(rival)) + len(panel.errors(optfair)))


def _counts(results: Results, panel: Panel, rival: Competitor) -> bool:
    """Tell whether a comparison counts.

    With two classes opportunity, asked of both, is odds. Of a method with two ways to decide the better one counts.
    """
    line = results.data_line(panel.data)
    if panel.criterion == "eop" and line is not None and line["classes"] == 2:
        return False
    variants = [competitor for competitor in panel.rivals if competitor.method == rival.method]
    best = max(variants, key=lambda side: np.mean([*panel.areas(side).values()] or [-np.inf]))  # the first if no area
    return best == rival


@dataclass(frozen=True)
class Count:
    """What comparisons came to. clear : of those won and of those lost the ones that stay. lost, cannot : names."""

    won: int
    noise: int
    lost: tuple[str, ...]
    clear: tuple[int, int]
    cannot: tuple[str, ...]
    single: int

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Count:
        """Count those that count."""
        counted = [each for each in comparisons if each.counted]
        by_verdict = {verdict: [c for c in counted if c.verdict == verdict] for verdict in (WON, NOISE, LOST)}
        clear = [sum(each.is_clear for each in by_verdict[verdict]) for verdict in (WON, LOST)]
        return cls(
            len(by_verdict[WON]),
            len(by_verdict[NOISE]),
            tuple(each.name for each in by_verdict[LOST]),
            (clear[0], clear[1]),
            tuple(each.name for each in counted if each.cannot),
            sum(each.verdict == "one seed" for each in counted),
        )

    @property
    def total(self) -> int:
        """Return the number of comparisons with a verdict."""
        return self.won + self.noise + len(self.lost)

    @property
    def by_chance(self) -> str:
        """Return how many of them a tenth is."""
        return f"{self.total / 10:.0f}"

    @property
    def short(self) -> str:
        """Return won / within noise / lost."""
        return f"{self.won} / {self.noise} / {len(self.lost)}"


@dataclass(frozen=True)
class Contest:
    """A method of OptFair against all rivals: over all violations, and only where both have rules."""

    optfair: Competitor
    comparisons: list[Comparison]
    common: list[Comparison]

    @classmethod
    def between(cls, results: Results, panels: Sequence[Panel], optfair: Competitor) -> Contest:
        """Compare on all panels."""
        everywhere, common = (compare(results, panels, optfair, common=flag) for flag in (False, True))
        return cls(optfair, everywhere, common)

    @property
    def count(self) -> Count:
        """Count over all violations."""
        return Count.of(self.comparisons)

    @property
    def common_count(self) -> Count:
        """Count where both have rules."""
        return Count.of(self.common)

    def by_criterion(self) -> dict[str, Count]:
        """Count by criterion."""
        names = unique(each.criterion for each in self.comparisons)
        return {name: Count.of(each for each in self.comparisons if each.criterion == name) for name in names}

    def table(self, *, common: bool = False) -> Table:
        """Return a row per criterion and rival, a column per data."""
        chosen = self.common if common else self.comparisons
        data = unique(each.data for each in chosen)
        rows: dict[tuple[str, str], list[str]] = {}
        for each in chosen:
            rows.setdefault((CRITERIA[each.criterion], each.rival.title), []).append(str(each))
        return Table(["criterion", "against", *data], [[*key, *texts] for key, texts in rows.items()])


def verdict_table(contests: Sequence[Contest]) -> Table:
    """Return won / within noise / lost by method and criterion."""
    criteria = unique(name for contest in contests for name in contest.by_criterion())
    rows = []
    for contest in contests:
        by = contest.by_criterion()
        texts = [by[name].short if name in by else "" for name in criteria]
        rows.append([contest.optfair.title, *texts, f"**{contest.count.short}**"])
    return Table(["method", *(CRITERIA[name] for name in criteria), "all"], rows)


def differences(results: Results, contests: Sequence[Contest]) -> dict[str, Any]:
    """Return what the picture of differences shows: those that count, by data."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for contest in contests:
        for each in contest.comparisons:
            if each.counted and each.gain is not None:
                half = each.gain.half if each.gain.n > 1 else 0.0
                entry = {"against": results.title(each.rival.method), "criterion": each.criterion, "half": half}
                panels.setdefault(each.data, []).append(entry | {"gain": each.gain.value, "verdict": each.verdict})
    rivals = [[c.optfair.title, unique(results.title(each.rival.method) for each in c.comparisons)] for c in contests]
    return {"rivals": rivals, "panels": panels}
