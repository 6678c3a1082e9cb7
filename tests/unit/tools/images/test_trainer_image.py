"""When the trainer image is built, loaded and forgotten, with stand-ins for the builder and the node."""

import dataclasses
import hashlib
import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

import infra.images
from tools.images import containerd, store, trainer_image
from tools.images.oci import LAYER, RunConfig
from tools.paths import REPOSITORY
from tools.progress import Progress


class FakeNode:
    """A containerd that holds names and digests only."""

    def __init__(self):
        self.images = {}

    def __call__(self, socket):
        del socket
        return self

    def manifests(self):
        return self.images

    def load(self, layout, reference, manifest):
        layout.members(manifest)
        self.images[reference] = manifest.digest
        return True


@dataclasses.dataclass
class FakeBuilder:
    """Builds an image of two layers: the base's, and the sources' names and contents."""

    requests: list = dataclasses.field(default_factory=list)
    sent: list = dataclasses.field(default_factory=list)

    def build(self, request, layout):
        self.requests.append(request)
        base = layout.members(request.base_manifest)[2]
        assert request.dockerfile.is_file()
        sources = sorted(path for path in (request.context / "trainer").rglob("*") if path.is_file())
        self.sent.append({path.relative_to(request.context / "trainer").as_posix() for path in sources})
        code = layout.add(b"".join(path.read_bytes() for path in sources), LAYER)
        return layout.add_image([base, code], RunConfig(user="10001:10001"))


@pytest.fixture
def builder(monkeypatch):
    fake = FakeBuilder()
    monkeypatch.setattr(trainer_image, "choose_builder", lambda _folder: fake)
    return fake


