"""Conversions between floats of 8, 6 and 4 bits and wider ones.

``fp8`` and ``bf8`` mean the formats without infinities and negative zero on gfx942, and OCP's on gfx950 and
RDNA4; ``fp6``, ``bf6`` and ``fp4`` are OCP's E2M3, E3M2 and E2M1.

Sources: CDNA3 ISA "VOP1 Instructions" and "VOP3A & VOP3B Instructions" (v_cvt_f32_fp8, v_cvt_pk_fp8_f32), CDNA4 ISA
"VOP3A & VOP3B Instructions" (v_cvt_scalef32_…), RDNA4 ISA "VOP1 Instructions" and "VOP3 Instructions".

Overflow follows MODE.FP16_OVFL: with it set, values beyond the largest one and infinities become the largest one,
else infinity where the format has one and NaN where not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from portkit.emulate.amdgcn.architecture import Generation
from portkit.emulate.amdgcn.decode import Decoder, Read, Step
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.halves import pack
from portkit.emulate.amdgcn.isa.matrix import eight_bits
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import Type
from portkit.emulate.core import smallfloats
from portkit.emulate.core.floats import bf16_to_f32, exponent, f32_to_bf16
from portkit.emulate.core.smallfloats import E2M1, E2M3, E3M2, SmallFloat

_HAVE_FP8 = frozenset({Generation.CDNA3, Generation.CDNA4, Generation.RDNA4})
_CDNA4 = frozenset({Generation.CDNA4})

_FOUR_TO_SIX = {"fp6": E2M3, "bf6": E3M2, "fp4": E2M1}


def small_float(name: str, decoder: Decoder) -> SmallFloat:
    """The format that mnemonics of this architecture call by a name."""
    return _FOUR_TO_SIX.get(name) or eight_bits(name, decoder.architecture)


# -- wide values


@dataclass(frozen=True)
class Wide:
    """A type of 16 or 32 bits that conversions read and write, one value or two in a register."""

    kind: Type
    widen: Callable[[Array], Array]  # its own dtype → float32
    narrow: Callable[[Array], Array]  # float32 → its own bits

    @property
    def packed(self) -> bool:
        """Whether two values lie in one register."""
        return self.kind.bits == 16


_WIDE = {
    "f32": Wide(Type.F32, np.asarray, lambda x: x.view(np.uint32)),
    "f16": Wide(Type.F16, lambda x: x.astype(np.float32), lambda x: x.astype(np.float16).view(np.uint16)),
    "bf16": Wide(Type.B16, bf16_to_f32, f32_to_bf16),
}

Scale: TypeAlias = Callable[[Machine], Array]
"""A power of two a lane, as float64."""


def _scale(decoder: Decoder, place: int) -> Scale:
    """Exponent of a float32 operand, as E8M0: sign and mantissa do not count."""
    read = decoder.vector(decoder.operands[place], Type.F32)
    return lambda machine: smallfloats.scale_of(exponent(read(machine)))


def _saturates(machine: Machine) -> Array:
    """MODE.FP16_OVFL of the selected waves, to stand beside lanes."""
    return machine.fp16_overflow[machine.select][:, None]


# -- from small to wide


def _selected_byte(decoder: Decoder) -> int:
    """The byte of the source that is read: by SDWA's selection, or ``byte_sel``."""
    select = decoder.modifier("src0_sel", "BYTE_0")
    if not select.startswith("BYTE_"):
        raise decoder.unsupported(f"selection {select}")
    return int(select[-1]) or decoder.number("byte_sel")


def _selected_word(decoder: Decoder) -> int:
    """The word of the source that is read: by SDWA's selection, op_sel, or the half that the operand names."""
    select = decoder.modifier("src0_sel", "WORD_0")
    if not select.startswith("WORD_"):
        raise decoder.unsupported(f"selection {select}")
    text = decoder.operands[1]
    return int(select[-1]) or decoder.flags("op_sel", 2)[0] or int(text.endswith(".h"))


