"""The pinned digests: of images that are in use, and how they are pulled."""

import re

from infra import images
from infra.image_digests import DIGESTS, by_digest
from tests.tables import each_row
from tools.images.platform_images import PLATFORM_IMAGES


def test_every_digest_is_of_an_image_in_use():
    """A new version has no digest of its own, and the old one's must not stay."""
    used = {*images.PLATFORM_IMAGES, *(image.reference for image in PLATFORM_IMAGES.values())}
    assert set(DIGESTS) <= used
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in DIGESTS.values())
    assert len(set(DIGESTS.values())) == len(DIGESTS)


@each_row(
    ("source", "pulled"),
    [
        ("quay.io/team/app:v1", "quay.io/team/app@sha256:0123"),
        ("mirror.example:5000/quay/team/app:v1", "mirror.example:5000/quay/team/app@sha256:0123"),
        ("redis:7", "docker.io/library/redis@sha256:0123"),
    ],
)
def test_an_image_is_pulled_by_its_digest_where_that_is_known(source, pulled):
    assert by_digest(source, "sha256:0123") == pulled
    assert by_digest(source, None) == source
