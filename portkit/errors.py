"""Every error portkit raises on purpose, and what the caller should do.

    PortkitError                 base: has a message, a place and a remedy
    ├── MatrixError              matrix.yaml is wrong: file, line and key
    ├── CaseError                a kernel file is wrong: import, declaration, names
    ├── CatalogError             a targets file is wrong, or a target is unknown
    ├── WorkloadError            a workloads file is wrong, or a workload is unknown
    ├── PricesError              a prices file is wrong, or a SKU has no price
    ├── FleetError               fleet.yaml is wrong, or a fleet can't run
    ├── CiError                  a CI system did not answer, or its environment lacks something
    ├── ReportError              a report can't be read or written
    ├── BinaryError              a cubin or hsaco can't be read
    ├── VectorsError             a file of recorded instruction results can't be used
    ├── HostError                this host lacks something a run needs
    └── WorkerError              a worker process did not answer as it must

An error of this tree is the user's to mend and is shown without a traceback.
Anything else that escapes is a bug of portkit.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PortkitError(Exception):
    """A mistake that can be named.

    Args:
        message: what is wrong, one sentence.
        place: where, such as ``matrix.yaml:12: kernels.softmax.dtypes``.
        remedy: what would be right, one sentence.
    """

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        self.message = message
        self.place = place
        self.remedy = remedy
        super().__init__(self.render())

    def render(self) -> str:
        """The text a user sees: place, message and remedy."""
        head = f"{self.place}: {self.message}" if self.place else self.message
        return f"{head}\n  remedy: {self.remedy}" if self.remedy else head


class MatrixError(PortkitError):
    """matrix.yaml can't be used as it is."""


class CaseError(PortkitError):
    """A kernel file declares nothing usable."""


class CatalogError(PortkitError):
    """A target is unknown, or a targets file is wrong."""


class WorkloadError(PortkitError):
    """A workload is unknown, or a workloads file is wrong."""


class PricesError(PortkitError):
    """A price is missing or names no GPU, or a prices file is wrong."""


class FleetError(PortkitError):
    """fleet.yaml can't be used as it is, or what runs a fleet is missing."""


class CiError(PortkitError):
    """A CI system did not answer as its documentation says, or a step lacks part of its environment."""


class ReportError(PortkitError):
    """A report can't be read or written."""


class BinaryError(PortkitError):
    """A cubin or hsaco is damaged, of another kind, or lacks the kernel."""


class VectorsError(PortkitError):
    """A file of recorded instruction results is missing, damaged, or of another version or architecture."""


class HostError(PortkitError):
    """This host lacks something that the run needs."""


class WorkerError(PortkitError):
    """A worker process broke its contract."""


_NEAR = 0.6
"""Likeness from which a name may be meant: of ``status`` and ``target``, which share three letters, it is 0.5."""


def meant(name: str, known: Iterable[str], *, limit: int = 3) -> str | None:
    """A question naming the nearest known names; None where none is near."""
    close = difflib.get_close_matches(name.lower(), sorted(known), n=limit, cutoff=_NEAR)
    return f"did you mean {' or '.join(close)}?" if close else None


def nearest(name: str, known: Iterable[str], *, limit: int = 3) -> str:
    """A remedy naming the nearest known names, or all of them when few."""
    names = sorted(known)
    if question := meant(name, names, limit=limit):
        return question
    if not names:
        return "none is known"
    shown = ", ".join(names[:12])
    return f"known: {shown}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
