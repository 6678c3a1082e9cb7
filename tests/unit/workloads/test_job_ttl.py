"""How long the pods of a finished job stay: said on its object, and never a reason to run it again."""

from __future__ import annotations

import dataclasses

import pytest

from infra.errors import RefusalError
from infra.job_cleanup import TTL_LABEL
from infra.offers import NO_OFFERS, PlatformOffers
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform
from workloads.batch import BatchJob, BatchJobArgs

CLEANS_UP = PlatformOffers(clean_up=True)


def _job(offers: PlatformOffers = CLEANS_UP, *, preview: bool = False, **changes: object):
    args = BatchJobArgs(command=("true",), **changes)

    def program() -> None:
        BatchJob("data", dataclasses.replace(plain_platform(), offers=offers), args)

    return record(program, preview=preview).one("data", "Job").inputs


def test_the_job_object_says_it():
    assert _job(ttl_seconds_after_finished=3600)["metadata"]["labels"][TTL_LABEL] == "3600"
    assert _job(ttl_seconds_after_finished=0)["metadata"]["labels"][TTL_LABEL] == "0"
    assert TTL_LABEL not in _job()["metadata"]["labels"]


def test_a_change_of_it_runs_nothing_again():
    never, hour, day = _job(), _job(ttl_seconds_after_finished=3600), _job(ttl_seconds_after_finished=86400)
    assert never["metadata"]["name"] == hour["metadata"]["name"] == day["metadata"]["name"]
    assert never["spec"] == hour["spec"] == day["spec"]


def test_volcano_is_never_asked_to_delete_the_job_itself():
    """The stack would miss it at the next refresh and create it, and the job would run, once more."""
    assert "ttlSecondsAfterFinished" not in _job(ttl_seconds_after_finished=3600)["spec"]


@each_row("seconds", [-1, 10 * 365 * 86400 + 1])
def test_a_time_that_cannot_be_is_refused(seconds):
    with pytest.raises(RefusalError, match=f"ttl_seconds_after_finished = {seconds}: must be 0 to"):
        BatchJobArgs(command=("true",), ttl_seconds_after_finished=seconds)


@each_row("preview", [True, False])
def test_a_platform_that_does_not_clean_up_refuses_it_and_names_the_setting(preview):
    with pytest.raises(RefusalError, match=r"ttl_seconds_after_finished = 60: .*Fix: set athanor:clean_up\.enabled"):
        _job(NO_OFFERS, preview=preview, ttl_seconds_after_finished=60)
    assert _job(NO_OFFERS, preview=preview)
