"""What becomes of each kind of baseline, on the CPU with functions of plain PyTorch."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace

import pytest
import torch

from portkit.baselines import Library, liger, pytorch
from portkit.model import Baseline, Cell, Direction, KernelCase, Status, Work
from portkit.plan.baselines import EAGER
from portkit.run import measure
from portkit.run.baselines import DeviceLostError, Wanted, try_baselines
from portkit.run.compiler_hang import HANG
from portkit.run.evaluate import evaluate
from portkit.run.timing.samples import EVENTS, Samples
from portkit.run.torch_settings import SETTINGS, kept_settings
from portkit.run.watched import Runner

ABSENT = Library("no-such-library", "no_such_library")


def chain(x, y):
    return torch.exp(x) * y, x + y


def right(x, y):
    return torch.mul(x.exp(), y), torch.add(x, y)


def in_place(x, y):
    x.exp_().mul_(y)
    return x, y


def wrong(x, y):
    return torch.exp(x) * y * 1.01, x + y


def of_another_form(x, y):
    return torch.exp(x) * y


def of_another_dtype(x, y):
    return (torch.exp(x) * y).double(), x + y


def broken(x, y):
    raise AttributeError("module 'library' has no attribute 'fused'")


def missing(x, y):
    import no_such_library.inside

    return no_such_library.inside(x, y)


def of_other_settings(x, y):
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.benchmark = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    return right(x, y)


def faulting(x, y):
    raise RuntimeError("CUDA error: an illegal memory access was encountered\nfor debugging, pass this and that")


CASE = KernelCase(
    name="case",
    fused=chain,
    reference=chain,
    inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype), "y": make.uniform(shape, dtype)},
    work=lambda shape, dtype: Work(1, 2, 1),
    shapes=((64, 100),),
    small_shapes=((4, 100),),
    dtypes=("float32",),
    variants={"default": {}},
    directions=(Direction.FORWARD, Direction.BACKWARD),
    reduction_length=lambda shape: 1,
)
CELL = Cell("case", Direction.FORWARD, (64, 100), "float32", "default", "h200")


def tried(functions, *, case=CASE, cell=CELL, **wanted):
    case = replace(case, baselines=functions)
    done = evaluate(case, cell, Runner("cpu", lambda error, stage: None), seed=0)
    return try_baselines(case, cell, done, Wanted((EAGER, *functions), **wanted)), done


def test_one_that_is_right_is_timed():
    found, done = tried({"other": right})
    assert list(found.found) == list(found.calls) == ["eager", "other"]
    other = found.found["other"]
    assert (other.status, other.message, other.version) == (Status.PASSED, "", None)
    assert 0 <= other.error <= other.limit
    assert other.first_call_seconds > 0
    assert found.nulls == {}
    for got, wanted in zip(found.calls["other"](), chain(**done.inputs), strict=True):
        assert torch.equal(got, wanted)


@pytest.fixture
def measured(monkeypatch):
    """Measures the case on the CPU, each function once; a millisecond each."""

    def sampled(places, options, monitor):
        for functions in places:
            for function in functions.values():
                function()
        taken = dict.fromkeys(places[0], (1.0,) * 10)
        return Samples({EVENTS: taken}, flush_bytes=4, warmup=1)

    def on_the_cpu(case, cell, runner, *, seed):
        return evaluate(case, cell, Runner("cpu", lambda error, stage: None), seed=seed)

    monkeypatch.setattr(measure, "evaluate", on_the_cpu)
    monkeypatch.setattr(measure, "measure", sampled)
    monkeypatch.setattr(measure, "at_places", lambda make, inputs: [make(inputs)])
    monkeypatch.setattr(measure, "flush_size", lambda target: 4)
    monkeypatch.setattr(measure, "open_monitor", lambda: None)

    def run(functions, **wanted):
        case = replace(CASE, baselines=functions)
        return measure.measure_cell(case, CELL, None, baselines=Wanted((EAGER, *functions), **wanted))

    return run


def late():
    """Right twice, and then no more."""
    calls = itertools.count()

    def function(x, y):
        if next(calls) > 1:
            raise RuntimeError("no more workspace")
        return right(x, y)

    return function


def test_one_that_raises_among_the_samples_costs_only_itself(measured):
    found = measured({"late": late(), "later": late(), "other": right})
    assert found.outcome.status is Status.PASSED
    assert list(found.timing.baselines) == ["eager", "other"]
    for name in ("late", "later"):
        failed = found.baselines[name]
        assert failed.status is Status.BASELINE_FAILED
        assert failed.message == "raised among the samples: RuntimeError: no more workspace"
        assert found.nulls[f"speedup.{name}"] == f"baseline_failed: {failed.message}"


def test_one_that_ruins_the_device_among_the_samples_is_named(measured):
    with pytest.raises(DeviceLostError) as caught:
        measured({"other": right, "late": late()}, device_answers=lambda: False)
    assert caught.value.name == "late"


@pytest.fixture
def settings():
    """All of them as they were, and what they are now."""
    with kept_settings():
        yield lambda: [setting.get() for setting in SETTINGS]


def test_one_that_changes_settings_at_each_call_is_not_timed_and_changes_none_of_the_others(settings):
    before = settings()
    found, _ = tried({"other": of_other_settings, "next": right})
    other = found.found["other"]
    assert other.status is Status.BASELINE_FAILED
    assert "each call changes torch.set_default_dtype, torch.set_default_device, precision of" in other.message
    assert list(found.calls) == ["eager", "next"]
    assert settings() == before


def test_settings_that_a_library_sets_once_are_put_back_and_it_is_timed(settings):
    imported = []

    def once(x, y):
        return right(x, y) if imported else (imported.append(1), of_other_settings(x, y))[1]

    before = settings()
    found, _ = tried({"other": once})
    assert found.found["other"].status is Status.PASSED
    assert list(found.calls) == ["eager", "other"]
    assert settings() == before


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="from torch 2.9 on")
def test_a_precision_set_through_either_interface_is_put_back(settings):
    matmul, before = torch.backends.cuda.matmul, settings()
    for name, value in (("fp32_precision", "tf32"), ("allow_tf32", True)):
        with kept_settings() as kept:
            setattr(matmul, name, value)
        assert kept.changed == ("precision of float32 products (tf32)",)
        assert settings() == before
        assert matmul.allow_tf32 is False


@pytest.mark.parametrize("setting", SETTINGS[4:], ids=lambda setting: setting.name)
def test_each_switch_is_put_back(setting):
    before = setting.get()
    with kept_settings() as kept:
        setting.put(not before)
        assert setting.get() != before
    assert (kept.changed, setting.get()) == ((setting.name,), before)


def test_settings_are_put_back_after_one_that_raised(settings):
    def raising(x, y):
        of_other_settings(x, y)
        raise ValueError("too late")

    before = settings()
    assert tried({"other": raising})[0].found["other"].message == "ValueError: too late"
    assert settings() == before


def test_the_unfused_chain_has_the_error_that_the_limit_is_made_from():
    found, done = tried({})
    eager = found.found["eager"]
    assert eager.status is Status.PASSED
    ratios = {output.unfused_error / output.limit: output for output in done.verdict.outputs}
    nearest = ratios[max(ratios)]
    assert (eager.error, eager.limit) == pytest.approx((nearest.unfused_error, nearest.limit), rel=1e-3)


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        (wrong, Status.WRONG_RESULT, "output 0: error "),
        (of_another_form, Status.WRONG_RESULT, "1 outputs, the unfused chain has 2"),
        (of_another_dtype, Status.WRONG_RESULT, "output 0: torch.float64, the unfused chain's is torch.float32"),
        (broken, Status.BASELINE_FAILED, "AttributeError: module 'library' has no attribute 'fused'"),
        (missing, Status.BACKEND_MISSING, "no_such_library is not installed"),
        (ABSENT.call()(right), Status.BACKEND_MISSING, "no-such-library is not installed"),
    ],
)
def test_one_that_is_not_right_has_no_speedup_and_says_why(function, status, words):
    found, _ = tried({"other": function})
    other = found.found["other"]
    assert other.status is status
    assert words in other.message
    assert "\n" not in other.message
    assert list(found.calls) == ["eager"]
    assert found.nulls == {"speedup.other": f"{status}: {other.message}"}


def wide(x, y):
    own = torch.promote_types(x.dtype, torch.float32)
    return torch.exp(x.to(own)) * y.to(own)


@pytest.mark.parametrize(
    ("function", "status"),
    [
        (lambda x, y: wide(x, y).bfloat16(), Status.PASSED),
        (lambda x, y: (wide(x, y) * 1.02).bfloat16(), Status.WRONG_RESULT),
        (lambda x, y: wide(x, y).bfloat16().float(), Status.WRONG_RESULT),
        (lambda x, y: wide(x, y).half(), Status.WRONG_RESULT),
    ],
)
def test_an_output_in_the_cells_dtype_is_judged_by_that_ones_rounding(function, status):
    case = replace(CASE, fused=wide, reference=wide, dtypes=("bfloat16",))
    found, _ = tried({"other": function}, case=case, cell=replace(CELL, dtype="bfloat16"))
    assert found.found["other"].status is status


def test_a_wrong_one_tells_error_and_limit():
    other = tried({"other": wrong})[0].found["other"]
    assert other.limit < other.error < 0.02


def test_an_installed_library_with_a_missing_part_is_broken_and_not_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.util.find_spec("half_installed") is not None

    def call(x, y):
        import half_installed

        return half_installed.fused(x, y)

    library = Library("half-installed", "half_installed")
    found = tried({"plain": call, "marked": library.call()(call)})[0].found
    for each in found["plain"], found["marked"]:
        assert each.status is Status.BASELINE_FAILED
        assert each.message == "ModuleNotFoundError: No module named 'no_such_part'"


def test_one_in_place_works_on_inputs_of_its_own():
    _, whole = tried({})
    case = replace(CASE, fused=lambda x, y: (torch.exp(x) * y, y), reference=lambda x, y: (torch.exp(x) * y, y))
    found, done = tried({"inplace": in_place, "other": lambda x, y: (x.exp() * y, y)}, case=case)
    assert [each.status for each in found.found.values()] == [Status.PASSED] * 3
    found.calls["inplace"]()
    found.calls["inplace"]()
    assert all(torch.equal(done.inputs[name], whole.inputs[name]) for name in "xy")
    assert torch.equal(found.calls["other"]()[0], torch.exp(done.inputs["x"]) * done.inputs["y"])


def test_inputs_whose_rows_lie_apart():
    case = replace(
        CASE,
        inputs=lambda make, shape, dtype: {
            "x": make.uniform((shape[0], shape[1] + 32), dtype)[:, : shape[1]],
            "y": make.uniform((1, shape[1]), dtype).expand(shape),
        },
    )
    found, _ = tried({"other": right}, case=case)
    assert found.found["other"].status is Status.PASSED, found.found["other"]


def test_layout_is_prepared_once_and_outside_of_the_samples():
    prepared = []

    def side_by_side(x, y):
        prepared.append(1)
        return {"both": torch.cat([x, y], dim=-1)}

    @pytorch.TORCH.call(prepare=side_by_side)
    def packed(both):
        x, y = both.chunk(2, dim=-1)
        return x.exp() * y, x + y

    found, _ = tried({"packed": packed})
    assert found.found["packed"].status is Status.PASSED
    assert found.found["packed"].version == torch.__version__
    before = len(prepared)
    for _ in range(3):
        found.calls["packed"]()
    assert len(prepared) == before == 2  # once to judge, once for the samples


def test_what_ended_another_process_is_not_tried_again():
    told = []
    known = {"other": Baseline(Status.BASELINE_FAILED, "killed by SIGABRT")}
    found, _ = tried({"other": broken, "more": right}, known=known, trying=told.append)
    assert found.found["other"] is known["other"]
    assert told == ["eager", "more"]


def test_a_device_that_no_longer_answers_is_told():
    with pytest.raises(DeviceLostError) as raised:
        tried({"other": faulting}, device_answers=lambda: False)
    assert raised.value.name == "other"
    assert raised.value.found.status is Status.BASELINE_FAILED
    assert raised.value.found.message.startswith("RuntimeError: CUDA error: an illegal memory access")


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        (right, Status.PASSED, ""),
        (lambda x, y: (wrong(x, y)[0], x + y), Status.WRONG_RESULT, "output grad x: error"),
        (lambda x, y: tuple(t.detach() for t in chain(x, y)), Status.BASELINE_FAILED, "without torch.autograd"),
    ],
)
def test_gradients_are_judged_and_timed(function, status, words):
    cell = replace(CELL, direction=Direction.BACKWARD)
    found, _ = tried({"other": function}, cell=cell)
    assert found.found["other"].status is status
    assert words in found.found["other"].message
    if status is Status.PASSED:
        first, again = found.calls["other"](), found.calls["other"]()
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_an_unfused_chain_that_overflows_is_no_baseline():
    case = replace(
        CASE,
        fused=lambda x, y: (x.clone(), x + y),
        reference=lambda x, y: (x * 1e30 * 1e10 * 1e-40, x + y),  # Inf in float32, x in float64
    )
    found, _ = tried({"other": lambda x, y: (x.clone(), x + y)}, case=case)
    assert found.found["eager"].status is Status.WRONG_RESULT
    assert list(found.calls) == ["other"]
    assert found.nulls["speedup.eager"] == (
        "wrong_result: the unfused chain is not finite where the float64 reference is"
    )


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD])
def test_compile_is_judged_and_timed(tmp_path, monkeypatch, direction):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    cell = replace(CELL, direction=direction)
    done = evaluate(CASE, cell, Runner("cpu", lambda error, stage: None), seed=0)
    found = try_baselines(CASE, cell, done, Wanted(("eager", "compile")))
    compiled = found.found["compile"]
    assert compiled.status is Status.PASSED, compiled
    assert (compiled.version, list(found.calls)) == (torch.__version__, ["eager", "compile"])
    for _ in range(2):
        assert all(
            torch.allclose(a, b, atol=1e-6)
            for a, b in zip(found.calls["compile"](), found.calls["eager"](), strict=True)
        )
    assert list(tmp_path.iterdir())  # its cache is where it was told to be


def test_variants_share_what_is_compiled_and_other_shapes_do_not(monkeypatch):
    compiled = []

    def counted(graph, inputs):
        compiled.append(tuple(inputs[0].shape))
        return graph.forward

    monkeypatch.setattr(pytorch, "compiled", lambda function: torch.compile(function, backend=counted))
    cells = [replace(CELL, shape=(8, rows), variant=name) for rows in (3, 5, 3) for name in ("default", "other")]
    case = replace(CASE, variants={"default": {}, "other": {}})
    for cell in cells:
        found, _ = tried({"compile": None}, case=case, cell=cell)
        assert found.found["compile"].status is Status.PASSED
    assert compiled == [(8, 3), (8, 5), (8, 3)]


def test_a_compiler_that_refuses_is_a_baseline_that_failed(monkeypatch):
    def refuse(*arguments, **how):
        raise RuntimeError("torch.compile is not supported on this Python")

    monkeypatch.setattr(torch, "compile", refuse)
    done = evaluate(CASE, CELL, Runner("cpu", lambda error, stage: None), seed=0)
    found = try_baselines(CASE, CELL, done, Wanted(("eager", "compile"))).found
    assert (found["eager"].status, found["compile"].status) == (Status.PASSED, Status.BASELINE_FAILED)
    assert found["compile"].message == "RuntimeError: torch.compile is not supported on this Python"


def test_one_that_fails_when_it_is_repeated_does_not_reach_the_samples():
    calls = []

    def once(x, y):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("the buffer is gone")
        return right(x, y)

    found, _ = tried({"other": once, "more": right})
    assert found.found["other"].status is Status.BASELINE_FAILED
    assert found.found["other"].message == "RuntimeError: the buffer is gone"
    assert list(found.calls) == ["eager", "more"]


@pytest.mark.skipif(not liger.LIGER.installed, reason="Liger-Kernel is not installed")
def test_the_version_of_a_library_is_kept():
    found = tried({"other": liger.LIGER.call()(right)})[0].found["other"]
    assert (found.status, found.version) == (Status.PASSED, liger.LIGER.version)


@pytest.mark.parametrize("name", ["softmax", "sum_abs", "add_rms_norm"])
def test_pytorchs_own_operators_compute_what_their_cases_do(name):
    from pathlib import Path

    from portkit.model import CaseSource
    from portkit.run.load import load_case

    case = load_case(CaseSource(name, path=str(Path(__file__).parents[2] / "kernels" / f"{name}.py")))
    assert case.baselines["torch"] is getattr(pytorch, name)
    case = replace(case, fused=case.reference, variants={"default": {}})
    for dtype in case.dtypes:
        cell = Cell(name, Direction.FORWARD, case.small_shapes[0], dtype, "default", "h200")
        done = evaluate(case, cell, Runner("cpu", lambda error, stage: None), seed=0)
        found = try_baselines(case, cell, done, Wanted(("torch",))).found["torch"]
        assert found.status is Status.PASSED, (dtype, found)


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD])
def test_those_that_were_right_are_called_on_copies_of_the_inputs_too(direction):
    found, done = tried({"other": right, "in_place": in_place, "wrong": wrong}, cell=replace(CELL, direction=direction))
    copies = {name: value.clone() for name, value in done.inputs.items()}
    calls = found.on(copies)
    assert list(calls) == list(found.calls)
    for name, call in calls.items():
        for got, wanted in zip(call(), found.calls[name](), strict=True):
            assert torch.equal(got, wanted), name
    assert all(torch.equal(copies[name], done.inputs[name]) for name in copies)  # nobody wrote to them


def test_a_call_on_copies_reads_the_copies():
    found, done = tried({"other": right})
    copies = {name: torch.zeros_like(value) for name, value in done.inputs.items()}
    assert found.on(copies)["other"]()[1].count_nonzero() == 0


def test_trials_hold_no_reference():
    found, _ = tried({"other": right})
    assert all(trial.done.run is None for trial in found.trials.values())


@pytest.mark.parametrize("direction", [Direction.FORWARD, Direction.BACKWARD])
def test_what_is_timed_is_the_fused_function_and_all_that_were_right(direction):
    cell = replace(CELL, direction=direction)
    found, done = tried({"other": right, "wrong": wrong}, cell=cell)
    copies = {name: value.clone() for name, value in done.inputs.items()}
    calls = measure._functions(CASE, cell, done, found, copies)
    assert list(calls) == ["fused", "eager", "other"]
    for got, wanted in zip(calls["fused"](), calls["eager"](), strict=True):
        assert torch.equal(got, wanted)


def test_a_compiler_that_hung_is_not_imported_again(monkeypatch):
    monkeypatch.setenv(HANG, "importing PyTorch's compiler took over 120 s, at hangs.py:2 in <module>")
    done = evaluate(CASE, CELL, Runner("cpu", lambda error, stage: None), seed=0)
    found = try_baselines(CASE, CELL, done, Wanted(("eager", "compile", "compile_max_autotune")))
    assert found.found["eager"].status is Status.PASSED
    assert {name: each.status for name, each in found.found.items() if name != EAGER} == {
        "compile": Status.BASELINE_FAILED,
        "compile_max_autotune": Status.BASELINE_FAILED,
    }
    assert found.nulls["speedup.compile"].endswith("took over 120 s, at hangs.py:2 in <module>")
