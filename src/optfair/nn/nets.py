"""Make the networks of the paper by name: (input shape, m) to a module that returns (rows, m) logits."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

Factory: TypeAlias = Callable[[tuple[int, ...], int], nn.Module]

MODULES = ("linear", "mlp", "resnet")
CHANNELS = (64, 128, 256)  # of the residual blocks of "resnet"


def make_module(
    module: str | Factory,
    input_shape: tuple[int, ...],
    n_outputs: int,
    *,
    hidden: Sequence[int] = (200,),
    dropout: float = 0.3,
) -> nn.Module:
    """Make a network that reads ``(rows, *input_shape)`` and returns logits of shape ``(rows, n_outputs)``.

    Parameters are drawn from torch's global generator, as torch's modules do.

    Parameters
    ----------
    module : {"linear", "mlp", "resnet"} or callable
        The kind of network. "linear" is Wx + b. "mlp" has Linear and ReLU for each width in ``hidden``, Dropout, and
        Linear; hidden=(200,) is the paper's 1nn and (200, 100, 50) its 2nn. "resnet" is the paper's network for images
        (channels, height, width). A callable (input_shape, n_outputs) -> torch.nn.Module makes a network of its own,
        which is tried on two rows of zeros.
    input_shape : tuple of int
        The shape of one row.
    n_outputs : int
        The number of classes.
    hidden : sequence of int, default (200,)
        Widths of the hidden layers of "mlp".
    dropout : float, default 0.3
        Share of the units that are dropped before the output of "mlp" and "resnet".

    Returns
    -------
    torch.nn.Module
        The network.

    Raises
    ------
    ValueError
        If the name is unknown, "resnet" is to read rows that are no images, or a callable does not return a module with
        trainable parameters whose logits have the shape (rows, n_outputs).

    Examples
    --------
    >>> from optfair.nn import make_module
    >>> make_module("mlp", (4,), 3, hidden=(5,))
    Sequential(
      (0): Linear(in_features=4, out_features=5, bias=True)
      (1): ReLU()
      (2): Dropout(p=0.3, inplace=False)
      (3): Linear(in_features=5, out_features=3, bias=True)
    )
    """
    if callable(module):
        return _from_factory(module, input_shape, n_outputs)
    if module == "resnet":
        if len(input_shape) != 3:
            raise ValueError(
                f"module='resnet': needs images (channels, height, width), the rows of X have shape {input_shape}; "
                "give X with 4 dimensions, or another module."
            )
        return ResNet(input_shape[0], n_outputs, dropout)
    if module not in MODULES:
        raise ValueError(
            f"module={module!r}: must be one of {', '.join(map(repr, MODULES))}, or a callable (input_shape, "
            "n_outputs) -> torch.nn.Module."
        )
    width = math.prod(input_shape)
    layers: list[nn.Module] = [] if len(input_shape) == 1 else [nn.Flatten()]
    if module == "mlp":
        for next_width in hidden:
            layers += [nn.Linear(width, next_width), nn.ReLU()]
            width = next_width
        layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(width, n_outputs))
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)


def _from_factory(factory: Factory, input_shape: tuple[int, ...], n_outputs: int) -> nn.Module:
    """Return the module of the factory, tried on two rows of zeros."""
    name = getattr(factory, "__name__", repr(factory))
    if isinstance(factory, nn.Module):
        raise ValueError(
            f"module={type(factory).__name__}(...): is a module; must be a function (input_shape, n_outputs) -> "
            "module, as every fit makes its own."
        )
    try:
        inspect.signature(factory).bind(input_shape, n_outputs)
    except TypeError as error:
        raise ValueError(f"module={name}: must be callable as (input_shape, n_outputs); {error}.") from None
    except ValueError:  # it has no signature to check
        pass
    net = factory(input_shape, n_outputs)
    # A factory may build around a module that others use too, so a copy is trained.
    net = copy.deepcopy(net) if isinstance(net, nn.Module) else net
    if not isinstance(net, nn.Module):
        raise ValueError(f"module={name}: gave a {type(net).__name__}; must give a torch.nn.Module.")
    parameter = next((p for p in net.parameters() if p.requires_grad), None)
    if parameter is None:
        raise ValueError(f"module={name}: gave a module without parameters to train; must have some.")
    with torch.no_grad():
        f = net.eval()(torch.zeros((2, *input_shape), dtype=parameter.dtype, device=parameter.device))
    if not isinstance(f, Tensor) or f.shape != (2, n_outputs):
        shape = tuple(f.shape) if isinstance(f, Tensor) else type(f).__name__
        raise ValueError(
            f"module={name}: gives {shape} for 2 rows and {n_outputs} classes; must give logits of shape "
            f"(2, {n_outputs})."
        )
    return net


class ResidualBlock(nn.Module):
    """ReLU(x' + BN(conv3(ReLU(BN(conv3/s(x)))))), with x' = x, or conv1/s(x) where the shape changes."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride=stride, padding=1)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(out_channels)
        changes = stride != 1 or channels != out_channels
        self.shortcut = nn.Conv2d(channels, out_channels, 1, stride=stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (rows, channels, h, w) to (rows, out_channels, ⌈h/s⌉, ⌈w/s⌉)."""
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.shortcut(x) + self.norm2(self.conv2(h)))


class ResNet(nn.Sequential):
    """The paper's network for images.

    layer                             output for (3, 64, 64)
    conv 7×7, stride 2; BN; ReLU      (64, 32, 32)
    max pool 3×3, stride 2            (64, 16, 16)
    residual block                    (64, 16, 16)
    residual block, stride 2          (128, 8, 8)
    residual block, stride 2          (256, 4, 4)
    average over all places; Dropout  (256,)
    Linear                            (m,)
    """

    def __init__(self, channels: int, n_outputs: int, dropout: float) -> None:
        width = CHANNELS[0]
        layers: list[nn.Module] = [
            nn.Conv2d(channels, width, 7, stride=2, padding=3),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        for next_width in CHANNELS:
            layers.append(ResidualBlock(width, next_width, stride=1 if next_width == width else 2))
            width = next_width
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(width, n_outputs)]
        super().__init__(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map (rows, channels, h, w) to (rows, m) logits."""
        # A fifth faster on a processor with the channels last in memory.
        logits: Tensor = super().forward(x.contiguous(memory_format=torch.channels_last))
        return logits
