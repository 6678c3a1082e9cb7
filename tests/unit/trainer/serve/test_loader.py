"""Which versions are served: the policy, broken files, half-written ones, and storage that goes away."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
import torch

from tests.unit.trainer.serve.conftest import Scaled
from trainer.model_repository import exported, torchscript
from trainer.serve.errors import ModelLoadError
from trainer.serve.loader import ModelLoader
from trainer.serve.local_models import LocalModels

ONES = torch.ones(2, 1, 8, 8)


@pytest.fixture
def published():
    return []


@pytest.fixture
def loader(repository, published):
    return ModelLoader(repository.folder, LocalModels(0.0, None).load, published.append)


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
    "manifest that is not JSON": lambda r: damaged(r, 2, lambda s: (s / "manifest.json").write_text("{")),
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
def test_half_written_version_is_not_served_and_named(repository, loader, caplog, missing):
    repository.publish(1)
    damaged(repository, 2, lambda staged: (staged / missing).rename(repository.folder / missing))
    snapshot = loader.sync()
    assert served(snapshot) == [1]
    assert snapshot.unavailable[2].startswith(f"has no {missing}")
    assert snapshot.load_failure == 0
    assert loader.sync() == snapshot
    # once, although it was seen twice
    assert [line for line in caplog.messages if "not served" in line] == [
        f"digits version 2: not served: {snapshot.unavailable[2]}"
    ]
    (repository.folder / missing).rename(repository.folder / "2" / missing)
    complete = loader.sync()
    assert served(complete) == [2]
    assert not complete.unavailable


@pytest.mark.parametrize(
    ("policy", "awaited"),
    [("", [3]), ("version_policy { latest { num_versions: 2 } }", [1, 3]), ("version_policy { all {} }", [1, 3])],
)
def test_an_incomplete_version_is_named_where_it_would_be_served(repository, loader, policy, awaited):
    repository.configure((repository.folder / "config.pbtxt").read_text() + policy)
    repository.publish(2)
    for version in (1, 3):
        (repository.folder / str(version)).mkdir()
    assert list(loader.sync().unavailable) == awaited


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("manifest.json", "; 1 has no manifest.json. Fix: write manifest.json last, {"),
        ("model.pt", "; 1 has no model.pt"),
    ],
)
def test_what_a_version_lacks_is_named_while_there_is_no_other(repository, loader, missing, why):
    repository.publish(1)
    (repository.folder / "1" / missing).unlink()
    assert loader.sync().problem.startswith(f"waiting for a version in {repository.folder}{why}")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"variants": ["int8"]}, "manifest.json: variants must be a JSON object"),
        ({"variants": {"int8": {}}}, "manifest.json: no JSON object with the model's sha256, and that of each variant"),
        ({"variants": {"int8": "model.int8.pt"}}, "and that of each variant"),
        ({"sha256": 1}, "manifest.json: no JSON object with the model's sha256"),
    ],
)
def test_a_manifest_written_by_hand_is_refused_with_what_it_lacks(repository, loader, more, reason):
    repository.publish(1, **more)
    assert reason in loader.sync().unavailable[1]


def test_names_that_are_not_versions_are_not_seen(repository, loader):
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
    pinned = ModelLoader(repository.folder, LocalModels(0.0, None).load, published.append, version=2)
    repository.publish(1)
    repository.publish(3)
    waiting = pinned.sync()
    assert served(waiting) == []
    assert waiting.problem == f"waiting for version 2 in {repository.folder}"
    repository.publish(2)
    assert served(pinned.sync()) == [2]
    repository.publish(4)
    assert served(pinned.sync()) == [2]


def test_removing_the_latest_version_rolls_back(repository, loader):
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


def test_version_that_failed_is_tried_again_on_request_with_the_same_files(repository, published):
    """Its process may have died for want of memory, which no file shows."""
    repository.publish(1)
    local = LocalModels(0.0, None)
    reasons = ["died 2 times while it was loaded", "died 2 times while it was loaded"]

    def load(candidate, spec):
        if reasons:
            raise ModelLoadError(reasons.pop())
        return local.load(candidate, spec)

    loader = ModelLoader(repository.folder, load, published.append)
    assert not served(loader.sync())
    assert not served(loader.sync())
    assert list(loader.load().unavailable) == [1]
    loaded = loader.load()
    assert (served(loaded), loaded.unavailable) == ([1], {})
    assert (loaded.load_success, loaded.load_failure) == (1, 2)


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


def publish_variant(repository, version, name, factor):
    """Add a variant to a version that is published next."""
    repository.publish(version)
    staged = (repository.folder / str(version)).rename(repository.folder / ".staged")
    file = staged / f"model.{name}.pt"
    torchscript.save_frozen(Scaled(factor), file)
    manifest = json.loads((staged / "manifest.json").read_text())
    entry = {"model_file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    (staged / "manifest.json").write_text(json.dumps(manifest | {"variants": {name: entry}}))
    staged.rename(repository.folder / str(version))


def answer(model):
    return model.infer([np.ones((1, 1, 8, 8), dtype=np.float32)])[0][0, 0]


@pytest.fixture
def int8_loader(repository, published):
    return ModelLoader(repository.folder, LocalModels(0.0, "int8").load, published.append, variant="int8")


def test_a_variant_is_served_while_others_serve_the_model(repository, loader, int8_loader):
    publish_variant(repository, 1, "int8", 7.0)
    assert answer(loader.sync().models[1]) == 1.0
    assert answer(int8_loader.sync().models[1]) == 7.0


def test_a_version_without_the_variant_never_replaces_one_that_has_it(repository, int8_loader):
    publish_variant(repository, 1, "int8", 7.0)
    assert served(int8_loader.sync()) == [1]
    rejected = {"int8": {"reason": "loses 3.00 points of accuracy; allowed: 0.5"}}
    repository.publish(2, variants={}, rejected_variants=rejected)
    repository.publish(3)
    snapshot = int8_loader.sync()
    assert served(snapshot) == [1]
    assert snapshot.unavailable[2].endswith("'int8': it loses 3.00 points of accuracy; allowed: 0.5")
    assert snapshot.unavailable[3] == "published without the variant 'int8': it has none"
    publish_variant(repository, 4, "int8", 9.0)
    assert answer(int8_loader.sync().models[4]) == 9.0


def test_a_damaged_variant_is_not_served(repository, loader, int8_loader):
    publish_variant(repository, 1, "int8", 7.0)
    with (repository.folder / "1" / "model.int8.pt").open("ab") as file:
        file.write(b"more")
    assert "model.int8.pt: sha256 is" in int8_loader.sync().unavailable[1]
    assert served(loader.sync()) == [1]


def test_a_torch_export_program_is_served_for_every_batch_size(repository, published):
    repository.publish(1)
    staged = (repository.folder / "1").rename(repository.folder / ".staged")
    exported.save(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)), staged / "model.pt2", [[ONES]])
    manifest = json.loads((staged / "manifest.json").read_text())
    entry = {"model_file": "model.pt2", "sha256": hashlib.sha256((staged / "model.pt2").read_bytes()).hexdigest()}
    (staged / "manifest.json").write_text(json.dumps(manifest | {"variants": {"pt2": entry}}))
    staged.rename(repository.folder / "1")
    model = (
        ModelLoader(repository.folder, LocalModels(10.0, "pt2").load, published.append, variant="pt2").sync().models[1]
    )
    for rows in (1, 2, 8):
        [logits] = model.infer([np.ones((rows, 1, 8, 8), dtype=np.float32)])
        assert logits.shape == (rows, 10)
        np.testing.assert_allclose(logits, np.broadcast_to(logits[0], logits.shape), rtol=1e-5)
