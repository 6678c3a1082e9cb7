"""The example that every environment can run: train a model of handwritten digits in several pods, export, serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from workloads.compression import Compression
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.pods import DATA_PATH, OUTPUT_PATH
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.volcano_job import RANK_METRICS_PORT

if TYPE_CHECKING:
    from infra.platform import Platform
    from infra.settings.digits import DigitsSettings

MODEL = "digits"


@dataclass(frozen=True, kw_only=True)
class DigitsWorkloads:
    """The declared job and service."""

    training: PyTorchJob
    service: TorchScriptService


def training_program(settings: DigitsSettings) -> tuple[str, ...]:
    """Return the program that torchrun runs in each training pod."""
    flags = {
        "data_dir": DATA_PATH,
        "output_dir": OUTPUT_PATH,
        "work_dir": "/tmp/work",  # noqa: S108 - inside the container
        "log_dir": f"{OUTPUT_PATH}/$(ATHANOR_JOB)/logs",
        "num_gpu": str(settings.gpus_per_worker),
        "run_name": "$(ATHANOR_JOB)",
        "model_name": MODEL,
        "metrics_port": str(RANK_METRICS_PORT),
        "epochs": str(settings.epochs),
        "batch_size": str(settings.batch_size),
        "width": str(settings.width),
        "seed": str(settings.seed),
    }
    words = (f"--{name}={value}" for name, value in flags.items())
    return ("-m", "trainer.train", *words, *_compression_arguments(settings))


def _compression_arguments(settings: DigitsSettings) -> tuple[str, ...]:
    asked = settings.compression
    return Compression(**asked.model_dump()).arguments if asked.variants else ()


def declare_digits(platform: Platform, settings: DigitsSettings) -> DigitsWorkloads | None:
    """Declare the training job and the service of the model it exports; nothing if the settings turn them off."""
    if not settings.enabled:
        return None
    training = PyTorchJob(
        "digits-training",
        platform,
        PyTorchJobArgs(
            program=training_program(settings),
            prepare=("python3", "-m", "trainer.prepare_data", f"--data_dir={DATA_PATH}"),
            workers=settings.workers,
            pool=settings.pool,
            resources=Resources(
                cpu=settings.cpus_per_worker,
                memory=None if settings.gpus_per_worker else "2Gi",
                gpus=settings.gpus_per_worker,
            ),
        ),
    )
    serving = TorchScriptServiceArgs(
        model=MODEL, variant=settings.variant, replicas=settings.replicas, resources=Resources(cpu="250m")
    )
    service = TorchScriptService(MODEL, platform, serving)
    return DigitsWorkloads(training=training, service=service)


def export_digits(workloads: DigitsWorkloads | None) -> None:
    """Export where to find the example, if it is declared."""
    if workloads is not None:
        pulumi.export("digits_training_job", workloads.training.job_name)
        pulumi.export("digits_service_url", workloads.service.url)
