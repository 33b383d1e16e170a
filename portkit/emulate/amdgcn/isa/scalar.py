"""Scalar arithmetic and comparisons.

Sources: CDNA3 ISA and RDNA3 ISA, "SOP1/SOP2/SOPC/SOPK Instructions"; RDNA3.5 and RDNA4 ISA for scalar floats.
SCC is a carry, an overflow, a comparison, or "result is not zero", as each group of entries says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from portkit.emulate.amdgcn.architecture import ALL, CDNA, RDNA, Generation
from portkit.emulate.amdgcn.decode import Decoder, Read, Step, take_apart
from portkit.emulate.amdgcn.isa import sections
from portkit.emulate.amdgcn.isa.arithmetic import row_of
from portkit.emulate.amdgcn.isa.compare import RELATIONS
from portkit.emulate.amdgcn.isa.registry import Build, Entry
from portkit.emulate.amdgcn.machine import Array, Machine
from portkit.emulate.amdgcn.operands import Type, is_constant
from portkit.emulate.core import floats, integers
from portkit.emulate.core.vectors import Approximation

_31, _63 = np.uint32(31), np.uint32(63)
RDNA4_ONLY = frozenset({Generation.RDNA4})


def _kinds(signature: str) -> tuple[Type, tuple[Type, ...]]:
    result, _, sources = signature.partition("=")
    return Type[result.strip()], tuple(Type[name] for name in sources.split())


def _signed_scalar(decoder: Decoder, text: str, kind: Type) -> Read:
    """A scalar operand with the sign marks that scalar floats may carry."""
    source = take_apart(text)
    read = decoder.scalar(source.text, kind)
    if (source.negate or source.absolute) and not (kind.floating and not is_constant(source.text)):
        raise decoder.unsupported(f"sign modifier on {text}")
    if source.absolute:
        inner = read
        read = lambda machine: np.abs(inner(machine))  # noqa: E731
    if source.negate:
        plain = read
        read = lambda machine: -plain(machine)  # noqa: E731
    return read


def _sources(decoder: Decoder, kinds: tuple[Type, ...], accumulate: bool) -> list[Read]:
    texts = (*decoder.operands[1:], decoder.operands[0]) if accumulate else decoder.operands[1:]
    if len(texts) != len(kinds):
        raise decoder.unsupported(f"{len(decoder.operands)} operands")
    return [_signed_scalar(decoder, text, kind) for text, kind in zip(texts, kinds, strict=True)]


def _computed(signature: str, function: Callable[..., Any], *, scc: bool, accumulate: bool = False) -> Build:
    """Result of a function; SCC says whether it is not zero, where the instruction writes SCC."""
    result, kinds = _kinds(signature)

    def build(decoder: Decoder) -> Step:
        reads = _sources(decoder, kinds, accumulate)
        write = decoder.scalar_result(decoder.operands[0], result)

        def step(machine: Machine) -> None:
            value = np.asarray(function(*[read(machine) for read in reads]))
            write(machine, value)
            if scc:
                machine.write_scc(value != 0)

        return step

    return build


def _entry(
    signature: str,
    function: Callable[..., Any],
    section: str,
    generations: frozenset[Generation] = ALL,
    *,
    scc: bool = False,
    accumulate: bool = False,
    approximation: Approximation | None = None,
) -> Entry:
    """Table row of one result that a function gives."""
    build = _computed(signature, function, scc=scc, accumulate=accumulate)
    operands = row_of(signature, function, accumulate=accumulate).operands
    return Entry(build, section, generations, operands, approximation)


def _flagged(signature: str, function: Callable[..., tuple[Any, Any]]) -> Build:
    """Result and SCC from one function."""
    result, kinds = _kinds(signature)

    def build(decoder: Decoder) -> Step:
        reads = _sources(decoder, kinds, accumulate=False)
        write = decoder.scalar_result(decoder.operands[0], result)

        def step(machine: Machine) -> None:
            value, flag = function(*[read(machine) for read in reads])
            write(machine, value)
            machine.write_scc(flag)

        return step

    return build


def _wide(*values: Array) -> list[Array]:
    return [np.asarray(value).astype(np.int64) for value in values]


def _low(value: Array) -> Array:
    return (np.asarray(value) & 0xFFFF_FFFF).astype(np.uint32)


def _add_unsigned(a: Array, b: Array) -> tuple[Array, Array]:
    left, right = _wide(a, b)
    return _low(left + right), left + right > 0xFFFF_FFFF


def _subtract_unsigned(a: Array, b: Array) -> tuple[Array, Array]:
    left, right = _wide(a, b)
    return _low(left - right), left < right


def _signed_sum(sign: int) -> Callable[[Array, Array], tuple[Array, Array]]:
    def operation(a: Array, b: Array) -> tuple[Array, Array]:
        left, right = _wide(a, b)
        total = left + sign * right
        return _low(total), (total > 2**31 - 1) | (total < -(2**31))

    return operation


def _add_shifted(by: int) -> Callable[[Array, Array], tuple[Array, Array]]:
    def operation(a: Array, b: Array) -> tuple[Array, Array]:
        left, right = _wide(a, b)
        total = (left << by) + right
        return _low(total), total > 0xFFFF_FFFF

    return operation


def _extreme(choose: Any, first_wins: Any) -> Callable[[Array, Array], tuple[Array, Array]]:
    return lambda a, b: (choose(a, b), first_wins(a, b))


def _absolute_difference(a: Array, b: Array) -> tuple[Array, Array]:
    left, right = _wide(a, b)
    value = _low(np.abs(left - right))
    return value, value != 0


def _with_carry(sign: int) -> Build:
    """Adds or subtracts with SCC as the carry in and out."""

    def build(decoder: Decoder) -> Step:
        left, right = _sources(decoder, (Type.U32, Type.U32), accumulate=False)
        write = decoder.scalar_result(decoder.operands[0], Type.U32)

        def step(machine: Machine) -> None:
            a, b = _wide(left(machine), right(machine))
            total = a + sign * (b + machine.read_scc())
            write(machine, _low(total))
            machine.write_scc((total < 0) | (total > 0xFFFF_FFFF))

        return step

    return build


def _save_exec(operation: Callable[[Array, Array], Array], kind: Type) -> Build:
    """The old EXEC to the destination, a combination of it with the source to EXEC; both are read first."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        name = "exec" if kind is Type.U64 else "exec_lo"
        source, old = decoder.scalar(decoder.operands[1], kind), decoder.scalar(name, kind)
        save, write = decoder.scalar_result(decoder.operands[0], kind), decoder.scalar_result(name, kind)

        def step(machine: Machine) -> None:
            before = np.array(old(machine))
            after = np.asarray(operation(source(machine), before))
            save(machine, before)
            write(machine, after)
            machine.write_scc(after != 0)

        return step

    return build


