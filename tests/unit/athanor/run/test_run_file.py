"""A run in a file: what its keys say, what a command line changes, and that --print-yaml writes the same."""

from __future__ import annotations

import pytest
import yaml

from athanor.command_line import command_parser, parsed
from athanor.run.run_file import as_yaml
from tests.tables import each_row

_FILE = """\
kind: batch
workers: 4
cpu: 500m
memory: 0010Gi
no-code: true
writable_root: false
env: {VERSION: 3.10, DEBUG: on, P: pa$$word}
egress: [internet, 10.64.3.7/32:5432]
secret: wandb
selector:
- gpu=a100
command: python a.py --tag '' --ratio 4:3
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Parses the words behind `athanor run` next to run.yaml."""
    monkeypatch.chdir(tmp_path)

    def parse(text: str, *words: str):
        (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
        return parsed(["run", "-f", "run.yaml", *words])

    return parse


def test_the_keys_are_the_options_and_values_arrive_as_written(run):
    arguments = run(_FILE)
    assert (arguments.kind, arguments.workers, arguments.cpu, arguments.memory) == ("batch", 4, "500m", "0010Gi")
    assert (arguments.no_code, arguments.writable_root) == (True, False)
    assert arguments.env == [("VERSION", "3.10"), ("DEBUG", "on"), ("P", "pa$$word")]
    assert (arguments.egress, arguments.secret) == (["internet", "10.64.3.7/32:5432"], ["wandb"])
    assert arguments.selector == ["gpu=a100"]
    assert arguments.program == ["python", "a.py", "--tag", "", "--ratio", "4:3"]


def test_what_is_typed_stands_above_the_file(run):
    arguments = run(_FILE, "--workers", "2", "--env", "A=b", "--", "python", "other.py", "--", "x")
    assert (arguments.workers, arguments.memory) == (2, "0010Gi")
    assert arguments.env[-1] == ("A", "b")
    assert arguments.program == ["python", "other.py", "--", "x"]
    assert run("command: [python, a b.py, 007]").program == ["python", "a b.py", "007"]
    assert run("{}", "--", "python", "a.py").program == ["python", "a.py"]


@each_row(
    "words",
    [
        ["python", "other.py"],
        ["python", "other.py", "--workers", "2"],
        ["--workers", "2", "python", "other.py"],
    ],
)
def test_words_of_a_program_in_addition_to_the_file_are_refused(run, capsys, words):
    with pytest.raises(SystemExit):
        run("command: python a.py", *words)
    said = capsys.readouterr().err
    assert "python other.py: --file has a command already; to run these instead, write them after --" in said


def test_a_printed_file_is_the_same_run(run):
    words = [
        *(
            "--name",
            "lr",
            "--workers",
            "2",
            "--gpus",
            "1",
            "--env",
            "A=3.10",
            "--env",
            "B=x=y",
            "--no-code",
            "--git-folder",
        ),
        *(
            "007",
            "--toleration",
            "a:NoSchedule",
            "--run-as-user",
            "0",
            "--context",
            "on",
            "--",
            "python",
            "a b.py",
            "",
            "é",
        ),
    ]
    first = parsed(["run", "--print-yaml", *words])
    text = as_yaml(first, command_parser("run"))
    again = run(text)
    for name in vars(first):
        if name not in {"print_yaml", "file", "parser"}:
            assert getattr(again, name) == getattr(first, name), name
    assert yaml.safe_load(text)["workers"] == 2


@each_row(
    ("text", "said"),
    [
        ("wrokers: 2\ncommand: a", "--file = 'wrokers': is not an option of a job. Fix: did you mean workers"),
        ("follow: true\ncommand: a", "--file = 'follow': is not an option of a job"),
        ("workers: [1, 2]\ncommand: a", "--workers = ['1', '2']: must be one value"),
        ("no-code: yes\ncommand: a", "--no-code = 'yes': must be true or false"),
        ("env: [{a: b}]\ncommand: a", "--env = {'a': 'b'}: must be a value, a list of them"),
        ("workers: two\ncommand: a", "argument --workers: invalid int value: 'two'"),
        ("kind: horovod\ncommand: a", "argument --kind: invalid choice"),
        ("workers: 2", "command = None: must be the text of a command"),
        ("command: a && b", "command = 'a && b': && needs a shell"),
        ("workers: 2\nworkers: 3\ncommand: a", "workers is given twice"),
        ("- a", "--file = 'run.yaml': has no keys"),
        ("a: [", "--file = 'run.yaml': cannot be read"),
    ],
)
def test_what_a_file_may_not_say(run, capsys, text, said):
    with pytest.raises(SystemExit) as ended:
        run(text)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys):
    with pytest.raises(SystemExit):
        parsed(["run", "--file=gone.yaml"])
    assert "--file = 'gone.yaml': cannot be read: No such file" in capsys.readouterr().err
