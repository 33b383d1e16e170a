"""From what a worker found out to a record with its four keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from portkit.model import (
    INTERPRETER,
    Build,
    CellResult,
    Header,
    Host,
    Keys,
    PlannedCell,
    Record,
    Timing,
    cell_key,
    digest,
)
from portkit.store.schema import plain

CHOICE_OF_DEVICE: Final = frozenset(
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
)
"""Settings by which a scheduler hands out one GPU or another of a host: no difference of the toolchain."""


def env_key(host: Host) -> str:
    """The key that says when a difference is the toolchain's."""
    settings = {name: value for name, value in host.settings.items() if name not in CHOICE_OF_DEVICE}
    return digest([host.torch, host.triton, host.driver, host.toolkit, settings])


def make_record(  # all but two by keyword
    result: CellResult,
    planned: PlannedCell,
    *,
    header: Header,
    params: Mapping[str, Any],
    source_hash: str,
    architecture: str | None,
    blobs: Mapping[str, str] | None = None,
) -> Record:
    """The record of a cell's result, equal to itself after it was written and read.

    Args:
        result: what the worker found out; its blobs are stored by the caller.
        planned: the cell's plan, with its expectation.
        header: header of the run that the record belongs to.
        params: parameters of the cell's variant.
        source_hash: hash of the case's source.
        architecture: architecture of the target; ignored for the interpreter.
        blobs: blob name → content address, as ``Journal.store_blob`` gave it.
    """
    variant = plain(params)
    expectation = planned.expectation
    return Record(
        run_id=header.run_id,
        keys=Keys(
            cell_key=cell_key(planned.cell, variant),
            source_hash=source_hash,
            build_key=result.build.build_key if result.build else None,
            env_key=env_key(header.host),
        ),
        cell=planned.cell,
        evidence=planned.evidence,
        outcome=result.outcome,
        host_id=header.host.host_id,
        triton=header.host.triton,
        architecture=None if planned.cell.target == INTERPRETER else architecture,
        variant_params=variant,
        expected=expectation.status if expectation else None,
        expected_reason=expectation.reason if expectation else None,
        build=_plain_build(result.build),
        verdict=result.verdict,
        timing=_with_samples(result.timing, blobs or {}),
        baselines=dict(result.baselines),
        work=result.work,
        asked=plain(result.asked),
        nulls=dict(result.nulls),
        seconds=result.seconds,
        stage_seconds=dict(result.stage_seconds),
        device_id=result.device,
        blobs=dict(blobs or {}),
    )


def _with_samples(timing: Timing | None, blobs: Mapping[str, str]) -> Timing | None:
    """The timing with the place of the samples it was made of."""
    return dataclasses.replace(timing, samples_ref=blobs.get("samples")) if timing else None


def _plain_build(build: Build | None) -> Build | None:
    """The build with compiler options as JSON gives them back: tuples are lists there."""
    if build is None:
        return None
    launches = tuple(dataclasses.replace(launch, options=plain(launch.options)) for launch in build.launches)
    return dataclasses.replace(build, launches=launches)
