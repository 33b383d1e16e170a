"""Branches, barriers, ends, waits and mode registers.

Sources: CDNA3 ISA and RDNA3 ISA "SOPP Instructions"; RDNA4 ISA "SOP1" and "SOPP" for split barriers; CDNA3
ISA "Hardware Registers" for MODE.

A control instruction ends a block: its step sets the program counters or states of the selected waves.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from portkit.emulate.amdgcn.addresses import BYTES, address_of
from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Step
from portkit.emulate.amdgcn.hostcalls import calls_host
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.registry import Build, Entry, base_name, join, table_of
from portkit.emulate.amdgcn.machine import Machine, Mask
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.amdgcn.program import Instruction, Program
from portkit.emulate.core.findings import Fault, Finding, Kind
from portkit.emulate.core.schedule import ENDED, WAITING

RDNA4_ONLY = frozenset({Generation.RDNA4})

CONDITIONS: dict[str, Callable[[Machine], Mask]] = {
    "s_cbranch_scc0": lambda machine: ~machine.scc[machine.select],
    "s_cbranch_scc1": lambda machine: machine.scc[machine.select],
    "s_cbranch_vccz": lambda machine: machine.vcc_is_zero(),
    "s_cbranch_vccnz": lambda machine: ~machine.vcc_is_zero(),
    "s_cbranch_execz": lambda machine: ~machine.active.any(axis=1),
    "s_cbranch_execnz": lambda machine: machine.active.any(axis=1),
}
"""Conditional branch → waves that take it."""

JUMPS = frozenset({"s_setpc_b64", "s_swappc_b64"})
"""Go where a register pair says."""

ENDS_BLOCK = frozenset({*CONDITIONS, *JUMPS, "s_branch", "s_endpgm", "s_barrier", "s_barrier_wait", "s_trap"})
"""Instructions after which the waves of a group may part."""


def ends_block(instruction: Instruction) -> bool:
    """Whether a block can't go on past this instruction."""
    return base_name(instruction.mnemonic) in ENDS_BLOCK


def target_of(decoder: Decoder) -> int:
    """Index of the instruction that a branch goes to."""
    decoder.need(1)
    label = decoder.operands[0]
    if label not in decoder.program.labels:
        raise decoder.unsupported(f"label {label} is not in the text")
    return decoder.program.labels[label]


def _branch(decoder: Decoder) -> Step:
    target = target_of(decoder)

    def step(machine: Machine) -> None:
        machine.pc[machine.select] = target

    return step


def _own_address(decoder: Decoder) -> int:
    """Of the instruction behind this one."""
    return address_of(decoder.program.index_of[decoder.instruction.site.line] + 1)


def _get_address(decoder: Decoder) -> Step:
    """s_getpc_b64."""
    decoder.need(1)
    write, address = decoder.scalar_result(decoder.operands[0], Type.U64), np.uint64(_own_address(decoder))
    return lambda machine: write(machine, np.asarray(address))


def _jump(decoder: Decoder) -> Step:
    """s_setpc_b64, and s_swappc_b64, which leaves the address behind it."""
    decoder.need(1, 2)
    read = decoder.scalar(decoder.operands[-1], Type.U64)
    returns = len(decoder.operands) == 2
    write = decoder.scalar_result(decoder.operands[0], Type.U64) if returns else None
    address, known = np.uint64(_own_address(decoder)), {*decoder.program.entries, *return_points(decoder.program)}

    def step(machine: Machine) -> None:
        target = np.array(read(machine), np.uint64).reshape(-1) // np.uint64(BYTES)
        if not known.issuperset(target.tolist()):
            raise decoder.unsupported("jump to an address that is neither a symbol's nor behind a call")
        if write:
            write(machine, np.asarray(address))
        machine.pc[machine.select] = target.astype(np.int64)

    return step


def return_points(program: Program) -> list[int]:
    """Instructions behind calls."""
    return [index + 1 for index, item in enumerate(program.instructions) if item.mnemonic == "s_swappc_b64"]


