"""What other languages write becomes the arguments of a Python program, or is refused in the same words."""

import asyncio

import pulumi
import pytest

from athanor import (
    Autoscaling,
    BatchJobArgs,
    ClaimMount,
    CpuUtilisation,
    GpuMemory,
    HostNetwork,
    MigInstances,
    MPIJobArgs,
    ParameterServers,
    PyTorchJobArgs,
    QueueDepth,
    RefusalError,
    Resources,
    ServedModel,
    Spread,
    TensorFlowJobArgs,
    Together,
    TorchScriptServiceArgs,
    Triton,
)
from athanor.provider.reading import described, platform_outputs, written
from infra.outputs import PlatformOutputs
from tests.tables import each_row

PLATFORM = {
    "contract_version": 1.0, "namespace": "ml", "queue": "training", "data_claim": "d", "output_claim": "o",
    "trainer_image": "t:1",
}  # fmt: skip


@each_row(
    ("given", "meant"),
    [
        # numbers come as floats
        ({"command": ["a"], "pods": 3.0, "env": {"A": "1"}}, BatchJobArgs(command=("a",), pods=3, env={"A": "1"})),
        (
            {
                "program": ["train.py"],
                "workers": 2.0,
                "minimumWorkers": 1.0,
                "numaBinding": None,
                "resources": {"gpus": 8.0, "sharedMemory": "1Gi"},
                "network": {"hostNetwork": {"portOffset": 3.0}},
                "volumes": [{"claim": "c", "path": "/scratch", "readOnly": True}],
                "spread": {"over": "zones"},
                "together": {},
            },
            PyTorchJobArgs(
                program=("train.py",),
                workers=2,
                minimum_workers=1,
                resources=Resources(gpus=8, shared_memory="1Gi"),
                network=HostNetwork(port_offset=3),
                volumes=(ClaimMount(claim="c", path="/scratch", read_only=True),),
                spread=Spread(over="zones"),
                together=Together(),
            ),
        ),
        (
            {"program": ["a"], "workers": 1.0, "slotsPerWorker": 1.0, "bindTo": "core"},
            MPIJobArgs(program=("a",), workers=1, slots_per_worker=1, bind_to="core"),
        ),
        (
            {"program": ["a"], "workers": 1.0, "parameterServers": {"replicas": 2.0}},
            TensorFlowJobArgs(program=("a",), workers=1, parameter_servers=ParameterServers(replicas=2)),
        ),
        (
            {"model": "m", "autoscaling": {"maximum": 3.0, "targets": [{"cpuUtilisation": {}}, {"queueDepth": {}}]}},
            TorchScriptServiceArgs(
                model="m", autoscaling=Autoscaling(maximum=3, targets=(CpuUtilisation(), QueueDepth()))
            ),
        ),
        (
            {"models": [{"model": "a", "maxQueueSize": 8.0}, {"model": "b"}]},
            TorchScriptServiceArgs(models=(ServedModel(model="a", max_queue_size=8), ServedModel(model="b"))),
        ),
        (
            {"model": "m", "runtime": {"triton": {}}, "resources": {"gpuShare": {"gpuMemory": {"gib": 8.0}}}},
            TorchScriptServiceArgs(model="m", runtime=Triton(), resources=Resources(gpus=GpuMemory(gib=8))),
        ),
        (
            {"command": ["a"], "resources": {"gpuShare": {"migInstances": {"profile": "1g.10gb"}}}},
            BatchJobArgs(command=("a",), resources=Resources(gpus=MigInstances(profile="1g.10gb"))),
        ),
    ],
    ids=lambda each: "" if isinstance(each, dict) else type(each).__name__,
)
def test_it_is_what_a_python_program_would_create(given, meant):
    assert described(type(meant), given) == meant


@each_row(
    ("given", "in_python"),
    [
        ({}, {}),
        ({"program": [], "workers": 1.0}, {"program": (), "workers": 1}),
        ({"program": ["a"], "workers": 2.5}, {"program": ("a",), "workers": 2.5}),
        ({"program": ["a"], "workers": "2"}, {"program": ("a",), "workers": "2"}),
        ({"program": "a b", "workers": 1.0}, {"program": "a b", "workers": 1}),
        ({"program": ["a"], "workers": 1.0, "epoks": 3.0}, {"program": ("a",), "workers": 1, "epoks": 3.0}),
        ({"program": ["a"], "workers": 1.0, "env": {"A": 1.0}}, {"program": ("a",), "workers": 1, "env": {"A": 1}}),
        ({"program": ["a"], "workers": 0.0}, {"program": ("a",), "workers": 0}),
    ],
)
def test_a_refusal_has_the_words_of_a_python_program(given, in_python):
    with pytest.raises(RefusalError) as expected:
        PyTorchJobArgs(**in_python)
    with pytest.raises(RefusalError) as refused:
        described(PyTorchJobArgs, given)
    assert str(refused.value) == str(expected.value)


@each_row("network", [{}, {"sharedEni": {}, "hostNetwork": {}}, {"wifi": {}}, "sharedEni"])
def test_one_network_is_chosen(network):
    with pytest.raises(RefusalError, match=r"network = .*: must have exactly one of sharedEni, trunkEni"):
        described(BatchJobArgs, {"command": ["a"], "network": network})


def test_gpus_are_whole_or_shared():
    with pytest.raises(RefusalError, match=r"gpuShare = .*: says the same as gpus"):
        described(Resources, {"gpus": 1.0, "gpuShare": {"sharedGpu": {}}})


def test_what_decides_structure_must_be_plain():
    async def read():  # outputs need an event loop
        described(BatchJobArgs, {"command": ["a"], "env": pulumi.Output.secret({"A": "hidden"})})

    with pytest.raises(RefusalError, match=r"env = <pulumi.output.Output object at .*: must be a mapping"):
        asyncio.run(read())


def test_a_platform_arrives_as_it_was_read():
    assert platform_outputs(written(PLATFORM)) == PlatformOutputs(**{**PLATFORM, "contract_version": 1})


def test_a_platform_of_a_newer_contract_is_refused():
    with pytest.raises(RefusalError, match="supports contracts up to"):
        platform_outputs(written({**PLATFORM, "contract_version": 2.0}))


@each_row("given", ["prod", ["prod"], 3.0])
def test_another_value_than_a_platform_is_refused(given):
    with pytest.raises(RefusalError, match=r"outputs of the property platform = .*: are not outputs by their names"):
        platform_outputs(given)
