"""Every program of trainer/ reads its arguments in the same way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from trainer.common import command_line
from trainer.helpers.hardware import HardwareConfig
from trainer.helpers.job_cleanup import CleanUpConfig
from trainer.network_benchmark.config import NetworkBenchmarkConfig
from trainer.network_benchmark.report import ReportConfig
from trainer.prepare_data import PrepareDataConfig
from trainer.pytorch.config import TrainConfig, with_dataset
from trainer.pytorch.data.describe_tokens import DescribeTokensConfig
from trainer.rendezvous import RendezvousConfig
from trainer.serve.config import ServeConfig
from trainer.source.config import SourceConfig
from trainer.tf.config import ParameterServerConfig, RunConfig
from trainer.tf.prepare_data import PrepareDataConfig as TensorFlowDataConfig
from trainer.wait_for_hosts import WaitConfig

REPOSITORY = Path(__file__).resolve().parents[4]
RUN = ("--data_dir=d", "--output_dir=o")
DIGITS = with_dataset(TrainConfig, (), "trainer.train")
PROGRAMS = [
    (DIGITS, (*RUN, "--num_gpu=0", "--work_dir=w", "--log_dir=l")),
    (RunConfig, (*RUN, "--num_gpu=0", "--work_dir=w", "--log_dir=l")),
    (ParameterServerConfig, (*RUN, "--mode=sync")),
    (PrepareDataConfig, ("--data_dir=d",)),
    (DescribeTokensConfig, ("--data_dir=d", "--vocabulary=300")),
    (TensorFlowDataConfig, ("--data_dir=d",)),
    (NetworkBenchmarkConfig, ("--output_dir=o", "--network=shared-eni")),
    (ReportConfig, ("--output_dir=o",)),
    (ServeConfig, ("--model_repository=r", "--model_name=m")),
    (SourceConfig, ("--repository=https://example.com/a", "--destination=d", "--branch=main")),
    (WaitConfig, ("a:1", "b:2", "--timeout_seconds=3")),
    (RendezvousConfig, ("--port=29400",)),
    (HardwareConfig, ("--busy_seconds=1",)),
    (CleanUpConfig, ("--namespace=n", "--ttl_label=l")),
]


@each_row(("kind", "words"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_program_takes_underscores_and_hyphens_and_refuses_the_rest(kind, words, capsys):
    hyphens = [word.partition("=")[0].replace("_", "-") + "".join(word.partition("=")[1:]) for word in words]
    assert command_line.parse(kind, "trainer.x", words) == command_line.parse(kind, "trainer.x", hyphens)
    with pytest.raises(SystemExit) as caught:
        command_line.parse(kind, "trainer.x", [*words, "--no_such_flag=1"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "no_such_flag" in said
    assert "trainer.x" in said


def test_a_wrong_value_is_refused_with_its_limit(capsys):
    with pytest.raises(SystemExit) as caught:
        command_line.parse(DIGITS, "trainer.train", [*RUN, "--epochs=0"])
    assert caught.value.code == 2
    assert "epochs=0: must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [PrepareDataConfig, DIGITS])  # less and more than is written at once
def test_help_that_nobody_reads_to_its_end_is_not_an_error(kind, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        with pytest.raises(SystemExit) as ended:
            command_line.parse(kind, "trainer.program", ["--help"])
        monkeypatch.undo()  # and what is left is written nowhere
    assert ended.value.code == 141


def test_no_program_parses_its_arguments_in_another_way():
    # The trainer reads which model is meant before it knows all arguments. Two run with the standard library alone.
    alone = {"trainer/image/install.py", "trainer/pod_modules/athanor_heartbeat.py"}
    allowed = {"trainer/common/command_line.py", "trainer/pytorch/config.py", *alone}
    parsing = set()
    for file in (REPOSITORY / "trainer").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import) and {alias.name for alias in node.names} & {"argparse", "tyro", "getopt"}:
                parsing.add(file.relative_to(REPOSITORY).as_posix())
    assert parsing == allowed


def test_small_programs_start_without_the_frameworks():
    modules = "trainer.wait_for_hosts, trainer.helpers.hardware, trainer.helpers.job_cleanup, trainer.source.__main__"
    code = f"import sys, {modules}; sys.exit(bool({{'torch', 'numpy', 'tensorflow'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0
