"""`make review`: the clone's engine for `athanor review`, for stacks that exist and those that do not."""

import os
from contextlib import contextmanager
from pathlib import Path

from tools.paths import REPOSITORY
from tools.stacks import review as module
from tools.stacks.engine import Engine
from tools.stacks.review import review


def test_each_stack_exists_while_all_are_previewed(monkeypatch, tmp_path):
    existing: list[str] = []
    calls: list[tuple[list[str], list[str], str]] = []

    @contextmanager
    def exists(engine):
        existing.append(engine.stack)
        yield
        existing.remove(engine.stack)

    def main(words):
        calls.append((words, list(existing), os.environ["PATH"]))
        return 3

    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.setattr(module, "engine_for_a_preview", lambda stack, _: Engine(pulumi=Path("/e/pulumi"), stack=stack))
    monkeypatch.setattr(module, "existing_for_a_preview", exists)
    monkeypatch.setattr(module, "main", main)

    assert review(["dev", "prod"], ["--fail-on=change"], report=None) == 3

    [(words, at_that_time, path)] = calls
    policies = f"--policy-pack={REPOSITORY / 'policies'}"
    assert words == ["review", policies, "--fail-on=change", "--stack=dev", "--stack=prod"]
    assert at_that_time == ["dev", "prod"]
    assert "/e" in path.split(os.pathsep)
    assert existing == []
