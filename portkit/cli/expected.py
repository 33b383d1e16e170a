"""What ``--expect`` asked for and no report has: said on standard error, and told by the exit code."""

from __future__ import annotations

from collections.abc import Sequence, Set

import click

from portkit.errors import meant
from portkit.targets.catalog import load_catalog


def told_missing(targets: Sequence[str], seen: Set[str]) -> int:
    """Exit code for targets that had to have a row; a name that is no target's may be a slip.

    Args:
        targets: those without a row, as they were asked for: ``h200`` or ``h200:measured``.
        seen: targets that have one.
    """
    if not targets:
        return 0
    click.echo(f"MISSING: no row of {', '.join(targets)}", err=True)
    catalog = load_catalog()
    known = {*seen, *(target.name for target in catalog)}
    for name in (each.partition(":")[0] for each in targets):
        if name not in known and name not in catalog and (question := meant(name, known)):
            click.echo(f"{name} is no target of the catalogue or these reports: {question}", err=True)
    return 1
