"""The command line of `athanor run`. Imports only the standard library."""

from __future__ import annotations

import argparse

from athanor.runs.arguments import Arguments, Commands, add_cluster

_EPILOG = """examples:
  athanor run -- python train.py --lr 0.1
  athanor run --workers 2 --gpus 8 --pool train --follow -- torchrun train.py
  athanor run --kind mpi --workers 2 --gpus 8 -- mpirun -np 16 python train.py
  athanor run --kind batch --workers 10 -- sh -c 'python convert.py --part "$VC_TASK_INDEX"'
  athanor run --requirements requirements.txt --egress internet -- python train.py
  athanor run --no-code --image registry.example/trainer:1 -- python /app/train.py
  athanor run --volume imagenet:/imagenet:ro -- python train.py
  athanor run --deadline 2h -- python train.py        # fails after two hours
  athanor run --secret wandb --secret gcs-key:/secrets/gcs -- python train.py
  athanor run --egress internet --egress 10.64.3.7/32:5432 -- python train.py
  athanor run --print-program -- python train.py      # the same as a Pulumi program
  athanor run --from-arena 'arena submit mpijob --workers=2 --gpus=8 --image=… "mpirun -np 16 python train.py"'
  athanor run --print-yaml --gpus 8 -- python train.py    # the same as a file: > run.yaml

With -f run.yaml the keys of the file are the options, lists where one may be repeated, and command: is the command.

The cluster is that of the kubeconfig's current context, the platform that of its namespace. --platform reads the
platform from the outputs of its stack instead.

To hear when a run ends: --follow, or `athanor logs --follow RUN` at any time, or a webhook of your team's queue,
which the platform's operator sets up.

exit status:
  0  the job is accepted; with --follow: it completed, or you detached with Ctrl-C
  1  refused, or the engine or the cluster failed
  2  wrong arguments
with --follow, that of the program if it failed; 1 if the job failed otherwise
"""


def add_run(commands: Commands) -> None:
    """Add the command to the parser's."""
    run: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="run a folder's code as a job",
        description="Send a folder to the cluster and run a command in it, as a job of one or more pods.",
        usage="athanor run [options] -- COMMAND…\n       athanor run -f FILE [options] [-- COMMAND…]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("program", nargs="+", metavar="COMMAND", help="what to run, such as python train.py --lr 0.1")
    run.add_argument(
        "-f", "--file", metavar="FILE", help="read options and command from YAML; options given here override it"
    )
    run.add_argument("--from-arena", metavar="COMMAND", help="the options of an `arena submit …`, which is one word")
    add_job(run)
    run.add_argument("--replace", action="store_true", help="stop your run of this --name, and start this one")
    how = run.add_mutually_exclusive_group()
    how.add_argument("--follow", action="store_true", help="print the logs until the job ends; Ctrl-C only detaches")
    how.add_argument("--preview", action="store_true", help="show what would run, and run nothing")
    how.add_argument("--print-program", action="store_true", help="print the job as a Pulumi program, run nothing")
    how.add_argument("--print-yaml", action="store_true", help="print the file for -f of this command, and run nothing")
    run.add_argument("--json", action="store_true", help="print what was started as one JSON object; then lines, too")
    run.set_defaults(parser=run)  # which --print-yaml asks for its options


