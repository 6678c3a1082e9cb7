"""torch's layers in many settings, each written by every method of export, loaded as a server does, and compared.

By hand, for it takes minutes: `python -m tests.unit.trainer.model_repository.layers [PATTERN]`. It prints what a method
refuses or gets wrong, and ends with 1 if a loaded file answers otherwise than the layer. An export finds that by the
same comparison, and refuses to publish it.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainer.model_repository import comparison, exported, model_file, torch_error, torchscript

if TYPE_CHECKING:
    from collections.abc import Iterator

METHODS = ("script", "trace", "export")
SMALLEST: dict[str, object] = {
    **dict.fromkeys(
        ("in_channels", "out_channels", "num_channels", "num_features", "embedding_dim", "num_parameters"), 4
    ),
    **dict.fromkeys(("in_features", "out_features", "in1_features", "in2_features", "input_size", "hidden_size"), 4),
    **dict.fromkeys(("kernel_size", "output_size", "norm_type"), 3),
    **dict.fromkeys(("num_groups", "upscale_factor", "downscale_factor", "nhead", "num_heads", "groups"), 2),
    "d_model": 4,
    "embed_dim": 4,
    "normalized_shape": 4,
    "padding": 1,
    "num_embeddings": 10,
    "num_layers": 1,
    "threshold": 0.1,
    "value": 0.0,
    "size": 3,
    "n_classes": 8,
    "cutoffs": [3, 6],
    "dim_feedforward": 8,
}
"""Arguments that a layer needs, and the sizes of its smallest input."""
OTHERS: dict[str, tuple[object, ...]] = {
    "stride": (2,),
    "dilation": (2,),
    "padding": (1, "same"),
    "output_padding": (1,),
    "groups": (2,),
    "kernel_size": (2,),
    "padding_mode": ("reflect", "replicate", "circular"),
    "approximate": ("tanh",),
    "nonlinearity": ("relu",),
    "mode": ("bilinear", "bicubic", "linear", "trilinear", "area", "nearest-exact", "sum", "max"),
    "scale_factor": (2.0,),
    "divisor_override": (3,),
    "output_size": (1, 2, 4),
    "num_layers": (2,),
    "proj_size": (2,),
    "num_parameters": (1,),
    "activation": ("gelu",),
    "padding_idx": (0,),
    "max_norm": (1.0,),
    "dim": (-1,),
    "p": (1.0,),
    "lambd": (0.1,),
    "negative_slope": (0.3,),
    "alpha": (0.5,),
    "beta": (2.0,),
    "min_val": (-0.5,),
    "reduction": ("sum", "none"),
    "num_groups": (1, 4),
    "eps": (0.1,),
    "start_dim": (2,),
    "delta": (0.5,),
    "margin": (0.5,),
}
"""Values other than the default, each in a case of its own; a switch is turned."""
FEWEST: dict[str, dict[str, object]] = {
    **{name: {"input_size": 4, "hidden_size": 4} for name in ("RNN", "LSTM", "GRU")},
    **{name: {"scale_factor": 2.0} for name in ("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d")},
}
"""The same where no signature says what is needed."""
RECURRENT_NAMES = ("RNN", "LSTM", "GRU")
RECURRENT = {"num_layers": 1, "bias": True, "batch_first": False, "bidirectional": False}
NOT_LAYERS = re.compile(
    "LinearCrossEntropyOptions|Module(List|Dict)?|Sequential|Parameter(List|Dict)|Container|.*Base|Lazy.*|Transformer(Encoder|Decoder)?|"
    "DataParallel|SyncBatchNorm|CTCLoss|AdaptiveLogSoftmaxWithLoss|Unflatten|LinearCrossEntropyLoss|NLLLoss2d|"
    "(Multi(Label)?Margin|NLL|CosineEmbedding)Loss|RNNCellBase|TransformerDecoderLayer"
)
"""Containers, what takes a module or several processes, and losses of integers."""
PAIRED = re.compile(r"Bilinear|PairwiseDistance|CosineSimilarity|.*Loss")
TRIPLED = re.compile(r"Triplet.*|GaussianNLLLoss|MarginRankingLoss")
SEQUENCES = re.compile(r"RNN|LSTM|GRU|MultiheadAttention|TransformerEncoderLayer|LayerNorm|RMSNorm|Linear|Identity")
POOLS_OF_INDICES = re.compile(r"MaxUnpool\dd")


class Pair(nn.Module):
    """Gives a layer two inputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x.cos())


class Triple(Pair):
    """Gives a layer three inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x.cos(), x.abs() + 1)


class Query(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.layer(x, x, x)


class Words(nn.Module):
    """Integers of a table."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.abs().mul(3).clamp(0, 9).long())


class Unpooled(nn.Module):
    """A pool with the places of its maxima, and the layer that puts them back."""

    def __init__(self, layer: nn.Module, pool: nn.Module) -> None:
        super().__init__()
        self.pool = pool
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        values, places = self.pool(x)
        return self.layer(values, places)


