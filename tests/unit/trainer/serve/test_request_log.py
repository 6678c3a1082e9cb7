"""Lines about requests: which are logged, and what a hostile client can put into them."""

import json
import logging

import pytest

from tests.tables import each_row
from trainer.common.log_lines import JsonFormatter
from trainer.serve.request_log import MAX_ID_CHARACTERS, MAX_LINES_PER_SECOND, RequestLog, RequestRecord, printable

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def lines(caplog):
    """Returns the JSON lines so far."""
    caplog.set_level(logging.INFO, "trainer.serve.request_log")
    return lambda: [json.loads(JsonFormatter().format(each)) for each in caplog.records]


def record(headers=None, **known):
    values = headers or {}
    return RequestRecord(protocol="http", headers=lambda name: values.get(name, []), began=100.0, **known)


def log(choice="failed", now=100.25):
    return RequestLog(choice, 5.0, lambda: now)


def test_a_failed_request_has_its_id_and_trace(lines):
    known = record({"traceparent": [TRACEPARENT]}, body_id="order-7", model="digits", version=3)
    log().ended(known, 503, "the queue is full")
    (line,) = lines()
    assert line["message"] == "request 'order-7': 503 after 0.250 s: the queue is full"
    assert line["level"] == "warning"
    fields = {"request_id": "order-7", "trace_id": TRACEPARENT[3:35], "span_id": TRACEPARENT[36:52]}
    fields |= {"protocol": "http", "status": 503, "seconds": 0.25, "model": "digits", "version": 3}
    assert {name: line[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("choice", "seconds", "reason", "logged"),
    [
        ("failed", 0.1, None, False),
        ("failed", 5.1, None, True),
        ("failed", 0.1, "why", True),
        ("all", 0.1, None, True),
        ("none", 9.0, "why", False),
    ],
)
def test_which_requests_are_logged(lines, choice, seconds, reason, logged):
    log(choice, 100.0 + seconds).ended(record(), 200, reason)
    assert bool(lines()) == logged


@each_row(
    ("known", "headers", "expected"),
    [
        ("body", {"x-request-id": ["head"]}, "body"),
        (None, {"x-request-id": ["head"], "triton-request-id": ["triton"]}, "head"),
        (None, {"triton-request-id": ["triton"]}, "triton"),
        (None, {"x-request-id": ["a", "b"]}, None),
        (None, {"x-request-id": ["a b"]}, None),
        (None, {"x-request-id": ["é"]}, None),
        (None, {"x-request-id": ["a\x1b[31m"]}, None),
        (None, {"x-request-id": ["a" * (MAX_ID_CHARACTERS + 1)]}, None),
        (None, {}, None),
        ("a\nb\x1b[31m\u202e\ud800", {}, "a\\nb\\x1b[31m\\u202e\\ud800"),
        ("x" * 100_000, {}, "x" * MAX_ID_CHARACTERS + "…"),
    ],
)
def test_id_of_a_request(known, headers, expected):
    assert record(headers, body_id=known).id == expected


def test_reason_is_one_line_without_control_characters(lines):
    log().ended(record(), 400, "bad\r\nvalue\x00" + "y" * 10_000)
    (line,) = lines()
    assert "bad\\r\\nvalue\\x00yyy" in line["message"]
    assert len(line["message"]) < 700


def test_lines_of_a_second_are_limited_and_the_rest_is_counted(lines):
    now = 100.0
    limited = RequestLog("failed", 5.0, lambda: now)
    for _ in range(MAX_LINES_PER_SECOND + 7):
        limited.ended(record(), 400, "wrong")
    assert len(lines()) == MAX_LINES_PER_SECOND
    now = 101.0
    limited.ended(record(), 400, "wrong")
    assert lines()[-1]["requests_not_logged"] == 7
    limited.ended(record(), 400, "wrong")
    assert "requests_not_logged" not in lines()[-1]


def test_all_requests_are_not_limited(lines):
    every = log("all")
    for _ in range(3 * MAX_LINES_PER_SECOND):
        every.ended(record(), 200)
    assert len(lines()) == 3 * MAX_LINES_PER_SECOND


def test_printable_leaves_plain_text_alone():
    assert printable("größer als 5 µs: '\\d'", 100) == "größer als 5 µs: '\\d'"
