"""Every alert fires, does not fire, and resolves; recordings give what their names say."""

import functools

import pytest

from infra.monitoring.rules import areas
from tests.tables import each_row
from tests.unit.infra.monitoring.rules import (
    gateway_cases,
    gpu_cases,
    node_cases,
    pod_cases,
    price_cases,
    queue_cases,
    serving_cases,
    storage_cases,
    target_cases,
    training_cases,
)
from tests.unit.infra.monitoring.rules.promtool import THRESHOLDS, AlertCase, alert_named, name_of, run_cases

CASES = {
    "pods": pod_cases.CASES,
    "gpu": gpu_cases.CASES,
    "training": training_cases.CASES,
    "queues": queue_cases.CASES,
    "storage": storage_cases.CASES,
    "serving": serving_cases.CASES,
    "gateway": gateway_cases.CASES,
    "nodes": node_cases.CASES,
    "targets": target_cases.CASES,
    "prices": price_cases.CASES,
}
EACH = [pytest.param(area, case, id=name_of(case)) for area, cases in CASES.items() for case in cases]
ALERTS = [(area.name, alert) for area in areas(THRESHOLDS) for alert in area.alerts]


@pytest.fixture(scope="module")
def outcome_of(promtool, tmp_path_factory):
    """Return a function that runs an area's cases, once."""

    @functools.cache
    def outcome(area):
        return run_cases(promtool, tmp_path_factory.mktemp(area), area, CASES[area])

    return outcome


@pytest.mark.built
@each_row(("area", "case"), EACH)
def test_promtool_finds_what_the_case_says(outcome_of, area, case):
    failures = outcome_of(area)
    assert name_of(case) not in failures, failures[name_of(case)]


def test_names_tell_the_cases_apart():
    names = [name_of(case) for cases in CASES.values() for case in cases]
    assert len(names) == len(set(names))


@each_row(("area", "alert"), ALERTS, ids=[alert.name for _, alert in ALERTS])
def test_every_alert_is_seen_to_fire_to_stay_silent_and_to_resolve(area, alert):
    cases = [case for case in CASES[area] if isinstance(case, AlertCase) and case.alert == alert.name]
    assert any(case.fires and case.quiet for case in cases), "no case in which it fires and is silent"
    assert any(_seconds(case.quiet[-1]) > max(map(_seconds, case.fires)) for case in cases if case.fires and case.quiet)


@each_row(("area", "alert"), ALERTS, ids=[alert.name for _, alert in ALERTS])
def test_messages_use_labels_that_the_alert_has(area, alert):
    for case in CASES[area]:
        if not isinstance(case, AlertCase) or case.alert != alert.name:
            continue
        for labels in (labels for firing in case.fires.values() for labels in firing):
            words = (alert.summary + alert.description).split("$labels.")[1:]
            used = {word.split(" ")[0].split("}")[0] for word in words}
            assert used <= labels.keys() | {"severity", *alert.labels}


def _seconds(time):
    return float(time[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[time[-1]]


@pytest.mark.built
def test_thresholds_decide_when_alerts_fire(promtool, tmp_path):
    limits = THRESHOLDS.model_copy(
        update={"gpu": THRESHOLDS.gpu.model_copy(update={"temperature_celsius": 50, "temperature_for_seconds": 60})}
    )
    assert alert_named("GpuTooHot", limits).expr != alert_named("GpuTooHot").expr
    case = gpu_cases.WARM
    assert not run_cases(promtool, tmp_path, "gpu", [case])
    assert name_of(case) in run_cases(promtool, tmp_path, "gpu", [case], limits)
