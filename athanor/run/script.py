"""The script that a command starts, which has to be in the folder that is sent to the job."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from workloads.folder_archive import chosen_files
from workloads.ignore_rules import OWN_RULES
from workloads.install_requirements import files_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from workloads.local_folder import LocalFolder

_NO_PYTHON = "--no-python"
_BEFORE_A_SCRIPT = re.compile(rf"python[\d.]*|bash|sh|{_NO_PYTHON}")
_PYTHON_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]+|-[WX].+|(?P<takes_next>-[WX]|--check-hash-based-pycs)")
_SHELL_OPTION = re.compile(r"-[abefhmnpuvxBCEHPT]+|(?P<takes_next>-[abefhmnpuvxBCEHPT]*o)")
"""Options in front of a script (python(1), sh(1), bash(1)), whose value may be the next word."""
_USER_CODE = re.compile(r"(--\w+=)?(?P<file>[^=$]+\.py):\w+")
"""A word such as --model=vit.py:ViT."""
_RUN_BY = {".py": "python", ".sh": "sh"}
SCRIPT_SUFFIXES = frozenset(_RUN_BY)
"""Endings of the files that are taken for scripts."""


def check_has_files(source: LocalFolder) -> None:
    """Refuse a folder of which nothing would be sent.

    Raises:
        RefusalError: naming it; or as `workloads.folder_archive.chosen_files`.
    """
    folder = Path(source.path).resolve()
    if next(chosen_files(folder), None) is None:
        fix = f"check .gitignore and {OWN_RULES}, or add --no-code if the program is in the image"
        raise RefusalError("--workdir", str(folder), "has no files that are not ignored", fix)


def check_requirements(file: str | None, source: LocalFolder) -> None:
    """Refuse a file of requirements that the pods would not find.

    Raises:
        RefusalError: it, or one that it includes, is not among the files that are sent, or it installs code of the
            folder.
    """
    if file is None:
        return
    folder = Path(source.path).resolve()
    _check_requirements_sent(PurePosixPath(file), source)
    try:
        files = files_of(folder / file, folder)
    except ValueError as error:
        limit, _, fix = str(error).partition(". Fix: ")
        raise RefusalError("requirements", file, limit, fix or "correct its name") from None
    for each in files:
        _check_requirements_sent(PurePosixPath(os.path.relpath(each, folder)), source)


def _check_requirements_sent(file: PurePosixPath, source: LocalFolder) -> None:
    if not _is_sent(file, source):
        refusal = _not_sent(file, source)
        raise RefusalError("requirements", str(file), refusal.limit, refusal.fix)


def check_script(program: Sequence[str], source: LocalFolder, *, under_torchrun: bool = False) -> None:
    """Refuse a command whose script the pods could not start: they would find that out one by one.

    Args:
        program: What a rank or pod runs, without a launcher. An absolute path is the image's, and not looked for.
        source: The folder.
        under_torchrun: Whether torchrun gets the program, which it hands to Python unless --no-python comes first.

    Raises:
        RefusalError: the script does not exist, .gitignore or .athanorignore names it, or it is started as a program
            and cannot be.
    """
    if module := module_of(program):
        _check_module(module, source)
    for script in (_script(program), *_user_code(program)):
        if script is not None and not _is_sent(script, source):
            raise _not_sent(script, source)
    if PurePosixPath(program[0]).name in {"sh", "bash"} and (script := _script(program)):
        _check_ends_of_lines(script, source)
    started = program[1:] if program[0] == _NO_PYTHON else () if under_torchrun else program
    if started:
        _check_start(started[0], source)


def module_of(program: Sequence[str]) -> str | None:
    """Return the module that is started with -m; None without one."""
    words = _without_interpreter(program)
    return words[1] if len(words) > 1 and words[0] == "-m" and "$" not in words[1] else None


def _without_interpreter(program: Sequence[str]) -> Sequence[str]:
    """Return a program from its script, or from -m, on."""
    name = PurePosixPath(program[0]).name
    if not _BEFORE_A_SCRIPT.fullmatch(name):
        return program
    option = _PYTHON_OPTION if name.startswith("python") else _SHELL_OPTION
    place = 1
    while place < len(program) and (match := option.fullmatch(program[place])):
        place += 2 if match["takes_next"] else 1
    return program[place:]


def _check_module(module: str, source: LocalFolder) -> None:
    """Refuse a module of one of the folder's packages that does not exist; other packages may be the image's.

    Raises:
        RefusalError: it does not exist, or only below `src`, where Python does not look for it.
    """
    package, _, rest = module.partition(".")
    names = source.archive.names
    if not _has_module(package, names):
        if _has_module(f"src/{package}", names):
            fix = "add --env PYTHONPATH=/source/code/src"
            raise RefusalError("program", module, "is in src, where Python does not search for it", fix)
        return
    if rest and not _has_module(module.replace(".", "/"), names):
        folder = Path(source.path).resolve()
        raise RefusalError(
            "program", module, f"is not in {folder / package}", "correct it, or name the folder with --workdir"
        )
    path = module.replace(".", "/")
    if f"{path}/__init__.py" in names and f"{path}/__main__.py" not in names:
        fix = f"name one of its modules, or write {path}/__main__.py"
        raise RefusalError("program", module, "is a package without __main__.py, which Python does not start", fix)


def _has_module(path: str, names: Collection[str]) -> bool:
    """Return whether a path without a suffix is that of a module or of a package's folder."""
    return f"{path}.py" in names or any(name.startswith(f"{path}/") for name in names)


