"""A change of the code that pods run reaches those pods alone: the others keep their objects, and so their results."""

from __future__ import annotations

import functools
import shutil

import pytest

from infra.images import REPOSITORY
from tests.tables import each_row

WITH_CLEAN_UP = {"clean_up": {"enabled": True}}
DESCRIPTION = "ConfigMap platform-contract"
"""It holds the outputs, and so the names of all images; no pod reads it."""
SERVING = {"Deployment digits", "serving_image"}


@pytest.fixture(scope="module")
def previewed(record_stack, tmp_path_factory):
    """Preview the local stack with a file of trainer/ changed, once; give its manifests and exports by their names."""

    @functools.cache
    def preview(changed: str | None) -> dict[str, object]:
        sources = tmp_path_factory.mktemp("sources")
        shutil.copytree(REPOSITORY / "trainer", sources / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
        if changed:
            with (sources / "trainer" / changed).open("a") as file:
                file.write("# changed\n")
        recording = record_stack(WITH_CLEAN_UP, preview=True, sources=sources)
        return {f"{each.kind} {each.name}": each.inputs for each in recording.objects()} | recording.exports

    return preview


@pytest.fixture(scope="module")
def before(previewed):
    return previewed(None)


def changes(before: dict[str, object], after: dict[str, object]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_a_change_of_the_server_leaves_every_job_as_it_is(before, previewed):
    assert changes(before, previewed("serve/routes.py")) == {*SERVING, DESCRIPTION}


def test_a_change_of_training_leaves_every_service_as_it_is(before, previewed):
    changed = changes(before, previewed("pytorch/loop.py"))
    assert {"Job digits-training", "trainer_image"} <= changed
    assert not changed & SERVING
    assert not {name for name in changed if name.startswith(("Deployment", "Service"))}


def test_a_change_of_the_tensorflow_programs_reaches_neither(before, previewed):
    assert changes(before, previewed("tf/model.py")) == {"tensorflow_image", DESCRIPTION}


@each_row("file", ["serve/routes.py", "pytorch/loop.py"])
def test_the_tensorflow_image_stays_whatever_else_changes(before, previewed, file):
    assert previewed(file)["tensorflow_image"] == before["tensorflow_image"]


def test_a_change_of_what_all_share_reaches_all(before, previewed):
    assert {"Job digits-training", "tensorflow_image", *SERVING} <= changes(before, previewed("common/files.py"))
