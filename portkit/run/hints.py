"""Hints of a source that its compiler did without: the build is right, and not what was asked for.

Triton's front end marks a loop whose warps are to be split into producers and consumers, and
builds tensor descriptors, for every target. A backend that has no use for them drops the mark or
rewrites the descriptors to masked pointers, without a word. Its texts of the build show it: the
source has the mark, and what later stages would have made of it is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def ignored_hints(asm: Mapping[str, Any]) -> tuple[str, ...]:
    """What a build does without that its source asked for, each in words.

    Args:
        asm: Triton's texts of the build by stage: ``source``, ``ttir``, ``ttgir``.
    """
    return tuple(_ignored(*(str(asm.get(stage, "")) for stage in ("source", "ttir", "ttgir"))))


def _ignored(source: str, ttir: str, ttgir: str) -> Iterator[str]:
    if "tt.warp_specialize" in source and "ttg.warp_specialize(" not in ttgir:
        yield "warp_specialize: all warps run the whole loop"
    if "tt.make_tensor_descriptor" in source and "tt.tensordesc" not in ttir:
        yield "tensor descriptors: tiles are loaded and stored through masked pointers"
