"""Draw on axes that are given or new, and write pictures that are whole or absent (extra ``plot``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optfair.errors import need_extra
from optfair.utils.files import replacing

PICTURE_FORMATS = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


def check_picture_path(path: str | Path) -> None:
    """Check the ending of the name of a picture."""
    if Path(path).suffix.lower() not in PICTURE_FORMATS:
        raise ValueError(f"path={str(path)!r}: the name of a picture must end in {', '.join(PICTURE_FORMATS)}.")


def picture_axes(caller: str, path: str | Path | None, ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw on, after checking the path. size : width and height of new axes, in inches."""
    if path is not None:
        if hasattr(path, "get_figure"):
            raise TypeError(f"{caller}: axes are given by name, as in plot(ax=axes).")
        check_picture_path(path)
    pyplot = need_extra("matplotlib.pyplot", caller)
    return pyplot.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def write_picture(figure: Any, path: str | Path) -> None:
    """Write a figure to a file, completely or not at all."""
    with replacing(Path(path)) as temporary:
        figure.savefig(temporary, format=Path(path).suffix[1:].lower(), dpi=DOTS_PER_INCH)
