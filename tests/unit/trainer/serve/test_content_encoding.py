"""Bodies that come compressed: what they become is within the limits of a body, and what is damaged is said."""

import contextlib
import gzip
import json
import zlib
from itertools import product

import grpc
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.tables import each_row
from tests.unit.trainer.serve.protocol_cases import GRPC_CASES, INFER, grpc_code
from trainer.serve import content_encoding
from trainer.serve.content_encoding import Decompression
from trainer.serve.errors import RequestError

CONTENT = json.dumps({"inputs": list(range(2000))}).encode()
FORMS = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}


def decompressed(encoding: str, chunks: list[bytes]) -> bytes:
    body = Decompression(encoding)
    content = b"".join(part for chunk in chunks for part in body.parts(chunk))
    body.end()
    return content


@each_row(("encoding", "size"), product(FORMS, [1, 7, 10_000_000]))
def test_a_body_is_whole_however_it_is_cut(encoding, size):
    sent = FORMS[encoding](CONTENT)
    assert decompressed(encoding, [sent[at : at + size] for at in range(0, len(sent), size)] + [b""]) == CONTENT


@each_row("parts", [1, 2])
def test_a_body_that_fills_its_last_part_ends_there(parts):
    content = bytes(parts * content_encoding._PART_BYTES)
    assert decompressed("gzip", [gzip.compress(content)]) == content


def test_no_body_is_whole():
    assert decompressed("gzip", [b""]) == b""


@each_row("encoding", FORMS)
def test_parts_are_small(encoding):
    body = Decompression(encoding)
    parts = body.parts(FORMS[encoding](bytes(50_000_000)))
    assert max(map(len, parts)) == content_encoding._PART_BYTES


@each_row(
    ("encoding", "sent", "reason"),
    [
        ("gzip", gzip.compress(CONTENT)[:-1], "its end is missing"),
        ("deflate", zlib.compress(CONTENT)[:-1], "its end is missing"),
        ("gzip", gzip.compress(CONTENT) + b"x", "there are bytes after its end"),
        ("gzip", gzip.compress(CONTENT)[:-8] + bytes(8), "incorrect data check"),
        ("gzip", CONTENT, "incorrect header check"),
        ("gzip", zlib.compress(CONTENT), "incorrect header check"),
        ("deflate", gzip.compress(CONTENT), "incorrect header check"),
    ],
)
def test_a_damaged_body_is_refused_with_the_reason(encoding, sent, reason):
    with pytest.raises(RequestError, match=f"body is not valid {encoding}: .*{reason}.* Fix: ") as refusal:
        decompressed(encoding, [sent])
    assert refusal.value.status == 400


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_tritons_client_may_compress(shared_server, algorithm, binary):
    image = np.ones((1, 1, 8, 8), np.float32)
    tensor = triton.InferInput("image", image.shape, "FP32")
    tensor.set_data_from_numpy(image, binary_data=binary)
    with contextlib.closing(triton.InferenceServerClient(shared_server.address)) as client:
        answer = client.infer(
            "digits", [tensor], request_compression_algorithm=algorithm, response_compression_algorithm=algorithm
        )
    assert answer.as_numpy("logits").tolist() == [[1.0] * 10]


@each_row("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_message_may_be_compressed_and_becomes_as_large_as_any(shared_server, algorithm):
    case = next(case for case in GRPC_CASES if case.name == "infer: raw")
    with grpc.insecure_channel(shared_server.grpc_address, compression=algorithm) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert grpc_code(stub, case)[0] == "OK"
        bomb = service_pb2.ModelInferRequest(model_name="digits", raw_input_contents=[bytes(200_000_000)])
        with pytest.raises(grpc.RpcError) as refusal:
            stub.ModelInfer(bomb)
    assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@each_row("encoding", ["br", "gzip, gzip", "gzip, deflate", "zstd", "é"])
def test_other_encodings_are_refused_with_the_fix(shared_server, document, encoding):
    status, _, body = shared_server.request("POST", INFER, document(), {"Content-Encoding": encoding})
    assert status == 415
    assert "uncompressed" in body["error"]


@each_row("encoding", ["identity", "GZIP", " gzip "])
def test_an_encodings_name_may_be_written_otherwise(shared_server, document, encoding):
    content = json.dumps(document()).encode()
    sent = content if encoding == "identity" else gzip.compress(content)
    assert shared_server.request("POST", INFER, sent, {"Content-Encoding": encoding})[0] == 200


def test_other_requests_may_be_compressed_too(shared_server):
    index = gzip.compress(b'{"ready": true}')
    status, _, models = shared_server.request("POST", "/v2/repository/index", index, {"Content-Encoding": "gzip"})
    assert (status, len(models)) == (200, 1)
