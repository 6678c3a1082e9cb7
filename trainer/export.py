"""Publishes a model from a checkpoint: `python -m trainer.export --checkpoint … --data … --model_repository …`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time

from trainer.common import command_line
from trainer.common.files import read_json
from trainer.model_repository.layout import MANIFEST_FILE
from trainer.pytorch.checkpoint_source import CheckpointSource  # noqa: TC001  read at run time, too
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.export import publish
from trainer.pytorch.export_config import ExportConfig, ExportError
from trainer.pytorch.source_error import SourceError
from trainer.training.events import log_to_stderr


@dataclass(frozen=True, kw_only=True)
class ExportCommandConfig:
    """Write a network to a file, compare it, compress it, measure it, and publish it as the next version."""

    model_repository: Path
    """Folder that servers read; <output_dir>/models of training jobs."""
    source: CheckpointSource
    export: ExportConfig = field(default_factory=ExportConfig)
    compression: CompressionConfig = field(default_factory=CompressionConfig)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the version and all its variants are published, else 1 after saying why."""
    config = command_line.parse(ExportCommandConfig, "trainer.export", arguments)
    log_to_stderr()

    try:
        trained = config.source.read(with_data=bool(config.compression.variants))
        version = publish(config.model_repository, config.export, trained, config.compression)
    except (SourceError, ExportError) as error:
        print(f"export: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        fix = "Fix: a folder that you may write to, with room for the model"
        print(f"export: model_repository={config.model_repository}: {error}. {fix}", file=sys.stderr)
        return 1
    folder = config.model_repository / config.export.model_name / str(version)
    manifest = read_json(folder / MANIFEST_FILE) or {}
    for name, entry in {"fp32": manifest, **manifest.get("variants", {})}.items():
        latency = entry["latency_ms"]["batch_1"]["p50"]
        size = f"{entry['size_bytes'] / 1024:,.0f} KiB"
        accuracy = f"accuracy {entry['accuracy']:.4f}, " if "accuracy" in entry else ""
        print(f"{folder / entry['model_file']}: {name}, {accuracy}{latency:.3f} ms, {size}")
    rejected = manifest.get("rejected_variants", {})
    for name, entry in rejected.items():
        print(f"export: variant {name} is not published: {entry['reason']}", file=sys.stderr)
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
