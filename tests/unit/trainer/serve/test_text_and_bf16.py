"""BYTES and BF16, as tritonclient sends and reads them: decoded, run by a model, and encoded."""

from __future__ import annotations

import json
import re
import socket

import ml_dtypes
import numpy as np
import pytest
import torch
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from torch import Tensor, nn
from tritonclient.grpc import service_pb2
from tritonclient.grpc._utils import _get_inference_request

from tests.tables import each_row
from trainer.model_repository import torchscript
from trainer.serve import model, model_config, warmup, worker_channel
from trainer.serve.errors import ModelLoadError, RequestError
from trainer.serve.protocol import client_messages, grpc_messages, request, response, tensors
from trainer.serve.protocol.client_messages import AnsweredTensor
from trainer.serve.shadow_comparison import Comparer

SQUEEZED = "dims: [1] reshape { shape: [] }"
CONFIG = f"""
platform: "pytorch_libtorch"
max_batch_size: 4
input [{{ name: "words" data_type: TYPE_STRING {SQUEEZED} }}, {{ name: "factor" data_type: TYPE_BF16 dims: [2] }}]
output [
  {{ name: "upper" data_type: TYPE_STRING {SQUEEZED} }},
  {{ name: "lengths" data_type: TYPE_INT64 {SQUEEZED} }},
  {{ name: "doubled" data_type: TYPE_BF16 dims: [2] }}
]
"""
SPEC = model_config.parse(CONFIG, "m")
WORDS = np.array([["abc"], ["größer"]], object)
UPPER = ["ABC", "GRößER"]
"""TorchScript's upper() knows ASCII alone."""
FACTOR = np.array([[1.0, 0.5], [-3.0, 1e30]], ml_dtypes.bfloat16)


class Model(nn.Module):
    def forward(self, words: list[str], factor: Tensor) -> tuple[list[str], Tensor, Tensor]:
        upper: list[str] = []
        lengths: list[int] = []
        for word in words:
            upper.append(word.upper())
            lengths.append(len(word))
        return upper, torch.tensor(lengths), factor * 2


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.pt"
    torchscript.save_frozen(Model(), file)
    return model.load(file, SPEC, 1)


def answer(loaded, asked, encode):
    copies = [np.array(array, order="C") for array in asked.inputs]
    return encode(asked, SPEC, 1, loaded.infer(copies))


def inputs(client, **binary):
    given = [client.InferInput("words", [2, 1], "BYTES"), client.InferInput("factor", [2, 2], "BF16")]
    given[0].set_data_from_numpy(WORDS, **binary)
    given[1].set_data_from_numpy(FACTOR)
    return given


def check(result):
    # of JSON the client makes str
    upper = result.as_numpy("upper").ravel()
    assert [text if isinstance(text, str) else text.decode() for text in upper] == UPPER
    assert result.as_numpy("lengths").tolist() == [[3], [8]]
    assert result.as_numpy("doubled").dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.as_numpy("doubled"), FACTOR * 2)


@each_row(("words_are_binary", "upper_is_binary"), [(True, True), (False, False)])
def test_over_http(loaded, words_are_binary, upper_is_binary):
    outputs = [triton_http.InferRequestedOutput(name, binary_data=True) for name in ("doubled", "lengths")]
    outputs.append(triton_http.InferRequestedOutput("upper", binary_data=upper_is_binary))
    body, length = triton_http.InferenceServerClient.generate_request_body(
        inputs(triton_http, binary_data=words_are_binary), outputs=outputs
    )
    asked = request.decode(body, str(length).encode(), SPEC, 1 << 20)
    headers, content = answer(loaded, asked, response.encode)
    header_length = int(dict(headers)[b"inference-header-content-length"])
    check(triton_http.InferResult.from_response_body(content, header_length=header_length))


def test_over_grpc(loaded):
    message = _get_inference_request("m", inputs(triton_grpc), "", "", None, 0, False, False, 0, None, None)
    asked = grpc_messages.decode(message, list(message.raw_input_contents), SPEC)
    check(triton_grpc.InferResult(service_pb2.ModelInferResponse(**answer(loaded, asked, grpc_messages.encode))))
    message.inputs[0].contents.bytes_contents.extend(word.encode() for word in WORDS.ravel())
    with pytest.raises(RequestError, match=r"input 'factor': BF16 has no contents\. Fix: raw_input_contents"):
        grpc_messages.decode(message, [], SPEC)


