"""The trainer's tag stands for its content: equal sources have equal tags, on every machine and at any time."""

from __future__ import annotations

import ast
import os
import shutil
from pathlib import Path

import pytest

from infra import images
from infra.images import (
    REPOSITORY,
    TRAINER_REPOSITORIES,
    VOLCANO_CONTROLLERS_IMAGE,
    VOLCANO_SCHEDULER_IMAGE,
    serving_image,
    trainer_content_tag,
    trainer_image,
    trainer_sources,
)
from infra.run_module import run_module_manifest
from infra.settings.images import ImageSettings
from infra.versions import VOLCANO
from tests.tables import each_row


@pytest.fixture
def repository(tmp_path):
    sources = tmp_path / "repository" / "trainer"
    (sources / "training").mkdir(parents=True)
    (sources / "train.py").write_text("print('train')")
    (sources / "Dockerfile").write_text("FROM scratch")
    (sources / "training" / "events.py").write_text("print('events')")
    return tmp_path / "repository"


def test_a_tag_is_16_hex_digits_and_stays(repository):
    tag = trainer_content_tag(repository, "cpu", "training")
    assert len(tag) == 16
    assert int(tag, 16) >= 0
    assert trainer_content_tag(repository, "cpu", "training") == tag


def test_a_clone_elsewhere_has_the_same_tag(repository, tmp_path):
    tag = trainer_content_tag(repository, "cpu", "training")
    clone = shutil.copytree(repository, tmp_path / "elsewhere" / "clone", copy_function=shutil.copyfile)
    assert trainer_content_tag(clone, "cpu", "training") == tag


def _edit(repository):
    (repository / "trainer" / "train.py").write_text("print('other')")


def _add(repository):
    (repository / "trainer" / "training" / "new.py").write_text("")


def _remove(repository):
    (repository / "trainer" / "training" / "events.py").unlink()


def _rename(repository):
    (repository / "trainer" / "training" / "events.py").rename(repository / "trainer" / "training" / "log.py")


def _move_bytes_between_files(repository):
    (repository / "trainer" / "Dockerfile").write_text("FROM scratchp")
    (repository / "trainer" / "train.py").write_text("rint('train')")


@pytest.mark.parametrize("change", [_edit, _add, _remove, _rename, _move_bytes_between_files])
def test_changed_sources_change_the_tag(repository, change):
    before = trainer_content_tag(repository, "cpu", "training")
    change(repository)
    assert trainer_content_tag(repository, "cpu", "training") != before


def test_the_variant_changes_the_tag(repository):
    assert trainer_content_tag(repository, "cpu", "training") != trainer_content_tag(repository, "gpu", "training")


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("train.py", {"training"}),
        ("pytorch/loop.py", {"training"}),
        ("serve/app.py", {"serving"}),
        ("model_repository/layout.py", {"training", "serving"}),
        ("training/events.py", {"training", "tensorflow"}),
        ("common/files.py", {"training", "serving", "tensorflow"}),
        ("Dockerfile", {"training", "serving", "tensorflow"}),
        ("requirements.txt", {"training", "serving"}),
        ("requirements-training.txt", {"training"}),
        ("requirements-tensorflow.txt", {"tensorflow"}),
        ("tf/job.py", {"tensorflow"}),
    ],
)
def test_a_change_gives_other_tags_only_to_the_images_that_hold_it(repository, file, changed):
    path = repository / "trainer" / file
    path.parent.mkdir(exist_ok=True)
    before = {name: trainer_content_tag(repository, "cpu", name) for name in images.TRAINER_REPOSITORIES}
    path.write_text("changed")
    after = {name: trainer_content_tag(repository, "cpu", name) for name in images.TRAINER_REPOSITORIES}
    assert {name for name in after if after[name] != before[name]} == changed
    assert len(set(after.values())) == len(after)


def test_compiled_files_notes_and_times_do_not_change_the_tag(repository):
    before = trainer_content_tag(repository, "cpu", "training")
    compiled = repository / "trainer" / "training" / "__pycache__"
    compiled.mkdir()
    (compiled / "events.cpython-311.pyc").write_bytes(b"\0")
    (repository / "trainer" / "README.md").write_text("notes")
    (repository / "trainer" / "empty").mkdir()
    os.utime(repository / "trainer" / "train.py", (1, 1))
    (repository / "trainer" / "train.py").chmod(0o755)
    (repository / "infra").mkdir()
    (repository / "infra" / "other.py").write_text("")
    assert trainer_content_tag(repository, "cpu", "training") == before


