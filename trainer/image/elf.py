"""Shared libraries in ELF format: their dependencies, their symbols, and the writing of stand-ins.

Formats: System V ABI, chapters 4 and 5 (64-bit, little-endian), and the GNU symbol versioning sections as the Linux
Standard Base specifies them (Core, Generic Part, 10.7).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MACHINE_X86_64 = 62
MACHINE_AARCH64 = 183

RETURN_FOLLOWING_ADDRESS = {
    MACHINE_X86_64: bytes.fromhex("488d0501000000c3"),  # lea rax, [rip+1]; ret
    MACHINE_AARCH64: bytes.fromhex("40000010c0035fd6"),  # adr x0, #8; ret
}
"""Machine code of a function that returns the address right after itself."""

PAGE_BYTES = 0x10000
"""The largest page size of the machines above; segments are aligned to it."""
DATA_BYTES = 256
"""Zeros that a stand-in offers in place of any data object."""

SHARED_OBJECT = 3
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
EXECUTE, WRITE, READ = 1, 2, 4
PROGRAM_HEADERS = 4
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME = 0, 1, 4, 5, 6, 10, 11, 14
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    0x6FFFFFF0,
    0x6FFFFFFC,
    0x6FFFFFFD,
    0x6FFFFFFE,
    0x6FFFFFFF,
)
SHT_DYNSYM = 11
STT_OBJECT, STT_FUNC = 1, 2
STB_GLOBAL, STB_WEAK = 1, 2
ANY_SECTION = 1
"""Symbols count as defined when their section number is not 0; there is no section table to point into."""
VERSION_OF_FILE = 1
UNVERSIONED = 1
VERSION_HIDDEN_BIT = 0x8000

_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


class Reference(NamedTuple):
    """A symbol that a library takes from another: with its version and that one's soname where it is versioned."""

    name: str
    version: str
    soname: str
    is_data: bool


@dataclass(frozen=True, kw_only=True)
class Library:
    """The dynamic symbol table of a shared library."""

    machine: int
    needed: frozenset[str]
    defined: frozenset[str]
    references: frozenset[Reference]


