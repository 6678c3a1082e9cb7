"""The thread that looks at the repository outlives clients that ask it for something and leave."""

import threading

from tests.tables import each_row
from tests.waiting import PATIENCE_SECONDS
from trainer.serve.loader import Snapshot
from trainer.serve.watcher import RepositoryWatcher

EMPTY = Snapshot(models={}, unavailable={})


class Loader:
    """Looks at the repository for as long as the test wants."""

    def __init__(self):
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.unloads = 0

    def sync(self):
        self.began.release()
        assert self.may_end.acquire(timeout=PATIENCE_SECONDS)
        return EMPTY

    load = sync

    def unload(self):
        self.unloads += 1
        return EMPTY

    def wait_until_it_looks(self):
        assert self.began.acquire(timeout=PATIENCE_SECONDS)


@each_row("begun", [False, True])
def test_a_client_that_leaves_during_a_load_takes_nothing_from_the_next(begun):
    loader = Loader()
    watcher = RepositoryWatcher(loader, poll_interval_seconds=None)
    watcher.start()
    loader.wait_until_it_looks()
    asked = watcher.load()
    if begun:
        loader.may_end.release()
        loader.wait_until_it_looks()
    assert asked.cancel() is not begun
    loader.may_end.release()
    assert watcher.unload().result(PATIENCE_SECONDS) is EMPTY
    assert loader.unloads == 1
    watcher.stop()
