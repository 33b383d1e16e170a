"""Loads and stores that follow each other run as one, and give what they give one by one."""

import numpy as np
import pytest
from ptx_text import empty, finds, launch, passes, text

from portkit.emulate.ptx import execute
from portkit.emulate.ptx import launch as launches
from portkit.emulate.ptx.isa.joint import Joint

ADDRESSES = "\n".join(
    [
        "mul.wide.u32 %rd20, %r92, 32; add.s64 %rd21, %rd0, %rd20; add.s64 %rd22, %rd1, %rd20;",
        *(f"setp.gt.u32 %p{n}, %r90, {9 * n};" for n in range(1, 5)),
    ]
)
"""Eight words a thread of the first two buffers, and predicates of some threads."""

BODIES = {
    "loads of all": "ld.global.b32 %r1, [%rd21]; ld.global.b32 %r2, [%rd21+4]; ld.global.b32 %r3, [%rd21+12];",
    "loads of some": "\n".join(f"@%p{n} ld.global.b32 %r{n}, [%rd21+{4 * n}];" for n in range(1, 5)),
    "loads of the others": "\n".join(f"@!%p{n} ld.global.nc.L1::evict_last.b32 %r{n}, [%rd21+4];" for n in (1, 3)),
    "vectors": "@%p1 ld.global.v2.b32 {%r1, %r2}, [%rd21+8]; @%p2 ld.global.v2.b32 {%r4, %r3}, [%rd21+16];",
    "bytes": "ld.global.b8 %h1, [%rd21+1]; ld.global.b8 %h2, [%rd21+6]; mov.b32 %r1, {%h1, %h2};",
    "halves": "@%p1 ld.global.b16 %h1, [%rd21+2]; @%p3 ld.global.b16 %h3, [%rd21+6]; mov.b32 %r1, {%h1, %h3};",
    "what was loaded is an address": (
        "ld.global.b32 %r1, [%rd21]; and.b32 %r1, %r1, 28; cvt.u64.u32 %rd23, %r1; add.s64 %rd23, %rd0, %rd23;"
        "ld.global.b32 %r2, [%rd23]; ld.global.b32 %r3, [%rd23+4];"
    ),
    "shared memory": (
        "shl.b32 %r80, %r90, 3; st.shared.b32 [%r80], %r90; st.shared.b32 [%r80+4], %r80; bar.sync 0;"
        "xor.b32 %r80, %r80, 8; ld.shared.b32 %r1, [%r80]; ld.shared.b32 %r2, [%r80+4];"
    ),
    "loads behind a store": (
        "ld.global.b32 %r1, [%rd22]; st.global.b32 [%rd22], %r90;"
        "ld.global.b32 %r2, [%rd22]; ld.global.b32 %r3, [%rd22+4];"
    ),
}
STORES = (
    "\n".join(f"st.global.b32 [%rd22+{4 * n}], %r{n};" for n in (1, 2))
    + "\n"
    + "\n".join(f"@%p{n} st.global.b32 [%rd22+{4 * n}], %r{n};" for n in (3, 4))
)
CLEAR = "\n".join(f"mov.b32 %r{n}, {n};" for n in range(1, 5)) + "mov.b16 %h1, 1; mov.b16 %h2, 2; mov.b16 %h3, 3;"


def alone(monkeypatch):
    """Run each by itself from here on."""
    monkeypatch.setattr(execute, "arranged", lambda program, items, roots: [(item, item.step) for item in items])
    launches.load.cache_clear()


def joints(made):
    """How many steps run several loads or stores."""
    blocks = launches.load(made).blocks.values()
    return sum(isinstance(step, Joint) for block in blocks for step in block.steps)


@pytest.fixture(autouse=True)
def _forget():
    launches.load.cache_clear()
    yield
    launches.load.cache_clear()


@pytest.mark.parametrize("lanes", [0, 5])
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_the_bits_are_those_of_each_alone(monkeypatch, name, check, lanes):
    """Of all threads, and where some have gone another way."""
    skip = f"setp.lt.u32 %p9, %r90, {lanes}; @%p9 bra END;"
    body = f"{ADDRESSES}\n{CLEAR}\n{'' if 'bar' in BODIES[name] else skip}\n{BODIES[name]}\n{STORES}\nEND:"
    made = text(body, threads=64, shared=1024)
    given, results = np.random.default_rng(5).integers(0, 1 << 32, (128, 8), np.uint32), []
    assert joints(made) >= 2
    for _ in range(2):
        out = np.full((128, 8), 77, np.uint32)
        done = launch(made, given.copy(), out, None, None, None, None, blocks=2, check=check)
        assert done.outcome.status == "passed", done.outcome
        results.append((out, done.counts.instructions))
        alone(monkeypatch)
    assert np.array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert (results[0][0] != 77).any()


def test_several_stores_to_one_place_leave_the_last():
    out = empty(32)
    stores = "\n".join(f"st.global.b32 [%rd1], %r{n};" for n in (1, 2, 3))
    made = text(f"{CLEAR}\nsetp.eq.u32 %p1, %r90, 0; @!%p1 bra END;\n{stores}\nEND:")
    assert joints(made)
    passes(made, empty(32), out, None, None, None, None)
    assert out[0] == 3


@pytest.mark.parametrize("space", ["global", "shared"])
def test_the_first_that_has_no_right_to_its_bytes_is_named(space):
    base = "%rd0" if space == "global" else "%rd25"
    loads = "\n".join(f"ld.{space}.b32 %r{n}, [{base}+{at}];" for n, at in ((1, 0), (2, 1 << 20), (3, 1 << 21)))
    first = "" if space == "global" else "st.shared.b32 [%rd25], %r90;"
    made = text(f"mov.u64 %rd25, 0;\n{first}\n{loads}", shared=64)
    assert joints(made)
    done = launch(made, empty(8), None, None, None, None, None)
    assert f"+{1 << 20}]" in str(done.findings[-1].site.text)
    finds(made.replace(f"+{1 << 20}]", "+1]"), "not a multiple of 4", empty(8), None, None, None, None, None)


def test_each_of_several_stores_that_race_is_found():
    """Two blocks write to one place by three instructions."""
    stores = "\n".join(f"st.global.b32 [%rd21+{4 * n}], %r91;" for n in (1, 2, 3))
    made = text(f"mul.wide.u32 %rd20, %r90, 16; add.s64 %rd21, %rd0, %rd20;\n{stores}")
    assert joints(made)
    done = launch(made, empty(32, 4), None, None, None, None, None, blocks=2)
    assert done.outcome.status == "data_race"
    found = [each.site.text.split(",")[0] for each in done.findings]
    assert found == [f"st.global.b32 [%rd21+{4 * n}]" for n in (1, 2, 3)]


def test_loads_of_two_buffers_are_judged_each_by_its_own():
    """One address of two buffers, by a predicate: nobody knows which before it runs."""
    choose = "setp.gt.u32 %p1, %r90, 9; selp.b64 %rd23, %rd0, %rd1, %p1;"
    loads = "ld.global.b32 %r1, [%rd23]; ld.global.b32 %r2, [%rd23+4];"
    out = empty(32, 8)
    made = text(f"{choose}\n{loads}\n{ADDRESSES}\nst.global.b32 [%rd22+8], %r2;")
    assert joints(made)
    passes(made, np.array([5, 6], np.uint32), out, None, None, None, None)
    assert out[:, 2].tolist() == [0] * 10 + [6] * 22
