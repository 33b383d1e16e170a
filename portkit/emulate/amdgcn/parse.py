"""Assembly text, as LLVM prints it for AMD GPUs, to a Program.

Sources: LLVM's "User Guide for AMDGPU Backend" (directives, code object V5 metadata) and "Syntax of AMDGPU
Instruction Operands / Modifiers".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from portkit.emulate.amdgcn.addresses import resolve
from portkit.emulate.amdgcn.architecture import Architecture, architecture_of
from portkit.emulate.amdgcn.constants import ALIGNMENT, constants_of
from portkit.emulate.amdgcn.isa.control import ends_block
from portkit.emulate.amdgcn.lanes import CONTROLS
from portkit.emulate.amdgcn.modes import with_modes
from portkit.emulate.amdgcn.program import Argument, Instruction, Program
from portkit.emulate.core.bounds import Bounds
from portkit.emulate.core.findings import Site, Unloadable, Unsupported, readable
from portkit.emulate.core.sources import SourceLines
from portkit.emulate.core.text import split_operands

MODIFIERS = frozenset(
    [
        "offset",
        "offset0",
        "offset1",
        "offen",
        "idxen",
        "sc0",
        "sc1",
        "nt",
        "glc",
        "slc",
        "dlc",
        "lds",
        "gds",
        "th",
        "scope",
        "nv",
        "tfe",
        *CONTROLS,
        "row_mask",
        "bank_mask",
        "bound_ctrl",
        "fi",
        "op_sel",
        "op_sel_hi",
        "neg_lo",
        "neg_hi",
        "clamp",
        "mul",
        "div",
        "dst_sel",
        "dst_unused",
        "src0_sel",
        "src1_sel",
        "byte_sel",
        "bitop3",
        "cbsz",
        "abid",
        "blgp",
        "neg",
        "index_key",
        "matrix_a_fmt",
        "matrix_b_fmt",
        "matrix_a_reuse",
        "matrix_b_reuse",
        "wait_exp",
        "wait_vdst",
        "wait_va_vdst",
        "wait_vm_vsrc",
    ]
)
"""Modifiers that the emulator knows by name; whether an instruction may carry one is its entry's to say."""

NOT_READ = frozenset({"kernel", "inst_pref_size", "next_free_sgpr", "reserve_vcc", "uses_dynamic_stack"})
"""Directives without a number, or with one that may be an expression over sizes or functions; none changes a result."""

OF_FUNCTIONS = "num_vgpr"
"""In an expression over functions; vector registers that their code names are there without it."""

DIRECTIVES = {
    "next_free_vgpr": Bounds(0, 512),
    "accum_offset": Bounds(4, 256),
    "user_sgpr_count": Bounds(0, 32),
    "user_sgpr_kernarg_preload_length": Bounds(0, 32),
    "user_sgpr_kernarg_preload_offset": Bounds(0, 511),
}
"""Of directives whose number counts: what their fields hold (LLVM, AMDGPU usage, "Kernel Descriptor")."""

WORDS = Bounds(0, 0xFFFF_FFFF)
"""What other directives hold at most."""

SIZES = {
    ".max_flat_workgroup_size": Bounds(1, 1024),
    ".kernarg_segment_size": Bounds(0, 1 << 16),
    ".group_segment_fixed_size": Bounds(0, 160 << 10),
    ".private_segment_fixed_size": Bounds(0, 128 << 10),
}
"""Of the metadata, what a device has: threads and bytes of a workgroup; bytes of a lane's scratch memory."""

TARGET = re.compile(r'\.amdgcn_target\s+"[^"]*-(gfx\w+)(?::[^"]*)?"')
CODE = re.compile(r"\.text\b|\.section\s+\.text\b")
"""Beginnings of sections of code: cold functions have one of their own."""
LABEL = re.compile(r"([\w.$]+):")
INSTRUCTION = re.compile(r"((?:s|v|ds|global|buffer|flat|scratch|image|tbuffer|exp)_\w+|exp)\b\s*(.*)")
PIECE = re.compile(r"(?:[^\s\[(|]|\[[^\]]*\]|\([^)]*\)|\|[^|]*\|)+")
FREE_FORM = re.compile(r"s_(waitcnt\w*|delay_alu|wait_\w+|sendmsg\w*|setreg\w*|getreg\w*|denorm_mode|round_mode)$")
"""Instructions whose operands have a grammar of their own; kept as one string."""


def parse_instruction(text: str, site: Site) -> Instruction:
    """One instruction, or the two halves of a dual-issue one."""
    first, _, second = text.partition("::")
    head = _parse_half(first.strip(), site)
    if not second:
        return head
    return Instruction(head.mnemonic, head.operands, head.modifiers, site, _parse_half(second.strip(), site))


