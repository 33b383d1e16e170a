"""What Inductor launched on the GPU of this host; no torch."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TensorForm:
    """A tensor that a kernel was launched with."""

    dtype: str  # PyTorch's name: bfloat16
    shape: tuple[int, ...]
    stride: tuple[int, ...]


Argument = TensorForm | int | float | bool | None


@dataclass(frozen=True, slots=True)
class SeenLaunch:
    """A launch of a generated kernel; launches that are alike are one."""

    kernel: str
    source: str  # the whole module that Inductor wrote for it
    arguments: tuple[tuple[str, Argument], ...]  # by name, without those that are constants of the build


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run of a script launched."""

    launches: tuple[SeenLaunch, ...]
    device: str  # name of the GPU

    @property
    def kernels(self) -> Sequence[str]:
        """Names of the kernels, each once."""
        return tuple(dict.fromkeys(each.kernel for each in self.launches))


def write_seen(path: Path, seen: Seen) -> None:
    """Leave it for another process of portkit's."""
    path.write_bytes(pickle.dumps(seen))


def read_seen(path: Path) -> Seen:
    """Read what :func:`write_seen` left."""
    seen: Seen = pickle.loads(path.read_bytes())
    return seen
