"""PTX of small kernels for tests, and their launch: each thread loads words, runs some lines and stores words."""

from __future__ import annotations

import numpy as np

from portkit.emulate import Options
from portkit.emulate.ptx.launch import run


def words(first, count):
    """Registers ``%r{first}`` and up, in braces."""
    return "{" + ", ".join(f"%r{first + n}" for n in range(count)) + "}"


def text(lines, *, target="sm_90a", threads=32, shared=0, version="8.7"):
    """A kernel of pointers ``p0`` to ``p5``, at ``%rd0`` to ``%rd5``; ``%r90`` is the thread, ``%r91`` the block."""
    pointers = ", ".join(f".param .u64 p{n}" for n in range(6))
    loads = "\n".join(f"ld.param.u64 %rd{n}, [p{n}];" for n in range(6))
    memory = f".shared .align 1024 .b8 tile[{shared}];" if shared else ""
    return f"""
.version {version}
.target {target}
.address_size 64
.visible .entry kernel({pointers})
.reqntid {threads}
{{
.reg .b16 %h<20>; .reg .b32 %r<300>; .reg .b64 %rd<40>; .reg .pred %p<10>;
{memory}
{loads}
mov.u32 %r90, %tid.x; mov.u32 %r91, %ctaid.x; mad.lo.u32 %r92, %r91, {threads}, %r90;
{lines}
ret;
}}
"""


def load(pointer, first, count):
    """Lines that load a thread's own words, which lie side by side."""
    lines = [f"mul.wide.u32 %rd20, %r92, {4 * count}; add.u64 %rd21, %rd{pointer}, %rd20;"]
    return "\n".join(lines + [f"ld.global.b32 %r{first + n}, [%rd21+{4 * n}];" for n in range(count)])


def store(pointer, first, count):
    """Lines that store them."""
    lines = [f"mul.wide.u32 %rd20, %r92, {4 * count}; add.u64 %rd21, %rd{pointer}, %rd20;"]
    return "\n".join(lines + [f"st.global.b32 [%rd21+{4 * n}], %r{first + n};" for n in range(count)])


def launch(kernel, *buffers, blocks=1, check=True):
    """Run a kernel on buffers, which are written in place."""
    target = kernel.split(".target ")[1].split()[0].rstrip("af")
    return run(kernel, target, (blocks,), list(buffers), None, 0, Options(check=check))


def passes(kernel, *buffers, blocks=1):
    """Run it, and assert that nothing was found."""
    done = launch(kernel, *buffers, blocks=blocks)
    assert done.outcome.status == "passed", done.outcome
    return done


def finds(kernel, part, *buffers, blocks=1):
    """Run it, and assert that what was found says a part of a message."""
    done = launch(kernel, *buffers, blocks=blocks)
    assert any(part in str(each) for each in done.findings), (done.outcome, [str(each) for each in done.findings])


def empty(*shape):
    """Room for results."""
    return np.zeros(shape, np.uint32)