def _parse_half(text: str, site: Site) -> Instruction:
    match = INSTRUCTION.fullmatch(text)
    if not match:
        raise Unsupported("not an instruction", site)
    mnemonic, rest = match.groups()
    if FREE_FORM.match(mnemonic):
        return Instruction(mnemonic, (rest.strip(),) if rest else (), {}, site)
    operands, modifiers = _operands_and_modifiers(rest, site)
    return Instruction(mnemonic, tuple(operands), modifiers, site)


def _operands_and_modifiers(text: str, site: Site) -> tuple[list[str], dict[str, str]]:
    """Modifiers follow the last operand, separated by blanks."""
    operands: list[str] = []
    modifiers: dict[str, str] = {}
    for part in split_operands(text, "[(", "])"):
        for number, piece in enumerate(PIECE.findall(part)):
            name, _, value = piece.partition(":")
            if name in MODIFIERS and "[" not in name:
                modifiers[name] = value
            elif number == 0 and not modifiers:
                operands.append(piece)
            else:
                raise Unsupported(f"modifier {name} is not known", site)
    return operands, modifiers


class _Reader:
    """Walks the lines once and collects what a Program is made of."""

    def __init__(self, text: str) -> None:
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.aligned: list[int] = []
        self.directives: dict[str, int] = {}
        self.source = SourceLines()
        self.symbols: dict[str, int] = {}
        for number, line in enumerate(_code_lines(text), 1):
            with readable(Site(number, line.strip())):
                self._line(number, line)

    def _line(self, number: int, line: str) -> None:
        code = line if '"' in line else line.split(";", 1)[0]
        code = code.strip()
        if not code:
            return
        if code[0] == ".":
            self._directive(number, code, line)
        elif match := LABEL.match(code):
            self.labels[match[1]] = len(self.instructions)
        else:
            self.instructions.append(parse_instruction(code, Site(number, code, self.source.here)))

    def _directive(self, number: int, code: str, line: str) -> None:
        if match := LABEL.match(code):
            self.labels[match[1]] = len(self.instructions)
        elif code.startswith(".loc"):
            self.source.location(code, line.partition(";")[2])
        elif code.startswith(".file"):
            self.source.file(code)
        elif code.startswith(".amdhsa_"):
            name, _, value = code[len(".amdhsa_") :].partition(" ")
            if name not in NOT_READ and OF_FUNCTIONS not in value:
                value_of = _integer(value.strip(), number, code)
                self.directives[name] = DIRECTIVES.get(name, WORDS).check(name, value_of, Site(number, code))
        elif code.startswith(".p2align"):
            self._align(ALIGNMENT.check("alignment", int(code.split()[1].rstrip(","), 0), Site(number, code)))

    def _align(self, power: int) -> None:
        """Boundaries of 256 bytes are remembered."""
        if power == 8:
            self.aligned.append(len(self.instructions))


def _code_lines(text: str) -> Iterator[str]:
    """Lines in order; those of sections without code and of the metadata come as empty ones."""
    code = True
    for line in text.splitlines():
        word = line.strip()
        if CODE.match(word):
            code = True
        elif word.startswith((".section", ".amdgpu_metadata")):
            code = False
        kept = code or word.startswith(".amdhsa_")
        yield line if kept and not word.startswith("#") else ""


def _integer(text: str, number: int, code: str) -> int:
    try:
        return int(text, 0) if text else 0
    except ValueError:
        raise Unsupported(f"value {text} is not a number", Site(number, code)) from None


def _metadata(text: str) -> dict[str, Any]:
    """The one kernel of the ``.amdgpu_metadata`` block."""
    match = re.search(r"^\s*\.amdgpu_metadata\s*\n---\n(.*?)^\.\.\.$", text, re.S | re.M)
    if not match:
        raise Unloadable("the text has no .amdgpu_metadata block; is it cut off?")
    kernels = _yaml(match[1]).get("amdhsa.kernels") or []
    if len(kernels) != 1:
        raise Unloadable(f"the text holds {len(kernels)} kernels; one is expected")
    return dict(kernels[0])


