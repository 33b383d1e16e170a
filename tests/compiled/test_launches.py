"""What makes a launch, its figures and its refusal."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.autotuner import Autotuner
from workshop import cell_of

from portkit.model import Direction, Resources, Stage, Status
from portkit.run import capture
from portkit.run.capture import Recorder
from portkit.run.classify import classify
from portkit.run.shim import UnknownPropertyError, answers_for
from portkit.run.tuning import marked_trials
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import occupancy

ON_BOTH = ("three_axes", "tall", "deep", "wide", "widest")
ON_H200 = (
    *("fraction", "negative", "empty", "empty_and_not", "many", "returns_nothing", "returns_a_dict", "random_state"),
    *("lengths", "worked", "worked_wrongly"),
)
LARGE = (2**26,)


@pytest.fixture(scope="module")
def built(workshop):
    cells = [cell_of(name, target) for name in ON_BOTH for target in ("h200", "mi300x")]
    cells += [cell_of(name, "h200") for name in ON_H200]
    cells += [cell_of("lengths", "a100", LARGE), cell_of("without_gradient", "h200", direction=Direction.BACKWARD)]
    results = workshop.build_cases("launches.py", *cells)
    return {(result.cell.case, result.cell.target): result for result in results}


def test_a_grid_has_three_axes_in_order(built):
    assert built["three_axes", "h200"].build.launches[0].grid == (2, 3, 5)
    assert built["three_axes", "mi300x"].outcome.status is Status.BUILT


@pytest.mark.parametrize(
    ("name", "h200", "mi300x"),
    [
        ("tall", "grid y 65536 blocks > 65535", ""),
        ("deep", "grid z 65536 blocks > 65535", ""),
        ("wide", "", "grid x 4294967296 threads > 4294967295"),  # 2^24 blocks of 256 threads; NVIDIA: of 128
        (
            "widest",
            "grid x 2147483648 blocks > 2147483647",
            "grid x 2147483648 blocks > 2147483647; grid x 549755813888 threads > 4294967295",
        ),
    ],
)
def test_a_grid_over_the_platforms_limit(built, name, h200, mi300x):
    for target, text in (("h200", h200), ("mi300x", mi300x)):
        outcome = built[name, target].outcome
        assert outcome.message == text
        assert outcome.status is (Status.OUT_OF_RESOURCES if text else Status.BUILT)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fraction", "the grid of copy has 2.0 blocks on an axis: 'float' object cannot be interpreted as an integer"),
        ("negative", "the grid of copy has -1 blocks on an axis"),
    ],
)
def test_a_grid_that_no_launcher_takes(built, name, text):
    outcome = built[name, "h200"].outcome
    assert (outcome.status, outcome.stage) == (Status.LAUNCH_ERROR, Stage.RUN)
    assert text in outcome.message
    assert " at cases/launches.py:" in outcome.message


def test_an_empty_grid_runs_nothing_and_has_no_figures(built):
    alone, beside = built["empty", "h200"], built["empty_and_not", "h200"]
    assert (alone.outcome.status, alone.build) == (Status.CAPTURE_FAILED, None)
    assert alone.outcome.message == "nothing runs: the grid of copy is empty"
    assert (beside.outcome.status, beside.build.launch_count) == (Status.BUILT, 1)
    assert beside.nulls["build.empty_grids"] == "launches of copy with an empty grid run nothing and are left out"


def test_thousands_of_launches_are_read_once(built):
    result = built["many", "h200"]
    assert (result.outcome.status, result.build.launch_count) == (Status.BUILT, 2000)
    assert [launch.count for launch in result.build.launches] == [2000]


@pytest.mark.parametrize(("name", "kind"), [("returns_nothing", "NoneType"), ("returns_a_dict", "dict")])
def test_results_must_be_tensors(built, name, kind):
    outcome = built[name, "h200"].outcome
    assert outcome.status is Status.CAPTURE_FAILED
    assert f"TypeError: returned {kind}, not a tensor or a tuple of tensors" in outcome.message


def test_a_backward_cell_without_a_gradient_is_not_built(built):
    outcome = built["without_gradient", "h200"].outcome
    assert outcome.status is Status.CAPTURE_FAILED
    assert "no output has a gradient" in outcome.message


def test_inputs_may_read_values_of_what_they_made(built):
    assert built["lengths", "h200"].outcome.status is Status.BUILT
    refused = built["lengths", "a100"].outcome  # 1 GiB, known only once the values are there
    assert refused.status is Status.CAPTURE_FAILED
    assert "the inputs are too large to make for real (over 512 MiB)" in refused.message


def test_a_work_model_of_no_use_costs_only_itself(built):
    raised, nothing = built["worked", "h200"], built["worked_wrongly", "h200"]
    assert (raised.outcome.status, raised.work) == (nothing.outcome.status, nothing.work) == (Status.BUILT, None)
    assert raised.nulls["work"].startswith("the case's work model raised KeyError: 'no model for (256,)' at ")
    assert nothing.nulls["work"] == "the case's work model returned NoneType, not portkit.Work"


def test_random_states_are_there(built):
    assert built["random_state", "h200"].outcome.status is Status.BUILT, built["random_state", "h200"].outcome.message


def test_a_question_without_an_answer_is_logged_and_shared_with_nobody():
    answers = answers_for(load_catalog().get("h200"))
    with pytest.raises(UnknownPropertyError):
        _ = answers["clock_rate"]
    assert answers.asked == {"clock_rate": None}
    assert not answers_for(load_catalog().get("h100")).same_for(answers.asked)


@triton.jit
def product(x, y, z, B: tl.constexpr):
    i = tl.arange(0, B)
    o = i[:, None] * B + i[None, :]
    tl.store(z + o, tl.dot(tl.load(x + o), tl.load(y + o)))


def compiled(capability, dtype):
    signature = {"x": f"*{dtype}", "y": f"*{dtype}", "z": "*fp32", "B": "constexpr"}
    return triton.compile(ASTSource(product, signature, {"B": 128}), target=GPUTarget("cuda", capability, 32))


@pytest.fixture(scope="module")
def blackwell():
    return compiled(100, "fp16")


def test_shared_and_tensor_memory_enter_occupancy(blackwell):
    target = load_catalog().get("b200")
    launch = Recorder(target).describe(blackwell, (1, 1, 1))
    shared, columns = blackwell.metadata.shared, blackwell.metadata.tmem_size
    assert (shared >= 2 * 128 * 128 * 2, columns) == (True, 128)
    assert launch.resources.raw["tensor_memory_columns"] == columns
    needs = {"registers": launch.resources.registers_per_thread, "threads": 128}
    assert launch.occupancy == occupancy(
        target.architecture, shared_bytes=shared, tensor_memory_columns=columns, **needs
    )
    assert launch.occupancy.limits["tensor memory"] == 512 // columns
    assert launch.occupancy.limits["shared memory"] == 228 * 1024 // (shared + 1024)


def test_shared_memory_over_the_limit():
    kernel = compiled(86, "fp32")  # two operands of 64 KiB
    launch = Recorder(load_catalog().get("sm86")).describe(kernel, (1, 1, 1))
    assert launch.limits_broken == (f"shared memory {kernel.metadata.shared} B > 101376 B",)
    assert launch.occupancy.percent == 0


def test_a_binary_is_read_once_and_the_build_key_is_that_of_all_launches(blackwell, monkeypatch):
    reads = []
    original = capture.kernel_resources
    monkeypatch.setattr(capture, "kernel_resources", lambda *given: reads.append(1) or original(*given))
    recorder = Recorder(load_catalog().get("b200"))

    def key(*kernels):
        for kernel in kernels:
            recorder.record(kernel, (1, 1, 1))
        return recorder.take().build_key

    other = compiled(100, "bf16")
    keys = [key(blackwell), key(blackwell), key(other), key(blackwell, other), key(blackwell, blackwell)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    assert len(reads) == 2


def test_what_loading_a_kernel_would_tell():
    kernel = SimpleNamespace()
    capture._set_load_figures(kernel, Resources(40, 96, 0, 128, 32), 1024)
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (40, 24, 1024)  # spills in words of 4 bytes


def test_trials_on_a_device_are_marked(monkeypatch):
    recorder = Recorder(load_catalog().get("h200"))
    seen = []
    monkeypatch.setattr(Autotuner, "_bench", lambda tuner, *args, config, **meta: seen.append(recorder.trial))
    with marked_trials(recorder):
        Autotuner._bench(None, config=triton.Config({}))
    assert (seen, recorder.trial) == ([True], False)


def test_a_cache_that_can_not_be_written_says_nothing_about_the_kernel(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(OSError, match="file") as raised:
        compiled(80, "fp16")
    outcome = classify(raised.value)
    assert (outcome.status, outcome.stage) == (Status.CAPTURE_FAILED, Stage.COMPILE)
    assert "NotADirectoryError" in outcome.message
    assert "TRITON_CACHE_DIR" in outcome.message
    assert str(tmp_path) not in outcome.message
