from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.tables import each_row
from trainer.pytorch.config import parse
from trainer.pytorch.data import samples, token_files
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig

DOCUMENTED = ["--data_dir", "/d", "--output_dir", "/o", "--work_dir", "/w", "--log_dir", "/l", "--num_gpu", "2"]


def test_the_five_documented_arguments_are_enough():
    config = parse(DOCUMENTED)
    assert config.data.data_dir == Path("/d")
    assert config.output_dir == Path("/o")
    assert config.work_dir == Path("/w")
    assert config.folders.logs == Path("/l")
    assert config.distributed.num_gpu == 2


def test_both_spellings_reach_every_part():
    more = "--run-name r1 --model_name m --epochs 3 --batch-size 32 --width 8 --metrics_port 8002 --keep_latest_k 5"
    config = parse([*DOCUMENTED, *more.split(), "--learning-rate", "0.1", "--no-deterministic"])
    assert (config.run_name, config.export.model_name, config.epochs) == ("r1", "m", 3)
    assert (config.data.batch_size, config.model.width, config.metrics.metrics_port) == (32, 8, 8002)
    assert (config.checkpoint.keep_latest_k, config.optimizer.learning_rate) == (5, 0.1)
    assert not config.runtime.deterministic


def test_logs_lie_with_the_run_when_no_folder_is_named():
    config = parse(["--data_dir", "/d", "--output_dir", "/o", "--run_name", "r1"])
    assert config.folders.logs == Path("/o/r1/logs")
    assert config.folders.models == Path("/o/models")
    assert config.folders.result == Path("/o/r1/result.json")


@each_row(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "epochs=0: must be at least 1"),
        (["--log_interval_steps", "0"], "log_interval_steps=0: must be at least 1"),
        (["--run_name", "../x"], "run_name='../x': must be 1 to 63 of"),
        (["--run_name", "models"], "run_name='models': is the folder of the model repository. Fix: another name"),
        (["--model_name", "A B"], "model_name='A B': must be"),
        (["--num_gpu", "-1"], "num_gpu=-1: must be at least 0"),
        (["--learning_rate", "nan"], "learning_rate=nan: must be more than 0"),
        (["--keep_latest_k", "0"], "keep_latest_k=0: must be at least 1"),
        (["--metrics_port", "70000"], "metrics_port=70000: must be from 0 to 65535"),
        (["--last_scrape_seconds", "-1"], "last_scrape_seconds=-1.0: must be at least 0"),
        (["--seed", "-1"], "seed=-1: must be from 0 to 9223372036854775807"),
        (["--seed", "9223372036854775808"], "seed=9223372036854775808: must be from 0 to 9223372036854775807"),
        (["--num_cpu_threads", "100000"], "num_cpu_threads=100000: must be from 0 to 1024"),
        (["--epoch", "1"], "epoch"),
        (
            ["--model", "transformer"],
            "model='transformer': no model has that name. Fix: one of digits_cnn, resnet, gpt, FILE.py:NAME, or",
        ),
        (["--model", "gpt", "--dataset", "tokens", "--dropout", "0.1"], "dropout"),
        (
            ["--dataset", "imagenet"],
            "dataset='imagenet': no dataset has that name. Fix: one of digits, cifar10, image_folder, tokens, FILE",
        ),
        (["--data_workers", "2"], "data_workers"),
        (["--dataset", "tokens", "--model", "gpt", "--data_workers", "-1"], "data_workers=-1: must be at least 0"),
        (
            ["--model", "gpt"],
            "dataset=digits for classification of images. Fix: --model digits_cnn or resnet, or --dataset tokens",
        ),
        (
            ["--dataset", "tokens"],
            "for language modelling. Fix: --model gpt, or --dataset digits or cifar10 or image_folder",
        ),
        (
            ["--dataset", "cifar10", "--model", "resnet"],
            "model_name='digits': is the model of another data set than dataset=cifar10. Fix: --model_name",
        ),
        (
            ["--dataset", "image_folder", "--model", "resnet", "--model_name", "m", "--variants", "int8"],
            "variants=int8: are built from samples in memory, which dataset=image_folder does not hold. Fix: ",
        ),
        (["--tensor_parallel", "0"], "tensor_parallel=0: must be at least 1"),
        (["--adam_betas", "0.9", "1"], "adam_betas=1.0: must be from 0 to below 1"),
        (["--adam_epsilon", "0"], "adam_epsilon=0.0: must be more than 0"),
        (["--minimum_learning_rate", "0.1"], "minimum_learning_rate=0.1: must be from 0 to 0.003"),
        (["--max_steps", "0"], "max_steps=0: must be at least 1"),
        (["--evaluation_interval_steps", "0"], "evaluation_interval_steps=0: must be at least 1"),
        (
            ["--model", "gpt", "--dataset", "tokens", "--keep_best", "accuracy"],
            "keep_best=accuracy: is not a figure of language modelling. Fix: --keep_best loss",
        ),
    ],
)
def test_wrong_values_end_with_status_2_and_say_which(capsys, monkeypatch, arguments, message):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as exit_:
        parse([*DOCUMENTED, *arguments])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_a_named_model_brings_its_own_arguments():
    config = parse([*DOCUMENTED, "--model", "resnet", "--depth", "50", "--norm=group"])
    assert config.model == ResNetConfig(depth=50, norm="group")
    words = "--dataset=tokens --model=gpt --size 7b --layers 2 --data_parallel_shard 4"
    config = parse([*DOCUMENTED, *words.split()])
    assert config.model == GptConfig(size="7b", layers=2)
    assert config.parallel == ParallelConfig(data_parallel_shard=4)
    assert parse(DOCUMENTED).model == DigitsCnnConfig()


