"""A line shows and does nothing else; structured ones read like those of a terminal."""

import json
import logging

import pytest

from athanor.inspection.control_characters import printable, shortened, written_out
from tests.tables import each_row
from tools.operations.log_lines import readable, sentence
from trainer.common.log_lines import FIELDS_ATTRIBUTE, JsonFormatter, TextFormatter


@each_row(
    ("line", "expected"),
    [
        ("plain\ttext ü", "plain\ttext ü"),
        ("\x1b[31mred\x1b[0m alert", "red alert"),
        ("\x1b[38;5;196mred\x1b[K", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP+q\x1b\\x", "x"),
        ("\x1b]0;without an end", "\\x1b]0;without an end"),
        ("\x1bc", "\\x1bc"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("bell\x07 back\x08 nul\x00 del\x7f", "bell\\x07 back\\x08 nul\\x00 del\\x7f"),
        ("one\u2028two\u202eeerht\u2066", "one\\u2028two\\u202eeerht\\u2066"),
        (" 10%|#\r 20%|##\r100%|#####", "100%|#####"),
        ("done\r", "done"),
        ("one\ntwo", "one\\x0atwo"),
        ("left\u200eright\u200f\u061c half \ud800", "left\\u200eright\\u200f\\u061c half \\ud800"),
    ],
)
def test_no_character_moves_the_cursor(line, expected):
    assert printable(line) == expected


def test_lines_stay_lines_and_keep_what_does_nothing():
    assert written_out("one\n\ttwo \x1b[2J\r\n") == "one\n\ttwo \\x1b[2J\\x0d\n"


@each_row(
    ("text", "expected"),
    [
        ("step\n  12", "step 12"),
        ("loss 0.12345678", "loss …"),
        ("x" * 20, "x" * 10 + " …"),
        ("a\x1b[2Jb\x07", "ab\\x07"),
    ],
)
def test_a_long_text_is_cut_between_words(text, expected):
    assert shortened(text, 10) == expected


@each_row("rank", ["9" * 5000, '"\u0663"', '"1_0"', "-1", r'"\ud800"'])
def test_no_line_ends_the_command(rank):
    line = f'{{"time": "t", "level": "info", "message": "half \\ud800", "rank": {rank}}}'
    assert readable(line.encode()).startswith(b"t ")


def test_what_is_not_text_is_written_out():
    assert readable(b"\xff\xfe x") == rb"\xff\xfe x"


def record(level: int, text: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("trainer", level, "", 0, text, (), None)
    setattr(made, FIELDS_ATTRIBUTE, fields)
    made.created, made.msecs = 1_795_000_000.125, 125
    return made


@pytest.mark.parametrize(
    ("level", "text", "fields"),
    [
        (logging.INFO, "step step=10 loss=0.1235", {"job": "j", "rank": 0, "step": 10, "loss": 0.123456}),
        (logging.WARNING, "checkpoint not written", {"job": "j", "rank": 3}),
    ],
)
def test_the_trainers_lines_read_as_on_a_terminal(level, text, fields, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    made = record(level, text, **fields)
    printed = readable(JsonFormatter().format(made).encode()).decode()
    on_terminal = TextFormatter().format(made)
    assert printed.partition(" ")[2].partition(" ")[2] == on_terminal.partition(" ")[2].partition(" ")[2]
    assert text in printed


def test_a_traceback_stands_below_its_message_and_hides_nothing_in_it():
    line = {"time": "t", "level": "critical", "message": "no", "traceback": "Traceback:\n  File\n\x1b[1mE\x1b[0m\x07"}
    printed = readable(json.dumps(line).encode()).decode().splitlines()
    assert printed[0].endswith("CRITICAL no")
    assert printed[1:] == ["Traceback:", "  File", "E\\x07"]


@each_row(
    ("line", "expected"),
    [
        ('{"msg":"served","level":"info","ts":"2026","status":200}', "served status=200"),
        ('{"level":"WARN","message":"slow","b":"two words","a":1.50}', 'WARN slow a=1.50 b="two words"'),
        ('{"msg":"loss=0.1 done","loss":0.123456789}', "loss=0.1 done"),
        ('{"loss":1e-3,"step":10}', "loss=1e-3 step=10"),
        ('{"msg":"x","deep":{"a":[1,2],"b":null,"c":true},"none":null}', "x deep.a=[1,2] deep.c=true"),
        ('{"msg":"\\u001b[31mx\\u0007\\n","k\\u0007":"v\\u0007"}', "x\\x07\\x0a k\\x07=v\\x07"),
        ('{"msg":NaN,"x":Infinity}', "NaN x=Infinity"),
        ("{broken", "{broken"),
        ("{}", ""),
        ("[1, 2]", "[1, 2]"),
        ("{" * 100_000, "{" * 100_000),
        ('{"a":' * 100_000, '{"a":' * 100_000),
    ],
)
def test_structured_lines_become_sentences(line, expected):
    assert readable(line.encode()).decode() == expected


def test_a_sentence_is_the_same_from_the_fields_of_a_store():
    line = {"msg": "hello", "deep": {"a": [1, 2]}, "rank": 1, "z": "two words", "a": True}
    stored = {"message": "hello", "deep.a": "[1,2]", "rank": "1", "z": "two words", "a": "true"}
    assert sentence(stored) == readable(json.dumps(line).encode()).decode()
