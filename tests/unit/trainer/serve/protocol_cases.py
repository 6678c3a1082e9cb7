"""The same requests for our server and for Triton, with the status of each: what docs/serving-protocol.md compares.

By hand against a real tritonserver that serves `digits` (docs/serving-protocol.md):
`python -m tests.unit.trainer.serve.protocol_cases HOST:HTTP_PORT HOST:GRPC_PORT`.
"""

import gzip
import http.client
import json
import sys
import zlib
from dataclasses import dataclass, field

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

TENSOR = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [1.0] * 64}
RAW = np.ones(64, "<f4").tobytes()
INFER = "/v2/models/digits/infer"


def body(*, outputs=None, parameters=None, **tensor) -> bytes:
    document: dict = {"inputs": [TENSOR | tensor]}
    if outputs is not None:
        document["outputs"] = outputs
    if parameters is not None:
        document["parameters"] = parameters
    return json.dumps(document).encode()


def classified(count: object) -> list:
    return [{"name": "logits", "parameters": {"classification": count}}]


SHARED = json.dumps(
    {
        "inputs": [
            {key: value for key, value in TENSOR.items() if key != "data"}
            | {"parameters": {"shared_memory_region": "a", "shared_memory_byte_size": 256}}
        ]
    }
).encode()


@dataclass(frozen=True)
class HttpCase:
    name: str
    method: str
    path: str
    ours: int
    triton: int
    content: bytes = b""
    headers: dict = field(default_factory=dict)


def _binary(size: int, length: int | None = None) -> dict:
    head = {k: v for k, v in TENSOR.items() if k != "data"} | {"parameters": {"binary_data_size": size}}
    text = json.dumps({"inputs": [head]}).encode()
    return {"content": text + RAW, "headers": {"Inference-Header-Content-Length": str(length or len(text))}}


