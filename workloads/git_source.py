"""A job's code from git: fetched by one pod, copied into the others, with its commit recorded next to the results.

Why a pod of its own fetches: docs/decisions/0015-one-pod-fetches.md.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.closed_addresses import ANYWHERE, check_open
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.job_source import COMMIT, COMMIT_KEY, COMMIT_VARIABLE, CONTAINER, RUN_ANNOTATION, commit_choice
from infra.kubernetes.grammar import DnsSubdomain
from workloads.pods import OUTPUT_PATH, Container, Mount
from workloads.resources import Resources
from workloads.roles import Role, helper_pod

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from infra.manifests import Manifest
    from workloads.roles import PodArgs

SOURCE_ROLE = CONTAINER
"""Role of the pod that fetches, whose container has the name of those that take."""

CODE_PATH = "/source/code"
"""Folder of the code in the pods; their working directory."""
_VOLUME = Mount(name="source", path="/source", volume={"emptyDir": {"sizeLimit": "10Gi"}}, read_only=False)
"""Volume of one pod alone; writable, since programs write next to their code."""
_RESOURCES = Resources(cpu="100m", memory="512Mi")
_WAIT_SECONDS = 900
"""Longest wait for the pod that fetches: its image may have to be pulled, and its server may be slow."""
_CREDENTIALS_PATH = "/etc/athanor/git"
_RUN_VARIABLE = "ATHANOR_RUN"
_RUN: Manifest = {
    "name": _RUN_VARIABLE,
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{RUN_ANNOTATION}']"}},
}
"""Annotation of the job's run that a pod belongs to."""
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_SSH_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")
_ADDRESS = re.compile(r"[!-~]+")
_REFERENCE = re.compile(
    r"""(?!-|refs/|@\Z|HEAD\Z)(?!.*(?:\.\.|@\{|//|\.\Z|/\Z))
    (?:(?:\A|/)(?!\.)(?![^/]*\.lock(?:/|\Z))[^\x00-\x20\x7f~^:?*\[\\/]+)+""",
    re.VERBOSE | re.DOTALL,
)
"""Names that `git branch` and `git tag` accept (git-check-ref-format(1)); a whole reference is written as its last
part."""
_HOST_AND_PATH = re.compile(r"(?P<place>(?:[^@/:\s]+@)?[^@/:\s]+):(?!:|//|[^/]*@)(?P<path>[^\s].*)")
"""git@github.com:team/project.git (git-fetch(1), "GIT URLS"); trainer/source/address.py reads the same."""
_SERVICE = re.compile(r"[a-z][a-z0-9-]*|.+\.svc(\.cluster\.local)?")
"""A host of the cluster: the name of a Service alone, or with its namespace; no address in any notation."""
_DEFAULT_BRANCH = "HEAD"
"""Its name in trainer/source/fetch.py."""
_SUBDIRECTORY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