@each_row(
    ("arguments", "message"),
    [
        (
            "--warmup_steps 200 --learning_rate 0.1",
            (
                "warmup_steps=200: the run has 100 steps: the learning rate only rises, to 0.05 (learning_rate=0.1). "
                "Fix: --warmup_steps 10, or fewer than 100"
            ),
        ),
        (
            "--warmup_steps 100 --learning_rate 1",
            (
                "warmup_steps=100: the run has 100 steps: the learning rate only rises, to 1 (learning_rate=1). "
                "Fix: --warmup_steps 10, or fewer than 100"
            ),
        ),
        (
            "--checkpoint_interval_steps 1000",
            (
                "checkpoint_interval_steps=1000: the run has 100 steps: no checkpoint is saved before the end. "
                "Fix: fewer than 100"
            ),
        ),
        (
            "--keep_every_n_steps 200",
            (
                "keep_every_n_steps=200: the run has 100 steps: no checkpoint is kept forever. "
                "Fix: at most 100, or leave it out"
            ),
        ),
        (
            "--straggler_interval_steps 101",
            "straggler_interval_steps=101: the run has 100 steps: ranks are never compared. Fix: at most 100, or 0",
        ),
        (
            "--log_interval_steps 101",
            "log_interval_steps=101: the run has 100 steps: only the last is logged. Fix: at most 100",
        ),
        (
            "--evaluation_interval_steps 101",
            (
                "evaluation_interval_steps=101: the run has 100 steps: only the last is evaluated. "
                "Fix: at most 100, or leave it out"
            ),
        ),
        (
            "--profile_steps 1 --profile_ranks 0 4 8",
            "profile_ranks=4 8: the ranks are 0 to 3: nobody records there. Fix: at most 3",
        ),
        (
            "--pipeline_schedule gpipe --microbatches 4",
            (
                "pipeline_schedule=gpipe: there is no pipeline, since pipeline_parallel=1. "
                "Fix: --pipeline_parallel 2 or more, or leave it out"
            ),
        ),
        ("--pipeline_schedule gpipe --pipeline_parallel 2 --microbatches 4", None),
        (
            "--optimizer sgd --adam_betas 0.9 0.95",
            "adam_betas=(0.9, 0.95): has no effect with optimizer=sgd. Fix: --optimizer adamw, or leave it out",
        ),
        (
            "--sgd_momentum 0.5",
            "sgd_momentum=0.5: has no effect with optimizer=adamw. Fix: --optimizer sgd, or leave it out",
        ),
        (
            "--decay_fraction 0.5",
            "decay_fraction=0.5: has no effect with schedule=cosine. Fix: --schedule wsd, or leave it out",
        ),
        (
            "--schedule constant --minimum_learning_rate 1e-4",
            (
                "minimum_learning_rate=0.0001: has no effect with schedule=constant. "
                "Fix: --schedule cosine or linear or wsd, or leave it out"
            ),
        ),
        ("--optimizer sgd --sgd_momentum 0 --schedule wsd --decay_fraction 0.5 --minimum_learning_rate 1e-4", None),
        ("--warmup_steps 99 --checkpoint_interval_steps 50 --keep_every_n_steps 100", None),
        ("--warmup_steps 0 --log_interval_steps 100 --straggler_interval_steps 100 --profile_ranks 0 4", None),
    ],
)
def test_what_does_nothing_in_a_run_of_100_steps_and_4_ranks_is_said(arguments, message):
    said = parse([*DOCUMENTED, *arguments.split()]).without_effect(100, 4)
    assert said == ([message] if message else [])


