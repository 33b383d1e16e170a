"""portkit toggle at work on a CPU: models that are right, wrong, random, broken, and processes that die."""

import json
import os
import signal
import sys
import textwrap
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

import portkit
from portkit.cli import main
from portkit.errors import CaseError
from portkit.plan.toggle import ToggleRequest, read_subject, read_variant
from portkit.run.toggle import counting, process, ways
from portkit.run.toggle.agreement import Judge
from portkit.run.toggle.counting import attention_flops, count
from portkit.run.toggle.inductor import graph_breaks
from portkit.run.toggle.process import toggle
from portkit.run.toggle.subjects import Arguments, build, make_arguments, run

MODELS = """
    import os, time
    import torch
    import toggle_library
    from torch import nn

    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return {"y": torch.relu(self.linear(x)) * 2}

    def build():
        print("what a model prints is not part of the answer")
        return Doubled()

    def wrong():
        built = Doubled()
        built.register_forward_hook(lambda module, given, result: {"y": result["y"] * 1.01})
        return built

    def library():
        return toggle_library.Layer()

    def breaks_the_class():
        toggle_library.Layer.forward = lambda self, x: 1 / 0
        return toggle_library.Layer()

    def patches_the_class():
        toggle_library.Layer.forward = lambda self, x: self.linear(x)
        return toggle_library.Layer()

    def slows_the_library():
        forward = nn.Linear.forward
        def slow(self, x):
            time.sleep(0.02)
            return forward(self, x)
        nn.Linear.forward = slow
        return toggle_library.Layer()

    def needs(size):
        return Doubled()

    def random():
        return nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5))

    def of_float32_alone():
        return lambda x: x.to(torch.float32).softmax(-1)

    def of_text():
        return lambda x: "text"

    def a_tensor():
        return torch.ones(3)

    def dies():
        os.abort()

    def leaves():
        raise SystemExit(3)

    def hangs():
        time.sleep(1000)

    class Held:
        broken = property(lambda self: 1 / 0)

    held = Held()
    size = 3
"""


