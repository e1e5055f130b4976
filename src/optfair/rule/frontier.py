"""Hold the trade-off between accuracy and fairness: the rules along a path of tolerances, and what each reaches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.rule.rule import FairRule
from optfair.utils.html import table
from optfair.utils.pictures import picture_axes, write_picture


@dataclass(frozen=True, eq=False)
class Frontier:
    """Rules from the unconstrained one to the strictest, and what each reaches; `optfair.frontier` returns it.

    Attributes
    ----------
    table : pandas.DataFrame
        One line per tolerance: tolerance, accuracy, value, violation, upper_bound, gap, excess, price (d value /
        d tolerance), temperature, seconds, pareto; with test data also test_accuracy, test_value, test_violation and
        test_floor (the violation that a perfectly fair rule would show on it by chance, 95 % point).
    rules : tuple of FairRule
        The rule of each line.
    constant : dict
        (violation, value) of the best constant prediction, on "train" and "test" data.
    unconstrained : dict
        (violation, value) of the unconstrained rule, on "train" and "test" data.
    has_costs : bool
        Whether costs were given: a value is then minus the expected cost, else the accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import frontier
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> path = frontier(Z, "dp", tolerances=[0.05, 0.01], random_state=0)
    >>> path.table["tolerance"].tolist()
    [0.05, 0.01]
    """

    table: pd.DataFrame
    rules: tuple[FairRule, ...]
    constant: dict[str, tuple[float, float]]
    unconstrained: dict[str, tuple[float, float]]
    has_costs: bool = False

    def __repr__(self) -> str:
        t = self.table
        return (
            f"<Frontier of {len(t)} rules: tolerance {t['tolerance'].min():.4g} to {t['tolerance'].max():.4g}, "
            f"accuracy {t['accuracy'].min():.4f} to {t['accuracy'].max():.4f}; see .table, .area(), .plot()>"
        )

    def _repr_html_(self) -> str:
        names = ["tolerance", "accuracy", "violation", "gap", "price", "test_accuracy", "test_violation", "test_floor"]
        names = [name for name in names if name in self.table]
        lines = [[f"{value:.4f}" for value in line] for line in self.table[names].itertuples(index=False, name=None)]
        return table(
            f"Accuracy against fairness, {len(lines)} rules",
            [name.replace("_", " ") for name in names],
            lines,
            "gap: how far below the best rule within the same tolerance at most; price: accuracy gained per unit of "
            "tolerance. .plot() draws it, .html() writes a page.",
        )

    def pareto(self, on: str = "train") -> pd.DataFrame:
        """Return the lines that no other line beats in both value and violation.

        Parameters
        ----------
        on : {"train", "test"}, default "train"
            Data that value and violation are taken from.

        Returns
        -------
        pandas.DataFrame
            Lines of ``table``.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import frontier
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> len(frontier(Z, "dp", tolerances=[0.05, 0.01], random_state=0).pareto())
        2
        """
        value, violation = self._columns(on)
        return self.table[pareto_mask(self.table[violation].to_numpy(), self.table[value].to_numpy())]

    def area(self, on: str = "train") -> float:
        """Return the mean value over violations from 0 to that of the unconstrained rule.

        The frontier is straight between Pareto points, which a mixture of two rules attains. It starts at the best
        constant prediction, so rules that stay far from 0 (few tolerances, or test data with a high noise floor) are
        charged for that stretch.

        Parameters
        ----------
        on : {"train", "test"}, default "train"
            Data that value and violation are taken from.

        Returns
        -------
        float
            The mean height of the frontier.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import frontier
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> round(frontier(Z, "dp", tolerances=[0.05, 0.01], random_state=0).area(), 2)
        0.46
        """
        value, violation = self._columns(on)
        ends = np.array([self.constant[on], self.unconstrained[on]])
        v = np.append(self.table[violation].to_numpy(), ends[:, 0])
        a = np.append(self.table[value].to_numpy(), ends[:, 1])
        end = float(ends[1, 0])
        keep = pareto_mask(v, a)
        v, a = v[keep][np.argsort(v[keep])], a[keep][np.argsort(v[keep])]
        if end <= v[0]:
            return float(a[0])
        knots = np.unique(np.concatenate([v[v < end], [0.0, end]]))
        heights = np.interp(knots, v, a)
        return float(np.sum((heights[1:] + heights[:-1]) / 2 * np.diff(knots)) / end)

    def _columns(self, on: str) -> tuple[str, str]:
        """Return the names of the columns of value and violation."""
        if on == "train":
            return "value", "violation"
        if on == "test" and "test_value" in self.table:
            return "test_value", "test_violation"
        raise ValueError(f"on={on!r}: must be 'train', or 'test' when the frontier was computed with test=.")

    def plot(self, path: str | Path | None = None, ax: Any = None, on: str | None = None) -> Any:
        """Plot accuracy against violation; this needs matplotlib (extra ``plot``).

        Parameters
        ----------
        path : str or Path, optional
            File to write the picture to (.png, .svg, .pdf).
        ax : matplotlib Axes, optional
            Where to plot; new axes by default.
        on : {"train", "test"}, optional
            Data that value and violation are taken from; test data by default, where there are any.

        Returns
        -------
        matplotlib Axes
            The axes plotted on.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import frontier
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> axes = frontier(Z, "dp", tolerances=[0.05, 0.01], random_state=0).plot()  # doctest: +SKIP
        """
        on = on or ("test" if "test_value" in self.table else "train")
        value, violation = self._columns(on)
        ax = picture_axes("Frontier.plot", path, ax, (6, 4))
        if on == "test":
            floor = float(self.table["test_floor"].median())
            ax.axvspan(0, floor, color="0.88", zorder=0, label="noise floor (95 %)")
        best = self.pareto(on).sort_values(violation)
        rest = self.table.drop(best.index)
        ax.plot(best[violation], best[value], "o-", color="C0", markersize=4, label="Pareto frontier")
        if len(rest):
            ax.plot(rest[violation], rest[value], "o", color="0.55", markersize=4, label="other tolerances")
        ax.plot(*self.unconstrained[on], "s", color="C3", label="unconstrained")
        ax.set_xlim(left=0)
        ax.set_xlabel(f"violation ({on})")
        ax.set_ylabel(f"{'minus expected cost' if self.has_costs else 'accuracy'} ({on})")
        ax.legend(edgecolor="none", framealpha=0.9)
        if path is not None:
            write_picture(ax.figure, path)
        return ax


def pareto_mask(violation: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    """Return True where no other point is better in one and no worse in the other; of equal points for the first."""
    order = np.lexsort((-accuracy, violation))
    best = np.maximum.accumulate(np.concatenate([[-np.inf], accuracy[order][:-1]]))
    mask = np.zeros(len(violation), dtype=bool)
    mask[order] = accuracy[order] > best
    return mask
