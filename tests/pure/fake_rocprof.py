"""Stands in for rocprofv3: plays the program's part, too, and leaves files as it does.

Run as ``rocprofv3``; the environment variable FAKE_ROCPROF says what goes wrong, as JSON:

    version   of ROCm, that ``--version`` tells; null: it knows no such option
    says      what it prints at once: text, or counter → text
    dies      counters in whose pass it ends at the first kernel
    zero      counters that are 0 for every kernel
    missing   counters that its tables lack
    other     counters in whose pass the functions launch other kernels
    rows      whether there are tables (true)
    cut       characters taken off the trace's end
    tasks     as of fake_ncu; a program that does not come to its end leaves no tables
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from fake_ncu import play, write
from rocprof_files import Ran, ends, in_range, leave

VALUES = {"OccupancyPercent": 62.5, "MeanOccupancyPerCU": 20.0, "FETCH_SIZE": 4096.0, "WRITE_SIZE": 1.0}
DURATIONS = (2_000, 9_000, 3_000, 2_500, 4_000)  # of the calls


def install(folder):
    """Put it into a folder as an executable; its path."""
    path = folder / "rocprofv3"
    path.parent.mkdir(exist_ok=True, parents=True)
    here = Path(__file__).parent
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(here)!r})\nimport fake_rocprof\n"
        "sys.exit(fake_rocprof.main())\n"
    )
    path.chmod(0o755)
    return path


def given(name):
    return sys.argv[sys.argv.index(name) + 1]


def main():
    wrong = json.loads(os.environ.get("FAKE_ROCPROF", "{}"))
    if sys.argv[1:] == ["--version"]:
        return tell_version(wrong.get("version", "7.0.1"))
    counter, says = given("--pmc"), wrong.get("says", "")
    print(says.get(counter, "") if isinstance(says, dict) else says, file=sys.stderr, flush=True)
    if counter in wrong.get("dies", ()):
        return 134
    folder = Path(sys.argv[-2])
    program = subprocess.Popen(["sleep", "600"])

    def step(kind, task=-1, function="", text=""):
        line = json.dumps({"kind": kind, "task": task, "function": function, "text": text})
        write(folder / "progress.jsonl", line + "\n")

    step("started", text=str(program.pid))
    code, kernels = play(folder, wrong.get("tasks", {}), step, program)
    program.kill()
    if wrong.get("rows", True) and not code:
        leave_tables(Path(given("-d")), counter, kernels, wrong)
    return code


def tell_version(version):
    if version is None:
        print("rocprofv3: error: unrecognized arguments: --version", file=sys.stderr)
        return 2
    print(f"             version: 1.0.0\n        git_revision: abc\n        rocm_version: {version}")
    return 0


def leave_tables(folder, counter, kernels, wrong):
    formats = [word for word in ("csv", "rocpd") if word in sys.argv]
    leave(folder, grouped(counter, kernels, wrong), formats)
    if cut := wrong.get("cut", 0):
        trace = folder / "portkit_kernel_trace.csv"
        trace.write_text(trace.read_text()[:-cut])


def grouped(counter, kernels, wrong):
    """All kernels of the run, those of one range between its markers."""
    ran, ranges = [ends(), Ran("warm_up", counters=counted(counter, wrong))], {}
    for range_name, name in kernels:
        ranges.setdefault(range_name, []).append(of_call(counter, range_name, name, wrong))
    for range_name, group in ranges.items():
        ran += in_range(range_name, *group)
    return ran


def of_call(counter, range_name, name, wrong):
    """The first call is the fastest, the second the slowest; KiB written tell them apart."""
    call = int(range_name.rpartition(".")[2])
    counters = counted(counter, wrong)
    if counter == "WRITE_SIZE" and counters.get(counter):
        counters[counter] = float(call + 1)
    name = f"other_{name}" if counter in wrong.get("other", ()) else name
    return Ran(name, nanoseconds=DURATIONS[call], lds=1024, counters=counters)


def counted(counter, wrong):
    if counter in wrong.get("missing", ()):
        return {}
    return {counter: 0.0 if counter in wrong.get("zero", ()) else VALUES[counter]}