TEXTS = model_config.parse(
    'platform: "pytorch_libtorch" input [{ name: "x" data_type: TYPE_STRING dims: [-1] }] '
    'output [{ name: "y" data_type: TYPE_STRING dims: [-1] }, { name: "z" data_type: TYPE_BF16 dims: [1] }]',
    "m",
)
BINARY = [{"name": "y"}, {"name": "z", "parameters": {"binary_data": True}}]


def decode(*, tail=b"", outputs=BINARY, **changes):
    entry = {"name": "x", "datatype": "BYTES", "shape": [2], **changes}
    if tail:
        entry["parameters"] = {"binary_data_size": len(tail)}
    text = json.dumps({"inputs": [entry], "outputs": outputs}).encode()
    return request.decode(text + tail, str(len(text)).encode(), TEXTS, 1 << 20)


def test_elements_are_any_bytes_and_a_body_of_bytes_alone_is_one():
    assert decode(tail=b"\x02\0\0\0\xff\0\0\0\0\0").inputs[0].tolist() == [b"\xff\0", b""]
    alone = request.decode(b"\xff\0\1", b"0", TEXTS, 1 << 20)
    assert (alone.inputs[0].tolist(), alone.inputs[0].shape) == ([b"\xff\0\1"], (1,))
    message = service_pb2.ModelInferRequest(
        inputs=[{"name": "x", "datatype": "BYTES", "shape": [2], "contents": {"bytes_contents": [b"\xff", b""]}}]
    )
    assert grpc_messages.decode(message, [], TEXTS).inputs[0].tolist() == [b"\xff", b""]


@each_row(
    ("message", "changes"),
    {
        "6 bytes end within element 0": {"tail": b"\x07\0\0\0ab"},
        "7 bytes end within element 1": {"tail": b"\0\0\0\0\0\0\0"},
        "1 elements; shape [2] needs 2": {"tail": b"\0\0\0\0"},
        "more than 2 elements; shape [2] needs 2": {"tail": bytes(20)},
        "8 bytes end within element 0": {"tail": b"\xff\xff\xff\xffabcd"},
        "1 values; shape [2] needs 2": {"data": ["a"]},
        "data holds other values than text: BYTES needs text": {"data": ["a", 1]},
        "other values than text": {"data": ["a", ["b"]]},
        "data is nested as [2, 1]": {"data": [["a"], ["b"]]},
        "output 'z': BF16 has no JSON form. Fix: ": {"data": ["a", "b"], "outputs": []},
        "output 'y': classification of BYTES": {
            "data": ["a", "b"],
            "outputs": [{"name": "y", "parameters": {"classification": 1}}],
        },
    }.items(),
)
def test_what_does_not_fit_is_refused(message, changes):
    with pytest.raises(RequestError, match=re.escape(message)) as refused:
        decode(**changes)
    assert refused.value.status == 400


def test_bf16_is_not_sent_in_json():
    entries = [
        {"name": "words", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]},
        {"name": "factor", "datatype": "BF16", "shape": [1, 2], "data": [1, 2]},
    ]
    with pytest.raises(RequestError, match=r"input 'factor': BF16 has no JSON form\. Fix: send it as a bin"):
        request.decode(json.dumps({"inputs": entries}).encode(), None, SPEC, 1 << 20)


def test_classification_orders_bf16_as_numbers():
    asked = request.RequestedOutput(index=2, binary=False, classes=2)
    bits = np.array([[-3.0, 1.5]], ml_dtypes.bfloat16).view(np.uint16)
    made = response.output_tensor(asked, SPEC, [np.empty(0)] * 2 + [bits])
    assert made.values() == ["1.500000:1", "-3.000000:0"]


