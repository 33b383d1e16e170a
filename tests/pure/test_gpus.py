"""Which GPU a job gets, and what becomes of jobs whose GPUs are gone."""

from __future__ import annotations

import pytest
from factories import cell

from portkit.model import CaseSource, Device, Evidence
from portkit.run.gpus import LEAST_PORTION, Gpus, portion, split
from portkit.run.jobs import Job

FIRST, SECOND = (Device(index, "NVIDIA H200", "h200", "sm_90", 1, 132, f"d{index}") for index in (0, 1))
OTHER = Device(2, "NVIDIA H100 PCIe", "h100pcie", "sm_90", 1, 114, "d2")


def job(*devices, evidence=Evidence.MEASURED, cells=1):
    return Job(evidence, CaseSource("softmax"), tuple(cell(variant=f"w{i}") for i in range(cells)), devices=devices)


def test_each_gpu_has_one_job_at_a_time():
    gpus, wanted = Gpus(), job(FIRST, SECOND)
    claimed = [gpus.claim(wanted) for _ in range(3)]
    assert [each and each.device for each in claimed] == [FIRST, SECOND, None]
    gpus.release(claimed[1])
    assert gpus.claim(wanted).device == SECOND


def test_another_sku_waits_for_nobody_and_a_compiled_job_neither():
    gpus = Gpus()
    gpus.claim(job(FIRST))
    assert gpus.claim(job(OTHER)).device == OTHER
    compiled = job(evidence=Evidence.COMPILED)
    assert gpus.claim(compiled) is gpus.claim(compiled) is compiled


def test_jobs_that_name_no_gpu_share_the_one_that_torch_takes():
    gpus = Gpus()
    first = gpus.claim(job())
    assert (first.device, gpus.claim(job())) == (None, None)
    gpus.release(first)
    assert gpus.claim(job()) == job()


def test_a_gpu_that_leaves_two_processes_in_a_row_without_an_answer_is_lost():
    gpus, wanted = Gpus(), job(FIRST)
    for answers in (False, True, False, False):
        claimed = gpus.claim(wanted)
        assert gpus.hopeless(wanted) is None
        gpus.answered(claimed) if answers else gpus.refused(claimed, "GPU is lost")
        gpus.release(claimed)
    assert gpus.claim(wanted) is None
    assert gpus.hopeless(wanted) == "GPU 0, NVIDIA H200, no longer answers: GPU is lost"


def test_cells_of_a_lost_gpu_go_to_its_sister():
    gpus, wanted = Gpus(), job(FIRST, SECOND)
    gpus.lose(gpus.claim(wanted), "it fell off the bus")
    assert (gpus.hopeless(wanted), gpus.left(wanted)) == (None, 1)
    assert gpus.claim(wanted).device == SECOND


@pytest.mark.parametrize(
    ("cells", "waiting", "gpus", "taken"),
    [(100, 100, 1, 100), (100, 100, 2, 25), (100, 300, 2, 75), (100, 10, 2, LEAST_PORTION), (3, 400, 2, 3)],
)
def test_portions_become_smaller_towards_the_end(cells, waiting, gpus, taken):
    assert portion(cells, waiting, gpus) == taken


def test_a_job_is_split_in_order_and_its_rest_is_free_for_any_gpu():
    whole = Gpus().claim(job(FIRST, SECOND, cells=5))
    head, rest = split(whole, 3)
    assert (head.cells + rest.cells, head.device, rest.device) == (whole.cells, FIRST, None)
    assert split(whole, 5) == (whole, None)
