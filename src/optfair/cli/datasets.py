"""``optfair datasets``: what there is, where it is, how to get it; a data set as a table."""

from __future__ import annotations

import textwrap
from argparse import Namespace

import pandas as pd

from optfair.cli.console import WIDTH, text_table
from optfair.cli.main import DONE
from optfair.cli.tables import InputError, check_table_name, write_table
from optfair.datasets import Dataset, Entry, catalogue, entry, load, names, store
from optfair.datasets.registry import where

TEST_SHARE = 0.3


def run(arguments: Namespace) -> int:
    """The list; or one data set: described, downloaded, written to a table."""
    if arguments.name is None:
        if arguments.output or arguments.download or arguments.test:
            raise InputError("NAME: missing; say which data set to download or write.")
        _tell_all()
        return DONE
    if arguments.name not in names():
        raise InputError(f"{arguments.name}: there is no such data set; there are {', '.join(names())}.")
    known = entry(arguments.name)
    for path in filter(None, (arguments.output, arguments.test)):
        check_table_name(path)
    if arguments.test and not arguments.output:
        raise InputError("--test: goes with -o, where the other people are written.")
    if arguments.download:
        if known.terms:
            print(known.terms)
        if not known.files:
            print(f"{known.name}: nothing to download; it is {where(known)}.")
        for file in known.files:
            print(store.obtain(file))
    if arguments.output:
        data = load(known.name, **({"images": False} if known.name == "celeba" else {}))
        parts = {arguments.output: data}
        if arguments.test:
            parts = dict(zip((arguments.output, arguments.test), data.split(1 - TEST_SHARE), strict=True))
        for path, part in parts.items():
            write_table(as_table(part), path)
            print(f"{path}: {len(part):,} people; label {data.y.name!r}, groups {_group_columns(data)}")
    if not (arguments.download or arguments.output):
        _describe(known)
    return DONE


def as_table(data: Dataset) -> pd.DataFrame:
    """Features, groups and label side by side."""
    if not isinstance(data.X, pd.DataFrame):
        raise InputError(f"{data.name}: holds images, which are no table; load it in Python.")
    return pd.concat([data.X, data.sensitive_features, data.y], axis=1)


def _group_columns(data: Dataset) -> str:
    groups = data.sensitive_features
    return ", ".join(repr(name) for name in (groups.columns if isinstance(groups, pd.DataFrame) else [groups.name]))


def _tell_all() -> None:
    table = catalogue().reset_index()
    print(text_table(table[["name", "where", "people", "task"]]))
    print(f"\n$OPTFAIR_DATA: {store.data_folder() or 'not set'}\ncache: {store.cache_folder()}")
    print("optfair datasets NAME tells more of one; optfair datasets NAME -o FILE.csv writes it as a table.")


def _describe(known: Entry) -> None:
    lines = {
        "task": known.task,
        "groups": known.groups,
        "people": known.people,
        "source": f"{known.page} {known.citation}".strip(),
        "licence": f"{known.licence}. {known.terms}".strip(),
        "where": where(known),
        "stand-in": f"for {known.stand_in_for}" if known.stand_in_for else "",
    }
    print(f"{known.name}: {known.title}")
    for name, text in lines.items():
        if text:
            print(textwrap.fill(f"{name:<9} {text}", WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False))
    for file in known.files[:3]:
        found = store.find(file)
        size = f", about {file.megabytes:g} MB" if file.megabytes else ""
        print(f"\n{file.name}{size}\n  {found or f'to be put at {store.cache_folder() / file.name}'}")
        for line in (file.url, file.checksum and f"{file.checksum} ({file.checksum_origin})", file.by_hand):
            if line:
                print(textwrap.fill(f"  {line}", WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    if len(known.files) > 3:
        print(f"\n... and {len(known.files) - 3} files more like these")
    for name in known.local_files:
        print(f"\n$OPTFAIR_DATA/{name}\n  {store.local(name) or 'not there'}")
