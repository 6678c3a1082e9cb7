"""The files of a published version, and their entries in the manifest."""

import json

import pytest
import torch

from trainer.pytorch import export, measurement, model_files
from trainer.pytorch.compression import builder
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.data.dataset import InMemoryDataset
from trainer.pytorch.export_config import ExportConfig, ExportError
from trainer.pytorch.splits import ReadSamples
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.training.digits import DataError


class Builder:
    def __init__(self, *_):
        pass

    def build(self, _variant):
        return torch.nn.Identity()


@pytest.mark.parametrize(
    ("before", "after", "is_published"),
    [(0.995, 0.99, True), (0.995, 0.9899999, False), (0.9, 0.95, True), (0.57, 0.565, True), (0.57, 0.5649, False)],
)
def test_a_variant_may_lose_what_is_allowed_and_no_more(before, after, is_published, monkeypatch, tmp_path):
    monkeypatch.setattr(builder, "VariantBuilder", Builder)
    monkeypatch.setattr(model_files, "_write_variant", lambda *_: {"accuracy": after})
    samples = Samples(inputs=torch.ones(2, 1), labels=torch.zeros(2, dtype=torch.int64))
    trained = TrainedModel(
        module=torch.nn.Identity(),
        inputs=(TensorSpec(name="x", shape=(1,)),),
        outputs=(TensorSpec(name="y", shape=(1,)),),
        samples=[[samples.inputs]],
        run_name="r1",
        step=1,
        held_out=samples,
        training=samples,
    )
    files = model_files.write_variants(tmp_path, trained, {"accuracy": before}, CompressionConfig(variants=("int8",)))
    assert ("int8" in files.published, "int8" in files.rejected) == (is_published, not is_published)


def trained_model(module: torch.nn.Module, **changes: object) -> TrainedModel:
    samples = Samples(inputs=torch.rand(20, 4), labels=torch.zeros(20, dtype=torch.int64))
    fields = {
        "module": module.eval(),
        "inputs": (TensorSpec(name="x", shape=(4,)),),
        "outputs": (TensorSpec(name="y", shape=(4,)),),
        "samples": [[samples.inputs]],
        "run_name": "r1",
        "step": 1,
        "held_out": samples,
    }
    return TrainedModel(**{**fields, **changes})


class Alternating(torch.nn.Module):
    """Records other operations in each trace."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + 1 if self.calls % 2 else x * 2


def test_a_failed_trace_says_what_differs_and_names_the_other_method(tmp_path):
    with pytest.raises(
        ExportError, match=r"Graphs differed across invocations\. Fix: what it names, or --method=script"
    ):
        model_files.write_model(tmp_path / "model.pt", trained_model(Alternating(), method="trace"))


@pytest.mark.parametrize(
    ("frozen", "optimized", "used"),
    [
        ((1.0, 1.0), (0.9, 0.5), True),
        ((1.0, 1.0), (0.96, 0.5), False),
        ((1.0, 1.0), (0.5, 1.0), False),
        ((0.01, 0.1), (0.005, 0.05), True),
    ],
)
def test_an_optimised_program_is_used_where_it_is_faster_with_one_sample_and_with_many(
    frozen, optimized, used, monkeypatch, tmp_path
):
    times = [
        {f"batch_{rows}": {"p50": time, "p99": time} for rows, time in zip((1, 16), program, strict=True)}
        for program in (frozen, optimized)
    ]
    monkeypatch.setattr(model_files, "latencies", lambda programs, *_: times[: len(programs)])
    entry = model_files.write_model(tmp_path / "model.pt", trained_model(torch.nn.Linear(4, 4)))
    assert entry["latency_ms"] == times[used]
    assert entry["optimization"] == {
        "used": used,
        "reason": f"with 1 and 16 samples the optimised program takes {optimized[0]:g} and {optimized[1]:g} ms, "
        f"the frozen one {frozen[0]:g} and {frozen[1]:g} ms",
    }


def test_noise_does_not_decide_whether_a_tiny_model_is_optimised(monkeypatch, tmp_path):
    def times(programs, *_):
        both = [{rows: {"p50": time, "p99": time} for rows in ("batch_1", "batch_16")} for time in (0.04, 0.02)]
        return both[: len(programs)]

    monkeypatch.setattr(model_files, "latencies", times)
    entry = model_files.write_model(tmp_path / "model.pt", trained_model(torch.nn.Linear(4, 4)))
    assert entry["optimization"]["used"] is False
    assert entry["optimization"]["reason"].endswith("0.04 ms: less than 0.05 ms, which the next measurement may deny")
    assert entry["latency_ms"]["batch_1"]["p50"] == 0.04


class BatchStatistics(torch.nn.Module):
    """Normalises by what the batch has, as batch normalisation in training mode, but takes a batch of one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