HTTP_CASES = [
    HttpCase("live", "GET", "/v2/health/live", 200, 200),
    HttpCase("ready", "GET", "/v2/health/ready", 200, 200),
    HttpCase("model ready", "GET", "/v2/models/digits/ready", 200, 200),
    HttpCase("version ready", "GET", "/v2/models/digits/versions/1/ready", 200, 200),
    HttpCase("missing version ready", "GET", "/v2/models/digits/versions/2/ready", 404, 400),
    HttpCase("unknown model ready", "GET", "/v2/models/other/ready", 404, 400),
    HttpCase("server metadata", "GET", "/v2", 200, 200),
    HttpCase("metadata", "GET", "/v2/models/digits", 200, 200),
    HttpCase("metadata of an unknown model", "GET", "/v2/models/other", 404, 404),
    HttpCase("metadata of a missing version", "GET", "/v2/models/digits/versions/2", 404, 404),
    HttpCase("configuration", "GET", "/v2/models/digits/config", 200, 200),
    HttpCase("configuration of an unknown model", "GET", "/v2/models/other/config", 404, 404),
    HttpCase("statistics", "GET", "/v2/models/digits/stats", 200, 200),
    HttpCase("all statistics", "GET", "/v2/models/stats", 200, 200),
    HttpCase("statistics of an unknown model", "GET", "/v2/models/other/stats", 404, 400),
    HttpCase("index", "POST", "/v2/repository/index", 200, 200),
    HttpCase("index: invalid JSON", "POST", "/v2/repository/index", 400, 500, b"{"),
    HttpCase("load an unknown model", "POST", "/v2/repository/models/other/load", 404, 500),
    HttpCase("unload an unknown model", "POST", "/v2/repository/models/other/unload", 404, 200),
    HttpCase("infer", "POST", INFER, 200, 200, body()),
    HttpCase("infer: binary", "POST", INFER, 200, 200, **_binary(256)),
    HttpCase("infer: bytes alone", "POST", INFER, 200, 200, RAW, {"Inference-Header-Content-Length": "0"}),
    HttpCase("infer: too few bytes alone", "POST", INFER, 400, 400, RAW[1:], {"Inference-Header-Content-Length": "0"}),
    HttpCase("infer: version", "POST", "/v2/models/digits/versions/1/infer", 200, 200, body()),
    HttpCase("infer: missing version", "POST", "/v2/models/digits/versions/2/infer", 404, 404, body()),
    HttpCase("infer: non-numeric version", "POST", "/v2/models/digits/versions/x/infer", 404, 404, body()),
    HttpCase("infer: unknown model", "POST", "/v2/models/other/infer", 404, 404, body()),
    HttpCase("infer: GET", "GET", INFER, 405, 405),
    HttpCase("unknown path", "GET", "/v2/unknown", 404, 404),
    HttpCase("infer: empty body", "POST", INFER, 400, 400),
    HttpCase("infer: invalid JSON", "POST", INFER, 400, 500, b"{"),
    HttpCase("infer: no inputs", "POST", INFER, 400, 500, b"{}"),
    HttpCase("infer: input twice", "POST", INFER, 400, 400, json.dumps({"inputs": [TENSOR, TENSOR]}).encode()),
    HttpCase("infer: unknown input", "POST", INFER, 400, 400, body(name="other")),
    HttpCase("infer: other datatype", "POST", INFER, 400, 400, body(datatype="FP64")),
    HttpCase("infer: other shape", "POST", INFER, 400, 400, body(shape=[1, 64])),
    HttpCase("infer: negative size", "POST", INFER, 400, 500, body(shape=[-1, 1, 8, 8])),
    HttpCase("infer: too few values", "POST", INFER, 400, 500, body(data=[1.0])),
    HttpCase("infer: too many values", "POST", INFER, 400, 500, body(data=[1.0] * 65)),
    HttpCase("infer: text for numbers", "POST", INFER, 400, 500, body(data=["a"] * 64)),
    HttpCase("infer: batch too large", "POST", INFER, 400, 400, body(shape=[9, 1, 8, 8], data=[1.0] * 576)),
    HttpCase("infer: unknown output", "POST", INFER, 400, 400, body(outputs=[{"name": "other"}])),
    HttpCase("infer: classification", "POST", INFER, 200, 200, body(outputs=classified(3))),
    HttpCase("infer: more classes than there are", "POST", INFER, 200, 200, body(outputs=classified(99))),
    HttpCase("infer: classification as text", "POST", INFER, 400, 500, body(outputs=classified("3"))),
    HttpCase("infer: priority", "POST", INFER, 200, 200, body(parameters={"priority": 2})),
    HttpCase("infer: priority beyond the levels", "POST", INFER, 200, 200, body(parameters={"priority": 9})),
    HttpCase("infer: priority as text", "POST", INFER, 400, 500, body(parameters={"priority": "1"})),
    HttpCase("infer: timeout", "POST", INFER, 200, 200, body(parameters={"timeout": 60_000_000})),
    HttpCase("infer: input in shared memory", "POST", INFER, 501, 404, SHARED),
    HttpCase("infer: gzip", "POST", INFER, 200, 200, gzip.compress(body()), {"Content-Encoding": "gzip"}),
    HttpCase("infer: deflate", "POST", INFER, 200, 200, zlib.compress(body()), {"Content-Encoding": "deflate"}),
    HttpCase("infer: damaged gzip", "POST", INFER, 400, 400, b"\x1f\x8b", {"Content-Encoding": "gzip"}),
    HttpCase("infer: unknown encoding", "POST", INFER, 415, 501, body(), {"Content-Encoding": "br"}),
    HttpCase("infer: header length beyond the body", "POST", INFER, 400, 400, **_binary(256, 99999)),
    HttpCase("infer: fewer binary bytes than declared", "POST", INFER, 400, 400, **_binary(260)),
    HttpCase("infer: more binary bytes than declared", "POST", INFER, 400, 400, **_binary(252)),
    HttpCase("trace settings", "GET", "/v2/trace/setting", 501, 200),
    HttpCase("log settings", "GET", "/v2/logging", 501, 200),
    HttpCase("shared memory status", "GET", "/v2/systemsharedmemory/status", 501, 200),
    HttpCase("shared memory of GPUs", "GET", "/v2/cudasharedmemory/status", 501, 200),
]


def http_status(address: str, case: HttpCase) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(case.method, case.path, case.content, case.headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@dataclass(frozen=True)
class GrpcCase:
    name: str
    call: str
    ours: str
    triton: str
    message: object


def infer_message(*, contents=None, tensor=None, **changes) -> service_pb2.ModelInferRequest:
    given: dict = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8]} | (tensor or {})
    message: dict = {"model_name": "digits", "inputs": [given]}
    if contents is None:
        message["raw_input_contents"] = [RAW]
    else:
        given["contents"] = contents
    return service_pb2.ModelInferRequest(**(message | changes))


def _infer(name: str, ours: str, triton: str, **changes) -> GrpcCase:
    return GrpcCase(f"infer: {name}", "ModelInfer", ours, triton, infer_message(**changes))


_OK, _WRONG, _MISSING, _NOT_HERE = "OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"

