// A training job on a platform that another stack owns.

import * as athanor from "@pulumi/athanor";
import * as pulumi from "@pulumi/pulumi";

const config = new pulumi.Config();

const platform = new athanor.Platform("platform", { stack: config.require("platformStack") });

const training = new athanor.PyTorchJob("typescript-training", {
    platform: platform.contract,
    kubeconfig: config.requireSecret("kubeconfig"),
    program: [
        "-m", "trainer.train",
        "--data_dir=/data/data",
        "--output_dir=/data/output",
        "--run_name=$(ATHANOR_JOB)",
        "--model_name=typescript-digits",
        "--epochs=1",
    ],
    prepare: ["python3", "-m", "trainer.prepare_data", "--data_dir=/data/data"],
    workers: 1,
    resources: { cpu: "250m", memory: "2Gi" },
});

export const training_job = training.jobName;
