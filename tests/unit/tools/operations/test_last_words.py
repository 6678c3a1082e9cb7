"""Of a log's end, what says why the program ended: its own last error, not the report of what started it."""

import json
import subprocess
import sys
import textwrap

from athanor.inspection.containers import LogReference
from athanor.inspection.last_words import last_words
from tests.tables import each_row
from tools.operations.reader import last_lines

TORCHRUN = [
    "E1122 07:48:00.123000 12 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 0",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3/torch/distributed/run.py", line 940, in <module>',
    "    main()",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    "=" * 60,
    "train.py FAILED",
    "-" * 60,
    "Failures:",
    "  <NO_OTHER_FAILURES>",
    "-" * 60,
    "Root Cause (first observed failure):",
    "[0]:",
    "  rank      : 0 (local_rank: 0)",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "=" * 60,
]
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/source/code/train.py", line 3, in <module>',
    "    main()",
    "    ^^^^^^",
    '  File "/source/code/train.py", line 2, in main',
    '    raise ValueError("no data")',
    "ValueError: no data",
]
SHOWN = [*TRACEBACK[1:3], *TRACEBACK[4:]]


@each_row("behind", [[], TORCHRUN, ["-" * 70, "mpirun detected that a process exited", "-" * 70]])
def test_the_programs_own_last_error_is_shown(behind):
    assert last_words(["step 1", *TRACEBACK, *behind]) == SHOWN


@each_row("mark", ["[rank3]: ", "[default3]:"])
def test_a_ranks_marks_are_left_out(mark):
    marked = [f"{mark}{line}" for line in TRACEBACK]
    assert last_words([*marked, *TORCHRUN]) == SHOWN


WORKER = [
    "Traceback (most recent call last):",
    '  File "train.py", line 9, in <module>',
    "    for batch in loader:",
    '  File "/usr/lib/python3/torch/_utils.py", line 750, in reraise',
    "    raise exception",
    "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.",
    "Original Traceback (most recent call last):",
    '  File "/usr/lib/python3/torch/utils/data/_utils/fetch.py", line 54, in <listcomp>',
    "    data = [self.dataset[idx] for idx in possibly_batched_index]",
    '  File "train.py", line 4, in __getitem__',
    "    return open(self.files[place])",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/data/7.png'",
]


@each_row("mark", ["", "[rank0]: "])
def test_what_a_worker_of_a_data_loader_met_is_shown_and_not_only_that_it_did(mark):
    log = [f"{mark}{line}" for line in [*WORKER, ""]]
    assert last_words([*log, *TORCHRUN]) == WORKER[-5:]


def test_an_error_of_several_lines_is_shown_whole():
    error = [
        "pydantic_core._pydantic_core.ValidationError: 2 validation errors for Config",
        "lr",
        "  Input should be a valid number [type=float_parsing, input_value='fast', input_type=str]",
        "    For further information visit https://errors.pydantic.dev/2.12/v/float_parsing",
        "steps",
        "  Field required [type=missing, input_value={}, input_type=dict]",
    ]
    for behind in (["rank 0 failed with exit code 1"], TORCHRUN, ["{}"], ["", "saved nothing"]):
        assert last_words([*TRACEBACK[:3], *error, *behind]) == [*TRACEBACK[:3], *error]
    many = [f"field {number}" for number in range(20)]
    assert last_words([*TRACEBACK[:3], *error, *many])[-3:] == ["field 6", "…", "field 19"]


CHAINED = "The above exception was the direct cause of the following exception:"
MEANWHILE = "During handling of the above exception, another exception occurred:"
FIRST = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 'lr'"]
SECOND = ["Traceback (most recent call last):", '  File "a.py", line 2, in g', "OSError: two", "", "lines"]
GROUP = [
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "a.py", line 3, in <module>',
    "  |     raise ExceptionGroup(1)",
    "  |     ^^^^^^^^^^^^^^^^^^^^^^^",
    "  | ExceptionGroup: many (2 sub-exceptions)",
    "  +-+---------------- 1 ----------------",
    "    | Traceback (most recent call last):",
    '    |   File "a.py", line 4, in h',
    "    | ValueError: one",
    "    +---------------- 2 ----------------",
    "    | TypeError: two",
    "of several lines",
    "    +------------------------------------",
]
GROUP_SHOWN = [*GROUP[4:6], *GROUP[8:]]


@each_row(
    ("log", "expected"),
    [
        ([*FIRST, "", CHAINED, "", *TRACEBACK], [FIRST[-1], CHAINED, *SHOWN]),
        ([*FIRST, "", MEANWHILE, "", *TRACEBACK], [FIRST[-1], MEANWHILE, *SHOWN]),
        (
            [*FIRST, "", MEANWHILE, "", *SECOND, "", CHAINED, "", *TRACEBACK],
            [FIRST[-1], MEANWHILE, "OSError: two", "lines", CHAINED, *SHOWN],
        ),
        ([*WORKER[:7], *FIRST[1:], "", CHAINED, "", *TRACEBACK], [FIRST[-1], CHAINED, *SHOWN]),
        (GROUP, GROUP_SHOWN),
        ([*FIRST, "", CHAINED, "", *GROUP], [FIRST[-1], CHAINED, *GROUP_SHOWN]),
        ([*GROUP, "", CHAINED, "", *TRACEBACK], [*GROUP_SHOWN, CHAINED, *SHOWN]),
    ],
)
def test_an_error_is_shown_with_those_that_caused_it(log, expected):
    assert last_words(log) == expected
    assert last_words([*[f"[rank0]: {line}" for line in log], *TORCHRUN]) == expected


def test_without_a_traceback_the_last_lines_before_torchruns_are_shown():
    lines = [f"line {number}" for number in range(9)]
    assert last_words(lines) == lines[-5:]
    assert last_words([*lines, *TORCHRUN]) == [*lines[-4:], TORCHRUN[0]]
    assert last_words(TORCHRUN[1:]) == TORCHRUN[-5:]
    assert last_words([]) == []


def test_an_error_that_was_survived_is_not_the_last_word():
    lines = [f"step {number}" for number in range(40)]
    assert last_words([*TRACEBACK, *lines]) == lines[-5:]


def test_a_traceback_that_breaks_off_is_shown_as_far_as_it_goes():
    assert last_words(TRACEBACK[:3]) == TRACEBACK[:3]


def test_a_structured_line_is_read_and_nothing_reaches_the_terminal(kubectl, fake_program):
    line = {"time": "t", "level": "critical", "message": "ValueError: no", "traceback": "\n".join(TRACEBACK)}
    fake_program.answer("logs", "\n".join(["\x1b[2Jstep", json.dumps(line), *TORCHRUN]) + "\n")
    assert last_lines(kubectl, "athanor", LogReference(pod="pod-0", container="worker")) == SHOWN


def test_torchrun_itself_is_understood(tmp_path):
    """The installed torch, so that a new one that words its report differently is noticed."""
    program = tmp_path / "train.py"
    program.write_text(
        textwrap.dedent(
            """
            import os, time
            def load(rank):
                raise FileNotFoundError(f"no data for rank {rank}")
            if os.environ["RANK"] == "1":
                load(1)
            time.sleep(60)
            """
        )
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(program)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    lines = ended.stderr.splitlines()
    assert "ChildFailedError" in ended.stderr
    assert last_words(lines)[-2:] == [
        '    raise FileNotFoundError(f"no data for rank {rank}")',
        "FileNotFoundError: no data for rank 1",
    ]
