"""The answer to an inference request: JSON, or a JSON header followed by binary tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from trainer.serve.protocol.outputs import output_tensor

if TYPE_CHECKING:
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.infer_request import InferRequest
    from trainer.serve.protocol.tensors import Array

Headers = list[tuple[bytes, bytes]]

JSON_HEADERS: Headers = [(b"content-type", b"application/json")]


def encode(request: InferRequest, spec: ModelSpec, version: int, results: list[Array]) -> tuple[Headers, bytes]:
    """Return headers and body with the outputs that the request wants.

    A NaN or infinity becomes null in JSON, which has no other word for it; binary outputs keep it.
    """
    entries: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for output in request.outputs:
        tensor = output_tensor(output, spec, results)
        entry: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
        if output.binary:
            content = tensor.raw()
            binary.append(content)
            entry["parameters"] = {"binary_data_size": len(content)}
        else:
            entry["data"] = tensor.values()
        entries.append(entry)
    document: dict[str, Any] = {"model_name": spec.name, "model_version": str(version), "outputs": entries}
    if request.id is not None:
        document["id"] = request.id
    header = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    if not binary:
        return JSON_HEADERS, header
    return [
        (b"content-type", b"application/octet-stream"),
        (b"inference-header-content-length", b"%d" % len(header)),
    ], b"".join([header, *binary])
