"""MPI jobs: a launcher runs mpirun, which starts the ranks in the workers over ssh; Horovod's images work as they are.

Sources: Open MPI 4.1 and 5.0, man pages of mpirun and prterun; OpenSSH 9.2, man pages of ssh and sshd; Volcano,
pkg/controllers/job/plugins/ssh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from infra.admitted import LARGEST_ROLE
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import Word
from infra.pod_network_modes import interface, port
from workloads.accelerator_fit import check_ranks_per_gpu
from workloads.any_image import HOME, annotation_volume
from workloads.checks import check_range
from workloads.gpu_use import check_mpi_launch, check_trainer_ranks
from workloads.job import Job
from workloads.job_args import JobArgs
from workloads.launchers import check_mpi_program
from workloads.pods import Mount
from workloads.resources import Resources
from workloads.roles import START_WAIT_SECONDS, PodArgs, Role, Step, helper_pod, prepare_steps
from workloads.volcano_job import JobShape, host, metrics_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pulumi

    from infra.platform import Platform

SSH_PORT = 2222
_KEYS = "/etc/athanor/ssh"
_FILES = "/etc/athanor/mpi"
_HOSTS = "athanor.dev/hostfile"
_MAXIMUM_HOSTFILE_BYTES = 200_000
"""All annotations of a pod together may have 256 KiB."""
_ENVIRONMENT_FILE = f"{HOME}/.container-environment"


Binding = Literal["none", "core", "numa", "socket"]
BINDINGS: tuple[Binding, ...] = get_args(Binding)
"""Objects that mpirun can pin a rank to."""


@checked()
@dataclass(frozen=True, kw_only=True)
class MPIJobArgs(JobArgs):
    """Arguments of MPIJob; what PodArgs says holds for the workers."""

    program: Sequence[Word]
    """What mpirun starts in every slot: `("python3", "train.py", "--epochs", "30")`."""
    workers: int
    """Pods that compute. Every one counts: the launcher is a pod of its own and computes nothing."""
    slots_per_worker: int | None = None
    """Ranks per pod. Default: one per GPU, or one without GPUs."""
    launcher: PodArgs | None = None
    """The pod that runs mpirun. Default: a small one on the workers' network, on any node."""
    mpirun_options: Sequence[Word] = ()
    """Further options of mpirun, one item per word, such as ("-mca", "pml", "ob1")."""
    bind_to: Binding = "none"
    """What mpirun pins each rank to. Pods have no cores of their own unless the nodes' CPU manager gives them some."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods.

        Raises:
            RefusalError: naming the field, the value and what to write.
        """
        super().__post_init__()
        check_range("workers", self.workers, 1, LARGEST_ROLE)
        if self.slots_per_worker is not None:
            check_range("slots_per_worker", self.slots_per_worker, 1, 256)
        if not self.program:
            raise RefusalError(
                "program", self.program, "is empty", 'set the command to run, such as ("python3", "train.py")'
            )
        if self.program[0].startswith("-"):
            limit = "would be read as an option of mpirun"
            raise RefusalError("program", self.program[0], limit, 'start with the program: ("python3", "-m", …)')
        check_mpi_program(self.program)
        if self.run_as_user == 0:
            limit = "is root, but neither mpirun nor its connections between pods work as root"
            raise RefusalError("run_as_user", self.run_as_user, limit, "omit it, or choose another user")
        check_ranks_per_gpu(self.resources, self.workers, "slots_per_worker", self.ranks_per_worker)
        check_trainer_ranks(self, self.program, "slots_per_worker", self.ranks_per_worker)
        launcher = self.launcher_pod
        check_mpi_launch(self, self.program, launcher)
        if port(launcher.network, SSH_PORT) != port(self.network, SSH_PORT):
            limit = "its port offset differs from that of the workers, whose ssh it must reach"
            raise RefusalError("launcher.network", launcher.network, limit, "give both the same network")

    @property
    def launcher_pod(self) -> PodArgs:
        """The launcher's shape and place."""
        return self.launcher or helper_pod(self, Resources(cpu="200m", memory="512Mi"))

    @property
    def ranks_per_worker(self) -> int:
        """Ranks that mpirun starts in a pod."""
        return self.resources.ranks if self.slots_per_worker is None else self.slots_per_worker

    @property
    def ranks(self) -> int:
        """Processes that mpirun starts."""
        return self.workers * self.ranks_per_worker


def hostfile(job_name: str, workers: int, slots: int) -> str:
    """Return Open MPI's hostfile: a line per worker with its slots."""
    return "".join(f"{host(job_name, 'worker', index)} slots={slots}\n" for index in range(workers))


