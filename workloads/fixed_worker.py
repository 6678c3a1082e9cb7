"""What a worker of a job with a fixed number of workers runs in its pod: torchrun, and a store until all have left.

`workloads/pytorch.py` sends this text along, so that it works in any image that has torch. Arguments: worker 0's host
and port, this worker's number, the number of workers, then torchrun's own.

It ends as the rank that failed first did, such as with 78 if that would fail in the same way again. torchrun ends with
1 whatever its ranks ended with, and prints a traceback of its own behind theirs.

When their ranks have finished, the torchruns wait for each other in a store that worker 0 holds. If worker 0 ends
while the last one still asks, that one prints a traceback at the end of a run in which nothing failed (torch 2.15,
`_exit_barrier` in torch/distributed/elastic/agent/server/api.py).
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from datetime import timedelta

gc.disable()  # a sixth of the time of the following imports would be collections that find nothing

from torch.distributed import TCPStore  # noqa: E402  # pyright: ignore[reportPrivateImportUsage]  torch's documented name
from torch.distributed.elastic.multiprocessing.api import SignalException  # noqa: E402
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: E402
from torch.distributed.run import main  # noqa: E402  # pyright: ignore[reportUnknownVariableType]  torch has no types for it

gc.freeze()
gc.enable()

LEFT = "athanor/left"
ALL_LEFT = "athanor/all-left"
PATIENCE = timedelta(seconds=10)


def hold_store(port: int) -> TCPStore:
    """Return a store at this port; the one that torchrun creates in this process is the same, for `multi_tenant`."""
    return TCPStore("localhost", port, is_master=True, wait_for_workers=False, multi_tenant=True)


def leave(host: str, port: int, others: int) -> None:
    """Tell worker 0 that this worker needs the store no longer."""
    store = TCPStore(host, port, is_master=False, timeout=PATIENCE)
    if store.add(LEFT, 1) == others:
        store.set(ALL_LEFT, "1")


def run() -> None:
    """Run torchrun; end as its ranks do, and where it is asked to end, with the status that says so."""
    try:
        main()
    except SignalException as stopped:
        print(f"stopped: {stopped}", file=sys.stderr)
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        # Of one that a signal ended, the number is the signal's, negative.
        code = failure.exitcode if failure.exitcode > 0 else 128 - failure.exitcode
        print(f"rank {rank} failed with exit code {code}", file=sys.stderr)
        sys.exit(code)


if __name__ == "__main__":
    host, port, number, workers = sys.argv[1], *map(int, sys.argv[2:5])
    del sys.argv[1:5]
    held = hold_store(port) if number == 0 and workers > 1 else None
    run()
    # The work is done: a worker that is gone by now must not turn that into a failure.
    with suppress(RuntimeError):
        if held:
            held.wait([ALL_LEFT], PATIENCE)
        elif number > 0:
            leave(host, port, workers - 1)
