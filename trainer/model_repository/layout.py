"""The layout of the model repository that training writes, and that Triton and our own server read.

Triton Inference Server, "Model Repository":
    <repository>/<model_name>/config.pbtxt
    <repository>/<model_name>/labels.txt                    names of the classes, if they have any
    <repository>/<model_name>/warmup/<file>                 values for config.pbtxt's model_warmup
    <repository>/<model_name>/<version>/model.pt            frozen TorchScript
    <repository>/<model_name>/<version>/model.<variant>.pt  the same model compressed, such as model.int8.pt
    <repository>/<model_name>/<version>/model.pt2           the same model as torch.export writes it
    <repository>/<model_name>/<version>/manifest.json       what the files are, and the SHA-256 of each
A version appears by one rename, whole and verified. Files of variants are additional: a server that does not know of
them serves model.pt.
"""

from __future__ import annotations

MODEL_FILE = "model.pt"
MANIFEST_FILE = "manifest.json"
CONFIG_FILE = "config.pbtxt"
LABELS_FILE = "labels.txt"
WARMUP_FOLDER = "warmup"

TORCH_EXPORT = "pt2"
"""The variant that is not TorchScript."""
TORCH_EXPORT_SUFFIX = ".pt2"


def variant_file(variant: str) -> str:
    """Return the name of a variant's file in the folder of a version."""
    return f"model{TORCH_EXPORT_SUFFIX}" if variant == TORCH_EXPORT else f"model.{variant}.pt"
