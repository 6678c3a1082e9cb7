"""A version that is not served any more gives its memory back at once."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from tests.unit.trainer.serve.conftest import CONFIG
from trainer.model_repository.model_file import Program
from trainer.serve import model_config
from trainer.serve.local_models import LocalModels
from trainer.serve.model import LoadedModel
from trainer.serve.worker import ModelCalls


class Weights:
    """A program, with a circle as torch.export's have."""

    def __init__(self, *, refers_to_itself):
        self.me = self if refers_to_itself else None

    def __call__(self, image):
        return image


@pytest.fixture
def no_collections():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("has_cycles", [False, True])
def test_weights_are_freed_although_something_still_refers_to_the_version(has_cycles):
    weights = Weights(refers_to_itself=has_cycles)
    alive = weakref.ref(weights)
    spec = model_config.parse(CONFIG, "digits")
    loaded = LoadedModel(spec, 1, Program(call=weights, arguments=["image"], has_cycles=has_cycles))
    del weights
    assert alive()
    loaded.release()
    assert not alive()


def test_the_process_of_a_model_releases_what_it_forgets(tmp_path, monkeypatch):
    released = []
    loaded = SimpleNamespace(load_seconds=0, warmup_seconds=0, release=lambda: released.append(True))
    monkeypatch.setattr(LocalModels, "load", lambda *_: loaded)
    calls = ModelCalls(tmp_path / "digits", 0, None)
    calls.answer({"call": "load", "handle": 7, "version": 1, "config": CONFIG}, [])
    calls.release(7)
    calls.release(7)
    assert released == [True]
