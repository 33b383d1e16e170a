"""Capture of unmodified host functions for GPUs that are absent."""

from __future__ import annotations

import pytest
import triton
from packaging.version import Version

from portkit.model import Stage, Status

FILE = "platform_branches.py"


def test_import_time_branch_sees_its_own_platform(workshop):
    cuda, rocm = workshop.build_case(FILE, "warps", "h100", "mi300x")
    assert [r.build.launches[0].num_warps for r in (cuda, rocm)] == [32, 16]
    assert [r.build.threads_per_block for r in (cuda, rocm)] == [1024, 1024]
    assert cuda.outcome.status is rocm.outcome.status is Status.BUILT


def test_grid_from_the_unit_count_is_the_skus(workshop):
    results = workshop.build_case(FILE, "persistent", "h200", "mi300x", "mi300a", "rx7900xtx")
    grids = [result.build.launches[0].grid for result in results]
    assert grids == [(132, 1, 1), (304, 1, 1), (228, 1, 1), (48, 1, 1)]


def test_capability_follows_the_architecture(workshop):
    results = workshop.build_case(FILE, "capability", "a100", "h100", "mi300x", "rx7900xtx")
    assert [r.build.launches[0].num_warps for r in results] == [4, 8, 8, 8]


def test_tensors_claim_the_gpu(workshop):
    (result,) = workshop.build_case(FILE, "asserts_device", "b200")
    assert result.outcome.status is Status.BUILT


def test_host_code_that_reads_a_value_gets_real_ones(workshop):
    (result,) = workshop.build_case(FILE, "reads_a_value", "h200")
    assert result.outcome.status is Status.BUILT
    assert "item" not in result.outcome.message


def test_a_value_of_a_tensor_too_large_to_make_names_the_line(workshop):
    (result,) = workshop.build_case(FILE, "reads_a_value", "h200", shape=(2**28,))
    assert result.outcome.status is Status.CAPTURE_FAILED
    assert "platform_branches.py:" in result.outcome.message


def test_an_unsourced_property_is_not_guessed(workshop):
    for result in workshop.build_case(FILE, "asks_the_unknown", "h200", "h100"):  # each is asked itself
        assert result.outcome.status is Status.CAPTURE_FAILED
        assert f"clock_rate of {result.cell.target}" in result.outcome.message
        assert result.asked == {"clock_rate": None}


def test_a_grid_from_an_unsourced_unit_count_is_refused(workshop):
    bare, sku = workshop.build_case(FILE, "persistent", "gfx942", "mi300x")
    assert bare.outcome.status is Status.CAPTURE_FAILED
    assert "multi_processor_count of gfx942" in bare.outcome.message
    assert sku.build.launches[0].grid == (304, 1, 1)


def test_no_launch_is_no_build(workshop):
    (result,) = workshop.build_case(FILE, "launches_nothing", "h200")
    assert result.outcome.status is Status.CAPTURE_FAILED
    assert result.build is None
    assert result.nulls["build"] == "no kernel was built"


def test_what_host_code_raises_is_named_with_its_line(workshop):
    (result,) = workshop.build_case(FILE, "raises", "mi300x")
    assert (result.outcome.status, result.outcome.stage) == (Status.CAPTURE_FAILED, Stage.CAPTURE)
    assert "ValueError: no such layout at cases/platform_branches.py:" in result.outcome.message


@pytest.mark.parametrize(
    ("shape", "marks"),
    [
        ((4096,), "divisibility=16 pointer_range=32"),
        ((2**29 + 16,), "divisibility=16"),  # over 2 GiB of float32: no buffer operations
    ],
)
def test_amd_pointer_range_as_a_launch_adds_it(workshop, shape, marks):
    if Version(triton.__version__) < Version("3.6"):
        marks = "divisibility=16"  # buffer operations are off there by default
    (result,) = workshop.build_case(FILE, "warps", "mi300x", shape=shape)
    assert result.build.launches[0].specialization["x_ptr"] == f"*fp32 {marks}"


def test_misaligned_views_are_specialised_as_such(workshop):
    (result,) = workshop.build_case(FILE, "misaligned", "h200")
    assert result.build.launches[0].specialization["x_ptr"] == "*fp32"


def test_skus_share_a_build_only_where_the_host_code_asked_nothing_that_differs(workshop):
    first, second = workshop.build_case(FILE, "warps", "a100", "a10040gb")
    assert second.build == first.build
    assert second.seconds == 0.0
    first, second = workshop.build_case(FILE, "persistent", "mi300x", "mi300a")
    assert first.asked == {"multi_processor_count": 304}
    assert second.build.launches[0].grid == (228, 1, 1)
