"""The commands behind the Makefile, and how they end."""

import argparse
import errno
import os
import re
import subprocess
import sys

import pytest

import tools.__main__ as program
from infra.errors import RefusalError
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row
from tools.process import CommandError, ProgramTimeoutError

MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")


pytestmark = pytest.mark.usefixtures("own_folders")


def _commands() -> set[str]:
    [choices] = [a.choices for a in program._parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return set(choices)


def test_make_and_the_tools_know_the_same_commands():
    used = set(re.findall(r"-m tools ([a-z-]+)", MAKEFILE))
    assert used == _commands()


SLOW = {"pulumi", "pulumi_kubernetes", "pulumi_alicloud", "torch", "numpy", "sklearn", "grpc"}


def test_a_question_waits_for_no_slow_import():
    """A question is answered in half a second of CPU; each of these takes about as long to import."""
    everything = "import sys; import tools.__main__; print(*{name.partition('.')[0] for name in sys.modules})"
    words = [sys.executable, "-c", everything]
    imported = subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.split()
    assert "rich" in imported
    assert not SLOW & set(imported)


def test_every_make_target_is_described_and_phony():
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    described = set(re.findall(r"^([a-z][a-z-]*):.*## ", MAKEFILE, re.MULTILINE))
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert targets == set(phony.split())
    assert targets - described == {"venv", "venv-test", "venv-policies"}


def _make(*words: str, **shell: str) -> str:
    # What a test run under make hands down would count as said on the command line.
    own = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    command = ["make", "--dry-run", *words]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**own, **shell}, check=True, capture_output=True, text=True
    ).stdout


SHELL = {
    "KUBECONFIG": "/of/the/shell",
    "CONTEXT": "of-the-shell",
    "NAMESPACE": "of-the-shell",
    "OUTPUT": "of-the-shell",
}
SAID = ("KUBECONFIG=/a b", "CONTEXT=c", "NAMESPACE=n")


@each_row(
    ("words", "command"),
    [
        (("status",), "-m tools status --stack=local"),
        (
            ("why", "JOB=run", "STACK=dev", *SAID),
            "-m tools why --stack=dev '--kubeconfig=/a b' '--context=c' '--namespace=n' \"run\"",
        ),
        (("logs", "JOB=run", "FOLLOW=1", "TIMESTAMPS=1"), '--follow --timestamps "run"'),
        (("logs", "JOB=run", "PAST=1"), '--past "run"'),
        (("search-logs", "QUERY='; touch x; \"`touch y`", "SINCE=2d", "LIMIT=7"), "'--since=2d' '--limit=7'"),
        (("rerun", "JOB=run", "FORCE=1", "COMMIT=same"), "--force '--commit=same' \"run\""),
        (("review", "STACKS=dev prod", "FAIL_ON=replace"), "tools review dev prod '--option=--fail-on=replace'"),
        (("review", "STACK=dev"), "tools review dev"),
    ],
)
def test_what_is_said_to_make_and_nothing_else_reaches_the_tools(words, command):
    """Neither the variables of a shell lead to another cluster, nor does a shell read a query."""
    said = " ".join(_make(*words, **SHELL).split())
    assert command in said
    assert not re.search("of.the.shell|touch", said)


PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


@each_row("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_targets_that_exist(page):
    """`make <target>` stands in code: between backticks or at the beginning of a line of a block."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    named = re.findall(r"(?:`|^[$ ]*)make ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


def test_the_readme_begins_with_up_and_down():
    readme = PAGES[0].read_text(encoding="utf-8")
    assert "make up" in readme
    assert "make down" in readme


def _ending(monkeypatch, capsys, error: BaseException) -> tuple[int, str]:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(program.local, "status", fail)
    status = program.main(["status"])
    return status, capsys.readouterr().err


@each_row(
    "error",
    [
        RefusalError("workers", 0, "must be [1] to [/64]", "choose more"),
        CommandError(["kubectl"], 1, "no route to host", None),
        ProgramTimeoutError(["kubectl"], 60),
    ],
)
def test_a_refusal_and_a_command_that_fails_or_hangs_are_reported_without_a_traceback(
    monkeypatch, capsys, tmp_path, error
):
    status, said = _ending(monkeypatch, capsys, error)
    assert status == 1
    assert f"Failed: {error}" in said
    assert f"Details: {tmp_path / 'home' / 'logs'}" in said
    assert "Traceback" not in said


def test_a_full_disk_is_reported_with_the_folders_that_filled_it(monkeypatch, capsys, tmp_path):
    status, said = _ending(monkeypatch, capsys, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert status == 1
    assert "Failed: No space left on device: " in said
    assert re.search(rf"\d GiB free for {tmp_path / 'cache'}", said)
    assert "ATHANOR_CACHE" in said


def test_an_interrupt_says_how_to_go_on(monkeypatch, capsys):
    status, said = _ending(monkeypatch, capsys, KeyboardInterrupt())
    assert status == 130
    assert "`make up` continues" in said


BUGS = [ZeroDivisionError(), ValueError("x"), KeyError("x"), RuntimeError("x"), OSError(errno.EBADF, "x")]


@each_row("bug", BUGS)
def test_a_bug_keeps_its_traceback(monkeypatch, capsys, bug):
    with pytest.raises(type(bug)):
        _ending(monkeypatch, capsys, bug)
    assert "Failed" not in capsys.readouterr().err


def test_an_image_number_is_a_number(capsys):
    with pytest.raises(SystemExit):
        program.main(["predict", "seven"])
    assert "invalid int value" in capsys.readouterr().err


def test_no_command_needs_a_package_of_the_images_or_the_tests():
    """`.venv` has none of them: `make up` installs requirements.txt alone, and the tests run with more than that."""
    imports = (
        "import importlib, pkgutil, sys\n"
        "sys.modules.update(dict.fromkeys(('torch', 'tensorflow', 'tyro', 'pytest', 'uvicorn', 'prometheus_client')))\n"
        "import tools\n"
        "for module in pkgutil.walk_packages(tools.__path__, 'tools.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
    )
    subprocess.run([sys.executable, "-c", imports], cwd=REPOSITORY, check=True, capture_output=True, text=True)
