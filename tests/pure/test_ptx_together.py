"""Instructions of one kind that run as one give the bits that they give alone, in the order of the text."""

import random
import re

import numpy as np
import pytest
from ptx_text import launch, text

from portkit.emulate.ptx import execute, together
from portkit.emulate.ptx import launch as launches
from portkit.emulate.ptx.isa.lookup import compile_instruction
from portkit.emulate.ptx.parse import parse

COPIES = 6
LINES = """
p setp.lt.s32 {p}, {r}, {i}
p setp.leu.ftz.f32 {p}, {r}, {r}
p setp.ne.and.b32 {p}, {r}, {i}, !{q}
p setp.eq.f16 {p}, {h}, {h}
p testp.finite.f32 {p}, {r}
p xor.pred {p}, {q}, {q}
r add.s32 {d}, {r}, {i}
r add.f32 {d}, {r}, {r}
r add.rz.ftz.f32 {d}, {r}, 0f3F800000
r add.f16x2 {d}, {r}, {r}
h add.bf16 {d}, {h}, {h}
l add.s64 {d}, {l}, {i}
l add.f64 {d}, {l}, {l}
l add.rn.f32x2 {d}, {l}, {l}
r sub.u32 {d}, {r}, {r}
r sub.bf16x2 {d}, {r}, {r}
r mul.lo.u32 {d}, {r}, {i}
r mul.hi.s32 {d}, {r}, {r}
l mul.wide.s32 {d}, {r}, {i}
r mul.ftz.f32 {d}, {r}, 0f3FB8AA3B
l mad.wide.u32 {d}, {r}, {i}, {l}
r mad.lo.s32 {d}, {r}, {r}, {i}
r mul24.lo.s32 {d}, {r}, {r}
r mad24.hi.u32 {d}, {r}, {r}, {r}
r fma.rn.f32 {d}, {r}, {r}, {r}
l fma.rn.f64 {d}, {l}, {l}, 0d3FF0000000000000
r fma.rn.relu.f16x2 {d}, {r}, {r}, {r}
r sad.s32 {d}, {r}, {r}, {i}
r div.s32 {d}, {r}, {i}
r div.full.f32 {d}, {r}, {r}
r div.rn.f32 {d}, {r}, {r}
r rem.u32 {d}, {r}, {i}
r rcp.approx.ftz.f32 {d}, {r}
r sqrt.approx.f32 {d}, {r}
r rsqrt.approx.f32 {d}, {r}
r sin.approx.f32 {d}, {r}
r cos.approx.f32 {d}, {r}
r lg2.approx.f32 {d}, {r}
r ex2.approx.f32 {d}, {r}
r ex2.approx.f16x2 {d}, {r}
r tanh.approx.f32 {d}, {r}
r abs.f32 {d}, {r}
r neg.s32 {d}, {r}
r copysign.f32 {d}, {r}, {r}
r min.f32 {d}, {r}, {r}
r max.NaN.f32 {d}, {r}, {r}
r max.s32 {d}, {r}, {i}
r and.b32 {d}, {r}, {i}
r or.b32 {d}, {r}, {r}
l xor.b64 {d}, {l}, {l}
h not.b16 {d}, {h}
r cnot.b32 {d}, {r}
r shl.b32 {d}, {r}, {i}
l shl.b64 {d}, {l}, {r}
r shr.s32 {d}, {r}, {i}
r shf.l.wrap.b32 {d}, {r}, {r}, {i}
r prmt.b32 {d}, {r}, {r}, {i}
r bfe.s32 {d}, {r}, {i}, 5
r bfi.b32 {d}, {r}, {r}, {i}, 7
r bfind.u32 {d}, {r}
r bmsk.clamp.b32 {d}, {r}, {i}
r brev.b32 {d}, {r}
r clz.b64 {d}, {l}
r popc.b32 {d}, {r}
r szext.clamp.s32 {d}, {r}, {i}
r selp.b32 {d}, {r}, {i}, {q}
r slct.f32.s32 {d}, {r}, {r}, {r}
r set.gt.u32.f32 {d}, {r}, {r}
r mov.b32 {d}, {r}
l mov.b64 {d}, {{{r}, {r}}}
r mov.b32 {d}, {{{h}, {h}}}
r cvt.f32.bf16 {d}, {h}
r cvt.rn.bf16x2.f32 {d}, {r}, {r}
h cvt.rn.f16.f32 {d}, {r}
r cvt.rzi.s32.f32 {d}, {r}
r cvt.rn.f32.s64 {d}, {l}
r cvt.rna.tf32.f32 {d}, {r}
l cvt.f64.f32 {d}, {r}
l cvt.u64.u32 {d}, {r}
r cvt.s32.s8 {d}, {r}
h cvt.rn.satfinite.e4m3x2.f32 {d}, {r}, {r}
r cvt.rn.f16x2.e5m2x2 {d}, {h}
r cvt.pack.sat.u8.s32.b32 {d}, {r}, {r}, {r}
""".strip().splitlines()
"""Kind of the result's register, and an instruction of which the copies differ in registers and constants."""