@each_row("source", ["zero_data: true", "random_data: true", 'input_data_file: "words"'])
def test_a_model_is_warmed_up_with_text_and_bf16(loaded, tmp_path_factory, source):
    folder = tmp_path_factory.mktemp("model")
    (folder / "warmup").mkdir()
    (folder / "warmup" / "words").write_bytes(b"\x02\0\0\0ab")
    factor = source if "file" not in source else "zero_data: true"
    text = f"""{CONFIG} model_warmup [{{ name: "w" batch_size: 2 inputs [
        {{ key: "words" value: {{ data_type: TYPE_STRING dims: [1] {source} }} }},
        {{ key: "factor" value: {{ data_type: TYPE_BF16 dims: [2] {factor} }} }}
    ] }}]"""
    for config in (text, CONFIG):
        ran = []
        spec = model_config.parse(config, "m")
        warmed = model.LoadedModel.__new__(model.LoadedModel)
        warmed.spec, warmed.version = spec, 1
        warmed.infer = lambda arrays, ran=ran: ran.append(arrays) or loaded.infer(arrays)
        warmup.warm_up(warmed, folder, 60)
        words, factors = ran[0]
        assert words.shape == (len(words), 1)
        assert {type(word) for word in words.ravel()} == {bytes}
        numbers = factors.view(ml_dtypes.bfloat16).astype(float)
        assert ((numbers > 0) & (numbers < 1)).all() if config == text and "random" in source else not numbers.any()


def test_text_passes_to_the_process_of_a_model_and_back():
    ours, theirs = socket.socketpair()
    texts = tensors.array_of([b"\xff", b"", b"abc"], (3, 1))
    with ours, theirs:
        worker_channel.send(ours, {"call": "infer"}, [texts, np.arange(2.0)])
        _, arrays = worker_channel.receive(theirs)
    assert arrays[0].tolist() == texts.tolist()
    assert arrays[1].tolist() == [0.0, 1.0]
    assert [tensors.binary_size(array) for array in arrays] == [len(tensors.to_binary(array)) for array in arrays]


@each_row(
    ("words", "number", "reason"),
    [
        (b"ab", 1.0, None),
        (b"ac", 1.0, "value"),
        (b"ab", 1.5, "class"),
        (b"ab", 1.0078125, None),
        (b"ab", 1.0625, "value"),
    ],
)
def test_a_shadow_is_compared_in_text_and_in_bf16_as_numbers(words, number, reason):
    def results(word, first):
        doubled = np.array([[first, 1.25]], ml_dtypes.bfloat16).view(np.uint16)
        return [tensors.array_of([word], (1, 1)), np.ones((1, 1), np.int64), doubled]

    theirs = {
        tensor.name: AnsweredTensor(tensor.datatype.name, list(array.shape), memoryview(tensors.to_binary(array)))
        for tensor, array in zip(SPEC.outputs, results(words, number), strict=True)
    }
    comparer = Comparer(tolerance=0.01, classes=True)
    assert comparer.compare(SPEC, results(b"ab", 1.0), theirs).reason == reason


def test_a_shadow_is_asked_with_text():
    array = tensors.array_of([b"ab"], (1,))
    headers, body = client_messages.encode([array], TEXTS, None)
    asked = request.decode(body, dict(headers)[b"inference-header-content-length"], TEXTS, 1 << 20)
    assert asked.inputs[0].tolist() == [b"ab"]


@each_row(
    ("dims", "batches", "refusal"),
    [
        (
            "[1]",
            "max_batch_size: 2",
            "TYPE_STRING is a list of text to the model. Fix: dims: [1] reshape { shape: [] }",
        ),
        ("[]", "max_batch_size: 2", ""),
        (SQUEEZED.removeprefix("dims: "), "max_batch_size: 2", ""),
        ("[2, 2]", "", "TYPE_STRING is a list of text to the model. Fix: dims: [-1]"),
        ("[2]", "", ""),
        ("[1] reshape { shape: [] }", "", "reshape or shape tensor: only dims: [1] reshape"),
        ("[2] reshape { shape: [] }", "max_batch_size: 2", "reshape or shape tensor: only dims: [1] reshape"),
        ("[1] reshape { shape: [1, 1] }", "max_batch_size: 2", "reshape or shape tensor: only dims: [1] reshape"),
    ],
)
def test_text_has_one_dimension(dims, batches, refusal):
    text = f"""platform: "pytorch_libtorch" {batches} input [{{ name: "x" data_type: TYPE_STRING dims: {dims} }}]
        output [{{ name: "y" data_type: TYPE_INT8 dims: [1] }}]"""
    if not refusal:
        model_config.parse(text, "m")
        return
    with pytest.raises(ModelLoadError, match=re.escape(refusal)):
        model_config.parse(text, "m")


def test_a_program_of_torch_export_has_no_text(tmp_path):
    with pytest.raises(ModelLoadError, match=r"model\.pt2: TYPE_STRING: torch\.export has no text\. Fix: "):
        model.load(tmp_path / "model.pt2", TEXTS, 1)
