"""How many CPU threads a model computes with: all of the server's together, however many instances there are."""

import threading

import numpy as np
import pytest
import torch

from tests.unit.trainer.serve.conftest import CONFIG
from trainer.model_repository.model_file import Program
from trainer.serve import model as model_module
from trainer.serve import model_config
from trainer.serve.model import LoadedModel


@pytest.fixture(autouse=True)
def threads_of_the_tests():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def in_threads(work, count):
    """Run at the same time: OpenMP's number belongs to a thread, and a new one begins with the last that was set."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("instances", "each"), [(1, 4), (2, 2), (3, 1), (4, 1), (8, 1)])
def test_instances_share_the_threads(instances, each, monkeypatch):
    monkeypatch.setattr(model_module, "_CPU_THREADS", 4)
    spec = model_config.parse(f"{CONFIG} instance_group [{{ kind: KIND_CPU count: {instances} }}]", "digits")
    seen = []

    def call(image):
        seen.append(torch.get_num_threads())
        return image.flatten(1)[:, :10]

    model = LoadedModel(spec, 1, Program(call=call, arguments=["image"]))
    torch.set_num_threads(7)  # such as a version of another configuration left
    in_threads(lambda: model.infer([np.ones((1, 1, 8, 8), np.float32)]), instances)
    assert seen == [each] * instances
