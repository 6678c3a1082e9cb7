"""What a version runs before it is ready: samples of model_warmup, or zeros in batches of all sizes."""

import contextlib
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import CONFIG
from trainer.model_repository.model_file import Program
from trainer.serve import model_config, warmup
from trainer.serve.errors import ModelLoadError
from trainer.serve.loader import ModelLoader
from trainer.serve.local_models import LocalModels
from trainer.serve.model import LoadedModel

SAMPLE = """model_warmup [{{ name: "first" {0}
  inputs [{{ key: "image" value {{ data_type: TYPE_FP32 dims: [1, 8, 8] {1} }} }}] }}]"""


def sample(settings="batch_size: 1", data="zero_data: true"):
    return SAMPLE.format(settings, data)


class Recorder:
    """A model that remembers its batches; `meet` holds as many calls until all of them came."""

    def __init__(self, meet=1):
        self.batches = []
        self._all_came = threading.Barrier(meet)

    def __call__(self, image):
        self._all_came.wait(60)
        self.batches.append(image.numpy().copy())
        return image.flatten(1)[:, :10].contiguous()

    def load(self, config):
        return LoadedModel(model_config.parse(config, "digits"), 1, Program(call=self, arguments=["image"]))


def warm_up(tmp_path, config, recorder=None):
    recorder = recorder or Recorder()
    warmup.warm_up(recorder.load(config), tmp_path, 60)
    return recorder.batches


def test_without_samples_all_sizes_run_and_preferred_ones_early(tmp_path):
    config = CONFIG.replace("dynamic_batching {}", "dynamic_batching { preferred_batch_size: [5, 6] }")
    sizes = [len(batch) for batch in warm_up(tmp_path, config)]
    assert sizes == [8, 8, 6, 6, 5, 5, 1, 1, 2, 2, 4, 4, 3, 3, 7, 7]


def test_a_limit_beyond_all_requests_takes_neither_memory_nor_the_version(tmp_path):
    """256 MiB of rows of 256 bytes; all sizes up to the limit as a list would take 200 GB."""
    recorder = Recorder()
    config = CONFIG.replace("max_batch_size: 8", "max_batch_size: 2147483647")
    warmup.warm_up(recorder.load(config), tmp_path, 0)
    assert [len(batch) for batch in recorder.batches] == [1 << 20] * 2


@pytest.mark.parametrize("dims", ["[4000000000000000000]", "[3000000000, 3000000000]"])
def test_rows_that_no_machine_holds_are_refused_with_the_fix(tmp_path, dims):
    with pytest.raises(ModelLoadError, match=r"zeros in a batch of 1: .*Fix: dims in config.pbtxt"):
        warm_up(tmp_path, CONFIG.replace("[1, 8, 8]", dims))


def test_samples_replace_the_zeros_and_run_as_often_as_asked(tmp_path):
    (tmp_path / "warmup").mkdir()
    values = np.arange(64, dtype="<f4").reshape(1, 8, 8)
    (tmp_path / "warmup" / "digit").write_bytes(values.tobytes())
    config = CONFIG + sample("batch_size: 3 count: 2") + sample(data='input_data_file: "digit"')
    config += sample(data="random_data: true").replace("first", "third")
    zeros, again, file, random = warm_up(tmp_path, config)
    assert zeros.shape == again.shape == (3, 1, 8, 8)
    assert not zeros.any()
    np.testing.assert_array_equal(file, values[None])
    assert 0 <= random.min() < random.max() < 1


def test_each_instance_runs_a_sample_at_the_same_time(tmp_path):
    config = CONFIG + "instance_group [{ count: 3 kind: KIND_CPU }]" + sample("batch_size: 2")
    assert len(warm_up(tmp_path, config, Recorder(meet=3))) == 3


@each_row("name", ["BOOL", "UINT8", "INT8", "UINT64", "INT64", "FP16", "FP64"])
def test_random_values_of_each_type(tmp_path, name):
    config = (CONFIG + sample(data="random_data: true")).replace("TYPE_FP32 dims: [1,", f"TYPE_{name} dims: [1,")
    recorder = Recorder()
    loaded = recorder.load(config)
    with pytest.raises(ModelLoadError, match="logits"):
        warmup.warm_up(loaded, tmp_path, 60)
    (batch,) = recorder.batches
    assert batch.dtype == loaded.spec.inputs[0].datatype.numpy
    assert len(np.unique(batch)) > 1


