"""Every method by name: its class, the argument that trades accuracy for fairness, and what it can compare.

Benchmarks and documentation read this table. Classes are imported when they are asked for: some need torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from optfair.constraints.criteria import CRITERIA, short_name
from optfair.errors import need_extra

COMPARED = ("dp", "eop", "eo")


@dataclass(frozen=True)
class Method:
    """name : of the class, in ``module``. kind : "in" or "post". title : one line.

    knob : the argument that trades accuracy for fairness (None: there is none). grid : its values, from the least fair
    to the fairest, as far as it is monotone. bounds : what it bounds ("centre", "pairwise" or "ratio"), None where
    it bounds nothing. criteria : short names. output : "deterministic", "randomised" or "mixture".
    needs : the package that it needs beyond the core, or None.
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
        """The class."""
        if self.needs is not None:
            need_extra(self.needs, self.name)
        return getattr(importlib.import_module(self.module), self.name)

    def make(self, criterion: str = "dp", value: float | None = None, **options: Any) -> Any:
        """The classifier for a criterion at one value of its knob (None: the default); ``options`` are its own."""
        known = isinstance(criterion, str) and criterion in {*CRITERIA, *CRITERIA.values()}
        if not known or (self.criteria and short_name(criterion) not in self.criteria):
            able = ", ".join(map(repr, self.criteria or COMPARED))
            raise ValueError(f"criterion={criterion!r}: methods are compared by {able}; others go to the class itself.")
        if value is not None and self.knob is None:
            raise ValueError(f"value={value!r}: {self.name} has no knob.")
        given: dict[str, Any] = {} if value is None else {str(self.knob): value}
        return self.load()(**({"criterion": criterion} if self.criteria else {}) | given | options)


def _method(name: str, module: str, *rest: Any, **more: Any) -> Method:
    return Method(name, f"optfair.{module}", *rest, **more)


_CENTRE = (0.1, 0.05, 0.02, 0.01, 0.001)
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
            COMPARED,
            "deterministic",
            needs="torch",
        ),
        _method(
            "WeightedERM",
            "baselines.weighted_erm",
            "in",
            "weights of mistakes by exponentiated gradient (Yang, Cisse, Koyejo 2020)",
            "tolerance",
            _CENTRE,
            "centre",
            COMPARED,
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
            COMPARED,
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
            COMPARED,
            "deterministic",
            needs="torch",
        ),
        _method(
            "OptFairIn",
            "inprocess",
            "in",
            "a game between the learner and the multipliers (ours)",
            "tolerance",
            _CENTRE,
            "centre",
            COMPARED,
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
            COMPARED,
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
            COMPARED,
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
            COMPARED,
            "deterministic",
            needs="torch",
        ),
        _method(
            "OptFairPost",
            "post",
            "post",
            "the certified optimum over posteriors (ours)",
            "tolerance",
            _CENTRE,
            "centre",
            COMPARED,
            "randomised",
        ),
    )
}
