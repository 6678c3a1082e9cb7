import os
from pathlib import Path

from tools.local_cluster.layout import Layout
from tools.local_cluster.node import Node
from tools.local_cluster.node_init import bound_logs, reap_children


def test_long_logs_are_cut_under_their_writers(tmp_path: Path) -> None:
    log, short = tmp_path / "etcd.log", tmp_path / "kubelet.log"
    short.write_text("short")
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 101)
        bound_logs(tmp_path, limit_bytes=100)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "etcd.log.1").read_bytes() == b"x" * 101
    assert short.read_text() == "short"


def test_ended_children_are_reaped() -> None:
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        pids.append(pid)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    reap_children()
    for pid in pids:
        assert not os.path.exists(f"/proc/{pid}")  # noqa: PTH110


def test_only_the_exact_arguments_make_a_node(tmp_path: Path) -> None:
    node = Node(Layout(name="local", folder=tmp_path / "local"))
    config = str(tmp_path / "local" / "node.json")
    assert node._is_our_init(("/x/python", "-I", "-S", "/repository/tools/local_cluster/node_init.py", config))
    assert not node._is_our_init(("/x/python", "node_init.py", str(tmp_path / "other" / "node.json")))
    assert not node._is_our_init(("less", config))
    assert not node._is_our_init(("/pause",))
    assert not node._is_our_init(())
