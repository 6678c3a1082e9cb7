"""The two folders of `athanor dev`: the user's, filtered by its ignore files, and the pod's, through kubectl."""

from __future__ import annotations

import inspect
import subprocess
import threading
import unicodedata
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from athanor.dev import tree
from athanor.dev.tree import (
    EXECUTABLE,
    GREETING,
    LINK,
    SKIPPED_FOLDERS,
    Tree,
    is_skipped,
    kind_of,
    receive,
    send,
)
from athanor.inspection.control_characters import printable
from athanor.runs.tar_stream import leads_inside
from workloads.folder_archive import is_inside, judged_files, looks_like_a_secret
from workloads.ignore_rules import IgnoreRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ANSWER_SECONDS = 60
_IMPORT = "from athanor.runs.tar_stream import leads_inside\n"
_PROGRAM = Path(tree.__file__).read_text(encoding="utf-8").replace(_IMPORT, inspect.getsource(leads_inside))
"""A pod has no athanor: what tree.py imports of it stands in its text there."""
_OF_GIT = frozenset([".git", "git~1"])
"""Its folder, and the short name of that on Windows."""
_BUILD_FILES = (
    "makefile", "gnumakefile", "*.mk", "cmakelists.txt", "*.cmake", "meson.build", "sconstruct", "justfile", "rakefile",
    "taskfile.y*ml", "package.json", "*.gradle", "*.gradle.kts", "gradlew*", "pom.xml", "build.xml", "build.rs",
    "cargo.toml", "dockerfile*", "compose.y*ml", "docker-compose*.y*ml", "jenkinsfile", "vagrantfile", "procfile",
    "setup.py", "setup.cfg", "pyproject.toml", "conftest.py", "sitecustomize.py", "usercustomize.py", "noxfile.py",
    "tox.ini", "pytest.ini", "*.code-workspace", "*.bat", "*.cmd", "*.ps1", "*.command",
)  # fmt: skip
"""Files that tools take instructions from, as soon as they are used in the folder."""
COULD_RUN = "could run here, and no --accept names it"


