"""What a row's status says of the kernel, in five words."""

from __future__ import annotations

import enum

from portkit.analysis.rows import ComparisonRow


class Standing(enum.StrEnum):
    """How a cell stands, the worst first."""

    BAD = "bad"  # the kernel can't run there, or is wrong there
    NO_VERDICT = "no verdict"  # our side or the host failed: nothing is known of the kernel
    EXPECTED = "expected gap"  # the matrix expects it
    EXCLUDED = "excluded"  # by the plan
    GOOD = "good"  # it built, or ran and was right

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Standing).index(self)


def standing(row: ComparisonRow) -> Standing:
    """How a row stands."""
    if row.status.good:
        return Standing.GOOD
    if row.expected:
        return Standing.EXPECTED
    if row.status.value == Standing.EXCLUDED:
        return Standing.EXCLUDED
    return Standing.NO_VERDICT if row.no_verdict else Standing.BAD
