"""HTTP clients that leave before the answer: what they asked for is not run."""

import asyncio

import numpy as np
import tritonclient.http as triton
import tritonclient.http.aio as triton_async

IMAGE = np.ones((1, 1, 8, 8), np.float32)
FAILURES = "nv_inference_request_failure"
CANCELED = ',reason="CANCELED"'
PENDING = "nv_inference_pending_request_count"


def triton_input(value):
    image = triton.InferInput("image", list(IMAGE.shape), "FP32")
    image.set_data_from_numpy(IMAGE * value)
    return image


def test_cancelled_request_is_not_run(start, repository, endless):
    """The model is held by one request; one that is cancelled leaves the queue and is counted, never run."""
    repository.publish(1, module=endless)
    server = start()
    server.wait_until("/v2/health/ready")

    async def scenario():
        async with triton_async.InferenceServerClient(server.address) as client:
            held = asyncio.ensure_future(client.infer("digits", [triton_input(100.0)]))
            await asyncio.to_thread(server.wait_until_metric, "athanor_running_batches", 1)
            left = asyncio.ensure_future(client.infer("digits", [triton_input(1.0)]))
            await asyncio.to_thread(server.wait_until_metric, PENDING, 1)
            left.cancel()
            await asyncio.to_thread(server.wait_until_metric, FAILURES, 1, CANCELED)
            held.cancel()
            await asyncio.to_thread(server.wait_until_metric, FAILURES, 2, CANCELED)
            await asyncio.gather(held, left, return_exceptions=True)

    asyncio.run(scenario())
    assert not [line for line in server.log if "Traceback" in line or "ASGI" in line]
