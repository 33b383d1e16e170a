"""A library that a baseline calls: its names, its version, and whether it is installed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata, util
from typing import Any

Prepare = Callable[..., Mapping[str, Any]]
"""From a case's inputs to those of the library's operation, such as two tensors packed into one."""


@dataclass(frozen=True)
class Library:
    """A library by its two names."""

    distribution: str  # as package indexes have it: liger-kernel
    module: str  # as it is imported: liger_kernel

    @property
    def installed(self) -> bool:
        """Whether its module can be found; it is not imported."""
        return util.find_spec(self.module) is not None

    @property
    def version(self) -> str | None:
        """Of the installed distribution; None where its metadata say none."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None

    def call(self, *, prepare: Prepare | None = None) -> Callable[[Callable[..., Any]], LibraryCall]:
        """Mark a function as a call of this library.

        Args:
            prepare: turns the case's inputs into the function's, once and untimed: for an
                operation that takes another layout, which its users' tensors have already.
        """
        return lambda function: LibraryCall(function, self, prepare)


@dataclass(frozen=True)
class LibraryCall:
    """A function that calls a library, as a case names it among its baselines."""

    function: Callable[..., Any]
    library: Library
    prepare: Prepare | None = None

    def __call__(self, **inputs: Any) -> Any:
        """Prepare and call."""
        return self.function(**(self.prepare(**inputs) if self.prepare else inputs))

    @property
    def __signature__(self) -> inspect.Signature:
        """Of what takes the case's inputs, for the check that it takes them all."""
        return inspect.signature(self.prepare or self.function)


TORCH = Library("torch", "torch")
LIGER = Library("liger-kernel", "liger_kernel")
FLASHINFER = Library("flashinfer-python", "flashinfer")
FLAG_GEMS = Library("flag-gems", "flag_gems")
AITER = Library("amd-aiter", "aiter")

KNOWN = (LIGER, FLASHINFER, FLAG_GEMS, AITER)
"""Libraries that a run does not need, and that cases here name as baselines."""
