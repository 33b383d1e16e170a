"""``portkit occupancy``: theoretical occupancy of one configuration."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from tabulate import tabulate

from portkit.cli.targets import targets_file
from portkit.errors import CatalogError
from portkit.model import Architecture, Occupancy, Target
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import WAVES, named_barriers, occupancy, spoken

COUNT = click.IntRange(min=0)


@click.command("occupancy")
@click.option("--target", "name", required=True, help="A target, or an architecture such as gfx942 or sm90.")
@click.option("--registers", type=COUNT, required=True, help="32-bit registers per thread (AMD: .vgpr_count).")
@click.option("--shared", type=COUNT, default=0, show_default=True, help="Shared memory or LDS per block, bytes.")
@click.option("--threads", type=click.IntRange(min=1), required=True, help="Threads per block.")
@click.option("--barriers", type=COUNT, help="Named barriers per block, NVIDIA alone.  [default: 1]")
@click.option(
    "--tensor-memory", type=COUNT, default=0, show_default=True, help="Tensor-memory columns per block (Blackwell)."
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@targets_file
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    name: str,
    registers: int,
    shared: int,
    threads: int,
    barriers: int | None,
    tensor_memory: int,
    as_json: bool,
    files: tuple[Path, ...],
) -> None:
    """Theoretical occupancy of a configuration on a target.

    A configuration that can't launch has 0 % and its cause; the exit code stays 0.
    """
    target = load_catalog(files).get(name)
    if barriers is not None and named_barriers(target.architecture) is None:
        raise CatalogError(
            f"{target.architecture.name} has no named barriers", place="--barriers", remedy="leave the option out"
        )
    result = occupancy(
        target.architecture,
        registers=registers,
        shared_bytes=shared,
        threads=threads,
        barriers=1 if barriers is None else barriers,
        tensor_memory_columns=tensor_memory,
    )
    click.echo(_as_json(target, result) if as_json else _as_text(target, result))


def _as_json(target: Target, result: Occupancy) -> str:
    arch = target.architecture
    values = {"target": target.name, "architecture": arch.name, "unit": arch.unit, **asdict(result)}
    return json.dumps({**values, "doubts": list(arch.doubts)}, indent=2)


def _as_text(target: Target, result: Occupancy) -> str:
    arch = target.architecture
    waves = f"{result.waves_per_unit} of {arch.max_waves_per_unit} {spoken(WAVES, arch.platform)}"
    held = f"{result.blocks_per_unit} blocks and {waves} per {arch.unit}"
    head = f"{target.name} ({arch.name}): {result.percent:.1f} %, {held}"
    lines = [head, f"limiter: {spoken(result.limiter, arch.platform)}", "", _table(arch, result)]
    if arch.doubts:
        lines += ["", f"doubts: {'; '.join(arch.doubts)}"]
    return "\n".join(lines)


def _table(arch: Architecture, result: Occupancy) -> str:
    limits = [(spoken(resource, arch.platform), blocks) for resource, blocks in result.limits.items()]
    return tabulate(limits, headers=["resource", f"blocks per {arch.unit}"])