@pytest.fixture
def node(monkeypatch):
    fake = FakeNode()
    monkeypatch.setattr(trainer_image, "NodeImages", fake)
    return fake


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Give a repository with a copy of trainer/ that may be changed, and a cache of its own."""
    repository = tmp_path / "repository"
    shutil.copytree(REPOSITORY / "trainer", repository / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (trainer_image, infra.images):
        monkeypatch.setattr(module, "REPOSITORY", repository)
    monkeypatch.setenv("ATHANOR_CACHE", str(tmp_path / "cache"))
    return repository / "trainer"


@pytest.fixture
def base(monkeypatch):
    def make(layout, framework, variant, report):
        del report
        name = f"{trainer_image.BASE_REPOSITORIES[framework]}:{variant}"
        manifest = layout.add_image([layout.add(name.encode(), LAYER)], RunConfig())
        layout.tag(name, manifest)
        return name, manifest

    for function in ("ensure_base_image", "ensure_training_base_image"):
        monkeypatch.setattr(trainer_image, function, make)


def change(sources, number):
    (sources / "training" / "added.py").write_text(f"VALUE = {number}\n")


@pytest.fixture
def ensure(tmp_path, builder, node, sources, base):
    del builder, node, sources, base
    report = Progress(durations_file=tmp_path / "durations.json", console=Console(file=io.StringIO()))
    return lambda variant="cpu", image="training": trainer_image.ensure_trainer_images(
        tmp_path / "socket", [image], report, variant=variant
    )[image]


def test_image_is_built_and_loaded_under_its_content_tag(ensure, builder, node):
    reference = ensure()
    assert reference == infra.images.local_image("training", "cpu")
    assert list(node.images) == [reference]
    (request,) = builder.requests
    assert request.dockerfile == request.context / "trainer" / "Dockerfile"
    arguments = ["BASE_IMAGE=the-base", "FRAMEWORK=pytorch", "VARIANT=cpu"]
    assert request.flags("the-base")[:6] == [word for value in arguments for word in ("--build-arg", value)]


def test_only_what_the_tag_is_computed_from_is_sent_to_the_builder(ensure, builder, sources):
    (sources / "notes.md").write_text("not for pods")
    (sources / "tf").mkdir(exist_ok=True)
    (sources / "tf" / "job.py").touch()
    ensure()
    ensure(image="tensorflow")
    ensure(image="serving")
    training, tensorflow, serving = builder.sent
    assert training ^ tensorflow >= {"tf/job.py", "requirements.txt", "requirements-tensorflow.txt"}
    assert training ^ serving >= {"train.py", "pytorch/loop.py", "serve/__main__.py"}
    assert {"requirements.txt", "requirements-training.txt", "train.py"} <= training
    assert "requirements-training.txt" not in serving | tensorflow
    assert {"requirements.txt", "serve/__main__.py"} <= serving
    assert {"requirements-tensorflow.txt", "tf/job.py"} <= tensorflow
    assert "notes.md" not in training | tensorflow | serving


def test_an_image_says_what_it_is_built_from_and_on(ensure, builder):
    reference = ensure()
    with store.open_layout() as layout:
        manifest = json.loads(layout.path(layout.references()[reference].digest).read_bytes())
    annotations = manifest["annotations"]
    (request,) = builder.requests
    assert annotations["org.opencontainers.image.version"] == reference.rpartition(":")[2]
    assert annotations["org.opencontainers.image.base.name"] == request.base
    assert annotations["org.opencontainers.image.base.digest"] == request.base_manifest.digest
    pins = (REPOSITORY / "trainer" / "requirements.txt").read_bytes()
    assert annotations["dev.athanor.image.requirements"] == f"sha256:{hashlib.sha256(pins).hexdigest()}"


def test_each_image_has_a_name_of_its_own_and_shares_the_base_of_its_framework(ensure, builder, node):
    names = ["training", "serving", "tensorflow"]
    references = [ensure(image=name) for name in names]
    assert list(node.images) == references == [infra.images.local_image(name, "cpu") for name in names]
    training, serving, tensorflow = builder.requests
    assert (training.base_manifest, training.arguments) == (serving.base_manifest, serving.arguments)
    assert tensorflow.base != training.base
    assert tensorflow.arguments["FRAMEWORK"] == "tensorflow"


def test_images_of_one_name_do_not_push_out_those_of_the_other(ensure, sources):
    kept = ensure(image="tensorflow")
    for number in range(trainer_image.KEPT_IMAGES + 1):
        change(sources, number)
        ensure()
    with store.open_layout() as layout:
        assert layout.find(kept) is not None


def test_unchanged_image_is_not_built_again_and_loaded_only_into_another_node(ensure, builder, node):
    first = ensure()
    node.load, load = None, node.load
    assert ensure() == first
    node.load, node.images = load, {}
    assert ensure() == first
    assert list(node.images) == [first]
    assert len(builder.requests) == 1


@pytest.mark.parametrize("change", ["Dockerfile", "requirements.txt", "image/debian.py", "training/added.py"])
def test_everything_that_makes_the_image_changes_its_tag(ensure, sources, change):
    first = ensure()
    with (sources / change).open("a") as file:
        file.write("\n")
    assert ensure() != first


def test_variants_are_different_images(ensure):
    assert ensure("cpu") != ensure("gpu")


def test_damaged_image_is_built_again(ensure, builder, node):
    reference = ensure()
    with store.open_layout() as layout:
        code = layout.members(layout.find(reference))[-1]
        layout.path(code.digest).unlink()
    node.images = {}
    assert ensure() == reference
    assert len(builder.requests) == 2


def test_only_the_latest_images_stay_in_the_cache(ensure, sources):
    references = []
    for number in range(trainer_image.KEPT_IMAGES + 2):
        change(sources, number)
        references.append(ensure())
    with store.open_layout() as layout:
        kept = [name for name in layout.references() if "/trainer:" in name]
        assert kept == references[-trainer_image.KEPT_IMAGES :]
        # a manifest, a config and a layer each for the images and the base
        assert len(list(layout.blobs.iterdir())) == 3 * (len(kept) + 1)


def test_an_image_that_is_used_again_stays_in_the_cache(ensure, node, sources):
    used = ensure()
    for number in range(trainer_image.KEPT_IMAGES - 1):
        change(sources, number)
        ensure()
    (sources / "training" / "added.py").unlink()
    node.images = {}
    assert ensure() == used
    change(sources, "one more")
    ensure()
    with store.open_layout() as layout:
        assert layout.find(used) is not None


def test_the_base_of_an_image_stays_as_long_as_the_image(ensure, sources, monkeypatch):
    """Other bases were built since, by builds whose own images are gone: they are the ones to forget."""
    ensure()
    with store.open_layout() as layout:
        (base,) = [name for name in layout.references() if "/base:" in name]
        others = [f"{trainer_image.BASE_REPOSITORIES['pytorch']}:other-{number}" for number in range(5)]
        for name in others:
            layout.tag(name, layout.add_image([layout.add(name.encode(), LAYER)], RunConfig()))
    monkeypatch.setattr(trainer_image, "ensure_training_base_image", lambda layout, *_: (base, layout.find(base)))
    change(sources, 1)
    ensure()
    with store.open_layout() as layout:
        bases = [name for name in layout.references() if "/base:" in name]
        assert bases == [base, *others[-trainer_image.KEPT_IMAGES :]]


def test_failed_build_names_nothing(ensure, builder, node, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(builder, "build", fail)
    with pytest.raises(OSError, match="no space"):
        ensure()
    assert node.images == {}
    with store.open_layout() as layout:
        assert not [name for name in layout.references() if "/trainer:" in name]


class RecordingNode(containerd.NodeImages):
    """A node with the content that a test gives it, which records what it is sent."""

    def __init__(self, *, content, failures=0):
        super().__init__(Path("/nowhere"))
        self.content, self.failures, self.sent, self.images = content, failures, [], {}

    def manifests(self):
        return self.images

    def _content(self):
        return set(self.content)

    def _import(self, layout, reference, manifest, present):
        del layout
        self.sent.append(present)
        if len(self.sent) <= self.failures:
            raise containerd.CommandError(["ctr"], 1, "content digest not found", None)
        self.images[reference] = manifest.digest


def test_image_whose_content_went_away_meanwhile_is_sent_whole(tmp_path):
    layout = store.Layout(tmp_path)
    manifest = layout.add_image([layout.add(b"layer", LAYER)], RunConfig())
    node = RecordingNode(content=["sha256:there"], failures=1)
    assert node.load(layout, "a:1", manifest)
    assert node.sent == [{"sha256:there"}, set()]
    assert not node.load(layout, "a:1", manifest)
