"""Emulated cells in the processes of a run: the kernels of the suite, planted faults, kinds of arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Stage, Status
from portkit.run.jobs import Limits
from portkit.run.session import Session, chains_for
from portkit.targets.catalog import load_catalog

PLANTED = Path(__file__).parent / "cases" / "planted.py"
KERNELS = Path(__file__).parents[2] / "kernels"
TARGETS = {"gfx942": "mi300x", "gfx950": "mi355x", "gfx1100": "rx7900xtx", "gfx1201": "rx9070xt"}
NVIDIA = ("h100", "b200", "a100")
SMALLEST = {
    "sum_abs": ((16384,), "float32"),
    "add_rms_norm": ((4, 2880), "bfloat16"),
    "swiglu": ((2, 11008), "bfloat16"),
    "softmax": ((4, 1000), "float32"),
}


@pytest.fixture(scope="module")
def session():
    with_two = Session(Limits(workers=2))
    yield with_two
    with_two.close()


def emulate(session, cells, path_of, **limits):
    """Results by cell."""
    catalog = load_catalog()
    sources = {cell.case: CaseSource(cell.case, path=str(path_of(cell.case))) for cell in cells}
    targets = {cell.target: catalog.get(cell.target) for cell in cells}
    planned = [PlannedCell(cell, Evidence.EMULATED) for cell in cells]
    return {result.cell: result for result in session.results(chains_for(planned, sources, targets, **limits))}


@pytest.fixture(scope="module")
def suite(session):
    """The kernels of the default matrix on their smallest shapes."""
    cells = [
        Cell(name, Direction.FORWARD, shape, dtype, "w8", target)
        for name, (shape, dtype) in SMALLEST.items()
        for target in TARGETS.values()
    ]
    return emulate(session, cells, lambda name: KERNELS / f"{name}.py")


@pytest.mark.parametrize("name", SMALLEST)
def test_kernels_of_the_suite_are_right_on_every_architecture(suite, name, architecture):
    (result,) = (r for c, r in suite.items() if (c.case, c.target) == (name, TARGETS[architecture]))
    assert result.outcome.status is Status.PASSED, result.outcome
    assert result.verdict.repeatable
    assert result.verdict.runs == 3
    assert result.verdict.guards_intact
    assert all(result.verdict.controls.values())
    assert result.verdict.families
    assert "nothing found" in result.verdict.sanitizer
    assert result.build.registers_per_thread
    assert result.timing is None
    assert result.nulls["timing"] == "emulated: time is not modelled"
    assert result.blobs["fingerprint"]


def cell(name, target="mi300x", shape=(1000,), direction=Direction.FORWARD):
    return Cell(name, direction, shape, "float32", "default", target)


@pytest.fixture(scope="module")
def planted(session):
    """Results of the planted cases by name, or by name and target."""
    names = ("overflow", "unwritten_accumulator", "last_wins", "huge_grid", "too_many_threads", "no_kernel")
    names += (
        "swallowed",
        "strange",
        "arguments",
        "tuned",
        "off_by_one",
        "asking_chain",
        "off_by_one_unjudged",
        "tuned_unjudged",
    )
    names += (
        "trapping",
        "asserted",
        "asserted_rightly",
        "printing",
        "misaligned_atomic",
        "misaligned_load",
        "aliasing",
    )
    names += ("partly_initialised", "wholly_initialised", "with_barrier", "without_barrier")
    cells = [cell(name) for name in names] + [cell("off_by_one", target) for target in ("rx7900xtx", "rx9070xt")]
    cells += [cell(name, "rx9070xt") for name in ("with_barrier", "without_barrier")]
    cells += [cell("wrong_stride", shape=(10, 100)), cell("arguments", "rx9070xt"), cell("arguments", "mi325x")]
    cells += [cell("described", target, (10, 100)) for target in ("mi300x", "rx9070xt")]
    cells += [cell("backward_fault", direction=direction) for direction in Direction]
    cells += [cell(name, target) for name in ("staged", "staged_tuned") for target in ("h100", "mi300x")]
    named = ("off_by_one", "overflow", "unwritten_accumulator", "with_barrier", "without_barrier")
    cells += [cell(name, target) for name in named for target in NVIDIA]
    cells += [cell("wrong_stride", target, (10, 100)) for target in NVIDIA]
    return emulate(session, cells, lambda name: PLANTED)


def line_of_fault(function):
    """Line of the file where the kernel's fault is marked."""
    lines = PLANTED.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"def {function}("))
    return start + 1 + next(n for n, line in enumerate(lines[start:]) if line.endswith("# fault"))


