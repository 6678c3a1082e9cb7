"""What a worker of an elastic job runs in its pod: torchrun, and an end for the worker that comes too late.

`workloads/pytorch.py` sends this text along, so that it works in any image that has torch. Arguments: `host:port` of
the rendezvous store, then torchrun's own.

A worker that is asked to stop ends with 143, which Volcano does not take for a failure (`workloads/roles.py`): torchrun
ends with 1 then, as after any failure.

A worker whose pod starts when the others have finished finds the rendezvous closed. torchrun calls that an error, and
the job would fail with its work done. But it is closed after a failure, too: so those who finish say so in the store.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from datetime import timedelta

gc.disable()  # a sixth of the time of the following imports would be collections that find nothing

from torch.distributed import TCPStore  # noqa: E402  # pyright: ignore[reportPrivateImportUsage]  torch's documented name
from torch.distributed.elastic.multiprocessing.api import SignalException  # noqa: E402
from torch.distributed.elastic.rendezvous.api import RendezvousClosedError  # noqa: E402
from torch.distributed.run import main  # noqa: E402  # pyright: ignore[reportUnknownVariableType]  torch has no types for it

gc.freeze()
gc.enable()

FINISHED = "athanor/finished"


def store(endpoint: str) -> TCPStore:
    """Return the store that the rendezvous of the job is kept in."""
    host, port = endpoint.rsplit(":", 1)
    return TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=30))


if __name__ == "__main__":
    endpoint = sys.argv.pop(1)
    try:
        main()
    except SignalException as stopped:
        print(f"stopped: {stopped}", file=sys.stderr)
        sys.exit(128 + stopped.sigval)
    except RendezvousClosedError:
        if not store(endpoint).check([FINISHED]):
            raise
        print("the other workers have finished the job without this one", file=sys.stderr)
    else:
        # The work is done: a store that is gone by now must not turn that into a failure.
        with suppress(RuntimeError):
            store(endpoint).set(FINISHED, "1")
