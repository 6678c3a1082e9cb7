"""Open Inference Protocol v2 server for models of TorchScript and torch.export in Triton's repository layout.

`python -m trainer.serve --model_repository DIR --model_name NAME`. Who owns what:
    loader    a thread per model that reads the repository, decides what is loaded, and publishes snapshots
    local_models  verifies, loads and warms up versions: in the server, or in the process of one of several (worker)
    model_worker  the process of a model, seen from the server: started, called, and started again when it dies
    models, registry  the versions that answer requests; live on the event loop, so that a swap is one step
    batcher   a queue and threads that call the model, per version
    app       HTTP routes; protocol/ turns bodies into arrays and back
    shadow    sends a share of the answered requests to another server, in a thread, and compares the answers
    lifecycle starts and drains all of it
"""
