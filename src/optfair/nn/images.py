"""`ImageDataset`: JPEG and PNG pictures as the numbers that networks read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from optfair.errors import need_extra

# Of ImageNet, by channel: what networks for photographs are usually given.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROPS = ("centre", "none")


class ImageDataset(Dataset[Any]):
    """x_i = (picture_i / 255 − mean) / std, (3, size, size) float32; items are (x, y, group), or what is given of it.

    The picture is decoded (Pillow), made RGB, cut to the largest square around its centre, and resized (bilinear).

    Parameters
    ----------
    images : bytes of a JPEG or PNG file each, or paths of files.
    y, group : a label and a group each, or None.
    crop : "centre"; or "none", to resize the whole picture as it is.
    cache : keep the decoded pictures in memory (3 · size² bytes each), from their first use on.
    """

    def __init__(
        self,
        images: Sequence[bytes | str | Path],
        y: Sequence[Any] | None = None,
        group: Sequence[Any] | None = None,
        *,
        size: int = 64,
        crop: str = "centre",
        cache: bool = False,
    ) -> None:
        need_extra("PIL.Image", "ImageDataset")
        if isinstance(images, bytes | str) or not hasattr(images, "__len__"):
            raise ValueError(f"images={type(images).__name__}: must be a sequence of files (paths or bytes).")
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"size={size!r}: must be a whole number of at least 1.")
        if crop not in CROPS:
            raise ValueError(f"crop={crop!r}: must be one of {', '.join(map(repr, CROPS))}.")
        for name, values in {"y": y, "group": group}.items():
            if values is not None and len(values) != len(images):
                raise ValueError(f"{name}: has {len(values)} entries, images {len(images)}; give one per image.")
        if group is not None and y is None:
            raise ValueError("group: given without y; items are (x, y, group), give y too.")
        self._images, self._size, self._crop = images, int(size), crop
        self._y, self._group = _as_list(y), _as_list(group)
        self._decoded: dict[int, np.ndarray] | None = {} if cache else None

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: int) -> Any:
        x = normalise(self.picture(row))
        if self._y is None:
            return x
        return (x, self._y[row]) if self._group is None else (x, self._y[row], self._group[row])

    def labels_and_groups(self) -> tuple[list[Any], list[Any] | None]:
        """(y, group) without decoding a picture."""
        if self._y is None:
            raise ValueError("y: missing, and the images have no labels; give y to ImageDataset or to fit.")
        return list(self._y), None if self._group is None else list(self._group)

    def picture(self, row: int) -> np.ndarray:
        """(size, size, 3) uint8"""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row={row}: there are {len(self)} images.")
        row %= len(self)
        if self._decoded is not None and row in self._decoded:
            return self._decoded[row]
        picture = decode(self._images[row], self._size, self._crop)
        if self._decoded is not None:
            self._decoded[row] = picture
        return picture


def decode(image: bytes | str | Path, size: int, crop: str = "centre") -> np.ndarray:
    """A file as (size, size, 3) uint8: the square [(w − s)/2, (w − s)/2 + s) × … with s = min(w, h), resized."""
    Image = need_extra("PIL.Image", "ImageDataset")
    source = io.BytesIO(image) if isinstance(image, bytes | bytearray | memoryview) else Path(image)
    try:
        opened = Image.open(source)
        picture = opened.convert("RGB")
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError) as error:  # Pillow's own class for a format it does not know is an OSError
        shown = f"{len(image)} bytes" if isinstance(image, bytes | bytearray | memoryview) else str(image)
        raise ValueError(f"images: {shown} cannot be decoded ({error}); must be a JPEG or PNG file.") from None
    width, height = picture.size
    box = None
    if crop == "centre":
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        box = (left, top, left + side, top + side)
    resized = picture.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized)


def normalise(picture: np.ndarray) -> torch.Tensor:
    """(p / 255 − mean) / std, channels first.   (h, w, 3) uint8 -> (3, h, w) float32"""
    mean, std = np.array(MEAN, dtype=np.float32), np.array(STD, dtype=np.float32)
    x = (picture.astype(np.float32) / np.float32(255) - mean) / std
    return torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))


def _as_list(values: Sequence[Any] | None) -> list[Any] | None:
    if values is None:
        return None
    return list(values.tolist() if hasattr(values, "tolist") else values)
