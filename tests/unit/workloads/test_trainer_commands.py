"""The commands that the pods run must be ones that the trainer understands: checked by its own parsers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
import tyro

from infra.errors import RefusalError
from infra.model_variants import ModelVariant
from infra.settings.digits import DigitsSettings
from tests.fixtures.recorded_stack import UNWATCHED
from tests.pod_security import pod_specs
from tests.tables import each_row
from trainer.common.validation import NAME_PATTERN
from trainer.pytorch.compression.config import VARIANTS, CompressionConfig
from trainer.pytorch.config import parse
from trainer.pytorch.result import SOURCE_RECORD
from trainer.serve.config import ServeConfig
from trainer.serve.model_options import ModelOptions
from workloads.compression import Compression
from workloads.digits import MODEL, training_program
from workloads.git_source import GitSource, take_container
from workloads.inference import TorchScriptServiceArgs
from workloads.served_models import ServedModel
from workloads.serving_pods import serve_command
from workloads.shadow import Shadow
from workloads.volcano_job import RANK_METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Callable


def _expanded(words, env):
    """As the kubelet does: $(NAME) becomes the variable's value."""
    for name, value in env.items():
        words = [word.replace(f"$({name})", value) for word in words]
    return words


@pytest.fixture(scope="module")
def training_pod(record_stack):
    [pod] = pod_specs(record_stack().one("digits-training", "Job").inputs)
    return pod


@pytest.fixture(scope="module")
def serving_pod(record_stack):
    [pod] = pod_specs(record_stack().one("digits", "Deployment").inputs)
    return pod


