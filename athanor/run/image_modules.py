"""Python modules of the platform's own images, by which a module that is nowhere is refused before a job starts."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from athanor.run.script import module_of
from infra.errors import RefusalError
from workloads.local_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.job_args import JobArgs

_OUR_IMAGE = re.compile(r"(?:.*/)?athanor/trainer(?:-tensorflow)?[:@].*")
"""As infra/images.py names those that are built from these sources, in whatever registry they are."""
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
