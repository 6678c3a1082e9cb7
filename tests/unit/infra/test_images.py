"""The trainer's tag stands for its content: equal sources have equal tags, on every machine and at any time."""

from __future__ import annotations

import os
import shutil

import pytest

from infra import images
from infra.images import VOLCANO_CONTROLLERS_IMAGE, VOLCANO_SCHEDULER_IMAGE, trainer_content_tag, trainer_image
from infra.versions import VOLCANO


@pytest.fixture
def repository(tmp_path):
    sources = tmp_path / "repository" / "trainer"
    (sources / "serve").mkdir(parents=True)
    (sources / "train.py").write_text("print('train')")
    (sources / "Dockerfile").write_text("FROM scratch")
    (sources / "serve" / "app.py").write_text("print('serve')")
    return tmp_path / "repository"


def test_a_tag_is_16_hex_digits_and_stays(repository):
    tag = trainer_content_tag(repository, "cpu")
    assert len(tag) == 16
    assert int(tag, 16) >= 0
    assert trainer_content_tag(repository, "cpu") == tag


def test_a_clone_elsewhere_has_the_same_tag(repository, tmp_path):
    tag = trainer_content_tag(repository, "cpu")
    clone = shutil.copytree(repository, tmp_path / "elsewhere" / "clone", copy_function=shutil.copyfile)
    assert trainer_content_tag(clone, "cpu") == tag


def _edit(repository):
    (repository / "trainer" / "train.py").write_text("print('other')")


def _add(repository):
    (repository / "trainer" / "serve" / "new.py").write_text("")


def _remove(repository):
    (repository / "trainer" / "serve" / "app.py").unlink()


def _rename(repository):
    (repository / "trainer" / "train.py").rename(repository / "trainer" / "fit.py")


def _move_bytes_between_files(repository):
    (repository / "trainer" / "Dockerfile").write_text("FROM scratchp")
    (repository / "trainer" / "train.py").write_text("rint('train')")


@pytest.mark.parametrize("change", [_edit, _add, _remove, _rename, _move_bytes_between_files])
def test_changed_sources_change_the_tag(repository, change):
    before = trainer_content_tag(repository, "cpu")
    change(repository)
    assert trainer_content_tag(repository, "cpu") != before


def test_the_variant_changes_the_tag(repository):
    assert trainer_content_tag(repository, "cpu") != trainer_content_tag(repository, "gpu")


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("train.py", {"pytorch", "tensorflow"}),
        ("Dockerfile", {"pytorch", "tensorflow"}),
        ("requirements.txt", {"pytorch"}),
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
    assert after["pytorch"] != after["tensorflow"]


def test_compiled_files_notes_and_times_do_not_change_the_tag(repository):
    before = trainer_content_tag(repository, "cpu")
    compiled = repository / "trainer" / "serve" / "__pycache__"
    compiled.mkdir()
    (compiled / "app.cpython-311.pyc").write_bytes(b"\0")
    (repository / "trainer" / "README.md").write_text("notes")
    (repository / "trainer" / "empty").mkdir()
    os.utime(repository / "trainer" / "train.py", (1, 1))
    (repository / "trainer" / "train.py").chmod(0o755)
    (repository / "infra").mkdir()
    (repository / "infra" / "other.py").write_text("")
    assert trainer_content_tag(repository, "cpu") == before


def test_the_local_image_is_named_after_its_content(monkeypatch, repository):
    monkeypatch.setattr(images, "REPOSITORY", repository)
    assert trainer_image(None, "gpu") == f"localhost/athanor/trainer:{trainer_content_tag(repository, 'gpu')}"


def test_the_image_of_tensorflow_jobs_has_a_name_of_its_own(monkeypatch, repository):
    monkeypatch.setattr(images, "REPOSITORY", repository)
    tag = trainer_content_tag(repository, "cpu", "tensorflow")
    assert images.tensorflow_image(None, "cpu") == f"localhost/athanor/trainer-tensorflow:{tag}"
    assert images.tensorflow_image("quay.io/team/tensorflow:1", "cpu") == "quay.io/team/tensorflow:1"


def test_a_given_image_is_taken_as_it_is():
    assert trainer_image("registry.example/team/trainer:v1", "gpu") == "registry.example/team/trainer:v1"


def test_volcano_images_carry_the_one_version():
    assert VOLCANO_SCHEDULER_IMAGE.endswith(f"/vc-scheduler:v{VOLCANO}")
    assert VOLCANO_CONTROLLERS_IMAGE.endswith(f"/vc-controller-manager:v{VOLCANO}")
