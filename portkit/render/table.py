"""The comparison as text: GitHub's Markdown, plain for terminals, JSON for programs.

Formats only; every figure comes from :mod:`portkit.analysis.rows`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from portkit.analysis.rows import Comparison
from portkit.model import Evidence, Header, Host, Platform
from portkit.render.columns import NONE, Notes, escaped, github_table, plain_table, wrapped
from portkit.render.data import comparison_json
from portkit.render.delimited import comparison_csv
from portkit.render.findings import SHOWN, findings_markdown, findings_plain
from portkit.render.junit import comparison_junit
from portkit.render.latex import comparison_latex
from portkit.render.measured import device_lines, measured_github, measured_plain
from portkit.render.merged import MISSING, drift_lines, targets_table
from portkit.render.portability import portability_lines, ratio_lines, tuning_lines
from portkit.render.rows import COLUMNS, KERNEL_COLUMNS, operation

EVIDENCE_MEANS: Final[Mapping[Evidence, str]] = {
    Evidence.MEASURED: "ran on that GPU",
    Evidence.EMULATED: "its machine code ran in the instruction interpreter: right or wrong, no time",
    Evidence.COMPILED: "built for that GPU and checked against its limits; never run",
    Evidence.INTERPRETED: "ran in Triton's interpreter on the CPU: no registers, no time",
}

GPU_OF: Final[Mapping[Platform, str]] = {Platform.CUDA: "an NVIDIA GPU", Platform.ROCM: "an AMD GPU"}


_CONFIGURATIONS: Final = (
    "a–b (n cfg): with the best and the worst of the n configurations that the kernel's autotuner chooses among; "
    "on a GPU that is absent nobody knows which. m of n: only m of them can run there. What limits is the worst's."
)


_ERROR_BAR: Final = "± at a time: half of what lies between the fastest and the slowest node of the SKU."


def render(comparison: Comparison, layout: str, findings: int | None = SHOWN, width: int | None = None) -> str:
    """The comparison in a layout of :data:`LAYOUTS`, with a newline at its end.

    Args:
        comparison: what to show.
        layout: name of the layout.
        findings: the most that are told, those alike counted once; None for all. JSON has all.
        width: characters of the terminal that the plain layout is for; None: as wide as it is.
    """
    return LAYOUTS[layout](comparison, findings, width) + "\n"


def _github(comparison: Comparison, findings: int | None, width: int | None) -> str:
    del width  # a page has room
    notes = Notes()
    columns = [*KERNEL_COLUMNS, *COLUMNS]
    table = github_table(columns, comparison.rows, notes)
    measured = measured_github(comparison, notes)
    parts = [
        "# Comparison of targets",
        _bullets(_head(comparison)),
        *(["## Warnings", _bullets(comparison.warnings)] if comparison.warnings else []),
        *(["## Targets", targets] if (targets := targets_table(comparison, "github")) else []),
        *(["## Findings", told] if (told := findings_markdown(comparison.findings, findings)) else []),
        "## Rows",
        table,
        *(["## Measured", measured] if measured else []),
        *([f"## Against {comparison.reference}", _bullets(ratio_lines(comparison))] if comparison.ratios else []),
        *(["## Portability", _bullets(shares)] if (shares := portability_lines(comparison)) else []),
        *(["## Variants", _bullets(tuning)] if (tuning := tuning_lines(comparison)) else []),
        *(["## Devices", _bullets(devices)] if (devices := device_lines(comparison)) else []),
        *(["## NaN and Inf in the inputs", _bullets(nonfinite)] if (nonfinite := _nonfinite(comparison)) else []),
        *(["## Outputs on the same inputs", _bullets(_distances(comparison))] if comparison.distances else []),
        *(["## Drift between Triton versions", _bullets(drift_lines(comparison))] if comparison.drift else []),
        "## Notes",
        _bullets(_legend(comparison)),
        "\n".join(f"{number}. {escaped(text)}" for number, text in notes.numbered()),
    ]
    return "\n\n".join(part for part in parts if part)


def tables(comparison: Comparison) -> str:
    """The tables alone for a terminal, without head, notes and legend; marks of notes are left out."""
    notes = Notes()
    parts = [plain_table(COLUMNS, comparison.rows, operation, notes), measured_plain(comparison, notes)]
    lines = "\n\n".join(part for part in parts if part).split("\n")
    return "\n".join(_MARK.sub(lambda mark: " " * len(mark[0]), line).rstrip() for line in lines)


_MARK: Final = re.compile(r" \[\d+\]")


def _plain(comparison: Comparison, findings: int | None, width: int | None) -> str:
    notes = Notes()
    parts = [
        wrapped(_head(comparison), width),
        wrapped((f"warning: {text}" for text in comparison.warnings), width),
        targets_table(comparison, "plain"),
        plain_table(COLUMNS, comparison.rows, operation, notes, width) if comparison.rows else "no rows",
        measured_plain(comparison, notes, width),
        findings_plain(comparison.findings, findings, width),
        *(wrapped(lines, width) for lines in _said(comparison)),
        wrapped((f"[{number}] {text}" for number, text in notes.numbered()), width),
    ]
    return "\n\n".join(part for part in parts if part)


def _said(comparison: Comparison) -> Iterable[Iterable[str]]:
    """What is said in sentences, a part each."""
    yield ratio_lines(comparison)
    yield portability_lines(comparison)
    yield tuning_lines(comparison)
    yield device_lines(comparison)
    yield _nonfinite(comparison)
    yield _distances(comparison)
    yield drift_lines(comparison)
    yield _legend(comparison)


def _nonfinite(comparison: Comparison) -> list[str]:
    """Per kernel, dtype and family, on which targets NaN and Inf stand where the reference has them."""
    found: dict[tuple[str, bool], dict[Evidence, dict[str, None]]] = {}
    for row in comparison.rows:
        for family, agrees in row.nonfinite.items():
            places = found.setdefault((f"{row.kernel} {row.dtype}, {family}", agrees), {})
            places.setdefault(row.evidence, {})[row.target] = None
    return [
        f"{what} in the input: {'as' if agrees else 'not as'} in the reference on {_places(places)}"
        for (what, agrees), places in sorted(found.items())
    ]


def _places(targets: Mapping[Evidence, Iterable[str]]) -> str:
    return "; ".join(f"{', '.join(targets[evidence])} ({evidence})" for evidence in Evidence if evidence in targets)


def _distances(comparison: Comparison) -> Iterable[str]:
    """How far outputs lie apart, in one line where several are alike; those that can't be compared by their number."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for found in comparison.distances:
        if found.outputs:
            alike.setdefault((found.operation, found.one, found.apart), []).append(found.other)
    form = _without_run if len(comparison.runs) == 1 else str
    for (what, one, apart), others in alike.items():
        yield f"{what}, {form(one)} and {', '.join(map(form, others))}: {apart}"
    reasons = [found.reason for found in comparison.distances if found.reason]
    if reasons:
        yield f"pairs of runs whose outputs can't be compared: {len(reasons)} ({reasons[0]})"


