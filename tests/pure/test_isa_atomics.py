"""Every atomic of global, buffer and shared memory on contended elements, against one lane after another in Python."""

import operator
from dataclasses import dataclass

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
from assembly import computed, edge_rows, everywhere, names_of
from float_references import extreme, fractional
from formats import BF16, F16, F32, F64, signed

from portkit.emulate.amdgcn.isa import atomics

FLOATS = {"f32": F32, "f64": F64}
HALVES = {"f16": F16, "bf16": BF16}
SWAPS = {"swap", "wrxchg", "storexchg"}
COMPARING = {"cmpswap", "cmpst", "cmpstore"}
TARGETS = 4
"""Elements, eight bytes apart, that the lanes take turns at."""


@dataclass(frozen=True)
class Atomic:
    """What a mnemonic says: where, what, on which type, and whether it asks for the value before."""

    space: str
    operation: str
    kind: str
    returns: bool = False

    @property
    def bits(self):
        return 32 if self.kind in HALVES else int(self.kind[-2:])

    @property
    def words(self):
        return self.bits // 32


def atomic_of(name):
    space, _, rest = name.partition("_")
    parts = [part for part in rest.split("_") if part not in {"atomic", "num", "pk"}]
    returns, parts = "rtn" in parts, [part for part in parts if part != "rtn"]
    operation, kind = parts[0], parts[1] if len(parts) > 1 else "u32"
    if kind == "x2":
        kind = "u64"
    if operation[1:] in {"min", "max"}:
        operation, kind = operation[1:], {"s": "i", "u": "u"}[operation[0]] + kind[1:]
    return Atomic(space, operation, kind, returns)


def meaning_of(atomic):
    """(old, data, comparand) → new, on bits."""
    if atomic.operation in SWAPS:
        return lambda old, x, expected: x
    if atomic.operation in COMPARING:
        return lambda old, x, expected: x if old == expected else old
    if atomic.kind in HALVES:
        return halves(HALVES[atomic.kind])
    if atomic.kind in FLOATS:
        kind = FLOATS[atomic.kind]
        function = fractional(kind, operator.add) if atomic.operation == "add" else extreme(kind, extremes(atomic))
        return lambda old, x, expected: function(old, x)
    return integers(atomic)


def extremes(atomic):
    return {"min": min, "max": max}[atomic.operation]


def halves(kind):
    add = fractional(kind, operator.add)

    def operation(old, x, expected):
        low, high = (add(old >> place & 0xFFFF, x >> place & 0xFFFF) for place in (0, 16))
        return low | high << 16

    return operation


def integers(atomic):
    names = {"add": operator.add, "sub": operator.sub, "and": operator.and_, "or": operator.or_, "xor": operator.xor}
    if atomic.operation in names:
        function = names[atomic.operation]
        return lambda old, x, expected: function(old, x) & ((1 << atomic.bits) - 1)
    read = (lambda x: signed(x, atomic.bits)) if atomic.kind[0] == "i" else int
    return lambda old, x, expected: extremes(atomic)(old, x, key=read)


def joined(words):
    return sum(int(word) << 32 * n for n, word in enumerate(words))


def expected_of(atomic, memory, rows):
    """Elements after, and what each lane saw; lane n acts on element n modulo their number."""
    meaning, seen = meaning_of(atomic), []
    for lane, row in enumerate(rows):
        old = memory[lane % TARGETS]
        seen.append(old)
        data, comparand = joined(row[1 : 1 + atomic.words]), joined(row[3 : 3 + atomic.words])
        memory[lane % TARGETS] = meaning(old, data, comparand)
    return memory, seen


def rows_for(atomic, lanes):
    """Edges and random bits; half of the comparands are what the first lane of an element will find."""
    rows = edge_rows(lanes, seed=11)
    if atomic.kind in FLOATS or atomic.kind.endswith("f16"):
        rows[:, 1:3] = np.random.default_rng(3).normal(size=(lanes, 2)).astype(np.float32).view(np.uint32)
    if atomic.kind == "f64":
        rows[:, 1:3] = np.random.default_rng(3).normal(size=(lanes, 1)).view(np.uint32).reshape(lanes, 2)
    return rows


def registers(first, count):
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


PLACE = f"v_and_b32 v20, {TARGETS - 1}, v0\nv_lshlrev_b32 v20, 3, v20\n"
RESOURCE = "s_mov_b32 s8, s4\ns_and_b32 s9, s5, 0xffff\ns_mov_b32 s10, 2048\ns_mov_b32 s11, 0x27000\n"


def asking(architecture):
    """The modifier that asks for the value before."""
    if architecture.startswith("gfx9"):
        return " sc0"
    return " glc" if architecture.startswith("gfx11") else " th:TH_ATOMIC_RETURN"