def test_the_local_image_is_named_after_its_content(monkeypatch, repository):
    monkeypatch.setattr(images, "REPOSITORY", repository)
    assert (
        trainer_image(ImageSettings(trainer_variant="gpu"))
        == f"localhost/athanor/trainer:{trainer_content_tag(repository, 'gpu', 'training')}"
    )


def test_the_image_of_tensorflow_jobs_has_a_name_of_its_own(monkeypatch, repository):
    monkeypatch.setattr(images, "REPOSITORY", repository)
    tag = trainer_content_tag(repository, "cpu", "tensorflow")
    assert images.tensorflow_image(ImageSettings()) == f"localhost/athanor/trainer-tensorflow:{tag}"
    assert images.tensorflow_image(ImageSettings(tensorflow="quay.io/team/tensorflow:1")) == "quay.io/team/tensorflow:1"


def test_a_given_image_is_taken_as_it_is():
    assert (
        trainer_image(ImageSettings(trainer="registry.example/team/trainer:v1")) == "registry.example/team/trainer:v1"
    )


def test_services_have_an_image_of_their_own_unless_one_is_given():
    assert serving_image(ImageSettings()) == images.local_image("serving", "cpu")
    assert serving_image(ImageSettings()).startswith("localhost/athanor/serving:")
    assert serving_image(ImageSettings(trainer="quay.io/team/trainer:1")) == "quay.io/team/trainer:1"
    both = ImageSettings(trainer="quay.io/team/trainer:1", serving="quay.io/team/serving:1")
    assert (trainer_image(both), serving_image(both)) == ("quay.io/team/trainer:1", "quay.io/team/serving:1")


PROGRAMS = {
    "training": (
        *("train.py", "export.py", "dry_run.py", "prepare_data.py", "mpi_example.py", "wait_for_hosts.py"),
        *("rendezvous.py", "export_weights.py", "heartbeat.py", "pytorch/data/describe_tokens.py"),
        *("source/__main__.py", "network_benchmark/__main__.py", "network_benchmark/report.py"),
        *("helpers/job_cleanup.py", "helpers/hardware.py", "helpers/serving_certificate.py"),
        *("helpers/gateway_certificate.py", "activator/__main__.py", "hardware_check/__main__.py"),
        *(f"hardware_check/{name}.py" for name in ("observed_training", "plain_loop", "torchscript_speed")),
    ),
    "serving": ("serve/__main__.py", "serve/worker.py"),
    "tensorflow": ("tf/parameter_server.py", "tf/multi_worker.py", "tf/prepare_data.py"),
}
"""What pods run of each image."""


def imported_files(program):
    """Return all files below trainer/ that importing a program can lead to, also late and for types only."""
    root, reached, waiting = REPOSITORY / "trainer", set(), [REPOSITORY / "trainer" / program]
    while waiting:
        file = waiting.pop()
        if file in reached:
            continue
        reached.add(file)
        names = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        for name in names:
            if name.split(".")[0] == "trainer":
                path = REPOSITORY / name.replace(".", "/")
                parents = [parent / "__init__.py" for parent in (path, *path.parents) if parent.is_relative_to(root)]
                waiting += [each for each in (*parents, path.with_suffix(".py")) if each.is_file()]
    return {file.relative_to(root).as_posix() for file in reached}


@each_row("image", PROGRAMS)
def test_an_image_contains_what_its_programs_import_and_nothing_else(image):
    sources = {name for name in trainer_sources(REPOSITORY, image) if name.endswith(".py")}
    needed = set().union(*(imported_files(program) for program in PROGRAMS[image])) | {"__init__.py"}
    packages = {f"{Path(name).parent}/__init__.py" for name in needed if "/" in name}
    of_the_build = {name for name in sources if name.startswith("image/")}
    assert sources - of_the_build == needed | packages


def test_every_file_of_trainer_belongs_to_an_image():
    contained = set().union(*(trainer_sources(REPOSITORY, image) for image in TRAINER_REPOSITORIES))
    files = {path.relative_to(REPOSITORY / "trainer").as_posix() for path in (REPOSITORY / "trainer").rglob("*.py")}
    in_config_map = {f"pod_modules/{name}" for name in run_module_manifest("team")["data"]}
    assert files == {name for name in contained if name.endswith(".py")} | in_config_map


def test_volcano_images_carry_the_one_version():
    assert VOLCANO_SCHEDULER_IMAGE.endswith(f"/vc-scheduler:v{VOLCANO}")
    assert VOLCANO_CONTROLLERS_IMAGE.endswith(f"/vc-controller-manager:v{VOLCANO}")