def _single(name: str) -> Build:
    """v_cvt_f32_fp8: one byte."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        small, down = small_float(name, decoder), np.uint32(8 * _selected_byte(decoder))
        source = decoder.vector(decoder.operands[1], Type.U32)
        write = decoder.vector_result(decoder.operands[0], Type.F32)
        return lambda machine: write(machine, small.decode(np.asarray(source(machine)) >> down & np.uint32(255)))

    return build


def _pair(name: str) -> Build:
    """v_cvt_pk_f32_fp8: two bytes of a word to two registers."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        small, down = small_float(name, decoder), np.uint32(16 * _selected_word(decoder))
        source = decoder.vector(decoder.operands[1].removesuffix(".l").removesuffix(".h"), Type.U32)
        first = decoder.vector_indices(decoder.operands[0], 2, write=True)

        def step(machine: Machine) -> None:
            word = np.asarray(source(machine)) >> down
            values = [small.decode(word >> np.uint32(8 * n) & np.uint32(255)) for n in (0, 1)]
            for number, value in enumerate(values):
                machine.write_vector(first + number, value, Type.F32)

        return step

    return build


def _scaled_pair(wide_name: str, name: str) -> Build:
    """v_cvt_scalef32_pk_f32_fp8 and its kin: two codes times a scale."""
    wide = _WIDE[wide_name]

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        small, scale = small_float(name, decoder), _scale(decoder, 2)
        down, bits = _place_of_codes(decoder, small), np.uint32(small.bits)
        source, mask = decoder.vector(decoder.operands[1], Type.U32), np.uint32((1 << small.bits) - 1)
        write = _pair_result(decoder, wide)

        def step(machine: Machine) -> None:
            word, factor = np.asarray(source(machine)) >> down, scale(machine)
            values = [small.decode(word >> (np.uint32(n) * bits) & mask) * factor for n in (0, 1)]
            write(machine, [wide.narrow(value.astype(np.float32)) for value in values])

        return step

    return build


def _place_of_codes(decoder: Decoder, small: SmallFloat) -> np.uint32:
    """Shift to the pair of codes: op_sel names a word of four, or a byte of eight codes."""
    flags = decoder.flags("op_sel", 3)
    if small.bits == 4:
        return np.uint32(8 * (flags[0] + 2 * flags[1]))
    if flags[1]:
        raise decoder.unsupported("op_sel of a second source")
    return np.uint32(16 * flags[0])


def _pair_result(decoder: Decoder, wide: Wide) -> Callable[[Machine, list[Array]], None]:
    """Writes two values: to one register, or to two."""
    if wide.packed:
        write = decoder.vector_result(decoder.operands[0], Type.U32)
        return lambda machine, pair: write(machine, pack(*pair))
    first = decoder.vector_indices(decoder.operands[0], 2, write=True)

    def write_two(machine: Machine, pair: list[Array]) -> None:
        for number, bits in enumerate(pair):
            machine.write_vector(first + number, bits)

    return write_two


# -- from wide to small


def _partial_result(decoder: Decoder, bits: int, place: int) -> Callable[[Machine, Array], None]:
    """Writes ``bits`` bits of the destination; the others stay."""
    text = decoder.operands[0]
    register = decoder.vector_register(text)
    place = register.half or place
    decoder.reading(register)
    decoder.writing(register)
    index, up = register.index, np.uint32(bits * place)
    kept = np.uint32(~(((1 << bits) - 1) << int(up)) & 0xFFFF_FFFF)
    return lambda machine, value: machine.write_vector(index, (machine.read_vector(index) & kept) | value << up)


def _narrowed(small: SmallFloat, values: list[Array], machine: Machine) -> Array:
    """Codes of two values, the first one in the low bits."""
    codes = [small.encode(value, _saturates(machine)) for value in values]
    return codes[0] | codes[1] << np.uint32(small.bits)


def _from_pair(name: str) -> Build:
    """v_cvt_pk_fp8_f32: two float32 to a half of the destination, by op_sel."""

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        small = small_float(name, decoder)
        reads = [decoder.vector(text, Type.F32) for text in decoder.operands[1:3]]
        write = _partial_result(decoder, 16, decoder.flags("op_sel", 3)[2])
        return lambda machine: write(machine, _narrowed(small, [np.asarray(r(machine)) for r in reads], machine))

    return build


def _scaled_from_pair(wide_name: str, name: str) -> Build:
    """v_cvt_scalef32_pk_fp8_f32 and its kin: two values divided by a scale."""
    wide = _WIDE[wide_name]

    def build(decoder: Decoder) -> Step:
        count = 2 if wide.packed else 3
        decoder.need(count + 1)
        small, scale = small_float(name, decoder), _scale(decoder, count)
        reads = _two_values(decoder, wide)
        write = _partial_result(decoder, 2 * small.bits, _place_of_result(decoder, small, count))

        def step(machine: Machine) -> None:
            factor = scale(machine)
            values = [read(machine).astype(np.float64) / factor for read in reads]
            write(machine, _narrowed(small, values, machine))

        return step

    return build