def _yaml(text: str) -> dict[str, Any]:
    """The block as LLVM prints it: mappings and sequences by indentation, plain or quoted scalars."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    value, rest = _yaml_block(lines, 0)
    if rest != len(lines) or not isinstance(value, dict):
        raise Unloadable("the .amdgpu_metadata block can't be read")
    return value


def _yaml_block(lines: list[tuple[int, str]], at: int) -> tuple[Any, int]:
    """The mapping or sequence that begins at a line, and the line behind it."""
    if at < len(lines) and lines[at][1].startswith("-"):
        return _yaml_sequence(lines, at)
    return _yaml_mapping(lines, at)


def _yaml_sequence(lines: list[tuple[int, str]], at: int) -> tuple[list[Any], int]:
    indent = lines[at][0]
    items: list[Any] = []
    item: Any
    while at < len(lines) and lines[at][0] == indent and lines[at][1].startswith("-"):
        body = lines[at][1][1:].lstrip()
        if re.match(r"[.\w]+:(\s|$)", body):
            lines[at] = (indent + len(lines[at][1]) - len(body), body)
            item, at = _yaml_mapping(lines, at)
        else:
            item, at = _scalar(body), at + 1
        items.append(item)
    return items, at


def _yaml_mapping(lines: list[tuple[int, str]], at: int) -> tuple[dict[str, Any], int]:
    indent = lines[at][0] if at < len(lines) else 0
    result: dict[str, Any] = {}
    while at < len(lines) and lines[at][0] == indent and not lines[at][1].startswith("-"):
        key, colon, value = lines[at][1].partition(":")
        if not colon:
            raise Unloadable(f"the .amdgpu_metadata block has the line {lines[at][1]!r}")
        at += 1
        if value.strip():
            result[key] = _scalar(value.strip())
        elif at < len(lines) and (lines[at][0] > indent or lines[at][1].startswith("-")):
            result[key], at = _yaml_block(lines, at)
    return result, at


def _scalar(text: str) -> int | bool | str:
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
        return int(text, 0)
    return {"true": True, "false": False}.get(text, text.strip("'\""))


def _argument(number: int, entry: dict[str, Any]) -> Argument:
    name = str(entry.get(".name", f"argument {number}"))
    return Argument(name, int(entry[".offset"]), int(entry[".size"]), str(entry[".value_kind"]))


def _check_sizes(kernel: Mapping[str, Any], text: str, architecture: Architecture) -> None:
    """Refuse sizes of the metadata that no kernel has."""
    size = kernel.get(".wavefront_size", architecture.wave_sizes[0])
    if size not in architecture.wave_sizes:
        raise Unloadable(f"the .amdgpu_metadata block has .wavefront_size {size}, which {architecture.name} has not")
    for name, bounds in SIZES.items():
        if name in kernel:
            bounds.check(name, int(kernel[name]), _site_of(name, text))
    if ".kernarg_segment_size" in kernel:
        _check_arguments(kernel, _site_of(".kernarg_segment_size", text))


def _check_arguments(kernel: Mapping[str, Any], site: Site | None) -> None:
    """Refuse arguments that lie outside their segment."""
    held = Bounds(0, int(kernel[".kernarg_segment_size"]))
    for number, entry in enumerate(kernel.get(".args") or []):
        argument = _argument(number, entry)
        held.check(f".offset of {argument.name}", argument.offset, site)
        held.check(f".size of {argument.name}", argument.size, site)
        held.check(f"end of {argument.name}", argument.offset + argument.size, site)


def _site_of(name: str, text: str) -> Site | None:
    """The line of the metadata that gives a size."""
    match = re.search(rf"^[ -]*{re.escape(name)}:.*$", text, re.M)
    return Site(text.count("\n", 0, match.start()) + 1, match[0].strip()) if match else None


def _branch_targets(instructions: Iterable[Instruction], labels: Mapping[str, int]) -> set[int]:
    return {labels[name] for item in instructions if ends_block(item) for name in item.operands if name in labels}


def parse(text: str) -> Program:
    """The kernel of an assembly text.

    Raises:
        Unloadable: the text is damaged, or its architecture is not emulated.
        Unsupported: an instruction has a form that is not known.
    """
    target = TARGET.search(text)
    if not target:
        raise Unloadable("the text has no .amdgcn_target line; is it AMD assembly?")
    architecture = architecture_of(target[1])
    kernel = _metadata(text)
    _check_sizes(kernel, text, architecture)
    read = _Reader(text)
    if not any(item.mnemonic == "s_endpgm" for item in read.instructions):
        raise Unloadable("the text has no s_endpgm; is it cut off?")
    constants = constants_of(text)
    resolved = resolve(read.instructions, read.labels, constants.addresses)
    flushes = read.directives.get("float_denorm_mode_32", 3) == 0
    targets = {*resolved.entries, *_branch_targets(resolved.instructions, read.labels)}
    try:
        return Program(
            name=str(kernel[".name"]),
            architecture=architecture,
            wave_size=int(kernel[".wavefront_size"]),
            instructions=with_modes(resolved.instructions, targets, flushes),
            labels=read.labels,
            aligned=tuple(at for at in read.aligned if 0 < at < len(read.instructions)),
            directives=read.directives,
            arguments=tuple(_argument(n, entry) for n, entry in enumerate(kernel.get(".args") or [])),
            kernarg_bytes=int(kernel[".kernarg_segment_size"]),
            max_workgroup_size=int(kernel[".max_flat_workgroup_size"]),
            shared_bytes=int(kernel[".group_segment_fixed_size"]),
            scratch_bytes=int(kernel[".private_segment_fixed_size"]),
            text=text,
            constants=bytes(constants.data),
            entries=resolved.entries,
            far=resolved.far,
        )
    except KeyError as error:
        raise Unloadable(f"the .amdgpu_metadata block lacks {error.args[0]}") from None
