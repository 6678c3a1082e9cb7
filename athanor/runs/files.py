"""`athanor files`: lists or deletes a folder on the platform's volumes, such as that of a finished run."""

from __future__ import annotations

import json
import subprocess
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from athanor.inspection.control_characters import printable
from athanor.inspection.objects import JOBS
from athanor.runs.copy import VOLUMES, VolumePods, place_of
from athanor.runs.job import ENDED, phase_of
from athanor.runs.rerun import output_folder
from athanor.runs.tar_stream import ALIVE
from athanor.runs.transfer import NoGreetingError
from infra.errors import RefusalError
from infra.workload_labels import JOB_LABEL
from workloads.pods import OUTPUT_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.copy import Place
    from infra.outputs import PlatformOutputs

_IN_POD = f"""
import json, os, pathlib, shutil, sys, threading, time
path, deletes, volumes, busy = sys.argv[1], sys.argv[2] == "delete", json.loads(sys.argv[3]), json.loads(sys.argv[4])

def beat():
    while True:
        pathlib.Path({str(ALIVE)!r}).touch()
        time.sleep(60)

def entry(place):
    inside = [os.path.join(top, name) for top, _, names in os.walk(place) for name in names]
    stats = [os.lstat(each) for each in [place, *inside]]
    size = sum(each.st_size for each in (stats[1:] if os.path.isdir(place) else stats[:1]))
    newest = max(each.st_mtime for each in stats)
    modified = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(newest))
    return {{"name": os.path.basename(place), "bytes": size, "modified": modified}}

def inside(place, folder):
    return os.path.commonpath([place, folder]) == folder

threading.Thread(target=beat, daemon=True).start()
is_folder = os.path.isdir(path) and not os.path.islink(path)
# Where the links on the way lead; one that is named itself is deleted as a link.
real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
held = [each for each in busy if inside(real, os.path.realpath(each)) or inside(os.path.realpath(each), real)]
outside = not any(inside(real, each) and real != each for each in map(os.path.realpath, volumes))
answer = {{"exists": os.path.lexists(path), "entries": [], "left": [], "real": real, "held": held, "outside": outside}}
if deletes and (held or outside):
    pass
elif answer["exists"] and deletes:
    fail = lambda _call, _place, error: answer["left"].append(str(error[1]))
    shutil.rmtree(path, onerror=fail) if is_folder else os.unlink(path)
elif answer["exists"]:
    places = sorted(each.path for each in os.scandir(path)) if is_folder else [path]
    answer["entries"] = [entry(each) for each in places]
print(json.dumps(answer))
"""


def files(
    cluster: Cluster,
    platform: PlatformOutputs,
    words: str,
    job_of_run: Callable[[str], tuple[str, str]],
    *,
    delete: bool,
) -> dict[str, Any]:
    """List a folder of a volume, or delete it.

    Args:
        cluster: The cluster, in the workloads' namespace.
        platform: Whose volumes they are.
        words: RUN, RUN:PATH, data:PATH or output:PATH.
        job_of_run: As for `athanor.runs.copy.read_copy`.
        delete: Whether it is deleted, with all that is in it.

    Returns:
        `path`, and of a list `entries`: name, bytes and time of the latest change, of folders with all that is in them.

    Raises:
        RefusalError: it does not exist, may not be deleted, or no pod could run.
    """
    place = place_of(words if ":" in words else f"{words}:", job_of_run)
    if place is None:
        fix = "write RUN, RUN:PATH, data:PATH or output:PATH"
        raise RefusalError("PLACE", words, "is neither a run nor a path in a volume", fix)
    busy = _busy(cluster, words, place) if delete else {}
    with VolumePods(cluster, platform) as pods:
        answer = pods.through(place, lambda prefix: _asked(prefix, place.path, "delete" if delete else "list", busy))
    if delete and (answer["held"] or answer["outside"]):
        of = busy[answer["held"][0]] if answer["held"] else "no file or folder in a volume"
        limit = f"leads through a link to {printable(answer['real'])}, which is {of}"
        raise RefusalError("PLACE", words, limit, "name what is to be deleted without links")
    if not answer["exists"]:
        raise RefusalError("PLACE", words, f"there is no {place.path}", "list the folder above it")
    if left := answer["left"]:
        limit = f"{len(left)} of its files could not be deleted, the first: {printable(left[0])}"
        fix = "delete them as the user that wrote them, by a run with --run-as-user"
        raise RefusalError("PLACE", words, limit, fix)
    return {"path": place.path, **({"state": "deleted"} if delete else {"entries": answer["entries"]})}


def _busy(cluster: Cluster, words: str, place: Place) -> dict[str, str]:
    """Return whose the folders are that jobs write which have not ended, by their paths.

    Raises:
        RefusalError: a whole volume is to be deleted, or what one of these jobs writes.
    """
    if place.path in VOLUMES.values():
        raise RefusalError("PLACE", words, "is a whole volume", "name what is to be deleted in it")
    busy: dict[str, str] = {}
    for job in cluster.items(JOBS, JOB_LABEL):
        if phase_of(job) in ENDED:
            continue
        folder, name = PurePosixPath(OUTPUT_PATH) / output_folder(job), job["metadata"]["labels"][JOB_LABEL]
        busy[str(folder)] = f"of run {name}, which is {phase_of(job)}"
        if PurePosixPath(place.path).is_relative_to(folder):
            fix = f"wait until it has ended, or `athanor delete {name}` first"
            raise RefusalError("PLACE", words, f"is {busy[str(folder)]}", fix)
    return busy


def _asked(prefix: Sequence[str], path: str, act: str, busy: Collection[str] = ()) -> dict[str, Any]:
    """Return the answer of the program in a pod.

    Args:
        prefix: Words of `kubectl exec` up to the command.
        path: What is listed or deleted.
        act: `list` or `delete`.
        busy: Paths that stay, whatever links lead to them.

    Raises:
        NoGreetingError: the pod cannot run it.
    """
    limits = [json.dumps(each) for each in ([*VOLUMES.values()], [*busy])]
    words = [*prefix, "python3", "-c", _IN_POD, path, act, *limits]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoGreetingError(printable(said[-1]) if said else f"kubectl ended with {done.returncode}") from None


def table(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a list for a terminal."""
    sizes = [f"{each['bytes'] / 2**20:,.1f} MiB" for each in entries]
    width = max(map(len, sizes), default=0)
    pairs = zip(sizes, entries, strict=True)
    return [f"{size:>{width}}  {each['modified']}  {printable(each['name'])}" for size, each in pairs]
