"""What host code does with torch and Triton, one trap a test, on GPUs that are absent."""

from __future__ import annotations

import pytest
from workshop import cell_of

from portkit.model import Direction, Stage, Status

FOLLOWED = (
    *("allocates_everywhere", "default_device", "asks_torch", "asks_triton", "graph", "in_a_thread"),
    *("custom_op_of_cuda", "open_op", "library_op", "wider_product"),
)
ON_H200 = (
    *("autocast", "custom_op", "uses_a_compiled_function", "arguments", "raises_in_a_grid", "unknown_option"),
    *("host_tensor_to_a_kernel", "descriptor_without_an_allocator", "asks_the_binary"),
)
ON_BOTH = (
    *("import_time_branch", "after_a_broken_limit", "descriptor_of_the_host", "descriptor_of_the_kernel"),
    *("cooperative", "cluster"),
)
BACKWARD = ("scaled", "early", "checkpointed")


@pytest.fixture(scope="module")
def built(workshop):
    cells = [cell_of(name, target) for name in ON_BOTH for target in ("h200", "mi300x")]
    cells += [cell_of(name, "h200") for name in (*FOLLOWED, *ON_H200)]
    cells += [cell_of(name, "mi300x", direction=Direction.BACKWARD) for name in BACKWARD]
    results = workshop.build_cases("traps.py", *cells)
    return {(result.cell.case, result.cell.target): result for result in results}


@pytest.mark.parametrize("name", FOLLOWED)
def test_host_code_runs_as_on_the_gpu(built, name):
    result = built[name, "h200"]
    assert result.outcome.status is Status.BUILT, result.outcome.message
    (launch,) = result.build.launches
    assert (launch.kernel, launch.grid, launch.constants["BLOCK"]) == ("copy", (1, 1, 1), "256")


def test_import_time_branch(built):
    warps = [built["import_time_branch", target].build.launches[0].num_warps for target in ("h200", "mi300x")]
    assert warps == [32, 16]


def test_autocast_casts_as_on_a_gpu(built):
    (launch,) = built["autocast", "h200"].build.launches
    assert launch.specialization["x_ptr"] == "*bf16 divisibility=16"


def test_a_custom_operator_launches_instead_of_its_fake(built):
    assert built["custom_op", "h200"].build.launch_count == 2


def test_a_grid_from_the_binarys_registers(built):
    result = built["asks_the_binary", "h200"]
    (launch,) = result.build.launches  # the warm-up is no launch
    assert launch.grid[0] == 64 // launch.resources.registers_per_thread + 1


def test_launches_after_a_broken_limit_are_seen(built):
    result = built["after_a_broken_limit", "mi300x"]
    assert result.outcome.status is Status.OUT_OF_RESOURCES
    assert [launch.limits_broken for launch in result.build.launches] == [("threads 2048 > 1024",), ()]
    assert built["after_a_broken_limit", "h200"].outcome.status is Status.BUILT


def test_arguments_are_specialised_as_a_launch_does(built):
    (launch,) = built["arguments", "h200"].build.launches
    assert launch.specialization == {
        "x_ptr": "*fp32",  # x[1:]: no multiple of 16 bytes
        "y_ptr": "*fp32 divisibility=16",
        "flag": "u1",
        "small": "i32 divisibility=16",
        "large": "i64 divisibility=16",
        "wide": "i32",
        "scale": "fp32",
    }
    assert launch.constants == {"none": "None", "one": "1", "n": "128"}