@pytest.mark.parametrize("target", ["mi300x", "rx7900xtx", "rx9070xt", *NVIDIA])
def test_a_store_one_beyond_the_end_is_named_with_its_place(planted, target):
    outcome = planted[cell("off_by_one", target)].outcome
    assert outcome.status is Status.OUT_OF_BOUNDS
    assert f"planted.py:{line_of_fault('_off_by_one')}" in outcome.message
    store = "st.global" if target in NVIDIA else "store"
    for part in ("_off_by_one: out_of_bounds", store, "y_ptr", "workgroup (3, 0, 0)", "wave 3", "lane", "4000"):
        assert part in outcome.message, outcome.message


def test_a_fault_shows_though_the_reference_raises(planted):
    result = planted[cell("off_by_one_unjudged")]
    assert (result.outcome.status, result.outcome.stage) == (Status.REFERENCE_FAILED, Stage.REFERENCE)
    assert result.outcome.message.startswith("ValueError: no such chain at cases/planted.py:")
    assert "its machine code was run all the same: out_of_bounds: _off_by_one: " in result.outcome.message
    assert f"planted.py:{line_of_fault('_off_by_one')}" in result.outcome.message


def test_code_without_a_fault_is_no_verdict_where_the_reference_raises(planted):
    result = planted[cell("tuned_unjudged")]
    assert result.outcome.status is Status.REFERENCE_FAILED
    assert result.outcome.message.endswith("run all the same: no fault that shows without a reference")
    assert result.build.registers_per_thread
    assert "build" not in result.nulls
    assert result.verdict is None
    assert result.nulls["verdict"] == "reference_failed at reference"


@pytest.mark.parametrize("target", ["mi300x", *NVIDIA])
@pytest.mark.parametrize(("name", "shape"), [("overflow", (1000,)), ("wrong_stride", (10, 100))])
def test_an_index_that_runs_off_is_named_with_its_line(planted, name, shape, target):
    outcome = planted[cell(name, target, shape)].outcome
    assert outcome.status is Status.OUT_OF_BOUNDS
    assert f"planted.py:{line_of_fault('_' + name)}" in outcome.message, outcome.message


@pytest.mark.parametrize(
    ("name", "element", "target"),
    [
        ("unwritten_accumulator", "y_ptr[0]", "mi300x"),
        ("partly_initialised", "y_ptr[3996]", "mi300x"),
        *(("unwritten_accumulator", "y_ptr[0]", target) for target in NVIDIA),
    ],
)
def test_what_nobody_wrote_is_no_number(planted, name, element, target):
    result = planted[cell(name, target)]
    assert result.outcome.status is Status.WRONG_RESULT
    found = result.blobs["findings"].decode()
    assert f"unwritten_global at planted.py:{line_of_fault('_accumulate')} " in found
    assert element in found


def test_what_kernel_and_host_wrote_in_turns_is_whole(planted):
    result = planted[cell("wholly_initialised")]
    assert result.outcome.status is Status.PASSED, result.outcome


@pytest.mark.parametrize("target", ["mi300x", "rx9070xt", *NVIDIA])
def test_a_barrier_that_is_not_there(planted, target):
    assert planted[cell("with_barrier", target)].outcome.status is Status.PASSED
    without = planted[cell("without_barrier", target)]
    assert f"data_race: _reversed: workgroup_race at planted.py:{line_of_fault('_reversed')} " in (
        without.blobs["findings"].decode()
    )
    assert without.outcome.status in (Status.DATA_RACE, Status.WRONG_RESULT)


def test_a_result_that_depends_on_the_order_of_waves(planted):
    result = planted[cell("last_wins")]
    assert result.outcome.status in (Status.NONDETERMINISTIC, Status.DATA_RACE)
    assert result.verdict.repeatable is False


def test_a_launch_over_the_budget_is_refused(planted):
    outcome = planted[cell("huge_grid")].outcome
    assert outcome.status is Status.UNSUPPORTED
    assert "_double" in outcome.message
    assert "4194304 workgroups" in outcome.message
    assert outcome.message.endswith("allowed: 1000000000; --portkit-emulate-budget allows more")


def test_the_budget_is_the_users(session):
    one = cell("off_by_one")
    outcome = emulate(session, [one], lambda name: PLANTED, lane_instructions=1000)[one].outcome
    assert outcome.status is Status.UNSUPPORTED
    assert "allowed: 1000; --portkit-emulate-budget allows more" in outcome.message


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("trapping", Status.DEVICE_FAULT, ("trap at planted.py:{_trapping} `s_trap 2`",)),
        ("asserted", Status.DEVICE_FAULT, ("trap at planted.py:{_asserted} ", "assertion failed: 'too large', in ")),
        ("asserted_rightly", Status.PASSED, ()),
        ("printing", Status.PASSED, ()),
        ("misaligned_atomic", Status.DEVICE_FAULT, ("misaligned at planted.py:{_counted} ", "counter_ptr[2] of 16")),
        ("misaligned_load", Status.PASSED, ()),
        ("aliasing", Status.DATA_RACE, ("_race at planted.py:{_shifted} ", "y_ptr[")),
    ],
)
def test_what_no_kernel_should_do_has_its_status(planted, name, status, words):
    outcome = planted[cell(name)].outcome
    assert outcome.status is status, outcome
    for part in words:
        function = part.partition("{")[2].partition("}")[0]
        expected = part.format(**{function: line_of_fault(function)}) if function else part
        assert expected in outcome.message, outcome.message


