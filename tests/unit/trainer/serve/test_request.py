"""Bodies to arrays: every datatype, and each way in which a body may not fit."""

import contextlib
import json

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import each_row
from trainer.serve import model_config
from trainer.serve.errors import RequestError
from trainer.serve.protocol import request, response

DATATYPES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


def spec(datatype="FP32", dims="3", batch=4, inputs=("x",)):
    def tensor(name):
        return f'{{ name: "{name}" data_type: TYPE_{datatype} dims: [{dims}] }}'

    text = f"""platform: "pytorch_libtorch" max_batch_size: {batch}
    input [{", ".join(map(tensor, inputs))}] output [{tensor("y")}, {tensor("z")}]"""
    return model_config.parse(text, "m")


def decode(document, model=None, *, tail=b"", header=None, limit=1 << 20):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    length = header if header is not None else str(len(text)).encode() if tail else None
    return request.decode(text + tail, length, model or spec(), limit)


def tensor(**changes):
    return {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2.5, 3]} | changes


def body(**changes):
    return {"inputs": [tensor(**changes)]}


def raw(content: bytes, **model):
    return decode(content, spec(**model), header=b"0")


@each_row(
    ("dims", "batch", "count", "shape"),
    [("3", 4, 3, (1, 3)), ("3", 0, 3, (3,)), ("-1", 4, 5, (1, 5)), ("-1, 4", 0, 8, (2, 4)), ("2, -1", 4, 6, (1, 2, 3))],
)
def test_a_body_of_bytes_alone_has_the_shape_that_fits(dims, batch, count, shape):
    """What Triton 2.51 answers to the same bytes."""
    values = np.arange(count, dtype="<f4")
    decoded = raw(values.tobytes(), dims=dims, batch=batch)
    assert (decoded.inputs[0].shape, decoded.rows, decoded.id) == (shape, 1, None)
    assert decoded.inputs[0].ravel().tolist() == values.tolist()
    assert [(output.index, output.binary) for output in decoded.outputs] == [(0, True), (1, True)]


@each_row(
    ("content", "model", "message"),
    [
        (b"", {}, "0 bytes; shape .1, 3. of FP32 needs 12"),
        (bytes(24), {}, "24 bytes; shape .1, 3. of FP32 needs 12"),
        (bytes(19), {"dims": "-1"}, "19 bytes; shape .1, 4. of FP32 needs 16"),
        (b"", {"dims": "-1"}, r"shape=\[1, 0\]: must be"),
        (bytes(12), {"dims": "-1, -1"}, "cannot be known from 12 bytes"),
        (bytes(12), {"inputs": ("x", "w")}, "is for models of one input"),
        (b"\x02" * 3, {"datatype": "BOOL"}, "a BOOL byte must be 0 or 1"),
    ],
)
def test_a_body_of_bytes_alone_that_does_not_fit_is_refused(content, model, message):
    with pytest.raises(RequestError, match=message) as refused:
        raw(content, **model)
    assert refused.value.status == 400


@each_row(("name", "numpy"), DATATYPES.items())
def test_every_datatype_in_json_and_binary(name, numpy):
    values = np.array([[0, 1, 1]], numpy)
    model = spec(name)
    from_json = decode(body(datatype=name, data=values.tolist()), model).inputs[0]
    binary = {"name": "x", "datatype": name, "shape": [1, 3], "parameters": {"binary_data_size": values.nbytes}}
    from_binary = decode({"inputs": [binary]}, model, tail=values.tobytes()).inputs[0]
    for array in (from_json, from_binary):
        assert array.dtype == values.dtype
        np.testing.assert_array_equal(array, values)
    decoded = decode(body(datatype=name, data=values.tolist()), model)
    _, encoded = response.encode(decoded, model, 1, [values, values])
    assert orjson.loads(encoded)["outputs"][0]["data"] == values.reshape(-1).tolist()


@each_row("name", [name for name in DATATYPES if "INT" in name])
def test_limits_of_whole_numbers(name):
    limits = np.iinfo(DATATYPES[name])
    array = decode(body(datatype=name, data=[int(limits.min), 0, int(limits.max)]), spec(name)).inputs[0]
    assert array.tolist() == [[limits.min, 0, limits.max]]
    for outside in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises(RequestError, match=rf"{name} (holds|needs)"):
            decode(body(datatype=name, data=[outside, 0, 0]), spec(name))


