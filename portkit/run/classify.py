"""From an exception of a host function, a launch or the compiler to an outcome.

Told apart by where the exception was raised: inside ``triton.compile`` or the
launch path it is the compiler's or the options' refusal, anywhere else it is
host code that could not be captured.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import triton

from portkit.model import Outcome, Stage, Status
from portkit.run.scrub import scrub
from portkit.run.shim import UnknownPropertyError

_TRITON = str(Path(triton.__file__).parent)

_SOURCE_FAULTS = (NameError, AttributeError, SyntaxError, IndentationError)
"""Causes that are faults of the kernel's text on every target, no vendor's refusal."""

_COMPILER_FAULTS = ("PassManager::run failed", "LLD failed", "PTXAS error", "failed to translate", "LLVM ERROR")


def classify(error: BaseException) -> Outcome:
    """The outcome that an exception stands for.

    Returns:
        ``unsupported`` for a named refusal by front end, backend or options;
        ``compile_error`` for a fault of compiler or kernel text;
        ``backend_missing`` where Triton lacks the vendor's backend;
        ``capture_failed`` for anything raised by host code, with its line.
    """
    if isinstance(error, UnknownPropertyError) or not _from_triton(error):
        return Outcome(Status.CAPTURE_FAILED, Stage.CAPTURE, f"{describe(error)} at {failing_line(error)}")
    return Outcome(_compiler_status(error), Stage.COMPILE, describe(error))


def root_cause(error: BaseException) -> BaseException:
    """The exception at the end of the chain of causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def describe(error: BaseException) -> str:
    """Type and first telling line of the root cause, paths scrubbed."""
    root = root_cause(error)
    lines = [line.strip() for line in str(root).splitlines() if line.strip()]
    # A CompilationError quotes the source first and says what is wrong last.
    message = (lines[-1] if lines and lines[0].startswith("at ") else " ".join(lines[:3])) if lines else ""
    return scrub(f"{type(root).__name__}: {message}"[:600])


def failing_line(error: BaseException) -> str:
    """File and line of the user's code nearest to the fault, scrubbed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/portkit/run/" not in f.filename and "/torch/" not in f.filename]
    frame = (own or frames)[-1] if frames else None
    return scrub(f"{frame.filename}:{frame.lineno}") if frame else "unknown line"


def _from_triton(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return any(f.filename.startswith(_TRITON) for f in frames[-1:]) or any(
        f.filename.startswith(_TRITON) and f.name in ("compile", "run", "_do_compile", "_pack_args") for f in frames
    )


def _compiler_status(error: BaseException) -> Status:
    text = f"{error}\n{root_cause(error)}"
    if "compatible backends for target" in text:
        return Status.BACKEND_MISSING
    if any(fault in text for fault in _COMPILER_FAULTS) or type(root_cause(error)).__name__ == "PTXASError":
        return Status.COMPILE_ERROR
    if isinstance(root_cause(error), _SOURCE_FAULTS):
        return Status.COMPILE_ERROR
    return Status.UNSUPPORTED
