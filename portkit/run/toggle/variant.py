"""The process of one variant: ``python -m portkit.run.toggle.variant``.

A variant may patch a class or a function of a library, so it has a process of its own: the model
beside it stays as it is. It takes a request on standard input, builds and calls the variant, leaves
its result in a file and answers on standard output; then it samples and traces as it is told.
What the user's code prints goes to standard error.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import IO, Final

import torch
from pydantic import TypeAdapter

from portkit.errors import CaseError
from portkit.garbage import uncollected
from portkit.plan.toggle import Subject
from portkit.run.timing.wall import Sample, sample_of
from portkit.run.toggle import inductor
from portkit.run.toggle.counting import count
from portkit.run.toggle.device import finish_on
from portkit.run.toggle.subjects import Arguments, Model, build, load_weights, make_arguments, run, told
from portkit.store.toggled import Way

SAMPLE: Final = "sample"
TRACE: Final = "trace"

CALLS_BEFORE: Final = 1
"""Untimed calls before a sample: the device, and its caches, have just served another process."""

BESIDE: Final = "a variant may launch kernels beside PyTorch's dispatcher, where bytes are counted"


@dataclass(frozen=True)
class VariantRequest:
    """What one variant is and where its files are."""

    subject: Subject
    inputs: tuple[str, ...]
    device: str
    seed: int
    weights: str | None  # file with those of the model; None where it has none
    result: str  # file for the tensors of its result


@dataclass(frozen=True)
class Traced:
    """The variant on the device trace."""

    kernel_ms: float | None
    launches: int | None
    why: str = ""  # why there is none


REQUEST: Final = TypeAdapter(VariantRequest)
BUILT: Final = TypeAdapter(Way)
TRACED: Final = TypeAdapter(Traced)


def _built(request: VariantRequest) -> tuple[Way, Callable[[], object]]:
    """The variant, called once; its way and its call.

    Raises:
        CaseError: it can't be built or does not run.
    """
    subject = request.subject
    arguments = make_arguments(request.inputs, request.device, request.seed)
    variant = build(subject, request.device, request.seed)
    nulls = {"moved_bytes": BESIDE}
    if why := load_weights(variant, request.weights):
        nulls["weights"] = why
    result = run(variant, arguments, subject)
    torch.save([each.detach().cpu() for each in result], request.result)
    way = _operations(Way(subject.name, nulls=nulls), variant, arguments, request.device)
    return way, lambda: arguments.call(variant)


def _operations(way: Way, variant: Model, arguments: Arguments, device: str) -> Way:
    """On a CPU, what PyTorch dispatches is all there is."""
    if device == "cuda":
        return way
    try:
        return replace(way, launches=count(lambda: arguments.call(variant)).operations)
    except Exception as error:  # as of a variant that is compiled
        return replace(way, nulls={**way.nulls, "launches": f"operations could not be counted: {told(error)}"})


def _traced(name: str, call: Callable[[], object]) -> Traced:
    from portkit.run.toggle.gpu import traced  # noqa: PLC0415 - needs Triton, which a CPU may lack

    try:
        found = traced({name: call})[name]
    except Exception as error:  # a TraceError, or the driver's own
        return Traced(None, None, told(error))
    return Traced(found.kernel_ms, found.launches)


def main() -> None:
    """Answer the request, then each command until there is none."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = REQUEST.validate_json(sys.stdin.readline())
    inductor.prepare()
    with torch.no_grad():
        try:
            way, call = _built(request)
        except CaseError as error:
            failed = Way(request.subject.name, failed=_why_not(error))
            _tell(answers, BUILT.dump_json(failed))
            return
        _tell(answers, BUILT.dump_json(way))
        _serve(request, call, answers)


def _serve(request: VariantRequest, call: Callable[[], object], answers: IO[str]) -> None:
    sample: Sample = sample_of(call, finish_on(request.device), calls_before=CALLS_BEFORE)
    gc.collect()
    with uncollected():  # within a sample a search for garbage would stop the host
        for line in sys.stdin:
            command = line.strip()
            if command == SAMPLE:
                _tell(answers, repr(sample()).encode())
            elif command == TRACE:
                _tell(answers, TRACED.dump_json(_traced(request.subject.name, call)))


def _tell(answers: IO[str], line: bytes) -> None:
    print(line.decode(), file=answers, flush=True)


def _why_not(error: CaseError) -> str:
    """Why a variant does not run; Triton's own words do not say it."""
    if "active drivers" in error.message and not torch.cuda.is_available():
        return "its kernels are Triton's, which need a GPU, and there is none here"
    return f"{error.place}: {error.message}" if error.place else error.message


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the user's threads and exit handlers have no part in it
