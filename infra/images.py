"""The table of all container images that the platform uses, by name and tag."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from infra.cuda import PYTORCH_IMAGE_CUDA, TENSORFLOW_IMAGE_CUDA, ImageCuda
from infra.errors import RefusalError
from infra.registry import Mirror
from infra.versions import (
    ALERTMANAGER,
    DCGM_EXPORTER,
    ENVOY,
    ENVOY_GATEWAY,
    GRAFANA,
    KUBE_STATE_METRICS,
    NODE_EXPORTER,
    NVIDIA_DEVICE_PLUGIN,
    PROMETHEUS,
    PROMETHEUS_ADAPTER,
    PROMETHEUS_OPERATOR,
    TRITON,
    VICTORIA_LOGS,
    VOLCANO,
)

if TYPE_CHECKING:
    from infra.settings.images import ImageSettings, TrainerVariant
    from infra.settings.stack import Settings

TrainerFramework = Literal["pytorch", "tensorflow"]
"""Framework whose packages an image has: one base image each."""
TrainerImage = Literal["training", "serving", "tensorflow"]
"""`training` runs PyTorch and MPI jobs and the platform's own programs, `serving` services, `tensorflow` its jobs."""

REPOSITORY = Path(__file__).resolve().parent.parent
TRAINER_REPOSITORIES: dict[TrainerImage, str] = {
    "training": "localhost/athanor/trainer",
    "serving": "localhost/athanor/serving",
    "tensorflow": "localhost/athanor/trainer-tensorflow",
}
TRAINER_FRAMEWORKS: dict[TrainerImage, TrainerFramework] = {
    "training": "pytorch",
    "serving": "pytorch",
    "tensorflow": "tensorflow",
}
_NOT_SHIPPED = ("__pycache__", ".pyc", ".md")
_IN_ALL_IMAGES = ("Dockerfile", "__init__.py", "image/", "common/")
_CONTENTS: dict[TrainerImage, tuple[str, ...]] = {
    "training": (
        *(
            "requirements.",
            "requirements-training.",
            "train.py",
            "export.py",
            "export_weights.py",
            "dry_run.py",
            "heartbeat.py",
            "prepare_data.py",
            "mpi_example.py",
            "wait_for_hosts.py",
            "rendezvous.py",
            # the others get into pods in a ConfigMap
            *("pod_modules/__init__.py", "pod_modules/athanor_heartbeat.py", "pod_modules/athanor_gpu_peaks.py"),
        ),
        *("pytorch/", "training/", "model_repository/", "network_benchmark/", "source/", "helpers/", "activator/"),
        "hardware_check/",
    ),
    "serving": ("requirements.", "serve/", "model_repository/"),
    "tensorflow": ("requirements-tensorflow.", "tf/", "training/"),
}
"""Prefixes of the files below trainer/ that an image contains. A job is replaced when its image's tag changes, so an
image contains what it runs and nothing else."""


def trainer_sources(repository: Path, image: TrainerImage) -> dict[str, Path]:
    """Return the files that an image is built from, by their names below trainer/, in the names' order."""
    sources = repository / "trainer"
    files = {path.relative_to(sources).as_posix(): path for path in sources.rglob("*") if path.is_file()}
    prefixes = (*_IN_ALL_IMAGES, *_CONTENTS[image])
    return {
        name: files[name]
        for name in sorted(files)
        if name.startswith(prefixes) and not any(mark in name for mark in _NOT_SHIPPED)
    }


