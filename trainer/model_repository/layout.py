"""The layout of the model repository, which training writes, and which Triton and our own server read.

Triton Inference Server, "Model Repository":
    <repository>/<model_name>/config.pbtxt
    <repository>/<model_name>/labels.txt                    names of the classes, if they have any
    <repository>/<model_name>/warmup/<file>                 values for config.pbtxt's model_warmup
    <repository>/<model_name>/<version>/model.pt            frozen TorchScript
    <repository>/<model_name>/<version>/model.<variant>.pt  the same model compressed, such as model.int8.pt
    <repository>/<model_name>/<version>/model.pt2           the same model as torch.export writes it
    <repository>/<model_name>/<version>/model.compiled.pt2  the same model as AOTInductor compiles it
    <repository>/<model_name>/<version>/manifest.json       what the files are, and the SHA-256 of each
A version appears by one rename, whole and verified. Files of variants are additional: a server that does not know of
them serves model.pt. Without TorchScript, model.pt2 is the model, and variants end in .pt2.
"""

from __future__ import annotations

MODEL_FILE = "model.pt"
EXPORTED_FILE = "model.pt2"
MANIFEST_FILE = "manifest.json"
CONFIG_FILE = "config.pbtxt"
LABELS_FILE = "labels.txt"
WARMUP_FOLDER = "warmup"

TORCH_EXPORT, COMPILED = "pt2", "compiled"
"""The variants that are never TorchScript."""
TORCH_EXPORT_SUFFIX = ".pt2"


def variant_file(variant: str, model_file: str = MODEL_FILE) -> str:
    """Return the name of a variant's file next to that of the model."""
    if variant == TORCH_EXPORT:
        return EXPORTED_FILE
    is_script = variant != COMPILED and model_file == MODEL_FILE
    return f"model.{variant}{'.pt' if is_script else TORCH_EXPORT_SUFFIX}"
