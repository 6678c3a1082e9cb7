from pathlib import Path

from tools.local_cluster import cgroups


def test_version_1(tmp_path: Path) -> None:
    for name in ("cpu,cpuacct", "cpuset", "memory", "pids"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    assert cgroups.available_controllers(tmp_path) == {"cpu", "cpuacct", "cpuset", "memory", "pids"}
    joins = cgroups.create("athanor-x", tmp_path)
    # a process cannot join a cpuset without CPUs
    assert {str(join.relative_to(tmp_path)) for join in joins} == {
        f"{hierarchy}/athanor-x/components/cgroup.procs" for hierarchy in ("cpu,cpuacct", "memory", "pids")
    }
    assert (tmp_path / "cpuset" / "athanor-x").is_dir(), "the kubelet wants its parent in every hierarchy"
    (tmp_path / "memory" / "athanor-x" / "kubepods" / "pod1").mkdir(parents=True)
    (tmp_path / "memory" / "athanor-xy").mkdir()
    assert len(cgroups.existing("athanor-x", tmp_path)) == 4
    cgroups.remove("athanor-x", tmp_path)
    assert cgroups.existing("athanor-x", tmp_path) == []
    assert (tmp_path / "memory" / "athanor-xy").is_dir()
    cgroups.remove("athanor-x", tmp_path)


def test_version_2(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "athanor-x"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids rdma\n")
    assert cgroups.is_unified(tmp_path)
    assert cgroups.available_controllers(tmp_path) >= {"cpu", "cpuset", "memory", "pids"}
    joins = cgroups.create("athanor-x", tmp_path)
    assert joins == [tmp_path / "athanor-x" / "components" / "cgroup.procs"]
    for folder in (tmp_path, tmp_path / "athanor-x"):
        assert (folder / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids +io"


def test_a_machine_without_cgroups_has_no_controllers(tmp_path: Path) -> None:
    assert cgroups.available_controllers(tmp_path / "missing") == set()
