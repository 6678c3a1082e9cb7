"""The serving configuration of a model, config.pbtxt (Triton Inference Server, "Model Configuration")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from trainer.common.files import write_atomically
from trainer.model_repository.layout import EXPORTED_FILE, LABELS_FILE, MODEL_FILE
from trainer.pytorch.export_config import ExportError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.pytorch.export_config import ExportConfig
    from trainer.pytorch.trained_model import TensorSpec, TrainedModel

triton = cast("Any", model_config_pb2)  # generated at run time from its descriptor: no types


def write_config(path: Path, config: ExportConfig, trained: TrainedModel, *, is_dynamic: bool) -> None:
    """Write the serving configuration, or leave one that is there: operators tune batching and instances in it.

    Args:
        path: The file.
        config: The model's name and limits.
        trained: The model.
        is_dynamic: Whether a server may put the samples of several requests into one batch.

    Raises:
        ExportError: the one that is there is for other inputs or outputs, has batches where there must be none, or
            cannot be read.
    """
    generated = _triton_config(config, trained)
    if not is_dynamic:
        generated.ClearField("dynamic_batching")
    if not path.exists():
        write_atomically(path, text_format.MessageToString(generated).encode())
        return
    present = triton.ModelConfig()
    try:
        text_format.Parse(path.read_text(encoding="utf-8"), present)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ExportError(f"{path}: not a Triton model configuration: {error}. Fix: correct or remove it") from error
    if present.HasField("dynamic_batching") and trained.is_batched and not is_dynamic:
        fix = "Fix: remove dynamic_batching from it, or another --model_name"
        raise ExportError(f"{path}: has dynamic_batching; answers of the model depend on all samples of a batch. {fix}")
    if present.default_model_filename in {MODEL_FILE, EXPORTED_FILE} - {trained.model_file}:
        fix = "Fix: remove it, which serves either, or another --model_name"
        given = f"default_model_filename={present.default_model_filename!r}; the model is {trained.model_file}"
        raise ExportError(f"{path}: {given}. {fix}")
    if bool(present.max_batch_size) != trained.is_batched:
        takes = "takes batches" if trained.is_batched else "takes none, which is max_batch_size: 0"
        fix = "Fix: remove it, or another --model_name"
        raise ExportError(f"{path}: max_batch_size={present.max_batch_size}; the model {takes}. {fix}")
    for output in (*present.output, *generated.output):
        output.ClearField("label_filename")  # theirs is an operator's choice, or from before there was one
    if list(present.input) != list(generated.input) or list(present.output) != list(generated.output):
        fix = "Fix: another --model_name, or remove that model"
        raise ExportError(f"{path}: has other inputs or outputs than the model of run {trained.run_name}. {fix}")


def _triton_config(config: ExportConfig, trained: TrainedModel) -> Any:  # noqa: ANN401  a protobuf message
    def dims(spec: TensorSpec) -> dict[str, Any]:
        data_type = triton.DataType.Value(f"TYPE_{spec.datatype}")
        return {"name": spec.name, "data_type": data_type, "dims": spec.shape}

    labels = LABELS_FILE if trained.class_names else ""
    return triton.ModelConfig(
        name=config.model_name,
        # Triton serves no programs of torch.export; this server knows them by the file
        **({"backend": "pytorch"} if trained.model_file == EXPORTED_FILE else {"platform": "pytorch_libtorch"}),
        default_model_filename=trained.model_file,
        max_batch_size=config.max_batch_size if trained.is_batched else 0,
        input=[triton.ModelInput(**dims(spec)) for spec in trained.inputs],
        output=[triton.ModelOutput(**dims(spec), label_filename=labels) for spec in trained.outputs],
        dynamic_batching=triton.ModelDynamicBatching(),
    )
