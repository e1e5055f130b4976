"""Say which data an experiment is about: where the rows come from, how they are split, which model goes with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optfair.datasets.registry import entry, where
from optfair.errors import DataFileError

AVAILABLE = ("in the package", "$OPTFAIR_DATA", "cache")  # places where no download is needed
SYNTHETIC = "made up"  # the source of synthetic data, as committed lines call it


@dataclass(frozen=True)
class DataPlan:
    """A table of data.toml.

    sources : arguments of `load`, the original first. synthetic : arguments of `make_fair_classification`.
    model : settings of the network, or the name of another (`base_models.base_model`); None: that of the class.
    truth : score also by the true posteriors. tuned : whether trials choose settings; tuned_on : the data whose
    trials choose. features_of : the data whose network, frozen, gives the features. trials : instead of the methods'.
    split : "authors" (that of the paper's code) or "random". rows : a random sample of so many. arrays : X is an array
    of doubles instead of a table of singles. expected : score the probabilities instead of predictions.
    installed : methods have the options of their classes, not those of methods.toml. crossed : further attributes of
    the groups, by their names, and the columns of X that they are made of. train_share : of the rows, instead of the
    paper's.
    """

    name: str
    title: str
    seeds: Sequence[int]
    model: Mapping[str, Any] | None = None
    sources: Sequence[Mapping[str, Any]] = ()
    synthetic: Mapping[str, Any] | None = None
    truth: bool = False
    tuned: bool = True
    tuned_on: str | None = None
    features_of: str | None = None
    trials: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    split: str = "authors"
    rows: int | None = None
    arrays: bool = False
    expected: bool = False
    installed: bool = False
    crossed: Mapping[str, str] | None = None
    train_share: float | None = None

    def load_arguments(self, source: str) -> dict[str, Any]:
        """Return the arguments of the function that loads this source, without its name."""
        if self.synthetic is not None:
            return dict(self.synthetic)
        arguments = next((dict(option) for option in self.sources if option["name"] == source), {})
        return {name: value for name, value in arguments.items() if name != "name"}

    def vary(self, values: Mapping[str, Sequence[Any]]) -> Iterator[DataPlan]:
        """Yield one plan per value of each argument of ``synthetic``, the other arguments unchanged."""
        assert self.synthetic is not None
        for argument, sizes in values.items():
            for size in sizes:
                synthetic = {**self.synthetic, argument: size}
                shape = f"{synthetic['n_samples']} x {synthetic['n_classes']} x {synthetic['n_groups']}"
                yield replace(self, name=f"{self.name} {shape}", synthetic=synthetic)


def available_source(plan: DataPlan, *, smoke: bool = False) -> str:
    """Return the name of the first source that is available, the original before its stand-in."""
    if plan.synthetic is not None:
        return SYNTHETIC
    for source in plan.sources:
        if where(entry(source["name"])) in AVAILABLE:
            return str(source["name"])
    if smoke:
        return SYNTHETIC
    names = [str(source["name"]) for source in plan.sources]
    commands = " or ".join(f"`optfair datasets {name}`" for name in names)
    raise DataFileError(
        f"{plan.title}: {' or '.join(names)} is neither in $OPTFAIR_DATA nor in the cache; {commands} says how to "
        "get it."
    )
