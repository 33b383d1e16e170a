"""What can't be answered for a GPU that is absent, and what a GPU would refuse."""

from __future__ import annotations

from typing import Any


class UnknownPropertyError(RuntimeError):
    """Host code asked for a figure that the catalogue has no source for."""


class UnknownTimeError(RuntimeError):
    """Host code decides by a time, which an absent GPU can't give."""


class CompiledHostError(RuntimeError):
    """Host code goes through torch.compile, whose own kernels nobody can know here."""


class LaunchRefusedError(RuntimeError):
    """The launch would be refused on the device too, for reasons that are no limit of it."""


def _refuse(self: float, *args: Any) -> Any:
    raise UnknownTimeError(
        "host code decides by a measured time, and an absent GPU has none; choose by device properties, "
        "or with triton.autotune, of which every configuration is built"
    )


def _unknown(self: float, *args: Any) -> UnknownTime:
    return UnknownTime()


class UnknownTime(float):
    """A time in a form that can be added up and printed, but that nothing can be decided by."""

    def __new__(cls) -> UnknownTime:
        """Always NaN."""
        return super().__new__(cls, "nan")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __bool__ = __int__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse
    __hash__ = float.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __truediv__ = __rtruediv__ = __neg__ = __abs__ = _unknown
