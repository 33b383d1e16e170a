"""A pytest plugin that plays a host with an H200: cells get their answers without torch, Triton or a GPU.

``PLAYED_FACTOR`` makes all times longer; ``jobs.json`` has what was asked for.
"""

import json
import os
from pathlib import Path

from factories import host

from portkit.model import (
    CaseDeclaration,
    CaseSource,
    CellResult,
    Clock,
    Direction,
    Evidence,
    Outcome,
    Ratio,
    Stage,
    Status,
    Timed,
    Timing,
)
from portkit.plan.cases import Introspection
from portkit.pytest_plugin import matrix
from portkit.run import benchmark
from portkit.run.timing.samples import Samples

FACTOR = float(os.environ.get("PLAYED_FACTOR", "1"))
SAMPLES = tuple(FACTOR * ms for ms in (0.5, 0.25, 0.375, 0.75, 0.25, 0.25))


def introspect(sources, target_files):
    source = CaseSource("softmax", path=str(Path("kernels/softmax.py").resolve()))
    variants = {"w4": {}, "w8": {}}
    case = CaseDeclaration(
        source, ((8, 8),), ((8, 8),), ("float32",), variants, (Direction.FORWARD,), "0" * 16, ("torch", "liger")
    )
    return Introspection(host(), {"softmax": case}, {})


class Session:
    def __init__(self, limits):
        pass

    def prestart(self, *, measuring=False):
        pass

    def close(self):
        pass

    def results(self, chains, *others):
        measured = [job for chain in chains for job in chain if job.evidence is Evidence.MEASURED]
        Path("jobs.json").write_text(json.dumps([job.baselines for job in measured]))
        for chain in chains:
            for job in chain:
                for cell in job.cells:
                    yield result(job.evidence, cell)


def result(evidence, cell):
    if evidence is Evidence.COMPILED:
        return CellResult(cell, evidence, Outcome(Status.BUILT))
    if cell.variant == "w8":
        return CellResult(cell, evidence, Outcome(Status.WRONG_RESULT, Stage.VERIFY, "output 0 is wrong"))
    samples = Samples({"events": {"fused": SAMPLES, "eager": tuple(4 * ms for ms in SAMPLES)}}, 1 << 28, 3)
    timing = Timing(
        flush_bytes=1 << 28,
        warmup=3,
        fused=Timed(Clock(0.3125, 0.25, 0.75, 6), trace=Clock(0.25, 0.25, 0.25, 6)),
        baselines={"eager": Timed(Clock(1.25, 1.0, 3.0, 6))},
        speedup={"eager": Ratio(4.0, 3.5, 4.5)},
        speedup_kernel={"eager": Ratio(3.5, 3.0, 4.0)},
    )
    return CellResult(cell, evidence, Outcome(Status.PASSED), timing=timing, blobs={"samples": samples.to_json()})


matrix.Session = Session
benchmark.introspect = introspect
