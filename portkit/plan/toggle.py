"""What ``portkit toggle`` is asked to do, from the words of a command line; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from portkit.errors import CaseError, nearest
from portkit.plan.arguments import DtypeSpec, TensorSpec, parse_argument, tensors
from portkit.plan.baselines import EAGER
from portkit.plan.check import read_place

MODES: Final = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""Modes of ``torch.compile`` that may be asked for."""

_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=(?!=)(?P<value>.*)", re.DOTALL)

_BUILD: Final = "write FILE.py:FUNCTION or MODULE:FUNCTION, a function without arguments that returns the model"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, by the function that builds it."""

    name: str  # as the tables show it
    text: str  # as the user wrote it
    path: str | None  # of its file
    module: str | None
    function: str


@dataclass(frozen=True, slots=True)
class ToggleRequest:
    """One experiment."""

    model: Subject
    variants: tuple[Subject, ...]
    inputs: tuple[str, ...]  # as the user wrote them: dtype[shape], a value, or NAME=either
    modes: tuple[str, ...]
    device: str | None  # None: a GPU where torch has one, else the CPU
    seconds: float  # of timing, at most, all ways together
    seed: int = 0
    counters: bool = False  # whether bytes are counted by the vendor's profiler, too


def read_subject(text: str, name: str = EAGER) -> Subject:
    """``mymodel.py:build`` or ``package.module:build``.

    Raises:
        CaseError: there is no such file or module, or no function is named.
    """
    place = read_place(text)
    if not place.function:
        raise CaseError("names no function that builds the model", place=text, remedy=_BUILD)
    return Subject(name, text, str(place.path) if place.path else None, place.module, place.function)


def read_variant(text: str) -> Subject:
    """``NAME=FILE.py:FUNCTION``.

    Raises:
        CaseError: it has no name, or names nothing that is there.
    """
    named = re.fullmatch(r"(?P<name>[\w.-]+)=(?P<place>.+)", text)
    if named is None:
        raise CaseError(f"{text!r} has no name", place="--variant", remedy="write NAME=FILE.py:FUNCTION")
    if named["name"] == EAGER:
        raise CaseError("`eager` is the model itself", place=f"--variant {text}", remedy="give it another name")
    return read_subject(named["place"], named["name"])


def read_modes(text: str) -> tuple[str, ...]:
    """Modes with commas between them, each once.

    Raises:
        CaseError: torch.compile has no such mode.
    """
    modes = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for mode in modes:
        if mode not in MODES:
            raise CaseError(f"torch.compile has no mode {mode!r}", place="--modes", remedy=nearest(mode, MODES))
    return modes


def read_inputs(texts: Sequence[str]) -> tuple[tuple[str | None, Any], ...]:
    """Arguments of the model's call: name, or None for one by position, and value.

    Raises:
        CaseError: one is no value, a name comes twice, or there is no tensor among them.
    """
    read = tuple(map(_input, texts))
    names = [name for name, _ in read if name is not None]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CaseError(f"{twice} is given twice", place="--input", remedy="give each argument once")
    if not any(True for _, value in read for _ in tensors(value)):
        raise CaseError(
            "the model gets no tensor",
            place="--input",
            remedy="give what its call takes, as --input 'bf16[8,2048]' or --input 'ids=0 <= i64[1,512] < 32000'",
        )
    return read


def _input(text: str) -> tuple[str | None, TensorSpec | DtypeSpec | Any]:
    named = _NAMED.fullmatch(text.strip())
    if named is None:
        return None, parse_argument(text, "--input")
    return named["name"], parse_argument(named["value"], f"--input {named['name']}")