def _comparison(relation: Callable[[Any, Any], Any], kinds: tuple[Type, Type]) -> Build:
    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        left, right = (_signed_scalar(decoder, t, k) for t, k in zip(decoder.operands, kinds, strict=True))
        return lambda machine: machine.write_scc(np.asarray(relation(left(machine), right(machine))))

    return build


def _comparison_with_immediate(relation: Callable[[Any, Any], Any], kind: Type) -> Build:
    """s_cmpk: the immediate has 16 bits, sign-extended for a signed comparison."""

    def build(decoder: Decoder) -> Step:
        decoder.need(2)
        left, immediate = decoder.scalar(decoder.operands[0], kind), _immediate16(decoder, decoder.operands[1])
        right = immediate if kind is Type.I32 else np.uint32(int(immediate) & 0xFFFF)
        return lambda machine: machine.write_scc(np.asarray(relation(left(machine), right)))

    return build


def _bit_is(wanted: int, kind: Type) -> Build:
    limit = np.uint32(kind.bits - 1)
    relation = lambda x, bit: (x >> np.asarray(bit & limit).astype(kind.dtype)) & kind.dtype.type(1) == wanted  # noqa: E731
    return _comparison(relation, (kind, Type.U32))


def _select(kind: Type) -> Build:
    def build(decoder: Decoder) -> Step:
        left, right = _sources(decoder, (kind, kind), accumulate=False)
        write = decoder.scalar_result(decoder.operands[0], kind)
        return lambda machine: write(machine, np.where(machine.read_scc(), left(machine), right(machine)))

    return build


