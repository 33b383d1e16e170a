"""A comparison of four measured targets, made up: only one was ever measured, and none of this is kept as a report."""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import factories

from portkit.model import (
    Clock,
    Counted,
    Counters,
    DeviceProbe,
    Direction,
    Evidence,
    Occupancy,
    Outcome,
    Ratio,
    Record,
    Status,
    Timed,
    Timing,
    Work,
)
from portkit.store.journal import blob_path
from portkit.store.merge import Dataset, Row
from portkit.store.texts import KernelTexts, pack

TARGETS = ("h200", "a100", "mi300x", "rx7900xtx")
SPEED = {"h200": 1.0, "a100": 2.1, "mi300x": 0.9, "rx7900xtx": 4.4}
"""Target → its time in units of an H200's."""

HOSTILE = ("<img src=x onerror=document.title='owned'>", "</script><script>document.title='owned'</script>")
"""Names of kernels that would be markup if anything took them for it."""

DEPTHS = (2, 4, 8, 16, 32)
WORK = Work(fused_bytes=1 << 28, unfused_bytes=1 << 30, flops=1 << 29)


def clock(ms: float) -> Clock:
    return Clock(ms, ms * 0.99, ms * 1.01, 100)


def ratio(value: float) -> Ratio:
    return Ratio(value, value * 0.97, value * 1.03)


def timing(ms: float, gains: dict[str, float]) -> Timing:
    """The fused function at ``ms``, each baseline slower by its factor, on both clocks."""
    return Timing(
        1 << 28,
        10,
        Timed(clock(ms * 1.1), clock(ms), kernels=1),
        {name: Timed(clock(ms * 1.1 * gain), clock(ms * gain), kernels=3) for name, gain in gains.items()},
        {name: ratio(gain) for name, gain in gains.items()},
        {name: ratio(gain * 1.05) for name, gain in gains.items()},
    )


def probe(target: str) -> DeviceProbe:
    speed = SPEED[target]
    return DeviceProbe(
        factories.RUN_ID,
        f"device-{target}",
        target,
        "2026-01-02T03:04:05+00:00",
        copy_gbs=4000 / speed,
        read_gbs=4200 / speed,
        write_gbs=4100 / speed,
        matmul_tflops={"float32": 50 / speed, "bfloat16": 800 / speed},
        launch_us=10.0,
        graph_launch_us=0.5,
    )


def measured(
    target: str, case: str = "softmax", variant: str = "w8", *, ms: float = 0.1, registers: int = 40, **changes
) -> Record:
    """A measured row of a target, right unless ``changes`` say otherwise."""
    percent = max(12.5, 100.0 - registers)
    occupancy = Occupancy(percent, 8, 64, "registers", {"registers": 8})
    constants = {"STAGES": str(changes.get("shape", (0,))[0]), "BLOCK": "4096"}
    launch = factories.launch(registers, occupancy=occupancy, constants=constants)
    given = {
        "case": case,
        "variant": variant,
        "target": target,
        "build": factories.build(launch),
        "timing": timing(ms * SPEED[target], {"eager": 3.6 / SPEED[target] ** 0.3, "compile": 1.1, "torch": 1.4}),
        "work": WORK,
        "device": f"device-{target}",
        **changes,
    }
    return factories.record(Evidence.MEASURED, **given)


def compiled(target: str, **changes) -> Record:
    return factories.record(Evidence.COMPILED, target=target, **changes)


def counters(record: Record) -> Counters:
    """Achieved occupancy of the fused function."""
    empty = dict.fromkeys(
        ("occupancy_theoretical_pct", "occupancy_limiter", "registers_per_thread", "shared_bytes_per_block")
    )
    counted = Counted(
        kernels=1,
        duration_ms=0.1,
        dram_read_bytes=1 << 27,
        dram_write_bytes=1 << 27,
        local_bytes=0,
        kernel="_kernel",
        occupancy_achieved_pct=44.0,
        occupancy_achieved_elapsed_pct=41.0,
        waves_per_unit=2.0,
        **empty,
    )
    return Counters(record.run_id, record.keys.cell_key, record.evidence, "ncu 2025.3", {"fused": counted})


def fingerprint(steps: int) -> bytes:
    """Four float32 near 1, each ``steps`` ulp above."""
    bits = b"".join(struct.pack("<I", 0x3F800000 + steps) for _ in range(4))
    output = {
        "name": "0",
        "dtype": "float32",
        "shape": [4],
        "hash": f"h{steps}",
        "bits": base64.b64encode(bits).decode(),
    }
    return json.dumps({"input_hash": "i" * 16, "samples": 4, "outputs": [output]}).encode()