@each_row(
    ("settings", "data", "message"),
    [
        ("", "zero_data: true", "batch_size=0: must be 1 to 8"),
        ("batch_size: 9", "zero_data: true", "batch_size=9: must be 1 to 8"),
        ("batch_size: 1", "", "has no data"),
        ("batch_size: 1", 'input_data_file: "../secret"', "must be the name of a file"),
        ("batch_size: 1", 'input_data_file: ".."', "must be the name of a file"),
        ("batch_size: 1", "zero_data: true dims: 2", r"dims \[1, 8, 8, 2\]: must be \[1, 8, 8\]"),
        (
            'batch_size: 1 inputs { key: "other" value {} }',
            "zero_data: true",
            "must be those of the model",
        ),
    ],
)
def test_samples_that_do_not_fit_are_refused(settings, data, message):
    with pytest.raises(ModelLoadError, match=f"model_warmup 'first'.*{message}"):
        model_config.parse(CONFIG + sample(settings, data), "digits")


def test_values_of_another_type_are_refused():
    with pytest.raises(ModelLoadError, match="data_type TYPE_INT8: must be TYPE_FP32"):
        model_config.parse(CONFIG + sample().replace("TYPE_FP32", "TYPE_INT8"), "digits")


def test_model_without_batches():
    config = CONFIG.replace("max_batch_size: 8", "").replace("dynamic_batching {}", "")
    (read,) = model_config.parse(config + sample(""), "digits").warmup
    assert (read.rows, read.runs) == (1, 1)


DETECTOR = """
platform: "pytorch_libtorch"
input [{ name: "image" data_type: TYPE_FP32 dims: [3, 8, 8] }]
output [{ name: "boxes" data_type: TYPE_FP32 dims: [%s] }]
"""


@each_row(
    ("dims", "boxes", "refusal"),
    [
        ("-1, 4", (100, 4), None),
        ("-1, 4", (0, 4), None),
        ("100, 4", (100, 4), None),
        ("-1, 4", (100, 5), r"has shape \[100, 5\]; config.pbtxt says \[-1, 4\]"),
        ("100, 4", (99, 4), r"has shape \[99, 4\]; config.pbtxt says \[100, 4\]"),
    ],
)
def test_without_batches_an_output_of_any_size_is_not_a_batch(tmp_path, dims, boxes, refusal):
    """A detector of one image that finds as many boxes as there are."""
    program = Program(call=lambda _image: torch.zeros(boxes), arguments=["image"])
    loaded = LoadedModel(model_config.parse(DETECTOR % dims, "boxes"), 1, program)
    refused = pytest.raises(ModelLoadError, match=refusal) if refusal else contextlib.nullcontext()
    with refused:
        warmup.warm_up(loaded, tmp_path, 60)


class Picky(torch.nn.Module):
    """Fails on zeros."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if float(image.sum()) == 0.0:
            raise RuntimeError("only zeros")
        return image.flatten(1)[:, :10]


def test_a_model_that_fails_on_zeros_can_be_served_with_samples(repository):
    repository.publish(1, module=Picky())
    snapshot = ModelLoader(repository.folder, LocalModels(60, None).load, lambda _: None).sync()
    assert "only zeros" in snapshot.unavailable[1]
    repository.configure(CONFIG + sample(data="random_data: true"))
    assert list(ModelLoader(repository.folder, LocalModels(60, None).load, lambda _: None).sync().models) == [1]


def test_new_version_that_fails_its_warm_up_does_not_take_over(repository):
    loader = ModelLoader(repository.folder, LocalModels(60, None).load, lambda _: None)
    repository.configure(CONFIG + sample(data='input_data_file: "digit"'))
    folder = repository.folder / "warmup"
    folder.mkdir()
    (folder / "digit").write_bytes(np.ones(64, "<f4").tobytes())
    repository.publish(1, module=Picky())
    before = loader.sync()
    assert list(before.models) == [1]
    (folder / "digit").write_bytes(np.zeros(64, "<f4").tobytes())
    repository.publish(2, module=Picky())
    failed = loader.sync()
    assert failed.models == before.models
    assert "fails on the warm-up 'first'" in failed.unavailable[2]
    # the files of the warm-up count as files of the version
    (folder / "digit").write_bytes(np.full(64, 2.0, "<f4").tobytes())
    assert list(loader.sync().models) == [2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        (b"123", "3 bytes; one row of 'image' has 256"),
        (Path("/proc/version"), "leads out of the model's folder"),
    ],
)
def test_file_that_is_missing_elsewhere_or_of_another_size(repository, content, reason):
    repository.configure(CONFIG + sample(data='input_data_file: "digit"'))
    repository.publish(1)
    folder = repository.folder / "warmup"
    folder.mkdir()
    if isinstance(content, Path):
        (folder / "digit").symlink_to(content)
    elif content is not None:
        (folder / "digit").write_bytes(content)
    assert reason in ModelLoader(repository.folder, LocalModels(60, None).load, lambda _: None).sync().unavailable[1]
