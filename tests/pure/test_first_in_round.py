"""The script that tells what it costs a function to come first in a round."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import factories
import pytest

import portkit
from portkit.model import Evidence
from portkit.run.timing.order import SEED, orders
from portkit.run.timing.samples import Samples
from portkit.store.journal import Journal

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "first_in_round.py"
NAMES = ["fused", "eager", "torch"]


def samples(*, order_seed=SEED):
    """Ten per cent more for who comes first on events; on the trace it costs nothing."""
    rounds = orders(NAMES, 60, SEED)
    events = {name: tuple(0.11 if order[0] == name else 0.10 for order in rounds) for name in NAMES}
    trace = dict.fromkeys(NAMES, (0.05,) * 60)
    return Samples({"events": events, "trace": trace}, flush_bytes=1, warmup=3, order_seed=order_seed)


def report(folder, kept):
    header = factories.header()
    journal = Journal.create(folder, header)
    address = journal.store_blob("samples", kept.to_json())
    journal.append(factories.record(Evidence.MEASURED, run=header, blobs={"samples": address}))
    journal.finish("complete")
    return journal.path


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_what_coming_first_costs_on_each_clock(tmp_path):
    done = run(report(tmp_path, samples()))
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    found = {(line[1], line[2]): line[4:7] for line in lines if line[1:2] and line[1] in NAMES}
    assert found == {
        **{(name, "events"): ["110.00", "100.00", "+10.0"] for name in NAMES},
        **{(name, "trace"): ["50.00", "50.00", "+0.0"] for name in NAMES},
    }
    found = {(line[1], line[2]): line[7:] for line in lines if line[1:2] and line[1] in NAMES}
    assert {key: (line[0] in NAMES, line[1]) for key, line in found.items()} == dict.fromkeys(found, (True, "+0.0"))
    assert "events: coming first costs +10.00 % in the median" in done.stdout


def test_the_neighbour_after_which_a_function_takes_longest(tmp_path):
    kept = samples()
    rounds = orders(NAMES, 60, SEED)
    torch = tuple(0.06 if "eager torch" in " ".join(order) else 0.05 for order in rounds)
    kept = dataclasses.replace(kept, milliseconds={"trace": {**kept.milliseconds["trace"], "torch": torch}})
    done = run(report(tmp_path, kept))
    assert "trace: the dearest neighbour costs +20.0 % (torch of " in done.stdout
    assert done.stdout.rstrip().endswith("after eager)")


@pytest.mark.parametrize(("kept", "options"), [(samples(order_seed=None), ()), (samples(), ("--from-us", "101"))])
def test_rounds_that_all_had_one_order_tell_nothing(tmp_path, kept, options):
    done = run(report(tmp_path, kept), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no cell has samples of rounds that each had an order of their own" in done.stderr
