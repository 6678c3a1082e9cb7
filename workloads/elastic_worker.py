"""What a worker of an elastic job runs in its pod: torchrun, and an end for the worker that comes too late.

`workloads/pytorch.py` sends this text along, so that it works in any image that has torch. Arguments: `host:port` of
the rendezvous store, then torchrun's own.

A worker that is asked to stop ends with 143, which Volcano does not take for a failure (`workloads/roles.py`): torchrun
ends with 1 then, as after any failure.

A worker whose pod starts when the others have finished finds the rendezvous closed. torchrun calls that an error, and
the job would fail with its work done. But it is closed after a failure, too: so those who finish say so in the store.

torchrun starts ranks again whatever they ended with. Here one that ends with 78, which says that it would fail in the
same way again, ends the job: its worker and, by a key of the store, all others end with 78, too.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

gc.disable()  # a sixth of the time of the following imports would be collections that find nothing

from torch.distributed import TCPStore  # noqa: E402  # pyright: ignore[reportPrivateImportUsage]  torch's documented name
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent  # noqa: E402
from torch.distributed.elastic.multiprocessing.api import SignalException  # noqa: E402
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # noqa: E402
from torch.distributed.elastic.rendezvous.api import RendezvousClosedError  # noqa: E402
from torch.distributed.run import main  # noqa: E402  # pyright: ignore[reportUnknownVariableType]  torch has no types for it

gc.freeze()
gc.enable()

FINISHED = "athanor/finished"
NOT_AGAIN = "athanor/not-again"
NOT_AGAIN_EXIT_STATUS = 78


def store(endpoint: str) -> TCPStore:
    """Return the store that the rendezvous of the job is kept in."""
    host, port = endpoint.rsplit(":", 1)
    return TCPStore(host, int(port), is_master=False, timeout=timedelta(seconds=30))


def restart_only_where_that_helps(endpoint: str) -> None:
    """Let torchrun's agent take a rank that says that it would fail again for one that has no restarts left."""
    agents: Any = LocalElasticAgent  # torch has no types for its method
    monitor = agents._monitor_workers  # noqa: SLF001  torch documents it for agents of one's own

    def watch(agent: Any, workers: object) -> object:  # noqa: ANN401
        result = monitor(agent, workers)
        if any(each.exitcode == NOT_AGAIN_EXIT_STATUS for each in result.failures.values()):
            agent._remaining_restarts = 0  # noqa: SLF001  torch 2.15: what _invoke_run counts down
            with suppress(RuntimeError):
                store(endpoint).set(NOT_AGAIN, "1")
        return result

    agents._monitor_workers = watch  # noqa: SLF001


if __name__ == "__main__":
    endpoint = sys.argv.pop(1)
    restart_only_where_that_helps(endpoint)
    try:
        main()
    except SignalException as stopped:
        print(f"stopped: {stopped}", file=sys.stderr)
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as failed:
        if failed.get_first_failure()[1].exitcode != NOT_AGAIN_EXIT_STATUS:
            raise
        sys.exit(NOT_AGAIN_EXIT_STATUS)
    except RendezvousClosedError:
        job = store(endpoint)
        if job.check([NOT_AGAIN]):
            sys.exit(NOT_AGAIN_EXIT_STATUS)
        if not job.check([FINISHED]):
            raise
        print("the other workers have finished the job without this one", file=sys.stderr)
    else:
        # The work is done: a store that is gone by now must not turn that into a failure.
        with suppress(RuntimeError):
            store(endpoint).set(FINISHED, "1")
