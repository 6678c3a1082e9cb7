"""Small networks of thirty architectures, with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = 3


class Architecture(NamedTuple):
    """How a network is built, and what it takes."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    """Of one sample."""
    method: Literal["script", "trace"] = "script"


class Residual(nn.Module):
    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = nn.Identity() if shortcut is None else shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class Branches(nn.Module):
    """The outputs of several modules next to each other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        for branch in self.branches:
            outputs.append(branch(x))  # noqa: PERF401  TorchScript knows no comprehension over modules
        return torch.cat(outputs, dim=1)


class Mean(nn.Module):
    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = list(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=self.dims)


class Swapped(nn.Module):
    """Runs a module with the dimensions 1 and the last one exchanged."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.transpose(1, -1)).transpose(1, -1)


class Recurrent(nn.Module):
    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cell(x)
        return states[:, -1]


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.Conv2d(channels, 2, 1), nn.SiLU(), nn.Conv2d(2, channels, 1), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x.mean(dim=[2, 3], keepdim=True))


class ChannelShuffle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows, channels, height, width = x.shape
        return x.view(rows, 2, channels // 2, height, width).transpose(1, 2).reshape(rows, channels, height, width)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 6, 3, padding=1)
        self.bottom = nn.Conv2d(6, 6, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(6, 6, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        down = torch.relu(self.down(x))
        return torch.cat([down, self.up(torch.relu(self.bottom(down)))], dim=1)


class Causal(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.convolution = nn.Conv1d(channels, channels, 2, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.convolution(functional.pad(x, [self.dilation, 0])))


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 5, 8))
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], dim=1)
        return self.encoder(tokens + self.positions)[:, 0]


class MixtureOfExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.Parameter(torch.randn(4, 6, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("be,bi,eio->bo", self.gate(x).softmax(dim=1), x, self.experts)


class Highway(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 12) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            value, gate = layer(x).chunk(2, dim=1)
            share = torch.sigmoid(gate)
            x = share * torch.relu(value) + (1 - share) * x
        return x


class AttentionPool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        query = self.query.expand(x.shape[0], -1, -1)
        return functional.scaled_dot_product_attention(query, x, x).squeeze(1)


class BagOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8, padding_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x.abs().mul(3).clamp(0, 9).long()).sum(dim=1)


class Capsules(nn.Module):
    """Three turns of routing by agreement."""

    def __init__(self) -> None:
        super().__init__()
        self.votes = nn.Parameter(torch.randn(4, 2, 3, 5))

    def forward(self, x: Tensor) -> Tensor:
        votes = torch.einsum("bi,ijkl->bijl", x, self.votes.sum(dim=2, keepdim=True))
        agreement = torch.zeros(x.shape[0], 4, 2, 1)
        capsules = votes.sum(dim=1)
        for _ in range(3):
            capsules = torch.tanh((agreement.softmax(dim=2) * votes).sum(dim=1))
            agreement = agreement + (votes * capsules.unsqueeze(1)).sum(dim=-1, keepdim=True)
        return capsules.flatten(1)


def _convolution(inputs: int, outputs: int, **settings: int) -> nn.Sequential:
    """Return a 3x3 convolution with batch normalisation, whose statistics are those of no batch, and a ReLU."""
    norm = nn.BatchNorm2d(outputs)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, **{"padding": 1, **settings}), norm, nn.ReLU())


def _pool() -> nn.Module:
    return nn.AdaptiveAvgPool2d(1)


IMAGE, SEQUENCE, FEATURES = (3, 8, 8), (6, 5), (6,)
"""Channels, height and width; steps and features."""
ARCHITECTURES: dict[str, Architecture] = {
    "perceptron": Architecture(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU()), FEATURES),
    "perceptron-with-normalised-features": Architecture(
        lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 8), nn.GELU(), nn.Dropout(), nn.LayerNorm(8)), FEATURES
    ),
    "lenet": Architecture(
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 8), nn.Sigmoid())
        ),
        IMAGE,
    ),
    "vgg": Architecture(
        lambda: nn.Sequential(_convolution(3, 4), _convolution(4, 4), nn.MaxPool2d(2), _convolution(4, 8)), IMAGE
    ),
    "resnet": Architecture(
        lambda: nn.Sequential(
            *(_convolution(3, 4), Residual(nn.Sequential(_convolution(4, 4), nn.Conv2d(4, 4, 3, padding=1))), nn.ReLU())
        ),
        IMAGE,
    ),
    "resnet-with-a-stride": Architecture(
        lambda: nn.Sequential(
            Residual(
                nn.Sequential(nn.Conv2d(3, 2, 1), _convolution(2, 2, stride=2), nn.Conv2d(2, 8, 1)),
                nn.Conv2d(3, 8, 1, stride=2),
            ),
            nn.ReLU(),
            _pool(),
        ),
        IMAGE,
    ),
    "resnext": Architecture(lambda: Residual(_convolution(4, 4, groups=2)), (4, 8, 8)),
    "densenet": Architecture(
        lambda: nn.Sequential(
            *(Branches(nn.Identity(), _convolution(3, 4)), Branches(nn.Identity(), _convolution(7, 4)), _pool())
        ),
        IMAGE,
    ),
    "inception": Architecture(
        lambda: Branches(nn.Conv2d(3, 2, 1), _convolution(3, 2), nn.MaxPool2d(3, stride=1, padding=1)), IMAGE
    ),
    "squeezenet": Architecture(
        lambda: nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), Branches(nn.Conv2d(2, 4, 1), _convolution(2, 4))), IMAGE
    ),
    "mobilenet": Architecture(
        lambda: nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3), nn.ReLU6(), nn.Conv2d(3, 8, 1), nn.Hardswish()),
        IMAGE,
    ),
    "efficientnet": Architecture(
        lambda: Residual(
            nn.Sequential(
                *(nn.Conv2d(3, 6, 1), nn.SiLU(), nn.Conv2d(6, 6, 3, padding=1, groups=6)),
                *(SqueezeExcitation(6), nn.Conv2d(6, 3, 1)),
            )
        ),
        IMAGE,
    ),
    "convnext": Architecture(
        lambda: Residual(
            nn.Sequential(
                nn.Conv2d(3, 3, 7, padding=3, groups=3),
                Swapped(nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 6), nn.GELU(), nn.Linear(6, 3))),
            )
        ),
        IMAGE,
    ),
    "shufflenet": Architecture(
        lambda: nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), ChannelShuffle(), nn.Conv2d(4, 4, 3, groups=4)), (4, 8, 8)
    ),
    "u-net": Architecture(UNet, IMAGE),
    "dilated-convolutions": Architecture(
        lambda: nn.Sequential(_convolution(3, 4, dilation=2, padding=2), nn.MaxPool2d(2, dilation=2)), IMAGE
    ),
    "convolution-and-a-pool-that-rounds-up": Architecture(
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.AvgPool2d(2, ceil_mode=True)), (3, 7, 7)
    ),
    "group-and-instance-normalisation": Architecture(
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 4, 3, padding="same"), nn.GroupNorm(2, 4), nn.LeakyReLU(), nn.InstanceNorm2d(4), nn.ELU())
        ),
        IMAGE,
    ),
    "super-resolution": Architecture(
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.PixelShuffle(2), nn.Upsample(scale_factor=0.5)), IMAGE
    ),
    "temporal-convolutions": Architecture(
        lambda: nn.Sequential(Residual(Causal(6, 1)), Residual(Causal(6, 2)), nn.AdaptiveMaxPool1d(2)), SEQUENCE
    ),
    "volumes": Architecture(lambda: nn.Sequential(nn.Conv3d(1, 2, 3), nn.ReLU(), nn.AvgPool3d(2)), (1, 6, 6, 6)),
    "lstm": Architecture(lambda: Recurrent(nn.LSTM(5, 8, num_layers=2, batch_first=True)), SEQUENCE),
    "gru-in-both-directions": Architecture(
        lambda: Recurrent(nn.GRU(5, 4, batch_first=True, bidirectional=True)), SEQUENCE
    ),
    "transformer": Architecture(
        lambda: nn.Sequential(
            *(nn.Linear(5, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), Mean(1))
        ),
        SEQUENCE,
        "trace",
    ),
    "vision-transformer": Architecture(VisionTransformer, IMAGE, "trace"),
    "mlp-mixer": Architecture(
        lambda: nn.Sequential(
            Residual(Swapped(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6)))), nn.LayerNorm(5), Mean(1)
        ),
        SEQUENCE,
    ),
    "mixture-of-experts": Architecture(MixtureOfExperts, FEATURES),
    "highway-network": Architecture(Highway, FEATURES),
    "attention-with-one-query": Architecture(AttentionPool, (5, 6)),
    "bag-of-words": Architecture(BagOfWords, FEATURES),
    "capsules": Architecture(Capsules, (4,)),
}


def network(architecture: Architecture) -> nn.Module:
    """Return a classifier in evaluation mode, the same one in each call."""
    torch.manual_seed(0)
    body = nn.Sequential(architecture.build(), nn.Flatten()).eval()
    with torch.no_grad():
        width = body(torch.randn(2, *architecture.shape)).shape[1]
    return nn.Sequential(body, nn.Linear(width, CLASSES)).eval()
