"""What `make test-fast` says it did not run, and that it builds nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import fast_run
from tools.toolchain.acquire import SOURCES_VARIABLE

TESTS = Path(__file__).resolve().parents[1]


def test_every_folder_of_tests_runs_or_is_named() -> None:
    folders = {file.relative_to(TESTS).parts[0] for file in TESTS.rglob("test_*.py")}
    assert folders == {*fast_run.QUICK, *fast_run.other_levels(TESTS)}
    assert fast_run.other_levels(TESTS) == ["cloud", "cluster", "engine", "faults"]


@pytest.mark.parametrize("status", [0, 1])
def test_it_names_them_however_it_ends(
    status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], *, env: dict[str, str], check: bool) -> subprocess.CompletedProcess[str]:
        assert not check
        calls.append((command, env))
        return subprocess.CompletedProcess(command, status)

    monkeypatch.setattr(subprocess, "run", run)
    assert fast_run.main(["-x"]) == status

    [(command, environment)] = calls
    folders = [str(TESTS / level) for level in fast_run.QUICK]
    assert command[command.index("-m", 3) :] == ["-m", "not built", *folders, "-x"]
    assert environment[SOURCES_VARIABLE] == "path"
    printed = capsys.readouterr().out
    assert "Not run: the levels cloud, cluster, engine, faults, and tests of unit and manifests" in printed
    assert ".venv-test/bin/python -m pytest tests/cloud" in printed
    assert ".venv-test/bin/python -m pytest -m built tests/unit tests/manifests" in printed
