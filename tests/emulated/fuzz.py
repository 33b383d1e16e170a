"""Texts of compiled kernels with random edits, as a hand or a broken disk would make them, and launches likewise.

Each must be refused by name or run to an end: an exception, or a run without an end, is a fault of the emulator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from mutant_cases import CASES, INPUTS, PTX_CASES, Case
from mutants import execute, load_of

from portkit.emulate import Emulation, Options, Pointer, Value, run

ARCHITECTURES = {
    "amd": ("gfx942", "gfx950", "gfx1100", "gfx1201"),
    "nvidia": ("sm_80", "sm_90", "sm_100", "sm_120"),
}
BY_TENSORS = ("described",)
"""Kernels that need an architecture with tensor descriptors."""

NUMBER = re.compile(r"(?<![\w.$%])-?(?:0x[0-9a-fA-F]+|\d+)\b")
REGISTER = re.compile(r"%[a-z]+\d+|\b[vsa]\d+\b|\b[vsa]\[\d+:\d+\]")
PART = re.compile(r"(?<=[.:_])[a-z]\w*")
LABEL = re.compile(r"[$.]L\w+")
NUMBERS = (
    "0",
    "-1",
    "1",
    "3",
    "255",
    "65536",
    "0x7fffffff",
    "-2147483648",
    "4294967296",
    "99999999999999999999",
    "1e9",
)

Edit = Callable[[random.Random, list[str]], list[str]]
"""Lines with one edit."""


@dataclass(frozen=True)
class Launched:
    """A compiled kernel, and what its launch may cost."""

    case: Case
    budget: int  # lane-instructions: a few times those of the whole kernel


def launched(name: str, architecture: str) -> Launched:
    """A kernel of the mutation tests, compiled."""
    of = PTX_CASES if architecture.startswith("sm_") else CASES
    case = of[name](architecture)
    return Launched(case, 4 * execute(case, load_of(case), INPUTS[0]).charged)


def names_of(vendor: str) -> list[tuple[str, str]]:
    """Twenty kernels with an architecture each, all architectures of the vendor among them."""
    of = list(PTX_CASES if vendor == "nvidia" else CASES)
    places = ARCHITECTURES[vendor]
    pairs = [(name, places[(turn + 2 * part) % len(places)]) for part in (0, 1) for turn, name in enumerate(of)]
    return [(name, "sm_90" if name in BY_TENSORS else architecture) for name, architecture in pairs][:20]


def launch(kernel: Launched, text: str, seed: int | None = None) -> Emulation:
    """Launch a text in place of the compiled one; ``seed``: of a launch that is disturbed, too."""
    case, built = kernel.case, kernel.case.built
    made = Made(case.grid, case.make(np.random.default_rng(9), INPUTS[0]), built.waves, built.shared_bytes)
    if seed is not None:
        chance = random.Random(seed)
        made = chance.choice(DISTURBANCES)(chance, made)
    options = Options(budget=kernel.budget)
    return run(text, built.architecture, made.grid, made.values, made.waves, made.shared_bytes, options)


def mutant(kernel: Launched, seed: int) -> Emulation:
    """Launch a kernel with edits in its text, with a disturbed launch, or with both."""
    text = kernel.case.built.text
    return launch(kernel, edited(text, seed) if seed % 4 else text, seed if seed % 4 < 2 else None)


# -- launches


@dataclass(frozen=True)
class Made:
    """What a launch passes beside the text."""

    grid: tuple[int, ...]
    values: list[Value]
    waves: int | None
    shared_bytes: int


def _other_grid(chance: random.Random, made: Made) -> Made:
    grids = [(), (0,), (1, 0), (-1,), (1 << 31, 1), (2, 2, 2), (3,)]
    return replace(made, grid=chance.choice(grids))


def _other_waves(chance: random.Random, made: Made) -> Made:
    return replace(made, waves=chance.choice((None, 0, -1, 1, 3, 33, 1 << 20)))


def _other_memory(chance: random.Random, made: Made) -> Made:
    return replace(made, shared_bytes=chance.choice((0, -1, 17, 1 << 18, 1 << 40)))


def _other_value(chance: random.Random, made: Made) -> Made:
    """One value becomes another, of a wrong kind or size or misaligned."""
    at = chance.randrange(len(made.values))
    old = made.values[at]
    others: list[Value] = [None, 0, -1, 1 << 40, 10**30, 1.5, float("nan"), True]
    if isinstance(old, np.ndarray):
        others += [old.reshape(-1)[:1], Pointer(old, 1), Pointer(old, -8), Pointer(old, 1 << 40), made.values[0]]
        others.append(np.zeros(0, old.dtype))
    return replace(made, values=[*made.values[:at], chance.choice(others), *made.values[at + 1 :]])


def _fewer_values(chance: random.Random, made: Made) -> Made:
    return replace(made, values=made.values[: chance.randrange(len(made.values))])


def _more_values(chance: random.Random, made: Made) -> Made:
    return replace(made, values=[*made.values, *[0] * chance.randrange(1, 4)])


DISTURBANCES = (_other_grid, _other_waves, _other_memory, _other_value, _other_value, _fewer_values, _more_values)


# -- edits


def edited(text: str, seed: int) -> str:
    """A text with one edit, seldom several."""
    chance = random.Random(seed)
    lines = text.splitlines()
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        lines = chance.choice(EDITS)(chance, lines)
    return "\n".join(lines) + "\n"


def _place(chance: random.Random, lines: Sequence[str]) -> int:
    """A line that is more than a comment or a line of debuggers."""
    for _ in range(50):
        at = chance.randrange(len(lines))
        word = lines[at].strip()
        if word and not word.startswith((";", "//", ".loc", ".file", ".byte", ".b8")):
            return at
    return at


def _deleted(chance: random.Random, lines: list[str]) -> list[str]:
    at = _place(chance, lines)
    return lines[:at] + lines[at + 1 :]


def _doubled(chance: random.Random, lines: list[str]) -> list[str]:
    at = _place(chance, lines)
    return [*lines[:at], lines[at], *lines[at:]]


def _swapped(chance: random.Random, lines: list[str]) -> list[str]:
    one, other = _place(chance, lines), _place(chance, lines)
    lines = list(lines)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _moved(chance: random.Random, lines: list[str]) -> list[str]:
    at, to = _place(chance, lines), _place(chance, lines)
    rest = lines[:at] + lines[at + 1 :]
    return [*rest[:to], lines[at], *rest[to:]]


def _cut(chance: random.Random, lines: list[str]) -> list[str]:
    """The text ends within a line."""
    at = chance.randrange(1, len(lines))
    return [*lines[:at], lines[at][: chance.randrange(len(lines[at]) + 1)]]


def _damaged(chance: random.Random, lines: list[str]) -> list[str]:
    """A character more, less, or another."""
    at = _place(chance, lines)
    line = lines[at]
    place = chance.randrange(len(line) + 1)
    new = chance.choice(("", chance.choice("%$[]{}(),.;:@!|-+09xvs \"'#"), line[place : place + 1] * 2))
    return [*lines[:at], line[:place] + new + line[place + 1 :], *lines[at + 1 :]]


def _replacing(pattern: re.Pattern[str], others: Sequence[str] = ()) -> Edit:
    """One match on a line becomes something else: of a list, or what matches on another line."""

    def edit(chance: random.Random, lines: list[str]) -> list[str]:
        for _ in range(50):
            at = _place(chance, lines)
            if found := list(pattern.finditer(lines[at])):
                break
        else:
            return lines
        match = chance.choice(found)
        elsewhere = pattern.findall(lines[_place(chance, lines)]) or pattern.findall(lines[at])
        new = chance.choice(others if others and chance.random() < 0.6 else elsewhere)
        return [*lines[:at], lines[at][: match.start()] + new + lines[at][match.end() :], *lines[at + 1 :]]

    return edit


EDITS: tuple[Edit, ...] = (
    _deleted,
    _doubled,
    _swapped,
    _moved,
    _cut,
    _damaged,
    _replacing(NUMBER, NUMBERS),
    _replacing(NUMBER, NUMBERS),
    _replacing(REGISTER, ("%r0", "%p1", "v255", "s[0:1]", "v[254:257]", "vcc", "exec", "%rd999")),
    _replacing(PART, ("f32", "u64", "b128", "pred", "bf16x2", "v4", "shared", "e64", "sdwa", "dpp")),
    _replacing(PART),
    _replacing(LABEL, ("$L__BB0_1", ".LBB0_1", ".Lnowhere")),
)
