"""Which variants are accurate enough to be published."""

import pytest
import torch

from trainer.pytorch import model_files
from trainer.pytorch.compression import builder
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.trained_model import Splits, TensorSpec, TrainedModel


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
        inputs=TensorSpec(name="x", shape=(1,)),
        outputs=TensorSpec(name="y", shape=(1,)),
        samples=samples.inputs,
        run_name="r1",
        step=1,
        accuracy=before,
        data=Splits(training=samples, held_out=samples),
    )
    files = model_files.write_variants(tmp_path, trained, CompressionConfig(variants=("int8",)))
    assert ("int8" in files.published, "int8" in files.rejected) == (is_published, not is_published)
