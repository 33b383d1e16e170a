"""Shared memory that a kernel asks for, known before the compiler's long passes.

Triton sets shared memory aside in the first passes of its stage ``llir``, which still work on its own dialect. What
comes behind takes minutes where products have no matrix instruction and are unrolled element by element (seen: 128 rows
of 256 in float32 on sm_75: 0.3 s to the allocation, 93 s behind it). A build over its target's limit need not go there.

The allocation runs on a copy of the module, so that a kernel that fits is built from the one that was there.

Hooks: ``add_stages`` of a backend, and ``add_to_llvmir``, the pass that leaves Triton's dialect, the same in Triton 3.5
to 3.9; ``run`` of a pass manager takes a name from 3.6 on.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from triton._C import libtriton
from triton.backends import backends
from triton.runtime.errors import OutOfResources

_PLACES: Final[Mapping[str, str]] = {"cuda": "nvidia", "hip": "amd"}
"""A backend's name → that of its compiler and its passes."""

Stage = Callable[[Any, Any], Any]
"""One of a backend's: takes a module and what is known of it, gives the next module."""


class SharedMemoryExceededError(OutOfResources):
    """A kernel asks for more shared memory than a block can have; Triton's autotuner passes over such a configuration.

    Args:
        required: bytes that it asks for.
        limit: bytes that a block can have.
    """

    def __init__(self, required: int, limit: int) -> None:
        super().__init__(required, limit, "shared memory")

    @property
    def told(self) -> str:
        """As a broken limit of a launch is told."""
        return f"{self.name} {self.required} B > {self.limit} B"


class _Allocated(Exception):  # noqa: N818  (an event of the compiler, not an error)
    """The passes up to the allocation are there, and no other."""

    def __init__(self, passes: Any) -> None:
        self.passes = passes
        super().__init__()


def refused_over(limit: int, backend: str) -> contextlib.AbstractContextManager[None]:
    """Meanwhile, a build of more shared memory ends where that is known.

    Args:
        limit: bytes that a block of the target can have.
        backend: Triton's name of the vendor: ``cuda``, ``hip``.

    Raises:
        SharedMemoryExceededError: from ``triton.compile``, of a kernel that no cache has.
    """
    return _asking(backend, lambda module: True, limit, lambda: limit)


def refused_unrolled(most: Callable[[], int], limit: int, backend: str) -> contextlib.AbstractContextManager[None]:
    """The same, asked for only where the compiler would take minutes: of kernels whose products are unrolled.

    Args:
        most: bytes that are let pass now, though they may be over the target's limit.
        limit: as of :func:`refused_over`.
        backend: likewise.

    Raises:
        SharedMemoryExceededError: as of :func:`refused_over`.
    """
    return _asking(backend, unrolls_products, limit, most)


def unrolls_products(module: Any) -> bool:
    """Whether a module has a product without a matrix instruction: its factors lie as elementwise code has them."""
    return "dot_op<{opIdx = 0, parent = #blocked" in str(module)


@contextlib.contextmanager
def _asking(backend: str, asked: Callable[[Any], bool], limit: int, most: Callable[[], int]) -> Iterator[None]:
    compiler: Any = backends[_PLACES[backend]].compiler
    leaving = getattr(libtriton, _PLACES[backend]).passes.ttgpuir
    added = compiler.add_stages

    def add_stages(self: Any, stages: dict[str, Stage], *rest: Any) -> None:
        added(self, stages, *rest)
        stage = stages["llir"]

        def refusing(module: Any, metadata: Any) -> Any:
            if asked(module) and (required := allocated(stage, module, metadata, leaving)) > most():
                raise SharedMemoryExceededError(required, limit)
            return stage(module, metadata)

        stages["llir"] = refusing

    compiler.add_stages = add_stages
    try:
        yield
    finally:
        compiler.add_stages = added


def allocated(stage: Stage, module: Any, metadata: Any, leaving: Any) -> int:
    """Bytes of shared memory that the stage ``llir`` sets aside for a module.

    Args:
        stage: the backend's.
        module: of Triton's dialect; stays as it is.
        metadata: what the stage would write to.
        leaving: where the backend's ``add_to_llvmir`` is.
    """
    copy = _copied(module)
    try:
        with _stopped(leaving):
            stage(copy, dict(metadata))
    except _Allocated as event:
        _run(event.passes, copy)
    return int(copy.get_int_attr("ttg.shared") or 0)


@contextlib.contextmanager
def _stopped(leaving: Any) -> Iterator[None]:
    """Meanwhile, a stage raises where it would leave Triton's dialect, before it runs any of its passes."""
    original = leaving.add_to_llvmir

    def stop(passes: Any, *_: Any) -> None:
        raise _Allocated(passes)

    leaving.add_to_llvmir = stop
    try:
        yield
    finally:
        leaving.add_to_llvmir = original


def _run(passes: Any, module: Any) -> None:
    if "str" in passes.run.__doc__:
        passes.run(module, "allocation")
    else:  # Triton 3.5
        passes.run(module)


def _copied(module: Any) -> Any:
    """The module, read again from its text."""
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir", encoding="utf-8") as file:
        file.write(str(module))
        file.flush()
        copy = libtriton.ir.parse_mlir_module(file.name, module.context)
    copy.context = module.context
    return copy
