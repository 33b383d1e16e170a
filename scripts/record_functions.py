"""Records what an NVIDIA GPU's approximate functions give, for whole binades of arguments.

    python scripts/record_functions.py RECORDED.npz              # on a host with an NVIDIA GPU
    python scripts/record_functions.py RECORDED.npz --seed 1     # other arguments among the sparse ones
    python scripts/record_functions.py RECORDED.npz --check      # holds the emulator against it, anywhere

``scripts/fit_interpolation.py`` fits the emulator's tables to such a file. It keeps how far the bits of the device's
results lie from those of float64 rounded once, byte by byte, compressed; arguments are not kept, as ``Span`` says
which they are. Some tens of MB, so recordings are not in the repository.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from portkit.emulate.core.vectors import Probe
from portkit.emulate.ptx.architecture import ARCHITECTURES
from portkit.emulate.ptx.replay import results_of

Bits: TypeAlias = NDArray[np.uint32]

FLOATS = 1 << 23
"""In a binade of float32."""

THREADS = 4

AT_ONCE = 1 << 18
"""Arguments of one kernel of the emulator's."""


@dataclass(frozen=True)
class Span:
    """Arguments of one instruction: every ``stride``-th from the bits ``first`` on, or random ones, below ``last``."""

    instruction: str
    first: int
    last: int
    stride: int = 1
    random: int = 0  # so many of any bits from first to last

    def bits(self, seed: int = 0) -> Bits:
        """Of the arguments."""
        if self.random:
            generator = np.random.Generator(np.random.PCG64([seed, self.first, self.last]))
            return generator.integers(self.first, self.last, self.random, dtype=np.uint64).astype(np.uint32)
        return np.arange(self.first + seed % self.stride, self.last, self.stride, dtype=np.uint64).astype(np.uint32)


def _binade(exponent: int) -> int:
    """Bits of a power of two."""
    return (exponent + 127) << 23


def _whole(instruction: str, low: int, high: int, stride: int = 1, sign: int = 0) -> Span:
    """Floats from 2^low up to 2^high."""
    return Span(instruction, _binade(low) | sign, _binade(high) | sign, stride)


_MINUS = 1 << 31
_SPARSE = 1 << 18


def spans() -> list[Span]:
    """All that is recorded."""
    found: list[Span] = []
    for name in ("lg2", "rcp", "rsqrt", "sqrt", "ex2", "sin", "cos"):
        found += [
            Span(f"{name}.approx.ftz.f32", 0, 1 << 32, random=_SPARSE),
            Span(f"{name}.approx.f32", 0, 1 << 32, random=_SPARSE),
        ]
    found += [
        _whole("lg2.approx.ftz.f32", -1, 1),
        _whole("lg2.approx.ftz.f32", -4, -1, 16),
        _whole("lg2.approx.ftz.f32", 1, 4, 16),
    ]
    found += [
        _whole("rcp.approx.ftz.f32", 0, 1),
        _whole("rsqrt.approx.ftz.f32", 0, 2),
        _whole("sqrt.approx.ftz.f32", 0, 2),
    ]
    found += [_whole("ex2.approx.ftz.f32", 0, 1), _whole("ex2.approx.ftz.f32", 0, 1, 2, _MINUS)]
    for sign in (0, _MINUS):
        found += [_whole("ex2.approx.ftz.f32", -26, 0, 64, sign), _whole("ex2.approx.ftz.f32", 1, 7, 16, sign)]
    for name in ("sin", "cos"):
        found += [_whole(f"{name}.approx.f32", 1, 2), _whole(f"{name}.approx.f32", -24, 1, 32)]
        found += [_whole(f"{name}.approx.f32", 2, 24, 64), _whole(f"{name}.approx.f32", 0, 3, 32, _MINUS)]
    found += [_whole("sin.approx.f32", 0, 1, 2), _whole("cos.approx.f32", 0, 1, 4)]
    found += [
        _whole("tanh.approx.f32", -2, -1),
        _whole("tanh.approx.f32", -1, 0, 4),
        _whole("tanh.approx.f32", 0, 1),
        _whole("tanh.approx.f32", -13, -2, 8),
        _whole("tanh.approx.f32", 1, 4, 8),
    ]
    found += [Span("tanh.approx.f32", 0, 1 << 32, random=_SPARSE), _whole("tanh.approx.f32", -2, 2, 64, _MINUS)]
    halves = ("ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16")
    found += [Span(name, 0, 1 << 16) for name in halves]
    return found


_TURN = np.float64(np.float32(1 / (2 * np.pi)))


