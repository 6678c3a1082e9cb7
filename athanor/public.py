"""All names that a program imports from `athanor`, which looks them up here."""

from athanor.sweep.component import Sweep, SweepArgs
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs
from infra.platform import Platform
from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni, TrunkEni
from infra.rdma import Rdma
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu, WholeGpus
from workloads.autoscaling import Autoscaling, CpuUtilisation, LatencyP99, PodsMetric, QueueDepth
from workloads.batch import BatchJob, BatchJobArgs
from workloads.canary import Canary
from workloads.checkpoints import Checkpoints
from workloads.compression import Compression
from workloads.egress import Egress
from workloads.exposure import Expose, OidcAuth, RateLimit, TokenAuth
from workloads.git_source import GitSource
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.job_secrets import SecretFiles
from workloads.local_folder import LocalFolder
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.network_benchmark import Measurement, NetworkBenchmark, NetworkBenchmarkArgs
from workloads.parallel import Parallel
from workloads.placement import Spread, Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.served_models import ServedModel
from workloads.shadow import Shadow
from workloads.tensorflow import ParameterServers, TensorFlowJob, TensorFlowJobArgs
from workloads.topology import Together
from workloads.tracing import Tracing
from workloads.triton import Thin, Triton

__all__ = [
    "Autoscaling",
    "BatchJob",
    "BatchJobArgs",
    "Canary",
    "Checkpoints",
    "ClaimMount",
    "Compression",
    "CpuUtilisation",
    "Egress",
    "ExclusiveEni",
    "Expose",
    "GitSource",
    "GpuMemory",
    "HostNetwork",
    "LatencyP99",
    "LocalFolder",
    "MPIJob",
    "MPIJobArgs",
    "Measurement",
    "MigInstances",
    "NetworkBenchmark",
    "NetworkBenchmarkArgs",
    "OidcAuth",
    "Parallel",
    "ParameterServers",
    "Platform",
    "PlatformOutputs",
    "PodsMetric",
    "PyTorchJob",
    "PyTorchJobArgs",
    "QueueDepth",
    "RateLimit",
    "Rdma",
    "RefusalError",
    "Resources",
    "SecretFiles",
    "ServedModel",
    "Shadow",
    "SharedEni",
    "SharedGpu",
    "Spread",
    "Sweep",
    "SweepArgs",
    "TensorFlowJob",
    "TensorFlowJobArgs",
    "Thin",
    "Together",
    "TokenAuth",
    "Toleration",
    "TorchScriptService",
    "TorchScriptServiceArgs",
    "Tracing",
    "Triton",
    "TrunkEni",
    "WholeGpus",
]
