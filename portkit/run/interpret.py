"""Runs a cell in Triton's interpreter: correctness on the CPU, no registers and no time.

The interpreter is a NumPy model of Triton's operations. What it can't judge (seen
with Triton 3.7.1), a case names in ``interpreter_gaps``: bfloat16 arithmetic before an
upcast (it works on raw bits), bfloat16 atomics, fp8, NaN in ``max``, functions of a
vendor's libdevice. A conversion to bfloat16 cuts instead of rounding to nearest, so
there the limit counts a whole epsilon, and the rule in the record says so.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl
from packaging.version import Version
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from portkit.errors import HostError
from portkit.model import Cell, CellResult, Evidence, KernelCase, Outcome, Stage, Status
from portkit.run.classify import describe, root_cause
from portkit.run.evaluate import Runner, StageFailed, evaluate, work_of

FAMILY_GAPS = {("denormal", "bfloat16"): "Triton's interpreter loses bits of bfloat16 denormals"}

NULLS = {"build": "the interpreter compiles nothing", "timing": "the interpreter's time says nothing about a GPU"}


def interpret_cell(case: KernelCase, cell: Cell, *, seed: int = 0) -> CellResult:
    """Run a cell's fused function in the interpreter and judge its outputs.

    Args:
        case: loaded after ``TRITON_INTERPRET=1`` was set and Triton imported with it.
        cell: of a small shape.
        seed: of the inputs.

    Raises:
        HostError: the process is not one of the interpreter's.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise HostError(
            "interpreted cells need TRITON_INTERPRET=1 before Triton is imported",
            remedy="start a new process with it in the environment",
        )
    gap = case.interpreter_gaps.get(cell.dtype)
    if gap is not None:
        return _result(case, cell, Outcome(Status.UNSUPPORTED, Stage.RUN, gap))
    torch.set_num_threads(1)  # small tensors; other workers have the other cores
    _mend_index()
    _patch_once()
    try:
        done = evaluate(case, cell, RUNNER, seed=seed)
    except StageFailed as failed:
        return _result(case, cell, failed.outcome)
    blank = _result(case, cell, done.outcome)
    nulls = {**blank.nulls, **done.nulls}
    return replace(blank, verdict=done.verdict, nulls=nulls, blobs={"fingerprint": done.fingerprint})


@functools.cache
def _mend_index() -> None:
    """Let loops take bounds from tensors under Triton 3.5 and 3.6 with NumPy 2.4.

    Their interpreter makes a number of an array of one element, which NumPy refuses from 2.4 on.
    """
    if Version(triton.__version__) >= Version("3.7"):
        return
    patch = interpreter._patch_lang_tensor

    def mended(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = mended


@functools.cache
def _patch_once() -> None:
    """Spare device functions a search of ``triton.language`` for what the launch that calls them has replaced.

    Each call of one searches all of it anew and finds nothing, a quarter of the time of kernels that call many.
    Triton 3.5 lacks the scope, and is left as it is.
    """
    scope = getattr(interpreter, "_LangPatchScope", None)
    if scope is None:
        return
    patch = interpreter._patch_lang

    def once(function: Any) -> Any:
        seen = [each for each in function.__globals__.values() if each is tl or each is tl.core]
        replaced = seen and not any(tl.core.is_builtin(each.load) for each in seen)
        return scope() if replaced else patch(function)

    interpreter._patch_lang = once


def _result(case: KernelCase, cell: Cell, outcome: Outcome) -> CellResult:
    work, nulls = work_of(case, cell)
    return CellResult(cell, Evidence.INTERPRETED, outcome, work=work, nulls={**NULLS, **nulls})


def _explain(error: BaseException, stage: Stage) -> Outcome | None:
    """The interpreter's own refusals; anything else is the stage's failure."""
    if isinstance(error, InterpreterError) and isinstance(root_cause(error), NotImplementedError):
        return Outcome(Status.UNSUPPORTED, stage, f"Triton's interpreter: {describe(error)}")
    if isinstance(error, MemoryError):
        return Outcome(Status.LAUNCH_ERROR, stage, f"out of memory at {stage}")
    return None


RUNNER = Runner("cpu", _explain, truncates=True, family_gaps=FAMILY_GAPS, hurried=True)