WORDS = 16
FIRST = {"r": 100, "l": 20, "h": 20, "p": 8}
"""Registers from which results of the copies are numbered; those below hold what they read."""


def copies(lines):
    """Lines of all copies in some order, and of what stores their results."""
    chance = random.Random(5)
    count, body, stores = dict(FIRST), [], []
    for kind, line in (line.split(" ", 1) for line in lines):
        for _ in range(COPIES):
            target = f"%{'rd' if kind == 'l' else kind}{count[kind]}"
            count[kind] += 1
            body.append(re.sub(r"\{\w\}", lambda part, target=target: operand(part[0][1], target, chance), line) + ";")
            stores.append(stored(kind, target, 4 * len(stores)))
    chance.shuffle(body)
    return body, stores


def operand(letter, target, chance):
    """What stands for a letter of a template."""
    choices = {
        "d": lambda: target,
        "p": lambda: target,
        "q": lambda: f"%p{chance.randrange(1, 8)}",
        "r": lambda: f"%r{chance.randrange(WORDS)}",
        "l": lambda: f"%rd{chance.randrange(8, 16)}",
        "h": lambda: f"%h{chance.randrange(8)}",
        "i": lambda: str(chance.choice([1, 2, 3, 5, 8, 13, 40])),
    }
    return choices[letter]()


def stored(kind, target, at):
    """Lines that store a result as a word."""
    convert = {
        "r": f"mov.b32 %r99, {target};",
        "l": f"mov.b64 {{%r98, %r97}}, {target}; xor.b32 %r99, %r98, %r97;",
        "h": f"cvt.u32.u16 %r99, {target};",
        "p": f"selp.b32 %r99, 1, 0, {target};",
    }
    return f"{convert[kind]} st.global.b32 [%rd7+{at}], %r99;"


def kernel(body, stores, lanes):
    """A kernel in which the body runs in all lanes, or where a bit of their number is set."""
    size = 4 * len(stores)
    lines = [f"mul.wide.u32 %rd6, %r90, {4 * WORDS}; add.u64 %rd6, %rd0, %rd6;"]
    lines += [f"mul.wide.u32 %rd7, %r90, {size}; add.u64 %rd7, %rd1, %rd7;"]
    lines += [f"ld.global.b32 %r{n}, [%rd6+{4 * n}];" for n in range(WORDS)]
    lines += [f"mov.b64 %rd{8 + n}, {{%r{2 * n}, %r{2 * n + 1}}};" for n in range(8)]
    lines += [f"cvt.u16.u32 %h{n}, %r{n};" for n in range(8)]
    lines += [f"setp.gt.s32 %p{n}, %r{n}, %r{n + 1};" for n in range(1, 8)]
    lines += [f"and.b32 %r96, %r90, {lanes}; setp.eq.b32 %p0, %r96, 0; @%p0 bra END;"] if lanes else []
    made = text("\n".join([*lines, *body, *stores, "END:"]), target="sm_100a", threads=64)
    made = re.sub(r"\.reg \.b16.*", f".reg .b16 %h<{len(stores)}>; .reg .b32 %r<{len(stores) + 100}>;", made)
    return made.replace("{\n.reg", f"{{\n.reg .b64 %rd<{len(stores)}>; .reg .pred %p<{len(stores)}>;\n.reg", 1)


