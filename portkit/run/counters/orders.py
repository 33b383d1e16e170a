"""What the process under the profiler is told, and what it tells; plain values, no torch."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from portkit.model import Target
from portkit.run.counters import Task

ORDERS = "orders.json"
PROGRESS = "progress.jsonl"


@dataclass(frozen=True)
class Orders:
    """What the process is to call."""

    tasks: tuple[Task, ...]
    target: Target  # its caches size the flush
    device_index: int  # GPU of the host

    def to_json(self) -> bytes:
        """As the process reads them."""
        return _ORDERS.dump_json(self)

    @classmethod
    def from_json(cls, text: bytes) -> Orders:
        """As :meth:`to_json` wrote them."""
        return _ORDERS.validate_json(text)


_ORDERS = TypeAdapter(Orders)


class Kind(enum.StrEnum):
    """What a step of the process is about."""

    STARTED = "started"  # text: its number among processes
    BEGUN = "begun"  # a task
    STAGE = "stage"  # text: the stage that it enters
    COUNTED = "counted"  # a function has been called in its range
    FAILED = "failed"  # text: why a function could not be called; of no function: why none of the task could
    ENDED = "ended"  # a task


@dataclass(frozen=True)
class Step:
    """One line of what the process tells as it goes on, so that it may die at any point."""

    kind: Kind
    task: int = -1
    function: str = ""
    text: str = ""

    def to_json(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self)).encode() + b"\n"


def steps(lines: bytes) -> Iterator[Step]:
    """Steps in whole lines; half a last line is left out."""
    for line in lines[: lines.rfind(b"\n") + 1].splitlines():
        fields = json.loads(line)
        yield Step(**{**fields, "kind": Kind(fields["kind"])})
