"""Reads the code that Inductor generated: which kernels it calls how often, and what each fuses; no torch.

A kernel's name holds the ATen operations that it was made of, with ``_`` between them, as
``triton_poi_fused_add_mul_0`` or ``cpp_fused__softmax_0``; so they are told apart by the names of
operations that there are. Inductor puts ten into a name at most.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from portkit.store.toggled import Fused, Generated

_SOURCE: Final = re.compile(r"r?'''.*?'''", re.DOTALL)
_DEFINED: Final = re.compile(r"^(\w+) = async_compile\.\w+\(", re.MULTILINE)
_CALL: Final = re.compile(r"^\s+(?:\w+ = )?([A-Za-z_][\w.]*)\(", re.MULTILINE)
_LIBRARY: Final = re.compile(r"extern_kernels\.\w+|torch\.ops\.[\w.]+|aten\.\w+(?:\.\w+)*")
_NOT_RUN: Final = re.compile(r"^def (?:get_args|benchmark_compiled_module)\b", re.MULTILINE)
_PLAIN: Final = ("torch.ops.inductor._reinterpret_tensor",)


def generated(codes: Collection[str], operations: Collection[str]) -> Generated:
    """What the code of all graphs of a model calls.

    Args:
        codes: a module's text each.
        operations: names of ATen operations.
    """
    kernels: Counter[str] = Counter()
    library: Counter[str] = Counter()
    for code in codes:
        _count(code, kernels, library)
    fused = (Fused(name, operations_in(name, operations), calls) for name, calls in kernels.items())
    return Generated(len(codes), tuple(fused), dict(library))


def _count(code: str, kernels: Counter[str], library: Counter[str]) -> None:
    outside = _SOURCE.sub("''", code)
    defined = set(_DEFINED.findall(outside))
    for called in _CALL.findall(_NOT_RUN.split(outside)[0]):
        name = called.removesuffix(".run")
        if name in defined:
            kernels[name] += 1
        elif _LIBRARY.fullmatch(called) and called not in _PLAIN:
            library[called] += 1


def operations_in(kernel: str, known: Collection[str]) -> tuple[str, ...]:
    """The operations that a kernel's name has, in its order; empty for a kernel of a template.

    >>> operations_in("cpp_fused_mul_native_layer_norm__softmax_3", {"mul", "native_layer_norm", "_softmax", "native"})
    ('mul', 'native_layer_norm', '_softmax')
    """
    names = re.sub(r"_?\d+$", "", kernel.partition("_fused_")[2])
    return _split(names, frozenset(known)) or ((names,) if names else ())


def _split(text: str, known: frozenset[str]) -> tuple[str, ...]:
    """The fewest known names that make up the text with ``_`` between them; none where none do."""

    @functools.cache
    def best(start: int) -> tuple[str, ...] | None:
        if start == len(text) + 1:
            return ()
        found = [(name, *rest) for end, name in _heads(text, start, known) if (rest := best(end + 1)) is not None]
        return min(found, key=len, default=None)

    return best(0) or ()


def _heads(text: str, start: int, known: frozenset[str]) -> Iterable[tuple[int, str]]:
    ends = (end for end in range(start + 1, len(text) + 1) if end == len(text) or text[end] == "_")
    return ((end, text[start:end]) for end in ends if text[start:end] in known)
