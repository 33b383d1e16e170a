"""Results of an H200 that nothing in the emulator was fitted to, and the emulator's own beside them.

``nvidia_h200_vectors.npz`` has 1,024 arguments and results of each of 33 instructions of one or two values, and 14
kernels that Triton 3.6.0 compiled for sm_90 with their buffers before and after.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ptx_probe import results_of

from portkit.emulate import run

RECORDED = Path(__file__).parents[1] / "records" / "nvidia_h200_vectors.npz"

FLOATS = {"float32": (np.uint32, 23, 8), "float16": (np.uint16, 10, 5), "bfloat16": (np.uint16, 7, 8)}
"""Unsigned type of the same width, bits of mantissa and of exponent."""


@dataclass(frozen=True)
class Apart:
    """Two sets of results, one beside the other."""

    name: str
    ulp: np.ndarray  # steps between them, 0 where both are NaN; 1 where bits of integers or codes differ
    size: np.ndarray | None  # |difference|, of floats; 0 where both are one infinity or NaN
    expected: np.ndarray | None  # values of the device, of floats

    @property
    def differing(self) -> int:
        """Results of other bits, NaN apart."""
        return int(np.count_nonzero(self.ulp))


def apart(name: str, found: np.ndarray, expected: np.ndarray, dtype: str) -> Apart:
    """Compare bits that are of a type; of others than floats they are equal or not."""
    if dtype not in FLOATS:
        return Apart(name, (found != expected).astype(np.int64), None, None)
    (x, nan), (y, other) = (_ordered(each, dtype) for each in (found, expected))
    steps = np.where(nan & other, 0, np.where(nan | other, np.iinfo(np.int64).max, np.abs(x - y)))
    wanted = _values(expected, dtype)
    with np.errstate(all="ignore"):
        difference = np.abs(_values(found, dtype) - wanted)
    return Apart(name, steps, np.where(steps == 0, 0, difference), wanted)


def _ordered(bits: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in whose order floats are, zeros of both signs alike; and which are NaN."""
    _, mantissa, exponent = FLOATS[dtype]
    size = bits.astype(np.int64) & ((1 << mantissa + exponent) - 1)
    negative = bits.astype(np.int64) >> (mantissa + exponent) & 1
    return np.where(negative == 1, -size, size), size > ((1 << exponent) - 1) << mantissa


def _values(bits: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.ascontiguousarray(bits).view(dtype).astype(np.float64)


# -- instructions of one or two values


def functions() -> list[str]:
    """Their names."""
    with np.load(RECORDED) as recorded:
        return list(dict.fromkeys(name.split("/")[1] for name in recorded.files if name.startswith("function/")))


def function(name: str, sizes: tuple[float, float] = (0, np.pi)) -> Apart:
    """One of them, emulated; sines and cosines of such sizes of arguments: a device keeps few bits of large ones."""
    with np.load(RECORDED) as recorded:
        rows = [recorded[key] for part in "xy" if (key := f"function/{name}/{part}") in recorded.files]
        expected = recorded[f"function/{name}/d"]
    body, dtype = _body(name)
    found = results_of(body, np.stack(rows, axis=1).astype(np.uint32))[:, 0]
    kept = np.s_[:]
    if name.startswith(("sin", "cos")):
        given = np.abs(_values(rows[0], "float32"))
        kept = (given >= sizes[0]) & (given <= sizes[1])
    narrow = FLOATS[dtype][0] if dtype in FLOATS else np.uint32
    return apart(name, found.astype(narrow)[kept], expected.astype(narrow)[kept], dtype)


def _body(name: str) -> tuple[str, str]:
    """Lines that give the result in ``%o0``, and what it is."""
    *_, result, source = name.split(".")
    if name.startswith("cvt"):
        return _conversion(name, result, source), "float32" if result == "tf32" else "codes"
    if source in {"f16", "bf16"}:
        return f"{name} %h8, %h0; cvt.u32.u16 %o0, %h8;", {"f16": "float16", "bf16": "bfloat16"}[source]
    operands = "%a0, %a1" if name.startswith("div") else "%a0"
    return f"{name} %o0, {operands};", "float32"


def _conversion(name: str, result: str, source: str) -> str:
    two = source == "f32" and result.endswith("x2")
    operands = "%a0, %a1" if two else "%h0" if source.startswith("e") else "%a0"
    narrow = f"{name} %h8, {operands}; cvt.u32.u16 %o0, %h8;"
    return narrow if result.startswith("e") else f"{name} %o0, {operands};"


# -- whole kernels


def kernels() -> list[str]:
    """Their names."""
    return list(_meta()["kernels"])


def _meta() -> dict:
    with np.load(RECORDED) as recorded:
        return json.loads(recorded["meta"].tobytes())


def kernel(name: str) -> Iterator[Apart]:
    """Each buffer that one of them writes, emulated."""
    entry = _meta()["kernels"][name]
    with np.load(RECORDED) as recorded:
        arrays = {key: recorded[key] for key in recorded.files if key.startswith(f"kernel/{name}/")}
    values = [item.get("scalar", arrays.get(f"kernel/{name}/{n}")) for n, item in enumerate(entry["args"])]
    scratch = [np.zeros(entry["scratch"] * int(np.prod(entry["grid"])), np.uint8)] if entry["scratch"] else []
    text = arrays[f"kernel/{name}/ptx"].tobytes().decode()
    done = run(text, f"sm_{entry['cap']}", entry["grid"], [*values, *scratch], entry["warps"], entry["shared"])
    assert done.outcome.status == "passed", done.outcome
    for number, item in enumerate(entry["args"]):
        if item.get("written"):
            bits = FLOATS.get(item["dtype"], (np.uint8,))[0]
            pair = values[number], arrays[f"kernel/{name}/{number}_after"]
            yield apart(name, *(each.view(bits) for each in pair), item["dtype"])
