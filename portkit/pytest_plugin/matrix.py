"""Collects the cells of a matrix as tests; glue only, loaded by ``--benchmark``.

Outcomes map onto pytest's: ``passed`` and ``built`` pass, ``excluded`` and
``backend_missing`` skip, an expected status is xfailed, an expected gap that has
closed fails, and so does everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portkit.errors import PortkitError
from portkit.model import PlannedCell, Record
from portkit.plan.expand import Selection
from portkit.run.benchmark import Prepared, Run, default_limits, prepare
from portkit.run.session import Session

RUN = pytest.StashKey[Run]()
SESSION = pytest.StashKey[Session]()
PREPARED = pytest.StashKey[Prepared]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Point the collection at the matrix, and start loading torch meanwhile."""
    if getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("portkit spreads cells over the cores itself: drop -n / --numprocesses")
    config.args = _matrix_arguments(config)
    if config.option.collectonly:
        return
    session = Session(default_limits(config.getoption("portkit_cell_seconds")))
    session.prestart()
    config.stash[SESSION] = session


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave no process behind, whatever happened."""
    if session := config.stash.get(SESSION, None):
        session.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The matrix file is a collector."""
    if file_path.suffix in (".yaml", ".yml"):
        return MatrixFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """The cells are chosen: open the report."""
    config = session.config
    items = [item for item in session.items if isinstance(item, CellItem)]
    if not items or config.option.collectonly:
        return
    cells = [item.planned for item in items]
    folder = config.invocation_params.dir / config.getoption("portkit_report")
    try:
        config.stash[RUN] = Run(config.stash[PREPARED], cells, folder, config.stash[SESSION])
    except PortkitError as error:
        raise pytest.UsageError(error.render()) from None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the report; an interrupted run says so in its last line."""
    if run := session.config.stash.get(RUN, None):
        whole = len(run.records) == run.header.cells
        run.finish("complete" if whole else "interrupted")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Path of the report and the next command."""
    if run := config.stash.get(RUN, None):
        path = _relative(run.journal.path, config)
        terminalreporter.section("portkit")
        terminalreporter.write_line(f"report: {path} ({len(run.records)} of {run.header.cells} cells)")
        terminalreporter.write_line(f"next:   portkit merge {path}")


class MatrixFile(pytest.File):
    """The matrix, read and expanded at collection."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item a cell, and one for each kernel file that can't be used."""
        option = self.config.getoption
        try:
            prepared = prepare(
                self.path, tier=option("portkit_tier"), selection=Selection.parse(option("portkit_target"))
            )
        except PortkitError as error:
            raise self.CollectError(error.render()) from None
        self.config.stash[PREPARED] = prepared
        for name, failure in prepared.failures.items():
            yield BrokenKernel.from_parent(self, name=name, failure=failure)
        for planned in prepared.plan.cells:
            yield CellItem.from_parent(self, name=planned.label, planned=planned)


class BrokenKernel(pytest.Item):
    """A kernel of the matrix whose file can't be used; it costs the run only itself."""

    def __init__(self, *, failure: PortkitError, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.failure = failure

    def runtest(self) -> None:
        """Fail with what is wrong with the file."""
        raise self.failure

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The message alone: the user's file is at fault, not ours."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where pytest says the item is."""
        return self.path, None, self.name


class CellItem(pytest.Item):
    """One cell of the plan."""

    def __init__(self, *, planned: PlannedCell, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        self.extra_keyword_matches.update(_keywords(planned))

    def runtest(self) -> None:
        """Wait for the cell's record and turn its status into pytest's."""
        record = self.config.stash[RUN].record_of(self.planned)
        self.user_properties.append(("portkit_status", record.outcome.status.value))
        _conclude(record)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Status and cause in words; a traceback only for a bug of ours."""
        if isinstance(excinfo.value, CellFailedError | PortkitError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where pytest says the item is."""
        return self.path, None, self.name


class CellFailedError(Exception):
    """A cell whose status is not good."""


def _conclude(record: Record) -> None:
    outcome = record.outcome
    text = f"{outcome.status.value} ({outcome.stage.value}): {outcome.message}".rstrip(": ")
    if record.expected is not None:
        if outcome.status is record.expected:
            pytest.xfail(f"{text}; expected: {record.expected_reason}")
        raise CellFailedError(
            f"expected {record.expected.value} ({record.expected_reason}), got {text}\n"
            "  remedy: the gap has closed or changed, so mend or remove the `expect:` entry"
        )
    if outcome.status.skipped:
        pytest.skip(text)
    if not outcome.status.good:
        raise CellFailedError(text)


def _keywords(planned: PlannedCell) -> Iterable[str]:
    cell = planned.cell
    return (cell.case, cell.target, cell.dtype, cell.variant, cell.direction.value, planned.evidence.value)


def _matrix_arguments(config: pytest.Config) -> list[str]:
    """What to collect: a matrix named on the command line, or the option's."""
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    matrices = [arg for arg in named if Path(arg.partition("::")[0]).suffix in (".yaml", ".yml")]
    if others := [arg for arg in named if arg not in matrices]:
        raise pytest.UsageError(
            f"--benchmark collects the matrix and nothing else: drop {' '.join(others)}, or name a matrix file"
        )
    path = config.invocation_params.dir / config.getoption("portkit_matrix")
    if not matrices and not path.is_file():
        raise pytest.UsageError(
            f"no matrix at {_relative(path, config)}\n  remedy: name one with --portkit-matrix FILE"
        )
    return matrices or [str(path)]


def _relative(path: Path, config: pytest.Config) -> Path:
    base = config.invocation_params.dir
    return path.relative_to(base) if path.is_relative_to(base) else path
