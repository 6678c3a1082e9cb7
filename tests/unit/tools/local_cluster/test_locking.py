import threading
from pathlib import Path

from tools.local_cluster.cluster import exclusive


def is_waited_for(file: Path) -> bool:
    """Tell whether somebody waits for a file's lock (proc_locks(5): "->" marks who is blocked)."""
    inode = f":{file.stat().st_ino}"
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and line.split()[6].endswith(inode) for line in lines)


def test_a_lock_survives_the_removal_of_its_folder(tmp_path: Path) -> None:
    """Who waits for a `down` gets the lock of the new folder, not of the removed file."""
    folder = tmp_path / "cluster"
    entered = threading.Event()

    def wait_for_lock() -> None:
        with exclusive(folder):
            entered.set()
            assert (folder / "lock").exists()

    with exclusive(folder):
        waiter = threading.Thread(target=wait_for_lock)
        waiter.start()
        while not is_waited_for(folder / "lock"):
            assert waiter.is_alive()
        (folder / "lock").unlink()
        folder.rmdir()
        assert not entered.is_set()
    waiter.join(timeout=30)
    assert entered.is_set()


def test_the_lock_is_exclusive(tmp_path: Path) -> None:
    inside: list[int] = []
    seen: list[int] = []

    def work() -> None:
        for _ in range(50):
            with exclusive(tmp_path):
                inside.append(1)
                seen.append(len(inside))
                inside.pop()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(seen) == {1}
