"""Fit the methods the paper compares with, as scikit-learn classifiers: one idea and one file each.

    ERM             no constraint
    WeightedERM     any learner, weights of mistakes by exponentiated gradient
    AdvDebias       a network against an adversary that guesses the group       (extra ``torch``)
    FairBatch       a network, groups drawn into batches by their loss          (extra ``torch``)
    FDivergence     a network, penalised by how far groups' outputs differ      (extra ``torch``)
    Frappe          an additive correction of a fitted model's logits           (extra ``torch``)
    FairProjection  the nearest probabilities whose rates are fair
    LinearPost      the linear program over posteriors, deterministic

`METHODS` names for each of them, and for the methods of this library, the argument that trades accuracy for fairness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optfair.baselines.erm import ERM
    from optfair.baselines.fair_projection import FairProjection
    from optfair.baselines.linear_post import LinearPost
    from optfair.baselines.networks.adv_debias import AdvDebias
    from optfair.baselines.networks.f_divergence import FDivergence
    from optfair.baselines.networks.fair_batch import FairBatch
    from optfair.baselines.networks.frappe import Frappe
    from optfair.baselines.registry import METHODS
    from optfair.baselines.weighted_erm import WeightedERM

__all__ = [
    "ERM",
    "METHODS",
    "AdvDebias",
    "FDivergence",
    "FairBatch",
    "FairProjection",
    "Frappe",
    "LinearPost",
    "WeightedERM",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'optfair.baselines' has no attribute {name!r}")
    from optfair.baselines import registry

    return registry.METHODS if name == "METHODS" else registry.METHODS[name].load()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
