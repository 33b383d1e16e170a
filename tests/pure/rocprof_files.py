"""Files as rocprofv3 leaves them, with values of our own: tables of text of several versions, and a database."""

import csv
import io
import sqlite3
from dataclasses import dataclass, field
from math import prod

BEGINS, ENDS = "portkit_range_begins", "portkit_range_ends"

TRACE = (
    *("Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name"),
    *("Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size", "Scratch_Size", "VGPR_Count"),
    *("Accum_VGPR_Count", "SGPR_Count", "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z"),
    *("Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z"),
)
COUNTERS = (
    *("Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id", "Grid_Size", "Kernel_Id"),
    *("Kernel_Name", "Workgroup_Size", "LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count"),
    *("SGPR_Count", "Counter_Name", "Counter_Value", "Start_Timestamp", "End_Timestamp"),
)
OLD = {
    "6.2": ("Stream_Id", "Accum_VGPR_Count", "Start_Timestamp", "End_Timestamp"),  # the last two of the counters alone
    "6.3": ("Stream_Id", "Accum_VGPR_Count"),
    "6.4": (),
}
"""ROCm → columns that its tables lack."""


@dataclass(frozen=True)
class Ran:
    """One kernel that ran."""

    name: str
    blocks: tuple[int, int, int] = (64, 1, 1)
    threads: tuple[int, int, int] = (256, 1, 1)
    nanoseconds: int = 5_000
    lds: int = 0  # of the launch
    counters: dict = field(default_factory=dict)


def begins(name):
    """The marker before a call; the name is in its grid, in which no side is 0."""
    return Ran(BEGINS, tuple(int(part) + 1 for part in name.split(".")), (64, 1, 1))


def ends():
    return Ran(ENDS, (1, 1, 1), (64, 1, 1))


def in_range(name, *kernels):
    return [begins(name), *kernels, ends()]


def trace_csv(kernels, version="6.4"):
    """A row a dispatch; the profiler writes them as they end, so here the first comes last."""
    rows = [_row(number, kernel) for number, kernel in enumerate(kernels, 1)]
    lacking = {"Stream_Id", "Accum_VGPR_Count"} & set(OLD[version])
    return _table([name for name in TRACE if name not in lacking], [*rows[1:], *rows[:1]])


def counters_csv(kernels, version="6.4"):
    """A row a dispatch and counter."""
    rows = []
    for number, kernel in enumerate(kernels, 1):
        for counter, value in kernel.counters.items():
            shape = {"Grid_Size": prod(kernel.blocks) * prod(kernel.threads), "Workgroup_Size": prod(kernel.threads)}
            rows.append(_row(number, kernel) | shape | {"Counter_Name": counter, "Counter_Value": f"{value:f}"})
    return _table([name for name in COUNTERS if name not in OLD[version]], rows)


def _row(number, kernel):
    start = 1_000_000_000_000 + 100_000 * number
    sides = {f"Workgroup_Size_{a}": n for a, n in zip("XYZ", kernel.threads, strict=True)}
    items = {f"Grid_Size_{a}": b * t for a, b, t in zip("XYZ", kernel.blocks, kernel.threads, strict=True)}
    return {
        **{"Kind": "KERNEL_DISPATCH", "Agent_Id": "Agent 4", "Queue_Id": 1, "Stream_Id": 1, "Thread_Id": 4242},
        **{"Process_Id": 4242, "Dispatch_Id": number, "Kernel_Id": 17, "Kernel_Name": kernel.name},
        **{"Correlation_Id": number, "Start_Timestamp": start, "End_Timestamp": start + kernel.nanoseconds},
        **{"LDS_Block_Size": 0, "Scratch_Size": 0, "VGPR_Count": 148, "Accum_VGPR_Count": 0, "SGPR_Count": 128},
        **sides,
        **items,
    }


def _table(columns, rows):
    """Text in quotes, numbers without."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    numbers = ("Counter_Value",)
    for row in rows:
        writer.writerow([float(row[name]) if name in numbers else row[name] for name in columns])
    return text.getvalue()


def database(path, kernels):
    """A database with the two views that are read, over tables of our own."""
    base = sqlite3.connect(path)
    base.execute(
        "CREATE TABLE dispatched (id INTEGER, dispatch_id INTEGER, name TEXT, start INTEGER, end INTEGER,"
        " grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, workgroup_x INTEGER, workgroup_y INTEGER,"
        " workgroup_z INTEGER, lds_size INTEGER, static_lds_size INTEGER, vgpr_count INTEGER)"
    )
    base.execute("CREATE TABLE counted (dispatch_id INTEGER, counter_name TEXT, value REAL)")
    for number, kernel in reversed(list(enumerate(kernels, 1))):
        start = 1_000_000_000_000 + 100_000 * number
        items = [b * t for b, t in zip(kernel.blocks, kernel.threads, strict=True)]
        values = (number, number, kernel.name, start, start + kernel.nanoseconds, *items, *kernel.threads)
        base.execute(f"INSERT INTO dispatched VALUES ({','.join('?' * 14)})", (*values, kernel.lds, 0, 148))
        rows = [(number, counter, value) for counter, value in kernel.counters.items()]
        base.executemany("INSERT INTO counted VALUES (?, ?, ?)", rows)
    base.execute("CREATE VIEW kernels AS SELECT *, end - start AS duration FROM dispatched")
    base.execute("CREATE VIEW counters_collection AS SELECT * FROM counted")
    base.commit()
    base.close()


def leave(folder, kernels, formats=("csv",), name="portkit", version="6.4"):
    """What a run leaves in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if "csv" in formats:
        (folder / f"{name}_kernel_trace.csv").write_text(trace_csv(kernels, version))
        (folder / f"{name}_counter_collection.csv").write_text(counters_csv(kernels, version))
        (folder / f"{name}_agent_info.csv").write_text('"Node_Id","Agent_Type"\n4,"GPU"\n')
    if "rocpd" in formats:
        database(folder / f"{name}_results.db", kernels)
