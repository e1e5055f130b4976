"""Run ``optfair datasets``: list the data sets, describe or download one, write one as a table."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from typing import Any

import pandas as pd

from optfair.cli.console import WIDTH, text_table
from optfair.cli.main import DONE
from optfair.cli.paths import InputError
from optfair.cli.tables import check_table_name, write_table
from optfair.datasets import Dataset, Entry, catalogue, entry, load, names, store
from optfair.datasets.registry import where

TEST_SHARE = 0.3
FILES_SHOWN = 3


def run(arguments: Namespace) -> int:
    """Print the list; or describe, download or write one data set."""
    if arguments.name is None:
        if arguments.output or arguments.download or arguments.test:
            raise InputError("NAME: missing; name the data set to download or write.")
        _print_list()
        return DONE
    if arguments.name not in names():
        raise InputError(f"{arguments.name}: there is no such data set; there are {', '.join(names())}.")
    for path in filter(None, (arguments.output, arguments.test)):
        check_table_name(path)
    if arguments.test and not arguments.output:
        raise InputError("--test: needs -o OUT, to which the other people are written.")
    description = entry(arguments.name)
    if arguments.download:
        _download(description)
    if arguments.output:
        _write(description, arguments.output, arguments.test)
    if not (arguments.download or arguments.output):
        _describe(description)
    return DONE


def _download(description: Entry) -> None:
    """Download the files that are not here, and print where they are."""
    if description.terms:
        print(description.terms)
    if not description.files:
        print(f"{description.name}: nothing to download; it is {where(description)}.")
    for file in description.files:
        print(store.obtain(file))


def _write(description: Entry, output: str, test_output: str | None) -> None:
    """Write a data set as a table, or as two."""
    options: dict[str, Any] = {"images": False} if description.name == "celeba" else {}
    data = load(description.name, **options)
    parts = {output: data}
    if test_output:
        parts = dict(zip((output, test_output), data.split(1 - TEST_SHARE), strict=True))
    groups = data.sensitive_features
    group_names = groups.columns if isinstance(groups, pd.DataFrame) else [groups.name]
    for path, part in parts.items():
        write_table(_as_table(part), path)
        print(f"{path}: {len(part):,} people; label {data.y.name!r}, groups {', '.join(map(repr, group_names))}")


def _as_table(data: Dataset) -> pd.DataFrame:
    """Return features, groups and label side by side."""
    if not isinstance(data.X, pd.DataFrame):
        raise InputError(f"{data.name}: holds images, which cannot be a table; load it in Python.")
    return pd.concat([data.X, data.sensitive_features, data.y], axis=1)


def _print_list() -> None:
    table = catalogue().reset_index()
    print(text_table(table[["name", "where", "people", "task"]]))
    print(f"\n$OPTFAIR_DATA: {store.data_folder() or 'not set'}\ncache: {store.cache_folder()}")
    print("optfair datasets NAME describes a data set; optfair datasets NAME -o FILE.csv writes it as a table.")


def _describe(description: Entry) -> None:
    lines = {
        "task": description.task,
        "groups": description.groups,
        "people": description.people,
        "source": f"{description.page} {description.citation}".strip(),
        "licence": f"{description.licence}. {description.terms}".strip(),
        "where": where(description),
        "stand-in": f"for {description.stand_in_for}" if description.stand_in_for else "",
    }
    print(f"{description.name}: {description.title}")
    for name, text in lines.items():
        if text:
            _print_wrapped(f"{name:<9} {text}", indent=10)
    for file in description.files[:FILES_SHOWN]:
        size = f", about {file.megabytes:g} MB" if file.megabytes else ""
        path = store.find(file)
        print(f"\n{file.name}{size}\n  {path or f'not here; it belongs at {store.cache_folder() / file.name}'}")
        for line in (file.url, file.checksum and f"{file.checksum} ({file.checksum_origin})", file.by_hand):
            if line:
                _print_wrapped(f"  {line}", indent=2)
    if len(description.files) > FILES_SHOWN:
        print(f"\n... and {len(description.files) - FILES_SHOWN} more files of this kind")
    for name in description.local_files:
        print(f"\n$OPTFAIR_DATA/{name}\n  {store.local(name) or 'not here'}")


def _print_wrapped(text: str, indent: int) -> None:
    print(textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False))
