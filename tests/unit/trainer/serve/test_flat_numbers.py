"""What is read in one go is what the general reader makes of the same text, and all else is left to that."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from tests.unit.trainer.serve.test_request import body, spec, tensor
from trainer.serve.errors import RequestError
from trainer.serve.protocol import request

NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65), st.floats(allow_nan=False, allow_infinity=False), st.integers(-300, 300)
)
ANYTHING = st.recursive(
    st.one_of(NUMBERS, st.none(), st.booleans(), st.text(max_size=3)), lambda inner: st.lists(inner, max_size=4)
)
DATATYPES = ("BOOL", "UINT8", "UINT64", "INT8", "INT64", "FP16", "FP64")


def outcome(text, model):
    try:
        decoded = request.decode(text, None, model, 1 << 20)
    except RequestError as error:
        return error.status, str(error)
    return decoded.inputs[0].tolist(), decoded.id, decoded.outputs, decoded.priority


def outcome_of_the_general_reader(text, model, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(request, "parse", lambda *_: None)
        return outcome(text, model)


@given(
    data=st.one_of(st.lists(NUMBERS, min_size=3, max_size=3), st.lists(ANYTHING, max_size=4), ANYTHING),
    datatype=st.sampled_from(DATATYPES),
    more=st.dictionaries(st.sampled_from(["id", "outputs", "parameters", "["]), ANYTHING),
)
def test_both_readers_agree(data, datatype, more):
    text = json.dumps({**body(datatype=datatype, data=data), **more}).encode()
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = outcome_of_the_general_reader(text, spec(datatype), monkeypatch)
    assert outcome(text, spec(datatype)) == expected


@given(cut=st.integers(0, 90), instead=st.binary(max_size=2))
def test_both_agree_on_damaged_texts(cut, instead):
    text = json.dumps(body()).encode()
    text = text[:cut] + instead + text[cut + 1 :]
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = outcome_of_the_general_reader(text, spec(), monkeypatch)
    assert outcome(text, spec()) == expected


@pytest.mark.parametrize(
    "document",
    [
        body(),
        {**body(), "id": "a", "outputs": [{"name": "y", "parameters": {"binary_data": False}}]},
        {"inputs": [tensor(), tensor(name="w", data=[1, 2, 3])], "parameters": {"priority": 1}},
    ],
)
def test_usual_requests_need_no_object_for_each_number(document):
    text = json.dumps(document).encode()
    parsed = request.parse(text, spec(inputs=("x", "w")))
    assert parsed is not None
    for place, entry in enumerate(parsed["inputs"]):
        assert isinstance(entry["data"], np.ndarray)
        entry["data"] = document["inputs"][place]["data"]
    assert parsed == orjson.loads(text)


@each_row(
    "text",
    [
        b'\xef\xbb\xbf{"inputs": []}',
        b'{"inputs": [{"name": "x", "shape": [1, 3], "data": [1, [2, 3], []]}]}',
        b'{"inputs": [{"name": "x", "shape": [1, 3], "data": [1], "data": [1, 2, 3]}]}',
        b'{"inputs": [{"name": "x", "shape": [[1], 3], "data": [1, 2, 3]}]}',
        b'{"inputs": [{"name": "x", "shape": [1, 3], "data": [1, 2, true]}]}',
        b'{"inputs": [{"name": "x", "shape": [1, 3], "data": [1, 2, 1e400]}]}',
        b'{"inputs": {"name": "x", "data": [1, 2, 3]}}',
        b'{"inputs": [3]}',
        b'{"inputs": [{"name": ["x"], "data": [1]}]}',
        b'{"inputs": [{"name": "strange", "data": [1]}]}',
        b'{"inputs": [{"data": [1]}]}',
        b"{}",
        b"{",
        b"",
        b"[]",
        b'{"inputs": [{"name": "x", "shape": [1, 3], "data": [1, 2, 3]}], "id": "' + b"a" * (1 << 20) + b'"}',
    ],
)
def test_all_else_is_left_to_the_general_reader(text):
    assert request.parse(text, spec()) is None
