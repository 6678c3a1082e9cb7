"""A job's code from git: cloned by an init container into every pod, the commit written down beside the results."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.errors import RefusalError
from workloads.checks import check_name
from workloads.pods import OUTPUT_PATH, Container, Mount
from workloads.resources import Resources

CODE_PATH = "/source/code"
"""Where the pods find the code; their working directory."""
_VOLUME = Mount(name="source", path="/source", volume={"emptyDir": {}})
_CREDENTIALS_PATH = "/etc/athanor/git"
_PORTS = {"https": 443, "http": 80}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_SUBDIRECTORY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True, kw_only=True)
class GitSource:
    """Code in a git repository: one of `branch`, `tag` and `commit`."""

    repository: str
    """Its address, such as https://github.com/team/project.git; without credentials."""
    branch: str | None = None
    """Branch whose newest commit at the job's start all pods run."""
    tag: str | None = None
    commit: str | None = None
    """Full hash: the only one of the three that names the same code for ever."""
    subdirectory: str | None = None
    """Folder of the repository that the pods get, alone. Default: all of it."""
    secret: str | None = None
    """Secret of type kubernetes.io/basic-auth in the workloads' namespace. Default: none, a public repository."""

    def __post_init__(self) -> None:
        """Refuse an address, a reference or a folder that could not be fetched.

        Raises:
            RefusalError: naming the field; credentials in an address are not repeated.
        """
        self._check_repository()
        given = {name: getattr(self, name) for name in ("branch", "tag", "commit") if getattr(self, name) is not None}
        if len(given) != 1:
            raise RefusalError("source", given, "must name one of branch, tag and commit", 'write branch="main"')
        if self.commit is not None and not _COMMIT.fullmatch(self.commit):
            raise RefusalError("source.commit", self.commit, "is no full hash", "write all 40 hexadecimal digits")
        for name in ("branch", "tag"):
            reference = getattr(self, name)
            if reference is not None and (not _REFERENCE.fullmatch(reference) or ".." in reference):
                limit = "is no name that git allows"
                raise RefusalError(f"source.{name}", reference, limit, "write it as `git branch` or `git tag` shows it")
        folder = self.subdirectory
        if folder is not None and (not _SUBDIRECTORY.fullmatch(folder) or {".", ".."} & set(folder.split("/"))):
            raise RefusalError("source.subdirectory", folder, "must lie in the repository", "write it as training/code")
        if self.secret is not None:
            check_name("source.secret", self.secret)
            self._check_way_of_the_password()

    def _check_repository(self) -> None:
        found = urlsplit(self.repository)
        if found.username is not None or found.password is not None:
            limit = "holds credentials, which would be kept in clear in the cluster and the stack's state"
            fix = (
                "put username and password into a Secret of type kubernetes.io/basic-auth and name it in source.secret"
            )
            raise RefusalError("source.repository", f"{found.scheme}://…@{found.hostname}{found.path}", limit, fix)
        if found.scheme not in _PORTS or not found.hostname or not found.path.strip("/") or found.query:
            limit = "must be an http or https address of a repository, without a query"
            raise RefusalError("source.repository", self.repository, limit, "write https://<host>/<path>.git")

    def _check_way_of_the_password(self) -> None:
        host = urlsplit(self.repository).hostname or ""
        inside = "." not in host or host.endswith((".svc", ".svc.cluster.local"))
        if self.repository.startswith("http:") and not inside:
            limit = "would send the password in clear to a host outside the cluster"
            raise RefusalError("source.repository", self.repository, limit, "use https")

    @property
    def port(self) -> int:
        """Port of the git server, for the network policy."""
        found = urlsplit(self.repository)
        return found.port or _PORTS[found.scheme]


def code_mount() -> Mount:
    """Return the code as the job's own containers see it."""
    return _VOLUME


def source_container(source: GitSource, image: str, job_name: str) -> Container:
    """Return the init container that fetches the code.

    Args:
        source: What to fetch.
        image: An image with this project's trainer: the job's own need not have a git client.
        job_name: Name of the job's object; all its pods agree on one commit in /data/output/<job_name>/source.json.
    """
    references = (("branch", source.branch), ("tag", source.tag), ("commit", source.commit))
    flags = {
        "repository": source.repository,
        **{name: value for name, value in references if value is not None},
        "destination": CODE_PATH,
        "record": f"{OUTPUT_PATH}/{job_name}/source.json",
        **({"subdirectory": source.subdirectory} if source.subdirectory else {}),
        **({"credentials_dir": _CREDENTIALS_PATH} if source.secret else {}),
    }
    mounts = [Mount(name=_VOLUME.name, path=_VOLUME.path, volume=_VOLUME.volume, read_only=False)]
    if source.secret:
        secret = {"secret": {"secretName": source.secret, "defaultMode": 0o440}}
        mounts.append(Mount(name="git-credentials", path=_CREDENTIALS_PATH, volume=secret))
    return Container(
        name="source",
        image=image,
        command=["python3", "-m", "trainer.source", *(f"--{name}={value}" for name, value in flags.items())],
        resources=Resources(cpu="100m", memory="512Mi"),
        mounts=mounts,
    )
