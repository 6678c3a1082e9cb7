"""What hostile or broken clients send: an error of the protocol, bounded memory, and everybody else is served."""

import gzip
import json
import socket
import zlib
from pathlib import Path

import pytest

from tests.tables import each_row
from tests.waiting import wait_until

INFER = "/v2/models/digits/infer"
MIB = 1 << 20
COMPRESSED = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.fixture(autouse=True)
def serves_on(request, document):
    """After each attack the server still answers, with the memory of before."""
    impatient = "impatient_server" in request.fixturenames
    server = request.getfixturevalue("impatient_server" if impatient else "shared_server")
    before = resident_bytes(server)
    yield
    wait_until(lambda: is_answered(server, document()), "an answer within the limits")
    assert resident_bytes(server) - before < 100 * MIB
    assert not [line for line in server.log if "Traceback" in line]


def is_answered(server, document) -> bool:
    """Whether the server took the request: short limits also send away a client that a busy machine held up."""
    try:
        status, _, answer = server.request("POST", INFER, document)
    except ConnectionError:
        return False
    if status == 408:
        return False
    assert (status, answer["outputs"][0]["data"]) == (200, [1.0] * 10)
    return True


def resident_bytes(server) -> int:
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096


def answer_to(connection: socket.socket) -> bytes:
    """Read until the server closes."""
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def send_until_refused(connection: socket.socket, data: bytes, times: int) -> None:
    try:
        for _ in range(times):
            connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


@each_row(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"inputs": "\xc3\x28"}',
        b"[" * 900_000,
        b'{"a":' * 150_000,
        b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1,1,8,8], "data": ' + b"[" * 800_000,
        b'{"inputs": [' + b"{}," * 300_000 + b"{}]}",
        b'{"inputs": [{"name": "\\ud800"}]}',
        b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1,1,8,8], "data": [NaN]}]}',
        b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1,1,8,8], "data": [1e999]}]}',
        b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1,1,8,8], "data": ['
        + b"[" * 500
        + b"]" * 500
        + b"]}]}",
    ],
    ids=range(14),
)
def test_malformed_bodies(shared_server, body):
    status, _, answer = shared_server.request("POST", INFER, body)
    assert status == 400
    assert answer["error"]


@each_row("length", ["-1", "+5", "1_0", "0x10", "9" * 18, "9" * 5000, "99999999999999999999", "", "1.5", "\xb2"])
def test_header_length(shared_server, document, length):
    headers = {"Inference-Header-Content-Length": length}
    status, _, answer = shared_server.request("POST", INFER, document(), headers)
    assert status == 400
    assert "Inference-Header-Content-Length" in answer["error"]


@each_row("size", [-1, 2**63, 10**30, 255, 257, True, "256", 256.0, [256]])
def test_binary_sizes(shared_server, size):
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "parameters": {"binary_data_size": size}}
    text = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    status, _, answer = shared_server.request("POST", INFER, text + bytes(256), headers)
    assert status == 400
    assert answer["error"]


def test_body_too_large_is_reported_before_it_is_sent_and_while_it_is(shared_server):
    with shared_server.raw() as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n" % INFER.encode())
        connection.shutdown(socket.SHUT_WR)
        assert b" 413 " in answer_to(connection)
    status, headers, answer = shared_server.request("POST", INFER, bytes(2_000_001))
    assert (status, headers["connection"]) == (413, "close")
    assert "limit: 2000000" in answer["error"]
    with shared_server.raw() as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode())
        send_until_refused(connection, b"10000\r\n" + bytes(65536) + b"\r\n", times=400)
        assert b" 413 " in answer_to(connection)


def test_large_json_part_is_refused_though_the_body_may_be_larger(shared_server):
    status, _, answer = shared_server.request("POST", INFER, b" " * 1_500_000)
    assert status == 413
    assert "limit: 1000000" in answer["error"]


def test_expect_continue_is_answered_without_a_body(shared_server):
    with shared_server.raw() as connection:
        connection.sendall(
            b"POST %s HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 3000000\r\n\r\n" % INFER.encode()
        )
        assert answer_to(connection).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("framing", ["announced", "chunked"])
@pytest.mark.parametrize("encoding", COMPRESSED)
def test_a_body_that_becomes_too_large_is_refused_in_between(shared_server, encoding, framing):
    bomb = COMPRESSED[encoding](bytes(200_000_000))
    content = bomb if framing == "announced" else iter([bomb])
    status, headers, answer = shared_server.request("POST", INFER, content, {"Content-Encoding": encoding})
    assert (status, headers["connection"]) == (413, "close")
    assert "limit: 2000000" in answer["error"]


