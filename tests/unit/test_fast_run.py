"""`make test-fast`: the levels that it names as left out, and that it builds nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import fast_run
from tools.toolchain.acquire import SOURCES_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).resolve().parents[1]


def test_every_folder_of_tests_runs_or_is_named() -> None:
    folders = {file.relative_to(TESTS).parts[0] for file in TESTS.rglob("test_*.py")}
    assert folders == {*fast_run.QUICK, *fast_run.other_levels(TESTS)}
    assert fast_run.other_levels(TESTS) == ["cloud", "cluster", "engine", "faults"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], list[Any]]:
    """Return a function that runs it with pytest's exit status and a program in place of make."""

    def main(tests: int, check: str) -> list[Any]:
        calls: list[Any] = []
        start = subprocess.Popen

        def popen(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
            assert command == ["make", "--no-print-directory", "check"]
            return start(["sh", "-c", check], **options)

        def pytest_run(command: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[str]:
            assert not check
            calls.append((command, env))
            return subprocess.CompletedProcess(command, tests)

        monkeypatch.setattr(subprocess, "Popen", popen)
        monkeypatch.setattr(subprocess, "run", pytest_run)
        return [fast_run.main(["-x"]), *calls]

    return main


@pytest.mark.parametrize(("tests", "check", "status"), [(0, 0, 0), (1, 0, 1), (0, 2, 2), (1, 2, 1)])
def test_it_passes_if_both_pass_and_names_what_was_not_run(
    run: Callable[[int, str], list[Any]], tests: int, check: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tests, f"echo unused import >&2; exit {check}")[0] == status
    printed = capsys.readouterr().out
    assert ("unused import\n\nmake check failed\n" in printed) == bool(check)
    assert ("make check passed" in printed) != bool(check)
    assert "Not run: the levels cloud, cluster, engine, faults, and tests of unit and manifests" in printed
    assert ".venv-test/bin/python -m pytest tests/cloud" in printed
    assert ".venv-test/bin/python -m pytest -m 'built or long' tests/unit tests/manifests" in printed


def test_it_builds_nothing(run: Callable[[int, str], list[Any]]) -> None:
    _, (command, environment) = run(0, "true")
    folders = [str(TESTS / level) for level in fast_run.QUICK]
    assert command[command.index("-m", 3) :] == ["-m", "not built and not long", *folders, "-x"]
    assert environment[SOURCES_VARIABLE] == "path"
