"""The pods of a job go when its time is over, and nothing else does."""

from __future__ import annotations

import http.client
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.trainer.helpers.fake_kubernetes_api import JOBS, PODS, status
from trainer.helpers.job_cleanup import main, parse

NOW = datetime(2031, 5, 4, 12, 0, tzinfo=UTC)
LABEL = "example.com/ttl"
ARGUMENTS = ("--namespace=athanor", f"--ttl_label={LABEL}")


def _job(api, name, *, phase="Completed", ended=3600, ttl="60", label=LABEL, pods=(), uid=None):
    """Add a job that ended so many seconds ago, and pods of these phases."""
    uid = uid or f"uid-of-{name}"
    since = (NOW - timedelta(seconds=ended)).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": name, "uid": uid, "labels": {label: ttl}}
    api.objects[JOBS][name] = {
        "metadata": metadata,
        "status": {"state": {"phase": phase, "lastTransitionTime": since}},
    }
    for index, pod_phase in enumerate(pods):
        _pod(api, f"{name}-worker-{index}", uid, pod_phase, job_name=name)


def _pod(api, name, owner, phase, job_name):
    api.objects[PODS][name] = {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": {"volcano.sh/job-name": job_name},
            "ownerReferences": [{"kind": "Job", "controller": True, "uid": owner}],
        },
        "status": {"phase": phase},
    }


def _left(api):
    return sorted(api.objects[PODS])


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
def test_the_ended_pods_of_a_finished_job_go_and_the_job_stays(api, phase, capsys):
    _job(api, "old", phase=phase, pods=("Succeeded", "Failed", "Running", "Pending", "Unknown"))
    assert main(ARGUMENTS) == 0
    assert _left(api) == ["old-worker-2", "old-worker-3", "old-worker-4"]
    assert set(api.objects[JOBS]) == {"old"}
    assert capsys.readouterr().out == "job_cleanup: old: finished 3600 s ago, 2 pods removed\n"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting", "Completing", "Aborting", "Aborted", ""])
def test_a_job_that_may_go_on_keeps_its_pods(api, phase):
    _job(api, "young", phase=phase, pods=("Succeeded", "Failed"))
    assert main(ARGUMENTS) == 0
    assert len(_left(api)) == 2


def test_a_job_without_any_state_yet_is_left_alone(api):
    _job(api, "new", pods=("Failed",))
    del api.objects[JOBS]["new"]["status"]
    assert main(ARGUMENTS) == 0
    assert len(_left(api)) == 1


@pytest.mark.parametrize(("ended", "left"), [(59, 1), (60, 0), (61, 0)])
def test_the_time_is_that_of_the_api_server(api, ended, left):
    """Its clock stands years from the one of this machine."""
    _job(api, "job", ended=ended, ttl="60", pods=("Succeeded",))
    assert main(ARGUMENTS) == 0
    assert len(_left(api)) == left


def test_zero_removes_at_once(api):
    _job(api, "job", ended=0, ttl="0", pods=("Succeeded",))
    assert main(ARGUMENTS) == 0
    assert _left(api) == []


def test_jobs_without_the_label_keep_their_pods(api):
    _job(api, "other", label="team", pods=("Succeeded",))
    assert main(ARGUMENTS) == 0
    assert len(_left(api)) == 1


def test_pods_of_an_earlier_job_of_the_same_name_are_somebody_elses(api):
    _job(api, "job", pods=("Succeeded",))
    _pod(api, "job-ps-0", "uid-of-another", "Succeeded", job_name="job")
    assert main(ARGUMENTS) == 0
    assert _left(api) == ["job-ps-0"]


def test_pods_of_no_volcano_job_are_never_looked_at(api):
    _job(api, "job", pods=("Succeeded",))
    api.objects[PODS]["job-worker-0"]["metadata"]["labels"] = {}
    assert main(ARGUMENTS) == 0
    assert len(_left(api)) == 1


def test_many_pods_and_jobs_come_page_by_page_over_one_connection(api):
    for index in range(7):
        _job(api, f"job-{index}", pods=("Succeeded",) * 5)
    api.page_limit = 3
    assert main(ARGUMENTS) == 0
    assert _left(api) == []
    assert sum("continue=" in url for _, url in api.requests) == 2 + 11
    assert api.connections == 1


def test_pages_of_a_forgotten_state_are_read_from_the_beginning(api):
    for index in range(4):
        _job(api, f"job-{index}", pods=("Succeeded",))
    api.page_limit = 3
    first_page = api.answer("GET", f"{JOBS}?labelSelector={LABEL}&limit=3", "", b"")
    api.answers["GET", JOBS] = [first_page, status(410, "The provided continue parameter is too old")]
    assert main(ARGUMENTS) == 0
    assert _left(api) == []


def test_gives_up_where_every_second_page_is_forgotten(api, capsys):
    _job(api, "job", pods=("Succeeded",))
    page = 200, {"metadata": {"continue": "1"}, "items": []}
    api.answers["GET", JOBS] = [page, status(410, "too old")] * 3
    assert main(ARGUMENTS) == 1
    assert "expired 3 times" in capsys.readouterr().err
    assert len(_left(api)) == 1


def test_a_pod_that_is_gone_already_is_not_a_failure(api, capsys):
    _job(api, "job", pods=("Succeeded", "Succeeded"))
    api.before_delete = lambda _: api.objects[PODS].pop("job-worker-0", None)
    assert main(ARGUMENTS) == 0
    assert "1 pods removed" in capsys.readouterr().out


