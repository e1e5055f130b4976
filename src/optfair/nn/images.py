"""`ImageDataset`: JPEG and PNG images as the numbers that networks read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from optfair.errors import need_extra
from optfair.utils.checks import check_choice, check_integer

# Mean and deviation of ImageNet, by channel: networks for photographs usually read images scaled by these.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CROPS = ("centre", "none")


class ImageDataset(Dataset[Any]):
    """Read images as x_i = (image_i / 255 − mean) / std, (3, size, size) float32.

    Items are x, (x, y) or (x, y, group), as far as labels and groups are given. An image is decoded (Pillow), converted
    to RGB, cut to the largest square around its centre, and resized (bilinear).

    Parameters
    ----------
    images : sequence of bytes, str or Path
        The content of a JPEG or PNG file each, or the paths of files.
    y : sequence, default None
        A label for each image.
    group : sequence, default None
        A group for each image; only together with ``y``.
    size : int, default 64
        Height and width of the resized images.
    crop : {"centre", "none"}, default "centre"
        Whether to cut the square around the centre, or to resize the whole image as it is.
    cache : bool, default False
        Whether to keep the decoded images in memory (3 · size² bytes each), from their first use on.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from PIL import Image
    >>> from optfair.nn import ImageDataset
    >>> file = io.BytesIO()
    >>> Image.fromarray(np.full((10, 12, 3), 255, dtype=np.uint8)).save(file, "PNG")
    >>> images = ImageDataset([file.getvalue()], ["white"], size=8)
    >>> x, y = images[0]
    >>> tuple(x.shape), y
    ((3, 8, 8), 'white')
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
        size, crop = check_integer("size", size, 1), check_choice("crop", crop, CROPS)
        for name, values in {"y": y, "group": group}.items():
            if values is not None and len(values) != len(images):
                raise ValueError(f"{name}: has {len(values)} entries, images {len(images)}; give one per image.")
        if group is not None and y is None:
            raise ValueError("group: given without y; items are (x, y, group), give y too.")
        self._images, self._size, self._crop = images, size, crop
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
        """Return the labels and groups without decoding an image.

        Returns
        -------
        tuple of (list, list or None)
            The labels and the groups; None where there are no groups.

        Raises
        ------
        ValueError
            If the images have no labels.

        Examples
        --------
        >>> from optfair.nn import ImageDataset
        >>> ImageDataset(["a.png", "b.png"], ["yes", "no"], [0, 1]).labels_and_groups()
        (['yes', 'no'], [0, 1])
        """
        if self._y is None:
            raise ValueError("y: missing, and the images have no labels; give y to ImageDataset or to fit.")
        return list(self._y), None if self._group is None else list(self._group)

    def picture(self, row: int) -> np.ndarray:
        """Return one image as it is before it is scaled.

        Parameters
        ----------
        row : int
            The position of the image; negative ones count from the end.

        Returns
        -------
        ndarray of uint8 of shape (size, size, 3)
            The pixels, in RGB.

        Examples
        --------
        >>> import io
        >>> import numpy as np
        >>> from PIL import Image
        >>> from optfair.nn import ImageDataset
        >>> file = io.BytesIO()
        >>> Image.fromarray(np.full((10, 12, 3), 7, dtype=np.uint8)).save(file, "PNG")
        >>> ImageDataset([file.getvalue()], size=2).picture(0)[0, 0].tolist()
        [7, 7, 7]
        """
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
    """Return a file as (size, size, 3) uint8: the square [(w − s)/2, (w − s)/2 + s) × … with s = min(w, h), resized."""
    Image = need_extra("PIL.Image", "ImageDataset")
    source = io.BytesIO(image) if isinstance(image, bytes | bytearray | memoryview) else Path(image)
    try:
        opened = Image.open(source)
        picture = opened.convert("RGB")
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError) as error:  # Pillow's error for an unknown format is an OSError
        name = f"{len(image)} bytes" if isinstance(image, bytes | bytearray | memoryview) else str(image)
        raise ValueError(f"images: {name} cannot be decoded ({error}); must be a JPEG or PNG file.") from None
    width, height = picture.size
    box = None
    if crop == "centre":
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        box = (left, top, left + side, top + side)
    resized = picture.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized)


def normalise(picture: np.ndarray) -> torch.Tensor:
    """Return (p / 255 − mean) / std, channels first.   (h, w, 3) uint8 -> (3, h, w) float32"""
    mean, std = np.array(MEAN, dtype=np.float32), np.array(STD, dtype=np.float32)
    x = (picture.astype(np.float32) / np.float32(255) - mean) / std
    return torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1)))


def _as_list(values: Sequence[Any] | None) -> list[Any] | None:
    if values is None:
        return None
    return list(values.tolist() if hasattr(values, "tolist") else values)