def trainer_content_tag(repository: Path, variant: TrainerVariant, image: TrainerImage) -> str:
    """Return an image's tag: 16 hex digits of SHA-256 over variant, image and all files that it is built from.

    The same sources give the same tag on every machine: names and contents count, times and compiled files do not.
    """
    digest = hashlib.sha256(f"variant={variant}\nimage={image}\n".encode())
    for name, file in trainer_sources(repository, image).items():
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def local_image(image: TrainerImage, variant: TrainerVariant) -> str:
    """Return the reference of an image that `make up` or `make image` builds from these sources."""
    return f"{TRAINER_REPOSITORIES[image]}:{trainer_content_tag(REPOSITORY, variant, image)}"


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
METRICS_ADAPTER_IMAGE = f"registry.k8s.io/prometheus-adapter/prometheus-adapter:v{PROMETHEUS_ADAPTER}"
GRAFANA_IMAGE = f"docker.io/grafana/grafana:{GRAFANA}"
VICTORIA_LOGS_IMAGE = f"docker.io/victoriametrics/victoria-logs:v{VICTORIA_LOGS}"
VLAGENT_IMAGE = f"docker.io/victoriametrics/vlagent:v{VICTORIA_LOGS}"
ENVOY_GATEWAY_IMAGE = f"docker.io/envoyproxy/gateway:v{ENVOY_GATEWAY}"
ENVOY_IMAGE = f"docker.io/envoyproxy/envoy:distroless-v{ENVOY}"
GATEWAY_IMAGES = (ENVOY_GATEWAY_IMAGE, ENVOY_IMAGE)
MONITORING_IMAGES = (
    PROMETHEUS_OPERATOR_IMAGE,
    CONFIG_RELOADER_IMAGE,
    PROMETHEUS_IMAGE,
    ALERTMANAGER_IMAGE,
    KUBE_STATE_METRICS_IMAGE,
    NODE_EXPORTER_IMAGE,
    METRICS_ADAPTER_IMAGE,
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
    *GATEWAY_IMAGES,
)
"""Every image of the platform's own parts: what a mirror must hold in addition to the trainer's."""
PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
COREDNS_IMAGE = "registry.k8s.io/coredns/coredns:v1.14.1"
"""The local cluster's own, which a managed cluster brings itself."""
TRITON_IMAGE = f"nvcr.io/nvidia/tritonserver:{TRITON}-py3"
"""Image of services with `runtime=Triton()`."""


def trainer_image(settings: ImageSettings) -> str:
    """Return the image of PyTorch and MPI jobs: the given one, else the locally built one."""
    return settings.trainer or local_image("training", settings.trainer_variant)


def serving_image(settings: ImageSettings) -> str:
    """Return the image of services: the given one, else a given trainer image, else the locally built one."""
    return settings.serving or settings.trainer or local_image("serving", settings.trainer_variant)


def tensorflow_image(settings: ImageSettings) -> str:
    """Return the image of TensorFlow jobs: the given one, else the locally built one."""
    return settings.tensorflow or local_image("tensorflow", settings.trainer_variant)


def trainer_cuda(images: ImageSettings) -> ImageCuda | None:
    """Return the CUDA in the trainer image; None where it is the variant without, or one that nobody described."""
    return _cuda(images, images.trainer_cuda, PYTORCH_IMAGE_CUDA)


def tensorflow_cuda(images: ImageSettings) -> ImageCuda | None:
    """Return the CUDA in the image of TensorFlow jobs; None where it is the variant without."""
    return _cuda(images, images.tensorflow_cuda, TENSORFLOW_IMAGE_CUDA)


def _cuda(images: ImageSettings, described: str | None, own: ImageCuda) -> ImageCuda | None:
    if described:
        return ImageCuda(version=described)
    return own if images.trainer_variant == "gpu" else None


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
            "nodes on Alibaba Cloud cannot pull an image built on this machine",
            "push it and set its reference here, or set images.registry to the registry that it was pushed to",
        )
    reference = trainer_image(images)
    return place.rewrite(reference) if place else reference


def platform_serving_image(settings: Settings) -> str:
    """Return the image of services as the stack's nodes pull it.

    A stack whose nodes could pull it from nowhere is one that `platform_trainer_image` refuses.
    """
    place = mirror(settings.images)
    reference = serving_image(settings.images)
    return place.rewrite(reference) if place else reference


def platform_tensorflow_image(settings: Settings) -> str:
    """Return the image of TensorFlow jobs as the stack's nodes pull it; empty where they could pull it from nowhere.

    That refuses nothing: only a TensorFlow job without an image of its own needs it.
    """
    images = settings.images
    place = mirror(images)
    if settings.alicloud and not images.tensorflow and not place:
        return ""
    reference = tensorflow_image(images)
    return place.rewrite(reference) if place else reference


def needed_images(settings: ImageSettings, *, tensorflow: bool = False, triton: bool = False) -> dict[str, str]:
    """Return every image that a stack needs: where its nodes pull it from, by where it comes from.

    Copy each key to its value to fill a mirror; `make up` builds what is on localhost, and `make image` the image of
    TensorFlow jobs, which is listed if the stack has any (`tensorflow`), as is Triton's (`triton`).
    """
    place = mirror(settings)
    sources = [*PLATFORM_IMAGES, trainer_image(settings), serving_image(settings)]
    if tensorflow:
        sources.append(tensorflow_image(settings))
    if triton:
        sources.append(TRITON_IMAGE)
    return {source: place.rewrite(source) if place else source for source in sources}