@checked("source")
@dataclass(frozen=True, kw_only=True)
class GitSource:
    """Code in a git repository: at one of `branch`, `tag` and `commit`, or at the repository's default branch."""

    repository: str = field(kw_only=False)
    """Its address, such as https://github.com/team/project.git, ssh://git@github.com/team/project.git or
    git@github.com:team/project.git; without credentials."""
    branch: str | None = None
    """Branch whose newest commit at the job's start all pods run, after restarts, too; a rerun is another start.
    Default: the repository's own, unless `tag` or `commit` is given."""
    tag: str | None = None
    commit: str | None = None
    """Full hash: the only one of the three that names the same code forever."""
    subdirectory: str | None = None
    """Folder of the repository that the pods get, alone. Default: all of it."""
    secret: DnsSubdomain | None = None
    """Secret of type kubernetes.io/basic-auth in the workloads' namespace; for ssh, one of type kubernetes.io/ssh-auth
    with `ssh-privatekey` and, in addition, `known_hosts`. Default: none, a public repository."""

    def __post_init__(self) -> None:
        """Refuse an address, a reference or a folder that could not be fetched.

        Raises:
            RefusalError: naming the field; credentials in an address are not repeated.
        """
        self._check_repository()
        given = {name: getattr(self, name) for name in ("branch", "tag", "commit") if getattr(self, name) is not None}
        if len(given) > 1:
            raise RefusalError("source", given, "must have at most one of branch, tag and commit", "omit the others")
        if self.commit is not None and not COMMIT.fullmatch(self.commit):
            raise RefusalError("source.commit", self.commit, "is not a full hash", "write all 40 hexadecimal digits")
        for name in ("branch", "tag"):
            reference = getattr(self, name)
            if reference is not None and not _REFERENCE.fullmatch(reference):
                limit = "is not a valid git reference name"
                fix = f"write it as `git {name} --list` prints it, without refs/ or a remote's name in front"
                raise RefusalError(f"source.{name}", reference, limit, fix)
        folder = self.subdirectory
        if folder is not None and (not _SUBDIRECTORY.fullmatch(folder) or {".", ".."} & set(folder.split("/"))):
            raise RefusalError(
                "source.subdirectory", folder, "must be inside the repository", "write it as training/code"
            )
        if self.secret is not None:
            self._check_way_of_the_password()
        elif self._url.scheme == "ssh":
            limit = "is read over ssh, which needs a key"
            fix = "set source.secret to a Secret of type kubernetes.io/ssh-auth with ssh-privatekey and known_hosts"
            raise RefusalError("source.repository", self.repository, limit, fix)

    def _check_repository(self) -> None:
        fix = "write https://<host>/<path>.git"
        try:
            url = self._url
        except ValueError:  # unbalanced brackets; the address is not repeated, it may contain a password
            raise RefusalError("source.repository", "…", "is not a valid address", fix) from None
        named = url.username is not None and not (url.scheme == "ssh" and _SSH_USER.fullmatch(url.username))
        if named or url.password is not None:
            limit = "contains credentials, which would be stored in plain text in the cluster and the stack's state"
            own = "put both into a Secret of type kubernetes.io/basic-auth and set source.secret to its name"
            raise RefusalError("source.repository", f"{url.scheme}://…@{url.hostname}{url.path}", limit, own)
        incomplete = url.scheme not in _PORTS or (url.hostname or "-")[0] == "-" or not url.path.strip("/")
        if incomplete or url.query or url.fragment:
            limit = "must be an https, http or ssh address of a repository, without a query or a fragment"
            raise RefusalError(
                "source.repository",
                self.repository,
                limit,
                f"{fix}, ssh://git@<host>/<path>.git or git@<host>:<path>.git",
            )
        if not _ADDRESS.fullmatch(self.repository):
            limit = "contains characters that must be escaped in an address"
            raise RefusalError("source.repository", self.repository, limit, "write a space as %20, and so on")
        if not _has_port(url):
            raise RefusalError(
                "source.repository", self.repository, "its port must be 1 to 65535", "correct the port, or omit it"
            )
        check_open("source.repository", self.repository, url.hostname or "")

    def _check_way_of_the_password(self) -> None:
        host = self._url.hostname or ""
        if self._url.scheme == "http" and not _is_inside(host):
            limit = "would send the password in plain text to a host outside the cluster"
            raise RefusalError("source.repository", self.repository, limit, "use https")

    @property
    def _url(self) -> SplitResult:
        address = self.repository
        if "://" not in address and (match := _HOST_AND_PATH.fullmatch(address)):
            address = f"ssh://{match['place']}/{match['path'].removeprefix('/')}"
        return urlsplit(re.sub(r"^(?:git\+ssh|ssh\+git)://", "ssh://", address, flags=re.IGNORECASE))

    @property
    def server(self) -> Manifest:
        """Return the rule of a network policy that opens the way to the git server, as far as policies can name it.

        Its submodules may be at the default ports of other hosts: over https, or over http where it is read so itself.
        """
        url = self._url
        host, number = url.hostname or "", url.port or _PORTS[url.scheme]
        further = ["http", "https"] if url.scheme == "http" else ["https"]
        numbers = dict.fromkeys((number, *(_PORTS[each] for each in further)))
        ports = [{"protocol": "TCP", "port": each} for each in numbers]
        try:
            address = ipaddress.ip_network(host)
        except ValueError:
            pass
        else:
            return {"to": [{"ipBlock": {"cidr": str(address)}}], "ports": ports}
        if not _is_inside(host):
            # Policies know no host names, and the addresses behind one change.
            return {"to": ANYWHERE, "ports": ports}
        _, _, rest = host.partition(".")
        namespace = rest.partition(".")[0]
        # A policy sees the pods' own port behind a Service, which the address does not tell.
        pods: Manifest = {"podSelector": {}}
        if namespace:
            pods["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        return {"to": [pods]}


def _is_inside(host: str) -> bool:
    """Return whether a host is a Service of the cluster."""
    return _SERVICE.fullmatch(host) is not None


def _has_port(address: SplitResult) -> bool:
    """Return whether the address has a valid port or none; urlsplit parses it on access."""
    try:
        return address.port != 0
    except ValueError:
        return False


def code_mount() -> Mount:
    """Return the code as the job's own containers see it."""
    return _VOLUME


def source_role(source: GitSource, main: PodArgs, job_name: str) -> Role:
    """Return the one pod of a job that fetches the code and leaves it on the output volume for the others.

    Network policies hold for whole pods: in a pod of its own only this project's program can reach the git server, and
    the user's, which runs for days in the others, cannot.

    Args:
        source: What to fetch.
        main: The pods that run the code.
        job_name: Name of the job's object.
    """
    mounts = [_VOLUME]
    credentials: list[str] = []
    if source.secret:
        secret = {"secret": {"secretName": source.secret, "defaultMode": 0o440}}
        mounts.append(Mount(name="git-credentials", path=_CREDENTIALS_PATH, volume=secret))
        credentials = [f"--credentials_dir={_CREDENTIALS_PATH}"]
    return Role(
        name=SOURCE_ROLE,
        replicas=1,
        pod=helper_pod(main, _RESOURCES),
        command=[*_program(source, job_name), *credentials],
        in_platform_image=True,
        env_from_cluster=_environment(job_name),
        mounts=mounts,
        # It ends long before the others, and once it has, nobody needs it: its loss must not stop them.
        restart="alone",
    )


def take_container(source: GitSource, image: str, job_name: str) -> Container:
    """Return the init container that puts the fetched code into a pod, proven up to the commit.

    Args:
        source: What is fetched.
        image: An image with this project's trainer: the job's own need not know git.
        job_name: Name of the job's object; all pods of a run agree on one commit in /data/output/<job_name>.
    """
    return Container(
        name=CONTAINER,
        image=image,
        command=[*_program(source, job_name), "--take", f"--timeout_seconds={_WAIT_SECONDS}"],
        expanded=(_RUN_VARIABLE,),
        resources=_RESOURCES,
        writes_output=False,
        env_from_cluster=[_RUN],
        mounts=[_VOLUME],
    )


def _program(source: GitSource, job_name: str) -> list[str]:
    branch = source.branch or (None if source.tag or source.commit else _DEFAULT_BRANCH)
    references = (("branch", branch), ("tag", source.tag), ("commit", source.commit))
    flags = {
        "repository": source.repository,
        **{name: value for name, value in references if value is not None},
        "destination": CODE_PATH,
        "record": f"{OUTPUT_PATH}/{job_name}/source.json",
        "run": f"$({_RUN_VARIABLE})",
        "store": f"{OUTPUT_PATH}/{job_name}/source",
        **({"subdirectory": source.subdirectory} if source.subdirectory else {}),
    }
    return ["python3", "-m", "trainer.source", *(f"--{name}={value}" for name, value in flags.items())]


def _environment(job_name: str) -> list[Manifest]:
    """Return the variable of the commit that was chosen for another run of the job."""
    chosen = {"configMapKeyRef": {"name": commit_choice(job_name), "key": COMMIT_KEY, "optional": True}}
    return [_RUN, {"name": COMMIT_VARIABLE, "valueFrom": chosen}]