@pytest.mark.parametrize("target", ["h200", "mi300x"])
def test_descriptors(built, target):
    for name, argument in (("descriptor_of_the_host", "descriptor"), ("descriptor_of_the_kernel", "x_ptr")):
        result = built[name, target]
        assert result.outcome.status is Status.BUILT, result.outcome.message
        assert argument in result.build.launches[0].specialization
    (launch,) = built["descriptor_of_the_host", target].build.launches
    assert launch.specialization["descriptor"].startswith("tensordesc<fp32[4, 64]")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("descriptor_without_an_allocator", "no allocator was set"),
        ("host_tensor_to_a_kernel", "argument 1 of copy is a tensor on the CPU"),
    ],
)
def test_a_launch_that_the_device_would_refuse(built, name, message):
    outcome = built[name, "h200"].outcome
    assert (outcome.status, outcome.stage) == (Status.LAUNCH_ERROR, Stage.RUN)
    assert message in outcome.message
    assert " at cases/traps.py:" in outcome.message


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("uses_a_compiled_function", Status.CAPTURE_FAILED, "compiled is compiled by torch.compile"),
        ("raises_in_a_grid", Status.CAPTURE_FAILED, "ZeroDivisionError"),
        ("unknown_option", Status.UNSUPPORTED, "num_wraps"),
    ],
)
def test_refusals(built, name, status, message):
    outcome = built[name, "h200"].outcome
    assert outcome.status is status
    assert message in outcome.message


def test_clusters_are_nvidias(built):
    assert built["cluster", "h200"].build.launches[0].options == {"num_ctas": 2}
    refused = built["cluster", "mi300x"]
    assert refused.outcome.status is Status.UNSUPPORTED
    assert "num_ctas" in refused.outcome.message


def test_a_cooperative_grid_must_be_resident_at_once(workshop, built):
    assert built["cooperative", "h200"].outcome.status is Status.BUILT
    large, other = workshop.build_cases(
        "traps.py", cell_of("cooperative", "h200", (4096,)), cell_of("cooperative", "gfx942", (4096,))
    )
    assert large.outcome.status is Status.OUT_OF_RESOURCES
    assert large.outcome.message == "cooperative grid 4096 blocks > 2112 resident"  # 132 SM × 64 warps ÷ 4
    assert large.asked["multi_processor_count"] == 132
    assert other.outcome.status is Status.BUILT  # an architecture alone has no unit count: not judged


def test_a_backward_cell_is_about_the_backward_pass(built):
    build = built["scaled", "mi300x"].build
    assert [(x.forward, x.num_warps, x.grid[0]) for x in build.launches] == [(True, 4, 1), (False, 8, 304)]
    assert (build.launch_count, build.threads_per_block) == (1, 8 * 64)


def test_where_the_forward_pass_alone_launches_it_counts(built):
    build = built["early", "mi300x"].build
    assert [(x.forward, x.num_warps) for x in build.launches] == [(False, 2)]


def test_checkpoints_compute_again_in_the_backward_pass(built):
    build = built["checkpointed", "mi300x"].build
    assert [(x.forward, x.num_warps) for x in build.launches] == [(True, 4), (False, 4), (False, 8)]


def test_every_way_of_reading_a_value(workshop):
    cells = [cell_of("reads_values", "h200", (256 * way,)) for way in range(1, 13)]
    results = workshop.build_cases("traps.py", *cells)
    assert [result.outcome.status for result in results] == [Status.BUILT] * 12
    assert all(result.build.launch_count == 1 for result in results)


def test_a_missing_backend_names_those_that_are_there(workshop):
    cuda, rocm = workshop.build_cases("vendor_triton.py", cell_of("copy", "h200"), cell_of("copy", "mi300x"))
    assert cuda.outcome.status is Status.BUILT
    assert rocm.outcome.status is Status.BACKEND_MISSING
    assert "no backend that builds for amd (hip); there: nvidia" in rocm.outcome.message
    assert "PyPI" in rocm.outcome.message
    assert rocm.nulls["build"] == rocm.outcome.message


def test_gluon_goes_the_same_way(workshop):
    warps, waves = workshop.build_cases("gluon_copy.py", cell_of("gluon_copy", "h200"), cell_of("gluon_copy", "mi300x"))
    assert warps.outcome.status is Status.BUILT, warps.outcome.message
    assert warps.build.launches[0].kernel == "copy"
    assert waves.outcome.stage is Stage.COMPILE  # its layout is for 32 lanes
    assert not waves.outcome.status.good
