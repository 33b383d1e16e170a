"""Collects the cells of a matrix as tests; glue only, loaded by ``--benchmark``.

Outcomes map onto pytest's: ``passed`` and ``built`` pass, ``excluded`` and
``backend_missing`` skip, an expected status is xfailed, an expected gap that has
closed fails, and so does everything else.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portkit.errors import PortkitError
from portkit.model import Evidence, PlannedCell, Record
from portkit.plan.baselines import may_compile, parse_baselines
from portkit.plan.expand import Emulate, Selection
from portkit.pytest_plugin import pytest_benchmark
from portkit.pytest_plugin.display import make_display
from portkit.pytest_plugin.no_match import assumed_words, names_any, no_match
from portkit.pytest_plugin.resume_command import resume_command
from portkit.pytest_plugin.worst_findings import worst_findings
from portkit.run.benchmark import Choices, Prepared, Run, default_limits, prepare
from portkit.run.counters.taking import Choice
from portkit.run.devices import may_have_gpus, parse_devices
from portkit.run.interrupt import Interruptions
from portkit.run.jobs import Limits
from portkit.run.limits import check_seconds, parse_lane_instructions, parse_memory, parse_stages
from portkit.run.progress import LiveLine, PlainLines, failed, summary
from portkit.run.resume import find_report
from portkit.run.session import Session
from portkit.run.timing.asked import parse_modes
from portkit.store.journal import Report, read_report

RUN = pytest.StashKey[Run]()
SESSION = pytest.StashKey[Session]()
PREPARED = pytest.StashKey[Prepared]()
RESUMED = pytest.StashKey[Report]()
INTERRUPTIONS = pytest.StashKey[Interruptions]()
DISPLAY = pytest.StashKey[LiveLine | PlainLines]()
UNMATCHED = pytest.StashKey[str]()

_SUFFIXES = (".yaml", ".yml")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Point the collection at the matrix, and start loading torch meanwhile."""
    if getattr(config.option, "numprocesses", None) or getattr(config.option, "dist", "no") != "no":
        raise pytest.UsageError(
            "portkit spreads cells over the cores itself: drop -n / --numprocesses, --dist and --tx"
        )
    config.args = _matrix_arguments(config)
    with _usage_errors():
        limits = _check_options(config)
        if config.option.collectonly:
            return
        if name := config.getoption("portkit_resume"):
            config.stash[RESUMED] = read_report(find_report(_folder(config), name))
        session = Session(limits)
    config.stash[INTERRUPTIONS] = interruptions = Interruptions()
    interruptions.install()
    config.stash[SESSION] = session
    session.prestart(measuring=may_have_gpus(os.environ) and may_compile(config.getoption("portkit_baselines")))