def _conditional_move(kind: Type) -> Build:
    """s_cmov: the destination keeps its value where SCC is 0."""

    def build(decoder: Decoder) -> Step:
        new, old = _sources(decoder, (kind, kind), accumulate=True)
        write = decoder.scalar_result(decoder.operands[0], kind)
        return lambda machine: write(machine, np.where(machine.read_scc(), new(machine), old(machine)))

    return build


def _immediate16(decoder: Decoder, text: str) -> np.int32:
    """A 16-bit immediate, sign-extended."""
    if not is_constant(text):
        raise decoder.unsupported(f"operand {text} where an immediate is needed")
    return np.int32((int(text, 0) & 0xFFFF ^ 0x8000) - 0x8000)


def _move_immediate(decoder: Decoder) -> Step:
    decoder.need(2)
    value, write = _immediate16(decoder, decoder.operands[1]), decoder.scalar_result(decoder.operands[0], Type.I32)
    return lambda machine: write(machine, np.asarray(value))


def _add_immediate(decoder: Decoder) -> Step:
    decoder.need(2)
    value, read = _immediate16(decoder, decoder.operands[1]), decoder.scalar(decoder.operands[0], Type.I32)
    write, total = decoder.scalar_result(decoder.operands[0], Type.U32), _signed_sum(1)

    def step(machine: Machine) -> None:
        result, overflow = total(read(machine), np.asarray(value))
        write(machine, result)
        machine.write_scc(overflow)

    return step


def _multiply_immediate(decoder: Decoder) -> Step:
    decoder.need(2)
    value, read = _immediate16(decoder, decoder.operands[1]), decoder.scalar(decoder.operands[0], Type.I32)
    write = decoder.scalar_result(decoder.operands[0], Type.I32)
    return lambda machine: write(machine, np.asarray(read(machine)) * value)


