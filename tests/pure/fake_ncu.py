"""Stands in for Nsight Compute: plays the program's part, too, and writes a table as ncu 2025.3 does.

Run as ``ncu``; the environment variable FAKE_NCU says what goes wrong, as JSON:

    version   that it tells
    help      what it says of its options
    says      lines of its own before the table, such as an error
    rows      whether there is a table (true)
    cut       characters taken off the table's end
    crashes   whether it crashes before it writes its table
    tasks     number of a task → hang, die (the program), crash (ncu itself), fail, gone (and the device is),
              unusable (afterwards), silent, partial
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ABOUT = ("ID", "Process ID", "Process Name", "Host Name")
STACKS = ("thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",)
ROW = ("Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
VALUES = {
    "gpu__time_duration.sum": ("ns", "2,000"),
    "dram__bytes_read.sum": ("byte", "4,194,304"),
    "dram__bytes_write.sum": ("byte", "1,024"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "75.50"),
    "sm__warps_active.avg.pct_of_peak_sustained_elapsed": ("%", "60.25"),
    "sm__cycles_elapsed.max": ("cycle", "4,000"),
    "sm__cycles_active.max": ("cycle", "1,000"),
    "profiler__replayer_passes": ("pass", "1"),
    "launch__waves_per_multiprocessor": ("", "0.50"),
}


def install(folder):
    """Put it into a folder as an executable; its path."""
    path = folder / "ncu"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable}\n{Path(__file__).read_text(encoding='utf-8')}", encoding="utf-8")
    path.chmod(0o755)
    return path


def given(name):
    return sys.argv[sys.argv.index(name) + 1]


def stack(name):
    told = "none:none:none:none:none:none"
    return f'707  "<default domain>:portkit:{told}" "<default domain>:{name}:{told}" '


def table(kernels):
    metrics = [*given("--metrics").split(","), "profiler__replayer_passes"]
    lines = [[*ABOUT, *STACKS, *ROW, *metrics]]
    lines.append([""] * (len(lines[0]) - len(metrics)) + [VALUES.get(name, ("", ""))[0] for name in metrics])
    for number, (range_name, kernel) in enumerate(kernels):
        row = [str(number), "707", "python3.12", "127.0.0.1", stack(range_name), kernel]
        row += ["1", "7", "(256, 1, 1)", "(4096, 1, 1)", "0", "9.0"]
        values = VALUES | of_call(int(range_name.rpartition(".")[2]))
        lines.append(row + [values.get(name, ("", "8"))[1] for name in metrics])
    return lines


def of_call(call):
    """The first call is the fastest, the second the slowest; bytes written tell them apart."""
    duration = ("2,000", "9,000", "3,000", "2,500", "4,000")[call]
    return {"gpu__time_duration.sum": ("ns", duration), "dram__bytes_write.sum": ("byte", str(call))}


def write(path, text):
    with Path(path).open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def write_table(path, kernels, cut):
    whole = Path(path).with_name("table")
    with whole.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table(kernels))
    text = whole.read_text(encoding="utf-8")
    write(path, text[: len(text) - cut])


def main():
    wrong = json.loads(os.environ.get("FAKE_NCU", "{}"))
    if sys.argv[1:] == ["--version"]:
        print(
            f"NVIDIA (R) Nsight Compute Command Line Profiler\nVersion {wrong.get('version', '2025.3.1.0')} (build 1)"
        )
        return 0
    if sys.argv[1:] == ["--help"]:
        print(wrong.get("help", "  --disable-extra-suffixes              Collect what is asked for alone.\n"))
        return 0
    folder, log = Path(sys.argv[-2]), given("--log-file")
    program = subprocess.Popen(["sleep", "600"])

    def step(kind, task=-1, function="", text=""):
        line = json.dumps({"kind": kind, "task": task, "function": function, "text": text})
        write(folder / "progress.jsonl", line + "\n")

    write(log, "==PROF== Connected to process 707 (/usr/bin/python3.12)\n" + wrong.get("says", ""))
    step("started", text=str(program.pid))
    code, kernels = play(folder, wrong.get("tasks", {}), step, program)
    program.kill()
    if wrong.get("crashes"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if code:
        write(log, f"==ERROR== The application returned an error code ({code}).\n")
    if wrong.get("rows", True):
        write_table(log, kernels, wrong.get("cut", 0))
    else:
        write(log, "==WARNING== No kernels were profiled.\n")
    return code


def orders(path):
    """Tasks, as soon as they are told; none if who would tell them is gone."""
    while not path.exists():
        if not Path("/proc", sys.argv[-1]).exists():
            return []
        time.sleep(0.02)
    return json.loads(path.read_bytes())["tasks"]


def play(folder, wrong, step, program):
    """The program's part: exit code, and the kernels that ncu saw."""
    kernels = []
    for task in orders(folder / "orders.json"):
        number, what = task["number"], wrong.get(str(task["number"]))
        step("begun", number)
        step("stage", number, text="run")
        if code := end_early(number, what, step, program):
            return code, kernels
        for position, function in enumerate(task["functions"]):
            if what == "fail" and function != "fused":
                step("failed", number, function, "out of device memory under the profiler")
                continue
            if what != "silent":
                for call in range(task["calls"][position] if task["calls"] else 1):
                    kernels += [
                        (f"{number}.{position}.{call}", f"kernel_{k}_of_{function}") for k in range(position + 1)
                    ]
            step("counted", number, function)
            if what == "partial":
                return 134, kernels
        step("ended", number)
        if what == "unusable":
            return 1, kernels
    return 0, kernels


def end_early(number, what, step, program):
    """Exit code of a program that ends before it has called a function of the task."""
    if what == "hang":
        program.wait()
        return 9
    if what == "gone":
        step("failed", number, text="no CUDA GPUs are available")
        step("ended", number)
        return 1
    if what == "crash":
        time.sleep(0.3)  # the steps are heard
        program.kill()
        os.kill(os.getpid(), signal.SIGSEGV)
    return 134 if what == "die" else None


if __name__ == "__main__":
    sys.exit(main())