def test_a_new_pod_under_the_name_of_a_listed_one_stays(api, capsys):
    _job(api, "job", pods=("Succeeded",))

    def replace(name):
        api.objects[PODS][name]["metadata"]["uid"] = "another"

    api.before_delete = replace
    assert main(ARGUMENTS) == 0
    assert _left(api) == ["job-worker-0"]
    assert "0 pods removed" in capsys.readouterr().out


def test_one_job_that_fails_does_not_stop_the_others(api, capsys):
    for name in ("a", "b", "c"):
        _job(api, name, pods=("Succeeded", "Succeeded"))
    api.answers["DELETE", f"{PODS}/a-worker-0"] = [status(403, "pods is forbidden")]
    api.objects[JOBS]["b"]["metadata"]["labels"][LABEL] = "soon"
    assert main(ARGUMENTS) == 1
    assert _left(api) == ["a-worker-0", "b-worker-0", "b-worker-1"]
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "job_cleanup: a: finished 3600 s ago, 1 pods removed",
        "job_cleanup: c: finished 3600 s ago, 2 pods removed",
    ]
    assert f"a: 1 of 2 pods could not be removed, such as by DELETE {PODS}/a-worker-0: 403 pods is" in said.err
    assert "b: its label says 'soon', which is not a number of seconds" in said.err


@pytest.mark.parametrize("ttl", ["99999999999999", "9" * 63])
def test_a_time_that_no_clock_reaches_keeps_its_own_pods_alone(api, ttl):
    _job(api, "a", ttl=ttl, pods=("Succeeded",))
    _job(api, "b", pods=("Succeeded",))
    assert main(ARGUMENTS) == 0
    assert _left(api) == ["a-worker-0"]


@pytest.mark.parametrize(
    ("ttl", "since"),
    [
        ("1_0", "2031-05-04T11:00:00Z"),
        ("", "2031-05-04T11:00:00Z"),
        ("1e3", "2031-05-04T11:00:00Z"),
        ("60", "2031-05-04T11:00:00"),
        ("60", "2031-05-04"),
        ("60", "yesterday"),
    ],
)
def test_nothing_that_a_job_says_stops_the_others(api, ttl, since, capsys):
    _job(api, "a", ttl=ttl, pods=("Succeeded",))
    api.objects[JOBS]["a"]["status"]["state"]["lastTransitionTime"] = since
    _job(api, "b", pods=("Succeeded",))
    assert main(ARGUMENTS) == 1
    assert _left(api) == ["a-worker-0"]
    assert capsys.readouterr().err.startswith("job_cleanup: a: ")


def test_a_job_that_does_not_say_when_it_finished_is_reported(api, capsys):
    _job(api, "job", pods=("Succeeded",))
    del api.objects[JOBS]["job"]["status"]["state"]["lastTransitionTime"]
    assert main(ARGUMENTS) == 1
    assert "job: it does not say when it finished" in capsys.readouterr().err
    assert len(_left(api)) == 1


def test_nothing_is_asked_about_pods_where_no_job_is_over(api):
    _job(api, "job", ended=1, pods=("Succeeded",))
    assert main(ARGUMENTS) == 0
    assert [url.partition("?")[0] for _, url in api.requests] == [JOBS]


def test_a_second_run_finds_nothing_to_do(api, capsys):
    _job(api, "job", pods=("Succeeded",))
    assert main(ARGUMENTS) == 0
    capsys.readouterr()
    assert main(ARGUMENTS) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("path", [JOBS, PODS])
def test_a_refused_list_is_reported_and_deletes_nothing(api, path, capsys):
    _job(api, "job", pods=("Succeeded",))
    api.answers["GET", path] = [status(403, "is forbidden: no RBAC policy matched")]
    assert main(ARGUMENTS) == 1
    assert f"GET {path}: 403 is forbidden" in capsys.readouterr().err
    assert len(_left(api)) == 1


def test_without_the_servers_time_nothing_is_deleted(api, capsys):
    _job(api, "job", pods=("Succeeded",))
    api.says_date = False
    assert main(ARGUMENTS) == 1
    assert "has no date" in capsys.readouterr().err
    assert len(_left(api)) == 1


def test_an_answer_that_breaks_off_costs_one_pod_of_this_run(api, monkeypatch, capsys):
    _job(api, "job", pods=("Succeeded", "Succeeded"))
    read = http.client.HTTPResponse.read
    broken = [f"{PODS}/job-worker-0"]

    def break_off(response):
        if api.requests[-1][1] in broken:
            broken.clear()
            raise http.client.IncompleteRead(b"{")
        return read(response)

    monkeypatch.setattr(http.client.HTTPResponse, "read", break_off)
    assert main(ARGUMENTS) == 1
    assert _left(api) == []
    assert "IncompleteRead" in capsys.readouterr().err
    assert api.connections == 2


def test_a_server_of_another_authority_is_not_spoken_to(api, account, tmp_path, capsys):
    other = tmp_path / "other.pem"
    options = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other"
    words = ["openssl", "req", *options.split(), "-keyout", str(tmp_path / "key.pem"), "-out", str(other)]
    subprocess.run(words, check=True, capture_output=True)
    (account / "ca.crt").write_text(other.read_text())
    assert main(ARGUMENTS) == 1
    assert "certificate verify failed" in capsys.readouterr().err
    assert api.requests == []


def test_outside_a_cluster_it_says_so(monkeypatch, capsys):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(ARGUMENTS) == 1
    assert "not a pod with a service account" in capsys.readouterr().err


@pytest.mark.usefixtures("api")
def test_an_unreadable_authority_is_reported(account, capsys):
    (account / "ca.crt").write_text("no certificate")
    assert main(ARGUMENTS) == 1
    assert "ca.crt" in capsys.readouterr().err


def test_the_namespace_must_be_named():
    with pytest.raises(SystemExit) as caught:
        parse([])
    assert caught.value.code == 2
