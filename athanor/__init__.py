"""Train and serve on GPUs, declared with Pulumi: the platform of another stack, and the workloads that run on it.

This is the one import that a program needs. In the repository it stands next to `infra/` and `workloads/`; the wheel
has both inside of it (hatch_build.py). The names are those of public.py, which is imported when a program asks for the
first of them: the console command needs neither these nor the SDK, whose import takes most of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from athanor.public import *  # noqa: F403 - all of its __all__, for type checkers


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name is
    """Return one of the public names (PEP 562)."""
    public = import_module("athanor.public")
    if name == "__all__" or name in public.__all__:
        return getattr(public, name)
    raise AttributeError(f"module 'athanor' has no attribute {name!r}", name=name, obj=public)


def __dir__() -> list[str]:
    """Return the public names."""
    return list(import_module("athanor.public").__all__)
