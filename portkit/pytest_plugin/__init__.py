"""Options of ``pytest --benchmark``; what they start is in ``matrix``.

This module is loaded by every pytest run of an environment that has portkit, so
it imports next to nothing. Without ``--benchmark`` the plugin adds nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

_OPTION = "--benchmark"
_CLASH = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that carry the project's name."""
    group = parser.getgroup("portkit", "portability of fused kernels (portkit)")
    group.addoption("--portkit-matrix", metavar="FILE", default="matrix.yaml", help="matrix file (%(default)s)")
    group.addoption("--portkit-tier", metavar="NAME", help="tier of the matrix: quick (default), full, or its own")
    group.addoption(
        "--portkit-target",
        metavar="NAMES",
        action="append",
        default=[],
        help="targets by name, comma-separated, or `all`; default: the GPUs of this host, or with none all",
    )
    group.addoption(
        "--portkit-report", metavar="DIR", default="reports/local", help="folder of the report (%(default)s)"
    )
    group.addoption("--portkit-cell-seconds", metavar="S", type=float, help="time limit of one cell, all stages (900)")
    group.addoption(
        "--portkit-limit",
        metavar="STAGE=S",
        action="append",
        default=[],
        help="time limit of a stage in seconds: import, inputs, reference, capture, compile, run, verify, "
        "baseline, timing",
    )
    group.addoption(
        "--portkit-memory",
        metavar="SIZE",
        help="memory that one worker may hold, such as 8G (8G, or 3/4 of the host's)",
    )
    group.addoption(
        "--portkit-resume",
        metavar="RUN",
        nargs="?",
        const="latest",
        help="go on with a run: its id, its report, or `latest`; repeats what is missing or was not the kernel's fault",
    )
    group.addoption(
        "--portkit-same-device", action="store_true", help="resume only on the device that the run began on"
    )
    group.addoption(
        "--portkit-sanitize",
        action="store_true",
        help="on NVIDIA: also run a small shape of measured cells under compute-sanitizer (memcheck, racecheck)",
    )
    group.addoption(
        "--portkit-modes",
        metavar="NAMES",
        action="append",
        default=[],
        help="time measured cells also in these modes, a column each: warm (nothing flushed), graph (replayed)",
    )
    group.addoption(
        "--portkit-devices",
        metavar="INDICES",
        action="append",
        default=[],
        help="GPUs of this host that may be used, such as 0,2 (all)",
    )
    group.addoption(
        "--portkit-shared-device", action="store_true", help="measure on a GPU though other processes use it"
    )
    group.addoption(
        "--portkit-emulate",
        metavar="WHICH",
        choices=("auto", "all", "off"),
        default="auto",
        help="targets whose machine code runs on small shapes in the instruction interpreter: those without a GPU "
        "here (auto), also those with one (all), none (off) (%(default)s)",
    )
    group.addoption(
        "--portkit-emulate-budget",
        metavar="N",
        help="lane-instructions that one emulated launch may take, such as 500M or 2G (1G)",
    )
    group.addoption(
        "--portkit-probe",
        metavar="HOW",
        choices=("cached", "fresh", "off"),
        default="cached",
        help="ceilings of a GPU: taken over from a run of the last week, measured anew (fresh), or off (%(default)s)",
    )
    group.addoption(
        "--portkit-baselines",
        metavar="NAMES",
        action="append",
        default=[],
        help="what speedup is taken against, comma-separated, or `none`; default: eager, compile and all that the "
        "cases declare, in the tier full compile_max_autotune too",
    )
    group.addoption(
        "--portkit-counters",
        metavar="WHEN",
        choices=("auto", "off", "require"),
        default="auto",
        help="hardware counters of measured cells: where the profiler is there and permitted (auto), never (off), or"
        " fail without them (require) (%(default)s)",
    )
    group.addoption(
        "--portkit-count-all",
        action="store_true",
        help="hardware counters of every baseline, those of compilers and libraries too (fused, eager and torch)",
    )
    group.addoption(
        "--portkit-no-texts",
        action="store_true",
        help="keep no source, IR and assembly of kernels beside the report; portkit diff has nothing to show then",
    )
    group.addoption(
        "--portkit-nonce",
        metavar="WORD",
        help="a word that the report's header keeps, so that who asked knows it again",
    )
    group.addoption(
        "--portkit-wait",
        metavar="S",
        type=float,
        default=0.0,
        help="seconds to wait for other runs and processes on the same device (%(default)s: refuse at once)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> Iterator[None]:
    """Add ``--benchmark`` after every other plugin, so that a clash is ours to report."""
    yield
    group = parser.getgroup("portkit")
    try:
        group.addoption(_OPTION, action="store_true", help="collect the kernels of the matrix, and nothing else")
    except ValueError as error:
        early_config.stash[_CLASH] = str(error)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """With ``--benchmark``, hand over to the matrix plugin."""
    if not config.getoption("benchmark", default=False):
        return
    if clash := config.stash.get(_CLASH, None):
        raise pytest.UsageError(
            f"another pytest plugin already owns the option {_OPTION} ({clash})\n"
            "  remedy: switch it off for this run with -p no:NAME (pytest --trace-config lists the plugins)"
        )
    config.pluginmanager.register(importlib.import_module("portkit.pytest_plugin.matrix"), "portkit-matrix")
