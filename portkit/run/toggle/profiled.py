"""The program under the vendor's profiler: calls each way once within a range.

``python -m portkit.run.toggle.profiled FOLDER`` reads which ways in the folder and leaves there why
one could not be called. Building, compiling and warming up come before the range, where nothing is
counted. It compiles anew: what another process compiled is not at hand.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import torch
from pydantic import TypeAdapter

from portkit.plan.baselines import EAGER
from portkit.plan.toggle import Subject, ToggleRequest
from portkit.run.counters.profiled import begin_profiling, ranges_for
from portkit.run.toggle import inductor
from portkit.run.toggle.subjects import build, make_arguments, told
from portkit.targets.catalog import load_catalog

ORDERS_FILE: Final = "orders.json"
FAILED_FILE: Final = "failed.json"
WARMUP: Final = 3


@dataclass(frozen=True)
class ProfileOrders:
    """Which ways are called: those of one subject, which may patch what others are made of."""

    request: ToggleRequest
    subject: Subject
    modes: tuple[str, ...]  # of torch.compile, beside the subject as it is
    target: str  # the device's

    @property
    def ways(self) -> tuple[str, ...]:
        """Names of the ways, in the order of their ranges."""
        plain = EAGER if self.subject == self.request.model else self.subject.name
        return (plain, *(inductor.way_of(mode) for mode in self.modes))


ORDERS: Final = TypeAdapter(ProfileOrders)
FAILED: Final = TypeAdapter(dict[str, str])


def range_of(position: int) -> str:
    """Name of a way's range."""
    return f"0.{position}.0"


def _calls(orders: ProfileOrders) -> Iterator[Callable[[], object]]:
    arguments = make_arguments(orders.request.inputs, "cuda", orders.request.seed)
    model = build(orders.subject, "cuda", orders.request.seed)
    yield partial(arguments.call, model)
    for mode in orders.modes:
        yield inductor.calling(torch.compile(model, mode=mode), arguments)


def main(folder: Path) -> None:
    """Carry out the orders."""
    orders = ORDERS.validate_json((folder / ORDERS_FILE).read_bytes())
    ranges = ranges_for(load_catalog().get(orders.target))
    failed: dict[str, str] = {}
    inductor.prepare()
    with torch.no_grad():
        begin_profiling(ranges)
        for position, (name, call) in enumerate(zip(orders.ways, _calls(orders), strict=True)):
            try:
                for _ in range(WARMUP):
                    call()
                torch.cuda.synchronize()
                with ranges.counted(range_of(position)):
                    call()
                    torch.cuda.synchronize()
            except Exception as error:  # whatever a model or its compiler raises
                failed[name] = told(error)
    (folder / FAILED_FILE).write_bytes(FAILED.dump_json(failed))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the user's threads and exit handlers have no part in it
