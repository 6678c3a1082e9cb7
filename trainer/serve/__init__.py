"""Open Inference Protocol v2 server for TorchScript models in Triton's repository layout.

`python -m trainer.serve --model_repository DIR --model_name NAME`. Who owns what:
    loader    a thread that reads the repository, verifies, loads and warms up versions, and publishes snapshots
    registry  the versions that answer requests; lives on the event loop, so that a swap is one step between requests
    batcher   a queue and worker threads per version
    app       HTTP routes; protocol/ turns bodies into arrays and back
    lifecycle starts and drains all of it
"""
