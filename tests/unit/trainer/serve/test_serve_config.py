"""config.pbtxt and the command line: what is wrong is refused with the field, the value and the fix."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from trainer.serve import model_config
from trainer.serve.batching_config import Batching, QueuePolicy
from trainer.serve.config import LimitsConfig, ServeConfig
from trainer.serve.errors import ModelLoadError
from trainer.serve.model_options import ModelOptions

PROJECT = Path(__file__).resolve().parents[4]

GOOD = """
platform: "pytorch_libtorch"
max_batch_size: 8
input [{ name: "x" data_type: TYPE_FP32 dims: [3] }]
output [{ name: "y" data_type: TYPE_INT64 dims: [-1] }]
"""


def test_defaults():
    spec = model_config.parse(GOOD, "m")
    assert (spec.model_file, spec.instances, spec.batching) == ("model.pt", 1, Batching())
    assert [(tensor.name, tensor.datatype.name, tensor.shape) for tensor in spec.inputs] == [("x", "FP32", (-1, 3))]
    assert spec.outputs[0].shape == (-1, -1)
    assert spec.ignored == ()


def test_everything_that_has_an_effect():
    more = """
    name: "m" default_model_filename: "model.int8.pt"
    instance_group [{ count: 2 kind: KIND_CPU }, { kind: KIND_AUTO }]
    dynamic_batching {
      default_queue_policy { max_queue_size: 9 } max_queue_delay_microseconds: 100 preferred_batch_size: [4, 8]
      priority_levels: 2 default_priority_level: 2 priority_queue_policy {
        key: 1 value { timeout_action: DELAY default_timeout_microseconds: 7 allow_timeout_override: true }
      }
    }
    optimization {}
    """
    spec = model_config.parse(GOOD + more, "m")
    assert (spec.model_file, spec.instances) == ("model.int8.pt", 3)
    assert spec.batching == Batching(
        max_rows=8,
        preferred_sizes=frozenset({4, 8}),
        max_delay_seconds=1e-4,
        default_priority=2,
        policies=(
            QueuePolicy(timeout_us=7, allow_timeout_override=True, delays_on_timeout=True),
            QueuePolicy(max_queue_size=9),
        ),
    )
    assert spec.ignored == ("optimization",)
    assert (spec.config.name, spec.config.max_batch_size) == ("m", 8)


@each_row(
    ("old", "new", "message"),
    [
        ("platform", "plattform", "not a Triton model configuration"),
        ('platform: "pytorch_libtorch"', 'platform: "onnxruntime_onnx"', "must be platform"),
        ("max_batch_size: 8", "max_batch_size: -1", "max_batch_size=-1: must be at least 0"),
        ("max_batch_size: 8", 'name: "other"', "name='other': must be the folder's name, 'm'"),
        ("max_batch_size: 8", 'default_model_filename: "../x"', "no folders"),
        ("max_batch_size: 8", "sequence_batching {}", "sequence_batching is not supported"),
        ("max_batch_size: 8", "instance_group { kind: KIND_GPU }", "KIND_GPU"),
        # no thread would answer
        ("max_batch_size: 8", "instance_group [{ count: -1 }, { count: 2 }]", r"count \[-1, 2\]: must be 1 to 256"),
        ("max_batch_size: 8", "instance_group { count: 257 }", r"count \[257\]: must be 1 to 256 together"),
        ("max_batch_size: 8", 'default_model_filename: ".."', "default_model_filename='..': must be a file's name"),
        ("max_batch_size: 8", 'default_model_filename: "a\\000"', "must be a file's name"),
        (
            "max_batch_size: 8",
            "dynamic_batching { max_queue_delay_microseconds: 9223372036854775808 }",
            "must be at most 3600000000",
        ),
        ("max_batch_size: 8", 'input { name: "" data_type: TYPE_FP32 dims: [1] }', "each with a name of its own"),
        ("max_batch_size: 8", "max_batch_size: 8 dynamic_batching { preferred_batch_size: 9 }", "preferred_batch_size"),
        ("max_batch_size: 8", "dynamic_batching { priority_levels: 101 }", "priority_levels=101"),
        ("max_batch_size: 8", "dynamic_batching { priority_levels: 2 }", "default_priority_level=0: must be 1"),
        (
            "max_batch_size: 8",
            "dynamic_batching { priority_queue_policy { key: 1 value {} } }",
            "priority_queue_policy 1: must be 1 to priority_levels, 0",
        ),
        ("max_batch_size: 8", "version_policy { specific {} }", "names no version"),
        ("TYPE_FP32", "TYPE_INVALID", "data_type TYPE_INVALID: must be one of TYPE_BOOL"),
        ("dims: [3]", "dims: [0]", r"dims \[0\]"),
        ("dims: [3]", "dims: [3] optional: true", "optional"),
        ("dims: [3]", "dims: [3] reshape { shape: [1, 3] }", "reshape"),
        ('output [{ name: "y" data_type: TYPE_INT64 dims: [-1] }]', "", r"outputs \[\]"),
        (
            'name: "x" data_type: TYPE_FP32 dims: [3] }',
            'name: "x" dims: 1 data_type: 11}, {name: "x" dims: 1 data_type: 11}',
            "own",
        ),
    ],
)
def test_configuration_that_cannot_be_served(old, new, message):
    assert old in GOOD
    with pytest.raises(ModelLoadError, match=message):
        model_config.parse(GOOD.replace(old, new), "m")


@each_row(
    "wrong",
    [
        {"model_name": ("../secrets",)},
        {"model_version": 0},
        {"http_port": 65536},
        {"metrics_port": -1},
        {"poll_interval_seconds": 0},
        {"max_queue_size": 0},
        {"drain_delay_seconds": -1},
        {"drain_delay_seconds": float("inf")},
    ],
)
def test_settings_that_make_no_sense(wrong):
    (field,) = wrong
    with pytest.raises(ValueError, match=field):
        ServeConfig(**{"model_repository": Path("/models"), "model_name": ("digits",)} | wrong)


def several(**changes) -> ServeConfig:
    return ServeConfig(**{"model_repository": Path("/models"), "model_name": ("a", "b")} | changes)


def test_each_of_several_models_has_options_of_its_own():
    text = "a:version=3,variant=int8,max_queue_size=8,num_cpu_threads=2,max_memory_mib=64"
    assert several(model_options=(text,)).options == {
        "a": ModelOptions(name="a", version=3, variant="int8", max_queue_size=8, num_cpu_threads=2, max_memory_mib=64),
        "b": ModelOptions(name="b"),
    }
    alone = several(model_name=("a",), model_version=3, model_variant="int8")
    assert alone.options == {"a": ModelOptions(name="a", version=3, variant="int8")}


@each_row(
    ("wrong", "message"),
    [
        ({"model_name": ()}, "must be at least one, each once"),
        ({"model_name": ("a", "a")}, "must be at least one, each once"),
        ({"model_version": 3}, "Fix: --model_options a:version=3"),
        ({"model_variant": "int8"}, "Fix: --model_options a:variant=int8"),
        ({"model_options": ("c:version=1",)}, "model_options of 'c': must be of one of"),
        ({"model_options": ("a:version=1", "a:variant=int8")}, "model_options of 'a': must be of one of"),
        ({"model_options": ("a",)}, "must be NAME:KEY=VALUE,KEY=VALUE with the keys version, variant"),
        ({"model_options": ("a:threads=1",)}, "num_cpu_threads, max_memory_mib, each once"),
        ({"model_options": ("a:version=1,version=2",)}, "each once"),
        ({"model_options": ("a:version=",)}, "must be NAME:KEY=VALUE"),
        ({"model_options": ("a:version=x",)}, "version='x': must be a whole number"),
        ({"model_options": ("a:version=0",)}, "model_options a:version=0: must be at least 1"),
        ({"model_options": ("a:variant=../x",)}, "model_options a:variant='../x'"),
        ({"model_options": ("a:max_memory_mib=63",)}, "max_memory_mib=63: must be at least 64"),
        ({"model_name": ("a",), "model_options": ("a:max_memory_mib=64",)}, "are for several models"),
    ],
)
def test_options_that_make_no_sense(wrong, message):
    with pytest.raises(ValueError, match=message):
        several(**wrong)


def test_limits_contain_each_other():
    with pytest.raises(ValueError, match="max_body_bytes=4096: must be at least 8192"):
        LimitsConfig(max_body_bytes=4096, max_json_bytes=8192)


def test_help_does_not_wait_for_torch():
    program = """
import atexit, sys
from trainer.serve.__main__ import main
atexit.register(lambda: print("torch imported:", "torch" in sys.modules))
main(["--help"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    assert "torch imported: False" in done.stdout
    for flag in ("--model_repository", "--model_name", "--http_port", "--metrics_port", "--drain_delay_seconds"):
        assert flag in done.stdout


def test_stop_while_torch_is_being_imported_and_threads_decided_before():
    program = """
import os, signal, sys, types
from trainer.serve.__main__ import main

def stopped_during_the_import(name):
    if name != "run":
        raise AttributeError(name)
    print("threads:", os.environ["OMP_NUM_THREADS"], flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()

slow = sys.modules["trainer.serve.lifecycle"] = types.ModuleType("trainer.serve.lifecycle")
slow.__getattr__ = stopped_during_the_import
import trainer.serve
trainer.serve.lifecycle = slow
main(["--model_repository=/models", "--model_name=digits", "--num_cpu_threads=3"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=PROJECT, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "threads: 3\n"), done.stderr
