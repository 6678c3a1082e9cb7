"""Modules and programs of the platform's images: a command that names an unknown one is refused early."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from athanor.run.script import module_of
from infra.errors import RefusalError
from workloads.launchers import commands_in
from workloads.local_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.job_args import JobArgs

_OUR_IMAGE = re.compile(r"(?:.*/)?athanor/trainer(?:-tensorflow)?[:@].*")
"""Names of images built from these sources (infra/images.py), in any registry."""
_OF_PYTORCH = """
PIL click cloudpickle csimdjson cuda docstring_parser dulwich filelock fsspec functorch google grpc h11 httptools
isympy jinja2 joblib markupsafe ml_dtypes mpi4py mpmath narwhals networkx numpy nvidia opentelemetry orjson
packaging pip prometheus_client rapidjson safetensors scipy setuptools simdjson sklearn sympy tensorboardX
threadpoolctl torch torch_pruning torchgen torchvision tqdm triton tritonclient tritonclientutils tritongrpcclient
tritonhttpclient tritonshmutils typeguard typing_extensions tyro urllib3 uvicorn uvloop yaml
"""
OF_PYTORCH = frozenset(_OF_PYTORCH.split())
"""Top-level modules of the packages in the image of PyTorch, MPI and batch jobs."""
_OF_TENSORFLOW = """
absl astunparse certifi charset_normalizer clang cloudpickle docstring_parser dulwich flatbuffers gast google grpc
h5py idna joblib keras markdown_it mdurl ml_dtypes namex narwhals numpy opt_einsum optree packaging pasta
pip prometheus_client pygments requests rich scipy setuptools six sklearn tensorflow termcolor threadpoolctl typeguard
typing_extensions tyro urllib3 wheel wrapt
"""
OF_TENSORFLOW = frozenset(_OF_TENSORFLOW.split())
"""The same of that of TensorFlow jobs."""
_SHELL_WORDS = """
. : [ [[ alias bg bind break builtin caller case cd compgen complete continue coproc declare dirs disown do done echo
elif enable esac eval exit export false fc fg fi for function getopts hash help history in jobs kill let local logout
mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test times trap
true type typeset ulimit umask unalias unset until wait
"""
"""Words that the shell runs or reads itself."""
_PROGRAMS = """
[ arch awk b2sum base32 base64 basename bash bunzip2 bzcat bzip2 cat chgrp chmod chown cksum comm cp csplit cut dash
date dd df dir dircolors dirname du echo egrep env expand expr factor false fgrep find fmt fold free funzip getconf
getent grep groups gunzip gzip head hostid hostname ibv_devices ibv_devinfo iconv id install join kill ldd link ln
locale logname ls mawk md5sum mkdir mkfifo mktemp mpicc mpiexec mpirun mv nice nl nohup nproc numactl numfmt od
ompi_info openssl paste pathchk pgrep pidof pip pip3 pkill pmap pr printenv printf prterun ps ptx pwd pwdx python
python3 python3.11 readlink realpath rm rmdir scp sed seq sftp sh sha1sum sha224sum sha256sum sha384sum sha512sum
shred shuf sleep sort split ssh ssh-keygen ssh-keyscan stat stdbuf stty sum sync tac tail tar tee test timeout top
torchrun touch tqdm tr true truncate tsort tty uname unexpand uniq unlink unxz unzip uptime users vdir vmstat w watch
wc which who whoami xargs xz xzcat yes zcat zgrep zipinfo
"""
PROGRAMS = frozenset(_PROGRAMS.split())
"""Programs in the PATH of the images that athanor builds, the smallest ones (trainer/image/debian.py)."""
_OF_NODES = frozenset({"nvidia-smi"})
"""Programs that a node with GPUs puts into a pod."""
_IN_OUR_IMAGE = PROGRAMS | _OF_NODES | frozenset(_SHELL_WORDS.split())
_NEVER_OF_PIP = frozenset(("apt", "apt-get", "conda", "mamba", "sudo", "git", "curl", "wget", "make", "gcc", "g++"))
_PROGRAM = re.compile(r"(?:/(?:usr/)?(?:local/)?s?bin/)?([A-Za-z_.:\[][\w.+\[-]*)")
_BRINGS_NAMES = re.compile(
    r"<<|\(\s*\)|\bPATH\b|(?:^|[;&|\s(])(?:case|alias|eval|function|source)\s|(?:^|[;&|\n(])\s*\.\s"
)
"""Functions, other names and other texts in a shell's text, after which a first word may be something else."""
_OF_ATHANOR = frozenset({"athanor_run", "infra", "trainer", "workloads"})


def check_module_exists(program: Sequence[str], args: JobArgs, image: str) -> None:
    """Refuse a module that is started with -m and is neither in the job's folder nor in its image.

    Args:
        program: What a rank or pod runs.
        args: The job's.
        image: Its image. Of others than the platform's own nothing is known, nor of what the job installs.

    Raises:
        RefusalError: naming the module.
    """
    module = module_of(program)
    if module is None or not _OUR_IMAGE.fullmatch(image):
        return
    if args.requirements or args.prepare or "PYTHONPATH" in args.env or not isinstance(args.source, LocalFolder | None):
        return
    package = module.partition(".")[0]
    of_code = {name.partition("/")[0].removesuffix(".py") for name in args.source.archive.names} if args.source else ()
    if package not in {*of_code, *OF_PYTORCH, *OF_TENSORFLOW, *_OF_ATHANOR, *sys.stdlib_module_names}:
        fix = "correct it, name its folder with --workdir, or install it with --requirements"
        raise RefusalError("program", module, f"{package} is neither in the code nor in the platform's image", fix)


def check_prepare(args: JobArgs, image: str) -> None:
    """Refuse a preparation in the platform's own image that starts a program which that lacks.

    Args:
        args: The job's.
        image: Its image. Of others nothing is known, of one that was named as an image that has it, and little of what
            the job installs.

    Raises:
        RefusalError: naming the program.
    """
    if (
        args.image
        or not _OUR_IMAGE.fullmatch(image)
        or "PATH" in args.env
        or any(map(_BRINGS_NAMES.search, args.prepare))
    ):
        return
    installs = bool(args.requirements)
    for words in commands_in(args.prepare):
        match = _PROGRAM.fullmatch(words[0])
        name = match[1] if match else "sh"
        if name in _NEVER_OF_PIP or (name not in _IN_OUR_IMAGE and not installs):
            fix = "name an image that has it with --image, or install Python packages with --requirements"
            raise RefusalError("prepare", words[0], "is not in the platform's image", fix)
        installs = installs or "pip" in " ".join(words[:3])