def words():
    """Edges, among them NaNs of each width that signal and that do not, small numbers and any bits."""
    random_ = np.random.default_rng(3)
    edges = [0, 1 << 31, 0x7F80_0000, 0x7FC0_0000, 1, 0x3F80_0000, 0xC2F7_0000, 0x7F7F_FFFF, 0x3C00_7C00, 0x0080_0001]
    edges += [0x7F80_0001, 0xFFA5_5A5A, 0x7FF4_0001, 0xFFF1_2345, 0x7C01_FE55, 0xFD02_7D03, 0xFFFF_7E00]  # NaNs
    any_ = random_.integers(0, 2**32, (64, WORDS), np.uint32)
    near = random_.normal(0, 9, (64, WORDS)).astype(np.float32).view(np.uint32)
    values = np.where(random_.random((64, WORDS)) < 0.4, near, any_)
    return np.where(random_.random((64, WORDS)) < 0.2, random_.choice(np.array(edges, np.uint32), (64, WORDS)), values)


def results(made, count):
    """What a kernel leaves, and the launch."""
    launches.load.cache_clear()
    out = np.zeros((64, count), np.uint32)
    done = launch(made, words(), out, None, None, None, None)
    assert done.outcome.status == "passed", done.outcome
    return out, done


@pytest.mark.parametrize("lanes", [0, 5])
def test_every_kind_gives_the_same_bits_alone_and_with_its_like(monkeypatch, lanes):
    body, stores = copies(LINES)
    made = kernel(body, stores, lanes)
    together_, first = results(made, len(stores))
    block = max(launches.load(made).blocks.values(), key=lambda each: each.counted)
    assert len(block.steps) < block.counted - len(body) * 0.7  # most have run with their like
    monkeypatch.setattr(execute, "arranged", lambda program, items, roots: [(item, item.step) for item in items])
    alone, second = results(made, len(stores))
    launches.load.cache_clear()
    assert np.array_equal(together_, alone)
    assert together_.any()
    assert (first.counts.instructions, first.findings) == (second.counts.instructions, second.findings)


def test_no_kind_is_left_out():
    names = {line.split()[1].split(".")[0] for line in LINES} | {"cvt.pack"}
    assert names == together._names()


def test_what_waits_for_another_does_not_run_with_it():
    lines = ["add.s32 %r1, %r90, 1;", "add.s32 %r2, %r1, 1;", "add.s32 %r3, %r90, %r2;", "add.s32 %r1, %r90, 5;"]
    lines += [f"st.global.b32 [%rd0+{4 * n}], %r{n};" for n in (1, 2, 3)]
    out = np.zeros(4, np.uint32)
    launch(text("\n".join(["setp.ne.u32 %p1, %r90, 0; @%p1 bra END;", *lines, "END:"])), out, *[None] * 5)
    assert out.tolist() == [0, 5, 2, 2]


@pytest.mark.parametrize("lanes", [0, 5])
def test_what_the_first_of_a_kind_tells_of_the_others_is_what_each_would(lanes):
    body, stores = copies(LINES)
    program = parse(kernel(body, stores, lanes))
    alike = 0
    for item, told in zip(program.instructions, together.compile_all(program), strict=True):
        own = compile_instruction(program, item)
        assert (told.instruction, told.entry, told.uses, told.members) == (item, own.entry, own.uses, own.members)
        alike += isinstance(told.step, together._Later)
    assert alike > len(body) // 2


@pytest.mark.parametrize("good", ["", "add.s32 %r1, %r90, 7;\n"])
@pytest.mark.parametrize("bad", ["add.s32 %r2, %r90, 0x1ffffffffffffffff;", "add.f32 %r2, %r3, 0x1ffffffffffffffff;"])
def test_a_constant_that_is_not_known_is_told_with_its_own_line(good, bad):
    done = launch(text(f"{good}{bad}\n{good}"), *[None] * 6)
    assert done.outcome.status == "unsupported"
    assert "64 bits" in done.outcome.message
    assert bad.rstrip(";") in done.outcome.message