def _check_start(first: str, source: LocalFolder) -> None:
    """Refuse a file of the folder that a pod could not start.

    Args:
        first: The program as it was written. Without a slash, it is one of the image, unless it ends like a script.
        source: The folder.

    Raises:
        RefusalError: naming the file.
    """
    path = PurePosixPath(first)
    interpreter = _RUN_BY.get(path.suffix)
    if ("/" not in first and not interpreter) or path.is_absolute() or ".." in path.parts:
        return
    if not _is_sent(path, source):
        return
    file = Path(source.path).resolve() / path
    or_by = f", or write: {interpreter} {path}" if interpreter else ""
    if "/" not in first:
        limit = "is looked up in PATH, not in the folder"
        raise RefusalError("program", first, limit, f"write ./{first}{or_by}")
    if file.is_file() and (line := _first_line(file)).startswith(b"#!") and line.endswith(b"\r"):
        limit = "begins with a #! line that ends in CR LF: the kernel looks for an interpreter with a CR in its name"
        raise RefusalError("program", first, limit, f"convert it, such as: sed -i 's/\\r$//' {path}{or_by}")
    if file.is_file() and not file.stat().st_mode & stat.S_IXUSR:
        raise RefusalError("program", first, "is not executable", f"chmod +x {path}{or_by}")


def _check_ends_of_lines(script: PurePosixPath, source: LocalFolder) -> None:
    """Refuse a shell's script with the ends of lines of Windows.

    Raises:
        RefusalError: naming it.
    """
    file = Path(source.path).resolve() / script
    if file.is_file() and _first_line(file).endswith(b"\r"):
        limit = "has lines that end in CR LF: the shell would treat each CR as part of the line's last word"
        raise RefusalError("program", str(script), limit, f"convert it, such as: sed -i 's/\\r$//' {script}")


def _first_line(file: Path) -> bytes:
    with file.open("rb") as content:
        return content.readline(4096).removesuffix(b"\n")


def _not_sent(script: PurePosixPath, source: LocalFolder) -> RefusalError:
    folder = Path(source.path).resolve()
    if (folder / script).exists():
        limit = f"is left out of the code by .gitignore or {OWN_RULES}"
        return RefusalError("program", str(script), limit, f"write `!/{script}` into {OWN_RULES}")
    return RefusalError("program", str(script), f"is not in {folder}", "correct it, or name the folder with --workdir")


def _is_sent(script: PurePosixPath, source: LocalFolder) -> bool:
    # A folder is among the names only as a link; the files behind it are there under their own.
    places = (script, *script.parents)
    return any(str(place) in source.archive.names for place in places)


def _user_code(program: Sequence[str]) -> list[PurePosixPath]:
    """Return the relative paths of files whose classes one of the platform's programs is to take."""
    if not any(word.startswith("trainer.") for word in program):
        return []
    named = [PurePosixPath(match["file"]) for word in program if (match := _USER_CODE.fullmatch(word))]
    return [file for file in named if not file.is_absolute() and ".." not in file.parts]


def _script(program: Sequence[str]) -> PurePosixPath | None:
    """Return the relative path of the script that is started; None for modules, programs and scripts elsewhere."""
    words = _without_interpreter(program)
    first = PurePosixPath(words[0]) if words else None
    if (
        first is None
        or first.suffix not in SCRIPT_SUFFIXES
        or first.is_absolute()
        or ".." in first.parts
        or "$" in words[0]
    ):
        return None
    return first