def add_job(run: argparse.ArgumentParser, what: str = "run") -> None:
    """Add what describes a job and names its cluster, for all commands that start one; `what` has the name."""
    job = run.add_argument_group("job")
    job.add_argument("--name", help=f"name of the {what} (default: the script's, with six random digits)")
    job.add_argument("--kind", choices=("pytorch", "mpi", "tensorflow", "batch"), default="pytorch")
    code = job.add_mutually_exclusive_group()
    code.add_argument("--no-code", action="store_true", help="send no folder: the program is in the image")
    code.add_argument(
        "--git",
        metavar="ADDRESS[@REF]",
        help="run a repository's code, at a branch, tag:NAME or a full commit (default: its default branch)",
    )
    job.add_argument("--git-secret", metavar="NAME", help="a Secret with what --git needs to log in")
    job.add_argument("--git-folder", metavar="PATH", help="the only folder of --git's repository that the pods get")
    job.add_argument("--prepare", metavar="COMMAND", help="run this first in each pod, such as 'pip install --user .'")
    job.add_argument(
        "--requirements", metavar="FILE", help="Python packages to install once for the job, such as requirements.txt"
    )
    add_what_it_has(job)
    pods = run.add_argument_group("pods")
    pods.add_argument("--workers", type=int, default=1, metavar="N", help="pods that compute (default: 1)")
    pods.add_argument("--elastic", type=int, metavar="N", help="continue with as few as N of the workers (pytorch)")
    pods.add_argument("--processes", type=int, metavar="N", help="ranks of each worker (default: one per GPU, or 1)")
    pods.add_argument("--ps", type=int, metavar="N", help="parameter servers, on CPUs (tensorflow)")
    pods.add_argument("--ps-cpu", metavar="CPU", help="cores of each parameter server (default: 500m)")
    pods.add_argument("--ps-memory", metavar="MEMORY", help="memory of each parameter server (default: 1Gi)")
    add_resources(pods, "each worker")
    add_cluster(run, with_platform=True)


def add_what_it_has(job: Arguments) -> None:
    """Add what a job of any kind has."""
    job.add_argument("--workdir", default=".", metavar="FOLDER", help="the code that is sent (default: this folder)")
    job.add_argument("--image", help="image of the pods (default: the platform's)")
    job.add_argument("--cache", metavar="NAME", help="keep caches, as of torch.compile, for later runs with that name")
    job.add_argument("--run-as-user", type=int, metavar="ID", help="user id in the pods (default: 10001)")
    job.add_argument("--writable-root", action="store_true", help="let programs write anywhere in their image")
    job.add_argument("--env", action="append", default=[], type=_variable, metavar="NAME=VALUE")
    job.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME[:/PATH]",
        help="a Secret whose keys become environment variables, or with a path files in that folder",
    )
    job.add_argument(
        "--egress",
        action="append",
        default=[],
        metavar="TO[:PORTS]",
        help="let the pods connect to the internet, oss or a CIDR; ports such as :443,5432 (default: 443)",
    )
    job.add_argument(
        "--volume",
        action="append",
        default=[],
        metavar="CLAIM:PATH[:ro]",
        help="a PersistentVolumeClaim of the namespace, in addition to /data/data and /data/output",
    )
    job.add_argument("--queue", help="default: the platform's first")
    job.add_argument(
        "--deadline",
        metavar="TIME",
        help="end the pods this long after they start, such as 90m or 1d; without --max-restarts the run starts once",
    )
    job.add_argument(
        "--max-restarts",
        type=int,
        metavar="N",
        help="start the program again after up to N failures (default: 0; 10 for the platform's own programs and with"
        " --elastic); pods that are lost or preempted start again anyhow",
    )
    job.add_argument("--priority", metavar="CLASS", help="one of the platform's priority classes, such as high")


def add_resources(pods: Arguments, whose: str) -> None:
    """Add what pods take."""
    pods.add_argument("--gpus", type=int, metavar="N", help=f"whole GPUs of {whose} (default: 0)")
    pods.add_argument("--cpu", help=f"cores of {whose}, such as 8 or 500m (default: 500m)")
    pods.add_argument("--memory", help=f"memory of {whose}, such as 16Gi (default: 1Gi, or 8Gi per GPU)")
    pods.add_argument(
        "--shared-memory",
        metavar="SIZE",
        help=f"shared memory of {whose}, of its memory (default: 256Mi, or 1Gi per GPU)",
    )
    pods.add_argument("--pool", help="node pool (default: any whose nodes fit)")
    pods.add_argument(
        "--selector", action="append", default=[], metavar="LABEL=VALUE", help="a label that the nodes must have"
    )
    pods.add_argument(
        "--toleration",
        action="append",
        default=[],
        metavar="KEY[=VALUE][:EFFECT]",
        help="a taint of the nodes to tolerate, in addition to those of the pool and of GPU nodes",
    )


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        # The word is not repeated: it may be a secret without its name.
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    return name, value
