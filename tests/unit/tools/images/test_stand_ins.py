"""The stand-ins for NVIDIA's libraries, as the machine's own dynamic loader sees them."""

import ctypes
import importlib.util
import struct
from pathlib import Path

import pytest

from trainer.image.elf import DATA_BYTES, Reference, read_library, stand_in
from trainer.image.variant import EXPLANATION, UNVERSIONED_PREFIXES, write_stand_ins

TORCH = Path(importlib.util.find_spec("torch").origin).parent
MACHINE = read_library(TORCH / "lib" / "libc10.so").machine
PT_GNU_STACK = 0x6474E551


def reference(name, version="", *, is_data=False):
    return Reference(name, version, "", is_data)


@pytest.fixture
def load(tmp_path):
    def load_stand_in(soname, *references):
        path = tmp_path / soname
        path.write_bytes(stand_in(soname, MACHINE, references, EXPLANATION))
        return ctypes.CDLL(str(path))

    return load_stand_in


def test_every_function_fails_and_explains_itself(load):
    library = load("libfirst.so.1", reference("firstInit"), reference("firstError"))
    assert library.firstInit() != 0
    library.firstError.restype = ctypes.c_char_p
    assert library.firstError().decode() == EXPLANATION


def test_symbols_are_found_under_the_version_they_are_wanted_in(load):
    library = load("libsecond.so.13", reference("secondInit", "libsecond.so.13"), reference("other", "V2"))
    find = ctypes.CDLL(None).dlvsym
    find.restype = ctypes.c_void_p
    find.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    assert find(library._handle, b"secondInit", b"libsecond.so.13")
    assert find(library._handle, b"other", b"V2")
    assert not find(library._handle, b"other", b"libsecond.so.13")


def test_data_is_zero_and_may_be_written(load):
    library = load("libthird.so", reference("thirdFunction"), reference("thirdState", is_data=True))
    state = (ctypes.c_char * DATA_BYTES).in_dll(library, "thirdState")
    assert state.raw == bytes(DATA_BYTES)
    state[DATA_BYTES - 1] = b"x"
    assert library.thirdFunction() != 0


def test_there_are_no_symbols_that_nobody_wanted(load):
    assert not hasattr(load("libfourth.so", reference("wanted")), "unwanted")
    load("libfifth.so")


def test_stack_stays_without_execution():
    image = stand_in("libsixth.so", MACHINE, [reference("f")], EXPLANATION)
    headers = [struct.unpack_from("<IIQQQQQQ", image, 64 + 56 * index) for index in range(4)]
    assert [flags for kind, flags, *_ in headers if kind == PT_GNU_STACK] == [0b110]
    assert all(flags & 0b11 != 0b11 for _, flags, *_ in headers)  # nothing is writable and executable at once


def test_same_references_give_the_same_bytes():
    references = [reference("b"), reference("a", "V"), reference("b")]
    assert stand_in("lib.so", MACHINE, references, "x") == stand_in("lib.so", MACHINE, references[::-1], "x")


def test_machine_without_known_code_is_refused():
    with pytest.raises(KeyError):
        stand_in("lib.so", 8, [], "x")


def test_reading_something_else_is_refused(tmp_path):
    path = tmp_path / "text.so"
    path.write_text("not a library at all, only text")
    with pytest.raises(ValueError, match=r"text\.so is not a 64-bit"):
        read_library(path)


def test_torchs_own_needs_are_read():
    library = read_library(TORCH / "lib" / "libtorch_cuda.so")
    assert {"libcublas.so.13", "libtorch_cpu.so"} <= library.needed
    assert Reference("cublasCreate_v2", "libcublas.so.13", "libcublas.so.13", is_data=False) in library.references
    assert "cublasCreate_v2" not in library.defined


@pytest.fixture
def site_packages_without_gpu(tmp_path):
    """Give a site-packages whose torch is this environment's, with the CUDA runtime and nothing else of NVIDIA's."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "lib").symlink_to(TORCH / "lib")
    (tmp_path / "nvidia/cu13/lib").mkdir(parents=True)
    (tmp_path / "nvidia/cu13/lib/libcudart.so.13").write_bytes(b"the real one")
    return tmp_path


def test_stand_ins_are_written_once_for_what_is_missing_and_nothing_else(site_packages_without_gpu):
    written = {path.name for path in write_stand_ins(site_packages_without_gpu)}
    assert {"libcublas.so.13", "libcudnn.so.9", "libnvshmem_host.so.3", *UNVERSIONED_PREFIXES} <= written
    # libcuda is the driver's: one that is found would look like a driver.
    assert not {"libcuda.so.1", "libcudart.so.13", "libc.so.6", "libtorch_cpu.so", "libgomp.so.1"} & written
    assert (site_packages_without_gpu / "nvidia/cu13/lib/libcudart.so.13").read_bytes() == b"the real one"
    assert write_stand_ins(site_packages_without_gpu) == []


def test_nothing_stands_in_for_a_whole_installation():
    assert write_stand_ins(TORCH.parent) == []
