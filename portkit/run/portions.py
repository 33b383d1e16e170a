"""Long chains in parts, so that the last processes of a run end at about the same time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from portkit.model import Cell, Evidence
from portkit.run.jobs import Chain, Job

DIVIDED: Final = (Evidence.EMULATED,)
"""Whose cells take seconds each, so that the start of one more process does not matter."""

SHARE: Final = 4
"""A process takes this part of its equal share of what waits: cells of some cases cost twenty times those of others."""


def divide(chain: Chain, waiting: Sequence[Chain], workers: int) -> tuple[Chain, Chain]:
    """What the next process takes of a chain, and the rest of it, which may be empty.

    Args:
        chain: the one whose turn it is.
        waiting: all that wait, this one included.
        workers: processes that share them.
    """
    if chain[0].evidence not in DIVIDED:
        return chain, ()
    cells = sum(len(each[0].cells) for each in waiting if each[0].evidence in DIVIDED)
    return cut(chain, math.ceil(cells / (SHARE * workers)) if workers > 1 else cells)


def cut(chain: Chain, cells: int) -> tuple[Chain, Chain]:
    """A chain after at least so many cells of its first job; both parts keep its order.

    Cells that differ in their shape alone stay together, since they share what the input families
    showed; so do those of SKUs of one architecture, which share their builds.
    """
    taken: set[Cell] = set()
    count = 0
    for group, members in Counter(map(_group, chain[0].cells)).items():
        if count >= cells:
            break
        taken.add(group)
        count += members
    parts = [tuple(_only(job, taken, inside=inside) for job in chain) for inside in (True, False)]
    first, rest = (tuple(job for job in part if job.cells) for part in parts)
    return first, rest


def _group(cell: Cell) -> Cell:
    return replace(cell, shape=(), target="")


def _only(job: Job, groups: set[Cell], *, inside: bool) -> Job:
    return replace(job, cells=tuple(cell for cell in job.cells if (_group(cell) in groups) == inside))
