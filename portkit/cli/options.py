"""Arguments and options that several commands have, written once: of one name, one meaning and one help."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from portkit.cli.names import count_or_all

PATH: Final = click.Path(path_type=Path)

REPORTS: Final = Path("reports/local")
"""Where reports lie unless others are named."""

STANDARD_OUTPUT: Final = Path("-")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _own_reports(context: click.Context, argument: click.Parameter, value: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(value) or (REPORTS,)


def _none_of_dash(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    return None if value == STANDARD_OUTPUT else value


paths_argument: Final = click.argument("paths", nargs=-1, type=PATH, callback=_own_reports)
"""Reports, archives of reports, or folders of them."""

kernels_option: Final = click.option(
    "-k", "--kernel", "kernels", metavar="NAMES", default="", help="Kernels by name or pattern, with commas."
)
targets_option: Final = click.option(
    "-t", "--target", "targets", metavar="NAMES", default="", help="Targets by name or pattern, with commas."
)
triton_option: Final = click.option(
    "--triton", metavar="VERSION", help="Triton of the compiled and emulated rows.  [default: the newest]"
)
fleet_option: Final = click.option(
    "--fleet", "fleet_file", type=PATH, default=Path("fleet.yaml"), show_default=True, help="Fleet file."
)
expect_option: Final = click.option(
    "--expect", "expected", metavar="TARGETS", default="", help="Exit with 1 where a target has no row."
)
reference_option: Final = click.option(
    "--reference", metavar="TARGET", help="Take ratios of all measured rows to this target."
)


def output_option(endings: str) -> Decorator:
    """File to write; ``-`` and none mean standard output.

    Args:
        endings: those that the command knows, in words.
    """
    return click.option(
        "-o", "--output", type=PATH, callback=_none_of_dash, help=f"File to write: {endings}; - is standard output."
    )


def findings_option(name: str, default: int, help_text: str) -> Decorator:
    """How many findings are told: a number, or None for all.

    Args:
        name: of the command's parameter.
        default: how many.
        help_text: what it is for.
    """
    return click.option(
        "--findings",
        name,
        metavar="N|all",
        callback=count_or_all,
        default=str(default),
        show_default=True,
        help=help_text,
    )


def plot_format_option(formats: Mapping[str, object]) -> Decorator:
    """In which format plots are written.

    Args:
        formats: by name.
    """
    return click.option(
        "--plot-format", type=click.Choice(sorted(formats)), default="svg", show_default=True, help="Of the plots."
    )
