"""Errors as torch 2.15 words them, and the reason in each."""

from tests.tables import each_row
from trainer.model_repository import torch_error

CODE = """  File "code/__torch__.py", line 8
    y = ops.torchvision.nms(x, x, 0.5)
        ~~~~~~~~~~~~~~~~~~~ <--- HERE
    return y

"""
TRACE = (
    "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript, serialized code (most "
    f"recent call last):\n{CODE}Traceback of TorchScript, original code (most recent call last):\n{CODE}"
)
CHECK = (
    "Tracing failed sanity checks!\nERROR: Tensor-valued Constant nodes differed in value across invocations.\n\tNode:"
)
CONSTRAINTS = """Constraints violated (batch)! For more information, run with TORCH_LOGS="+dynamic".
  - You marked batch as dynamic but your code specialized it to be a constant (2). Remove it.
Suggested fixes:
  batch = 2"""
BRANCH = """Could not guard on data-dependent expression Eq(u0, 1).  (Size-like symbols: none)

The following call raised this error:
  File "net.py", line 8, in forward
    if x.sum() > 0:
"""


@each_row(
    ("error", "reason"),
    [
        (RuntimeError(f"\nUnknown builtin op: torchvision::nms.\nCould not find any.\n:\n{CODE}"), "torchvision::nms"),
        (RuntimeError(f"expected ) but found 'return' here:\nSerialized {CODE}"), "but found 'return' here"),
        (RuntimeError(f"\n'Tensor (inferred)' object has no attribute or method 'foo'.:\n{CODE}"), "method 'foo'"),
        (RuntimeError(f"{TRACE}RuntimeError: shape '[3]' is invalid\n"), "RuntimeError: shape '[3]' is invalid"),
        (RuntimeError(f"{TRACE}builtins.ValueError: first\nsecond\n"), "builtins.ValueError: first"),
        (
            RuntimeError(
                f"{TRACE.rpartition('(most')[0]}(most recent call last):\nnet.py(8): forward\ntrace.py(10): trace\n"
                "RuntimeError: select(): index 2 out of range\n"
            ),
            "RuntimeError: select(): index 2 out of range",
        ),
        (RuntimeError(TRACE.partition("\n")[0] + "\nRuntimeError: no code"), "RuntimeError: no code"),
        (Exception(CHECK), "Exception: ERROR: Tensor-valued Constant nodes differed in value across invocations"),
        (RuntimeError(CONSTRAINTS), "batch as dynamic but your code specialized it to be a constant (2)"),
        (ValueError("Constraints violated (batch)!"), "Constraints violated (batch)"),
        (RuntimeError(BRANCH), "Could not guard on data-dependent expression Eq(u0, 1), in if x.sum() > 0"),
        (RuntimeError(BRANCH.partition(", line 8")[0]), "Eq(u0, 1).  (Size-like symbols: none)"),
        (KeyError("name"), "KeyError: 'name'"),
        (ValueError(" \n"), "ValueError"),
        (RuntimeError("x" * 1000), "x" * 300),
    ],
)
def test_the_reason_is_one_line_and_neither_trace_nor_code(error, reason):
    said = torch_error.reason(error)
    assert said.endswith(reason)
    assert "\n" not in said
    assert "HERE" not in said