LIBRARY = """
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x) + 1
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "toggle_library", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "toggle_library.py").write_text(textwrap.dedent(LIBRARY), encoding="utf-8")
    path = tmp_path / "models.py"
    path.write_text(textwrap.dedent(MODELS), encoding="utf-8")
    return path


def request(models, function="build", inputs=("f32[4,16]",), variants=(), modes=()):
    others = tuple(read_variant(f"{name}={models}:{name}") for name in variants)
    return ToggleRequest(read_subject(f"{models}:{function}"), others, inputs, modes, "cpu", seconds=0.2)


def experiment(*given, **named):
    with torch.no_grad():
        return ways.Experiment(request(*given, **named), lambda text: None).run()


def test_eager_beside_variants(models):
    found = experiment(models, variants=("wrong",))
    eager, wrong = found.ways
    assert (eager.launches, eager.moved_bytes) == (3, 4 * (16 + 16 * 16 + 64 + 64) + 4 * 4 * 64)
    assert found.flops == 2 * 4 * 16 * 16
    assert found.dtype == "float32"
    assert found.rounds >= 8
    assert wrong.agreement.against == "float64"
    assert wrong.speedup.low <= wrong.speedup.value <= wrong.speedup.high
    assert not wrong.agreement.right
    assert wrong.agreement.rms == pytest.approx(0.01, rel=0.02)


def test_a_model_without_a_float64_twin_is_held_against_eager(models):
    found = experiment(models, "of_float32_alone", variants=("of_float32_alone",))
    assert "no float64 reference" in found.nulls["reference"]
    assert found.ways[1].agreement.against == "eager"
    assert found.ways[1].agreement.right


def test_a_random_model_is_not_judged(models):
    found = experiment(models, "random")
    assert found.ways[0].agreement is None
    assert ".eval()" in found.nulls["agreement"]


@pytest.mark.parametrize(
    ("function", "inputs", "wrong", "right"),
    [
        ("biuld", ("f32[4,16]",), "has no biuld", "did you mean build"),
        ("size.deep", ("f32[4,16]",), "has no size.deep", ""),
        ("held.broken", ("f32[4,16]",), "broken of held.broken can't be read: ZeroDivisionError", "name a function"),
        ("size", ("f32[4,16]",), "is a value of type int and no function", "without arguments"),
        ("needs", ("f32[4,16]",), "missing 1 required positional argument: 'size'", "needs no arguments"),
        ("a_tensor", ("f32[4,16]",), "a value of type Tensor, which is no model", "torch.nn.Module"),
        ("of_text", ("f32[4,16]",), "a value of type str without a tensor in it", "return a tensor"),
        ("build", ("f32[4,17]",), "does not run on these inputs: RuntimeError", "--input"),
        ("build", ("bf16[4,16]",), "does not run on these inputs: RuntimeError", "in the dtype of its weights"),
        ("build", ("z=f32[4,16]",), "unexpected keyword argument 'z'", "--input NAME="),
        (
            "build",
            ("f32[1000000,1000000]",),
            "3,725.3 GiB can't be made on cpu: RuntimeError: this host has",
            "smaller ones",
        ),
    ],
)
def test_models_that_cannot_be_used(models, function, inputs, wrong, right):
    with pytest.raises(CaseError) as caught:
        experiment(models, function, inputs)
    assert wrong in caught.value.message
    assert right in caught.value.remedy


@pytest.mark.slow
def test_a_variant_may_patch_what_the_model_is_made_of(models):
    variants = ("library", "patches_the_class", "slows_the_library", "breaks_the_class", "dies", "missing")
    found = experiment(models, "library", variants=variants)
    eager, same, patched, slow, broken, dead, missing = found.ways
    assert eager.wall.median_ms < 5
    assert same.agreement.right
    assert 0.3 < same.speedup.value < 3
    assert not patched.agreement.right
    assert slow.agreement.right
    assert slow.wall.median_ms > 20
    assert "ZeroDivisionError" in broken.failed
    assert dead.failed == "its process ended with signal SIGABRT"
    assert missing.failed == f"{models}:missing: has no missing"


EXAMPLES = Path(portkit.__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("model", "given", "shape"),
    [
        ("toggle_llama_block.py:build_small", "f32[1,16,256]", (1, 16, 256)),
        ("toggle_llama_block.py:build_fused_norm", "f32[1,16,256]", (1, 16, 256)),
        ("toggle_vit.py:build", "f32[1,3,64,64]", (1, 100)),
    ],
)
def test_models_of_the_examples_run(model, given, shape):
    subject = read_subject(f"{EXAMPLES}/{model}")
    arguments = make_arguments((given,), "cpu", 0)
    with torch.no_grad():
        (result,) = run(build(subject, "cpu", 0), arguments, subject)
    assert result.shape == shape
    assert result.isfinite().all()


def test_the_example_of_transformers_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(CaseError, match=r"ModuleNotFoundError[\s\S]*install what it imports beside portkit"):
        build(read_subject(f"{EXAMPLES}/toggle_llama_liger.py:build"), "cpu", 0)


def test_a_mode_that_does_not_compile_costs_itself_alone(models, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(ways.inductor, "load", lambda device: 1.5)
    monkeypatch.setattr(ways.inductor, "compile_model", refuse)
    found = experiment(models, modes=("default",))
    assert found.ways[0].wall is not None
    assert found.loading_s == 1.5
    assert found.ways[1].failed == "torch.compile fails: RuntimeError: no compiler here"


def test_graph_breaks_have_place_and_reason():
    def model(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    (found,) = graph_breaks(model, Arguments((torch.ones(3),), {}))
    assert "test_toggle.py:" in found.place
    assert "graph_break()" in found.reason


# --------------------------------------------------------------------------
# Counting and judging


def test_tensors_in_lists_are_float64_too():
    wide = Arguments(([torch.ones(2), 3],), {"by": {"name": torch.ones(1, dtype=torch.int64)}}).to_float64()
    assert wide.positional[0][0].dtype == torch.float64
    assert wide.named["by"]["name"].dtype == torch.int64


def test_views_move_nothing_and_a_lookup_reads_what_it_returns():
    table, rows = torch.ones(1000, 8), torch.tensor([1, 2])
    assert count(lambda: table.view(8, 1000).t()).operations == 0
    assert count(lambda: torch.ops.aten._unsafe_view(table, [8, 1000])).operations == 0
    assert count(lambda: torch.nn.functional.embedding(rows, table)).moved_bytes == 2 * 2 * 8 * 4


def test_attention_of_shared_heads_is_counted_and_what_is_refused_costs_its_own_figure(monkeypatch):
    query, key = torch.ones(2, 8, 16, 32), torch.ones(2, 2, 24, 32)
    call = partial(torch.nn.functional.scaled_dot_product_attention, query, key, key, enable_gqa=True)
    assert attention_flops(query.shape, key.shape, key.shape) == 2 * 2 * 8 * (16 * 32 * 24 + 16 * 24 * 32)
    assert count(call).operations > 0

    def refused(*shapes, **named):
        raise AssertionError("shapes are incompatible")

    monkeypatch.setattr(counting, "attention_flops", refused)
    one = torch.ones(2, 8, 16, 32)
    found = count(lambda: torch.nn.functional.scaled_dot_product_attention(one, one, one))
    assert (found.flops, found.moved_bytes > 0) == (None, True)
    assert found.why == "floating-point operations could not be counted: AssertionError: shapes are incompatible"
    monkeypatch.undo()
    assert (
        count(lambda: torch.nn.functional.scaled_dot_product_attention(one, one, one)).flops == 4 * 2 * 8 * 16 * 16 * 32
    )


def test_what_is_overwritten_is_not_read_and_dtypes_are_no_operation():
    table, out = torch.ones(100, 8), torch.empty(100, 8)
    assert count(lambda: out.copy_(table)).moved_bytes == 2 * table.nbytes
    assert count(out.zero_).moved_bytes == table.nbytes
    assert count(lambda: torch.add(table, 1, out=out)).moved_bytes == 2 * table.nbytes
    assert count(lambda: out.add_(table)).moved_bytes == 3 * table.nbytes
    assert count(lambda: torch.promote_types(torch.bfloat16, torch.float32)).operations == 0


@pytest.mark.parametrize(("dtype", "off"), [(torch.bfloat16, 0.05), (torch.float32, 1e-4)])
def test_the_judge_refuses_one_wrong_element_and_takes_rounding(dtype, off):
    exact = torch.linspace(-1, 1, 4096, dtype=torch.float64)
    eager = exact.to(dtype)
    judge = Judge((eager,), (exact,))
    assert judge.judge(((exact * (1 + torch.finfo(dtype).eps / 4)).to(dtype),)).right
    wrong = eager.clone()
    wrong[7] += 8 * off
    assert not judge.judge((wrong,)).right
    missing = eager.clone()
    missing[7] = torch.nan
    assert "NaN" in judge.judge((missing,)).why_wrong
    assert "returns tensors of" in judge.judge((eager[:5],)).why_wrong


# --------------------------------------------------------------------------
# Processes


@pytest.mark.parametrize(
    ("function", "limit", "told"),
    [
        ("dies", 60, "ended with signal SIGABRT while building the model"),
        pytest.param("leaves", 60, "the model ended the process: exit 3", marks=pytest.mark.slow),
        ("hangs", 1, "no end after 1 s"),
    ],
)
def test_a_process_that_ends_or_does_not(models, function, limit, told):
    with pytest.raises(CaseError, match=told):
        toggle(request(models, function), limit, lambda text: None)


def test_a_request_to_end_leaves_no_process_behind(models):
    before = psutil.Process().children(recursive=True)  # other tests of this process may have left theirs
    with pytest.raises(KeyboardInterrupt):
        toggle(request(models, "hangs"), 60, lambda text: os.kill(os.getpid(), signal.SIGTERM))
    assert not {*psutil.Process().children(recursive=True)} - {*before}


def test_what_takes_long_is_said_to_be_under_way(monkeypatch):
    stages = []
    said = process._Said(stages.append)
    monkeypatch.setattr(process, "_STILL_SECONDS", 0.0)
    for line in ("building the model", "", "timing"):
        said.hear(line)
    assert stages == ["building the model", "still building the model, 0 s", "timing"]


@pytest.mark.slow
def test_compiled_with_inductors_cpp_backend(models, capsys):
    assert main(["toggle", f"{models}:build", "--input", "f32[4,16]", "--modes", "default", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    eager, compiled = found["ways"]
    assert compiled["agreement"]["right"]
    assert compiled["first_call_s"] > 0
    assert 0 < compiled["moved_bytes"] < eager["moved_bytes"]
    assert compiled["generated"]["graphs"] == 1
    fused = {each for kernel in compiled["generated"]["kernels"] for each in kernel["operations"]}
    assert {"mul", "relu"} <= fused
    assert compiled["launches"] == 2  # the product, and relu with the doubling
    assert found["breaks"] == []
    assert found["time_goes_to"]["eager"]["bound"] is None