def test_a_loop_without_end_ends_at_the_budget_with_its_line(session):
    one = cell("endless")
    outcome = emulate(session, [one], lambda name: PLANTED, lane_instructions=2_000_000)[one].outcome
    assert outcome.status is Status.TIMEOUT
    assert f"_endless: starvation at planted.py:{line_of_fault('_endless')} " in outcome.message
    assert "has not ended after 2000000 lane-instructions; does the kernel end?" in outcome.message


def test_limits_of_the_target_hold(planted):
    result = planted[cell("too_many_threads")]
    assert result.outcome.status is Status.OUT_OF_RESOURCES
    assert "2048" in result.outcome.message
    assert result.verdict is not None


@pytest.mark.parametrize(("target", "limit"), [("h100", 232448), ("mi300x", 65536)])
def test_more_shared_memory_than_any_gpu_has_is_the_targets_limit_and_no_failed_launch(planted, target, limit):
    outcome = planted[cell("staged", target)].outcome
    assert (outcome.status, outcome.stage) == (Status.OUT_OF_RESOURCES, Stage.LIMITS)
    needed, allowed = re.fullmatch(r"shared memory (\d+) B > (\d+) B", outcome.message).groups()
    assert int(allowed) == limit
    assert int(needed) > 2**18


@pytest.mark.parametrize(("target", "limit"), [("h100", 232448), ("mi300x", 65536)])
def test_of_configurations_none_of_which_fits_each_is_told(planted, target, limit):
    outcome = planted[cell("staged_tuned", target)].outcome
    assert outcome.status is Status.OUT_OF_RESOURCES
    needed = [re.fullmatch(rf"shared memory (\d+) B > {limit} B", part)[1] for part in outcome.message.split("; ")]
    assert int(needed[0]) - int(needed[1]) == 2 * 2 * 64 * 64 * 4  # two stages less of two tiles


def test_code_without_a_kernel_is_not_judged(planted):
    outcome = planted[cell("no_kernel")].outcome
    assert outcome.status is Status.CAPTURE_FAILED
    assert "no Triton kernel" in outcome.message


def test_host_code_can_not_hide_a_fault(planted):
    result = planted[cell("swallowed")]
    assert result.outcome.status is Status.OUT_OF_BOUNDS
    assert b"y_ptr" in result.blobs["findings"]


def test_an_instruction_that_is_not_modelled_is_named(planted):
    outcome = planted[cell("strange")].outcome
    assert outcome.status is Status.UNSUPPORTED
    assert "v_cvt_off_f32_i4" in outcome.message


def test_a_fault_of_the_backward_pass_comes_through_autograd(planted):
    assert planted[cell("backward_fault")].outcome.status is Status.PASSED
    outcome = planted[cell("backward_fault", direction=Direction.BACKWARD)].outcome
    assert outcome.status is Status.OUT_OF_BOUNDS
    assert f"planted.py:{line_of_fault('_off_by_one')}" in outcome.message


@pytest.mark.parametrize("target", ["mi300x", "rx9070xt"])
def test_kinds_of_arguments(planted, target):
    result = planted[cell("arguments", target)]
    assert result.outcome.status is Status.PASSED, result.outcome
    assert [launch.kernel for launch in result.build.launches] == ["_arguments", "_double"]


@pytest.mark.parametrize("target", ["mi300x", "rx9070xt"])
def test_tensor_descriptors_of_the_host(planted, target):
    result = planted[cell("described", target, (10, 100))]
    assert result.outcome.status is Status.PASSED, result.outcome


def test_a_sku_of_the_same_architecture_takes_the_result_over(planted):
    first, second = planted[cell("arguments")], planted[cell("arguments", "mi325x")]
    assert {first.seconds == 0.0, second.seconds == 0.0} == {True, False}
    assert first.verdict == second.verdict
    assert first.build == second.build


def test_an_autotuned_kernel_runs_in_the_first_configuration_that_can(planted):
    result = planted[cell("tuned")]
    assert result.outcome.status is Status.PASSED, result.outcome
    assert result.build.tuning.configurations == 2  # of three; the first is too large
    assert result.build.tuning.usable == 1
    assert "only the first" in result.nulls["verdict.configurations"]


def test_the_unfused_chain_sees_the_target_too(planted):
    result = planted[cell("asking_chain")]
    assert result.outcome.status is Status.PASSED, result.outcome