def test_nested_and_flat_data_are_the_same():
    nested = body(shape=[2, 3], data=[[1, 2, 3], [4, 5, 6]])
    flat = body(shape=[2, 3], data=[1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(decode(nested).inputs[0], decode(flat).inputs[0])
    assert decode(flat).rows == 2


def test_inputs_come_in_the_models_order_and_binary_ones_in_the_bodys():
    model = spec(inputs=("a", "b"))
    size = {"binary_data_size": 12}
    entries = [{"name": name, "datatype": "FP32", "shape": [1, 3], "parameters": size} for name in ("b", "a")]
    values = np.arange(6, dtype="<f4")
    decoded = decode({"inputs": entries}, model, tail=values.tobytes())
    assert [array.tolist() for array in decoded.inputs] == [[[3.0, 4.0, 5.0]], [[0.0, 1.0, 2.0]]]


WRONG = {
    "inputs: must be an array": {},
    "inputs: must be an array of objects, is a string": {"inputs": "x"},
    r"inputs\[0\]: must be a JSON object, is a number": {"inputs": [1]},
    r"inputs\[0\].name=None": {"inputs": [{}]},
    r"inputs\[0\].name='other'": body(name="other"),
    "'x' is there twice": {"inputs": [tensor(), tensor()]},
    r"inputs \['x'\] are missing": {"inputs": []},
    "datatype='FP64': must be 'FP32'": body(datatype="FP64"),
    "datatype=None": body(datatype=None),
    "shape=None": body(shape=None),
    r"shape=\[3\]": body(shape=[3]),
    r"shape=\[1, 4\]": body(shape=[1, 4], data=[1, 2, 3, 4]),
    r"shape=\[-1, 3\]": body(shape=[-1, 3]),
    r"shape=\[0, 3\]": body(shape=[0, 3], data=[]),
    r"shape=\[True, 3\]": body(shape=[True, 3]),
    r"shape=\[1.0, 3\]": body(shape=[1.0, 3]),
    r"batch of 5; limit: 4": body(shape=[5, 3], data=[1] * 15),
    "2 values; .* needs 3": body(data=[1, 2]),
    "3 values; .* needs 12000000000000000000": body(shape=[4 * 10**18, 3]),
    "must be an array, is missing or null": body(data=None),
    "must be an array, is a string": body(data="123"),
    "nested unevenly": body(data=[[1, 2], [3]]),
    r"nested as \[3, 1\]": body(data=[[1], [2], [3]]),
    "holds text: FP32 needs numbers": body(data=["1", "2", "3"]),
    "holds null": body(data=[1, 2, None]),
    "holds booleans: ": body(data=[True, False, True]),
    "holds booleans among numbers: FP32 needs numbers": body(data=[1, True, 3]),
    "booleans among numbers: ": body(data=[[1, 2.5, False]]),
    "value 1e[+]?39: FP32 holds": body(data=[1, 2, 1e39]),
    "id: must be a string, is a number": body() | {"id": 7},
    "parameters: must be a JSON object": body() | {"parameters": []},
    "binary_data_output: must be true or false": body() | {"parameters": {"binary_data_output": 1}},
    "outputs: must be an array": body() | {"outputs": {}},
    r"outputs\[0\].name='w'": body() | {"outputs": [{"name": "w"}]},
    "outputs: 'y' is there twice": body() | {"outputs": [{"name": "y"}, {"name": "y"}]},
    "binary_data: must be true or false": body() | {"outputs": [{"name": "y", "parameters": {"binary_data": "yes"}}]},
    "classification='3': must be a whole number": body()
    | {"outputs": [{"name": "y", "parameters": {"classification": "3"}}]},
    "classification=-1: must be a whole number": body()
    | {"outputs": [{"name": "y", "parameters": {"classification": -1}}]},
    "priority=1.5: must be a whole number": body() | {"parameters": {"priority": 1.5}},
    "timeout=True: must be a whole number": body() | {"parameters": {"timeout": True}},
}


@each_row(("message", "document"), WRONG.items(), ids=range(len(WRONG)))
def test_body_that_does_not_fit(message, document):
    with pytest.raises(RequestError, match=message) as error:
        decode(document)
    assert error.value.status == 400


def test_fractions_are_not_whole_numbers_and_numbers_no_booleans():
    with pytest.raises(RequestError, match="fractions: INT32 needs whole numbers"):
        decode(body(datatype="INT32", data=[1, 2, 3.5]), spec("INT32"))
    for data in ([1, True, 0], [[1, 2, False]]):
        with pytest.raises(RequestError, match="booleans among numbers: INT8 needs whole numbers"):
            decode(body(datatype="INT8", data=data), spec("INT8"))
    with pytest.raises(RequestError, match="BOOL needs true or false"):
        decode(body(datatype="BOOL", data=[0, 1, 1]), spec("BOOL"))
    tensor_of_bytes = {"name": "x", "datatype": "BOOL", "shape": [1, 3], "parameters": {"binary_data_size": 3}}
    with pytest.raises(RequestError, match="BOOL byte must be 0 or 1"):
        decode({"inputs": [tensor_of_bytes]}, spec("BOOL"), tail=b"\x00\x01\x02")


def test_batches_of_all_inputs_are_of_one_size():
    entries = [tensor(name="a"), tensor(name="b", shape=[2, 3], data=[0] * 6)]
    with pytest.raises(RequestError, match=r"different sizes: \[1, 2\]"):
        decode({"inputs": entries}, spec(inputs=("a", "b")))


def test_model_without_batch_dimension_and_with_free_sizes():
    model = spec(dims="-1, 2", batch=0)
    assert decode(body(shape=[3, 2], data=[0] * 6), model).rows == 1
    with pytest.raises(RequestError, match=r"must be \[-1, 2\]"):
        decode(body(shape=[1, 3, 2], data=[0] * 6), model)


def test_binary_data_that_does_not_add_up():
    def entry(**parameters):
        return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "parameters": parameters}]}

    with pytest.raises(RequestError, match="0 bytes remain after the JSON"):
        decode(entry(binary_data_size=12))
    with pytest.raises(RequestError, match="4 bytes after the JSON belong to no input"):
        decode(entry(binary_data_size=12), tail=bytes(16))
    with pytest.raises(RequestError, match=r"8 bytes; .* needs 12"):
        decode(entry(binary_data_size=8), tail=bytes(8))
    with pytest.raises(RequestError, match="both data and binary_data_size"):
        decode(body(parameters={"binary_data_size": 12}), tail=bytes(12))


