"""Launches that were executed before, kept so that an equal one need not be.

A launch is a function of its text, its arguments and their memory, and the order of waves; the architecture counts as
far as the instruction set says (:attr:`portkit.emulate.vendors.InstructionSet.essence`). So variants, SKUs and
architectures whose kernels come out the same share one execution. Only launches without a finding are kept, with what
they wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from portkit.emulate.core.bytestore import Bytes
from portkit.emulate.core.launch import Counts, Descriptor, Emulation, Options, Pointer, Value, places
from portkit.emulate.vendors import ARCHITECTURES, run
from portkit.model import Outcome, Status

MOST_BYTES = 4 << 30
"""Of a folder of launches, unless its maker says otherwise; the oldest go first."""

PASSED = Outcome(Status.PASSED)
_COUNTS = "counts"
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""What reading a file raises that another process has not written to its end, or that the disk lost."""


def emulator_digest() -> str:
    """Of the emulator's own files, Python, NumPy and what NumPy uses of this CPU: others may come to other results."""
    folder = Path(__file__).parent
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    lanes = np.show_config(mode="dicts").get("SIMD Extensions")
    below = repr((platform.python_version(), np.__version__, platform.machine(), lanes))
    digest = hashlib.blake2b(below.encode(), digest_size=16)
    for path in files:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@dataclass
class KeptLaunches:
    """A folder of launches; several processes may use it."""

    folder: Path
    taken: int = 0  # launches that were not executed
    emulator: str = field(default_factory=emulator_digest)
    most_bytes: int = MOST_BYTES  # that the folder holds, about
    _added: int = 0  # bytes that this process has kept since it last looked

    def run(
        self,
        text: str,
        architecture: str,
        grid: Sequence[int],
        values: Sequence[Value],
        waves: int | None = None,
        shared_bytes: int = 0,
        options: Options | None = None,
    ) -> Emulation:
        """What :func:`portkit.emulate.run` does and returns, taken from the folder where an equal launch is there."""
        pointers = [each for each in map(_pointer, values) if each is not None]
        before = [hashlib.blake2b(_bytes(each)).digest() for each in pointers]
        what = (_essence(text, architecture), tuple(grid), waves, shared_bytes, options, self.emulator)
        arguments = (*map(_form, values), *places(pointers), *map(_written, pointers), *before)
        name = hashlib.blake2b(repr((what, arguments)).encode(), digest_size=20).hexdigest()
        path = self.folder / name[:2] / f"{name[2:]}.npz"
        if path.exists() and _taken_for(text, architecture) and (counts := _restore(path, pointers)) is not None:
            self.taken += 1
            return Emulation(PASSED, counts=counts)
        done = run(text, architecture, grid, values, waves, shared_bytes, options)
        if done.outcome.status is Status.PASSED and not done.findings and not done.said:
            self._keep(path, dict(_changed(pointers, before)), done.counts)
        return done

    def _keep(self, path: Path, changed: dict[str, np.ndarray], counts: Counts) -> None:
        """Keep what a launch changed; a folder that can't be written keeps nothing."""
        changed[_COUNTS] = np.array([counts.instructions, counts.lane_instructions, counts.workgroups])
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, changed)
        self._added += sum(each.nbytes for each in changed.values())
        if self._added > self.most_bytes // _LOOKS:
            self._added = 0
            _trim(self.folder, self.most_bytes)


def _taken_for(text: str, architecture: str) -> bool:
    """Whether the architecture takes the text: the essence is the same of one that refuses it."""
    known = ARCHITECTURES.get(architecture)
    return known is not None and known.takes(text, architecture)


def _essence(text: str, architecture: str) -> str:
    known = ARCHITECTURES.get(architecture)
    return known.essence(text, architecture) if known else text


def _pointer(value: Value) -> Pointer | None:
    if isinstance(value, Descriptor):
        return value.pointer
    return Pointer(value) if isinstance(value, np.ndarray) else value if isinstance(value, Pointer) else None


def _form(value: Value) -> object:
    """A value without the memory behind it."""
    pointer = _pointer(value)
    if pointer is None:
        return type(value).__name__, repr(value)
    encoded = value.encode(0) if isinstance(value, Descriptor) else b""
    return pointer.offset, pointer.buffer.nbytes, encoded


def _bytes(pointer: Pointer) -> Bytes:
    return pointer.buffer.reshape(-1).view(np.uint8)


def _written(pointer: Pointer) -> object:
    flags = pointer.written
    return hashlib.blake2b(np.packbits(flags).tobytes()).digest() if isinstance(flags, np.ndarray) else flags


def _restore(path: Path, pointers: Sequence[Pointer]) -> Counts | None:
    """Write what a kept launch wrote; None where there is none, and nothing was written then."""
    try:
        with np.load(path, allow_pickle=False) as file:
            kept = {name: file[name] for name in file.files}
        instructions, lane_instructions, workgroups = map(int, kept.pop(_COUNTS))
    except _DAMAGED:
        return None
    for name, data in kept.items():
        pointer = pointers[int(name[1:])]
        if name[0] == "b":
            _bytes(pointer)[:] = data
        elif isinstance(pointer.written, np.ndarray):
            pointer.written[:] = np.unpackbits(data, count=pointer.written.size).view(np.bool_)
    return Counts(instructions, lane_instructions, workgroups)


_LOOKS = 8
"""A process looks how large the folder is whenever it has kept such a share of what it may hold."""


def _trim(folder: Path, most_bytes: int) -> None:
    """Remove the oldest launches of a folder that holds too much, until it is half as large as it may be."""
    files = [(path, found) for path in folder.rglob("*.npz") if (found := _stat(path))]
    left = sum(found.st_size for _, found in files)
    if left <= most_bytes:
        return
    for path, found in sorted(files, key=lambda each: each[1].st_mtime_ns):
        if left <= most_bytes // 2:
            break
        path.unlink(missing_ok=True)
        left -= found.st_size


def _stat(path: Path) -> os.stat_result | None:
    """None where another process has removed it."""
    try:
        return path.stat()
    except OSError:
        return None


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file as a whole, or nothing, as where the disk is full."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise


def _changed(pointers: Sequence[Pointer], before: Sequence[bytes]) -> Iterator[tuple[str, np.ndarray]]:
    for number, (pointer, digest) in enumerate(zip(pointers, before, strict=True)):
        if hashlib.blake2b(_bytes(pointer)).digest() != digest:
            yield f"b{number}", _bytes(pointer)
        if isinstance(pointer.written, np.ndarray):
            yield f"w{number}", np.packbits(pointer.written)
