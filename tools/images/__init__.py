"""Container images: the trainer's, built from trainer/Dockerfile, and the platform's own; builds and loading."""

from tools.images.gateway_images import ensure_gateway_images
from tools.images.platform_images import ensure_platform_images, fetch_platform_images, pulled_images
from tools.images.trainer_image import ensure_trainer_images

__all__ = [
    "ensure_gateway_images",
    "ensure_platform_images",
    "ensure_trainer_images",
    "fetch_platform_images",
    "pulled_images",
]
