"""MPIJob: mpirun's line, the hostfile, ssh without privilege, keys that nobody else has."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.pod_network_modes import HostNetwork
from tests.tables import each_row
from tests.unit.workloads.job_cases import RESOLVED, environment, manifest_of, pod, task
from workloads.mpi import MPIJobArgs, hostfile, mpi_shape, sshd_command
from workloads.resources import Resources
from workloads.roles import PodArgs

if TYPE_CHECKING:
    from pathlib import Path

ARGS = MPIJobArgs(program=("python3", "train.py", "--rate=0.1"), workers=2, slots_per_worker=4)


def _manifest(**changes: object):
    args = dataclasses.replace(ARGS, **changes)
    return manifest_of(args)


def _launcher(**changes: object) -> list[str]:
    [container] = pod(_manifest(**changes), "launcher")["containers"]
    return container["args"]


@each_row(
    ("changes", "words"),
    [
        ({"workers": 0}, ("workers = 0", "1 to 1000")),
        ({"slots_per_worker": 0}, ("slots_per_worker = 0", "1 to 256")),
        ({"program": ()}, ("program", "is empty")),
        ({"program": ("-x", "SECRET", "sh")}, ("program = '-x'", "option of mpirun")),
        ({"program": ("mpirun", "python", "a.py")}, ("program = 'mpirun'", "omit it: program=('python', 'a.py')")),
        ({"program": ("/usr/bin/mpirun", "-np", "2", "a")}, ("program = '/usr/bin/mpirun'", "mpirun_options")),
        ({"resources": Resources(gpus=8), "slots_per_worker": 3}, ("slots_per_worker = 3", "8 GPUs")),
        ({"launcher": PodArgs(), "network": HostNetwork(port_offset=7)}, ("launcher.network", "same network")),
    ],
)
def test_what_cannot_run_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(ARGS, **changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_more_hosts_than_metadata_holds_are_refused():
    with pytest.raises(RefusalError, match="workers = 1000"):
        mpi_shape("a" * 200, dataclasses.replace(ARGS, workers=1000))
    mpi_shape("a" * 49, dataclasses.replace(ARGS, workers=1000))


@given(st.integers(1, 200), st.integers(1, 16))
def test_the_hostfile_has_a_slot_for_every_rank(workers, slots):
    lines = hostfile("job-0123abcd", workers, slots).splitlines()
    hosts = [line.split()[0] for line in lines]
    assert len(set(hosts)) == workers
    assert sum(int(line.partition("slots=")[2]) for line in lines) == workers * slots
    assert hosts == [f"job-0123abcd-worker-{index}.job-0123abcd" for index in range(workers)]


def test_mpirun_starts_a_rank_in_every_slot_and_gets_the_program_whole():
    command = _launcher()
    assert command[4:7] == ["mpirun", "-np", "8"]
    assert tuple(command[-3:]) == ARGS.program
    assert command[command.index("--hostfile") + 1] == "/etc/athanor/mpi/hostfile"


def _stand_in(folder: Path, on_start: str) -> list[str]:
    """Return the launcher's command with a program in mpirun's place that saves when it is asked to."""
    program = folder / "mpirun"
    program.write_text(f"#!/bin/sh\ntrap 'echo saved; exit 5' USR1\n{on_start}\nwhile :; do sleep 0.01; done\n")
    program.chmod(0o755)
    command = _launcher()
    return [*command[:4], str(program), *command[5:]]


@pytest.mark.parametrize(
    "on_start", ["echo ready", "kill -TERM $PPID"], ids=["ready", "its shell has done nothing else"]
)
def test_mpirun_is_asked_to_let_the_ranks_save(tmp_path, on_start):
    """It kills them within a second after SIGTERM, and passes SIGUSR1 on."""
    process = subprocess.Popen(_stand_in(tmp_path, on_start), stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        if on_start == "echo ready":
            assert process.stdout.readline() == "ready\n"
            process.terminate()
        assert process.communicate(timeout=30)[0] == "saved\n"
        assert process.returncode == 5
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_words_of_the_user_stay_words():
    """Nothing goes through a shell: what looks like one is an argument of the program."""
    command = _launcher(program=("python3", "train.py", "$(id); echo *", "a b"))
    assert command[-2:] == ["$$(id); echo *", "a b"]  # which Kubernetes makes $(id) again


_SSHD = """#!/bin/sh
for option; do case $option in -oForceCommand=*) forced=${option#*=};; esac; done
exec env -i PATH=/usr/bin:/bin HOME=/tmp SSH_ORIGINAL_COMMAND="$ASKED" sh -c "$forced"
"""
"""Stands for the server: one session, with as little of its own environment as sshd's have."""


def _in_a_session(folder: Path, asked: str, environment: dict[str, str]) -> str:
    """Run a worker's command in an environment and return what a command in a session of its sshd prints."""
    server = folder / "sshd"
    server.write_text(_SSHD)
    server.chmod(0o755)
    [worker] = pod(_manifest(), "worker")["containers"]
    place = worker["args"].index("/usr/sbin/sshd")
    kept = str(folder / "environment")
    words = [word.replace("/tmp/.container-environment", kept) for word in worker["args"]]
    command = [*words[:place], str(server), *words[place + 1 :]]
    variables = {"PATH": os.environ["PATH"], "ASKED": asked, **environment}
    printed = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert (folder / "environment").stat().st_mode & 0o077 == 0, "what is kept there may be secret"
    return printed.stdout


def test_a_session_has_the_environment_of_the_image(tmp_path):
    """mpirun's daemon is found on it, and the ranks inherit it."""
    image = {
        "PATH": f"{tmp_path}/conda/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib:/opt/it's here",
        "PYTHONPATH": "/workspace\n/src",
    }
    program = tmp_path / "conda" / "bin" / "prted"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s|" "$PATH" "$LD_LIBRARY_PATH" "$PYTHONPATH" "$1"\n')
    program.chmod(0o755)
    asked = 'LD_LIBRARY_PATH=/prefix:$LD_LIBRARY_PATH; export LD_LIBRARY_PATH; prted "a b"'
    printed = _in_a_session(tmp_path, asked, image)
    assert printed.split("|")[:4] == [image["PATH"], f"/prefix:{image['LD_LIBRARY_PATH']}", image["PYTHONPATH"], "a b"]


def test_a_worker_has_what_its_ranks_need_and_no_argument_holds_a_value():
    manifest = _manifest(env={"TOKEN": "of-this-job"}, resources=Resources(cpu="8"))
    env = environment(manifest, "worker")
    assert {"ATHANOR_JOB", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "HOME"} <= set(env)
    assert (env["TOKEN"], env["OMP_NUM_THREADS"], env["ATHANOR_METRICS_PORT"]) == ("of-this-job", "2", "8002")
    for role in ("launcher", "worker"):
        [container] = pod(manifest, role)["containers"]
        assert "of-this-job" not in " ".join([*container["command"], *container["args"]])


def test_settings_of_open_mpi_reach_mpirun():
    assert environment(_manifest(env={"OMPI_MCA_pml": "ob1"}), "launcher")["OMPI_MCA_pml"] == "ob1"


def test_the_hosts_are_those_of_the_workers():
    manifest = _manifest()
    annotations = task(manifest, "launcher")["template"]["metadata"]["annotations"]
    assert annotations["athanor.dev/hostfile"] == hostfile(manifest["metadata"]["name"], 2, 4)
    volumes = {volume["name"]: volume for volume in pod(manifest, "launcher")["volumes"]}
    [item] = volumes["hosts"]["downwardAPI"]["items"]
    assert item == {"path": "hostfile", "fieldRef": {"fieldPath": "metadata.annotations['athanor.dev/hostfile']"}}


def test_mpirun_starts_only_when_every_sshd_answers():
    [wait] = pod(_manifest(), "launcher")["initContainers"]
    assert wait["image"] == RESOLVED.platform.trainer_image
    assert wait["command"][-2:] == ["--file=/etc/athanor/mpi/hostfile", "--port=2222"]
    assert {"name": "hosts", "mountPath": "/etc/athanor/mpi", "readOnly": True} in wait["volumeMounts"]


def test_the_keys_are_the_jobs_own():
    manifest = _manifest()
    assert manifest["spec"]["plugins"]["ssh"] == ["--ssh-key-file-path=/etc/athanor/ssh"]
    assert "HostKey=/etc/athanor/ssh/id_rsa" in " ".join(sshd_command(2222))
    assert "-oPasswordAuthentication=no" in sshd_command(2222)


def test_the_launcher_belongs_to_the_gang():
    assert _manifest()["spec"]["minAvailable"] == 3


def test_all_use_other_ports_on_the_hosts_network():
    network = HostNetwork(port_offset=10, interface="bond0")
    manifest = _manifest(network=network)
    [worker] = pod(manifest, "worker")["containers"]
    assert "-oPort=2232" in worker["args"]
    assert "-p 2232 " in environment(manifest, "launcher")["PRTE_MCA_plm_ssh_args"]
    assert environment(manifest, "launcher")["OMPI_MCA_btl_tcp_if_include"] == "bond0"
