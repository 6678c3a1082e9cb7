"""A team's own project: two ways to train a model, and a service that answers with the first one's result."""

import pulumi
import pulumi_kubernetes as kubernetes

from athanor import (
    MPIJob,
    MPIJobArgs,
    Platform,
    PyTorchJob,
    PyTorchJobArgs,
    Resources,
    TorchScriptService,
    TorchScriptServiceArgs,
)

MODEL = "team-digits"
FOLDERS = ("--data_dir=/data/data", "--output_dir=/data/output", "--run_name=$(ATHANOR_JOB)")
DATA = ("python3", "-m", "trainer.prepare_data", "--data_dir=/data/data")

config = pulumi.Config()
cluster = kubernetes.Provider("cluster", kubeconfig=config.require_secret("kubeconfig"))
platform = Platform.from_stack(config.require("platform"), cluster)

training = PyTorchJob(
    "team-training",
    platform,
    PyTorchJobArgs(
        program=("-m", "trainer.train", *FOLDERS, f"--model_name={MODEL}", "--epochs=2"),
        prepare=DATA,
        workers=2,
        resources=Resources(cpu="250m", memory="2Gi"),
    ),
)
MPIJob(
    "team-mpi",
    platform,
    MPIJobArgs(
        program=("python3", "-m", "trainer.mpi_example", *FOLDERS, "--model_name=team-mpi", "--epochs=2"),
        prepare=DATA,
        workers=2,
        slots_per_worker=1,
        resources=Resources(cpu="250m", memory="2Gi"),
    ),
)
service = TorchScriptService(
    MODEL, platform, TorchScriptServiceArgs(model=MODEL, resources=Resources(cpu="100m", memory="1Gi"))
)

pulumi.export("training_job", training.job_name)
pulumi.export("url", service.url)
