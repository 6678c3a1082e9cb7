"""Equality of the answers of two programs."""

import math

import torch

from tests.tables import each_row
from trainer.model_repository import comparison

NAN, INF = math.nan, math.inf


@each_row(
    ("right", "answer", "why"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], ""),
        ([[1.0, 2.0]], [[1.0, 2.5]], "differs by 0.5;"),
        ([[1000.0, 0.0]], [[1000.0, 0.09]], ""),
        ([[1000.0, 0.0]], [[1000.0, 0.25]], "differs by 0.25;"),
        ([[1e6, 0.0], [1.0, 0.0]], [[1e6, 0.0], [1.0, 0.001]], "differs by 0.001;"),
        ([NAN, INF, -INF], [NAN, INF, -INF], ""),
        ([[INF, 1.0]], [[INF, 2.0]], "differs by 1;"),
        ([INF], [-INF], "differs by inf;"),
        ([1.0], [NAN], "differs by nan;"),
        ([NAN], [1.0], "differs by nan;"),
        ([1], [2], "differs by 1;"),
        ([10**6], [10**6 + 1], "differs by 1;"),
        ([True], [False], "differs by 1;"),
        ([1.0], [1], "returns torch.int64 [1] instead of torch.float32 [1]"),
        ([1.0], [[1.0]], "returns torch.float32 [1, 1] instead of torch.float32 [1]"),
        (1.0, 1.0, ""),
        ([], [], ""),
        ([[], []], [[], []], ""),
    ],
)
def test_answers_are_equal_up_to_rounding(right, answer, why):
    case = comparison.case(lambda _: torch.tensor(right), [torch.zeros(1)])
    why_not = comparison.difference(lambda _: torch.tensor(answer), [case])
    assert why_not.startswith(why)
    assert bool(why_not) == bool(why)


def test_each_output_counts_and_arrays_do_as_tensors():
    case = comparison.case(lambda a: (a, a + 1), [torch.zeros(2)])
    assert comparison.difference(lambda a: [a.numpy(), (a + 1).numpy()], [case]) == ""
    assert comparison.difference(lambda a: [a, a], [case]) == (
        "differs by 1; allowed: 1e-05 + 0.0001 of a sample's largest output, on inputs of [2]"
    )
    assert comparison.difference(lambda a: a, [case]) == "returns 1 outputs instead of 2"


@each_row(
    ("program", "why"),
    [
        (lambda a: a * 2, ""),
        (lambda a: (a, a.softmax(dim=1)), ""),
        (lambda a: a.softmax(dim=0), "differs by "),
        (lambda a: (a, a - a.mean(dim=0)), "differs by "),
        (lambda a: a / a.max(), "differs by "),
        (lambda a: a[:1], "returns torch.float32 [1, 2] instead of torch.float32 [3, 2]"),
    ],
)
def test_rows_that_depend_on_the_others_of_their_batch_are_found(program, why):
    difference = comparison.dependence_of_rows(program, [torch.tensor([[1.0, 2.0], [3.0, 5.0], [4.0, 0.0]])])
    assert difference.startswith(why)
    assert bool(difference) == bool(why)


def test_what_is_compiled_in_the_first_call_is_compared_too():
    answers = iter([torch.zeros(1), torch.ones(1)])
    case = comparison.case(lambda a: a, [torch.zeros(1)])
    assert comparison.difference(lambda _: next(answers), [case]).startswith("differs by 1;")


def test_a_program_that_writes_to_its_inputs_is_compared_on_the_same_ones():
    case = comparison.case(lambda a: a.add_(1), [torch.zeros(1)])
    assert comparison.difference(lambda a: a.add_(1), [case]) == ""


def test_random_batches_are_always_the_same_and_bounded():
    shapes = [(3, 2), ()]
    first, second = (list(comparison.random_batches(shapes)) for _ in range(2))
    assert [[list(tensor.shape) for tensor in batch] for batch in first] == [[[n, 3, 2], [n]] for n in (1, 2, 3, 7)]
    assert str(first) == str(second)
    assert [len(batch[0]) for batch in comparison.random_batches([(1 << 22,)])] == [1, 2, 3]
    assert [len(batch[0]) for batch in comparison.random_batches([(1 << 23,)], [2, 3])] == [2]