def cases() -> Iterator[tuple[str, type[nn.Module], dict[str, object]]]:
    """Yield a name, a layer and its arguments: the fewest, and those with one setting changed."""
    for name in sorted(nn.modules.__all__):
        kind = getattr(nn, name)
        if NOT_LAYERS.fullmatch(name):
            continue
        parameters = list(inspect.signature(kind).parameters.values())
        if name in RECURRENT_NAMES:  # of any arguments
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters = [inspect.Parameter(each, keyword, default=value) for each, value in RECURRENT.items()]
        fewest = FEWEST.get(name, {}) | {
            each.name: SMALLEST[each.name]
            for each in parameters
            if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD and each.name in SMALLEST
        }
        if "batch_first" in (each.name for each in parameters):
            fewest["batch_first"] = True
        yield name, kind, fewest
        for each in parameters:
            values = OTHERS.get(each.name, ()) if not isinstance(each.default, bool) else (not each.default,)
            for value in values:
                if each.name not in ("inplace", "batch_first", "device") and fewest.get(each.name) != value:
                    yield f"{name}({each.name}={value!r})", kind, {**fewest, each.name: value}


def module(name: str, layer: nn.Module) -> nn.Module:
    """Return a layer as a module of one input."""
    if name.startswith("Embedding"):
        return Words(layer)
    if name in RECURRENT_NAMES:
        return nn.Sequential(layer)  # alone it has one forward for each kind of input, which TorchScript does not take
    if name == "MultiheadAttention":
        return Query(layer)
    if POOLS_OF_INDICES.fullmatch(name):
        return Unpooled(layer, getattr(nn, f"MaxPool{name[-2:]}")(3, return_indices=True))
    if TRIPLED.fullmatch(name):
        return Triple(layer)
    return Pair(layer) if PAIRED.fullmatch(name) else layer


def shapes(name: str) -> list[tuple[int, ...]]:
    """Return shapes of a sample to try, the likeliest first."""
    dimensions = re.search(r"([123])d$", name)
    if dimensions:
        sizes = int(dimensions[1])
        return [(4, *(9, 9, 6)[:sizes]) if sizes < 3 else (4, 6, 6, 6)]
    return (
        [(5, 4), (4, 9, 9), (4,), (4, 6, 6, 6)]
        if SEQUENCES.fullmatch(name)
        else [(4,), (4, 8, 8), (4, 9), (4, 6, 6, 6)]
    )


def fitting(network: nn.Module, name: str) -> tuple[int, ...]:
    """Return the first shape of a sample that a network takes in every batch.

    Raises:
        ValueError: it takes none of them.
    """
    why = ""
    for shape in shapes(name):
        try:
            right = [comparison.case(network, inputs) for inputs in comparison.random_batches([shape])]
            unsteady = comparison.difference(network, right)
        except Exception as error:  # noqa: BLE001  whatever a layer raises for a shape
            why = why or torch_error.reason(error)
        else:
            if not unsteady:
                return shape
            why = why or f"answers otherwise in each call: {unsteady}"
    raise ValueError(why)


def save(network: nn.Module, path: Path, example: Tensor, method: str) -> None:
    """Write a network as an export does."""
    if method == "export":
        exported.save(network, path, [[example]])
    else:
        torchscript.save_frozen(network, path, [example] if method == "trace" else None)


def outcome(network: nn.Module, shape: tuple[int, ...], method: str, folder: Path) -> tuple[str, str]:
    """Return "equal", "refused" or "differs" with the reason, and the same of the optimised program."""
    path = folder / ("model.pt2" if method == "export" else "model.pt")
    batches = list(comparison.random_batches([shape]))
    right = [comparison.case(network, inputs) for inputs in batches]
    try:
        save(network, path, batches[1][0], method)
        why = comparison.difference(model_file.load(path).call, right)
    except Exception as error:  # noqa: BLE001  whatever torch raises for a layer
        return f"refused: {torch_error.reason(error)}", ""
    if why:
        return f"differs: it {why}", ""
    if method == "export":
        return "equal", ""
    try:
        why = comparison.difference(model_file.load_optimized(path).call, right)
    except Exception as error:  # noqa: BLE001  likewise
        return "equal", f"fails: {torch_error.reason(error)}"
    return "equal", f"differs: it {why}" if why else "equal"


def main(pattern: str = "") -> int:
    """Print the outcome of each case that is not equal, and how many there are of each; 1 if a loaded file is wrong."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for name, kind, arguments in cases():
            if not re.search(pattern, name):
                continue
            torch.manual_seed(0)
            build: Any = kind
            try:
                network = module(kind.__name__, build(**arguments)).eval()
                shape = fitting(network, kind.__name__)
            except Exception:  # noqa: BLE001  whatever a layer raises for a setting that it does not have
                counts["not compared: no such setting, or random"] += 1
                continue
            for method in METHODS:
                loaded, optimized = outcome(network, shape, method, Path(folder))
                counts[f"{method}: {loaded.partition(':')[0]}"] += 1
                if optimized:
                    counts[f"{method}, optimised: {optimized.partition(':')[0]}"] += 1
                if loaded != "equal":
                    print(f"{name}, {method}: {loaded}")
                elif optimized not in ("", "equal"):
                    print(f"{name}, {method}, optimised: {optimized}")
            sys.stdout.flush()
    print(*(f"{count:5} {what}" for what, count in sorted(counts.items())), sep="\n")
    return int(any(f"{method}: differs" in counts for method in METHODS))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