def read_library(path: Path) -> Library:
    """Read what `path` needs and defines.

    Raises:
        ValueError: it is not a 64-bit little-endian ELF file with a dynamic section.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        if image[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
        return _Reader(image, path).library()


class _Reader:
    def __init__(self, image: mmap.mmap, path: Path) -> None:
        self._image = image
        self._header = _HEADER.unpack_from(image)
        offset, size, count = self._header[5], self._header[9], self._header[10]
        self._segments = [_PROGRAM_HEADER.unpack_from(image, offset + index * size) for index in range(count)]
        dynamic = [segment for segment in self._segments if segment[0] == PT_DYNAMIC]
        if not dynamic:
            raise ValueError(f"{path} has no dynamic section")
        self._entries = list(_DYNAMIC.iter_unpack(image[dynamic[0][2] : dynamic[0][2] + dynamic[0][5]]))
        self._tags: dict[int, int] = dict(reversed(self._entries))
        self._strings = self._offset(self._tags[DT_STRTAB])

    def library(self) -> Library:
        versions = dict(self._needed_versions())
        defined: set[str] = set()
        references: set[Reference] = set()
        for index, (name_at, info, _, section, _, _) in enumerate(self._symbols()):
            name = self._string(name_at)
            if section:
                defined.add(name)
            elif name and info >> 4 != STB_WEAK:
                version, soname = versions.get(self._version_index(index), ("", ""))
                references.add(Reference(name, version, soname, is_data=info & 0xF == STT_OBJECT))
        needed = frozenset(self._string(value) for tag, value in self._entries if tag == DT_NEEDED)
        return Library(
            machine=self._header[2], needed=needed, defined=frozenset(defined), references=frozenset(references)
        )

    def _offset(self, address: int) -> int:
        for kind, _, offset, start, _, file_size, _, _ in self._segments:
            if kind == PT_LOAD and start <= address < start + file_size:
                return address - start + offset
        raise ValueError(f"address {address:#x} is in no loaded segment")

    def _string(self, at: int) -> str:
        start = self._strings + at
        return self._image[start : self._image.find(b"\0", start)].decode()

    def _symbols(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        # Only the section header states the table's length where another tool has moved the tables around.
        offset, size, count = self._header[6], self._header[11], self._header[12]
        for index in range(count):
            section = _SECTION_HEADER.unpack_from(self._image, offset + index * size)
            if section[1] == SHT_DYNSYM:
                return _SYMBOL.iter_unpack(self._image[section[4] : section[4] + section[5]])
        return iter(())

    def _version_index(self, symbol: int) -> int:
        if DT_VERSYM not in self._tags:
            return UNVERSIONED
        (index,) = struct.unpack_from("<H", self._image, self._offset(self._tags[DT_VERSYM]) + 2 * symbol)
        return index & ~VERSION_HIDDEN_BIT

    def _needed_versions(self) -> Iterator[tuple[int, tuple[str, str]]]:
        """Yield (version index, (version, soname)) of the version-needs table."""
        if DT_VERNEED not in self._tags:
            return
        at = self._offset(self._tags[DT_VERNEED])
        for _ in range(self._tags[DT_VERNEEDNUM]):
            _, count, file, first, following = struct.unpack_from("<HHIII", self._image, at)
            entry = at + first
            for _ in range(count):
                _, _, index, name, step = struct.unpack_from("<IHHII", self._image, entry)
                yield index, (self._string(name), self._string(file))
                entry += step
            at += following


def stand_in(soname: str, machine: int, references: Iterable[Reference], explanation: str) -> bytes:
    """Return a shared library named `soname` that satisfies `references`. Same input, same bytes.

    Each symbol is there under the version it is wanted in, so the loader finds nothing amiss. Every function returns
    the address of `explanation`: a readable text to a caller that wants one, a failure to one that takes 0 for success.
    Data objects are DATA_BYTES zeros.

    Raises:
        KeyError: no code is known for `machine`.
    """
    code = RETURN_FOLLOWING_ADDRESS[machine] + explanation.encode() + b"\0"
    return _Writer(soname, code, sorted(set(references))).image(machine)


class _Writer:
    """Lays out a read-only segment (tables, code) and, pages further, a writable one (dynamic section, data)."""

    def __init__(self, soname: str, code: bytes, symbols: list[Reference]) -> None:
        self._code = code
        self._symbols = symbols
        self._versions = [soname, *sorted({symbol.version for symbol in symbols} - {""})]
        self._strings = bytearray(1)
        self._string_at: dict[str, int] = {}
        for text in (*self._versions, *(symbol.name for symbol in symbols)):
            if text not in self._string_at:
                self._string_at[text] = len(self._strings)
                self._strings += text.encode() + b"\0"

    def image(self, machine: int) -> bytes:
        """Return the whole file; every part is at the address that is its offset in the file."""
        parts = {
            DT_HASH: self._hash(),
            DT_SYMTAB: bytes(_SYMBOL.size * (len(self._symbols) + 1)),
            DT_VERSYM: self._symbol_versions(),
            DT_VERDEF: self._version_definitions(),
            DT_STRTAB: bytes(self._strings),
        }
        at = _HEADER.size + PROGRAM_HEADERS * _PROGRAM_HEADER.size
        addresses: dict[int, int] = {}
        for tag, content in parts.items():
            addresses[tag] = _aligned(at, 8)
            at = addresses[tag] + len(content)
        code_at = _aligned(at, 8)
        dynamic_at = _aligned(code_at + len(self._code), PAGE_BYTES)
        dynamic = self._dynamic(addresses)
        data_at = dynamic_at + len(dynamic)
        parts[DT_SYMTAB] = self._symbol_table(code_at, data_at)

        file = bytearray(data_at + DATA_BYTES)
        file[: _HEADER.size] = _header(machine)
        segments = (
            (PT_LOAD, READ | EXECUTE, 0, 0, 0, code_at + len(self._code), code_at + len(self._code), PAGE_BYTES),
            (PT_LOAD, READ | WRITE, *[dynamic_at] * 3, *[len(file) - dynamic_at] * 2, PAGE_BYTES),
            (PT_DYNAMIC, READ | WRITE, *[dynamic_at] * 3, *[len(dynamic)] * 2, 8),
            # Without it the loader makes the stack executable, which hardened kernels refuse.
            (PT_GNU_STACK, READ | WRITE, 0, 0, 0, 0, 0, 16),
        )
        for index, segment in enumerate(segments):
            _PROGRAM_HEADER.pack_into(file, _HEADER.size + index * _PROGRAM_HEADER.size, *segment)
        placed = [(addresses[tag], content) for tag, content in parts.items()]
        for address, content in (*placed, (code_at, self._code), (dynamic_at, dynamic)):
            file[address : address + len(content)] = content
        return bytes(file)

    def _hash(self) -> bytes:
        """One bucket that chains all symbols: some hundred names need no better."""
        count = len(self._symbols) + 1
        chain = [*range(2, count), 0] if self._symbols else []
        return struct.pack(f"<{count + 3}I", 1, count, 1 if self._symbols else 0, 0, *chain)

    def _symbol_versions(self) -> bytes:
        # Entry 1 stands for the library itself; a version that has the library's very name is an entry of its own.
        entry = {"": UNVERSIONED} | {version: number for number, version in enumerate(self._versions[1:], start=2)}
        numbers = [entry[symbol.version] for symbol in self._symbols]
        return struct.pack(f"<{len(numbers) + 1}H", 0, *numbers)

    def _version_definitions(self) -> bytes:
        table = bytearray()
        for number, name in enumerate(self._versions, start=1):
            following = 0 if number == len(self._versions) else 28
            flags = VERSION_OF_FILE if number == 1 else 0
            table += struct.pack("<HHHHIII", 1, flags, number, 1, _system_v_hash(name), 20, following)
            table += struct.pack("<II", self._string_at[name], 0)
        return bytes(table)

    def _symbol_table(self, code_at: int, data_at: int) -> bytes:
        table = bytearray(_SYMBOL.size)
        for symbol in self._symbols:
            kind, at, size = (STT_OBJECT, data_at, DATA_BYTES) if symbol.is_data else (STT_FUNC, code_at, 8)
            table += _SYMBOL.pack(self._string_at[symbol.name], STB_GLOBAL << 4 | kind, 0, ANY_SECTION, at, size)
        return bytes(table)

    def _dynamic(self, addresses: dict[int, int]) -> bytes:
        entries = {
            DT_SONAME: self._string_at[self._versions[0]],
            **addresses,
            DT_STRSZ: len(self._strings),
            DT_SYMENT: _SYMBOL.size,
            DT_VERDEFNUM: len(self._versions),
            DT_NULL: 0,
        }
        return b"".join(_DYNAMIC.pack(tag, value) for tag, value in entries.items())


def _header(machine: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01"
    sizes = (_HEADER.size, _PROGRAM_HEADER.size, PROGRAM_HEADERS, _SECTION_HEADER.size, 0, 0)
    return _HEADER.pack(identity, SHARED_OBJECT, machine, 1, 0, _HEADER.size, 0, 0, *sizes)


def _aligned(at: int, to: int) -> int:
    return -(-at // to) * to


def _system_v_hash(name: str) -> int:
    """Hash a symbol or version name as System V ABI, figure 5-13, does."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value
