"""Plays a host's interpreter for a job: answers the preflight, and writes a report as a run would, without torch.

Variables say how: PLAYED_GPUS (visible SKUs, with commas), PLAYED_CELLS, PLAYED_TIMEOUTS (cells that are over their
limit), PLAYED_STOP_AFTER (records after which it does nothing more for PLAYED_STOP_SECONDS, as long as PLAYED_STOP_FILE
is there),
PLAYED_NONCE (word of the header), PLAYED_DEAF (no signal but SIGKILL ends it), PLAYED_CODE (of pytest),
PLAYED_LEAVE (file for the number of a process that is left running).
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from portkit.model import Device, Outcome, Status


def variable(name, default):
    return os.environ.get(f"PLAYED_{name}", default)


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def devices():
    skus = [sku for sku in variable("GPUS", "").split(",") if sku]
    return tuple(Device(index, sku.upper(), sku, "sm_90", 1 << 37, 132, f"d{index}") for index, sku in enumerate(skus))


def preflight():
    from portkit.fleet.preflight import EXIT_WRONG, difference

    told = difference(option("--target"), int(option("--count")), devices())
    print(told or "as expected")
    return EXIT_WRONG if told else 0


def benchmark():
    from factories import header, host, record

    from portkit.store.journal import Journal, new_run_id, utc_now

    if leave := variable("LEAVE", ""):
        Path(leave).write_text(str(subprocess.Popen(["setsid", "sleep", "300"]).pid))
    cells, stop = int(variable("CELLS", "3")), int(variable("STOP_AFTER", "0"))
    target = option("--portkit-target").partition(",")[0]
    run = header(
        run_id=new_run_id(),
        started=utc_now(),
        cells=cells,
        targets=(target,),
        host=host(devices=devices()),
        nonce=variable("NONCE", option("--portkit-nonce")),
    )
    journal = Journal.create(Path(option("--portkit-report")), run)
    for index in range(cells):
        failed = index < int(variable("TIMEOUTS", "0"))
        outcome = Outcome(Status.TIMEOUT if failed else Status.BUILT, message="over 900 s" if failed else "")
        journal.append(record(run=run, target=target, shape=(index + 1, 64), outcome=outcome))
        if index + 1 == stop and Path(variable("STOP_FILE", "/")).exists():
            time.sleep(float(variable("STOP_SECONDS", "600")))
    journal.finish()
    print("a line of pytest")
    return int(variable("CODE", "0"))


if __name__ == "__main__":
    if variable("DEAF", ""):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(preflight() if "portkit.fleet.preflight" in sys.argv else benchmark())