def _check_options(config: pytest.Config) -> Limits:
    """Tell of a wrong one before anything starts."""
    _wait(config)
    parse_modes(config.getoption("portkit_modes"))
    parse_devices(config.getoption("portkit_devices"))
    return _limits(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave no process behind, whatever happened."""
    if session := config.stash.get(SESSION, None):
        session.close()
    if interruptions := config.stash.get(INTERRUPTIONS, None):
        interruptions.restore()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The matrix file is a collector."""
    if file_path.suffix in _SUFFIXES:
        return MatrixFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """The cells are chosen: open the report."""
    config = session.config
    items = [item for item in session.items if isinstance(item, CellItem) and not item.get_closest_marker("skip")]
    if not items:
        _tell_unmatched(session)
        return
    baselines = _baselines(config)
    if config.option.collectonly:
        return
    resumed = config.stash.get(RESUMED, None)
    choices = Choices(
        folder=_folder(config),
        resume=Path(resumed.path) if resumed else None,
        same_device=config.getoption("portkit_same_device"),
        wait_seconds=_wait(config),
        sanitize=config.getoption("portkit_sanitize"),
        modes=parse_modes(config.getoption("portkit_modes")) or (resumed.header.modes if resumed else ()),
        shared_device=config.getoption("portkit_shared_device"),
        probing=config.getoption("portkit_probe"),
        baselines=resumed.header.baselines if resumed and baselines is None else baselines,
        counters=Choice(config.getoption("portkit_counters")),
        count_all=config.getoption("portkit_count_all"),
        limits=_limits(config),
        texts=not config.getoption("portkit_no_texts"),
        nonce=config.getoption("portkit_nonce"),
    )
    display = make_display(config)
    with _usage_errors():
        config.stash[RUN] = Run(
            config.stash[PREPARED],
            [item.planned for item in items],
            config.stash[SESSION],
            choices,
            config.stash[INTERRUPTIONS],
            display,
        )
    if display:
        config.stash[DISPLAY] = display


def _tell_unmatched(session: pytest.Session) -> None:
    """Keep what to say where ``-k`` chose no cell, and names no kernel whose file can't be used."""
    expression, prepared = session.config.option.keyword, session.config.stash.get(PREPARED, None)
    if not expression or prepared is None or any(isinstance(item, CellItem) for item in session.items):
        return
    if not names_any(expression, [item.name for item in session.items]):
        told = no_match(expression, prepared.plan.cells, prepared.failures)
        session.config.stash[UNMATCHED] = told


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """After the cells come the hardware counters of those that were measured; Ctrl-C ends them as it ends cells."""
    done = yield
    if run := session.config.stash.get(RUN, None):
        try:
            run.take_counters()
        except PortkitError as error:
            pytest.exit(error.render(), returncode=pytest.ExitCode.TESTS_FAILED)
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the report; an interrupted run says so in its last line."""
    if display := session.config.stash.get(DISPLAY, None):
        display.close()
    if run := session.config.stash.get(RUN, None):
        run.finish("complete" if run.whole else "interrupted")


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """Print no letter a cell where a line that renews itself says as much."""
    if not isinstance(config.stash.get(DISPLAY, None), LiveLine) or report.when != "call":
        return None
    outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    return outcome, "", ""


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What became of the cells, path of the report and the next command."""
    if told := config.stash.get(UNMATCHED, None):
        terminalreporter.write_line(f"portkit: {told}")
    run = config.stash.get(RUN, None)
    if run is None:
        return
    path = _relative(run.journal.path, config)
    terminalreporter.section("portkit")
    if config.option.verbose >= 0:
        found = worst_findings(run.journal.path, run.header, run.records.values(), path, whole=run.whole)
        unusable = config.stash[PREPARED].failures
        for line in (*summary(run.records.values(), unusable), *found):
            terminalreporter.write_line(line)
    if run.failure:
        terminalreporter.write_line(f"stopped: {run.failure.render()}", red=True)
    for line in run.warnings:
        terminalreporter.write_line(f"warning: {line}", yellow=True)
    terminalreporter.write_line(f"report: {path} ({len(run.records)} of {run.header.cells} cells)")
    if told := pytest_benchmark.note(config):
        terminalreporter.write_line(told)
    if not run.whole:
        command = resume_command(map(str, config.invocation_params.args), run.header.run_id)
        terminalreporter.write_line(f"resume: {command}")
    for number, following in enumerate(_next_commands(run, path)):
        terminalreporter.write_line(f"{'        ' if number else 'next:   '}{following}")


def _next_commands(run: Run, path: Path) -> Iterator[str]:
    """What to look at: the first cell that failed, and the report."""
    for record in failed(run.records.values())[:1]:
        yield f"portkit show {shlex.quote(record.cell.label(record.evidence))} {shlex.quote(str(path))}"
    yield f"portkit report {shlex.quote(str(path))}"


class MatrixFile(pytest.File):
    """The matrix, read and expanded at collection."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item a cell, and one for each kernel file that can't be used."""
        tier, names = self.config.getoption("portkit_tier"), self.config.getoption("portkit_target")
        if resumed := self.config.stash.get(RESUMED, None):  # what is not said is as it was
            tier, names = tier or resumed.header.tier, names or resumed.header.targets
        try:
            devices = parse_devices(self.config.getoption("portkit_devices"))
            prepared = prepare(
                self.path,
                tier=tier,
                selection=Selection.parse(names),
                devices=devices,
                emulate=Emulate(self.config.getoption("portkit_emulate")),
            )
        except PortkitError as error:
            raise self.CollectError(error.render()) from None
        self.config.stash[PREPARED] = prepared
        kernels = {*prepared.declarations, *prepared.failures}
        for name, failure in prepared.failures.items():
            yield BrokenKernel.from_parent(self, name=name, failure=failure, others=kernels - {name})
        for planned in prepared.plan.cells:
            # The id is given as text: pytest takes a bracket in it for parameters, and --lf compares the parts.
            nodeid = f"{self.nodeid}::{planned.label}"
            yield CellItem.from_parent(self, name=planned.label, nodeid=nodeid, planned=planned)


class BrokenKernel(pytest.Item):
    """A kernel of the matrix whose file can't be used; it costs the run only itself."""

    def __init__(self, *, failure: PortkitError, others: Collection[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.failure = failure
        if expression := self.config.option.keyword:  # which may mean cells that this file would have
            self.extra_keyword_matches.update(assumed_words(expression, self.name, others) or ())

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
        self._replayed = planned.evidence is Evidence.MEASURED and pytest_benchmark.is_loaded(self.config)
        if self._replayed:
            pytest_benchmark.adopt(self)

    def runtest(self) -> None:
        """Wait for the cell's record and turn its status into pytest's."""
        run = self.config.stash[RUN]
        try:
            record = run.record_of(self.planned)
        except PortkitError as error:
            if run.failure is None:  # this cell alone can't be written
                raise
            pytest.exit(error.render(), returncode=pytest.ExitCode.INTERRUPTED)
        self.user_properties.append(("portkit_status", record.outcome.status.value))
        if self._replayed:
            pytest_benchmark.replay(self, record, run.journal.path)
        _conclude(record)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Status and cause in words; a traceback only for a bug of ours."""
        if isinstance(excinfo.value, CellFailedError | PortkitError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where pytest says the item is; without a line it can't tell of a mark that skips it."""
        return self.path, 0, self.name


class CellFailedError(Exception):
    """A cell whose status is not good."""


def _conclude(record: Record) -> None:
    outcome = record.outcome
    text = f"{outcome.status.value} ({outcome.stage.value}): {outcome.message}".rstrip(": ")
    if outcome.status.skipped:  # an expected gap too: nothing was attempted
        pytest.skip(text)
    if record.expected is not None:
        if outcome.status is record.expected:
            pytest.xfail(f"{text}; expected: {record.expected_reason}")
        raise CellFailedError(
            f"expected {record.expected.value} ({record.expected_reason}), got {text}\n"
            "  remedy: the gap has closed or changed, so mend or remove the `expect:` entry"
        )
    if not outcome.status.good:
        raise CellFailedError(text)


def _keywords(planned: PlannedCell) -> Iterable[str]:
    cell = planned.cell
    return (cell.case, cell.target, cell.dtype, cell.variant, cell.direction.value, planned.evidence.value)


def _matrix_arguments(config: pytest.Config) -> list[str]:
    """What to collect: a matrix named on the command line, or the option's."""
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    matrices = [arg for arg in named if Path(arg.partition("::")[0]).suffix in _SUFFIXES]
    if others := [arg for arg in named if arg not in matrices]:
        raise pytest.UsageError(
            f"--benchmark collects the matrix and nothing else: drop {' '.join(others)}, or name a matrix file"
        )
    here = config.invocation_params.dir
    files = {(here / arg.partition("::")[0]).resolve(): arg.partition("::")[0] for arg in matrices}
    if len(files) > 1:
        raise pytest.UsageError(
            f"one run has one matrix, {len(files)} are named: {' '.join(files.values())}\n"
            "  remedy: run each by itself and merge the reports, or put the kernels into one file"
        )
    arguments = matrices or [str(_relative(_configured(config), config))]
    if any("[" in arg.partition("::")[0] for arg in arguments):
        raise pytest.UsageError(
            f"pytest takes the bracket in {arguments[0].partition('::')[0]} for parameters\n"
            "  remedy: run from the matrix's own folder, or rename it"
        )
    return arguments


def _configured(config: pytest.Config) -> Path:
    """The option's matrix."""
    path = config.invocation_params.dir / str(config.getoption("portkit_matrix"))
    if not path.is_file():
        raise pytest.UsageError(
            f"no matrix at {_relative(path, config)}\n  remedy: name one with --portkit-matrix FILE"
        )
    if path.suffix not in _SUFFIXES:
        raise pytest.UsageError(
            f"a matrix is a .yaml or .yml file, not {path.name}\n  remedy: rename it, or name another"
        )
    return path


def _baselines(config: pytest.Config) -> tuple[str, ...] | None:
    cases = config.stash[PREPARED].declarations.values()
    with _usage_errors():
        return parse_baselines(config.getoption("portkit_baselines"), [n for case in cases for n in case.baselines])


def _wait(config: pytest.Config) -> float:
    return check_seconds(config.getoption("portkit_wait"), "--portkit-wait", zero=True)


def _folder(config: pytest.Config) -> Path:
    return config.invocation_params.dir / str(config.getoption("portkit_report"))


def _limits(config: pytest.Config) -> Limits:
    limits = default_limits(config.getoption("portkit_cell_seconds"))
    limits = replace(limits, stage_seconds=parse_stages(config.getoption("portkit_limit")))
    if memory := config.getoption("portkit_memory"):
        limits = replace(limits, memory_bytes=parse_memory(memory))
    budget = config.getoption("portkit_emulate_budget")
    return replace(limits, lane_instructions=parse_lane_instructions(budget)) if budget else limits


@contextmanager
def _usage_errors() -> Iterator[None]:
    """A mistake that can be named ends pytest with its message alone."""
    try:
        yield
    except PortkitError as error:
        raise pytest.UsageError(error.render()) from None


def _relative(path: Path, config: pytest.Config) -> Path:
    base = config.invocation_params.dir
    return path.relative_to(base) if path.is_relative_to(base) else path
