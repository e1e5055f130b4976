"""Describe a data set before it is loaded: the catalogue's entry and the files of its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFile:
    """A file as its source publishes it.

    Parameters
    ----------
    name : str
        Path below the data folder, for example "enem/microdados_enem_2020.zip".
    url : str, optional
        Address of the download; None where a person must fill in a form or accept a licence.
    by_hand : str, default ""
        Instructions for getting the file by hand.
    megabytes : float, optional
        Approximate size.
    checksum : str, optional
        Published checksum, "md5:..." or "sha256:..."; None where no checksum is published.
    checksum_origin : str, default ""
        Publisher of the checksum.
    unpacked : str, optional
        Path below the data folder of the unpacked file or folder, which is read instead where it exists.

    Examples
    --------
    >>> from optfair.datasets import entry
    >>> [file] = entry("compas").files
    >>> file.name, file.megabytes
    ('compas/compas-scores-two-years.csv', 2.5)
    """

    name: str
    url: str | None = None
    by_hand: str = ""
    megabytes: float | None = None
    checksum: str | None = None
    checksum_origin: str = ""
    unpacked: str | None = None


@dataclass(frozen=True)
class Entry:
    """What the catalogue records about a data set.

    Parameters
    ----------
    name : str
        Name for `load`.
    title : str
        One line about the data.
    task : str
        What is predicted, with the number of classes.
    groups : str
        The groups, with their numbers.
    people : str
        Number of rows.
    licence : str
        Licence of the source.
    page : str
        Web page of the source.
    reader : str
        Function that reads the files, "module:function" below `optfair.datasets`. It is called with a `LoadRequest`
        and the options of the data set.
    sensitive : tuple of str
        Choices of ``load(name, sensitive=...)``, the default first.
    citation : str, default ""
        Reference to cite.
    terms : str, default ""
        Terms of use, shown before a download.
    attributes : tuple of str, default ()
        Further choices of ``sensitive``; several together form intersections.
    files : tuple of SourceFile, default ()
        Files that the source publishes.
    local_files : tuple of str, default ()
        Files in ``$OPTFAIR_DATA`` that are read where the published files are absent.
    stand_in_for : str, optional
        The original, where this data set is a stand-in.
    embedded : bool, default False
        Whether the data come with the package.

    Examples
    --------
    >>> from optfair.datasets import entry
    >>> adult = entry("adult")
    >>> adult.task, adult.sensitive
    ('income above 50,000 dollars (2 classes)', ('sex', 'race', 'sex-race'))
    """

    name: str
    title: str
    task: str
    groups: str
    people: str
    licence: str
    page: str
    reader: str
    sensitive: tuple[str, ...]
    citation: str = ""
    terms: str = ""
    attributes: tuple[str, ...] = ()
    files: tuple[SourceFile, ...] = ()
    local_files: tuple[str, ...] = ()
    stand_in_for: str | None = None
    embedded: bool = False
