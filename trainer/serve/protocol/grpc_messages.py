"""An inference request as a gRPC message to NumPy arrays, and arrays to the answer.

Source: Open Inference Protocol v2, "GRPC", and the comments in Triton's grpc_service.proto. Everything a client sends
is untrusted until it has passed this module.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.serve.errors import RequestError
from trainer.serve.protocol import tensors
from trainer.serve.protocol.infer_request import (
    InferRequest,
    RequestedOutput,
    check_complete,
    check_names,
    check_outputs,
    checked_datatype,
    checked_rows,
    checked_shape,
)
from trainer.serve.protocol.outputs import output_tensor
from trainer.serve.protocol.parameters import refuse_shared_memory, whole_number

if TYPE_CHECKING:
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.tensor_spec import TensorSpec

_Message = Any

_CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Fields of InferTensorContents by datatype. FP16 and BF16 have none: they come as raw bytes."""


def decode(message: _Message, raw: list[bytes], spec: ModelSpec) -> InferRequest:
    """Check a ModelInferRequest against the model and return its arrays.

    Args:
        message: The request.
        raw: Its raw_input_contents, which every look at the message would copy again.
        spec: The model.

    Raises:
        RequestError: 400 where it does not fit.
    """
    names = [tensor.name for tensor in message.inputs]
    check_names("inputs", names, [tensor.name for tensor in spec.inputs])
    check_complete(names, spec)
    if raw and len(raw) != len(names):
        raise RequestError(400, f"raw_input_contents: {len(raw)} entries for {len(names)} inputs. Fix: one for each")
    places = {name: place for place, name in enumerate(names)}
    inputs = [
        _read_input(message.inputs[places[tensor.name]], raw[places[tensor.name]] if raw else None, tensor)
        for tensor in spec.inputs
    ]
    parameters = _parameters(message)
    outputs = _requested_outputs(message, spec)
    check_outputs(outputs, spec)
    return InferRequest(
        id=message.id or None,
        priority=whole_number("parameters", parameters, "priority"),
        timeout_us=whole_number("parameters", parameters, "timeout"),
        inputs=inputs,
        outputs=outputs,
        rows=checked_rows(inputs, spec),
    )


def encode(request: InferRequest, spec: ModelSpec, version: int, results: list[Array]) -> _Message:
    """Return the fields of a ModelInferResponse with the outputs that the request wants, as raw bytes."""
    given = [output_tensor(output, spec, results) for output in request.outputs]
    return {
        "model_name": spec.name,
        "model_version": str(version),
        "id": request.id or "",
        "outputs": [{"name": each.name, "datatype": each.datatype, "shape": each.shape} for each in given],
        "raw_output_contents": [each.raw() for each in given],
    }


def _read_input(tensor: _Message, raw: bytes | None, spec: TensorSpec) -> Array:
    refuse_shared_memory(f"input {spec.name!r}", _parameters(tensor))
    checked_datatype(tensor.datatype, spec)
    shape = checked_shape(list(tensor.shape), spec)
    if raw is None:
        return _from_contents(tensor.contents, shape, spec)
    if tensor.contents.ListFields():
        raise RequestError(400, f"input {spec.name!r}: has both contents and raw_input_contents. Fix: send one")
    return tensors.from_binary(memoryview(raw), shape, spec)


def _from_contents(contents: _Message, shape: tuple[int, ...], spec: TensorSpec) -> Array:
    field = _CONTENTS.get(spec.datatype.name)
    if field is None:
        raise RequestError(400, f"input {spec.name!r}: {spec.datatype.name} has no contents. Fix: raw_input_contents")
    others = [descriptor.name for descriptor, _ in contents.ListFields() if descriptor.name != field]
    if others:
        raise RequestError(400, f"input {spec.name!r}: {others[0]} is set; {spec.datatype.name} is sent in {field}")
    values = getattr(contents, field)
    count = math.prod(shape)
    if len(values) != count:
        raise RequestError(400, f"input {spec.name!r}: {len(values)} values; shape {list(shape)} needs {count}")
    if spec.datatype.kind == "O":
        return tensors.array_of(values, shape)
    if spec.datatype.kind in "iu":
        # a 32-bit field also carries the smaller types; NumPy by itself makes fractions of numbers around 2**63
        widest = np.uint64 if spec.datatype.kind == "u" else np.int64
        return tensors.from_numbers(np.array(values, widest), spec).reshape(shape)
    return np.array(values, spec.datatype.numpy).reshape(shape)


def _requested_outputs(message: _Message, spec: ModelSpec) -> list[RequestedOutput]:
    """Return the outputs named in the request, in its order; all of them where it names none."""
    known = [tensor.name for tensor in spec.outputs]
    if not message.outputs:
        return [RequestedOutput(index=index, binary=True) for index in range(len(known))]
    check_names("outputs", [output.name for output in message.outputs], known)
    return [_requested_output(output, known.index(output.name)) for output in message.outputs]


def _requested_output(output: _Message, index: int) -> RequestedOutput:
    where, parameters = f"output {output.name!r}", _parameters(output)
    refuse_shared_memory(where, parameters)
    return RequestedOutput(index=index, binary=True, classes=whole_number(where, parameters, "classification"))


def _parameters(message: _Message) -> dict[str, object]:
    """Return the values of a map of InferParameter; one that holds no value is left out."""
    given = (
        (name, parameter, parameter.WhichOneof("parameter_choice")) for name, parameter in message.parameters.items()
    )
    return {name: getattr(parameter, kind) for name, parameter, kind in given if kind}
