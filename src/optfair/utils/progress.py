"""Show progress bars, where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from optfair.errors import need_extra


@contextmanager
def progress_bar(total: int, initial: int, unit: str, *, visible: bool) -> Iterator[Callable[..., None]]:
    """Yield a function that advances the bar by one and shows the numbers it is given by name."""
    if not visible:
        yield lambda **numbers: None
        return
    with need_extra("tqdm", "progress=True").tqdm(total=total, initial=initial, unit=unit) as bar:

        def advance(**numbers: float) -> None:
            bar.set_postfix({name: f"{number:.4f}" for name, number in numbers.items()})
            bar.update()

        yield advance
