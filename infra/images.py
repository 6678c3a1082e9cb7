"""Which container images the platform uses, by name and tag. The one home of every image reference."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from infra.errors import RefusalError
from infra.registry import Mirror
from infra.versions import (
    ALERTMANAGER,
    DCGM_EXPORTER,
    GRAFANA,
    KUBE_STATE_METRICS,
    NODE_EXPORTER,
    NVIDIA_DEVICE_PLUGIN,
    PROMETHEUS,
    PROMETHEUS_OPERATOR,
    TRITON,
    VICTORIA_LOGS,
    VOLCANO,
)

if TYPE_CHECKING:
    from infra.settings.images import ImageSettings
    from infra.settings.stack import Settings

TrainerVariant = Literal["cpu", "gpu"]
TrainerFramework = Literal["pytorch", "tensorflow"]
"""`pytorch` runs PyTorch and MPI jobs and the service, `tensorflow` TensorFlow jobs."""

REPOSITORY = Path(__file__).resolve().parent.parent
TRAINER_REPOSITORIES: dict[TrainerFramework, str] = {
    "pytorch": "localhost/athanor/trainer",
    "tensorflow": "localhost/athanor/trainer-tensorflow",
}
_NOT_SHIPPED = ("__pycache__", ".pyc", ".md")
_OF_THE_OTHER: dict[TrainerFramework, tuple[str, ...]] = {
    "pytorch": ("tf/", "requirements-tensorflow."),
    "tensorflow": ("requirements.",),
}
"""What names of files in trainer/ begin with that an image has nothing of: a change there must replace no job of it."""


def trainer_sources(repository: Path, framework: TrainerFramework) -> dict[str, Path]:
    """Return the files that an image is built from, by their names below trainer/, in the names' order."""
    sources = repository / "trainer"
    found = {path.relative_to(sources).as_posix(): path for path in sources.rglob("*") if path.is_file()}
    others = _OF_THE_OTHER[framework]
    return {
        name: found[name]
        for name in sorted(found)
        if not name.startswith(others) and not any(mark in name for mark in _NOT_SHIPPED)
    }


def trainer_content_tag(repository: Path, variant: TrainerVariant, framework: TrainerFramework = "pytorch") -> str:
    """Return an image's tag: 16 hex digits of SHA-256 over variant, framework and all that the image is built from.

    The same sources give the same tag on every machine: names and contents count, times and compiled files do not.
    """
    digest = hashlib.sha256(f"variant={variant}\nframework={framework}\n".encode())
    for name, file in trainer_sources(repository, framework).items():
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


VOLCANO_SCHEDULER_IMAGE = f"docker.io/volcanosh/vc-scheduler:v{VOLCANO}"
VOLCANO_CONTROLLERS_IMAGE = f"docker.io/volcanosh/vc-controller-manager:v{VOLCANO}"
DEVICE_PLUGIN_IMAGE = f"nvcr.io/nvidia/k8s-device-plugin:v{NVIDIA_DEVICE_PLUGIN}"
DCGM_EXPORTER_IMAGE = f"nvcr.io/nvidia/k8s/dcgm-exporter:{DCGM_EXPORTER}-distroless"
PROMETHEUS_OPERATOR_IMAGE = f"quay.io/prometheus-operator/prometheus-operator:v{PROMETHEUS_OPERATOR}"
CONFIG_RELOADER_IMAGE = f"quay.io/prometheus-operator/prometheus-config-reloader:v{PROMETHEUS_OPERATOR}"
PROMETHEUS_IMAGE = f"quay.io/prometheus/prometheus:v{PROMETHEUS}"
ALERTMANAGER_IMAGE = f"quay.io/prometheus/alertmanager:v{ALERTMANAGER}"
KUBE_STATE_METRICS_IMAGE = f"registry.k8s.io/kube-state-metrics/kube-state-metrics:v{KUBE_STATE_METRICS}"
NODE_EXPORTER_IMAGE = f"quay.io/prometheus/node-exporter:v{NODE_EXPORTER}"
GRAFANA_IMAGE = f"docker.io/grafana/grafana:{GRAFANA}"
VICTORIA_LOGS_IMAGE = f"docker.io/victoriametrics/victoria-logs:v{VICTORIA_LOGS}"
VLAGENT_IMAGE = f"docker.io/victoriametrics/vlagent:v{VICTORIA_LOGS}"
MONITORING_IMAGES = (
    PROMETHEUS_OPERATOR_IMAGE,
    CONFIG_RELOADER_IMAGE,
    PROMETHEUS_IMAGE,
    ALERTMANAGER_IMAGE,
    KUBE_STATE_METRICS_IMAGE,
    NODE_EXPORTER_IMAGE,
    GRAFANA_IMAGE,
    VICTORIA_LOGS_IMAGE,
    VLAGENT_IMAGE,
)
PLATFORM_IMAGES = (
    VOLCANO_SCHEDULER_IMAGE,
    VOLCANO_CONTROLLERS_IMAGE,
    DEVICE_PLUGIN_IMAGE,
    DCGM_EXPORTER_IMAGE,
    *MONITORING_IMAGES,
)
"""Every image of the platform's own parts: what a mirror must hold beside the trainer's."""
TRITON_IMAGE = f"nvcr.io/nvidia/tritonserver:{TRITON}-py3"
"""Image of services with `runtime=Triton()`."""