def _turns(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """A float32 argument in units of 2π, as the assembler's ``FMUL.RZ`` gives it."""
    product = x * _TURN
    near = product.astype(np.float32)
    return np.where(np.abs(near) > np.abs(product), np.nextafter(near, np.float32(0)), near).astype(np.float64)


def exact(instruction: str, bits: NDArray[Any]) -> NDArray[Any]:
    """Bits of the function of arguments' bits, in float64 and rounded once; of float32 or of 16 bits."""
    parts = instruction.split(".")
    with np.errstate(all="ignore"):
        if parts[-1] == "f32":
            return FUNCTIONS[parts[0]](bits.view(np.float32).astype(np.float64)).astype(np.float32).view(np.uint32)
        if parts[-1] == "f16":
            half = bits.astype(np.uint16).view(np.float16).astype(np.float64)
            return FUNCTIONS[parts[0]](half).astype(np.float16).view(np.uint16).astype(np.uint32)
        wide = FUNCTIONS[parts[0]]((bits << np.uint32(16)).view(np.float32).astype(np.float64)).astype(np.float32)
        return wide.view(np.uint32) >> np.uint32(16)


FUNCTIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sqrt": np.sqrt,
    "sin": lambda x: np.sin(2 * np.pi * np.fmod(_turns(x), 1)),
    "cos": lambda x: np.cos(2 * np.pi * np.fmod(_turns(x), 1)),
    "tanh": np.tanh,
}


def read(path: Path) -> Iterator[tuple[Span, Bits, Bits]]:
    """Each span with the bits of its arguments and results."""
    with np.load(path) as stored:
        known = header(path)
        for number, saved in enumerate(known["spans"]):
            span = Span(**saved)
            arguments = span.bits(known["seed"])
            planes = np.frombuffer(lzma.decompress(bytes(stored[f"span{number}"])), np.uint8).reshape(4, -1)
            apart = np.ascontiguousarray(planes.T).view(np.uint32).reshape(-1)
            apart = np.where(apart & 1, ~(apart >> 1), apart >> 1)
            results = (exact(span.instruction, arguments) + apart).astype(np.uint32)
            if zlib.crc32(results) != known["sums"][number]:
                raise ValueError(
                    f"{path}: {span} comes out as something else: NumPy's functions are of another version"
                )
            yield span, arguments, results


def _packed(span: Span, arguments: Bits, results: Bits) -> NDArray[np.uint8]:
    """Differences, their signs in the lowest bit."""
    apart = (results - exact(span.instruction, arguments)).view(np.int32)
    folded = ((apart << 1) ^ (apart >> 31)).view(np.uint32)
    planes = np.ascontiguousarray(folded.view(np.uint8).reshape(-1, 4).T)
    return np.frombuffer(lzma.compress(planes.tobytes(), preset=1), np.uint8)


def record(seed: int, chosen: Sequence[Span] | None = None) -> dict[str, NDArray[np.uint8]]:
    """Run every span on the GPU, or those that are named."""
    chosen = spans() if chosen is None else chosen
    known: dict[str, Any] = {
        "seed": seed,
        "device": _device(),
        "spans": [asdict(span) for span in chosen],
        "sums": [],
    }
    packed = []
    with ThreadPoolExecutor(THREADS) as pool:
        for span in chosen:
            arguments = span.bits(seed)
            results = _results(span.instruction, arguments)
            known["sums"].append(zlib.crc32(results))
            packed.append(pool.submit(_packed, span, arguments, results))
        arrays = {f"span{number}": each.result() for number, each in enumerate(packed)}
    return {"header": np.frombuffer(json.dumps(known).encode(), np.uint8), **arrays}


def _device() -> str:
    import torch  # noqa: PLC0415 - recordings are read without it

    return str(torch.cuda.get_device_name())


def _results(instruction: str, bits: Bits) -> Bits:
    import torch  # noqa: PLC0415
    from function_kernel import apply  # noqa: PLC0415

    given = torch.from_numpy(bits.view(np.int32)).to("cuda")
    found: NDArray[np.int32] = apply(instruction, given).cpu().numpy()
    return found.view(np.uint32)


def check(path: Path) -> Iterator[tuple[Span, int, int]]:
    """Spans with how many results the emulator has other bits of, and how many there are."""
    for span, arguments, results in read(path):
        yield span, int(np.count_nonzero(emulated(span.instruction, arguments) != results)), results.size


def emulated(instruction: str, bits: Bits) -> Bits:
    """What the emulator gives, through a kernel of its own."""
    kind = {"f32": "F32", "f16": "F16", "bf16": "B16"}[instruction.rsplit(".", maxsplit=1)[-1]]
    narrow = ("cvt.u16.u32 %h0, %i0;", f"{instruction} %h1, %h0;", "cvt.u32.u16 %q0, %h1;")
    lines = (f"{instruction} %q0, %i0;",) if kind == "F32" else narrow
    probe = Probe(instruction, instruction, lines, (kind,), (kind,))
    parts = np.array_split(bits.reshape(-1, 1), max(1, bits.size // AT_ONCE))
    return np.concatenate([results_of(probe, part, ARCHITECTURES["sm_90"])[:, 0] for part in parts])


def header(path: Path) -> dict[str, Any]:
    """Device, seed, spans, and a checksum of each one's results."""
    with np.load(path) as stored:
        return dict(json.loads(bytes(stored["header"])))


def main() -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sums", type=Path, metavar="FILE", help="write the header with its checksums")
    given = parser.parse_args()
    if not given.check:
        np.savez(given.recorded, **record(given.seed))
    if given.sums:
        given.sums.write_text(json.dumps(header(given.recorded), indent=1) + "\n")
    differing = 0
    for span, other, size in check(given.recorded) if given.check else ():
        print(f"{span.instruction} {span.first:#010x} to {span.last:#010x}: {other} of {size} differ", flush=True)
        differing += other
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
