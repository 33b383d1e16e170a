"""Results of a function under Triton's interpreter, for a process that does not interpret.

What an emulated check is held against where nobody names a reference. The interpreter needs its
environment before Triton is imported, so the calls are made in a process of their own,
``python -m portkit.run.interpreted_calls FD``, which ends with the one that asks.

A call is tried on the values as they come, which for a reference are float64; where the kernel does
not take them so, as one that multiplies tiles of two types, in float32, then in the arguments' own
dtypes. Rounding in the interpreter is then part of the reference, and where it does so within a
narrow dtype a result may be as far off as two roundings of each side: ``_ROUNDINGS`` of its epsilon.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from portkit.model import CaseSource, KernelCase
from portkit.run.classify import describe
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case
from portkit.run.stand_in import for_interpreting
from portkit.run.tree import map_tensors, named_tensors

_ROUNDINGS = 4
"""Epsilons of the dtype that a result may be off a reference which rounds where the kernel does."""


class InterpretedCallError(RuntimeError):
    """The function did not come through in Triton's interpreter."""


def interpreted(source: CaseSource, rounded: Callable[[], None]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A function that gives what the check's function gives under Triton's interpreter.

    Args:
        source: of a check.
        rounded: called where a reference in float64 was not to be had.

    Returns:
        It takes the arguments by name and raises InterpretedCallError where no attempt comes through.
    """
    ours, theirs = socket.socketpair()
    subprocess.Popen(
        [sys.executable, "-m", "portkit.run.interpreted_calls", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    connection = Connection(ours.detach())
    connection.send_bytes(pickle.dumps(source))

    def call(**given: Any) -> tuple[torch.Tensor, ...]:
        with torch._C.DisableTorchFunction():
            connection.send_bytes(_packed(given))
            try:
                answer = _unpacked(connection.recv_bytes())
            except (EOFError, OSError):
                raise InterpretedCallError("the process of Triton's interpreter ended early") from None
        if isinstance(answer, str):
            raise InterpretedCallError(f"name a --reference; Triton's interpreter can't run this: {answer}")
        results, as_given = answer
        if not as_given:
            rounded()
        return tuple(results)

    return call


def _packed(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _unpacked(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=False)


def main(arguments: list[str]) -> int:
    """Answer calls until the other end closes."""
    connection = Connection(int(arguments[0]))
    torch.set_num_threads(1)
    platform = for_interpreting()
    try:
        source: CaseSource = pickle.loads(connection.recv_bytes())
        case = _loaded(source, platform)
        while True:
            given = _unpacked(connection.recv_bytes())
            connection.send_bytes(_packed(_answer(case, given, platform)))
    except EOFError:
        return 0


def _loaded(source: CaseSource, platform: Any) -> KernelCase | str:
    try:
        with platform:
            return load_case(source)
    except Exception as error:
        return describe(error)


def _answer(case: KernelCase | str, given: Mapping[str, Any], platform: Any) -> Any:
    """Results of the first attempt that comes through, and whether it was the first of all; else why none did."""
    if isinstance(case, str):
        return case
    why = ""
    for number, attempt in enumerate(_attempts(case, given)):
        results = _tried(case, attempt, platform)
        if not isinstance(results, str):
            return _in_forms(results, case, given, platform), number == 0
        why = results
    return why


def _tried(case: KernelCase, given: Mapping[str, Any], platform: Any) -> list[torch.Tensor] | str:
    try:
        with platform:
            return [each.detach() for each in case.fused(**given)]
    except Exception as error:  # the interpreter raises what NumPy and Python raise
        return describe(error)


def _attempts(case: KernelCase, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments as they are, in float32, and in the dtypes that the check names; each anew.

    Those of a narrow dtype begin with float32: the interpreter computes on the bits of bfloat16.
    """
    if not _narrow(given):
        yield _as(given, _same)
    yield _as(given, lambda place, tensor: torch.float32)
    own = dict(named_tensors(case.inputs(InputMaker(device="meta"), case.shapes[0], case.dtypes[0])))
    yield _as(given, lambda place, tensor: own[place].dtype if place in own else tensor.dtype)


def _narrow(given: Mapping[str, Any]) -> torch.dtype | None:
    """The first floating-point dtype of the arguments, if it is narrower than float32."""
    first = next((tensor.dtype for _, tensor in named_tensors(given) if tensor.is_floating_point()), None)
    return first if first is not None and first.itemsize < 4 else None


def _in_forms(
    results: list[torch.Tensor], case: KernelCase, given: Mapping[str, Any], platform: Any
) -> list[torch.Tensor]:
    """Results for narrow arguments in the dtypes that these give; where they do not come through, in their own."""
    narrow = _narrow(given)
    if narrow is None:
        return results
    own = _tried(case, _as(given, _same), platform)
    if isinstance(own, str):
        dtypes = [narrow if each.dtype is torch.float32 else each.dtype for each in results]
    else:
        dtypes = [each.dtype for each in own]
    return [each.to(dtype) for each, dtype in zip(results, dtypes, strict=False)]


def _same(place: str, tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype


def _as(given: Mapping[str, Any], dtype_of: Callable[[str, torch.Tensor], torch.dtype]) -> dict[str, Any]:
    places = {id(tensor): place for place, tensor in named_tensors(given)}

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        dtype = dtype_of(places[id(tensor)], tensor) if tensor.is_floating_point() else tensor.dtype
        return tensor.to(dtype, copy=True)

    return {name: map_tensors(cast, value) for name, value in given.items()}


def with_interpreter(case: KernelCase, source: CaseSource) -> KernelCase:
    """The case of a check, held against the same function under Triton's interpreter."""
    limits: dict[str, float] = {}
    dtype = case.dtypes[0]

    def widen() -> None:
        kind = getattr(torch, dtype)
        if kind.is_floating_point and kind.itemsize < 4:
            limits[dtype] = _ROUNDINGS * torch.finfo(kind).eps

    return replace(case, reference=interpreted(source, widen), limits=limits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
