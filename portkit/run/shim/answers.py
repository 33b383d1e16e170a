"""Answers to platform queries, and the log of those that were asked.

The log is what lets one build serve several SKUs: where the answers to all
questions asked are equal, so is everything the host code did with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portkit.run.shim.refusals import UnknownPropertyError


class Answers:
    """Device properties by PyTorch's names, logged when read.

    Args:
        target: name of the target, for messages.
        values: property → answer; None means that it is not known.
    """

    def __init__(self, target: str, values: Mapping[str, Any]) -> None:
        self._target = target
        self._values = dict(values)
        self.asked: dict[str, Any] = {}  # None: asked for, and not known

    def __getitem__(self, name: str) -> Any:
        value = self.asked[name] = self.peek(name)
        if value is None:
            raise UnknownPropertyError(
                f"host code asks for {name} of {self._target}, for which the catalogue has no sourced value; "
                f"{_remedy(name)}"
            )
        return value

    def note(self, name: str) -> None:
        """Log a question whose answer was taken from the target itself."""
        self.asked[name] = self.peek(name)

    def peek(self, name: str) -> Any:
        """The answer without logging it; None where it is not known."""
        return self._values.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def same_for(self, asked: Mapping[str, Any]) -> bool:
        """Whether this target gives the same answers to the questions in ``asked``; what is unknown is no answer."""
        return all(value is not None and self.peek(name) == value for name, value in asked.items())


_ENTRY_KEYS = {"multi_processor_count": "units", "total_memory": "memory_gib", "L2_cache_size": "l2_mib"}
"""Property → what a user's targets file calls it."""


def _remedy(name: str) -> str:
    if name not in _ENTRY_KEYS:
        return "no targets file can give it: let the host code do without"
    return f"give `{_ENTRY_KEYS[name]}` with its source in a targets file of your own (docs/targets.md)"


class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` returns on the target."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._answers:
            raise AttributeError(f"device properties have no attribute {name!r}")
        return self._answers[name]
