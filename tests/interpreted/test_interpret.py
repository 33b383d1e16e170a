"""The four cases are right in the interpreter, and planted faults are found."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest

from portkit.errors import HostError

KERNELS = ("sum_abs", "add_rms_norm", "swiglu", "softmax")
FAULTY = Path(__file__).parent / "cases" / "faulty.py"
ROOT = Path(__file__).parents[2]

EXPECTED = {
    "right": ("passed", ""),
    "wrong_half": ("wrong_result", "output 0: error"),
    "missing_mask": ("wrong_result", "output 0: error"),
    "all_zeros": ("wrong_result", "0, not "),
    "wrong_shape": ("wrong_result", "output 0: shape (4,), the unfused chain's is (4, 1)"),
    "wrong_dtype": ("wrong_result", "output 0: torch.float64, the unfused chain's is torch.float32"),
    "two_outputs": ("wrong_result", "2 outputs, the unfused chain has 1"),
    "writes_inputs": ("wrong_result", "changed its inputs"),
    "nan_result": ("wrong_result", "output 0: NaN or Inf not where the reference has them"),
    "no_tensor": ("launch_error", "returned float, not a tensor"),
    "raising": ("launch_error", "ValueError: rows of this length are not served at cases/faulty.py:"),
    "raising_reference": ("reference_failed", "no such chain at cases/faulty.py:"),
    "float64_only": ("baseline_failed", "the eager chain lacks this dtype"),
    "says_nothing": ("weak_check", "all zeros"),
    "too_wide": ("weak_check", "all zeros, one element off, rows swapped"),
    "gap": ("unsupported", "a reason of its own"),
    "one_past_the_end": ("out_of_bounds", "output 0: written after its end, from byte 16000 of 16000"),
    "one_before_the_start": ("out_of_bounds", "output 0: written before its start, from byte -4"),
    "one_past_its_input": ("out_of_bounds", "x: written after its end, from byte 16000 of 16000"),
    "half_written": ("wrong_result", "output 0: 2000 of 4000 elements were never written"),
    "unsteady": ("nondeterministic", "3 runs on the same inputs gave different bits"),
    "unsteady_allowed": ("passed", ""),
    "in_place": ("passed", ""),
    "overflowing": ("wrong_result", "family large: output 0: NaN or Inf not where the reference has them"),
    "codes": ("passed", ""),
    "codes_exact": ("wrong_result", "of the elements differ (exact), first at"),
    "codes_off": ("wrong_result", "of a tie, within it off by 1 at most), first at"),
    "squares": ("passed", ""),
    "squares_wrong_gradient": ("wrong_result", "output grad x: error"),
    "squares_no_gradient": ("wrong_result", "grad weight: no gradient, unlike the unfused chain"),
    "raising_work": ("passed", ""),
}


@pytest.fixture(scope="module")
def kernel_results(interpret):
    """Of the smallest shape in every dtype; that the others are right, too, is of ``test_row_cases.py``."""
    return interpret(*[(ROOT / "kernels" / f"{name}.py", name) for name in KERNELS], smallest=True)


@pytest.fixture(scope="module")
def faulty_results(interpret):
    return {r["cell"]["case"]: r for r in interpret(*[(FAULTY, name) for name in EXPECTED])}


@pytest.mark.parametrize("name", KERNELS)
def test_case_is_right_in_every_dtype(kernel_results, name):
    own = [r for r in kernel_results if r["cell"]["case"] == name]
    assert {r["cell"]["dtype"] for r in own} == {"float32", "float16", "bfloat16"}
    assert [r["outcome"] for r in own if r["outcome"]["status"] != "passed"] == []


def test_every_verdict_carries_refused_controls(kernel_results):
    for result in kernel_results:
        controls = result["verdict"]["controls"]
        rows = {"rows_swapped": True} if result["cell"]["case"] != "sum_abs" else {}  # a scalar has no rows
        assert controls == {"all_zeros": True, "one_element_off": True, "stale_output": True, **rows}


def test_cutting_to_bfloat16_is_in_the_rule(kernel_results):
    own = [r for r in kernel_results if r["cell"]["case"] == "swiglu"]
    rules = {r["cell"]["dtype"]: r["verdict"]["outputs"][0]["rule"] for r in own}
    assert "cutting to bfloat16 7.8e-03" in rules["bfloat16"]
    assert "rounding to float16 " in rules["float16"]


def test_interpreted_results_have_neither_build_nor_time(kernel_results):
    for result in kernel_results:
        assert result["build"] is None
        assert result["timing"] is None
        assert {"build", "timing"} <= set(result["nulls"])


@pytest.mark.parametrize("name", EXPECTED)
def test_planted_fault_is_found(faulty_results, name):
    status, words = EXPECTED[name]
    outcome = faulty_results[name]["outcome"]
    assert outcome["status"] == status, outcome
    assert words in outcome["message"]


def test_the_documented_case_runs(interpret, tmp_path):
    text = (ROOT / "docs" / "kernels.md").read_text()
    file = tmp_path / "scale_add.py"
    file.write_text(text.split("```python\n")[1].split("```")[0])
    assert [r["outcome"]["status"] for r in interpret((file, "scale_add"))] == ["passed", "passed"]


def test_a_process_without_the_interpreter_is_refused(monkeypatch):
    from portkit.run.interpret import interpret_cell

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(HostError, match="TRITON_INTERPRET=1 before Triton"):
        interpret_cell(None, None)


def test_a_device_function_searches_for_nothing_that_its_launch_has_replaced(monkeypatch):
    import triton.language as tl
    from triton.runtime import interpreter

    from portkit.run.interpret import _patch_once

    if not hasattr(interpreter, "_LangPatchScope"):
        pytest.skip("Triton 3.5 replaces operations for good")
    searched = []
    monkeypatch.setattr(interpreter, "_patch_lang", searched.append)
    _patch_once.__wrapped__()
    of_tl, of_both = (FunctionType((lambda: None).__code__, names) for names in ({"tl": tl}, {"tl": tl, "c": tl.core}))
    interpreter._patch_lang(of_tl)
    assert searched == [of_tl]
    monkeypatch.setattr(tl, "load", lambda: None)  # as a launch does
    interpreter._patch_lang(of_tl).restore()
    assert searched == [of_tl]
    interpreter._patch_lang(of_both)  # whose other module no launch has replaced
    assert searched == [of_tl, of_both]
