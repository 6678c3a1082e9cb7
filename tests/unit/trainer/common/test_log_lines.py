"""Lines on standard error: JSON for a log store, text for people, and from the one back to the other."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from trainer.common import log_lines
from trainer.common.log_lines import JsonFormatter, TextFormatter, readable

REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr("trainer.common.log_lines._known", {})
    for name in ("ATHANOR_JOB", "RANK"):
        monkeypatch.delenv(name, raising=False)


def record(message="saved", level=logging.INFO, **fields):
    made = logging.LogRecord("trainer", level, __file__, 1, message, (), None)
    made.created = 1763746201.25
    made.msecs = 250
    if fields:
        made.athanor_fields = fields
    return made


def test_a_line_of_json_can_be_searched_by_its_fields(monkeypatch):
    monkeypatch.setenv("ATHANOR_JOB", "train-1a2b3c4d")
    monkeypatch.setenv("RANK", "3")
    line = JsonFormatter().format(record("saved step=7", step=7, event="checkpoint_saved", seconds=0.5))
    assert json.loads(line) == {
        "time": "2025-11-21T17:30:01.250+00:00",
        "level": "info",
        "message": "saved step=7",
        "job": "train-1a2b3c4d",
        "rank": 3,
        "step": 7,
        "event": "checkpoint_saved",
        "seconds": 0.5,
    }


def test_every_line_of_a_process_has_its_rank():
    log_lines.know(job="r1", rank=5)
    log_lines.know(step=9)
    line = json.loads(JsonFormatter().format(record("disk is slow", logging.WARNING)))
    assert (line["job"], line["rank"], line["step"], line["level"]) == ("r1", 5, 9, "warning")


def test_a_line_stays_one_line_and_json():
    line = JsonFormatter().format(record("two\nlines", loss=float("nan"), path=Path("/x")))
    assert "\n" not in line

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(line, parse_constant=refuse) | {"loss": "nan", "path": "/x"} == json.loads(line)


@pytest.mark.parametrize(
    ("level", "fields", "expected"),
    [
        (logging.INFO, {}, "saved"),
        (logging.INFO, {"rank": 0}, "saved"),
        (logging.INFO, {"rank": 3, "step": 7}, "rank 3: saved"),
        (logging.WARNING, {}, "WARNING saved"),
        (logging.ERROR, {"rank": 3}, "ERROR rank 3: saved"),
    ],
)
def test_people_read_the_same_from_json_as_on_a_terminal(monkeypatch, level, fields, expected):
    monkeypatch.setenv("TZ", "UTC")
    text = TextFormatter().format(record("saved", level, **fields))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,250 (.*)", text)[1] == expected
    # the clock of a terminal may be in another zone
    assert readable(JsonFormatter().format(record("saved", level, **fields)))[20:] == text[20:]


@each_row(
    "line",
    [
        "",
        "plain text",
        '{"time": "12:00"',
        '{"a": 1}',
        "[1, 2]",
        '{"time": 1, "message": "x"}',
        "{}",
        "{not json}",
        '{"a":' * 100_000,
    ],
    ids=range(9),
)
def test_a_line_that_is_not_ours_stays_as_it_is(line):
    assert readable(line) == line


def test_values_of_other_programs_do_no_harm():
    assert readable('{"time": 5, "level": null, "message": [1], "rank": "x"}') == "5 NONE rank x: [1]"


def test_what_nobody_caught_is_one_line_with_its_rank():
    program = (
        "import logging; from trainer.common.log_lines import know, log_to_stderr; "
        "log_to_stderr(logging.getLogger('trainer')); know(rank=2); raise RuntimeError('no such place')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={"ATHANOR_LOG_FORMAT": "json", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    fields = json.loads(line)
    assert (fields["level"], fields["rank"], fields["message"]) == ("critical", 2, "RuntimeError: no such place")
    assert "Traceback (most recent call last)" in fields["traceback"]
    assert readable(line).splitlines()[0].endswith(" CRITICAL rank 2: RuntimeError: no such place")
    assert readable(line).splitlines()[-1] == "RuntimeError: no such place"
