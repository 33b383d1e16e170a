"""``scripts/untimed.py``: measured cells that are judged and not timed, here on a CPU."""

import pytest
from script_modules import script_module

from portkit.errors import HostError
from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Status
from portkit.run.evaluate import Runner
from portkit.run.session import chains_for
from portkit.targets.catalog import load_catalog

CASE = """
import os
from portkit import KernelCase, Work

def halved(x, off=0.0, fatal=False):
    if fatal:
        os._exit(3)
    return x / 2 + off

case = KernelCase(
    name="halved", fused=halved, reference=lambda x: x / 2, shapes=((4, 8), (6, 8)), small_shapes=((2, 8),),
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)}, dtypes=("float32",), row_inputs=("x",),
    variants={"right": {}, "off": {"off": 1.0}, "fatal": {"fatal": True}},
    work=lambda shape, dtype: Work(2 * 4 * shape[0] * shape[1], 2 * 4 * shape[0] * shape[1], 1),
)
"""


def judged(folder, axes):
    """Results of the cells of these shapes and variants."""
    path = folder / "halved.py"
    path.write_text(CASE)
    cells = [Cell("halved", Direction.FORWARD, shape, "float32", variant, "h200") for shape, variant in axes]
    planned = [PlannedCell(cell, Evidence.MEASURED) for cell in cells]
    targets = {"h200": load_catalog().get("h200")}
    chains = chains_for(planned, {"halved": CaseSource("halved", path=str(path))}, targets)
    runner = Runner("cpu", lambda error, stage: None)
    return list(script_module("untimed").UntimedSession(1, runner).results(chains))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return judged(tmp_path_factory.mktemp("kernels"), [((4, 8), "right"), ((6, 8), "right"), ((4, 8), "off")])


def test_each_cell_has_a_verdict_and_no_time(results):
    assert [each.outcome.status for each in results] == [Status.PASSED, Status.PASSED, Status.WRONG_RESULT]
    assert all(each.verdict and each.timing is None for each in results)
    assert {each.nulls["timing"] for each in results} == {"judged alone, nothing was timed"}


def test_outputs_are_kept_for_comparison(results):
    assert len({each.blobs["fingerprint"] for each in results}) == 3


def test_a_process_that_dies_is_told_and_not_waited_for(tmp_path):
    with pytest.raises(HostError, match="a process that judges died; without results are cells of halved"):
        judged(tmp_path, [((4, 8), "fatal")])
