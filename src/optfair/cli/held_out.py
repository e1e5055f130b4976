"""Choose the rows of a table that are tested on: a share, whole persons of it, or whole values of a column."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import numpy as np
import pandas as pd

from optfair.cli.columns import outcome_classes, pick_columns
from optfair.cli.paths import InputError
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.splits import held_out_rows

MOST_VALUES = 8  # of the column of --split-by that are named


def check_held_out(arguments: Namespace) -> None:
    """Check the options before anything is read."""
    share = arguments.test_size
    if share is not None and not 0 < share < 1:
        raise InputError(f"--test-size {share:g}: must be a share between 0 and 1, such as 0.3.")
    if arguments.split_by is not None and arguments.test is not None:
        raise InputError("--split-by: says which rows of FILE are tested on, and so does --test; give one of them.")


def split_column(arguments: Namespace, header: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the column of --split-by and its value, where it is given as COLUMN=VALUE."""
    text = arguments.split_by
    if text is None:
        return None, None
    column, equals, value = (text, "", "") if text in header else text.rpartition("=")
    column = column if equals else text
    return pick_columns([column], header, "--split-by")[0], value if equals else None


def rows_to_test(
    n: int, arguments: Namespace, cluster: pd.Series | None, split: pd.Series | None, value: str | None
) -> np.ndarray | None:
    """Return a mask, (n,), of the rows to test on, or None: neither all of them nor nobody.

    cluster : of the rows, each of which stays whole. split, value : the column of --split-by, and its value.
    """
    share, seed = arguments.test_size, arguments.seed
    if value is not None:
        assert split is not None
        if share is not None:
            raise InputError(f"--test-size {share:g}: --split-by says already which rows to test on; leave it out.")
        values = outcome_classes([value], split.unique().tolist(), f"--split-by {split.name}=", "value")
        return _checked(split.isin(values or ()).to_numpy(dtype=bool), f"--split-by {split.name}={value}", cluster)
    if share is None:
        if split is not None:
            raise InputError(
                f"--split-by {split.name}: say how many by --test-size, or which value to test on after an equals sign."
            )
        return None
    whole = cluster if split is None else split
    if whole is None:
        n_test = min(max(round(share * n), 1), n - 1)
        return np.isin(np.arange(n), np.random.default_rng(seed).permutation(n)[:n_test])
    mask = held_out_rows(np.zeros(n, dtype=int), share, seed, encode_clusters(whole, n))
    if mask.all() or not mask.any():
        raise InputError(
            f"--test-size {share:g}: --{'cluster' if split is None else 'split-by'} {whole.name} has "
            f"{whole.nunique()} values, of which none can be held out in that share; give a --test file."
        )
    return _checked(mask, f"--split-by {whole.name}", cluster if split is not None else None)


def held_out_people(split: pd.Series | None, mask: np.ndarray | None) -> str:
    """Return what the rows to test on are called. split : the column of --split-by. mask : of `rows_to_test`."""
    if split is None or mask is None:
        return "the held-out people"
    values = [str(value) for value in split[mask].unique().tolist()]
    rest = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    return f"the held-out people, {split.name}: {', '.join(values[:MOST_VALUES])}{rest}"


def _checked(mask: np.ndarray, option: str, cluster: pd.Series | None) -> np.ndarray:
    """Refuse a split that leaves nobody to fit on, or that has rows of a person on both sides."""
    if mask.all():
        raise InputError(f"{option}: holds out all rows; nobody is left to fit on.")
    if cluster is not None and (persons := set(cluster[mask]) & set(cluster[~mask])):
        raise InputError(f"{option}: {len(persons)} values of --cluster {cluster.name} would be on both sides.")
    return mask
