"""gRPC messages to arrays: every datatype in its field, and what a field may not hold."""

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.tables import each_row
from tests.unit.trainer.serve.test_request import DATATYPES, spec
from trainer.serve.errors import RequestError
from trainer.serve.protocol import grpc_messages

FIELDS = grpc_messages._CONTENTS


def decode(datatype, values=None, raw=(), **changes):
    contents = {} if values is None else {"contents": {FIELDS.get(datatype, "fp32_contents"): values}}
    tensor = {"name": "x", "datatype": datatype, "shape": [1, 3], **contents}
    message = service_pb2.ModelInferRequest(model_name="m", inputs=[tensor], **changes)
    return grpc_messages.decode(message, list(raw), spec(datatype))


@each_row(("datatype", "numpy"), DATATYPES.items())
def test_every_datatype_in_its_field_and_raw(datatype, numpy):
    values = np.array([[0, 1, 1]], numpy)
    arrays = [decode(datatype, raw=[values.tobytes()]).inputs[0]]
    if datatype != "FP16":
        arrays.append(decode(datatype, values[0].tolist()).inputs[0])
    for array in arrays:
        np.testing.assert_array_equal(array, values)
        assert array.dtype == values.dtype


@each_row(
    ("datatype", "values"),
    [
        ("UINT64", [1, 2**63 + 1, 2**64 - 1]),
        ("INT64", [-(2**63), 2**53 + 1, 2**63 - 1]),
        ("UINT32", [0, 1, 2**32 - 1]),
    ],
)
def test_whole_numbers_keep_their_last_digit(datatype, values):
    assert decode(datatype, values).inputs[0].ravel().tolist() == values


@each_row(
    ("datatype", "values", "message"),
    [
        ("INT8", [1, 2, 128], "value 128: INT8 holds -128 to 127"),
        ("INT16", [-32769, 0, 0], "value -32769"),
        ("UINT8", [0, 0, 256], "value 256"),
        ("FP16", [1, 2, 3], "FP16 has no contents"),
    ],
)
def test_values_outside_of_the_datatype(datatype, values, message):
    with pytest.raises(RequestError, match=message) as error:
        decode(datatype, values)
    assert error.value.status == 400


def test_infinity_and_nan_are_data():
    assert not np.isfinite(decode("FP32", [float("nan"), float("inf"), float("-inf")]).inputs[0]).any()


def test_parameters():
    given = {"priority": {"uint64_param": 2}, "timeout": {"int64_param": 70}, "empty": {}}
    outputs = [{"name": "z", "parameters": {"classification": {"int64_param": 4}}}]
    request = decode("FP32", [1, 2, 3], parameters=given, outputs=outputs, id="a")
    assert (request.id, request.priority, request.timeout_us) == ("a", 2, 70)
    assert [(output.index, output.classes) for output in request.outputs] == [(1, 4)]
    with pytest.raises(RequestError, match="priority='2': must be a whole number"):
        decode("FP32", [1, 2, 3], parameters={"priority": {"string_param": "2"}})
