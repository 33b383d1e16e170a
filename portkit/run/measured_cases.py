"""Which cases share a process that measures.

A process on a GPU takes its time before its first cell: a context, the libraries' kernels, each
loaded when it is first called, the modules of baselines. So the cells of several cases share one,
as long as none leaves a trace that another could meet.
"""

from __future__ import annotations

import contextlib

from portkit.errors import CaseError
from portkit.model import CaseSource, Cell, CellResult, KernelCase
from portkit.run.jobs import Job
from portkit.run.load import load_case
from portkit.run.torch_settings import settings_now


class MeasuredCases:
    """Cases of a job, each imported when its turn comes.

    Another case follows in the same process only where those before left it as it was: all their
    cells were good, and no import changed PyTorch's settings, which the case itself may rely on.

    Args:
        job: measured cells of one or several cases.
    """

    def __init__(self, job: Job) -> None:
        self._jobs = {own.source.name: own for own in job.by_case()}
        self._known: dict[str, KernelCase | CaseError] = {}
        self._as_before = True

    def job_of(self, cell: Cell) -> Job:
        """What is asked of the cell's case alone."""
        return self._jobs[cell.case]

    def case_of(self, cell: Cell) -> KernelCase:
        """The cell's case, imported once.

        Raises:
            CaseError: its file can't be imported, or declares no such case.
        """
        if cell.case not in self._known:
            self._known[cell.case] = self._imported(self.job_of(cell).source)
        found = self._known[cell.case]
        if isinstance(found, CaseError):
            raise found
        return found

    def note(self, result: CellResult) -> None:
        """Take in how a cell went."""
        self._as_before = self._as_before and result.outcome.status.good

    def take_up(self, cell: Cell) -> bool:
        """Whether the cell may run in this process; its case is imported then, if it can be."""
        if not (self._as_before or cell.case in self._known):
            return False
        with contextlib.suppress(CaseError):  # its cells tell
            self.case_of(cell)
        return True

    def _imported(self, source: CaseSource) -> KernelCase | CaseError:
        before = settings_now()
        try:
            return load_case(source)
        except CaseError as error:
            return error
        finally:
            self._as_before = self._as_before and settings_now() == before
