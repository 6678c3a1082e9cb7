"""What a run's job says of its time and its GPUs."""

from __future__ import annotations

from datetime import UTC, datetime

from athanor.runs.listing import Listed, Run, describe, table

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _job(*conditions: tuple[str, str], replicas: int = 2, gpus: str = "4") -> dict:
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}
    stated = [{"status": phase, "lastTransitionTime": f"2026-01-01T{time}Z"} for phase, time in conditions]
    state = {"phase": conditions[-1][0], "lastTransitionTime": stated[-1]["lastTransitionTime"]} if conditions else {}
    return {
        "metadata": {"name": "train-1", "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {"tasks": [{"replicas": replicas, "template": {"spec": spec}}]},
        "status": {"state": state, "conditions": stated},
    }


def test_only_the_time_in_which_pods_ran_counts():
    conditions = [
        ("Pending", "10:00:01"), ("Running", "10:05:00"), ("Running", "10:06:00"), ("Restarting", "10:35:00"),
        ("Pending", "10:36:00"), ("Running", "11:00:00"), ("Aborting", "11:29:00"), ("Aborted", "11:30:00"),
    ]  # fmt: skip
    run = describe("train", _job(*conditions), NOW)
    assert (run.phase, run.waited_seconds, run.ran_seconds) == ("Aborted", 300, 59 * 60)
    assert (run.gpus, run.gpu_hours) == (8, 7.87)


def test_what_goes_on_is_counted_until_now():
    assert describe("train", _job(("Pending", "10:00:01"), ("Running", "11:30:00")), NOW).ran_seconds == 1800
    waiting = describe("train", _job(("Pending", "10:00:01")), NOW)
    assert (waiting.waited_seconds, waiting.ran_seconds, waiting.gpu_hours) == (7200, 0, 0.0)
    assert describe("train", _job(), NOW).phase == "Pending"


def test_an_elastic_job_took_its_gpu_hours_at_most():
    job = _job(("Running", "11:00:00"))
    job["spec"]["minAvailable"] = 2
    assert not describe("train", job, NOW).may_be_less
    job["spec"]["minAvailable"] = 1
    run = describe("train", job, NOW)
    assert (run.gpu_hours, run.may_be_less) == (8.0, True)
    cost = (80.0, 80.0)
    listed = Listed(run=run, by=None, arguments={}, cost_cny=cost, step=None, latest={})
    assert {"≤ 8.00", "≤ 80.00"} <= {cell.strip() for cell in table([listed])[1].split("  ")}


def test_a_job_that_never_ran_waited_until_its_end():
    assert describe("train", _job(("Pending", "10:00:01"), ("Failed", "10:10:00")), NOW).waited_seconds == 600


def _listed(run: Run, **known: object) -> Listed:
    nothing = {"by": None, "arguments": {}, "cost_cny": None, "step": None, "latest": {}}
    return Listed(run=run, **{**nothing, **known})


def test_the_table_has_a_column_for_each_and_says_what_is_not_known():
    run = describe("train", _job(("Running", "11:59:00")), NOW)
    arguments = {"program": "train.py --lr 0.1", "source": "sha256 2b50b04353dd"}
    known = _listed(
        run, by="ada", arguments=arguments, cost_cny=(1.5, 2.0), step=3, latest={"accuracy": 0.9, "loss": 0.25}
    )
    heading, first, second = table([known, _listed(Run(run="gone", phase="gone"))])
    assert heading.split() == [
        "RUN", "PHASE", "BY", "CREATED", "WAITED", "RAN", "GPU-HOURS", "CNY", "LOSS", "CODE", "COMMAND"
    ]  # fmt: skip
    assert first.split() == [
        "train", "Running", "ada", "2026-01-01T10:00:00Z", "1h", "59m", "1m", "0s", "0.13", "1.50", "to", "2.00",
        "0.25", "2b50b04353dd", "train.py", "--lr", "0.1",
    ]  # fmt: skip
    assert second.split() == ["gone", "gone", *"---------"]
    assert first.index("Running") == second.index("gone", 5)


def test_a_run_elsewhere_is_shown_with_its_place():
    listed = _listed(Run(run="lr", phase="elsewhere"), server="10.0.0.2:6443", namespace="team")
    assert "lr   elsewhere (10.0.0.2:6443/team)  -" in table([listed])[1]
    assert (listed.to_json()["server"], listed.to_json()["namespace"]) == ("10.0.0.2:6443", "team")


def test_a_command_cannot_write_to_the_terminal_and_is_cut_at_its_edge():
    arguments = {"command": "sh '\x1b]0;title\x07e \u202e'\n" + "x " * 300}
    _, line = table([_listed(Run(run="a", phase="Running"), arguments=arguments)], width=90)
    assert (len(line), line[-1]) == (90, "…")
    assert "\x1b" not in line
    assert "\\u202e" in line