def test_json_part_is_limited():
    with pytest.raises(RequestError, match="limit: 10") as error:
        decode(body(), limit=10)
    assert error.value.status == 413


def test_outputs_are_chosen_and_ordered_by_the_request():
    chosen = [{"name": "z", "parameters": {"binary_data": True}}, {"name": "y"}]
    decoded = decode(body() | {"outputs": chosen, "id": "ä"})
    results = [np.array([[1.0, 2.0, np.nan]], "<f4"), np.array([[4.0, 5.0, 6.0]], "<f4")]
    headers, encoded = response.encode(decoded, spec(), 3, results)
    size = int(dict(headers)[b"inference-header-content-length"])
    document = orjson.loads(encoded[:size])
    assert (document["id"], document["model_version"]) == ("ä", "3")
    assert [output["name"] for output in document["outputs"]] == ["z", "y"]
    assert document["outputs"][1]["data"] == [1.0, 2.0, None]
    assert np.frombuffer(encoded[size:], "<f4").tolist() == [4.0, 5.0, 6.0]
    default = decode(body() | {"outputs": [], "parameters": {"binary_data_output": True}})
    assert [(output.index, output.binary) for output in default.outputs] == [(0, True), (1, True)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(["id", "parameters", "outputs"]), json_values),
    st.dictionaries(st.sampled_from(["name", "datatype", "shape", "data", "parameters"]), json_values),
    st.binary(max_size=20),
)
def test_no_json_gets_further_than_an_error(top, changes, tail):
    document = top | {"inputs": [tensor(**changes)]}
    with contextlib.suppress(RequestError):
        assert decode(document, tail=tail).inputs[0].shape == (1, 3)


@given(st.binary(max_size=200), st.binary(max_size=30))
def test_no_bytes_get_further_than_an_error(content, header):
    with pytest.raises(RequestError):
        request.decode(content, header, spec(), 1 << 20)


def test_shared_memory_is_refused():
    region = {"shared_memory_region": "a", "shared_memory_byte_size": 12}
    for document in (body(parameters=region), body() | {"outputs": [{"name": "y", "parameters": region}]}):
        with pytest.raises(RequestError, match="shared memory is not supported") as error:
            decode(document)
        assert error.value.status == 501


@each_row(
    ("datatype", "values", "count", "expected"),
    [
        ("FP32", [[0.5, 2, -1], [1, 1, 3]], 2, ["2.000000:1", "0.500000:0", "3.000000:2", "1.000000:0"]),
        ("INT8", [[-128, 127, 0]], 9, ["127:1", "0:2", "-128:0"]),
        ("UINT64", [[0, 2**63, 1]], 1, [f"{2**63}:1"]),
    ],
)
def test_classification_sorts_each_row(datatype, values, count, expected):
    model = spec(datatype)
    document = body(datatype=datatype, data=[0, 1, 1]) | {
        "outputs": [
            {"name": "y", "parameters": {"classification": count}},
            {"name": "z", "parameters": {"classification": count, "binary_data": True}},
        ]
    }
    array = np.array(values, DATATYPES[datatype])
    headers, content = response.encode(decode(document, model), model, 1, [array, array])
    size = int(dict(headers)[b"inference-header-content-length"])
    in_json, in_bytes = orjson.loads(content[:size])["outputs"]
    shape = [len(values), min(count, 3)]
    assert in_json == {"name": "y", "datatype": "BYTES", "shape": shape, "data": expected}
    packed = b"".join(len(text).to_bytes(4, "little") + text.encode() for text in expected)
    assert in_bytes["parameters"] == {"binary_data_size": len(packed)}
    assert content[size:] == packed
