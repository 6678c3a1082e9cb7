"""The client's side of the protocol over HTTP: a request with binary tensors, and its answer.

Source: Open Inference Protocol v2 (REST); Triton, "Binary Tensor Data Extension".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from trainer.serve.errors import RequestError
from trainer.serve.protocol import request as server_side
from trainer.serve.protocol import tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.response import Headers
    from trainer.serve.protocol.tensors import Array

MAX_ANSWER_JSON_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AnsweredTensor:
    """An output as another server sent it; nothing of it has been checked."""

    datatype: object
    shape: object
    data: memoryview


def encode(inputs: Sequence[Array], spec: ModelSpec, request_id: str | None) -> tuple[Headers, bytes]:
    """Return headers and body of a request for all outputs of a model as binary tensors."""
    parts = [tensors.to_binary(array) for array in inputs]
    document: dict[str, Any] = {
        "inputs": [
            {
                "name": tensor.name,
                "datatype": tensor.datatype.name,
                "shape": array.shape,
                "parameters": {"binary_data_size": len(part)},
            }
            for tensor, array, part in zip(spec.inputs, inputs, parts, strict=True)
        ],
        "parameters": {"binary_data_output": True},
    }
    if request_id is not None:
        document["id"] = request_id
    header = orjson.dumps(document)
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"inference-header-content-length", b"%d" % len(header)),
    ]
    return headers, b"".join((header, *parts))


def decode(body: bytes, header_length: bytes | None, spec: ModelSpec) -> dict[str, AnsweredTensor]:
    """Return the outputs of an answer by name.

    Raises:
        RequestError: the answer lacks binary tensors, or has other outputs than the model.
    """
    document, tail = server_side.split_body(body, header_length, MAX_ANSWER_JSON_BYTES)
    declared = server_side.by_name("outputs", document.get("outputs"), [tensor.name for tensor in spec.outputs])
    binary = server_side.split_binary("output", declared, tail)
    if missing := [name for name in declared if name not in binary]:
        raise RequestError(400, f"outputs {missing} are not binary")
    return {
        name: AnsweredTensor(each.get("datatype"), each.get("shape"), binary[name]) for name, each in declared.items()
    }