def trainer_image(override: str | None, variant: TrainerVariant) -> str:
    """Return the trainer image's reference: the given one, else the one that `make up` builds from these sources."""
    return override or f"{TRAINER_REPOSITORIES['pytorch']}:{trainer_content_tag(REPOSITORY, variant)}"


def tensorflow_image(override: str | None, variant: TrainerVariant) -> str:
    """Return the image of TensorFlow jobs: the given one, else the one that `make image` builds from these sources."""
    tag = trainer_content_tag(REPOSITORY, variant, "tensorflow")
    return override or f"{TRAINER_REPOSITORIES['tensorflow']}:{tag}"


def mirror(settings: ImageSettings) -> Mirror | None:
    """Return where the settings have all images pulled from; None: each from its own registry."""
    return Mirror(registry=settings.registry, flatten=settings.flatten) if settings.registry else None


def platform_trainer_image(settings: Settings) -> str:
    """Return the trainer image as the stack's nodes pull it.

    Raises:
        RefusalError: nodes on Alibaba Cloud could pull it from nowhere.
    """
    images = settings.images
    place = mirror(images)
    if settings.alicloud and not images.trainer and not place:
        raise RefusalError(
            "athanor:images.trainer",
            None,
            "nodes on Alibaba Cloud cannot pull the image that this machine built",
            "push it and name it here, or name the registry that it was pushed to under images.registry",
        )
    reference = trainer_image(images.trainer, images.trainer_variant)
    return place.rewrite(reference) if place else reference


def platform_tensorflow_image(settings: Settings) -> str:
    """Return the image of TensorFlow jobs as the stack's nodes pull it; empty where they could pull it from nowhere.

    That refuses nothing: only a TensorFlow job without an image of its own needs it.
    """
    images = settings.images
    place = mirror(images)
    if settings.alicloud and not images.tensorflow and not place:
        return ""
    reference = tensorflow_image(images.tensorflow, images.trainer_variant)
    return place.rewrite(reference) if place else reference


def needed_images(settings: ImageSettings, *, tensorflow: bool = False, triton: bool = False) -> dict[str, str]:
    """Return every image that a stack needs: where its nodes pull it from, by where it comes from.

    Copy each key to its value to fill a mirror; `make up` builds what is on localhost, and `make image` the image of
    TensorFlow jobs, which is listed if the stack has any (`tensorflow`), as is Triton's (`triton`).
    """
    place = mirror(settings)
    sources = [*PLATFORM_IMAGES, trainer_image(settings.trainer, settings.trainer_variant)]
    if tensorflow:
        sources.append(tensorflow_image(settings.tensorflow, settings.trainer_variant))
    if triton:
        sources.append(TRITON_IMAGE)
    return {source: place.rewrite(source) if place else source for source in sources}
