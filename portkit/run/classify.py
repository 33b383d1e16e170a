"""From an exception of a host function, a launch or the compiler to an outcome.

Told apart by where the exception was raised: inside ``triton.compile`` or the
launch path it is the compiler's or the options' refusal, anywhere else it is
host code that could not be captured.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

import triton
from triton.compiler.errors import CompilationError

from portkit.model import Outcome, Stage, Status
from portkit.run.allocation import SharedMemoryExceededError
from portkit.run.scrub import nameless, scrub
from portkit.run.shim import CompiledHostError, LaunchRefusedError, UnknownPropertyError, UnknownTimeError

_TRITON = str(Path(triton.__file__).parent)
_PYTHON = sysconfig.get_path("stdlib")

_TEXT_FAULTS = frozenset(
    {
        "NameError",
        "UnboundLocalError",
        "AttributeError",
        "TypeError",
        "SyntaxError",
        "IndentationError",
        "TabError",
        "IncompatibleTypeErrorImpl",
    }
)
"""Types of causes that are faults of the text of kernel or launch on every target, no one's refusal."""

_UNKNOWN = (UnknownPropertyError, UnknownTimeError, CompiledHostError)
"""Questions of host code that have no answer for an absent GPU."""

_TOOL_FAULTS = frozenset({"RuntimeError", "PTXASError", "MLIRError", "CalledProcessError", "FileNotFoundError"})
"""Types by which Triton's C++ and the programs it calls report that they failed."""

_HOST_FAULTS = (OSError, MemoryError)
"""Causes that say nothing about the kernel: a disk that is full, a folder that can't be made, no memory."""

_ROOM = (
    "see that there is memory, and that Triton's cache (TRITON_CACHE_DIR, else .triton/cache in the home folder) "
    "and the folder for temporary files (TMPDIR) can be written to and have room"
)

_NAMED_REFUSALS = ("Implicit conversion of CUDA", "not supported", "unsupported", "is only supported")
"""Words with which Triton's C++ names what it refuses, instead of failing at it."""

_TOOLS = ("PassManager", "LLD", "PTXAS", "ptxas", "assembler")

_QUOTED_CAUSE = re.compile(r"""(?P<kind>[A-Za-z_]\w*)\((?P<quote>['"])(?P<text>.*)(?P=quote),?\)""", re.S)
"""How the front end writes a cause that it does not chain: ``ValueError("…")``."""


def classify(error: BaseException) -> Outcome:
    """The outcome that an exception stands for.

    Returns:
        ``unsupported`` for a named refusal by front end, backend or options, a
        failed ``static_assert`` included: there the kernel itself names what it refuses;
        ``compile_error`` for a compiler or one of its tools that fails at its work, and
        for text that is wrong on every target;
        ``out_of_resources`` for a build that was ended since its target lacks the shared memory;
        ``backend_missing`` where Triton lacks the vendor's backend;
        ``capture_failed`` for anything raised by host code, with its line, and for a disk or
        a memory that is full.
    """
    if isinstance(error, SharedMemoryExceededError):
        return Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS, error.told)
    if isinstance(error, LaunchRefusedError):
        return Outcome(Status.LAUNCH_ERROR, Stage.RUN, f"{describe(error)} at {failing_line(error)}")
    if isinstance(error, _UNKNOWN) or not _from_triton(error):
        return Outcome(Status.CAPTURE_FAILED, Stage.CAPTURE, f"{describe(error)} at {failing_line(error)}")
    if _is_host_fault(root_cause(error)):
        return Outcome(Status.CAPTURE_FAILED, Stage.COMPILE, f"{describe(error)}; {_ROOM}")
    return Outcome(_compiler_status(error), Stage.COMPILE, describe(error))


def _is_host_fault(cause: BaseException) -> bool:
    return isinstance(cause, _HOST_FAULTS) and type(cause).__name__ not in _TOOL_FAULTS


def root_cause(error: BaseException) -> BaseException:
    """The exception at the end of the chain of causes."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def describe(error: BaseException) -> str:
    """Type and telling lines of the root cause; no path of this machine, no name of this one build."""
    kind, text = named_cause(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # ptxas and the linker say what is wrong after a line of Triton's own, and how to repeat it last.
    told = [line for line in lines if not line.startswith("Repro command")]
    return nameless(scrub(f"{kind}: {' '.join(told[:3])}"))[:600].rstrip()


def named_cause(error: BaseException) -> tuple[str, str]:
    """Type and text of the root cause, that of an exception which the front end only quotes."""
    root = root_cause(error)
    text = str(getattr(root, "error_message", None) or root).strip()
    if text.startswith("at "):  # a CompilationError quotes the source first and says what is wrong last
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # An assertion without words ends with the line that it points at.
        text = lines[-1] if lines[-1] != "^" else lines[-2]
    quoted = _QUOTED_CAUSE.fullmatch(text)
    if quoted and isinstance(root, CompilationError):
        return quoted["kind"], quoted["text"].replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"')
    return type(root).__name__, text


def failing_line(error: BaseException) -> str:
    """File and line of the user's code nearest to the fault, scrubbed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not _between(f.filename) and not f.filename.startswith(_TRITON)]
    frame = (own or frames)[-1] if frames else None
    return scrub(f"{frame.filename}:{frame.lineno}") if frame else "unknown line"


def _from_triton(error: BaseException) -> bool:
    """Whether Triton raised it, and no code of the user that Triton called (a grid, a hook)."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(_TRITON):
            return True
        if not _between(frame.filename):
            return False
    return False


def _between(filename: str) -> bool:
    """Code that works for others: portkit's, torch's and Python's own."""
    own = "/portkit/run/" in filename or "/torch/" in filename or filename.startswith("<frozen ")
    return own or (filename.startswith(_PYTHON) and "-packages/" not in filename)


def _names_refusal(kind: str, text: str) -> bool:
    """Whether Triton's C++ refuses a thing by name; ptxas, assembler and linker fail at what they are given."""
    own = kind == "RuntimeError" and not any(tool in text for tool in _TOOLS)
    return own and any(words in text for words in _NAMED_REFUSALS)


def _compiler_status(error: BaseException) -> Status:
    kind, text = named_cause(error)
    if "compatible backends for target" in text:
        return Status.BACKEND_MISSING
    if kind == "OutOfResources":
        return Status.OUT_OF_RESOURCES
    if kind in _TEXT_FAULTS:
        return Status.COMPILE_ERROR
    if kind in _TOOL_FAULTS and not _names_refusal(kind, text):
        return Status.COMPILE_ERROR
    return Status.UNSUPPORTED
