"""`athanor review` as a pipeline calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from athanor.command_line import main
from athanor.review import verdict
from tests.tables import each_row
from tests.unit.athanor.review.digests import CLUSTER, JOB, POOL, digest, pool, step
from tests.unit.athanor.review.recorded import RUNNING, preview_file

CREATED = step("create", new={})
REPLACED = step("replace", old={"a": 1}, new={"a": 2})
DESTROYED = step("delete", CLUSTER, "cluster", {})
FAILED: dict[str, Any] = {"diagnostics": [{"severity": "error", "message": "x"}]}


def write(folder: Path, text: str, name: str = "preview.json") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


@each_row(
    ("text", "threshold", "expected"),
    [
        (digest(), "change", verdict.PASSED),
        (digest(CREATED), "destructive", verdict.PASSED),
        (digest(CREATED), "replace", verdict.PASSED),
        (digest(CREATED), "change", verdict.CHANGES),
        (digest(REPLACED), "destructive", verdict.PASSED),
        (digest(REPLACED), "replace", verdict.CHANGES),
        (digest(DESTROYED), "destructive", verdict.DESTRUCTIVE),
        (digest(DESTROYED), "change", verdict.DESTRUCTIVE),
        (digest(DESTROYED), "never", verdict.PASSED),
        (digest(DESTROYED, **FAILED), "never", verdict.FAILED),
        ("", "never", verdict.FAILED),
    ],
)
def test_the_exit_status_says_what_a_pipeline_must_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, threshold: str, expected: int
) -> None:
    assert main(["review", write(tmp_path, text), "--fail-on", threshold]) == expected
    assert capsys.readouterr().out.startswith("<!-- athanor review -->\n# What this change does")


def test_every_status_is_in_the_help_and_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["review", "--help"])
    help_text = capsys.readouterr().out
    page = (Path(__file__).parents[4] / "docs" / "review.md").read_text(encoding="utf-8")
    for name in ("PASSED", "UNREADABLE", "WRONG_ARGUMENTS", "DESTRUCTIVE", "CHANGES", "FAILED"):
        assert f"\n  {getattr(verdict, name)}  " in help_text
        assert f"\n| {getattr(verdict, name)} | " in page
    assert all(f"`{threshold}`" in page and threshold in help_text for threshold in verdict.THRESHOLDS)


def test_stacks_are_named_by_the_argument_the_urns_or_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, empty = write(tmp_path, digest(CREATED)), write(tmp_path, "{}", "quiet.json")
    main(["review", f"prod={file}", file, empty])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| `")] == ["`prod`", "`dev`", "`quiet`"]


def test_standard_input_is_read_and_the_report_written(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    command = [sys.executable, "-m", "athanor", "review", "--output", str(report)]
    done = subprocess.run(command, input=digest(CREATED), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "1 created" in report.read_text(encoding="utf-8")


def test_what_runs_comes_from_a_file_or_the_reason_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = str(preview_file("change-an-image"))
    assert main(["review", image, "--running", str(RUNNING)]) == verdict.DESTRUCTIVE
    assert "Stops: `job digits-training`" in capsys.readouterr().out
    assert main(["review", image, "--running", write(tmp_path, "{}", "running.json")]) == verdict.DESTRUCTIVE
    assert "the cluster could not be asked: not a list of Kubernetes objects" in capsys.readouterr().out


def test_a_cluster_that_cannot_be_reached_does_not_fail_the_review(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubectl").write_text("#!/bin/sh\necho 'no route to host' >&2; exit 1\n", encoding="utf-8")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    file = write(tmp_path, digest(step("delete", JOB, "job", {"metadata": {"name": "job"}})))
    assert main(["review", file, "--context", "dev"]) == verdict.DESTRUCTIVE
    assert "no route to host" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["no-such-file.json"], ["--prices", "no-such-file.yaml", "{file}"]])
def test_what_cannot_be_read_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    file = write(tmp_path, digest())
    assert main(["review", *(word.format(file=file) for word in words)]) == verdict.UNREADABLE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("athanor review: ")
    assert captured.err.count("\n") == 1


@each_row("words", [[], ["review", "--limit", "100"], ["review", "--limit", "²"], ["review", "--fail-on", "x"]])
def test_wrong_arguments_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == verdict.WRONG_ARGUMENTS


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"cat <<'END'\n{json.dumps({'resourcePreEvent': {'metadata': DESTROYED}})}\nEND\n", verdict.DESTRUCTIVE),
        ("echo 'error: no stack named dev' >&2; exit 255", verdict.FAILED),
        (f"cat <<'END'\n{digest(CREATED)}\nEND\nexit 255", verdict.FAILED),
        ("test \"$PULUMI_ENABLE_STREAMING_JSON_PREVIEW\" = true && echo '{}'", verdict.PASSED),
    ],
)  # fmt: skip
def test_the_engine_is_run_for_a_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, script: str, expected: int
) -> None:
    (tmp_path / "pulumi").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert main(["review", "--stack", "dev"]) == expected
    assert "## `dev`:" in capsys.readouterr().out


def test_the_pool_of_another_file_name_with_an_equals_sign_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, digest(step("update", POOL, "p", pool(0, 1), pool(0, 2))), "a=b.json")
    assert main(["review", file]) == verdict.PASSED
    assert "`dev`" in capsys.readouterr().out


def test_help_loads_neither_the_sdk_nor_the_settings() -> None:
    code = "import sys\nimport athanor.command_line as c\nc.parser().format_help()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert not {"pulumi", "pydantic", "yaml", "infra.settings"} & set(done.stdout.split())