class OfIndices(torch.nn.Module):
    """Takes numbers from 0 to 1 alone."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(2, 4)
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(self.table((x[:, 0] > 0.5).long() - (x[:, 0] < 0).long()))


@pytest.mark.parametrize(
    ("module", "is_batched"),
    [
        (torch.nn.Softmax(dim=0), False),
        (torch.nn.Softmax(dim=1), True),
        (BatchStatistics(), False),
        (OfIndices(BatchStatistics()), False),
        (OfIndices(torch.nn.Identity()), True),
    ],
    ids=["softmax of the batch", "softmax of the sample", "statistics of the batch", "of indices", "indices"],
)
def test_requests_do_not_share_batches_of_a_model_whose_answers_depend_on_them(
    module, is_batched, monkeypatch, tmp_path, caplog
):
    monkeypatch.setattr(measurement, "_CALLS", 1)
    export.publish(tmp_path, ExportConfig(model_name="m"), trained_model(module))
    batching = json.loads((tmp_path / "m/1/manifest.json").read_text())["batching"]
    assert batching["dynamic"] is is_batched
    assert ("dynamic_batching" in (tmp_path / "m/config.pbtxt").read_text()) is is_batched
    why = "the answer to a sample depends on the others of its batch: it differs by "
    assert batching.get("reason", why).startswith(why)
    assert any(why in line for line in caplog.messages) is not is_batched


def test_a_configuration_with_batches_is_not_left_to_a_model_whose_answers_depend_on_them(monkeypatch, tmp_path):
    monkeypatch.setattr(measurement, "_CALLS", 1)
    export.publish(tmp_path, ExportConfig(model_name="m"), trained_model(torch.nn.Identity()))
    with pytest.raises(ExportError, match=r"has dynamic_batching; .*\. Fix: remove dynamic_batching from it"):
        export.publish(tmp_path, ExportConfig(model_name="m"), trained_model(torch.nn.Softmax(dim=0), run_name="r2"))
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["1", "config.pbtxt"]


class Branching(torch.nn.Module):
    """Does something else with large samples than with those that it is traced with."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.max() > 10) else x


def test_a_file_with_other_answers_is_refused_with_the_other_method(tmp_path):
    samples = torch.rand(20, 4)
    samples[5] = 20.0
    trained = trained_model(Branching(), samples=[[samples]], method="trace")
    with pytest.raises(ExportError, match=r"compared with the network, it differs by .*\. Fix: --method=script"):
        model_files.write_model(tmp_path / "model.pt", trained)


class Random(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


class OnlyMany(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert len(x) > 1
        return x


class FailsLate(torch.nn.Module):
    """Takes the samples of the comparison, and fails on one of the held-out ones."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not bool((x > 1e6).any()), "too large"
        return x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Random(), "gives different answers to the same inputs. Fix: in evaluation mode, neither random numbers"),
        (OnlyMany(), "Fix: a network that takes any number of samples, also one, in evaluation mode"),
        (FailsLate(), "too large. Fix: the network, or data without them"),
    ],
)
def test_a_network_that_cannot_be_served_is_refused_in_one_line(module, message, tmp_path):
    held_out = Samples(inputs=torch.full((2, 4), 1e7), labels=torch.zeros(2, dtype=torch.int64))
    with pytest.raises(ExportError) as refused:
        model_files.write_model(tmp_path / "model.pt", trained_model(module, held_out=held_out))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_accuracy_of_a_large_data_set_is_that_of_samples_from_all_of_it():
    dataset = InMemoryDataset(torch.arange(10.0), torch.arange(10), classes=10)
    samples = ReadSamples(dataset, most=4)
    assert len(samples) == 4
    assert [batch.labels.tolist() for batch in samples.batches(3)] == [[0, 2, 5], [7]]
    assert [len(batch) for batch in ReadSamples(dataset, most=11).batches(6)] == [6, 4]


def test_a_label_that_is_not_a_class_is_refused_before_it_decides_an_accuracy():
    labels = torch.zeros(10, dtype=torch.int64)
    dataset = InMemoryDataset(torch.arange(10.0), labels, classes=9)
    labels[9] = 9  # as in a data set that does not check its own
    with pytest.raises(DataError, match=r"^label 9, one of 1 that are not 0 to 8\. Fix: "):
        list(ReadSamples(dataset).batches(5))