def _two_values(decoder: Decoder, wide: Wide) -> list[Read]:
    """Two registers, or the halves of one, as float32."""
    if not wide.packed:
        return [decoder.vector(text, Type.F32) for text in decoder.operands[1:3]]
    text = decoder.operands[1]
    halves = [decoder.vector(f"{text}.{half}", wide.kind) for half in "lh"]
    return [_widened(wide, half) for half in halves]


def _widened(wide: Wide, half: Read) -> Read:
    return lambda machine: np.asarray(wide.widen(half(machine)))


def _place_of_result(decoder: Decoder, small: SmallFloat, count: int) -> int:
    """The last bits of op_sel: a word of fp8, or a byte of fp4 by the last two of them."""
    flags = decoder.flags("op_sel", 4)
    if any(flags[:2]):
        raise decoder.unsupported("op_sel of a source")
    return flags[2] + 2 * flags[3] if small.bits == 4 else flags[count]


# -- 32 values


def _scaled_many(wide_name: str, name: str) -> Build:
    """v_cvt_scalef32_pk32_f32_fp6 and its kin: 32 codes of six registers."""
    wide = _WIDE[wide_name]

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        small, scale = small_float(name, decoder), _scale(decoder, 2)
        source = decoder.vector_indices(decoder.operands[1], 6, write=False)
        count = 16 if wide.packed else 32
        first = decoder.vector_indices(decoder.operands[0], count, write=True)

        def step(machine: Machine) -> None:
            words = np.stack([machine.read_vector(source + n) for n in range(6)], axis=-1)
            factor = machine.spread(scale(machine))[..., None]
            values = (small.decode(smallfloats.unpack(words, 6)) * factor).astype(np.float32)
            bits = wide.narrow(values)
            for number in range(count):
                part = pack(bits[..., 2 * number], bits[..., 2 * number + 1]) if wide.packed else bits[..., number]
                machine.write_vector(first + number, part)

        return step

    return build


def _scaled_from_many(wide_name: str, name: str) -> Build:
    """v_cvt_scalef32_pk32_fp6_f16 and its kin: 32 values of 16 registers to codes in six."""
    wide = _WIDE[wide_name]

    def build(decoder: Decoder) -> Step:
        decoder.need(3)
        small, scale = small_float(name, decoder), _scale(decoder, 2)
        source = decoder.vector_indices(decoder.operands[1], 16, write=False)
        first = decoder.vector_indices(decoder.operands[0], 6, write=True)

        def step(machine: Machine) -> None:
            words = np.stack([machine.read_vector(source + n) for n in range(16)], axis=-1)
            values = wide.widen(words.view(wide.kind.dtype)).astype(np.float64)
            codes = small.encode(values / machine.spread(scale(machine))[..., None], saturate=True)
            for number, word in enumerate(np.moveaxis(smallfloats.pack(codes, 6), -1, 0)):
                machine.write_vector(first + number, word)

        return step

    return build


def _tables() -> dict[str, Entry]:
    table = {}
    for name in ("fp8", "bf8"):
        table[f"v_cvt_f32_{name}"] = Entry(_single(name), sections.FP8_CDNA_AND_RDNA4, _HAVE_FP8)
        table[f"v_cvt_pk_f32_{name}"] = Entry(_pair(name), sections.FP8_CDNA_AND_RDNA4, _HAVE_FP8)
        table[f"v_cvt_pk_{name}_f32"] = Entry(_from_pair(name), sections.FP8_CDNA_AND_RDNA4, _HAVE_FP8)
    for name in ("fp8", "bf8", "fp4"):
        for wide in _WIDE:
            table[f"v_cvt_scalef32_pk_{wide}_{name}"] = Entry(_scaled_pair(wide, name), sections.CDNA4_VOP3, _CDNA4)
            table[f"v_cvt_scalef32_pk_{name}_{wide}"] = Entry(
                _scaled_from_pair(wide, name), sections.CDNA4_VOP3, _CDNA4
            )
    for name in ("fp6", "bf6"):
        for wide in _WIDE:
            table[f"v_cvt_scalef32_pk32_{wide}_{name}"] = Entry(_scaled_many(wide, name), sections.CDNA4_VOP3, _CDNA4)
        for wide in ("f16", "bf16"):
            table[f"v_cvt_scalef32_pk32_{name}_{wide}"] = Entry(
                _scaled_from_many(wide, name), sections.CDNA4_VOP3, _CDNA4
            )
    return table


TABLE: dict[str, Entry] = _tables()
"""Mnemonic → entry."""
