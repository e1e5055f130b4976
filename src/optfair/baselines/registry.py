"""List every method by name: its class, the argument that trades accuracy for fairness, and what it can compare.

Benchmarks and documentation read this table. Classes are imported when they are needed: some need torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from optfair.constraints.criteria import CRITERIA, short_name
from optfair.errors import need_extra

COMPARED_CRITERIA = ("dp", "eop", "eo")  # those that every method of the paper has


@dataclass(frozen=True)
class Method:
    """Describe one method of the comparison.

    Parameters
    ----------
    name : str
        Name of the class, in ``module``.
    module : str
        Full name of the module.
    kind : {"in", "post"}
        Whether the method trains a model or corrects a fitted one.
    title : str
        One line that describes it.
    knob : str or None
        The argument that trades accuracy for fairness; None where there is none.
    grid : tuple of float
        Values of the knob, from the least fair to the fairest, as far as it is monotone.
    bounds : {"centre", "pairwise", "ratio"} or None
        What the knob bounds; None where it bounds nothing.
    criteria : tuple of str
        Short names of the criteria that it can compare by.
    output : {"deterministic", "randomised", "mixture"}
        The kind of predictions.
    needs : str or None, default None
        The package that it needs beyond the core.

    Examples
    --------
    >>> from optfair.baselines import METHODS
    >>> METHODS["LinearPost"].make("eo", 0.05)
    LinearPost(alpha=0.05, criterion='eo')
    """

    name: str
    module: str
    kind: str
    title: str
    knob: str | None
    grid: tuple[float, ...]
    bounds: str | None
    criteria: tuple[str, ...]
    output: str
    needs: str | None = None

    def load(self) -> Any:
        """Import the class of the method.

        Returns
        -------
        type
            The class.

        Raises
        ------
        ImportError
            If the package that it needs is not installed.

        Examples
        --------
        >>> from optfair.baselines import METHODS
        >>> METHODS["ERM"].load().__name__
        'ERM'
        """
        if self.needs is not None:
            need_extra(self.needs, self.name)
        return getattr(importlib.import_module(self.module), self.name)

    def make(self, criterion: str = "dp", value: float | None = None, **options: Any) -> Any:
        """Make the classifier for a criterion, at one value of its knob.

        Parameters
        ----------
        criterion : str, default "dp"
            Short or long name of one of ``criteria``.
        value : float, default None
            Value of the knob; None is the default of the class.
        **options : dict
            Other arguments of the class.

        Returns
        -------
        classifier
            The classifier, not fitted.

        Examples
        --------
        >>> from optfair.baselines import METHODS
        >>> METHODS["WeightedERM"].make("dp", 0.02, rounds=10)
        WeightedERM(criterion='dp', rounds=10, tolerance=0.02)
        """
        valid = isinstance(criterion, str) and criterion in {*CRITERIA, *CRITERIA.values()}
        if not valid or (self.criteria and short_name(criterion) not in self.criteria):
            names = ", ".join(map(repr, self.criteria or COMPARED_CRITERIA))
            raise ValueError(
                f"criterion={criterion!r}: methods are compared by {names}; others go to the class itself."
            )
        if value is not None and self.knob is None:
            raise ValueError(f"value={value!r}: {self.name} has no knob.")
        setting: dict[str, Any] = {} if value is None else {str(self.knob): value}
        return self.load()(**({"criterion": criterion} if self.criteria else {}) | setting | options)


def _method(name: str, module: str, *fields: Any, **options: Any) -> Method:
    return Method(name, f"optfair.{module}", *fields, **options)


_CENTRE_GRID = (0.1, 0.05, 0.02, 0.01, 0.001)
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        _method("ERM", "baselines.erm", "in", "plain training", None, (), None, (), "deterministic"),
        _method(
            "AdvDebias",
            "baselines.networks.adv_debias",
            "in",
            "an adversary guesses the group from the answer (Zhang, Lemoine, Mitchell 2018)",
            "alpha",
            (0.05, 0.1, 0.3, 1.0, 3.0),
            None,
            COMPARED_CRITERIA,
            "deterministic",
            needs="torch",
        ),
        _method(
            "WeightedERM",
            "baselines.weighted_erm",
            "in",
            "weights of mistakes by exponentiated gradient (Yang, Cisse, Koyejo 2020)",
            "tolerance",
            _CENTRE_GRID,
            "centre",
            COMPARED_CRITERIA,
            "mixture",
        ),
        _method(
            "FairBatch",
            "baselines.networks.fair_batch",
            "in",
            "groups drawn into batches by their loss (Roh et al. 2021)",
            "alpha",
            (0.002, 0.005, 0.01, 0.02, 0.05),
            None,
            COMPARED_CRITERIA,
            "deterministic",
            needs="torch",
        ),
        _method(
            "FDivergence",
            "baselines.networks.f_divergence",
            "in",
            "outputs of the groups penalised by an f-divergence (Zhong, Tandon 2023)",
            "fairness_weight",
            (0.3, 1.0, 3.0, 10.0, 30.0),
            None,
            COMPARED_CRITERIA,
            "deterministic",
            needs="torch",
        ),
        _method(
            "OptFairIn",
            "estimators.inprocess",
            "in",
            "a game between the learner and the multipliers (ours)",
            "tolerance",
            _CENTRE_GRID,
            "centre",
            COMPARED_CRITERIA,
            "mixture",
        ),
        _method(
            "FairProjection",
            "baselines.fair_projection",
            "post",
            "the nearest probabilities with fair rates (Alghamdi et al. 2022)",
            "alpha",
            (0.5, 0.3, 0.1, 0.05, 0.01),
            "ratio",
            COMPARED_CRITERIA,
            "randomised",
        ),
        _method(
            "LinearPost",
            "baselines.linear_post",
            "post",
            "a linear program over posteriors (Xian, Zhao 2024)",
            "alpha",
            (0.1, 0.05, 0.02, 0.01, 0.001),
            "pairwise",
            COMPARED_CRITERIA,
            "deterministic",
        ),
        _method(
            "Frappe",
            "baselines.networks.frappe",
            "post",
            "a correction of the logits that matches the groups' outputs (Țifrea et al. 2024)",
            "fairness_weight",
            (0.3, 1.0, 3.0, 10.0, 30.0),
            None,
            COMPARED_CRITERIA,
            "deterministic",
            needs="torch",
        ),
        _method(
            "OptFairPost",
            "estimators.post",
            "post",
            "the certified optimum over posteriors (ours)",
            "tolerance",
            _CENTRE_GRID,
            "centre",
            COMPARED_CRITERIA,
            "randomised",
        ),
    )
}
