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
    from collections.abc import Callable, Sequence

    from athanor.runs.cluster import Cluster
    from athanor.runs.copy import Place
    from infra.outputs import PlatformOutputs

_IN_POD = f"""
import json, os, pathlib, shutil, sys, threading, time
path, deletes = sys.argv[1], sys.argv[2] == "delete"

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

threading.Thread(target=beat, daemon=True).start()
is_folder = os.path.isdir(path) and not os.path.islink(path)
answer = {{"exists": os.path.lexists(path), "entries": [], "left": []}}
if answer["exists"] and deletes:
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
    if delete:
        _check_may_go(cluster, words, place)
    with VolumePods(cluster, platform) as pods:
        answer = pods.through(place, lambda prefix: _asked(prefix, place.path, "delete" if delete else "list"))
    if not answer["exists"]:
        raise RefusalError("PLACE", words, f"there is no {place.path}", "list the folder above it")
    if left := answer["left"]:
        limit = f"{len(left)} of its files could not be deleted, the first: {printable(left[0])}"
        fix = "delete them as the user that wrote them, by a run with --run-as-user"
        raise RefusalError("PLACE", words, limit, fix)
    return {"path": place.path, **({"state": "deleted"} if delete else {"entries": answer["entries"]})}


def _check_may_go(cluster: Cluster, words: str, place: Place) -> None:
    """Refuse to delete a whole volume, or what a job writes that has not ended."""
    if place.path in VOLUMES.values():
        raise RefusalError("PLACE", words, "is a whole volume", "name what is to be deleted in it")
    path = PurePosixPath(place.path)
    if not path.is_relative_to(OUTPUT_PATH):
        return
    folder = path.relative_to(OUTPUT_PATH).parts[0]
    for job in cluster.items(JOBS, JOB_LABEL):
        if phase_of(job) not in ENDED and output_folder(job) == folder:
            name = job["metadata"]["labels"][JOB_LABEL]
            limit = f"is of run {name}, which is {phase_of(job)}"
            raise RefusalError("PLACE", words, limit, f"wait until it has ended, or `athanor delete {name}` first")


def _asked(prefix: Sequence[str], path: str, act: str) -> dict[str, Any]:
    """Return the answer of the program in a pod.

    Raises:
        NoGreetingError: the pod cannot run it.
    """
    words = [*prefix, "python3", "-c", _IN_POD, path, act]
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
