#!/usr/bin/env python3
"""Holds the emulator, and a prototype of one, against an archive of kernels with an H200's results.

    python scripts/archived_vectors.py vectors.zip --prototype comparison.txt

The archive is no part of this repository: a folder a kernel, with ``kernel.ptx``, ``meta.json`` and the bytes of each
argument before the launch and behind it. The GPU's units computed all of it, whatever target a text names; so does the
emulator here. The comparison has a line a kernel and mode of the prototype, and an entry an output, such as
``'7/16384 differ, max 2 f32 ulp, median 0'``; of several modes the one with the fewest differing results counts.

Exit code 1 where a kernel is neither equal to the bit nor nearer than the prototype.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from held_out import HERE, PROBED, WIDTHS, on_hopper
from tabulate import tabulate
from told import told

from portkit.emulate import run
from portkit.emulate.core.vectors import EXACT, Probe, compare

KINDS = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
LINE = re.compile(r"(?P<name>sm_\d+ \S+) +acc=(?P<mode>\w+) \[(?P<outputs>.*)\]")
OUTPUT = re.compile(r"(\d+)/(\d+) differ, max (\d+)")


@dataclass(frozen=True)
class Apart:
    """Results of a kernel beside the GPU's."""

    results: int
    differing: int
    furthest: float  # steps; of codes and integers without order: differences

    def text(self) -> str:
        """Of one cell of the table."""
        return f"{self.differing:,} by at most {self.furthest:,.0f}" if self.differing else "equal"


def emulated(archive: zipfile.ZipFile, folder: str) -> Apart:
    """All that a kernel wrote."""
    about = json.loads(archive.read(f"{folder}/meta.json"))
    values = [
        each.get(
            "scalar", np.frombuffer(archive.read(f"{folder}/{each['file']}"), np.uint8).copy() if "file" in each else 0
        )
        for each in about["args"]
    ]
    text = on_hopper(archive.read(f"{folder}/kernel.ptx").decode())
    done = run(text, HERE, (*about["grid"], 1, 1)[:3], values, about["warps"], about["shared"])
    assert done.outcome.status == "passed", (folder, done.outcome)
    compared = []
    for place, each in enumerate(about["args"]):
        if each.get("written"):
            after = np.frombuffer(archive.read(f"{folder}/arg{place}_after.bin"), np.uint8)
            kind = KINDS.get(each["dtype"], each["dtype"])
            rows = [
                side.view(WIDTHS.get(kind, np.uint8)).astype(np.uint32).reshape(-1, 1)
                for side in (after, values[place])
            ]
            compared.append(compare(Probe("", "", (), (), (PROBED.get(kind, "U32"),)), rows[0], *rows, EXACT.bound))
    results = sum(each.values for each in compared)
    return Apart(
        results, results - sum(each.equal + each.nans for each in compared), max(each.largest for each in compared)
    )


def prototypes(path: Path) -> dict[str, Apart]:
    """Folder of the archive → the prototype's results of it, in its best mode."""
    found: dict[str, Apart] = {}
    for line in map(LINE.match, path.read_text().splitlines()):
        if line:
            outputs = [tuple(map(int, each)) for each in OUTPUT.findall(line["outputs"])]
            mine = Apart(
                sum(each[1] for each in outputs), sum(each[0] for each in outputs), max(each[2] for each in outputs)
            )
            name = re.sub(r"[ .]", "_", line["name"])
            found[name] = min(found.get(name, mine), mine, key=lambda each: each.differing)
    return found


def rows(archive: zipfile.ZipFile, others: dict[str, Apart]) -> Iterator[tuple[str, Apart, Apart | None, str]]:
    """Every kernel: its name, the emulator, the prototype, and what is to be said of it."""
    for folder in sorted({name.partition("/")[0] for name in archive.namelist()}):
        mine, other = emulated(archive, folder), others.get(folder)
        nearer = other is not None and mine.differing < other.differing and mine.furthest <= other.furthest
        yield folder, mine, other, "equal" if not mine.differing else "nearer" if nearer else "NOT NEARER"


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--prototype", type=Path, metavar="FILE", help="the prototype's comparison")
    given = parser.parse_args(arguments)
    others = prototypes(given.prototype) if given.prototype else {}
    with zipfile.ZipFile(given.archive) as archive:
        found = list(rows(archive, others))
    head = ("kernel", "results", "emulated", "prototype", "")
    lines = [
        (name, f"{mine.results:,}", mine.text(), other.text() if other else "", said)
        for name, mine, other, said in found
    ]
    print(tabulate(lines, head, tablefmt="github", disable_numparse=True))
    same = sum(not mine.differing for _, mine, _, _ in found)
    theirs = sum(other is not None and not other.differing for _, _, other, _ in found)
    print(f"\n{same} of {len(found)} equal to the bit; the prototype {theirs}")
    return int(any(said == "NOT NEARER" for *_, said in found))


if __name__ == "__main__":
    sys.exit(told(partial(main, sys.argv[1:])))
