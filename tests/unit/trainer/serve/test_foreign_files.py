"""Files that this torch cannot load as a model: the reason is in one line, and not in a traceback of torch."""

import logging
import re
import shutil
import zipfile

import pytest
import torch

from tests.unit.trainer.serve.conftest import CONFIG, Scaled
from trainer.model_repository import exported, torchscript
from trainer.serve import model, model_config
from trainer.serve.errors import ModelLoadError


class Rectified(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(image)


FOREIGN = "operators of torch and torchvision alone, since the server has those of no other package"
EXPORT = "torch.export.save of this torch, or compile it with this one"
SCRIPT = "torch.jit.save of this torch or an older one"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model in both formats, and its weights."""
    folder = tmp_path_factory.mktemp("files")
    exported.save(Scaled(1.0), folder / "exported", [[torch.rand(2, 1, 8, 8)]])
    torchscript.save_frozen(Scaled(1.0), folder / "script")
    torch.save({"factor": torch.ones(1)}, folder / "weights")
    (folder / "empty").touch()
    torchscript.save_frozen(Rectified(), folder / "code")
    with zipfile.ZipFile(folder / "exported") as source, zipfile.ZipFile(folder / "newer", "w") as changed:
        for name in source.namelist():
            changed.writestr(name, re.sub(rb'("schema_version": {"major": )', rb"\g<1>9", source.read(name)))
    with zipfile.ZipFile(folder / "exported") as source, zipfile.ZipFile(folder / "foreign exported", "w") as changed:
        for name in source.namelist():
            changed.writestr(
                name, source.read(name).replace(b"torch.ops.aten.slice.Tensor", b"torch.ops.detectron2.slice")
            )
    for name, operator in (
        ("foreign", b"ops.detectron2.nms"),
        ("future", b"torch.reluu"),
        ("damaged", b"torch.relu(("),
    ):
        with zipfile.ZipFile(folder / "code") as source, zipfile.ZipFile(folder / name, "w") as changed:
            for entry in source.namelist():
                content = source.read(entry)
                changed.writestr(entry, content.replace(b"torch.relu", operator) if entry.endswith(".py") else content)
    return folder


@pytest.fixture
def load(files, tmp_path):
    def load_file(content, suffix):
        path = tmp_path / f"model{suffix}"
        shutil.copy(files / content, path)
        return model.load(path, model_config.parse(CONFIG, "digits"), 1)

    return load_file


@pytest.mark.parametrize(
    ("content", "suffix", "reason"),
    [
        ("newer", ".pt2", "Serialized schema version .* does not match our current schema version"),
        ("script", ".pt2", "failed locating file archive_format: file not found"),
        ("weights", ".pt2", "failed locating file archive_format: file not found"),
        ("empty", ".pt2", "not a ZIP archive"),
        ("exported", ".pt", "failed locating file constants.pkl: file not found"),
        ("weights", ".pt", "failed locating file constants.pkl: file not found"),
        ("empty", ".pt", "not a ZIP archive"),
    ],
)
def test_the_reason_is_one_line_with_what_writes_such_a_file(load, caplog, content, suffix, reason):
    writer = EXPORT if suffix == ".pt2" else SCRIPT
    with pytest.raises(ModelLoadError) as refused:
        load(content, suffix)
    message = str(refused.value)
    assert re.fullmatch(rf"model{suffix}: not a model that torch \S+ can load: [^\n]*{reason}[^\n]*", message)
    assert message.endswith(f". Fix: save it with {writer}")
    assert not caplog.records
    assert not logging.getLogger("torch.export").filters


@pytest.mark.parametrize(
    ("content", "suffix", "reason", "fix"),
    [
        ("foreign exported", ".pt2", "Failed deserializing node Node.target='torch.ops.detectron2.slice', .*", FOREIGN),
        ("foreign", ".pt", "Unknown builtin op: detectron2::nms", FOREIGN),
        ("future", ".pt", "Unknown builtin op: aten::reluu", f"save it with {SCRIPT}"),
        ("damaged", ".pt", "expected \\) but found 'eof' here", f"save it with {SCRIPT}"),
    ],
)
def test_code_that_torch_cannot_read_is_refused_with_the_reason_and_not_with_code(load, content, suffix, reason, fix):
    with pytest.raises(ModelLoadError, match=rf"can load: {reason}\. Fix: {fix}") as refused:
        load(content, suffix)
    assert "\n" not in str(refused.value)
