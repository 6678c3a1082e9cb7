"""NetworkBenchmark: one job per network, equal in everything else, understood by the program in the pods."""

from __future__ import annotations

import dataclasses

import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.pod_network_modes import HostNetwork, SharedEni
from infra.rdma import Rdma
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform
from trainer.network_benchmark.config import parse
from workloads.network_benchmark import Measurement, NetworkBenchmark, NetworkBenchmarkArgs, benchmark_job
from workloads.resources import Resources

ARGS = NetworkBenchmarkArgs(measurements=(Measurement(), Measurement(network=HostNetwork())))


@each_row(
    ("changes", "words"),
    [
        ({"workers": 1}, ("workers = 1", "2 to 1000")),
        ({"rounds": 0}, ("rounds = 0",)),
        ({"maximum_mebibytes": 0}, ("maximum_mebibytes = 0",)),
        ({"measurements": ()}, ("measurements = []", "at least one")),
        ({"measurements": (Measurement(), Measurement(pool="other"))}, ("measurements", "each only once")),
        ({"network": HostNetwork()}, ("network", "Measurement(network=…)")),
        ({"rdma": Rdma()}, ("rdma", "Measurement(rdma=…)")),
        ({"prepare": ("prepare",)}, ("prepare", "synthetic")),
    ],
)
def test_what_measures_nothing_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        dataclasses.replace(ARGS, **changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_the_jobs_differ_in_the_network_alone():
    first, second = (benchmark_job("net", measurement, ARGS) for measurement in ARGS.measurements)
    assert (first.network, second.network) == (SharedEni(), HostNetwork())
    assert "--network=shared-eni" in first.program
    renamed = [word.replace("host-network", "shared-eni") for word in second.program]
    assert renamed == list(first.program)
    assert dataclasses.replace(second, network=SharedEni(), program=first.program) == first


def test_the_program_in_the_pods_understands_its_command():
    args = dataclasses.replace(ARGS, resources=Resources(gpus=8), processes_per_worker=8, maximum_mebibytes=256)
    job = benchmark_job("net", args.measurements[0], args)
    assert job.program[:2] == ("-m", "trainer.network_benchmark")
    parsed = parse([word.replace("$(ATHANOR_JOB)", "net-0123abcd") for word in job.program[2:]])
    assert (parsed.max_bytes, parsed.distributed.num_gpu, str(parsed.output_dir)) == (2**28, 8, "/data/output/net")


def test_the_program_decides_how_far_it_measures_unless_a_size_is_given():
    assert "max_bytes" not in " ".join(
        benchmark_job("net", ARGS.measurements[0], dataclasses.replace(ARGS, maximum_mebibytes=None)).program
    )


def test_one_job_per_network_is_declared():
    def program() -> None:
        platform = dataclasses.replace(plain_platform(), offers=PlatformOffers(pod_security="privileged"))
        NetworkBenchmark("net", platform, ARGS)

    recording = record(program, preview=False)
    assert {job.name for job in recording.of_kind("Job")} == {"net-shared-eni", "net-host-network"}
    [benchmark] = recording.of_type("athanor:workloads:NetworkBenchmark")
    assert {job.parent for job in recording.of_type("athanor:workloads:PyTorchJob")} == {benchmark.urn}
    names = {job.inputs["metadata"]["name"] for job in recording.of_kind("Job")}
    assert set(benchmark.outputs["job_names"]) == {"shared-eni", "host-network"}
    assert set(benchmark.outputs["job_names"].values()) == names


def test_a_measurement_may_name_a_pool_and_shares_everything_else():
    args = dataclasses.replace(
        ARGS, pool="common", resources=Resources(gpus=2), processes_per_worker=2, deadline_seconds=60
    )
    special, common = (benchmark_job("net", Measurement(pool=pool), args) for pool in ("special", None))
    assert (special.pool, common.pool) == ("special", "common")
    assert (special.processes_per_worker, special.deadline_seconds, special.resources.gpus) == (2, 60, 2)


def test_a_name_too_long_for_one_of_its_jobs_is_refused():
    with pytest.raises(RefusalError, match="benchmark name"):
        record(lambda: NetworkBenchmark("a" * 35, plain_platform(), ARGS), preview=False)
