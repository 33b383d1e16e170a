"""The table of what was seen, and which of its rows take long."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

TABLE = Path(__file__).parent / "expected.csv"

SLOW = (
    ("case01", "128x256*", "gfx1[12]*"),
    ("case03", "dot_fp8e4*", "gfx1100"),
    ("case04", "allow_false", "gfx1[12]*"),
    ("case04", "default", "gfx1[12]*"),
    ("case04", "ieee", "gfx1[12]*"),
    ("case09", "*_s[345]", "gfx1[12]*"),
    ("case13", "fp64_64x64x64", "gfx1[12]*"),
    ("case13", "fp8_nonk16_K*", "gfx1100"),
    ("case15", "*", "*"),
    ("case20", "bf16_s8", "gfx1[12]*"),
    ("case20", "fp8_64x128x128_w8", "gfx1100"),
    ("case20", "fp8_64x64x128", "gfx1100"),
)
"""Case, variant and target of rows that take a compiler seconds to a minute."""


@dataclass(frozen=True)
class Row:
    """One outcome as it was seen."""

    case: str  # case05
    variant: str
    target: str  # sm90 or gfx942, as portkit writes it
    triton: str
    status: str
    reason: str

    @property
    def slow(self) -> bool:
        """Whether it is left to the whole run."""
        point = (self.case, self.variant, self.target)
        return any(all(map(fnmatch, point, pattern)) for pattern in SLOW)

    def __str__(self) -> str:
        return f"{self.case}-{self.variant}-{self.target}"


def rows() -> list[Row]:
    """All rows of all Triton versions."""
    with TABLE.open(newline="") as file:
        return [
            Row(
                line["case"],
                line["variant"],
                line["target"].replace("cuda:", "sm").removeprefix("hip:"),
                line["triton"],
                line["status"],
                line["reason as seen"],
            )
            for line in csv.DictReader(file)
        ]
