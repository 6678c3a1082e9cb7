"""Names of the classes, which servers put into answers with `classification`: a file shared by a model's versions.

All versions share it, so a version whose outputs mean something else is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.common.files import read_json, write_atomically
from trainer.model_repository.layout import LABELS_FILE, MANIFEST_FILE
from trainer.pytorch.export_config import ExportError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.pytorch.trained_model import TrainedModel


def refuse_others(version: Path, trained: TrainedModel) -> None:
    """Refuse a model whose classes are other ones than those of a version that is published.

    Raises:
        ExportError: naming the first that differs.
    """
    published: list[str] = (read_json(version / MANIFEST_FILE) or {}).get("class_names", [])
    pairs = zip(published, trained.class_names, strict=False)  # another number of them is refused with the outputs
    for number, (theirs, ours) in enumerate(pairs):
        if theirs != ours:
            limit = f"its class {number} is {theirs!r}, that of run {trained.run_name} is {ours!r}"
            raise ExportError(f"{version}: {limit}. Fix: another --model_name, or remove that model")


def write(model_folder: Path, trained: TrainedModel) -> None:
    """Write a name in each line, or leave a file that is there: operators may have nicer names than folders have."""
    path = model_folder / LABELS_FILE
    if trained.class_names and not path.exists():
        lines = "".join(f"{' '.join(name.splitlines())}\n" for name in trained.class_names)
        # a folder's name may be anything
        write_atomically(path, lines.encode("utf-8", "replace"))