def _conditional(condition: Callable[[Machine], Mask]) -> Build:
    def build(decoder: Decoder) -> Step:
        target = target_of(decoder)

        def step(machine: Machine) -> None:
            onward = machine.pc[machine.select]
            machine.pc[machine.select] = np.where(condition(machine), target, onward)

        return step

    return build


def _end(decoder: Decoder) -> Step:
    decoder.need(0)

    def step(machine: Machine) -> None:
        machine.state[machine.select] = ENDED

    return step


def _signal(machine: Machine) -> None:
    machine.signals[machine.select] += 1


def _wait(machine: Machine) -> None:
    machine.waits[machine.select] += 1
    machine.state[machine.select] = WAITING


def _barrier(decoder: Decoder) -> Step:
    decoder.need(0)

    def step(machine: Machine) -> None:
        _signal(machine)
        _wait(machine)

    return step


def _workgroup_barrier_only(decoder: Decoder) -> None:
    decoder.need(1)
    if int(decoder.operands[0], 0) & 0xFFFF != 0xFFFF:
        raise decoder.unsupported(f"barrier {decoder.operands[0]}; only -1, the workgroup's, is modelled")


def _barrier_signal(decoder: Decoder) -> Step:
    _workgroup_barrier_only(decoder)
    return _signal


def _barrier_wait(decoder: Decoder) -> Step:
    _workgroup_barrier_only(decoder)
    site = decoder.instruction.site

    def step(machine: Machine) -> None:
        silent = machine.signals[machine.select] <= machine.waits[machine.select]
        if silent.any():
            place = machine.place(int(np.argmax(silent)), None)
            raise Fault(Finding(Kind.DEADLOCK, "waits at a barrier that it has not signalled", site, place))
        _wait(machine)

    return step


def _trap(decoder: Decoder) -> Step:
    site = decoder.instruction.site

    def step(machine: Machine) -> None:
        said = machine.host.complaints if machine.host else []
        message = ": ".join((f"trap {' '.join(decoder.operands)}", *dict.fromkeys(line.strip() for line in said[:3])))
        raise Fault(Finding(Kind.TRAP, message, site, machine.place(0, None)))

    return step


def _nothing(decoder: Decoder) -> Step:
    """Waits, hints and cache control: they change no result that the emulator models."""
    decoder.ignore("scope", "sc0", "sc1", "nt", "th", "glc", "slc", "dlc")
    return lambda machine: None


def _message(decoder: Decoder) -> Step:
    """s_sendmsg: the one that gives registers back at the end, and the bell of calls to the host.

    Others are refused where a wave comes by.
    """
    if decoder.operands == ("sendmsg(MSG_DEALLOC_VGPRS)",):
        return lambda machine: None
    if decoder.operands == ("sendmsg(MSG_INTERRUPT)",) and calls_host(decoder.program):
        return _ring
    return _refusing(decoder, f"message {' '.join(decoder.operands)}: services of the host are not there")


def _returning_message(decoder: Decoder) -> Step:
    """s_sendmsg_rtn: LLVM has it behind a trap of RDNA3, where no wave comes by."""
    target, _, message = decoder.operands[0].partition(", ")
    decoder.scalar_result(target, Type.U32)
    return _refusing(decoder, f"message {message}: services of the host are not there")


def _halt(decoder: Decoder) -> Step:
    """s_sethalt, likewise."""
    decoder.need(1)
    return _refusing(decoder, "a wave that halts: nobody is there who starts it again")


def _refusing(decoder: Decoder, cause: str) -> Step:
    """Refuses the instruction where a wave comes by."""
    refusal = decoder.unsupported(cause)

    def step(machine: Machine) -> None:
        raise refusal

    return step


def _ring(machine: Machine) -> None:
    assert machine.host
    machine.host.answer()


_MODE = re.compile(r"hwreg\(HW_REG_(?:WAVE_)?MODE,\s*(\d+),\s*(\d+)\),\s*(\w+)")


