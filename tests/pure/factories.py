"""Synthetic values of the model for tests: each call may override any field by name."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
from typing import Any

from portkit.model import (
    INTERPRETER,
    Build,
    Cell,
    CellResult,
    Clock,
    Device,
    Direction,
    Evidence,
    Header,
    Host,
    Launch,
    Occupancy,
    Outcome,
    OutputError,
    PlannedCell,
    Ratio,
    Record,
    Resources,
    Resume,
    Status,
    Timed,
    Timing,
    Tuning,
    Verdict,
    Work,
)
from portkit.store.record import make_record

ARCHITECTURES = {
    **{"a100": "sm_80", "h100": "sm_90", "h200": "sm_90", "b200": "sm_100", "rtx5090": "sm_120"},
    **{"mi300x": "gfx942", "mi355x": "gfx950", "rx7900xtx": "gfx1100", INTERPRETER: None},
}
RUN_ID = "20260102T030405Z-0badcafe"


def host(**changes: Any) -> Host:
    gpu = Device(0, "NVIDIA H200", "h200", "sm_90", 150_000_000_000, 132, "d0d0")
    given = Host(
        host_id="a1b2c3d4",
        system="Linux 6.1 x86_64",
        python="3.12.3",
        torch="2.8.0",
        triton="3.7.1",
        backends=("amd", "nvidia"),
        driver="570.86",
        toolkit="12.8",
        devices=(gpu,),
        settings={},
    )
    return dataclasses.replace(given, **changes)


def header(**changes: Any) -> Header:
    given = Header(
        run_id=RUN_ID,
        portkit="0.1.0",
        started="2026-01-02T03:04:05+00:00",
        matrix="matrix.yaml",
        matrix_hash="0123456789abcdef",
        tier="quick",
        plan_hash="fedcba9876543210",
        cells=1,
        host=host(),
        targets=("h200", "mi300x", "a100", "rx7900xtx"),
    )
    return dataclasses.replace(given, **changes)


def resume(**changes: Any) -> Resume:
    given = Resume(RUN_ID, "2026-01-03T03:04:05+00:00", host().host_id, host().devices, repeated=0)
    return dataclasses.replace(given, **changes)


def cell(**changes: Any) -> Cell:
    given = Cell("softmax", Direction.FORWARD, (4096, 4096), "float32", "w8", "h200")
    return dataclasses.replace(given, **changes)


def launch(registers: int = 32, spill: int = 0, shared: int = 64, percent: float = 100.0, **changes: Any) -> Launch:
    given = Launch(
        kernel="_softmax_kernel",
        grid=(4096, 1, 1),
        num_warps=8,
        num_stages=3,
        resources=Resources(registers, spill, shared, 256, 32, {"REG": registers}),
        occupancy=Occupancy(percent, 8, 64, "waves", {"registers": 8, "shared memory": 228, "waves": 8}),
        specialization={"x": "*fp32 divisibility=16"},
        constants={"BLOCK": "4096"},
        options={"cluster_dims": (1, 1, 1)},
        compile_seconds=0.125,
        binary_hash="ab" * 32,
    )
    return dataclasses.replace(given, **changes)


def build(*launches: Launch) -> Build:
    return Build(launches or (launch(),), build_key="b" * 16)


def tuned_build(failed: int = 1) -> Build:
    """One ordinary launch and an autotuned one, of whose configurations two can run."""
    trials = (launch(28, percent=100.0, trial=True), launch(72, percent=50.0, trial=True))
    broken = launch(16, percent=0.0, trial=True, limits_broken=("threads 2048 > 1024",))
    tuning = Tuning(
        calls=1,
        configurations=2 + failed,
        usable=2,
        ranges={
            "registers_per_thread": (40, 72),
            "spill_bytes_per_thread": (0, 0),
            "shared_bytes_per_block": (64, 64),
            "threads_per_block": (256, 256),
            "occupancy_pct": (50.0, 100.0),
        },
        failed={f"BLOCK={1024 + i} num_warps=32": "threads 2048 > 1024" for i in range(failed)},
    )
    launches = (launch(40), *trials, *[broken] * failed)
    return dataclasses.replace(build(*launches), tuning=tuning)


def verdict(error: float | None = 1e-7, limit: float = 1e-6, *, nonfinite_agree: bool = True) -> Verdict:
    output = OutputError("0", "float32", error, 2e-7, limit, "8 × unfused error", nonfinite_agree)
    return Verdict((output,), "i" * 16, "o" * 16, {"zeros": True})


def timing(fused_ms: float = 0.5, eager_ms: float = 1.0) -> Timing:
    fused = Clock(fused_ms, fused_ms * 0.99, fused_ms * 1.01, 100)
    eager = Clock(eager_ms, eager_ms * 0.99, eager_ms * 1.01, 100)
    speedup = {"eager": Ratio(eager_ms / fused_ms, eager_ms / fused_ms * 0.98, eager_ms / fused_ms * 1.02)}
    return Timing(1 << 28, 10, Timed(fused), {"eager": Timed(eager)}, speedup)


WORK = Work(fused_bytes=100, unfused_bytes=400, flops=50)

NULLS = {
    Evidence.MEASURED: {"counters": "no counters were asked for"},
    Evidence.COMPILED: {"verdict": "not run", "timing": "not run"},
    Evidence.INTERPRETED: {"build": "interpreted", "timing": "interpreted"},
}


def result(evidence: Evidence = Evidence.COMPILED, **changes: Any) -> CellResult:
    """A good result of that evidence, with the parts that it can have."""
    compiled, measured = evidence is Evidence.COMPILED, evidence is Evidence.MEASURED
    given = CellResult(
        cell=cell(**{k: changes.pop(k) for k in list(changes) if k in Cell.__dataclass_fields__}),
        evidence=evidence,
        outcome=Outcome(Status.BUILT if compiled else Status.PASSED),
        build=None if evidence is Evidence.INTERPRETED else build(),
        verdict=None if compiled else verdict(),
        timing=timing() if measured else None,
        work=WORK,
        nulls=NULLS.get(evidence, {}),
        seconds=0.25,
        device="d0d0" if measured else None,
    )
    return dataclasses.replace(given, **changes)


def record(
    evidence: Evidence = Evidence.COMPILED,
    *,
    run: Header | None = None,
    source_hash: str = "5" * 16,
    expectation: Any = None,
    blobs: dict[str, str] | None = None,
    **changes: Any,
) -> Record:
    """A record of :func:`result`; ``changes`` are fields of the cell or of the result."""
    found = result(evidence, **changes)
    return make_record(
        found,
        PlannedCell(found.cell, evidence, expectation=expectation),
        header=run or header(),
        params={"num_warps": 8},
        source_hash=source_hash,
        architecture=ARCHITECTURES[found.cell.target],
        blobs=blobs,
    )


@contextlib.contextmanager
def file_size_limit(size: int):
    """Files may grow to that many bytes: the disk is full for this process."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
