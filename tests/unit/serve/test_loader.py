"""Which versions are served: the policy, broken files, half-written ones, and storage that goes away."""

import hashlib
import json
import os
import shutil

import pytest
import torch

from trainer.serve.loader import ModelLoader


@pytest.fixture
def published():
    return []


@pytest.fixture
def loader(repository, published):
    return ModelLoader(repository.folder, 0.0, published.append)


def served(snapshot):
    return sorted(snapshot.models)


def damaged(repository, version, damage):
    """Publish a version by one rename, after damaging it."""
    repository.publish(99999)
    staged = (repository.folder / "99999").rename(repository.folder / ".damaged")
    damage(staged)
    staged.rename(repository.folder / str(version))


def nonsense(staged):
    (staged / "model.pt").write_bytes(b"no zip archive")
    digest = hashlib.sha256(b"no zip archive").hexdigest()
    (staged / "manifest.json").write_text(json.dumps({"sha256": digest}))


class TwoInputs(torch.nn.Module):
    def forward(self, image: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return image + other


class Doubled(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.flatten(1)[:, :10].double()


class Pair(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return image, image


class Raises(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.reshape(3, 5, 7)


BROKEN = {
    "manifest that is no JSON": lambda r: damaged(r, 2, lambda s: (s / "manifest.json").write_text("{")),
    "manifest without sha256": lambda r: damaged(r, 2, lambda s: (s / "manifest.json").write_text("{}")),
    "other sha256": lambda r: r.publish(2, sha256="0" * 64),
    "manifest of another file": lambda r: r.publish(2, model_file="model.int8.pt"),
    "truncated": lambda r: damaged(r, 2, lambda s: (s / "model.pt").write_bytes(b"PK")),
    "no TorchScript": lambda r: damaged(r, 2, nonsense),
    "wrong shape": lambda r: r.publish(2, module=torch.nn.Flatten()),
    "wrong type": lambda r: r.publish(2, module=Doubled()),
    "wrong inputs": lambda r: r.publish(2, module=TwoInputs()),
    "wrong outputs": lambda r: r.publish(2, module=Pair()),
    "raises": lambda r: r.publish(2, module=Raises()),
}


@pytest.mark.parametrize("publish_broken", BROKEN.values(), ids=BROKEN)
def test_broken_version_does_not_take_over(repository, loader, publish_broken):
    repository.publish(1)
    before = loader.sync()
    publish_broken(repository)
    after = loader.sync()
    assert after.models == before.models
    assert list(after.unavailable) == [2]
    assert (after.load_success, after.load_failure) == (1, 1)
    # left alone until it changes
    assert loader.sync() == after
    shutil.rmtree(repository.folder / "2")
    repository.publish(2)
    repaired = loader.sync()
    assert served(repaired) == [2]
    assert not repaired.unavailable


def test_broken_newest_version_does_not_keep_a_fresh_server_from_the_one_before(repository, loader):
    repository.publish(1)
    repository.publish(2, sha256="0" * 64)
    assert served(loader.sync()) == [1]


@pytest.mark.parametrize("missing", ["model.pt", "manifest.json"])
def test_half_written_version_is_not_seen(repository, loader, missing):
    repository.publish(1)
    damaged(repository, 2, lambda staged: (staged / missing).rename(repository.folder / missing))
    snapshot = loader.sync()
    assert served(snapshot) == [1]
    assert not snapshot.unavailable
    (repository.folder / missing).rename(repository.folder / "2" / missing)
    assert served(loader.sync()) == [2]


def test_names_that_are_no_versions_are_not_seen(repository, loader):
    repository.publish(1)
    for name in ("01", "0", "-2", "2.0", "two", ".staging-9", "²", "9" * 30):
        shutil.copytree(repository.folder / "1", repository.folder / name)
    (repository.folder / "7").touch()
    assert served(loader.sync()) == [1]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", [3]),
        ("version_policy { latest { num_versions: 2 } }", [2, 3]),
        ("version_policy { latest {} }", [3]),
        ("version_policy { all {} }", [1, 2, 3]),
        ("version_policy { specific { versions: [1, 3, 9] } }", [1, 3]),
    ],
)
def test_version_policy(repository, loader, policy, expected):
    text = (repository.folder / "config.pbtxt").read_text()
    repository.configure(text + policy)
    for version in (1, 2, 3):
        repository.publish(version)
    assert served(loader.sync()) == expected


@pytest.mark.parametrize("policy", ["", "version_policy { all {} }", "version_policy { specific { versions: [1] } }"])
def test_pinned_version_is_the_only_one_whatever_the_policy(repository, published, policy):
    repository.configure((repository.folder / "config.pbtxt").read_text() + policy)
    pinned = ModelLoader(repository.folder, 0.0, published.append, version=2)
    repository.publish(1)
    repository.publish(3)
    waiting = pinned.sync()
    assert served(waiting) == []
    assert waiting.problem == f"waiting for version 2 in {repository.folder}"
    repository.publish(2)
    assert served(pinned.sync()) == [2]
    repository.publish(4)
    assert served(pinned.sync()) == [2]


def test_removing_the_newest_version_rolls_back(repository, loader):
    repository.publish(1)
    repository.publish(2)
    assert served(loader.sync()) == [2]
    shutil.rmtree(repository.folder / "2")
    assert served(loader.sync()) == [1]


def test_storage_that_goes_away_takes_nothing_down(repository, loader, published):
    repository.publish(1)
    before = loader.sync()
    repository.folder.rename(repository.path / "away")
    gone = loader.sync()
    assert gone.models == before.models
    assert "does not exist" in gone.problem
    (repository.path / "away").rename(repository.folder)
    assert loader.sync().problem == ""
    assert [served(snapshot) for snapshot in published] == [[1], [1], [1]]


def test_last_working_version_serves_on_when_nothing_on_disk_can_replace_it(repository, loader):
    repository.publish(1)
    before = loader.sync()
    shutil.rmtree(repository.folder / "1")
    assert loader.sync().models == before.models
    repository.publish(2, sha256="0" * 64)
    assert loader.sync().models == before.models
    repository.publish(3)
    assert served(loader.sync()) == [3]


def test_version_that_cannot_be_read_is_tried_again(repository, loader, monkeypatch):
    repository.publish(1)

    def fail(_path):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("trainer.serve.repository.sha256_of", fail)
        assert "Input/output error" in loader.sync().unavailable[1]
    assert served(loader.sync()) == [1]


def test_changed_configuration_is_applied_and_a_broken_one_is_not(repository, loader):
    repository.publish(1)
    text = (repository.folder / "config.pbtxt").read_text()
    assert loader.sync().models[1].spec.max_batch_size == 8
    repository.configure(text.replace("max_batch_size: 8", "max_batch_size: 4"))
    changed = loader.sync()
    assert changed.models[1].spec.max_batch_size == 4
    repository.configure("nonsense {")
    broken = loader.sync()
    assert broken.models == changed.models
    assert "not a Triton model configuration" in broken.problem
    assert broken.load_failure == 1
    assert loader.sync().load_failure == 1
    # a configuration that does not fit the model leaves the load before in place
    repository.configure(text.replace("dims: [10]", "dims: [11]"))
    assert loader.sync().models == changed.models


def test_nothing_is_published_twice(repository, loader, published):
    repository.publish(1)
    loader.sync()
    loader.sync()
    os.utime(repository.folder)
    loader.sync()
    assert len(published) == 1


def test_arguments_are_found_by_name_suffix_or_order(repository, loader):
    class Difference(torch.nn.Module):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return first - second

    tensor = '{ name: "%s" data_type: TYPE_FP32 dims: [1] }'
    for version, names in enumerate([("second", "first"), ("x__1", "x__0"), ("a", "b")], start=1):
        inputs = ", ".join(tensor % name for name in names)
        platform = 'platform: "pytorch_libtorch" max_batch_size: 2'
        repository.configure(f"{platform} input [{inputs}] output [{tensor % 'difference'}]")
        repository.publish(version, module=Difference())
        model = loader.sync().models[version]
        values = [torch.full((1, 1), 1.0).numpy(), torch.full((1, 1), 10.0).numpy()]
        (result,) = model.infer(values)
        assert result.item() == (-9.0 if names == ("a", "b") else 9.0)