def _set_mode(decoder: Decoder) -> Step:
    """s_setreg_imm32_b32 of two fields of MODE: FP16_OVFL, which also clamps fp8 conversions, and denormals of float32.

    The latter is a matter of the program: ``modes.py`` says which instructions run in which mode.
    """
    match = _MODE.fullmatch(decoder.operands[0])
    field = (int(match[1]), int(match[2])) if match else None
    if match and field == (4, 2) and int(match[3], 0) in {0, 3}:
        return lambda machine: None
    if not match or field != (23, 1):
        raise decoder.unsupported(f"register field {decoder.operands[0]}")
    value = bool(int(match[3], 0))

    def step(machine: Machine) -> None:
        machine.fp16_overflow[machine.select] = value

    return step


def _denormals(decoder: Decoder) -> Step:
    """s_denorm_mode: bits 0 and 1 for float32, 2 and 3 for the others, which are always kept here."""
    if decoder.operands[0] not in {"12", "15", "0xc", "0xf"}:
        raise decoder.unsupported(f"denormal mode {decoder.operands[0]}")
    return lambda machine: None


_RDNA3_ONLY = frozenset({Generation.RDNA3})

_IGNORED: tuple[tuple[str, str, frozenset[Generation]], ...] = (
    ("s_nop s_setprio s_sleep s_icache_inv s_sched_barrier", sections.SOPP, ALL),
    ("s_waitcnt", sections.SOPP, ALL),  # on RDNA4 too: Triton 3.6 writes it into its locks, and LLVM assembles it
    ("s_wait_idle s_delay_alu s_clause s_code_end s_version s_ttracedata_imm", sections.RDNA_SOPP, RDNA),
    ("s_waitcnt_depctr s_set_inst_prefetch_distance s_inst_prefetch", sections.RDNA_SOPP, _RDNA3_ONLY),
    ("s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_expcnt s_waitcnt_lgkmcnt", sections.SOPK, _RDNA3_ONLY),
    ("s_wait_loadcnt s_wait_storecnt s_wait_samplecnt s_wait_bvhcnt s_wait_expcnt", sections.RDNA4_SOPP, RDNA4_ONLY),
    ("s_wait_dscnt s_wait_kmcnt s_wait_loadcnt_dscnt s_wait_storecnt_dscnt", sections.RDNA4_SOPP, RDNA4_ONLY),
    ("s_wait_alu", sections.RDNA4_SOPP, RDNA4_ONLY),
    ("s_prefetch_inst", sections.RDNA4_SMEM, RDNA4_ONLY),
    ("v_nop", sections.VOP1, ALL),
    ("buffer_inv buffer_wbl2", sections.BUFFER, CDNA),
    ("buffer_gl0_inv buffer_gl1_inv", sections.BUFFER, _RDNA3_ONLY),
    ("global_inv global_wb global_wbinv", sections.FLAT, RDNA4_ONLY),
)

IGNORED = frozenset(name for names, _, _ in _IGNORED for name in names.split())
"""Instructions that change no state the emulator has."""

TABLE: dict[str, Entry] = {
    **{name: Entry(_conditional(condition), sections.SOPP) for name, condition in CONDITIONS.items()},
    "s_branch": Entry(_branch, sections.SOPP),
    "s_endpgm": Entry(_end, sections.SOPP),
    "s_barrier": Entry(_barrier, sections.SOPP, ALL - RDNA4_ONLY),
    "s_barrier_signal": Entry(_barrier_signal, sections.RDNA4_SOP1, RDNA4_ONLY),
    "s_barrier_wait": Entry(_barrier_wait, sections.RDNA4_SOPP, RDNA4_ONLY),
    "s_trap": Entry(_trap, sections.SOPP),
    "s_sendmsg": Entry(_message, sections.SOPP),
    "s_sendmsg_rtn_b32": Entry(_returning_message, sections.RDNA_SOP1, RDNA),
    "s_sethalt": Entry(_halt, sections.SOPP),
    "s_setreg_imm32_b32": Entry(_set_mode, sections.SOPK),
    "s_denorm_mode": Entry(_denormals, sections.RDNA_SOPP, RDNA),
    "s_getpc_b64": Entry(_get_address, sections.SOP1),
    "s_setpc_b64": Entry(_jump, sections.SOP1),
    "s_swappc_b64": Entry(_jump, sections.SOP1),
    **join(table_of(_nothing, section, names, having) for names, section, having in _IGNORED),
}
"""Mnemonic → entry."""
