"""Each request of the comparison with Triton has the status that docs/serving-protocol.md states for ours."""

from pathlib import Path

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from tests.tables import each_row
from tests.unit.trainer.serve.protocol_cases import GRPC_CASES, HTTP_CASES, grpc_code, http_status

PAGE = Path(__file__).resolve().parents[4] / "docs" / "serving-protocol.md"


@pytest.fixture(scope="module")
def stub(shared_server):
    with grpc.insecure_channel(shared_server.grpc_address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@each_row("case", HTTP_CASES, ids=lambda case: case.name)
def test_http(shared_server, case):
    status, content = http_status(shared_server.address, case)
    assert status == case.ours, content


@each_row("case", GRPC_CASES, ids=lambda case: case.name)
def test_grpc(stub, case):
    code, text = grpc_code(stub, case)
    assert code == case.ours, text


def test_the_page_lists_every_difference():
    page = PAGE.read_text()
    rows = [(f"HTTP {case.name}", case.ours, case.triton) for case in HTTP_CASES]
    rows += [(f"gRPC {case.name}", case.ours, case.triton) for case in GRPC_CASES]
    different = {f"| {name} | {ours} | {triton} |" for name, ours, triton in rows if ours != triton}
    assert {line for line in page.splitlines() if line.startswith(("| HTTP ", "| gRPC "))} == different
