"""Which process is the node's first one, with processes of the test's own in its place."""

import dataclasses
import os

import pytest

from tools.local_cluster import node as node_module
from tools.local_cluster import node_init
from tools.local_cluster.layout import Layout
from tools.local_cluster.node import Node
from tools.local_cluster.processes import read_process


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose processes the test decides; counts how often all of them are read."""
    layout = Layout(name="local", folder=tmp_path)
    own = read_process(os.getpid())
    arguments = ("python", node_init.__file__, str(layout.node_config))
    first = dataclasses.replace(own, pid=own.pid + 1, namespace_pids=(own.pid + 1, 1), arguments=arguments)

    class Machine:
        def __init__(self) -> None:
            self.node, self.running, self.scans = Node(layout), [own, first], 0

        def all_processes(self):
            self.scans += 1
            yield from self.running

        def read_process(self, pid):
            return next((process for process in self.running if process.pid == pid), None)

    machine = Machine()
    monkeypatch.setattr(node_module, "all_processes", machine.all_processes)
    monkeypatch.setattr(node_module, "read_process", machine.read_process)
    return machine


def test_the_first_process_is_looked_for_once(machine):
    first = machine.running[-1]
    assert machine.node.init() == machine.node.init() == first
    assert machine.scans == 1


def test_a_number_that_another_process_got_is_not_the_nodes(machine):
    first = machine.running[-1]
    machine.node.init()
    other = dataclasses.replace(first, start_ticks=first.start_ticks + 1, arguments=("sleep",))
    machine.running = [other]
    assert machine.node.init() is None
    again = dataclasses.replace(first, pid=first.pid + 1)
    machine.running = [other, again]
    assert machine.node.init() == again


def test_a_node_that_does_not_run_has_no_components(machine):
    machine.running = []
    assert machine.node.init() is None
    assert machine.node.started() == []