def _without_run(name: str) -> str:
    return name.partition(" (run ")[0]


LAYOUTS: Final[Mapping[str, Callable[[Comparison, int | None, int | None], str]]] = {
    "csv": comparison_csv,
    "github": _github,
    "json": comparison_json,
    "junit": comparison_junit,
    "latex": comparison_latex,
    "markdown": _github,
    "plain": _plain,
}
"""``markdown`` and ``github`` are one: GitHub's Markdown."""


def _head(comparison: Comparison) -> list[str]:
    return [
        f"reports merged: {len(comparison.runs)}",
        *(f"run {_run(header, comparison.partial)}" for header in comparison.runs),
        *(f"host {_host(host)}" for host in comparison.hosts),
        *([f"compiled and emulated rows: Triton {comparison.triton}"] if comparison.triton else []),
        *([f"{MISSING}: no row of {', '.join(comparison.missing)}"] if comparison.missing else []),
        *(f"{evidence}: {_counts(comparison, evidence)}" for evidence in comparison.counts),
        *(f"No row here was run on {GPU_OF[platform]}." for platform in comparison.not_measured),
    ]


def _run(header: Header, partial: Mapping[str, str]) -> str:
    state = ", partial" if header.run_id in partial else ""
    if header.failures:
        state += f", kernels that can't be used: {len(header.failures)}"
    return f"{header.run_id}: {header.matrix}, tier {header.tier}, portkit {header.portkit}{state}"


def _host(host: Host) -> str:
    toolkit = f"toolkit {host.toolkit}" if host.toolkit else "no toolkit"
    return ", ".join(
        [
            f"{host.host_id}: {host.system}",
            f"Python {host.python}",
            f"torch {host.torch}" if host.torch else "no torch",
            f"Triton {host.triton} ({', '.join(host.backends)})" if host.triton else "no Triton",
            f"driver {host.driver}" if host.driver else "no GPU driver",
            toolkit,
            _devices(host),
            *(f"{name}={value}" for name, value in sorted(host.settings.items())),
        ]
    )


def _devices(host: Host) -> str:
    if not host.devices:
        return "no GPU"
    names = [f"{device.name} ({device.target})" for device in host.devices]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def _counts(comparison: Comparison, evidence: Evidence) -> str:
    counts = [f"{count} {status}" for status, count in sorted(comparison.counts[evidence].items())]
    expected = comparison.expected.get(evidence, 0)
    return ", ".join(counts) + (f"; {expected} as the matrix expects" if expected else "")


def _legend(comparison: Comparison) -> list[str]:
    return [
        *(f"{evidence}: {EVIDENCE_MEANS[evidence]}." for evidence in comparison.counts),
        *(["†: of an older source of the cell than its other rows."] if comparison.older_source else []),
        f"{NONE}: the row's evidence or status can't give this figure; with a number: unknown, for that reason.",
        "occupancy th: theoretical, with what limits it. ×n: the worst of n kernel launches. "
        "achieved: by hardware counters, of the cycles in which a unit had work, of the kernel that took longest.",
        *([_CONFIGURATIONS] if any(row.configurations for row in comparison.rows) else []),
        *([_ERROR_BAR] if any(row.repeats and row.repeats.half_width is not None for row in comparison.rows) else []),
        "events: median on device events, end to end. trace: the kernels' own durations in the device trace. "
        "× vs eager, × slower than fused: medians on the same clock, device and process, with a 95 % interval.",
        *(
            ["DRAM, achieved: by hardware counters, of one call."]
            if any(row.functions for row in comparison.rows)
            else []
        ),
        "fusion bound: bytes the unfused chain must move ÷ bytes the fused kernel must move. "
        "share of it: how many times slower eager is on the trace ÷ fusion bound; above 100 where eager's own kernels "
        "stay below the bandwidth that the fused one reaches.",
        "error ÷ limit: the fused result's error against float64, in units of its limit; above 1 is wrong.",
    ]


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(text)}" for text in texts)
