"""Names of programs in manifests are a contract: a team's code may be older or newer than the platform's image."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
KEPT = {"trainer.train", "trainer.prepare_data", "trainer.wait_for_hosts", "trainer.rendezvous", "trainer.source"}
"""Programs of jobs; `trainer.network_benchmark` is in no golden file."""
OF_THE_PLATFORM = {"trainer.helpers.job_cleanup", "trainer.helpers.gateway_certificate", "trainer.activator"}
"""Only the stack that owns the platform, and with it the image, runs these."""


def programs() -> set[str]:
    text = "".join(file.read_text() for file in GOLDEN.rglob("*.*"))
    return set(re.findall(r"^(?: *- |\+ .*: \")(trainer(?:\.\w+)+)\"?$", text, re.MULTILINE))


def test_manifests_start_the_programs_that_images_of_every_age_have():
    assert programs() == KEPT | {"trainer.serve"} | OF_THE_PLATFORM


def test_every_program_in_a_manifest_exists():
    assert [name for name in programs() if importlib.util.find_spec(name) is None] == []