def texts(target: str) -> bytes:
    """IR and assembly of one kernel, with exponentials on every target and scaled ones on AMD."""
    amd = target in ("mi300x", "rx7900xtx")
    lines = (
        ["v_mul_f32 v1, v0, v2", "v_exp_f32 v3, v1", "v_ldexp_f32 v3, v3, v4"]
        if amd
        else ["mul.f32 %f1, %f0, %f2;", "ex2.approx.f32 %f3, %f1;"]
    )
    stages = {
        "source": "tl.exp(x)",
        "ttir": "%1 = math.exp %0 : tensor<4096xf32>",
        ("amdgcn" if amd else "ptx"): "\n".join(lines),
    }
    return pack({"ab" * 8: KernelTexts("_softmax_kernel", stages, "kernels/softmax.py", 12)})


class Report:
    """Where blobs lie; the report itself is not written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{factories.RUN_ID}.jsonl"

    def keep(self, content: bytes) -> str:
        address = hashlib.sha256(content).hexdigest()
        path = blob_path(self.path, address)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return address


def softmax(report: Report) -> Iterator[Record]:
    """Two variants of which another wins on AMD, with fingerprints and texts."""
    for place, target in enumerate(TARGETS):
        amd = target in ("mi300x", "rx7900xtx")
        blobs = {"fingerprint": report.keep(fingerprint(place)), "texts": report.keep(texts(target))}
        signals = {"exp": 1, **({"exp_scaled": 33} if amd else {"exp_keeping": 33})}
        build = factories.build(factories.launch(40 + 8 * place, signals=signals))
        yield measured(target, variant="w8", ms=0.12 if amd else 0.1, build=build, blobs=blobs)
        yield measured(target, variant="w16", ms=0.1 if amd else 0.13)


def chain() -> Iterator[Record]:
    """Registers that grow with the depth of a chain, faster on AMD."""
    for target, depth in itertools.product(TARGETS, DEPTHS):
        registers = 20 + depth * (2 if target in ("mi300x", "rx7900xtx") else 1)
        yield measured(target, "fan_in", shape=(depth, 4096), registers=registers, ms=0.05 * depth)


def troubled() -> Iterator[Record]:
    """Kernels that do not carry over: wrong, over a limit, without a verdict, as the matrix expects."""
    yield measured("h200", "attention")
    wrong = Outcome(Status.WRONG_RESULT, message="error 3e-2 over its limit of 1e-3")
    yield measured("mi300x", "attention", outcome=wrong, timing=None)
    over = Outcome(Status.OUT_OF_RESOURCES, message="shared memory 131072 B > 65536 B")
    yield compiled("rx7900xtx", case="attention", outcome=over)
    weak = Outcome(Status.WEAK_CHECK, message="a wrong result would pass")
    yield measured("a100", "attention", outcome=weak, timing=None)
    yield compiled("a100", case="tuned", build=factories.tuned_build())
    yield measured("h200", "throttled", timing=replace(timing(0.1, {"eager": 2.0}), throttled=("power cap",)))
    for name in HOSTILE:
        yield measured("h200", name, variant="<b>bold</b>")
        yield measured("mi300x", name, variant="<b>bold</b>", outcome=replace(wrong, message=name), timing=None)


def dataset(folder: Path) -> Dataset:
    """The made-up comparison; its blobs are written to a folder."""
    report = Report(folder)
    records = [*softmax(report), *chain(), *troubled()]
    records += [measured("h200", "softmax", direction=Direction.BACKWARD, shape=(64, 64))]
    return of_records(records, report)


def of_records(records: list[Record], report: Report) -> Dataset:
    """A merged dataset of one run."""
    rows = tuple(Row(record, (), older_source=False, counters=_counters(record)) for record in records)
    header = factories.header(targets=TARGETS, cells=len(rows))
    paths = {factories.RUN_ID: str(report.path)}
    return Dataset((header,), rows, (), {}, paths, tuple(map(probe, TARGETS)), "3.7.1")


def _counters(record: Record) -> Counters | None:
    return counters(record) if record.timing else None


def large(folder: Path, rows: int) -> Dataset:
    """That many rows: kernels × shapes × variants × targets, half of them measured."""
    axes = itertools.product(range(10**6), ((1024, 4096), (4096, 4096), (16384, 1024)), ("w4", "w8", "w16"), TARGETS)
    records: list[Record] = []
    for number, shape, variant, target in axes:
        if len(records) >= rows:
            break
        place = {"case": f"kernel_{number:03}", "shape": shape, "variant": variant}
        records.append(measured(target, ms=0.1 + number % 7 / 50, registers=20 + number % 60, **place))
        records.append(compiled(target, **place))
    return of_records(records, Report(folder))


def unpacked(chunk: str) -> object:
    """The value of a page's chunk."""
    return json.loads(gzip.decompress(base64.b64decode(chunk)))