class OwnFolder(Tree):
    """The user's folder: the files that `athanor run` would send."""

    def __init__(self, folder: Path, accepted: Sequence[str] = ()) -> None:
        """Look at a folder.

        Args:
            folder: The folder.
            accepted: Names or patterns of what may come from a pod although it could run here.
        """
        super().__init__(folder)
        self._accepted = accepted

    def scan(self, listed: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
        """Return the states of the files, and why others that are there are not copied.

        Args:
            listed: Has no effect: the ignore files alone decide.

        Raises:
            RefusalError: they are too many, or the folder cannot be read.
        """
        del listed
        chosen: list[Path] = []
        refused: dict[str, str] = {}
        for path, refusal in judged_files(self.folder, may_dangle=True):
            if refusal is None:
                chosen.append(path)
            elif path == self.folder:
                raise refusal
            else:
                refused[path.relative_to(self.folder).as_posix()] = refusal.limit
        states, left = self._states(chosen)
        return states, {**left, **refused}

    def may_arrive(self, name: str) -> bool:
        """Return whether a new file of the pod belongs to the code here."""
        rules = self._rules_at(name)
        return rules is not None and not rules.ignores(self.folder / name, is_folder=False)

    def why_not(self, name: str, state: str, former: str | None) -> str:
        """Return why what the pod has created or changed, and may arrive, cannot come here; empty if it can.

        Args:
            name: Its path.
            state: Its state in the pod.
            former: That of the file here, or of the one that was here; None for a new one.
        """
        path = PurePosixPath(name)
        target = state[len(LINK) :] if kind_of(state) == LINK else ""
        if not _OF_GIT.isdisjoint(map(_plain, [*path.parts, *target.split("/")])):
            return "a name that git's own folder may have"
        if target and self._leads_out(name, target):
            return "a link that would lead out of the folder here"
        rules = self._rules_at(name)
        if rules and looks_like_a_secret(self.folder / name, rules):
            return "looks like a secret"
        if not _could_run(path, state, former or "") or self._accepts(path):
            return ""
        return f"{COULD_RUN}; changed" if former else COULD_RUN

    def _accepts(self, path: PurePosixPath) -> bool:
        names = {name for each in (path, *path.parents) if each.name for name in (str(each), each.name)}
        return any(fnmatchcase(name, pattern) for name in names for pattern in self._accepted)

    def _rules_at(self, name: str) -> IgnoreRules | None:
        """Return the rules of a file's folder; None if that is ignored."""
        rules, place = IgnoreRules.of(self.folder), self.folder
        for each in Path(name).parts[:-1]:
            place /= each
            if rules.ignores(place, is_folder=True):
                return None
            rules = rules.within(place)
        return rules

    def _leads_out(self, name: str, target: str) -> bool:
        """Return whether a link of the pod would lead out of the folder here, through a link that is only here."""
        if not leads_inside(name, target):  # a pod that is not ours may say anything
            return True
        return not is_inside(self.folder / Path(name).parent / target, self.folder)


def _could_run(path: PurePosixPath, state: str, former: str) -> bool:
    """Return whether what a pod has created or changed is an executable, or what a tool may take instructions from."""
    if any(part.startswith(".") or _plain(part).startswith(".") for part in path.parts):
        return True
    if any(part not in SKIPPED_FOLDERS and _plain(part) in SKIPPED_FOLDERS for part in path.parts):
        return True
    # what only loses the right to be executed does no harm
    was_executable = kind_of(former) == EXECUTABLE and former != EXECUTABLE + state
    return (
        was_executable
        or kind_of(state) == EXECUTABLE
        or any(fnmatchcase(_plain(path.name), each) for each in _BUILD_FILES)
    )


def _plain(name: str) -> str:
    """Return a name as file systems see it that ignore case, forms of a letter and characters without width."""
    visible = (each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
    return "".join(visible).casefold().partition(":")[0].rstrip(" .")


class LostError(OSError):
    """The connection to the pod ended; the next request opens another one."""


class PodFolder:
    """A folder in a pod: a program there that answers one request after the other."""

    def __init__(self, prefix: Sequence[str], folder: str) -> None:
        """Start the program.

        Args:
            prefix: Words of `kubectl exec --stdin` up to the command.
            folder: Its path there; it is created.

        Raises:
            LostError: the pod does not answer, or cannot run Python.
        """
        self._said: list[str] = []
        self._process = subprocess.Popen(
            [*prefix, "python3", "-c", _PROGRAM, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        if self._limited(lambda: self._reads.read(len(GREETING))) != GREETING:
            self.close()
            raise self._lost()

    def close(self) -> None:
        """End the program."""
        for stream in (self._writes, self._reads):
            with suppress(OSError):
                stream.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listening.join(2)

    def scan(self, listed: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
        """Return the states of the files, and why others that are there are not copied.

        Args:
            listed: Files that the other side has: they count even where a tool's are skipped.
        """
        answer, _ = self._ask({"do": "scan", "listed": [name for name in listed if is_skipped(name)]})
        return answer["files"], answer["left"]

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Return a file's content or where a link leads, and its kind; None if it is gone or not copied by now."""
        answer, content = self._ask({"do": "read", "name": name})
        return (content, answer["kind"]) if answer["there"] else None

    def write(self, name: str, content: bytes, was: str | None, *, kind: str) -> str:
        """Write a file or a link if it is what it was; return why not, empty if it was."""
        asked = {"do": "write", "name": name, "was": was, "kind": kind}
        return self._ask(asked, content)[0]["why_not"]

    def delete(self, name: str, was: str) -> bool:
        """Delete a file if it is what it was; return whether it was."""
        return self._ask({"do": "delete", "name": name, "was": was})[0]["done"]

    @property
    def _writes(self) -> IO[bytes]:
        assert self._process.stdin
        return self._process.stdin

    @property
    def _reads(self) -> IO[bytes]:
        assert self._process.stdout
        return self._process.stdout

    def _ask(self, asked: dict[str, Any], content: bytes = b"") -> tuple[dict[str, Any], bytes]:
        def exchange() -> tuple[dict[str, Any], bytes]:
            send(self._writes, asked, content)
            return receive(self._reads)

        try:
            answer, content = self._limited(exchange)
        except (EOFError, BrokenPipeError, ValueError):
            raise self._lost() from None
        if "error" in answer:
            raise OSError(answer["error"])
        return answer, content

    def _limited(self, work: Any) -> Any:  # noqa: ANN401 - what the work returns
        """Run some work and return its result; kubectl is killed when it takes too long, and the work ends then."""
        late = threading.Timer(_ANSWER_SECONDS, self._process.kill)
        late.start()
        try:
            return work()
        finally:
            late.cancel()

    def _listen(self) -> None:
        assert self._process.stderr
        with self._process.stderr as stream:
            for line in stream:
                self._said[:] = [printable(line.decode(errors="replace").rstrip("\n"))]

    def _lost(self) -> LostError:
        self._listening.join(1)
        return LostError(self._said[-1] if self._said else "the pod does not answer")
