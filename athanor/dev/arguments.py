"""The command line of `athanor dev`. Imports only the standard library."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from athanor.run.arguments import add_resources, add_what_it_has
from athanor.runs.arguments import add_cluster, ports

if TYPE_CHECKING:
    from athanor.runs.arguments import Commands

DEFAULT_IDLE = "1h"
_EPILOG = """examples:
  athanor dev --gpus 1                                # a shell in a pod that has this folder's files
  athanor dev -- python train.py --steps 10           # one command there
  athanor dev --egress internet --forward 8888 -- jupyter lab --port 8888
  athanor dev --sync-only                             # until Ctrl-C, for other terminals
  athanor dev --ssh --sync-only                       # the same for an editor that connects by ssh
  athanor dev --stop                                  # end the pod and forget it

Files go both ways while the command runs, without what .gitignore names and without files above 8 MiB. What the pod
creates or changes and could run here, such as .vscode/tasks.json, a Makefile or an executable, comes only if --accept
names it. The pod stays when you leave; the same command in the same folder connects again.

exit status:
  0  the shell ended, or Ctrl-C ended --sync-only
  1  refused, or the engine or the cluster failed
  2  wrong arguments
  others: the command's own
"""


def _port(word: str) -> str:
    if ":" in word:
        raise argparse.ArgumentTypeError(f"{word!r} is not one port, such as 2222")
    return ports(word)


def add_dev(commands: Commands) -> None:
    """Add the command to the parser's."""
    dev: argparse.ArgumentParser = commands.add_parser(
        "dev",
        help="work in a pod as in this folder",
        description="Start or reconnect to a development pod, and keep this folder and the pod's in sync.",
        usage="athanor dev [options] [-- COMMAND…]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    dev.add_argument("program", nargs="*", metavar="COMMAND", help="run this there instead of a shell")
    dev.add_argument("--name", help="name of its run (default: the folder's, with six digits)")
    idle = "the pod ends after this time without a client or activity, such as 30m or 8h"
    dev.add_argument("--idle", metavar="TIME", help=f"{idle} (default: {DEFAULT_IDLE})")
    dev.add_argument("--forward", action="append", default=[], type=ports, metavar="[LOCAL:]PORT",
                     help="open a port of the pod on 127.0.0.1, too")  # fmt: skip
    dev.add_argument("--accept", action="append", default=[], metavar="NAME",
                     help="take what the pod creates or changes and could run here; a name or a pattern")  # fmt: skip
    dev.add_argument("--ssh", nargs="?", const="2222", type=_port, metavar="PORT",
                     help="for editors: run the image's sshd, on this port of 127.0.0.1 (default: 2222)")  # fmt: skip
    dev.add_argument("--ssh-key", default="~/.ssh/id_ed25519.pub", metavar="FILE",
                     help="the public key that may connect (default: ~/.ssh/id_ed25519.pub)")  # fmt: skip
    how = dev.add_mutually_exclusive_group()
    how.add_argument("--sync-only", action="store_true", help="sync the folders until Ctrl-C, without a shell")
    how.add_argument("--stop", action="store_true", help="end the pod and forget it; its files in the volume stay")
    add_what_it_has(dev.add_argument_group("job"))
    add_resources(dev.add_argument_group("pod"), "the pod")
    add_cluster(dev, with_platform=True)
    # What else a run has: one pod that runs no code of its own.
    dev.set_defaults(kind="batch", workers=1, elastic=None, processes=None, no_code=True, prepare=None,
                     git=None, git_secret=None, git_folder=None, ps=None, ps_cpu=None, ps_memory=None,
                     requirements=None, replace=False, preview=False)  # fmt: skip
