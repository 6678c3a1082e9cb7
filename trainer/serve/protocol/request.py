"""An inference request: JSON, a JSON header followed by binary tensors, or one tensor's bytes alone, to NumPy arrays.

Sources: Open Inference Protocol v2, "Inference Request JSON Object"; Triton, "Binary Tensor Data Extension". Everything
a client sends is untrusted until it has passed this module.

A small image has thousands of numbers, which as Python objects cost more than the rest of the request. All other forms
are left to the general reader, which also writes all refusals.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import orjson
import simdjson

from trainer.serve.datatypes import BF16, BYTES
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
from trainer.serve.protocol.parameters import refuse_shared_memory, whole_number

if TYPE_CHECKING:
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.tensor_spec import TensorSpec

_MOST_BYTES = 1 << 20
"""The parser keeps memory for the longest text that it has read, some ten times as much."""
_TYPES = {"f": ("d", np.float64), "i": ("i", np.int64), "u": ("u", np.uint64)}
"""Types that the numbers of a tensor are read as, by the kind of its values; a JSON array can hold any of its range."""
_PARSER = simdjson.Parser()


def parse(text: bytes, spec: ModelSpec) -> dict[str, Any] | None:
    """Return the object that orjson would, but with the `data` of each input as an array; for the event loop's thread.

    Returns:
        None where the text is not JSON, or the data of an input not a flat array of numbers that fit its type.
    """
    # simdjson skips a byte order mark, orjson refuses it
    if len(text) > _MOST_BYTES or not text.startswith(b"{"):
        return None
    try:
        return _document(_PARSER.parse(text), text, spec)  # pyright: ignore[reportArgumentType]
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        # RuntimeError: an integer of more than 64 bits
        return None


def _document(parsed: simdjson.Object, text: bytes, spec: ModelSpec) -> dict[str, Any] | None:
    document = _fields(parsed, apart="inputs")
    kinds = {tensor.name: tensor.datatype.kind for tensor in spec.inputs}
    listed: Any = parsed["inputs"]
    inputs = [_input(listed[place], kinds) for place in range(len(listed))]
    # as_buffer also takes nested arrays, even or not: the only brackets may be those that are accounted for
    if text.count(b"[") != 1 + 2 * len(inputs) + isinstance(document.get("outputs"), list):
        return None
    return {**document, "inputs": inputs}


def _input(entry: simdjson.Object, kinds: dict[str, str]) -> dict[str, Any]:
    fields = _fields(entry, apart="data")
    code, kind = _TYPES[kinds[fields["name"]]]
    data: Any = entry["data"]
    return {**fields, "data": np.frombuffer(data.as_buffer(of_type=code), kind)}


def _fields(entry: simdjson.Object, apart: str) -> dict[str, Any]:
    """Return all fields but one.

    Raises:
        ValueError: a name is there twice: of these orjson takes the last one, simdjson the first.
    """
    names = list(entry.keys())
    if len(set(names)) != len(names):
        raise ValueError
    return {name: _plain(entry[name]) for name in names if name != apart}


def _plain(value: Any) -> Any:  # noqa: ANN401  whatever JSON can hold
    if isinstance(value, simdjson.Object):
        return value.as_dict()
    # the package's annotations leave open what is in a list
    return cast("Any", value).as_list() if isinstance(value, simdjson.Array) else value


_MAX_LENGTH_DIGITS = 18
_KINDS: dict[type, str] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    type(None): "missing or null",
}


def decode(body: bytes, header_length: bytes | None, spec: ModelSpec, max_json_bytes: int) -> InferRequest:
    """Check a body against the model and return its arrays; `header_length` is Inference-Header-Content-Length.

    Raises:
        RequestError: 400 where it does not fit, 413 where its JSON part is too large.
    """
    if header_length is not None and not _parse_header_length(header_length, len(body)):
        return _decode_raw(body, spec)
    document = parse(body, spec) if header_length is None and len(body) <= max_json_bytes else None
    tail = memoryview(b"")
    if document is None:
        document, tail = split_body(body, header_length, max_json_bytes)
    request_id = _request_id(document)
    try:
        return _decode(document, tail, spec, request_id)
    except RequestError as error:
        error.request_id = request_id
        raise


def split_body(body: bytes, header_length: bytes | None, max_json_bytes: int) -> tuple[dict[str, Any], memoryview]:
    """Return the JSON object of a body, and the bytes of the binary tensors after it.

    Raises:
        RequestError: 400 if the object is missing, 413 if it is too large.
    """
    json_size = len(body) if header_length is None else _parse_header_length(header_length, len(body))
    if json_size > max_json_bytes:
        fix = "Fix: send binary tensors or smaller batches"
        raise RequestError(413, f"JSON part of {json_size} bytes; limit: {max_json_bytes}. {fix}")
    view = memoryview(body)
    return _parse_json(view[:json_size]), view[json_size:]


def _decode(document: dict[str, Any], tail: memoryview, spec: ModelSpec, request_id: str | None) -> InferRequest:
    declared = by_name("inputs", document.get("inputs"), [tensor.name for tensor in spec.inputs])
    binary = split_binary("input", declared, tail)
    check_complete(list(declared), spec)
    inputs = [_read_input(declared[tensor.name], binary.get(tensor.name), tensor) for tensor in spec.inputs]
    parameters = _parameters("body", document)
    outputs = _requested_outputs(document, parameters, spec)
    check_outputs(outputs, spec)
    return InferRequest(
        id=request_id,
        priority=whole_number("parameters", parameters, "priority"),
        timeout_us=whole_number("parameters", parameters, "timeout"),
        inputs=inputs,
        outputs=outputs,
        rows=checked_rows(inputs, spec),
    )


def _decode_raw(body: bytes, spec: ModelSpec) -> InferRequest:
    """Return a request whose body is the values of the model's one input, and nothing else.

    As in Triton: one row where the model takes batches, and a size of -1 is what the bytes make it; all of them are one
    element of BYTES.
    """
    if len(spec.inputs) != 1:
        names = [tensor.name for tensor in spec.inputs]
        fix = "Fix: send JSON, and binary tensors after it"
        raise RequestError(400, f"Inference-Header-Content-Length 0 is for models of one input; inputs: {names}. {fix}")
    (tensor,) = spec.inputs
    is_text = tensor.datatype.name == BYTES
    shape = checked_shape(_raw_shape(len(body), tensor, batched=spec.max_batch_size > 0), tensor)
    return InferRequest(
        id=None,
        inputs=[tensors.array_of([body], shape) if is_text else tensors.from_binary(memoryview(body), shape, tensor)],
        outputs=[RequestedOutput(index=index, binary=True) for index in range(len(spec.outputs))],
        rows=1,
    )


def _raw_shape(size: int, spec: TensorSpec, *, batched: bool) -> list[int]:
    shape = [1, *spec.shape[1:]] if batched else list(spec.shape)
    if spec.datatype.name == BYTES:
        return [1] * len(shape)
    if shape.count(-1) > 1:
        fix = "Fix: send JSON with the shape"
        raise RequestError(400, f"input {spec.name!r}: shape {shape} cannot be known from {size} bytes. {fix}")
    unit_bytes = math.prod(each for each in shape if each != -1) * spec.datatype.numpy.itemsize
    return [size // unit_bytes if each == -1 else each for each in shape]


def _parse_header_length(value: bytes, body_size: int) -> int:
    # isdigit first: int() accepts signs, spaces and underscores, and takes quadratic time on long input
    if not value.isdigit() or len(value) > _MAX_LENGTH_DIGITS or int(value) > body_size:
        excerpt = value[:40].decode("latin-1")
        raise RequestError(
            400, f"Inference-Header-Content-Length {excerpt!r}: must be the size of the JSON part, 0 to {body_size}"
        )
    return int(value)


def _parse_json(text: memoryview) -> dict[str, Any]:
    try:
        document: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        hint = "NaN and Infinity are not JSON: send them as binary tensors"
        raise RequestError(400, f"body is not valid JSON: {error}. {hint}") from None
    return _object("body", document)


def _object(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(400, f"{where}: must be a JSON object, is {_kind(value)}")
    return cast("dict[str, Any]", value)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")


def by_name(field: str, value: object, known: list[str]) -> dict[str, dict[str, Any]]:
    """Return the objects of a list by their names, in its order.

    Raises:
        RequestError: 400 for something else, and for unknown and repeated names.
    """
    if not isinstance(value, list):
        raise RequestError(400, f"{field}: must be an array of objects, is {_kind(value)}")
    entries = [_object(f"{field}[{place}]", item) for place, item in enumerate(cast("list[object]", value))]
    names = [entry.get("name") for entry in entries]
    check_names(field, names, known)
    return {cast("str", name): entry for name, entry in zip(names, entries, strict=True)}


def split_binary(kind: str, declared: dict[str, dict[str, Any]], tail: memoryview) -> dict[str, memoryview]:
    """Give each tensor with `binary_data_size` its part of the bytes after the JSON, in the order of the tensors.

    Args:
        kind: "input" or "output".
        declared: The tensors by name.
        tail: What comes after the JSON.

    Raises:
        RequestError: 400 where the sizes do not fit, 501 for shared memory.
    """
    parts: dict[str, memoryview] = {}
    offset = 0
    for name, entry in declared.items():
        parameters = _parameters(f"{kind} {name!r}", entry)
        refuse_shared_memory(f"{kind} {name!r}", parameters)
        size = parameters.get("binary_data_size")
        if size is None:
            continue
        if type(size) is not int or not 0 <= size <= len(tail) - offset:
            left = len(tail) - offset
            raise RequestError(
                400,
                f"{kind} {name!r}: binary_data_size={tensors.shorten(size)}: {left} bytes remain after the JSON. "
                "Fix: set Inference-Header-Content-Length to the size of the JSON part and send all bytes",
            )
        parts[name] = tail[offset : offset + size]
        offset += size
    if offset != len(tail):
        raise RequestError(400, f"{len(tail) - offset} bytes after the JSON belong to no {kind}'s binary_data_size")
    return parts


def _parameters(where: str, entry: dict[str, Any]) -> dict[str, Any]:
    value = entry.get("parameters")
    return {} if value is None else _object(f"{where}: parameters", value)


def _read_input(entry: dict[str, Any], binary: memoryview | None, spec: TensorSpec) -> tensors.Array:
    checked_datatype(entry.get("datatype"), spec)
    shape = checked_shape(entry.get("shape"), spec)
    data: object = entry.get("data")
    if binary is not None:
        if data is not None:
            raise RequestError(400, f"input {spec.name!r}: has both data and binary_data_size. Fix: send one")
        return tensors.from_binary(binary, shape, spec)
    if spec.datatype.name == BF16:
        raise RequestError(400, f"input {spec.name!r}: BF16 has no JSON form. Fix: send it as a binary tensor")
    if not isinstance(data, (list, np.ndarray)):
        raise RequestError(400, f"input {spec.name!r}: data must be an array, is {_kind(data)}")
    return tensors.from_json(cast("list[Any] | tensors.Array", data), shape, spec)


def _request_id(document: dict[str, Any]) -> str | None:
    value = document.get("id")
    if value is not None and not isinstance(value, str):
        raise RequestError(400, f"id: must be a string, is {_kind(value)}")
    return value


def _requested_outputs(document: dict[str, Any], parameters: dict[str, Any], spec: ModelSpec) -> list[RequestedOutput]:
    """Return the outputs named in the request, in its order; all of them where it names none."""
    default = _flag("parameters.binary_data_output", parameters.get("binary_data_output"), default=False)
    names = [tensor.name for tensor in spec.outputs]
    requested = document.get("outputs")
    if requested is None or requested == []:
        return [RequestedOutput(index=index, binary=default) for index in range(len(names))]
    outputs: list[RequestedOutput] = []
    for name, entry in by_name("outputs", requested, names).items():
        where = f"output {name!r}"
        parameters = _parameters(where, entry)
        refuse_shared_memory(where, parameters)
        binary = _flag(f"{where}: binary_data", parameters.get("binary_data"), default=default)
        classes = whole_number(where, parameters, "classification")
        outputs.append(RequestedOutput(index=names.index(name), binary=binary, classes=classes))
    return outputs


def _flag(where: str, value: object, *, default: bool) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RequestError(400, f"{where}: must be true or false, is {_kind(value)}")
    return value