GRPC_CASES = [
    GrpcCase("live", "ServerLive", _OK, _OK, service_pb2.ServerLiveRequest()),
    GrpcCase("ready", "ServerReady", _OK, _OK, service_pb2.ServerReadyRequest()),
    GrpcCase("model ready", "ModelReady", _OK, _OK, service_pb2.ModelReadyRequest(name="digits")),
    GrpcCase("unknown model ready", "ModelReady", _OK, _OK, service_pb2.ModelReadyRequest(name="other")),
    GrpcCase("server metadata", "ServerMetadata", _OK, _OK, service_pb2.ServerMetadataRequest()),
    GrpcCase("metadata", "ModelMetadata", _OK, _OK, service_pb2.ModelMetadataRequest(name="digits")),
    GrpcCase("unknown model", "ModelMetadata", _MISSING, _MISSING, service_pb2.ModelMetadataRequest(name="other")),
    GrpcCase("configuration", "ModelConfig", _OK, _OK, service_pb2.ModelConfigRequest(name="digits")),
    GrpcCase("statistics", "ModelStatistics", _OK, _OK, service_pb2.ModelStatisticsRequest(name="digits")),
    GrpcCase("all statistics", "ModelStatistics", _OK, _OK, service_pb2.ModelStatisticsRequest()),
    GrpcCase("index", "RepositoryIndex", _OK, _OK, service_pb2.RepositoryIndexRequest()),
    GrpcCase(
        "unload an unknown model",
        "RepositoryModelUnload",
        _MISSING,
        _OK,
        service_pb2.RepositoryModelUnloadRequest(model_name="other"),
    ),
    GrpcCase("trace settings", "TraceSetting", _NOT_HERE, _OK, service_pb2.TraceSettingRequest()),
    GrpcCase("log settings", "LogSettings", _NOT_HERE, _OK, service_pb2.LogSettingsRequest()),
    GrpcCase(
        "shared memory status",
        "SystemSharedMemoryStatus",
        _NOT_HERE,
        _OK,
        service_pb2.SystemSharedMemoryStatusRequest(),
    ),
    _infer("raw", _OK, _OK),
    _infer("contents", _OK, _OK, contents={"fp32_contents": [1.0] * 64}),
    _infer("unknown model", _MISSING, _MISSING, model_name="other"),
    _infer("missing version", _MISSING, _MISSING, model_version="2"),
    _infer("non-numeric version", _MISSING, _WRONG, model_version="x"),
    _infer("no inputs", _WRONG, _WRONG, inputs=[], raw_input_contents=[]),
    _infer("unknown input", _WRONG, _WRONG, tensor={"name": "other"}),
    _infer("other datatype", _WRONG, _WRONG, tensor={"datatype": "FP64"}),
    _infer("other shape", _WRONG, _WRONG, tensor={"shape": [1, 64]}),
    _infer("negative size", _WRONG, _WRONG, tensor={"shape": [-1, 1, 8, 8]}),
    _infer("too few bytes", _WRONG, _WRONG, raw_input_contents=[RAW[1:]]),
    _infer("too many raw inputs", _WRONG, _OK, raw_input_contents=[RAW, RAW]),
    _infer("contents and raw", _WRONG, _WRONG, contents={"fp32_contents": [1.0]}, raw_input_contents=[RAW]),
    _infer("contents of another type", _WRONG, _WRONG, contents={"fp64_contents": [1.0] * 64}),
    _infer("unknown output", _WRONG, _WRONG, outputs=[{"name": "other"}]),
    _infer("batch too large", _WRONG, _WRONG, tensor={"shape": [9, 1, 8, 8]}, raw_input_contents=[RAW * 9]),
    _infer(
        "classification",
        _OK,
        _OK,
        outputs=[{"name": "logits", "parameters": {"classification": {"int64_param": 3}}}],
    ),
    _infer("priority", _OK, _OK, parameters={"priority": {"uint64_param": 2}}),
    _infer("priority beyond the levels", _OK, _OK, parameters={"priority": {"uint64_param": 9}}),
    _infer(
        "shared memory",
        _NOT_HERE,
        _WRONG,
        tensor={"parameters": {"shared_memory_region": {"string_param": "a"}}},
    ),
]


def grpc_code(stub: service_pb2_grpc.GRPCInferenceServiceStub, case: GrpcCase) -> tuple[str, str]:
    try:
        answer = getattr(stub, case.call)(case.message, timeout=60)
    except grpc.RpcError as error:
        return error.code().name, error.details() or ""
    return "OK", str(answer)


def main(http_address: str, grpc_address: str) -> int:
    """Print each case in which Triton answers something other than stated here; 1 if there is one."""
    wrong = 0
    for case in HTTP_CASES:
        status, content = http_status(http_address, case)
        if status != case.triton:
            wrong += 1
            print(f"HTTP {case.name}: {status}, stated {case.triton}: {content[:150]!r}")
    with grpc.insecure_channel(grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for case in GRPC_CASES:
            code, text = grpc_code(stub, case)
            if code != case.triton:
                wrong += 1
                print(f"gRPC {case.name}: {code}, stated {case.triton}: {text[:150]!r}")
    print(f"{len(HTTP_CASES) + len(GRPC_CASES)} cases, {wrong} not as stated")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
