"""Keeps what each build went through: source, IR and assembly of its kernels, without the user's paths."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

from portkit.errors import HostError
from portkit.model import Build, Launch
from portkit.run.sass import machine_code
from portkit.run.scrub import scrub
from portkit.store.texts import BLOB, STAGES, KernelTexts, pack

LARGEST: Final = 4 << 20
"""Characters of a text; one that is longer is left out."""


class TextsOfBuilds:
    """The texts of every kernel that this process built, until a cell's record takes them."""

    def __init__(self) -> None:
        self._kernels: dict[str, Any] = {}  # hash of the binary → Triton's compiled kernel
        self._known: dict[str, KernelTexts] = {}

    def keep(self, binary_hash: str, kernel: Any) -> None:
        """Remember a compiled kernel."""
        self._kernels[binary_hash] = kernel

    def blob(self, build: Build | None) -> dict[str, bytes]:
        """The blob of a build's kernels by its name; none where there is nothing to keep."""
        launches = kept_launches(build) if build else ()
        texts = {each.binary_hash: self._of(each) for each in launches if each.binary_hash in self._kernels}
        return {BLOB: pack(texts)} if texts else {}

    def _of(self, launch: Launch) -> KernelTexts:
        name = launch.binary_hash
        if name not in self._known:
            spills = launch.resources.spill_bytes_per_thread > 0
            self._known[name] = read_texts(self._kernels[name], spills=spills)
        return self._known[name]


def kept_launches(build: Build) -> tuple[Launch, ...]:
    """Launches whose texts are kept: those made for certain, and of a kernel's open choices the first usable one."""
    first = {x.kernel: x for x in reversed(build.candidates) if x.trial}
    return (*build.counted, *(x for name, x in first.items() if name not in {y.kernel for y in build.counted}))


def read_texts(kernel: Any, *, spills: bool = False) -> KernelTexts:
    """Texts of one of Triton's compiled kernels, scrubbed.

    Args:
        kernel: as Triton gives it.
        spills: whether its machine code is wanted, too, where no other text shows what it spills.
    """
    found = {name: text for name, text in _stages(kernel).items() if isinstance(text, str)}
    nulls: dict[str, str] = {}
    if spills and "cubin" in kernel.asm:
        try:
            found["sass"] = machine_code(kernel.asm["cubin"])
        except HostError as error:
            nulls["sass"] = str(error)
    nulls |= {name: f"longer than {LARGEST >> 20} Mi characters" for name, text in found.items() if len(text) > LARGEST}
    file, line = _place(kernel)
    return KernelTexts(
        kernel=kernel.name,
        stages={name: scrubbed(text) for name, text in found.items() if name not in nulls},
        file=file,
        line=line,
        nulls=nulls,
    )


def scrubbed(text: str) -> str:
    """A text without the user's paths; most lines have none, and are not looked at.

    Of a folder that stands without a file's name the last part is kept. PTX writes debug sections
    as bytes, paths among them, so these are left out.
    """
    text = _DEBUG_SECTIONS.sub(r"\1{ // left out: it holds paths as bytes\n\t}", text)
    lines = text.split("\n")
    paths = [number for number, line in enumerate(lines) if "/" in line]
    for number, line in zip(paths, scrub("\n".join(lines[number] for number in paths)).split("\n"), strict=bool(paths)):
        lines[number] = line
    return _FOLDER.sub(r"\1\2", "\n".join(lines))


_DEBUG_SECTIONS: Final = re.compile(r"(\.section\s+\.debug_\w+\s*)\{[^}]*\}")
_FOLDER: Final = re.compile(r'(\.file\s+\d+\s+"|directory: ")[^"\n]*/([^"/\n]*)(?="(?:\s+"|\)|,))')
"""A folder in assembly (with the file's name behind it) and in LLVM IR."""


def _stages(kernel: Any) -> Mapping[str, Any]:
    """Texts by stage; what Triton calls ``source`` is IR again, so the function's own stands there."""
    kept = {name: kernel.asm[name] for name in STAGES if name in kernel.asm}
    return {**kept, "source": getattr(_function(kernel), "src", None)}


def _function(kernel: Any) -> Any:
    """The function that Triton compiled; None for a kernel that was given as IR."""
    return getattr(kernel.src, "fn", None)


def _place(kernel: Any) -> tuple[str | None, int | None]:
    """File and line where the kernel's source begins."""
    function = getattr(_function(kernel), "fn", None)
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    return (scrub(code.co_filename), code.co_firstlineno) if code else (None, None)
