"""The previews that tests/cloud/record_reviews.py recorded, as the engine wrote them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "previews"
RUNNING = FOLDER / "running-work.json"
"""What ran in the cluster when they were recorded, as kubectl lists it."""
NAMES = ("resize-a-gpu-pool", "change-an-image", "delete-a-volume", "swap-an-instance-type", "add-a-queue")


def preview_file(name: str) -> Path:
    """Return the file of one of NAMES."""
    return FOLDER / f"{name}.json"
