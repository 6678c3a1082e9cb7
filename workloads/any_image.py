"""Mounts for images that expect root, to run as our user on a read-only root: an account, a home, a temporary folder.

It also mounts the module athanor_run, which every program may import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.run_module import RUN_MODULE_OBJECT
from workloads.pods import OUTPUT_PATH, USER_ID, Mount

if TYPE_CHECKING:
    from infra.manifests import Manifest

HOME = "/tmp"  # noqa: S108 - inside the container
"""Home of every job's containers: caches (torch.hub, ~/.cache) and Open MPI's daemon need a writable one."""
WORKING_DIRECTORY = f"{HOME}/working-directory"
"""Folder in which programs start if the image's own working directory cannot be written."""
_USERS = "athanor.dev/passwd"
_SYSTEM_ACCOUNTS = {
    0: "root:x:0:0:root:/:/bin/sh\n",
    100: "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n",
    65534: "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
}
"""Accounts by user id."""


def account_annotations(user: int | None) -> dict[str, str]:
    """Return the annotation of a pod that ACCOUNTS shows as a file.

    Args:
        user: Id that the job runs as, if it is not the platform's user.
    """
    accounts = "".join(_SYSTEM_ACCOUNTS.values()) + f"athanor:x:{USER_ID}:{USER_ID}::{HOME}:/bin/sh\n"
    if user not in {None, USER_ID, *_SYSTEM_ACCOUNTS}:
        accounts += f"user:x:{user}:{USER_ID}::{HOME}:/bin/sh\n"
    return {_USERS: accounts}


def annotation_volume(annotation: str, path: str) -> Manifest:
    """Return a volume with one file: the text of an annotation of the pod."""
    field = {"fieldPath": f"metadata.annotations['{annotation}']"}
    return {"downwardAPI": {"items": [{"path": path, "fieldRef": field}]}}


ACCOUNTS = Mount(name="accounts", path="/etc/passwd", volume=annotation_volume(_USERS, "passwd"), sub_path="passwd")
"""The image's list of users does not have ours: getpass, ssh and sshd refuse one without an entry."""

_MODULES = "/etc/athanor/python"
MODULES = Mount(name="athanor-run", path=_MODULES, volume={"configMap": {"name": RUN_MODULE_OBJECT, "optional": True}})
"""athanor_run, of the platform's release; a platform of an earlier one has none, which must not stop a pod."""
_IMPORT = f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{_MODULES}"; '
"""Import path set in a shell, since a variable of the pod would replace the image's own PYTHONPATH."""
_MOVE = (
    f'[ -w . ] || {{ to={WORKING_DIRECTORY}; mkdir -p "$to"; for each in "$PWD"/* "$PWD"/.[!.]*; do '
    '[ -e "$each" ] && ln -s "$each" "$to/" 2>/dev/null; done; cd "$to"; }; '
)
_CACHES = {
    "XDG_CACHE_HOME": "",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "TRITON_CACHE_DIR": "triton",
    "CUDA_CACHE_PATH": "cuda",
    "PIP_CACHE_DIR": "pip",
}
"""Variables that name folders of caches. Sources: freedesktop.org, "XDG Base Directory Specification"; torch 2.15,
torch/_inductor/runtime/cache_dir_utils.py; Triton 3, python/triton/knobs.py; CUDA C++ Programming Guide, "CUDA
Environment Variables"; pip, "Caching"."""


def cache_variables(name: str | None) -> dict[str, str]:
    """Return the variables that let programs keep caches in a folder of the volume `output`; none without a name."""
    if name is None:
        return {}
    return {variable: f"{OUTPUT_PATH}/caches/{name}/{folder}".rstrip("/") for variable, folder in _CACHES.items()}


PACKAGES_FOLDER, PACKAGES = f"{OUTPUT_PATH}/.packages", f"{HOME}/.packages"
"""Folder of the Python packages of all jobs, and link by which a pod finds its own."""
IMPORT_PACKAGES = (
    f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{PACKAGES}/site-packages" PATH="$PATH:{PACKAGES}/bin"; '
)
RUN = 'exec "$@"'
"""The shell's text that runs its arguments, and leaves their exit code and their signals to them."""


def in_named_directory(run: str = RUN) -> tuple[str, ...]:
    """Return words that run what comes after them where the pod says, with athanor_run among Python's modules.

    Args:
        run: The shell's text that runs its arguments.
    """
    return ("sh", "-c", _IMPORT + run, "start")


def in_writable_directory(run: str = RUN) -> tuple[str, ...]:
    """Return words that run what comes after them in the image's working directory, or in a writable one.

    Only the image knows which directory that is, so no volume can be mounted there; and it would hide what the image
    has: the writable one has links to all of it.

    Args:
        run: The shell's text that runs its arguments.
    """
    return ("sh", "-c", _IMPORT + _MOVE + run, "start")