def _field(function: Callable[[Array, Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """s_bfe: offset in bits 0 to 4 and width in bits 16 to 22 of the second source."""

    def operation(x: Array, packed: Array) -> Array:
        width = (packed >> np.uint32(16)) & np.uint32(127)
        part = function(x, packed & _31, np.minimum(width, np.uint32(31)))
        whole = function(x, packed & _31, np.uint32(0)) if np.all(width < 32) else _whole(x, packed & _31, function)
        return np.where(width >= 32, whole, part)

    return operation


def _whole(x: Array, offset: Array, function: Callable[..., Array]) -> Array:
    """A field of 32 bits or more: all that lies above the offset."""
    if function is integers.extract:
        return np.asarray(x) >> offset
    return (np.asarray(x).view(np.int32) >> np.asarray(offset).astype(np.int32)).view(np.uint32)


def _field64(x: Array, packed: Array) -> Array:
    offset = (packed & _63).astype(np.uint64)
    width = ((packed >> np.uint32(16)) & np.uint32(127)).astype(np.uint64)
    mask = np.where(width >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(width, np.uint64(63))) - np.uint64(1))
    return np.asarray((x >> offset) & mask)


def _shift(operation: Any, kind: Type) -> Callable[[Array, Array], Array]:
    limit = np.uint32(kind.bits - 1)
    return lambda x, by: operation(x, np.asarray(by & limit).astype(kind.dtype))


def _popcount(x: Array) -> Array:
    return np.asarray(np.bitwise_count(np.asarray(x))).astype(np.uint32)


def _pack(low_half: int, high_half: int) -> Callable[[Array, Array], Array]:
    def operation(a: Array, b: Array) -> Array:
        low = (a >> np.uint32(16 * low_half)) & np.uint32(0xFFFF)
        return np.asarray(low | (((b >> np.uint32(16 * high_half)) & np.uint32(0xFFFF)) << np.uint32(16)))

    return operation


def _upper_half(a: Array) -> Array:
    return np.asarray(np.asarray(a >> np.uint32(16)).astype(np.uint16)).view(np.float16).astype(np.float32)


def _bit_mask(a: Array, b: Array) -> Array:
    return np.asarray(((np.uint32(1) << (a & _31)) - np.uint32(1)) << (b & _31))


def _bit_mask64(a: Array, b: Array) -> Array:
    width, offset = (np.asarray(value & _63).astype(np.uint64) for value in (a, b))
    return np.asarray(((np.uint64(1) << width) - np.uint64(1)) << offset)


def _set_bit(to: int) -> Callable[[Array, Array], Array]:
    def operation(bit: Array, old: Array) -> Array:
        mask = np.uint32(1) << (bit & _31)
        return np.asarray(old | mask if to else old & ~mask)

    return operation


_LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
}
_RENAMED = {"andn2": "and_not1", "orn2": "or_not1"}

_SCC_IF_NOT_ZERO: dict[str, tuple[str, Any]] = {
    "not_b32": ("U32 = U32", np.invert),
    "not_b64": ("U64 = U64", np.invert),
    "lshl_b32": ("U32 = U32 U32", _shift(np.left_shift, Type.U32)),
    "lshr_b32": ("U32 = U32 U32", _shift(np.right_shift, Type.U32)),
    "ashr_i32": ("I32 = I32 U32", _shift(np.right_shift, Type.I32)),
    "lshl_b64": ("U64 = U64 U32", _shift(np.left_shift, Type.U64)),
    "lshr_b64": ("U64 = U64 U32", _shift(np.right_shift, Type.U64)),
    "ashr_i64": ("I64 = I64 U32", _shift(np.right_shift, Type.I64)),
    "bfe_u32": ("U32 = U32 U32", _field(integers.extract)),
    "bfe_i32": ("U32 = U32 U32", _field(integers.extract_signed)),
    "bfe_u64": ("U64 = U64 U32", _field64),
    "abs_i32": ("I32 = I32", np.abs),
    "bcnt1_i32_b32": ("U32 = U32", _popcount),
    "bcnt1_i32_b64": ("U32 = U64", _popcount),
    "bcnt0_i32_b32": ("U32 = U32", lambda x: _popcount(~x)),
    "bcnt0_i32_b64": ("U32 = U64", lambda x: _popcount(~x)),
}

_SCC_KEPT: dict[str, tuple[str, Any]] = {
    "mov_b32": ("U32 = U32", np.array),
    "mov_b64": ("U64 = U64", np.array),
    "mul_i32": ("U32 = U32 U32", np.multiply),
    "mul_hi_u32": ("U32 = U32 U32", integers.high_unsigned),
    "mul_hi_i32": ("U32 = I32 I32", integers.high_signed),
    "brev_b32": ("U32 = U32", integers.reverse_bits),
    "sext_i32_i16": ("U32 = U32", lambda x: integers.sign_extend(x, 16)),
    "sext_i32_i8": ("U32 = U32", lambda x: integers.sign_extend(x, 8)),
    "pack_ll_b32_b16": ("U32 = U32 U32", _pack(0, 0)),
    "pack_lh_b32_b16": ("U32 = U32 U32", _pack(0, 1)),
    "pack_hh_b32_b16": ("U32 = U32 U32", _pack(1, 1)),
    "bfm_b32": ("U32 = U32 U32", _bit_mask),
    "bfm_b64": ("U64 = U32 U32", _bit_mask64),
    "ff1_i32_b32": ("U32 = U32", integers.trailing_zeros),
    "ctz_i32_b32": ("U32 = U32", integers.trailing_zeros),
    "flbit_i32_b32": ("U32 = U32", integers.leading_zeros),
    "clz_i32_u32": ("U32 = U32", integers.leading_zeros),
    "flbit_i32": ("U32 = U32", integers.sign_run),
    "cls_i32": ("U32 = U32", integers.sign_run),
    "ff1_i32_b64": ("U32 = U64", integers.trailing_zeros64),
    "ctz_i32_b64": ("U32 = U64", integers.trailing_zeros64),
    "flbit_i32_b64": ("U32 = U64", integers.leading_zeros64),
    "clz_i32_u64": ("U32 = U64", integers.leading_zeros64),
    "flbit_i32_i64": ("U32 = U64", integers.sign_run64),
    "cls_i32_i64": ("U32 = U64", integers.sign_run64),
}

_FLOAT: dict[str, tuple[str, Any]] = {
    "add_f32": ("F32 = F32 F32", np.add),
    "sub_f32": ("F32 = F32 F32", np.subtract),
    "mul_f32": ("F32 = F32 F32", np.multiply),
    "max_num_f32": ("F32 = F32 F32", floats.maximum),
    "min_num_f32": ("F32 = F32 F32", floats.minimum),
    "max_f32": ("F32 = F32 F32", floats.maximum),
    "min_f32": ("F32 = F32 F32", floats.minimum),
    "fmaak_f32": ("F32 = F32 F32 F32", floats.fma32),
    "fmamk_f32": ("F32 = F32 F32 F32", floats.fma32),
    "rndne_f32": ("F32 = F32", np.rint),
    "floor_f32": ("F32 = F32", np.floor),
    "ceil_f32": ("F32 = F32", np.ceil),
    "trunc_f32": ("F32 = F32", np.trunc),
    "cvt_f32_i32": ("F32 = I32", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_f32_u32": ("F32 = U32", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_f32_f16": ("F32 = F16", lambda x: np.asarray(x).astype(np.float32)),
    "cvt_hi_f32_f16": ("F32 = U32", _upper_half),
    "cvt_i32_f32": ("U32 = F32", floats.to_integer(-(2**31), 2**31 - 1)),
    "cvt_u32_f32": ("U32 = F32", floats.to_integer(0, 2**32 - 1)),
}

_TRANSCENDENTAL: dict[str, tuple[str, Any]] = {
    "exp_f32": ("F32 = F32", floats.approximate(np.exp2)),
    "log_f32": ("F32 = F32", floats.approximate(np.log2)),
    "rcp_f32": ("F32 = F32", floats.approximate(lambda x: 1 / x)),
    "rsq_f32": ("F32 = F32", floats.approximate(lambda x: 1 / np.sqrt(x))),
    "sqrt_f32": ("F32 = F32", floats.approximate(np.sqrt)),
}
"""Transcendentals with scalar operands (v_s_exp_f32 and the like)."""

_WITH_FLAG: dict[str, tuple[str, Any, frozenset[Generation]]] = {
    "add_u32": ("U32 = U32 U32", _add_unsigned, ALL - RDNA4_ONLY),
    "add_co_u32": ("U32 = U32 U32", _add_unsigned, RDNA4_ONLY),
    "sub_u32": ("U32 = U32 U32", _subtract_unsigned, ALL - RDNA4_ONLY),
    "sub_co_u32": ("U32 = U32 U32", _subtract_unsigned, RDNA4_ONLY),
    "add_i32": ("U32 = I32 I32", _signed_sum(1), ALL - RDNA4_ONLY),
    "add_co_i32": ("U32 = I32 I32", _signed_sum(1), RDNA4_ONLY),
    "sub_i32": ("U32 = I32 I32", _signed_sum(-1), ALL - RDNA4_ONLY),
    "sub_co_i32": ("U32 = I32 I32", _signed_sum(-1), RDNA4_ONLY),
    "lshl1_add_u32": ("U32 = U32 U32", _add_shifted(1), ALL),
    "lshl2_add_u32": ("U32 = U32 U32", _add_shifted(2), ALL),
    "lshl3_add_u32": ("U32 = U32 U32", _add_shifted(3), ALL),
    "lshl4_add_u32": ("U32 = U32 U32", _add_shifted(4), ALL),
    "min_i32": ("I32 = I32 I32", _extreme(np.minimum, np.less), ALL),
    "max_i32": ("I32 = I32 I32", _extreme(np.maximum, np.greater), ALL),
    "min_u32": ("U32 = U32 U32", _extreme(np.minimum, np.less), ALL),
    "max_u32": ("U32 = U32 U32", _extreme(np.maximum, np.greater), ALL),
    "absdiff_i32": ("U32 = I32 I32", _absolute_difference, ALL),
}


def _logic_tables() -> dict[str, Entry]:
    table = {}
    for name, function in _LOGIC.items():
        for kind in (Type.U32, Type.U64):
            signature, save = f"{kind.name} = {kind.name} {kind.name}", _save_exec(function, kind)
            narrow = ALL if kind is Type.U64 else RDNA  # waves of 32 lanes
            for spelled, generations in ((name, CDNA if name in _RENAMED else ALL), (_RENAMED.get(name, ""), RDNA)):
                if spelled:
                    table[f"s_{spelled}_b{kind.bits}"] = _entry(
                        signature, function, sections.SOP2, generations, scc=True
                    )
                if spelled and generations & narrow:
                    table[f"s_{spelled}_saveexec_b{kind.bits}"] = Entry(save, sections.SOP1, generations & narrow)
    return table


def _comparison_tables() -> dict[str, Entry]:
    table = {}
    for condition in ("eq", "lg", "gt", "ge", "lt", "le"):
        relation = np.not_equal if condition == "lg" else RELATIONS[condition]
        for kind in (Type.I32, Type.U32):
            name = f"{condition}_{kind.name.lower()}"
            table[f"s_cmp_{name}"] = Entry(_comparison(relation, (kind, kind)), sections.SOPC)
            table[f"s_cmpk_{name}"] = Entry(_comparison_with_immediate(relation, kind), sections.SOPK, ALL - RDNA4_ONLY)
    for condition, relation in (("eq", np.equal), ("lg", np.not_equal)):
        table[f"s_cmp_{condition}_u64"] = Entry(_comparison(relation, (Type.U64, Type.U64)), sections.SOPC)
    for condition, relation in RELATIONS.items():
        if condition != "ne":
            build = _comparison(relation, (Type.F32, Type.F32))
            table[f"s_cmp_{condition}_f32"] = Entry(build, sections.SCALAR_FLOATS_C, RDNA)
    return table


_ONLY: dict[str, frozenset[Generation]] = {
    **dict.fromkeys(("ff1_i32_b32", "flbit_i32_b32", "flbit_i32"), CDNA),
    **dict.fromkeys(("ff1_i32_b64", "flbit_i32_b64", "flbit_i32_i64"), CDNA),
    **dict.fromkeys(("ctz_i32_b32", "clz_i32_u32", "cls_i32"), RDNA),
    **dict.fromkeys(("ctz_i32_b64", "clz_i32_u64", "cls_i32_i64"), RDNA),
}
"""Generations of the entries that not all have."""

_ROUNDED_ONCE = Approximation("computed in float64 and rounded once, where devices are within 1 ulp", ulps=1)


def _plain_tables() -> dict[str, Entry]:
    table = {f"s_{n}": _entry(s, f, _format(s), scc=True) for n, (s, f) in _SCC_IF_NOT_ZERO.items()}
    table |= {f"s_{n}": _entry(s, f, _format(s), _ONLY.get(n, ALL)) for n, (s, f) in _SCC_KEPT.items()}
    table |= {
        f"s_{n}": _entry(s, f, sections.SCALAR_FLOATS if _binary(s) else sections.SCALAR_FLOATS_1, _having(n))
        for n, (s, f) in _FLOAT.items()
    }
    table |= {
        f"v_s_{n}": _entry(s, f, sections.RDNA4_VOP3, RDNA4_ONLY, approximation=_ROUNDED_ONCE)
        for n, (s, f) in _TRANSCENDENTAL.items()
    }
    return table | {
        f"s_{n}": Entry(_flagged(s, f), sections.SOP2, g, row_of(s, f).operands) for n, (s, f, g) in _WITH_FLAG.items()
    }


def _binary(signature: str) -> bool:
    return len(signature.split()) > 3


def _format(signature: str) -> str:
    """The section of instructions with so many sources."""
    return sections.SOP2 if _binary(signature) else sections.SOP1


def _having(name: str) -> frozenset[Generation]:
    """Generations that have a scalar operation on floats by this name."""
    return RDNA4_ONLY if "_num_" in name else RDNA - RDNA4_ONLY if name in {"max_f32", "min_f32"} else RDNA


TABLE: dict[str, Entry] = {
    **_logic_tables(),
    **_comparison_tables(),
    **_plain_tables(),
    "s_bitcmp0_b32": Entry(_bit_is(0, Type.U32), sections.SOPC),
    "s_bitcmp1_b32": Entry(_bit_is(1, Type.U32), sections.SOPC),
    "s_bitcmp0_b64": Entry(_bit_is(0, Type.U64), sections.SOPC),
    "s_bitcmp1_b64": Entry(_bit_is(1, Type.U64), sections.SOPC),
    "s_cselect_b32": Entry(_select(Type.U32), sections.SOP2),
    "s_cselect_b64": Entry(_select(Type.U64), sections.SOP2),
    "s_cmov_b32": Entry(_conditional_move(Type.U32), sections.SOP1),
    "s_cmov_b64": Entry(_conditional_move(Type.U64), sections.SOP1),
    "s_bitset0_b32": _entry("U32 = U32 U32", _set_bit(0), sections.SOP1, accumulate=True),
    "s_bitset1_b32": _entry("U32 = U32 U32", _set_bit(1), sections.SOP1, accumulate=True),
    "s_fmac_f32": _entry("F32 = F32 F32 F32", floats.fma32, sections.SCALAR_FLOATS, RDNA, accumulate=True),
    "s_addc_u32": Entry(_with_carry(1), sections.SOP2, ALL - RDNA4_ONLY),
    "s_subb_u32": Entry(_with_carry(-1), sections.SOP2, ALL - RDNA4_ONLY),
    "s_add_co_ci_u32": Entry(_with_carry(1), sections.SOP2, RDNA4_ONLY),
    "s_sub_co_ci_u32": Entry(_with_carry(-1), sections.SOP2, RDNA4_ONLY),
    "s_add_nc_u64": _entry("U64 = U64 U64", np.add, sections.SOP2, RDNA4_ONLY),
    "s_sub_nc_u64": _entry("U64 = U64 U64", np.subtract, sections.SOP2, RDNA4_ONLY),
    "s_mul_u64": _entry("U64 = U64 U64", np.multiply, sections.SOP2, RDNA4_ONLY),
    "s_movk_i32": Entry(_move_immediate, sections.SOPK),
    "s_addk_i32": Entry(_add_immediate, sections.SOPK, ALL - RDNA4_ONLY),
    "s_addk_co_i32": Entry(_add_immediate, sections.SOPK, RDNA4_ONLY),
    "s_mulk_i32": Entry(_multiply_immediate, sections.SOPK),
}
"""Mnemonic → entry."""