def test_a_body_that_becomes_nothing_has_an_end(shared_server):
    stream = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    begin, flushed = stream.compress(b""), stream.flush(zlib.Z_FULL_FLUSH)
    blocks = 10_000 * flushed[-5:]
    head = b"POST %s HTTP/1.1\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    with shared_server.raw() as connection:
        connection.sendall(head)
        for chunk in (begin, *[blocks] * (2_000_000 // len(blocks) + 1)):
            connection.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("encoding", ["", "content-encoding: gzip\r\n"], ids=["plain", "compressed"])
def test_bodies_together_are_bounded_by_what_they_are_or_become(impatient_server, encoding):
    content = bytes(1_900_000)
    if encoding:
        stream = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        content = stream.compress(content) + stream.flush(zlib.Z_SYNC_FLUSH)
    connections = [impatient_server.raw() for _ in range(6)]
    head = f"POST {INFER} HTTP/1.1\r\n{encoding}content-length: 2000000\r\n\r\n".encode()
    for connection in connections:
        connection.sendall(head + content)
    answers = {answer_to(connection).split()[1] for connection in connections}
    assert answers == {b"503", b"408"}
    for connection in connections:
        connection.close()


def test_slow_clients_are_cut_off(impatient_server):
    head = b"GET / HTTP/1.1\r\nx: y\r\n"
    starts = [b"", b"GET", head, b"\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\n123"]
    connections = {start: impatient_server.raw() for start in starts}
    for start, connection in connections.items():
        connection.sendall(start)
    for start, connection in connections.items():
        with connection:
            assert b" 408 " in answer_to(connection), start


def test_what_is_not_http_is_counted_and_not_logged(shared_server):
    with shared_server.raw() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert answer_to(connection)
    assert 'athanor_http_responses{status="400"}' in shared_server.metrics()
    assert not [line for line in shared_server.log if "nvalid" in line]


def test_slow_next_request_on_a_kept_connection_is_cut_off(impatient_server):
    with impatient_server.raw() as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /v2/hea")
        assert b" 408 " in answer_to(connection)


def test_wrong_content_length(shared_server):
    for length in (b"-1", b"5, 6", b"1e3", b"99999999999999999999999", b"5\r\ncontent-length: 6"):
        with shared_server.raw() as connection:
            connection.sendall(b"POST %s HTTP/1.1\r\ncontent-length: %s\r\n\r\n{}" % (INFER.encode(), length))
            assert answer_to(connection).startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json"), (
                length
            )
    with shared_server.raw() as connection:
        # shorter than what is sent: the rest is not a request
        connection.sendall(b"POST %s HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}\x00\x01garbage\r\n\r\n" % INFER.encode())
        assert answer_to(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("kind", ["headers", "one_header", "url", "trailers", "chunk_framing"])
def test_endless_heads_and_trailers(shared_server, kind):
    post = b"POST %s HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" % INFER.encode()
    start, endless = {
        "headers": (b"GET /v2 HTTP/1.1\r\n", b"a: b\r\n" * 10_000),
        "one_header": (b"GET /v2 HTTP/1.1\r\na: ", b"a" * 60_000),
        "url": (b"GET /", b"a" * 60_000),
        "trailers": (post + b"0\r\n", b"a: b\r\n" * 10_000),
        "chunk_framing": (post, b"1;" + b"a" * 60_000 + b"\r\nx\r\n"),
    }[kind]
    with shared_server.raw() as connection:
        connection.sendall(start)
        send_until_refused(connection, endless, times=2000)
        answer = answer_to(connection)
    # a client that still writes may lose the answer to the reset of its connection
    assert not answer or answer.split()[1] in (b"431", b"400", b"413")


@each_row(
    "head",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"CONNECT host:1 HTTP/1.1\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\n\r\n",
        b"GET http:// HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_other_protocols(shared_server, head):
    with shared_server.raw() as connection:
        connection.sendall(head)
        assert answer_to(connection).split()[1:2] in ([b"400"], [b"404"], [b"405"])


def test_upgrade_requests_are_answered_as_plain_ones(shared_server):
    with shared_server.raw() as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_flood_of_pipelined_requests_is_cut_off(shared_server):
    with shared_server.raw() as connection:
        send_until_refused(connection, b"GET /v2/models/digits HTTP/1.1\r\n\r\n" * 1000, times=1000)
        answer = answer_to(connection)
    assert not answer or b"HTTP/1.1 429 " in answer


def test_too_many_connections_are_refused_and_do_not_stay(impatient_server):
    connections = [impatient_server.raw() for _ in range(80)]
    answers = [answer_to(connection) for connection in connections]
    assert {answer.split()[1] for answer in answers} == {b"503", b"408"}
    for connection in connections:
        connection.close()


def test_client_that_leaves_in_the_middle(shared_server):
    for _ in range(50):
        with shared_server.raw() as connection:
            connection.sendall(b"POST %s HTTP/1.1\r\ncontent-length: 1000\r\n\r\n{" % INFER.encode())


def test_pipelined_requests_are_answered_in_order(shared_server, document):
    parts = []
    for value in (3.0, 4.0, 5.0):
        body = json.dumps(document(value=value)).encode()
        parts.append(b"POST %s HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (INFER.encode(), len(body), body))
    last = b"GET /v2/health/live HTTP/1.1\r\nconnection: close\r\n\r\n"
    with shared_server.raw() as connection:
        connection.sendall(b"".join(parts) + last)
        answer = answer_to(connection)
    assert answer.count(b"HTTP/1.1 200") == 4
    assert answer.index(b"[3.0") < answer.index(b"[4.0") < answer.index(b"[5.0") < answer.index(b'"live"')
