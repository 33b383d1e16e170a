"""Kernels around one instruction that needs more registers than ``assembly`` hands in: words in from v32 on."""

import numpy as np
from assembly import kernel, names_of

from portkit.emulate import Options, run

FIRST = 32


def wide(architecture, body, inputs, outputs, *, options=None, **parts):
    """Run one wave.

    Args:
        architecture: such as ``gfx942``.
        body: instructions; v32 and up hold the inputs, v0 the lane.
        inputs: ``[lanes, words]``.
        outputs: registers to read back, as first register and count.
        options: of the emulation.
        parts: of the kernel around, such as ``shared``.

    Returns:
        The emulation, and ``[lanes, words]`` of the outputs.
    """
    names = names_of(architecture)
    inputs = np.ascontiguousarray(inputs, np.uint32)
    first, count = outputs
    text = kernel(architecture, "\n".join(_lines(names, inputs.shape[1], body, first, count)), **parts)
    room = np.zeros(names.lanes * 4 + names.lanes * count, np.uint32)
    padded = np.concatenate([inputs.reshape(-1), np.zeros(8 * names.lanes, np.uint32)])
    emulation = run(text, architecture, (1,), [padded, room], options=options or Options(check=False))
    return emulation, room[names.lanes * 4 :].reshape(names.lanes, count)


def _lines(names, words_in, body, first, count):
    load = names.load.replace("dwordx4", "dword").replace("b128", "b32")
    store = names.store.replace("dwordx4", "dword").replace("b128", "b32")
    yield f"\tv_mul_u32_u24_e32 v21, {4 * words_in}, v0"
    for n in range(words_in):
        yield f"\t{load} v{FIRST + n}, v21, s[4:5] offset:{4 * n}"
    yield f"\t{names.wait}"
    yield from (f"\t{line.strip()}" for line in body.strip().splitlines())
    yield f"\tv_mul_u32_u24_e32 v21, {4 * count}, v0"
    yield f"\tv_add_{'u32_e32' if names.lanes == 64 else 'nc_u32_e32'} v21, {16 * names.lanes}, v21"
    for n in range(count):
        yield f"\t{store} v21, v{first + n}, s[6:7] offset:{4 * n}"


def passed(architecture, body, inputs, outputs, **parts):
    """As ``wide``, for instructions that must run without a finding."""
    emulation, words = wide(architecture, body, inputs, outputs, **parts)
    assert emulation.outcome.status == "passed", emulation.outcome
    return words
