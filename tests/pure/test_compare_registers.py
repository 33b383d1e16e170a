"""The script that holds registers of loaded kernels against those of binaries built without a GPU."""

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import factories
import pytest

import portkit
from portkit.model import Evidence, Loaded
from portkit.store.journal import Journal

SCRIPT = Path(portkit.__file__).parent.parent / "scripts" / "compare_registers.py"
RAN = factories.launch(40, loaded=Loaded(40, 6))


def report(folder, measured, compiled, **changes):
    """A report with a measured cell, and a compiled one of the same kernel."""
    header = factories.header()
    journal = Journal.create(folder, header)
    journal.append(factories.record(Evidence.MEASURED, run=header, build=measured))
    journal.append(factories.record(Evidence.COMPILED, run=header, build=compiled, **changes))
    journal.finish("complete")
    return journal.path


def compare(path):
    done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()[-1:], done.stderr


@pytest.mark.parametrize(
    ("ran", "built", "agree", "same"),
    [
        (RAN, factories.launch(40), 1, 1),
        (RAN, factories.launch(40, binary_hash="cd" * 32), 1, 0),
        (RAN, factories.launch(41), 0, 1),
        (dataclasses.replace(RAN, loaded=Loaded(41, 6)), factories.launch(40), 0, 1),
        (dataclasses.replace(RAN, loaded=None), factories.launch(40), 1, 1),
        (RAN, factories.launch(40, num_warps=4), 0, 0),  # another kernel: what ran was not built
    ],
)
def test_driver_loaded_binary_and_built_binary_must_agree(tmp_path, ran, built, agree, same):
    code, last, _ = compare(report(tmp_path, factories.build(ran), factories.build(built)))
    assert code == 1 - agree
    assert last == [f"{agree} of 1 launches of 1 cells agree, {same} bit by bit"]


def test_what_an_autotuned_kernel_ran_as_is_looked_for_among_its_configurations(tmp_path):
    trial = dataclasses.replace(RAN, trial=True)
    chosen, other = factories.launch(40, constants={"BLOCK": "1024"}), factories.launch(28, trial=True)
    ran = dataclasses.replace(chosen, loaded=Loaded(40, 6))
    trials = (dataclasses.replace(chosen, trial=True, loaded=None), other)
    compiled = dataclasses.replace(factories.tuned_build(), launches=trials)
    assert compare(report(tmp_path, factories.build(ran, trial), compiled))[0] == 0


def test_launches_without_room_in_the_record_are_compared_too(tmp_path):
    ran = [dataclasses.replace(RAN, constants={"BLOCK": str(n), "LONG": "x" * 500}) for n in range(32)]
    code, last, _ = compare(report(tmp_path, factories.build(*ran), factories.build(*ran[:31], factories.launch(40))))
    assert code == 1
    assert last == ["31 of 32 launches of 1 cells agree, 31 bit by bit"]


def test_records_without_their_side_folder_are_left_out_and_counted(tmp_path):
    ran = [dataclasses.replace(RAN, constants={"BLOCK": str(n), "LONG": "x" * 500}) for n in range(32)]
    path = report(tmp_path, factories.build(*ran), factories.build(*ran))
    shutil.rmtree(path.with_suffix(".blobs"))
    code, _, said = compare(path)
    assert code == 2
    assert "2 records left out, whose launches are in no side folder here" in said


@pytest.mark.parametrize("changes", [{"source_hash": "6" * 16}, {"shape": (8, 8)}])
def test_a_cell_of_another_source_or_shape_is_not_beside_it(tmp_path, changes):
    path = report(tmp_path, factories.build(RAN), factories.build(factories.launch(40)), **changes)
    code, last, said = compare(path)
    assert (code, last) == (2, [])
    assert "no measured cell has a compiled one of the same Triton beside it" in said
