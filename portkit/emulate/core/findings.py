"""What the emulator finds out about a kernel, as frozen values, and how an emulation ends early.

Halt                    the emulation can't go on
├── Fault               the kernel did what no device lets pass; carries a Finding
├── Unsupported         the emulator does not model something the text asks for
│   └── TooLarge        a launch that is over the caller's budget before it starts
├── Unloadable          the text can't be launched as it is: damaged, or of another architecture
└── OverBudget          more lane-instructions than the caller allows
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from portkit.model import Outcome, Stage, Status


class Kind(enum.StrEnum):
    """What is wrong with an access or a wave."""

    OUT_OF_BOUNDS = "out_of_bounds"  # outside every buffer
    BEYOND_RECORDS = "beyond_records"  # an unmasked lane past num_records, which the device drops in silence
    SHARED_OUT_OF_BOUNDS = "shared_out_of_bounds"  # outside the workgroup's own shared memory
    MISALIGNED = "misaligned"  # an access that the device faults on
    UNWRITTEN_REGISTER = "unwritten_register"
    UNWRITTEN_SHARED = "unwritten_shared"
    UNWRITTEN_GLOBAL = "unwritten_global"
    SHARED_RACE = "shared_race"  # two waves, one byte, no barrier between
    GLOBAL_RACE = "global_race"  # two workgroups, one byte, not both atomic
    WORKGROUP_RACE = "workgroup_race"  # two waves of a workgroup, one byte of global memory, no barrier between
    MISSING_WAIT = "missing_wait"  # a result used before its counter was waited for
    ORDER_DEPENDENT = "order_dependent"  # other bits under another order of waves
    DEADLOCK = "deadlock"
    STARVATION = "starvation"  # waves that run without end
    TRAP = "trap"
    UNDEFINED = "undefined"  # operands that the ISA document gives no result for


STATUS_OF = {
    Kind.OUT_OF_BOUNDS: Status.OUT_OF_BOUNDS,
    Kind.BEYOND_RECORDS: Status.OUT_OF_BOUNDS,
    Kind.SHARED_OUT_OF_BOUNDS: Status.OUT_OF_BOUNDS,
    Kind.MISALIGNED: Status.DEVICE_FAULT,
    Kind.UNWRITTEN_REGISTER: Status.NONDETERMINISTIC,
    Kind.UNWRITTEN_SHARED: Status.NONDETERMINISTIC,
    Kind.UNWRITTEN_GLOBAL: Status.NONDETERMINISTIC,
    Kind.SHARED_RACE: Status.DATA_RACE,
    Kind.GLOBAL_RACE: Status.DATA_RACE,
    Kind.WORKGROUP_RACE: Status.DATA_RACE,
    Kind.MISSING_WAIT: Status.DATA_RACE,
    Kind.ORDER_DEPENDENT: Status.NONDETERMINISTIC,
    Kind.DEADLOCK: Status.TIMEOUT,
    Kind.STARVATION: Status.TIMEOUT,
    Kind.TRAP: Status.DEVICE_FAULT,
    Kind.UNDEFINED: Status.WRONG_RESULT,
}
"""Status that each kind of finding gives a cell."""


@dataclass(frozen=True)
class Site:
    """An instruction of the text."""

    line: int  # of the assembly text, from 1
    text: str  # the instruction as written
    source: str | None = None  # file:line of the kernel source, outermost frame; None where the text has no .loc


@dataclass(frozen=True)
class Place:
    """Who executed it. ``None``: the scalar unit, or all lanes."""

    workgroup: tuple[int, int, int]
    wave: int  # within the workgroup
    lane: int | None = None


@dataclass(frozen=True)
class Finding:
    """One fault of the kernel. Repetitions at the same instruction are counted, not listed."""

    kind: Kind
    message: str  # one sentence
    site: Site | None = None  # None: no single instruction
    place: Place | None = None  # of the first occurrence
    offset: int | None = None  # bytes into ``buffer``; negative before it
    buffer: str | None = None  # argument name, "shared" or "scratch"
    count: int = 1  # occurrences at this instruction

    @property
    def status(self) -> Status:
        """Status that this finding gives a cell."""
        return STATUS_OF[self.kind]

    def __str__(self) -> str:
        at = f" at {self.site.source or 'line ' + str(self.site.line)} `{self.site.text}`" if self.site else ""
        by = f" by workgroup {self.place.workgroup} wave {self.place.wave}" if self.place else ""
        lane = f" lane {self.place.lane}" if self.place and self.place.lane is not None else ""
        return f"{self.kind}{at}{by}{lane}: {self.message}"


class Halt(Exception):  # noqa: N818 - the end of an emulation, not an error of portkit
    """The emulation can't go on."""

    status = Status.LAUNCH_ERROR


class Fault(Halt):
    """The kernel did what no device lets pass."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


class Unsupported(Halt):
    """The emulator does not model something that the text asks for."""

    status = Status.UNSUPPORTED

    def __init__(self, cause: str, site: Site | None = None) -> None:
        self.cause = cause
        self.site = site
        super().__init__(f"line {site.line} `{site.text}`: {cause}" if site else cause)


class TooLarge(Unsupported):
    """A launch of more lane-instructions than the caller allows, known before it starts."""


class Unloadable(Halt):
    """The text can't be launched as it is."""


class readable:  # noqa: N801 - a context manager; one that contextlib makes takes longer than what is read
    """Refuse by name what a reader of text meets where it expects another form, as in text edited by hand.

    Args:
        site: the line that is read, or what gives it; None for the text as a whole.

    Raises:
        Unsupported: the line can't be read.
        Unloadable: the text can't be read.
    """

    __slots__ = ("_site",)

    def __init__(self, site: Site | Callable[[], Site] | None = None) -> None:
        self._site = site

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, ValueError | LookupError | ArithmeticError | RecursionError):
            return
        if self._site is None:
            raise Unloadable(f"the text can't be read; was it damaged or edited? {error}") from error
        site = self._site if isinstance(self._site, Site) else self._site()
        raise Unsupported(f"can't be read: {error}", site) from error


class OverBudget(Halt):
    """The kernel ran for more lane-instructions than the caller allows: perhaps it has no end."""

    status = Status.TIMEOUT


def outcome_of(findings: Iterable[Finding], halt: Halt | None) -> Outcome:
    """Outcome of an emulation: what ended it, else the first finding by precedence of its status."""
    if halt is not None and not isinstance(halt, Fault):
        return Outcome(halt.status, Stage.RUN, str(halt))
    order = list(Status)
    worst = min(findings, key=lambda finding: order.index(finding.status), default=None)
    if worst is None:
        return Outcome(Status.PASSED, Stage.DONE)
    return Outcome(worst.status, Stage.RUN, str(worst))


def keep(found: dict[tuple[Kind, int], Finding], finding: Finding) -> None:
    """Keep a finding that lets the kernel go on; repetitions at one instruction are counted.

    Args:
        found: by kind and line.
        finding: one more.
    """
    key = (finding.kind, finding.site.line if finding.site else 0)
    first = found.get(key)
    found[key] = dataclasses.replace(first, count=first.count + finding.count) if first else finding