@pytest.fixture(scope="module")
def train_config(training_pod):
    [container] = training_pod["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    words = _expanded(container["args"], env)
    assert not any("$(" in word for word in words if "VC_TASK_INDEX" not in word)
    program = words[words.index("trainer.train") + 1 :]
    return parse(program)


def test_torchrun_runs_the_trainer(training_pod):
    command = training_pod["containers"][0]["args"]
    modules = [command[place + 1] for place, word in enumerate(command) if word == "-m"]
    assert modules == ["trainer.train"]
    assert "from torch.distributed.run import main" in command[command.index("-c") + 1]


def test_the_trainer_accepts_its_command(train_config, record_stack):
    job = record_stack().exports["digits_training_job"]
    assert train_config.run_name == job
    assert train_config.output_dir == Path("/data/output")
    assert train_config.log_dir == Path(f"/data/output/{job}/logs")
    assert train_config.data.data_dir == Path("/data/data")
    assert train_config.metrics.metrics_port == RANK_METRICS_PORT
    assert train_config.export.model_name == MODEL


def test_the_settings_reach_the_trainer():
    settings = DigitsSettings(epochs=7, batch_size=16, seed=3)
    program = _expanded(training_program(settings)[2:], {"ATHANOR_JOB": "digits-training-0"})
    config = parse(program)
    assert (config.epochs, config.data.batch_size, config.runtime.seed) == (7, 16, 3)


def test_the_trainer_writes_only_to_writable_places(train_config, training_pod):
    mounts = training_pod["containers"][0]["volumeMounts"]
    writable = [Path(mount["mountPath"]) for mount in mounts if not mount.get("readOnly")]
    for folder in (
        train_config.folders.run,
        train_config.folders.models,
        train_config.folders.logs,
        train_config.work_dir,
    ):
        assert any(folder.is_relative_to(place) for place in writable), folder


def test_the_preparation_writes_where_the_trainer_reads(training_pod, train_config):
    [prepare] = training_pod["initContainers"]
    assert prepare["args"] == ["python3", "-m", "trainer.prepare_data", f"--data_dir={train_config.data.data_dir}"]


def test_the_server_looks_where_the_trainer_publishes(serving_pod, train_config):
    serve = _serve_config(serving_pod["containers"][0]["command"])
    assert serve.model_repository == train_config.folders.models
    assert serve.model_name == (train_config.export.model_name,)


def test_the_server_accepts_its_command_at_any_grace_period():
    for grace in (10, 30, 3600):
        args = TorchScriptServiceArgs(model=MODEL, grace_period_seconds=grace)
        config = _serve_config(serve_command(args))
        assert config.drain_delay_seconds + config.drain_timeout_seconds < grace


def test_the_server_takes_the_version_that_its_pods_are_pinned_to():
    args = TorchScriptServiceArgs(model=MODEL)
    assert _serve_config(serve_command(args, 4)).model_version == 4
    assert _serve_config(serve_command(args)).model_version is None


def test_the_server_takes_the_models_of_a_service_of_several():
    models = [
        ServedModel(model="a", version=3, variant="int8", max_queue_size=8, cpu_threads=1, max_memory_mib=64),
        ServedModel(model="b"),
    ]
    config = _serve_config(serve_command(TorchScriptServiceArgs(models=models)))
    assert config.model_name == ("a", "b")
    assert config.options == {
        "a": ModelOptions(name="a", version=3, variant="int8", max_queue_size=8, num_cpu_threads=1, max_memory_mib=64),
        "b": ModelOptions(name="b"),
    }


def _serve_config(command):
    assert command[:3] == ["python3", "-m", "trainer.serve"]
    return tyro.cli(ServeConfig, args=command[3:], use_underscores=True, config=(tyro.conf.OmitArgPrefixes,))


def test_compression_reaches_the_trainer():
    asked = Compression(
        variants=("int8", "pruned"),
        max_accuracy_loss_points=1.5,
        publish_inaccurate_variants=True,
        calibration_samples=64,
        sparsity=0.25,
        fine_tune_epochs=2,
    )
    parsed = parse(["--data_dir=/data", "--output_dir=/output", *asked.arguments]).compression
    assert {name: getattr(parsed, name) for name in dataclasses.asdict(asked)} == dataclasses.asdict(asked)
    defaults = parse(["--data_dir=/data", "--output_dir=/output", *Compression().arguments]).compression
    assert defaults == CompressionConfig(variants=("int8",))


def test_the_variants_of_the_settings_reach_trainer_and_server(record_stack):
    compressed = {"compression": {"variants": ["int8", "pt2"]}, "variant": "int8"}
    recording = record_stack({"digits": compressed, **UNWATCHED})
    assert _trained_and_served_variants(recording) == (("int8", "pt2"), "int8")


def test_every_environment_makes_an_8_bit_variant_and_serves_the_model_itself(record_stack):
    assert _trained_and_served_variants(record_stack(UNWATCHED)) == (("int8",), None)
    without = {"digits": {"compression": {"variants": []}}, **UNWATCHED}
    assert _trained_and_served_variants(record_stack(without)) == ((), None)


def _trained_and_served_variants(recorded):
    [training] = pod_specs(recorded.one("digits-training", "Job").inputs)
    words = training["containers"][0]["args"]
    program = _expanded(words[words.index("trainer.train") + 1 :], {"ATHANOR_JOB": "digits-training-0"})
    program = [word for word in program if "VC_TASK_INDEX" not in word]
    [serving] = pod_specs(recorded.one("digits", "Deployment").inputs)
    return parse(program).compression.variants, _serve_config(serving["containers"][0]["command"]).model_variant


def test_the_trainer_has_the_variants_that_a_service_may_serve():
    assert get_args(ModelVariant) == VARIANTS


@each_row("name", ["resnet_50", "v1.5-a", "0", "m" * 63, "m" * 64, "a_", ".a", "A", "", "a/b", "a b", "a\n"])
def test_a_service_takes_every_name_that_the_trainer_publishes_and_no_other(name):
    def is_taken(service: Callable[[], object]) -> bool:
        try:
            service()
        except (RefusalError, ValueError):
            return False
        return True

    is_published = NAME_PATTERN.fullmatch(name) is not None
    assert is_taken(lambda: TorchScriptServiceArgs(model=name)) is is_published
    assert is_taken(lambda: ServedModel(model=name)) is is_published
    assert is_taken(lambda: Shadow(model=name)) is is_published


def test_the_commit_is_read_from_where_a_jobs_code_is_recorded():
    source = GitSource(repository="https://git.example/project.git", commit="0" * 40)
    command = take_container(source, "image", "a-job").command
    assert f"--record=/data/output/a-job/{SOURCE_RECORD}" in command