def sshd_command(number: int) -> list[str]:
    """Return the command of a worker: an ssh server without any privilege, for the job's own key alone."""
    options = {
        "Port": str(number),
        # One key for both sides, which the job engine generates for this job: nobody else has either half.
        "HostKey": f"{_KEYS}/id_rsa",
        "AuthorizedKeysFile": f"{_KEYS}/authorized_keys",
        # The keys are mounted readable by the pod's group, which sshd would take for an accident.
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "no",
        "X11Forwarding": "no",
        "AllowTcpForwarding": "no",
        # mpirun opens many connections at once; by default sshd drops some of more than ten.
        "MaxStartups": "1000",
        # To sshd, each connection that is closed at once is an error, such as those of the launcher's wait.
        "LogLevel": "FATAL",
        # A session has next to nothing of the container's environment: neither the image's PATH, where mpirun's daemon
        # lies, nor its LD_LIBRARY_PATH and PYTHONPATH. The ranks inherit what the daemon has.
        "ForceCommand": f'. {_ENVIRONMENT_FILE}; eval "$SSH_ORIGINAL_COMMAND"',
    }
    return ["/usr/sbin/sshd", "-D", "-e", "-f", "none", *(f"-o{name}={value}" for name, value in options.items())]


_KEEP_ENVIRONMENT = ("sh", "-c", f'(umask 077; export -p > {_ENVIRONMENT_FILE}); exec "$@"', "worker")
"""Leaves a worker's environment to the sessions of its sshd: in a file of the pod's own, for values may be secret."""


def ssh_options(number: int) -> str:
    """Return mpirun's options for ssh: the job's key, no question about host keys, patience with pods that start."""
    return (
        f"-p {number} -i {_KEYS}/id_rsa -F /dev/null -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        " -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=10 -o ConnectionAttempts=10"
    )


_SAVE_BEFORE_THE_END = (
    """trap 'asked=1; kill -USR1 "$child" 2>/dev/null' TERM; "$@" & child=$!; """
    '[ -z "$asked" ] || kill -USR1 "$child"; '
    'wait "$child"; status=$?; while kill -0 "$child" 2>/dev/null; do wait "$child"; status=$?; done; exit "$status"'
)
"""Turns SIGTERM into SIGUSR1: mpirun passes this on and waits, after SIGTERM it kills all ranks within a second."""


def mpirun_command(args: MPIJobArgs) -> list[str]:
    """Return the launcher's command."""
    return [
        *("sh", "-c", _SAVE_BEFORE_THE_END, "launcher"),
        "mpirun",
        "-np",
        str(args.ranks),
        "--hostfile",
        f"{_FILES}/hostfile",
        "--bind-to",
        args.bind_to,
        *args.mpirun_options,
        *args.program,
    ]


def mpi_shape(job_name: str, args: MPIJobArgs) -> JobShape:
    """Return the roles of a job and the plugin that gives it its keys.

    Raises:
        RefusalError: so many workers that their names do not fit into a pod's annotations.
    """
    hosts = hostfile(job_name, args.workers, args.ranks_per_worker)
    if len(hosts) > _MAXIMUM_HOSTFILE_BYTES:
        limit = (
            f"their names have {len(hosts)} bytes, but only {_MAXIMUM_HOSTFILE_BYTES} fit into the launcher's metadata"
        )
        raise RefusalError("workers", args.workers, limit, "use fewer workers with more slots each, or a shorter name")
    number = port(args.network, SSH_PORT)
    workers = Role(
        name="worker",
        replicas=args.workers,
        pod=args,
        command=[*_KEEP_ENVIRONMENT, *sshd_command(number)],
        processes=args.ranks_per_worker,
        ports={"ssh": number, **metrics_ports(args.network, args.ranks_per_worker)},
        steps=prepare_steps(args.prepare),
    )
    launcher = Role(
        name="launcher",
        replicas=1,
        pod=args.launcher_pod,
        command=mpirun_command(args),
        # Further settings of Open MPI come as the job's variables, too.
        env={**args.env, **_mpirun_environment(args, number)},
        steps=[_wait_for_workers(number)],
        annotations={_HOSTS: hosts},
        mounts=[Mount(name="hosts", path=_FILES, volume=annotation_volume(_HOSTS, "hostfile"))],
        ends_the_job=True,
    )
    return JobShape(kind="mpi", roles=[launcher, workers], plugins={"ssh": [f"--ssh-key-file-path={_KEYS}"]})


def _mpirun_environment(args: MPIJobArgs, number: int) -> Mapping[str, str]:
    """Return mpirun's own settings, for Open MPI 4 (OMPI_MCA_…) and 5 (PRTE_MCA_…): each ignores the other's."""
    network = interface(args.network)
    return {
        "OMPI_MCA_plm_rsh_args": ssh_options(number),
        "PRTE_MCA_plm_ssh_args": ssh_options(number),
        # Through a tree of daemons Open MPI 5 would hand the ssh options on only to their first "=".
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "OMPI_MCA_btl_tcp_if_include": network,
        "OMPI_MCA_oob_tcp_if_include": network,
        "PRTE_MCA_prte_if_include": network,
    }


def _wait_for_workers(number: int) -> Step:
    command = [
        *("python3", "-m", "trainer.wait_for_hosts", f"--timeout_seconds={START_WAIT_SECONDS}"),
        *(f"--file={_FILES}/hostfile", f"--port={number}"),
    ]
    return Step(name="wait", command=command, in_platform_image=True)


class MPIJob(Job):
    """A job that mpirun starts."""

    def __init__(
        self, name: str, platform: Platform, args: MPIJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, platform, args, opts, lambda job_name, _: mpi_shape(job_name, args))
