"""Tests over a table: one test checks every row, and a failure names the row.

`@each_row` takes what `pytest.mark.parametrize` takes. Use it where rows differ in values only: they share the test's
fixtures, so a test that writes files or patches something needs `parametrize`.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Ids = Callable[[Any], object] | Iterable[object] | None

LONGEST_NAME = 200


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Ids = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test for each row and report those that fail, each as a subtest with its own name and traceback.

    A row that passes opens no subtest, and so costs no report.

    Args:
        names: The test's arguments that a row gives, as a sequence or separated by commas.
        rows: Values of one argument, or a tuple of values for several; `pytest.param(…, id=…)` names its row.
        ids: Names of the rows, or a function from a value to its name; by default, the values.

    Raises:
        ValueError: There are no rows, or a row has another number of values than there are names.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_named(list(rows), arguments, ids))
    if not table:
        raise ValueError(f"a table of {', '.join(arguments)} has no rows: such a test would prove nothing")

    def over_table(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def check_rows(subtests: pytest.Subtests, **fixtures: Any) -> None:
            for name, values in table:
                try:
                    test(**fixtures, **values)
                except (Exception, pytest.fail.Exception):
                    with subtests.test(name):
                        raise
                except pytest.skip.Exception as skipped:
                    with subtests.test(name):
                        raise TypeError(f"a row cannot skip ({skipped}): use pytest.mark.parametrize") from None

        own = inspect.signature(test)
        kept = [parameter for parameter in own.parameters.values() if parameter.name not in arguments]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        check_rows.__signature__ = own.replace(parameters=[subtests, *kept])
        return check_rows

    return over_table


def _named(rows: Sequence[Any], arguments: Sequence[str], ids: Ids) -> Iterable[tuple[str, dict[str, Any]]]:
    names = [None] * len(rows) if ids is None or callable(ids) else list(ids)
    for row, name in zip(rows, names, strict=True):
        values = row.values if _is_param(row) else (row,) if len(arguments) == 1 else tuple(row)
        own = row.id if _is_param(row) else None
        row_name = own or name or ", ".join(str(ids(value)) if callable(ids) else repr(value) for value in values)
        yield str(row_name)[:LONGEST_NAME], dict(zip(arguments, values, strict=True))


def _is_param(row: object) -> bool:
    return isinstance(row, type(pytest.param()))
