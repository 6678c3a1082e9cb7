"""What the classes of jobs refuse, in the words of the command line: options and commands, not fields and tuples."""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from infra.errors import RefusalError
from workloads.accelerators import WholeGpus

if TYPE_CHECKING:
    import argparse

_COMMAND = "command"
OPTIONS = {
    "job name": "--name",
    "workers": "--workers",
    "pods": "--workers",
    "minimum_workers": "--elastic",
    "processes_per_worker": "--processes",
    "slots_per_worker": "--processes",
    "program": _COMMAND,
    "command": _COMMAND,
    "mpirun_options": _COMMAND,
    "source": "--workdir",
    "image": "--image",
    "prepare": "--prepare",
    "cache": "--cache",
    "run_as_user": "--run-as-user",
    "read_only_root": "--writable-root",
    "env": "--env",
    "secrets": "--secret",
    "secret_files": "--secret",
    "egress": "--egress",
    "volumes": "--volume",
    "queue": "--queue",
    "deadline_seconds": "--deadline",
    "priority_class": "--priority",
    "resources.gpus": "--gpus",
    "resources.cpu": "--cpu",
    "resources.memory": "--memory",
    "pool": "--pool",
    "network": "--pool",
}
"""By field of a class: what stands for it on the command line. The network is that of the pool."""
_TYPED = {"--deadline": "deadline", "--prepare": "prepare", "--pool": "pool"}
"""Options whose fields hold something else than what was typed, such as seconds for 2h, with the arguments' names."""
_FIELD = re.compile(r"(?P<name>[\w ]+(?:\.(?:gpus|cpu|memory)\b)?)(?:\['(?P<key>[^']*)'\])?.*", re.DOTALL)
_WORDS = (
    (r"set the ranks with workers and (?:slots_per_worker|processes_per_worker)",
     "set the ranks with --workers and --processes"),
    (r", and other options of mpirun with mpirun_options", ", and write other options of mpirun behind mpirun"),
    (r"use MPIJob for mpirun and PyTorchJob for torchrun",
     "or use --kind mpi for mpirun and horovodrun, --kind pytorch for torchrun"),
    (r"omit it, and change the roles instead", "omit it"),
    (r"request gpus=.*", "choose a pool of whole GPUs with --pool; a share takes a Pulumi program (--print-program)"),
    (r"use network=ExclusiveEni\(\), or another pool",
     "choose another pool; such an interface takes a Pulumi program (--print-program)"),
    (r"use pool='([^']*)'", r"use --pool \1"),
    (r"by time_slicing", "by time slicing"),
    (r"omit source if the program", "add --no-code if the program"),
    (r"set image, or", "add --image, or"),
    (r"name a pool of role gpu", "name a pool with GPUs"),
    (r"^set pool to", "set --pool to"),
    (r"with resources\.gpus;", "with --gpus;"),
)  # fmt: skip
"""Sentences of the classes, and what somebody who typed options can do instead."""
_TUPLE = re.compile(r"(?:program=)?\((?P<words>(?:'[^']*'|\"[^\"]*\")(?:, (?:'[^']*'|\"[^\"]*\"|…))*),?\)")
_SECONDS = re.compile(r"must be \d+ to (?P<most>\d+)")


@contextmanager
def refused_in_options(given: argparse.Namespace) -> Generator[None]:
    """Refuse what the block refuses in the words of the command line.

    Args:
        given: What was typed.

    Raises:
        RefusalError: with an option, or `command`, as its field.
    """
    try:
        yield
    except RefusalError as refusal:
        raise in_options(refusal, given) from None


def in_options(refusal: RefusalError, given: argparse.Namespace) -> RefusalError:
    """Return a refusal of a class in the words of the command line; one that has them already stays as it is."""
    match = _FIELD.fullmatch(refusal.field)
    option = OPTIONS.get(match["name"]) if match else None
    if match is None or option is None:
        return refusal
    field = f"{option} {match['key']}" if match["key"] else option
    if option == "--deadline":
        return _deadline(refusal, given)
    if option == "--elastic":
        limit = f"{refusal.limit}, the number of --workers"
        return RefusalError(option, refusal.value, limit, "use fewer, or raise --workers")
    value = getattr(given, _TYPED[option], None) if option in _TYPED else None
    return RefusalError(field, _value(refusal.value) if value is None else value, *_sentences(refusal))


def _sentences(refusal: RefusalError) -> tuple[str, str]:
    return _in_words(refusal.limit), _in_words(refusal.fix)


def _value(value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return a value as it was typed."""
    if isinstance(value, WholeGpus):
        return value.count
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return shlex.join(str(word) for word in cast("Sequence[object]", value))
    return value


def _in_words(text: str) -> str:
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return _TUPLE.sub(lambda match: _typed_words(match["words"]), text)


def _typed_words(items: str) -> str:
    """Return what stands in a tuple of words as it is typed."""
    words = re.findall(r"'([^']*)'|\"([^\"]*)\"|(…)", items)
    return " ".join(each[2] or shlex.quote(each[0] or each[1]) for each in words)


def _deadline(refusal: RefusalError, given: argparse.Namespace) -> RefusalError:
    most = _SECONDS.search(refusal.limit)
    days = int(most["most"]) // 86400 if most else 0
    return RefusalError("--deadline", given.deadline, f"must be 1s to {days}d", "write it as 90m, 2h or 1d")
