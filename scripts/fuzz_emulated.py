"""Edits the texts of twenty compiled kernels at random, disturbs their launches, and runs them in the emulator.

    python scripts/fuzz_emulated.py [MUTANTS] [--vendor nvidia] [--seed N] [--seconds N] [--gibibytes N]

Every mutant must be refused by name or run to an end. Printed are the statuses, and each mutant that ended in an
exception, took longer than ``--seconds`` or more memory than ``--gibibytes``, with the seed by which
``tests/emulated/fuzz.py`` makes it again; the exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "emulated"))

from fuzz import ARCHITECTURES, Launched, launched, mutant, names_of


class Late(BaseException):
    """A mutant took too long; nothing catches it on the way."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what came of all mutants, and what had no name."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("count", nargs="?", type=int, default=2000, help="mutants (%(default)s)")
    parser.add_argument("--vendor", choices=list(ARCHITECTURES), default="amd", help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first (%(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of a mutant, at most (%(default)s)")
    parser.add_argument("--gibibytes", type=float, default=6, help="of the process, at most (%(default)s)")
    options = parser.parse_args(arguments)
    kernels = [launched(*pair) for pair in names_of(options.vendor)]
    most = int(options.gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    statuses: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        statuses[_outcome(kernels[seed % len(kernels)], seed, options.seconds)] += 1
    unnamed = statuses.pop("", 0)
    named = ", ".join(f"{count} {name}" for name, count in statuses.most_common())
    print(f"{options.count} mutants of {len(kernels)} kernels: {named}; {unnamed} without a name")
    return 1 if unnamed else 0


def _outcome(kernel: Launched, seed: int, seconds: int) -> str:
    """The status of a mutant; empty where it has none, and then said why."""
    try:
        with _within(seconds):
            return str(mutant(kernel, seed).outcome.status)
    except (Exception, Late) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        built = kernel.case.built
        print(f"seed {seed}, {kernel.case.name} {built.architecture}: {type(error).__name__} at {where}: {error}")
        return ""


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise Late(f"took more than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    sys.exit(main())
