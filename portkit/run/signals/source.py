"""What the source asks for, and how Triton laid it out: signals that no vendor's text is needed for."""

from __future__ import annotations

import math
import re
from collections import Counter

from portkit.model import FP8_FORMATS
from portkit.run.signals.counting import compiled, counts

_DOT = re.compile(r"\btt\.dot %[^\n]*? : tensor<[\dx]*x(\w+)> \*")
_TENSOR = re.compile(r"tensor<((?:\d+x)+)[^>]")
_PRODUCT = re.compile(r"^\s*(%[\w#]+) = arith\.mulf [^\n]*? : (?:tensor<[\dx]*x)?(bf16|f16|f32)\b", re.M)
_SUM = re.compile(r"= arith\.(?:addf|subf) (%[\w#]+), (%[\w#]+)")
_DEFINED = re.compile(r"^\s*(%[\w#]+) = ([\w.]+) ([^\n]*)", re.M)
_NAME = re.compile(r"%[\w#]+")
_INT32 = re.compile(r"i32>?(?: loc\b|\s*$)")
_SAME_WIDTH = ("arith.addi", "arith.subi", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape")
"""Operations whose result is as wide as what they take."""

_CLASSES = {"f8": "f8", "bf16": "f16", "f16": "f16", "f32": "f32", "f64": "f64", "i8": "i8"}
"""How an element type begins → its class of matrix instructions."""

_COUNTED = {
    "dot.scaled": r"\btt\.dot_scaled ",
    "exp": r"\bmath\.exp ",
    "exp2": r"\bmath\.exp2 ",
    "max_number": r"\barith\.(?:max|min)numf ",
    "max_nan": r"\barith\.(?:maximum|minimum)f ",
    "fp8_from": r"\btt\.fp_to_fp [^\n]*? : (?:tensor<[\dx]*x)?f8\w*>? ->",
    "fp8_to": r"\btt\.fp_to_fp [^\n]*-> (?:tensor<[\dx]*x)?f8",
    **{f"fp8.{kind}": rf"^(?!\s*tt\.func)[^\n]*f8{kind.upper()}\b" for kind in FP8_FORMATS},
    "atomic_float": r"\btt\.atomic_rmw f\w+,",
    "atomic_compare": r"\btt\.atomic_cas ",
    "inline_asm": r"\btt\.elementwise_inline_asm ",
    "library.nvidia": r'symbol = "__nv_',
    "library.amd": r'symbol = "__(?:ocml|ockl)_',
    "ask.warp_specialize": r"\btt\.warp_specialize\b",
    "ask.eviction": r"\bevictionPolicy = evict_|\beviction_policy = evict_",
}
_PATTERNS = compiled(_COUNTED)


def source_signals(ttir: str) -> dict[str, int]:
    """What the kernel's source asks for, by its ttir."""
    return {
        **counts(_PATTERNS, ttir),
        **_dots(ttir),
        **_products_added(ttir),
        "offsets32": _offsets32(ttir),
        "tile": _tile(ttir),
    }


def layout_signals(ttgir: str) -> dict[str, int]:
    """What became of requests in Triton's own passes, by its ttgir."""
    return {
        "warp_specialized": len(re.findall(r"\bttg\.warp_specialize\(", ttgir)),
        "buffer_operations": len(re.findall(r"= amd\w+\.buffer_|^\s*amd\w+\.buffer_", ttgir, re.M)),
        "staged_loads": _staged_loads(ttgir),
    }


def llvm_signals(llir: str) -> dict[str, int]:
    """Size of the optimised LLVM IR, and what in it no GPU has an instruction for."""
    divisions = re.findall(r"= (?:sdiv|udiv|srem|urem)(?: exact)? i64 [^,\n]+, %", llir)
    return {"division64": len(divisions), "llvm_lines": llir.count("\n")}


def _dots(ttir: str) -> Counter[str]:
    """Products of tiles by the type of their first operand."""
    return Counter(f"dot.{_class_of(kind)}" for kind in _DOT.findall(ttir))


def _class_of(kind: str) -> str:
    return next((name for start, name in _CLASSES.items() if kind.startswith(start)), "other")


def _products_added(ttir: str) -> Counter[str]:
    """Products that a sum takes, by type: each may round once or twice."""
    products = dict(_PRODUCT.findall(ttir))
    taken = {name for pair in _SUM.findall(ttir) for name in pair}
    return Counter(f"mul_add.{kind}" for name, kind in products.items() if name in taken)


def _offsets32(ttir: str) -> int:
    """32-bit offsets added to pointers that come of a 32-bit product, which may overflow."""
    defined = {name: (operation, rest) for name, operation, rest in _DEFINED.findall(ttir)}
    offsets = [
        _NAME.findall(rest) for operation, rest in defined.values() if operation == "tt.addptr" and _INT32.search(rest)
    ]
    return sum(1 for names in offsets if len(names) > 1 and _is_product32(names[1], defined, set()))


def _is_product32(name: str, defined: dict[str, tuple[str, str]], seen: set[str]) -> bool:
    """Whether a 32-bit multiplication is among what a value is made of, without widening in between."""
    operation, rest = defined.get(name, ("", ""))
    if name in seen or not operation:
        return False
    seen.add(name)
    if operation == "arith.muli":
        return bool(_INT32.search(rest))
    return operation in _SAME_WIDTH and any(_is_product32(each, defined, seen) for each in _NAME.findall(rest))


def _tile(ttir: str) -> int:
    """Elements of the largest tensor that a block works on; 1 where all are scalars."""
    sizes = (math.prod(int(n) for n in text.split("x") if n) for text in _TENSOR.findall(ttir))
    return max(sizes, default=1)


def _staged_loads(ttgir: str) -> int:
    """Loads of a pipelined loop that go to shared memory by way of registers."""
    return len(re.findall(r"\bttg\.local_store ", ttgir))