def memory_line(architecture, name, atomic, returns):
    """On elements of the first row of the input; the value before ends in v10 and v11."""
    count = atomic.words
    sources = 2 * count if atomic.operation in COMPARING else count
    moves = [f"v_mov_b32 v{24 + n}, v{2 + n}" for n in range(count)]
    moves += [f"v_mov_b32 v{24 + count + n}, v{4 + n}" for n in range(count)]
    data, flag = registers(24, sources), asking(architecture) if returns else ""
    if atomic.space == "buffer":
        none = "null" if architecture == "gfx1201" else "0"
        line = f"{name} {data}, v20, s[8:11], {none} offen{flag}"
        after = [f"v_mov_b32 v{10 + n}, v{24 + n}" for n in range(count)] if returns else []
        return RESOURCE + "\n".join([*moves, line, *after])
    result = f"{registers(10, count)}, " if returns else ""
    return "\n".join([*moves, f"{name} {result}v20, {data}, s[4:5]{flag}"])


IN_MEMORY = [name for name in atomics.TABLE if not name.startswith("ds_")]
IN_LDS = [name for name in atomics.TABLE if name.startswith("ds_")]


def same(atomic, got, want):
    """Equal bits, any NaN being as good as another."""
    if kind := HALVES.get(atomic.kind):
        return all(kind.same(got >> place & 0xFFFF, want >> place & 0xFFFF) for place in (0, 16))
    return FLOATS[atomic.kind].same(got, want) if atomic.kind in FLOATS else got == want


@pytest.mark.parametrize(("architecture", "name"), everywhere(IN_MEMORY))
@pytest.mark.parametrize("returns", [False, True])
def test_global_and_buffer(architecture, name, returns):
    atomic = atomic_of(name)
    rows = rows_for(atomic, names_of(architecture).lanes)
    rows[:, 3:5][::2] = np.resize(rows[0].reshape(-1, 2)[:TARGETS], (len(rows), 2))[::2]
    before = rows.copy()
    memory = [joined(rows[0, 2 * n : 2 * n + atomic.words]) for n in range(TARGETS)]
    ran = computed(architecture, PLACE + memory_line(architecture, name, atomic, returns), rows)
    after, seen = expected_of(atomic, memory, before)
    for n, want in enumerate(after):
        assert same(atomic, joined(ran.inputs[0, 2 * n : 2 * n + atomic.words]), want)
    for out, row, want in zip(ran.outputs, before, seen, strict=True):
        assert same(atomic, joined(out[: atomic.words]), want if returns else joined(row[6 : 6 + atomic.words]))


def shared_line(architecture, name, atomic):
    """Four elements of LDS from v7 and v8 of the first lanes, and back to v12 and v13."""
    old = architecture.startswith("gfx9")
    write, read = ("ds_write_b64", "ds_read_b64") if old else ("ds_store_b64", "ds_load_b64")
    first = "s_mov_b32 exec_lo, 0xf\n" + ("s_mov_b32 exec_hi, 0\n" if old else "")
    every = "s_mov_b32 exec_lo, -1\n" + ("s_mov_b32 exec_hi, -1\n" if old else "")
    data, comparand = registers(2, atomic.words), registers(4, atomic.words)
    sources = {"cmpst": f"{comparand}, {data}", "cmpstore": f"{data}, {comparand}"}.get(atomic.operation, data)
    result = f"{registers(10, atomic.words)}, " if atomic.returns else ""
    return (
        f"v_lshlrev_b32 v21, 3, v0\n{first}{write} v21, v[7:8]\n{every}{PLACE}"
        f"{name} {result}v20, {sources}\n{first}{read} v[12:13], v21\n{every}"
    )


@pytest.mark.parametrize(("architecture", "name"), everywhere(IN_LDS))
def test_shared(architecture, name):
    atomic = atomic_of(name)
    rows = rows_for(atomic, names_of(architecture).lanes)
    if atomic.kind == "f64":
        rows[:TARGETS, 6:8] = np.array([0.5, -0.0, 1e300, -3.0]).view(np.uint32).reshape(-1, 2)
    rows[:, 3:5][::2] = np.resize(rows[:TARGETS, 6:8], (len(rows), 2))[::2]
    ran = computed(architecture, shared_line(architecture, name, atomic), rows.copy(), shared=8 * TARGETS)
    memory = [joined(rows[n, 6 : 6 + atomic.words]) for n in range(TARGETS)]
    after, seen = expected_of(atomic, memory, rows)
    for n, want in enumerate(after):
        assert same(atomic, joined(ran.outputs[n, 2 : 2 + atomic.words]), want)
    for out, row, want in zip(ran.outputs, rows, seen, strict=True):
        assert same(atomic, joined(out[: atomic.words]), want if atomic.returns else joined(row[6 : 6 + atomic.words]))


@pytest.mark.parametrize("name", ["global_atomic_add", "ds_add_u32"])
def test_disabled_lanes_do_nothing(name):
    shared = name.startswith("ds_")
    line = f"{name} v20, v2" if shared else f"{name} v20, v2, s[4:5]"
    start = "ds_write_b32 v20, v20\n" if shared else ""
    back = "ds_read_b32 v10, v20\n" if shared else "global_load_dword v10, v20, s[4:5]\n"
    rows = np.zeros((64, 8), np.uint32)
    rows[:, 1] = 1
    body = f"v_mov_b32 v20, 0\n{start}s_mov_b64 exec, 0xf0f\n{line}\ns_mov_b64 exec, -1\n{back}"
    assert set(computed("gfx942", body, rows, shared=64).outputs[:, 0].tolist()) == {8}
