"""Too little memory: which errors say so, what the memory is used for, what would help, and how the process ends."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from tests.tables import each_row
from tests.unit.trainer.pytorch.small_runs import GO_ON, events
from trainer.pytorch import out_of_memory, program
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.loop import Trainer
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.out_of_memory import MemoryUse, OutOfMemoryError, memory_use, remedies, shortage
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
GIB = 2**30
CUDA = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.25 GiB of which 1.2 GiB is free. "
    "Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 60.00 GiB is "
    "allocated by PyTorch, and 10.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


@each_row(
    ("said", "is_shortage"),
    [
        (CUDA, True),
        ("NCCL error: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_which_errors_are_of_memory(said, is_shortage):
    assert any(each in said for each in out_of_memory._SHORTAGES) == is_shortage


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of 80 GiB of which 60 were in use at the peak and 6 are somebody else's; much has been freed since."""
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 60 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 1 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 60 * GIB)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (14 * GIB, 80 * GIB))


@pytest.mark.usefixtures("gpu")
def test_memory_by_kind():
    model = torch.nn.Linear(1024, 1024, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.rand(2, 1024)).sum().backward()
    before = memory_use(GPU, model, optimizer)
    assert (before.parameters, before.gradients, before.optimizer) == (4 << 20, 4 << 20, 0)
    optimizer.step()
    used = memory_use(GPU, model, optimizer)
    assert used.optimizer == (8 << 20) + 4
    assert used.others == 60 * GIB - (16 << 20) - 4
    assert (used.unused, used.foreign, used.total) == (0, 6 * GIB, 80 * GIB)
    assert str(memory_use(GPU, model, optimizer, in_pieces=10 * GIB)) == (
        "parameters 0.00 GiB, gradients 0.00 GiB, optimizer 0.01 GiB, activations and the rest, at the peak 59.98 GiB, "
        "held in pieces 10.00 GiB, other processes and CUDA 6.00 GiB, of 80.00 GiB"
    )


def test_what_helps_depends_on_the_run(small):
    used = MemoryUse(parameters=1, gradients=1, optimizer=2, others=4)
    text = TokensConfig(data_dir=small().data.data_dir, batch_size=128)
    gpt = dataclasses.replace(small(), model=GptConfig(), data=text)
    assert remedies(gpt, used, ranks=4) == [
        "--microbatches 2 (gradient accumulation, the same steps)",
        "--activation_checkpointing full",
        "--data_parallel_shard 4",
        "--precision bf16",
        "a lower --batch_size than 128",
        "more GPUs with --data_parallel_shard, or with more memory",
    ]
    spent = dataclasses.replace(
        gpt,
        parallel=ParallelConfig(microbatches=32, data_parallel_shard=4),
        blocks=BlocksConfig(activation_checkpointing="full"),
        precision=PrecisionConfig(precision="bf16"),
    )
    assert remedies(spent, used, ranks=4)[:-1] == ["a lower --batch_size than 128"]
    crowded = dataclasses.replace(used, unused=20, foreign=20, total=100)
    assert remedies(spent, crowded, ranks=4)[:2] == [
        "no other process on that GPU",
        "PYTORCH_ALLOC_CONF=expandable_segments:True in the environment",
    ]


@pytest.mark.usefixtures("gpu")
def test_the_message_says_for_what_and_what_helps(small):
    made = shortage(torch.OutOfMemoryError(CUDA), small(), GPU, (None, None), step=1, ranks=1, happens_again=True)
    assert str(made).startswith(
        "step 1: out of memory on cuda:0 for 2.50 GiB more: activations and the rest, at the peak"
    )
    assert "held in pieces 10.00 GiB" in str(made)
    assert ". Fix: PYTORCH_ALLOC_CONF=expandable_segments:True in the environment; or --microbatches" in str(made)


@pytest.mark.usefixtures("gpu")
def test_memory_that_was_freed_after_the_shortage_is_not_said_to_be_in_pieces(small):
    whole = torch.OutOfMemoryError(CUDA.replace("10.00 GiB is reserved", "2.10 MiB is reserved"))
    message = str(shortage(whole, small(), GPU, (None, None), step=1, ranks=1, happens_again=True))
    assert "held in pieces 0.00 GiB" in message
    assert "expandable_segments" not in message


@pytest.mark.parametrize("steps_done", [0, 2])
def test_a_run_without_memory_says_so_and_whether_it_would_happen_again(small, monkeypatch, steps_done):
    trainer = Trainer(small())
    forward_backward = trainer._parallel_model.forward_backward

    def fails(*arguments) -> None:
        if trainer.step == steps_done:
            raise torch.OutOfMemoryError(CUDA)
        forward_backward(*arguments)

    monkeypatch.setattr(trainer._parallel_model, "forward_backward", fails)
    with pytest.raises(OutOfMemoryError, match=f"step {steps_done + 1}: out of memory on cpu") as end:
        trainer.train(GO_ON)
    trainer.close()
    assert end.value.happens_again == (steps_done == 0)
    [failed] = events(trainer.config, "failed")
    assert failed["error"].startswith("OutOfMemoryError: step")


def test_a_model_that_is_too_large_to_build_is_named_in_the_same_way(small, monkeypatch):
    def build(*_arguments, **_options) -> None:
        raise torch.OutOfMemoryError(CUDA)

    config = small()
    monkeypatch.setattr(type(config.recipe()), "build", build)
    with pytest.raises(OutOfMemoryError, match="step 1: out of memory on cpu") as end:
        Trainer(config)
    assert end.value.happens_again


@pytest.mark.parametrize(("happens_again", "status"), [(True, 78), (False, 1)])
def test_the_status_says_whether_to_start_again(monkeypatch, happens_again, status, caplog):
    def fails(_config) -> None:
        raise OutOfMemoryError("step 1: out of memory", happens_again=happens_again)

    monkeypatch.setattr(program, "_outcome", fails)
    with pytest.raises(SystemExit) as end:
        program._train(SimpleNamespace())  # pyright: ignore[reportArgumentType]
    assert end.value.code == status
    assert caplog.messages[-1] == "step 1: out of memory"


@pytest.mark.parametrize(("words", "status"), [(["--epochz=3"], 78), (["--help"], 0)])
def test_wrong_arguments_are_wrong_the_next_time_too(monkeypatch, words, status):
    monkeypatch.setattr("sys.argv", ["trainer.train", *words])
    with pytest.raises(SystemExit) as end:
        program.run()
    assert end.value.code == status
