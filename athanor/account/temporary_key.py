"""Runs of the engine with a temporary access key: an expired key is refused, before the start and during the run.

While the provider waits for a resource to be created or deleted, it takes the refusal of an expired key for "not yet"
and retries until its timeout, up to 90 minutes (terraform-provider-alicloud 1.285.0).
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from athanor.account.credentials import keys_of
from athanor.account.errors import CloudError
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from athanor.account.cloud import Keys

_REGION = "cn-hangzhou"
"""STS knows keys of every region everywhere; this is the one that the question is sent to."""
_TOKENS = tuple(f"{vendor}_SECURITY_TOKEN" for vendor in ("ALICLOUD", "ALIBABA_CLOUD", "ALIBABACLOUD"))
_ASKING_THE_CLOUD = frozenset({"destroy", "down", "import", "pre", "preview", "refresh", "up", "update"})
"""Commands of the engine during which a provider may ask the cloud, with their short names."""
_STACK = re.compile(r"(?:--stack|-s)(?:=(.+))?|-s(.+)")
_SECONDS_BETWEEN_QUESTIONS = 60
_SECONDS_TO_STOP = 60
"""Time that the engine has for what it is doing after the first interrupt; the second ends it at once."""


def is_temporary(environment: Mapping[str, str]) -> bool:
    """Return whether these variables hold a temporary key."""
    return any(environment.get(name) for name in _TOKENS)


def check_temporary_key(environment: Mapping[str, str]) -> None:
    """Ask the cloud whether a temporary key of these variables is still good, and nothing else.

    Raises:
        RefusalError: it has expired.
    """
    keys = keys_of(_REGION, environment) if is_temporary(environment) else None
    if keys is not None and _has_expired(keys, environment):
        raise RefusalError(
            "credentials",
            keys.access_key_id,
            "this temporary key has expired",
            "get a new one, export it, and run the same command again: it continues from what the state says",
        )


def _has_expired(keys: Keys, environment: Mapping[str, str]) -> bool:
    from athanor.account.cloud import Cloud  # noqa: PLC0415 - the vendor's client takes a second to import

    try:
        Cloud(_REGION, keys, environment).rpc("sts", "GetCallerIdentity")
    except CloudError as error:
        return error.code.endswith("Expired")
    return False


def main(command: Sequence[str]) -> NoReturn:
    """Become the engine with these words, its program first, next to a process that stops it when the key expires.

    Raises:
        SystemExit: the key has expired already.
    """
    if _concerns_the_cloud(command):
        try:
            check_temporary_key(os.environ)
        except RefusalError as refusal:
            raise SystemExit(str(refusal)) from None
        engine = os.getpid()
        if os.fork() == 0:
            _end_with_parent()
            _watch(engine)
            os._exit(0)
    os.execv(command[0], [*command])  # noqa: S606 - no shell reads the user's words


def _concerns_the_cloud(command: Sequence[str]) -> bool:
    """Whether a command may ask Alibaba Cloud: by its words and, where that is a file here, its stack's settings."""
    program, *words = command
    if not _ASKING_THE_CLOUD & {*words}:
        return False
    named = [
        match[1] or match[2] or following
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if (match := _STACK.fullmatch(word))
    ]
    stack = named[0] if named else os.environ.get("PULUMI_STACK") or _selected(program)
    file = Path(f"Pulumi.{stack.rpartition('/')[2]}.yaml")
    return not file.is_file() or "alicloud" in file.read_text(encoding="utf-8")


def _selected(program: str) -> str:
    asked = [program, "stack", "--show-name", "--non-interactive"]
    return subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()


def _watch(engine: int) -> None:
    """Wait until the key has expired, and stop an engine as Ctrl-C pressed once does, and then once more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        time.sleep(_SECONDS_BETWEEN_QUESTIONS)
        try:
            check_temporary_key(os.environ)
        except RefusalError as refusal:
            sys.stderr.write(f"{refusal}. Its last operations are undecided: run `make recover STACK=…` first\n")
            sys.stderr.flush()
            os.kill(engine, signal.SIGINT)
            time.sleep(_SECONDS_TO_STOP)
            os.kill(engine, signal.SIGINT)
            return


def _end_with_parent() -> None:
    """Let this process be killed when its parent ends (prctl(2), PR_SET_PDEATHSIG): it holds the same output open."""
    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(0)
