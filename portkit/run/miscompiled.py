"""What a binary provably lacks of what its source asked for.

A compiler that comes back without an error may have left something out. Two kinds are
seen in public faults and can be proven from what Triton keeps of a build:

1. **Inline assembly.** LLVM reports an operand that no register class holds
   (``could not allocate output register for constraint``) through a handler that ended
   the process up to Triton 3.7 and only prints from 3.8 on; the result is then
   undefined. The LLVM IR that Triton keeps is the optimised one, so what is dead is gone
   from it, and code generation repeats inline assembly but never drops it: a text that is
   in the IR and in no marked block of the assembly is lost.
2. **Called functions.** AMD's kernels are linked as shared objects, which may leave
   symbols open, and nothing fills them when a kernel is loaded. NVIDIA's ptxas refuses
   such a call itself.

Texts are compared by their words, for operands are replaced and lines may be spread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from portkit.model import Build, Outcome, Stage, Status
from portkit.run.binaries.hsaco import undefined_symbols

_INLINE_ASM = re.compile(r'\basm (?:(?:sideeffect|alignstack|inteldialect|unwind) )*"([^"]*)"')
_BLOCK = re.compile(r"// begin inline asm(.*?)// end inline asm|#ASMSTART(.*?)#ASMEND", re.S)
_HEX = re.compile(r"\\([0-9A-Fa-f]{2})")
_OPERAND = re.compile(r"\$\$|\$\{[^}]*\}|\$\d+")
_WORD = re.compile(r"[A-Za-z_][\w.]+")
_DIALECTS = re.compile(r"(?<!\$)\$[(|)]")  # alternatives, of which one is printed
_SHOWN = 60  # characters of a text in a message


def missing_parts(asm: Mapping[str, Any], binary: bytes) -> tuple[str, ...]:
    """What is missing in the output of one build, each in words; empty where nothing is proven.

    Args:
        asm: Triton's texts of the build by stage: ``llir``, and ``ptx`` or ``amdgcn``.
        binary: the cubin or hsaco.
    """
    return (*_lost_assembly(asm), *_open_calls(asm, binary))


def miscompilation(build: Build | None) -> Outcome | None:
    """The outcome of a cell whose binaries lack something; None where nothing is proven."""
    if build is None or not build.lacks:
        return None
    return Outcome(Status.MISCOMPILED, Stage.COMPILE, "; ".join(build.lacks))


def _lost_assembly(asm: Mapping[str, Any]) -> Iterator[str]:
    final = next((name for name in ("ptx", "amdgcn") if name in asm), None)
    if final is None or "llir" not in asm:
        return
    blocks = ["".join(block) for block in _BLOCK.findall(asm[final])]
    for template in dict.fromkeys(_INLINE_ASM.findall(asm["llir"])):
        text = _HEX.sub(lambda match: chr(int(match[1], 16)), template)
        if not _present(text, blocks):
            yield (
                f"inline assembly {_short(text)!r} is not in the {final}: "
                "the compiler dropped it and left its result undefined"
            )


def _present(text: str, blocks: list[str]) -> bool:
    """Whether a block has all words of the text; a text without words or with alternatives proves nothing."""
    words = set(_WORD.findall(_OPERAND.sub(lambda match: "$" if match[0] == "$$" else " ", text)))
    if not words or _DIALECTS.search(text):
        return True
    return any(all(word in block for word in words) for block in blocks)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _open_calls(asm: Mapping[str, Any], binary: bytes) -> Iterator[str]:
    if "amdgcn" in asm and (names := undefined_symbols(binary)):
        yield f"the binary calls {', '.join(names)} and does not define it, so it can't be loaded"
