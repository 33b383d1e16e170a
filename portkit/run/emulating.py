"""Which targets of a run get emulated cells."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

from portkit.model import Target


class Emulate(enum.StrEnum):
    """For which targets small shapes run in the instruction interpreter."""

    AUTO = "auto"  # those whose GPU is not in this host
    ALL = "all"  # those of this host, too, so that both kinds of evidence stand side by side
    OFF = "off"


def emulated_targets(choice: Emulate, targets: Mapping[str, Target], present: Collection[str] = ()) -> tuple[str, ...]:
    """Names of targets with emulated cells: of an architecture that the instruction interpreter knows.

    Args:
        choice: the user's.
        targets: the catalogue's, by name.
        present: targets of the GPUs of this host.
    """
    if choice is Emulate.OFF:
        return ()
    from portkit.emulate.amdgcn.architecture import ARCHITECTURES  # noqa: PLC0415 (loads NumPy)

    left_out = frozenset(present if choice is Emulate.AUTO else ())
    return tuple(
        name for name, target in targets.items() if name not in left_out and target.architecture.name in ARCHITECTURES
    )
