"""The estimate of a first run, with a probe whose result is given."""

import re

import pytest

from tests.tables import each_row
from tools.local_environment import cold_run
from tools.local_environment.cold_run import PROGRAMS_SECONDS, STEP_SECONDS, Forecast, Scale
from tools.local_environment.programs import CORE, GROUPS, MONITORING
from tools.time_left import TimeLeft

STEPS = list(STEP_SECONDS)
REFERENCE = Scale(alone=1.0, cores=cold_run.REFERENCE_CORES)


@pytest.fixture
def scale(monkeypatch):
    """Say how fast the machine is."""

    def be(measured: Scale) -> None:
        monkeypatch.setattr(cold_run, "measure", lambda: measured)

    return be


@pytest.fixture
def now(monkeypatch):
    """A clock that a test sets."""
    moment = [1000.0]
    monkeypatch.setattr(cold_run.time, "monotonic", lambda: moment[0])
    return moment


@each_row(
    ("machine", "fewest", "most", "slower"),
    [
        pytest.param(REFERENCE, 1, 1, 1, id="the reference machine takes what it took"),
        pytest.param(Scale(alone=1.0, cores=16), 0.26, 0.49, 1, id="more cores compile faster, and do no more"),
        pytest.param(Scale(alone=2.0, cores=2), 2, 2, 2, id="one half as fast takes twice as long"),
    ],
)
def test_times_follow_from_the_machine(machine, fewest, most, slower):
    assert fewest <= machine.compiling <= most
    assert machine.steps() == {step: slower * seconds for step, seconds in STEP_SECONDS.items()}


def test_the_probe_keeps_every_core_busy_and_gives_a_time(monkeypatch):
    monkeypatch.setattr(cold_run.os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(cold_run, "_PROBE", "pass")
    measured = cold_run.measure()
    assert measured.cores == 3
    assert measured.alone > 0


def said_minutes(report) -> list[int]:
    [first, last] = re.findall(r"about (\d+) min to a served prediction, (\d+) min to the end", report.text)[0]
    return [int(first), int(last)]


@pytest.mark.parametrize("slower", [1, 2])
def test_the_first_lines_say_how_long_and_what_to_do_meanwhile(report, scale, slower):
    scale(Scale(alone=float(slower), cores=cold_run.REFERENCE_CORES))
    Forecast.of(report.progress, STEPS, GROUPS)
    until_served = sum(STEP_SECONDS[step] for step in STEPS[STEPS.index("tools") : STEPS.index("monitoring")])
    assert said_minutes(report)[0] == round(slower * (PROGRAMS_SECONDS[CORE] + until_served) / 60)
    for phrase in ("`make up` continues", "docs/user.md", "docs/jobs.md"):
        assert phrase in report.text


def test_a_machine_that_has_all_programs_gets_no_message(report, monkeypatch):
    monkeypatch.setattr(cold_run, "measure", lambda: pytest.fail("there is nothing to measure for"))
    Forecast.of(report.progress, STEPS, [])
    assert report.text == ""


def test_where_only_the_last_programs_are_missing_the_rest_is_remembered(report, scale):
    scale(REFERENCE)
    Forecast.of(report.progress, ["platform", "monitoring"], [MONITORING])
    with report.progress.step("platform"):
        pass
    with report.progress.step("monitoring"):
        pass
    assert "served prediction" not in report.text
    assert re.search(r"▶ monitoring \(2/2, about \d:\d\d left\)", report.text)


def forecast() -> tuple[TimeLeft, Forecast]:
    outlook = TimeLeft(STEPS, STEP_SECONDS)
    return outlook, Forecast(outlook, {CORE: 400.0, MONITORING: 100.0})


def test_programs_that_come_faster_than_expected_bring_the_end_nearer(now):
    outlook, estimate = forecast()
    before = outlook.left(now[0])
    now[0] += 100
    estimate.on_share(CORE, 0.5)
    assert outlook.left(now[0]) < before - 100


def test_programs_that_come_slower_put_off_those_after_them_too(now):
    outlook, estimate = forecast()
    now[0] += 800
    estimate.on_share(CORE, 0.5)
    core_left = outlook.left(now[0], until="tools")
    assert core_left > 400
    later = PROGRAMS_SECONDS[MONITORING] / PROGRAMS_SECONDS[CORE] * (800 + core_left - STEP_SECONDS["tools"])
    all_of_it = core_left - STEP_SECONDS["tools"] + later + STEP_SECONDS["monitoring"]
    assert outlook.left(now[0]) == pytest.approx(all_of_it)


def test_a_group_that_is_there_is_waited_for_no_longer(now):
    outlook, estimate = forecast()
    now[0] += 10
    estimate.on_share(CORE, 1.0)
    estimate.on_share(MONITORING, 1.0)
    assert outlook.left(now[0]) == sum(STEP_SECONDS.values())


def test_the_packages_of_the_last_group_are_not_counted(now):
    outlook, estimate = forecast()
    estimate.on_share(CORE, 1.0)
    before = outlook.left(now[0])
    estimate.on_share(MONITORING, 0.1)
    assert outlook.left(now[0]) == before


def test_a_group_that_was_there_before_changes_nothing(now):
    outlook = TimeLeft(STEPS, STEP_SECONDS)
    estimate = Forecast(outlook, {MONITORING: 100.0})
    before = outlook.left(now[0])
    estimate.on_share(CORE, 1.0)
    assert outlook.left(now[0]) == before