def test_defaults_are_fine_in_a_short_run():
    assert parse([*DOCUMENTED, "--warmup_steps", "0"]).without_effect(1, 1) == []


def test_options_reach_what_is_built():
    words = "--precision bf16 --channels_last --activation_checkpointing full --compile aot_eager --microbatches 2"
    recipe = parse([*DOCUMENTED, *words.split(), "--seed", "7"]).recipe()
    assert recipe == Recipe(
        model=DigitsCnnConfig(),
        parallel=ParallelConfig(microbatches=2),
        precision=PrecisionConfig(precision="bf16", channels_last=True),
        blocks=BlocksConfig(activation_checkpointing="full", compile="aot_eager"),
        seed=7,
    )


def test_a_run_may_resume_with_other_degrees_but_not_with_another_model_or_precision(data_dir):
    begin = ["--data_dir", str(data_dir), "--output_dir", "/o"]
    settings = parse(begin).settings()
    # those of the first four and the next four are in checkpoints from before there were models to choose from
    assert settings.keys() == {
        *("dataset_sha256", "batch_size", "epochs", "seed", "width", "dropout"),
        *("learning_rate", "weight_decay", "warmup_steps", "gradient_clip_norm"),
        *("optimizer", "weight_decay_on", "adam_betas", "adam_epsilon", "sgd_momentum"),
        *("schedule", "minimum_learning_rate", "decay_fraction"),
    }
    same = "--data_parallel_shard 4 --microbatches 2 --optimizer_kernels foreach --activation_checkpointing full"
    assert parse([*begin, *same.split()]).settings() == settings
    for other in ("--precision bf16", "--model resnet"):
        assert parse([*begin, *other.split()]).settings() != settings


@dataclass(frozen=True, kw_only=True)
class OwnConfig(DigitsCnnConfig):
    kernel: tuple[int, int] = (3, 3)
    vocabulary: Path = Path("words.txt")


def test_settings_are_those_that_a_checkpoint_gives_back(data_dir):
    config = replace(parse(["--data_dir", str(data_dir), "--output_dir", "/o"]), model=OwnConfig())
    settings = config.settings()
    assert (settings["kernel"], settings["vocabulary"]) == ([3, 3], "words.txt")
    assert json.loads(json.dumps(settings)) == settings


def test_a_named_data_set_brings_its_own_arguments_and_is_part_of_a_runs_identity(tmp_path):
    samples.prepare_tokens(tmp_path)
    begin = ["--data_dir", str(tmp_path), "--output_dir", "/o", "--dataset", "tokens", "--model", "gpt"]
    config = parse([*begin, "--data_workers", "3", "--batch_size=8"])
    assert config.data == TokensConfig(data_dir=tmp_path, batch_size=8, data_workers=3)
    settings = config.settings()
    assert settings["dataset"] == "tokens"
    assert parse([*begin, "--batch_size=8"]).settings() == settings, "readers do not change what is read"
    token_files.describe(tmp_path, dtype="uint16", vocabulary=300)
    assert config.settings() != settings


def test_help_explains_every_argument(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit_:
        parse(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for argument in ("--data_dir", "--keep_latest_k", "--metrics_port", "--gradient_clip_norm", "--max_batch_size"):
        assert argument in text
    assert "Scratch folder of this worker" in text
