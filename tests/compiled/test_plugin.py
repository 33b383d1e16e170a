"""``pytest --benchmark`` as a user runs it, in processes of its own."""

from __future__ import annotations

import json
import os
import textwrap

import pytest

KERNELS = """
import os

import torch
import triton
import triton.language as tl

import portkit


@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


def fused(x, num_warps):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256, num_warps=num_warps)
    return y


def case(name, fused=fused, reference=lambda x: x * 2):
    return portkit.KernelCase(
        name=name,
        fused=fused,
        reference=reference,
        inputs=lambda make, shape, dtype: {"x": make.uniform(shape, dtype)},
        work=lambda shape, dtype: portkit.Work(8 * shape[0], 8 * shape[0], shape[0]),
        shapes=((1000,),),
        small_shapes=((100,),),
        dtypes=("float32",),
        variants={"w4": {"num_warps": 4}, "w32": {"num_warps": 32}},
    )


def wrong(x, num_warps):
    return fused(x, num_warps) + 1


def no_reference(x):
    raise ValueError("not for this shape")


double = case("double")
"""

MATRIX = """
version: 1
kernels:
  double: {path: kernels.py}
targets: [h200, mi300x, rx7900xtx]
tiers:
  quick:
    double: {variants: [w4]}
"""


@pytest.fixture
def project(pytester):
    """A user's folder with one kernel file and a matrix."""
    pytester.path.joinpath("kernels.py").write_text(KERNELS)
    pytester.path.joinpath("matrix.yaml").write_text(MATRIX)
    return pytester


def lines(project):
    (path,) = project.path.glob("reports/local/*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def benchmark(project, *arguments):
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # the second loads for half a second
    return project.runpytest_subprocess("--benchmark", *without, *arguments)


def test_one_run_of_the_matrix(project):
    project.path.joinpath("test_other.py").write_text("def test_other():\n    assert False\n")
    result = benchmark(project, "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines_random(
        [
            "*matrix.yaml::double[[]h200-1000-float32-w4-compiled[]] PASSED*",
            "*matrix.yaml::double[[]mi300x-1000-float32-w4-compiled[]] PASSED*",
            "*matrix.yaml::double[[]mi300x-100-float32-w4-emulated[]] PASSED*",
            "*matrix.yaml::double[[]interpreter-100-float32-w4-interpreted[]] PASSED*",
            "report: reports/local/*.jsonl (7 of 7 cells)",
            "cells:   7 passed, 0 failed, 0 expected, 0 excluded",
            "next:   portkit report reports/local/*.jsonl",
        ]
    )
    result.stdout.no_fnmatch_line("*test_other*")
    header, *records, end = lines(project)
    assert (header["kind"], header["cells"], end["kind"], end["records"]) == ("header", 7, "end", 7)
    emulated = {record["cell"]["target"]: record for record in records if record["evidence"] == "emulated"}
    by_target = {record["cell"]["target"]: record for record in records if record["evidence"] != "emulated"}
    assert by_target["h200"]["build"]["launches"][0]["resources"]["warp_size"] == 32
    assert by_target["mi300x"]["build"]["launches"][0]["resources"]["warp_size"] == 64
    assert by_target["h200"].get("timing") is None
    assert "not run" in by_target["h200"]["nulls"]["timing"]
    assert by_target["interpreter"].get("build") is None
    assert by_target["interpreter"]["verdict"]["outputs"][0]["fused_error"] == 0.0
    assert emulated.keys() == {"h200", "mi300x", "rx7900xtx"}
    for record in emulated.values():
        assert record["verdict"]["outputs"][0]["fused_error"] == 0.0
        assert record["verdict"]["output_hash"] == by_target["interpreter"]["verdict"]["output_hash"]
        assert record["build"]["launches"][0]["resources"]["registers_per_thread"] > 0


def test_emulation_is_a_choice_and_has_rules_of_its_own(project):
    result = benchmark(project, "--portkit-target", "mi300x", "--portkit-emulate", "off")
    result.assert_outcomes(passed=1)
    rule = "exclude:\n  - {target: mi300x, evidence: emulated, reason: for speed}\n"
    project.path.joinpath("matrix.yaml").write_text(MATRIX + rule)
    result = benchmark(project, "-k", "emulated", "--portkit-report", "other")
    result.assert_outcomes(passed=2, skipped=1, deselected=4)


def test_plain_pytest_collects_the_tests(project):
    project.path.joinpath("test_other.py").write_text("def test_other():\n    pass\n")
    result = project.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*matrix.yaml*")


def test_limits_of_the_target_and_what_fails_do_not_hide_the_rest(project):
    result = benchmark(project, "--portkit-tier", "full", "--portkit-target", "h200,mi300x")
    result.assert_outcomes(passed=6, failed=2)
    assert result.ret == 1  # built and emulated alike
    result.stdout.fnmatch_lines(["*out_of_resources (limits): threads 2048 > 1024*"])
    assert lines(project)[-1].get("exit", "complete") == "complete"


def test_an_expected_gap_is_xfailed_and_a_closed_one_fails(project):
    matrix = MATRIX + textwrap.dedent(
        """
        expect:
          - {target: mi300x, variant: w32, triton: "<3", status: compile_error, reason: of a Triton that is not here}
          - {target: mi300x, variant: w32, triton: ">=3", status: out_of_resources, reason: wave64 makes it 2048}
          - {kernel: double, target: h200, variant: w32, status: out_of_resources, reason: was so once}
          - {target: rx7900xtx, shape: 1000, triton: "<3", status: timeout, reason: of a Triton that is not here}
        """
    )
    project.path.joinpath("matrix.yaml").write_text(matrix)
    result = benchmark(project, "--portkit-tier", "full", "-k", "w32 and compiled", "-rx")
    result.assert_outcomes(xfailed=1, failed=1, passed=1)
    result.stdout.fnmatch_lines(["*expected out_of_resources (was so once), got built*"])
    statuses = {line["cell"]["target"]: line.get("expected") for line in lines(project)[1:-1]}
    assert statuses == {"mi300x": "out_of_resources", "h200": "out_of_resources", "rx7900xtx": None}


def test_excluded_cells_are_skipped_and_recorded(project):
    matrix = MATRIX + "exclude:\n  - {kernel: double, target: h200, reason: not ours}\n"
    project.path.joinpath("matrix.yaml").write_text(matrix)
    result = benchmark(project, "--portkit-target", "h200")
    result.assert_outcomes(skipped=2)  # built and emulated
    for record in lines(project)[1:-1]:
        assert record["outcome"] == {"status": "excluded", "stage": "plan", "message": "not ours"}


def test_a_selection_by_keyword_and_by_node_id(project):
    result = benchmark(project, "-k", "mi300x")
    result.assert_outcomes(passed=2, deselected=5)
    result = benchmark(project, "matrix.yaml::double[h200-1000-float32-w4-compiled]")
    result.assert_outcomes(passed=1)


def test_a_wrong_kernel_is_told_from_a_right_one(project):
    text = KERNELS + '\nwrong_double = case("wrong_double", fused=wrong)\n'
    project.path.joinpath("kernels.py").write_text(text)
    matrix = MATRIX.replace("targets:", "  wrong_double: {path: kernels.py}\ntargets:")
    project.path.joinpath("matrix.yaml").write_text(matrix)
    result = benchmark(project, "--portkit-target", "interpreter")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*wrong_result*"])
    result.stdout.fnmatch_lines(
        [
            "cells: *, 1 failed, 0 expected, 0 excluded",
            "next:   portkit show 'wrong_double[[]interpreter-*[]]' reports/local/*.jsonl",
            "        portkit report reports/local/*.jsonl",
        ]
    )


def test_a_choice_of_no_cell_is_told_with_the_nearest_kernel(project):
    result = benchmark(project, "--portkit-target", "h200", "-k", "duoble and h200")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["portkit: no cell * matches -k 'duoble and h200': did you mean double[?]"])


def test_a_broken_kernel_file_costs_only_itself(project):
    project.path.joinpath("broken.py").write_text("import portkit\n\nimport no_such_module\n")
    matrix = MATRIX.replace("targets:", "  broken: {path: broken.py}\ntargets:")
    project.path.joinpath("matrix.yaml").write_text(matrix)
    result = benchmark(project, "--portkit-target", "h200")
    result.assert_outcomes(passed=2, failed=1)
    cause = "broken.py:3: import failed: ModuleNotFoundError: No module named 'no_such_module'"
    result.stdout.fnmatch_lines([f"*{cause}*", "cells:   2 passed, 0 failed, *", "kernels: 1 can't be used, *broken"])
    assert lines(project)[0]["failures"] == {"broken": cause}


def test_a_keyword_hides_no_broken_kernel_whose_cells_it_may_mean(project):
    project.path.joinpath("kernels.py").write_text("def f(:\n")
    result = benchmark(project, "--portkit-target", "h200", "-k", "double and float64")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*kernels.py:1: import failed: SyntaxError: *"])


def test_a_keyword_of_another_kernel_hides_a_broken_one(project):
    project.path.joinpath("broken.py").write_text("import no_such_module\n")
    matrix = MATRIX.replace("targets:", "  broken: {path: broken.py}\ntargets:")
    project.path.joinpath("matrix.yaml").write_text(matrix)
    result = benchmark(project, "--portkit-target", "h200", "-k", "double and compiled", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*::double[[]h200-1000-float32-w4-compiled[]]", "1/3 tests collected (2 deselected)*"])


def test_where_every_kernel_file_is_broken_each_is_named(project):
    project.path.joinpath("kernels.py").write_text("x = 1\n")
    result = benchmark(project, "--portkit-target", "h200")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*kernels.py: declares no kernel case*", "*remedy:*"])


def test_a_reference_that_raises(project):
    text = KERNELS.replace('case("double")', 'case("double", reference=no_reference)')
    project.path.joinpath("kernels.py").write_text(text)
    result = benchmark(project, "--portkit-target", "interpreter")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["reference_failed (reference): ValueError: not for this shape at kernels.py:*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--portkit-target", "h2000"], "*unknown target 'h2000'*"),
        (["--portkit-tier", "quik"], "*quik*"),
        (["--portkit-modes", "warm,hot"], "*--portkit-modes: not a mode of timing: 'hot'*"),
        (["--portkit-devices", "977"], "*--portkit-devices: no GPU 977 is here*"),
        (["--portkit-matrix", "none.yaml"], "*no matrix at none.yaml*"),
        (["tests"], "*collects the matrix and nothing else*"),
        (["--portkit-report", "matrix.yaml/reports"], "*matrix.yaml/reports*"),
    ],
)
def test_bad_options_give_a_message_and_no_traceback(project, arguments, message):
    project.path.joinpath("tests").mkdir()
    result = benchmark(project, *arguments)
    assert result.ret not in (0, 1)
    text = "\n".join([*result.outlines, *result.errlines])
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    (result.stdout if message.strip("*") in "\n".join(result.outlines) else result.stderr).fnmatch_lines([message])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["matrix.yaml", "./other.yaml"], "*one run has one matrix, 2 are named: matrix.yaml ./other.yaml*"),
        (["--portkit-matrix", "matrix.txt"], "*a matrix is a .yaml or .yml file, not matrix.txt*"),
        (["--portkit-matrix", "a[[]b] c/matrix.yaml"], "*pytest takes the bracket in a[[]b] c/matrix.yaml for*"),
        (["--portkit-cell-seconds", "-5"], "*--portkit-cell-seconds: not a time in seconds: -5*"),
        (["--portkit-devices", "0,h200"], "*--portkit-devices: not the index of a GPU: 'h200'*"),
        (["--portkit-wait", "nan"], "*--portkit-wait: not a time in seconds: nan*"),
        (["--portkit-limit", "compile=inf"], "*not a time limit: 'compile=inf'*"),
        (["-p", "xdist", "--dist", "load", "--tx", "2*popen"], "*drop -n / --numprocesses, --dist and --tx*"),
        (["-n", "2"], "*drop -n / --numprocesses, --dist and --tx*"),
    ],
)
def test_what_pytest_can_not_do_is_refused_before_anything_starts(project, arguments, message):
    project.path.joinpath("other.yaml").write_text(MATRIX)
    project.path.joinpath("matrix.txt").write_text(MATRIX)
    project.path.joinpath("a[b] c").mkdir()
    project.path.joinpath("a[b] c", "matrix.yaml").write_text(MATRIX)
    result = project.runpytest_inprocess("--benchmark", *(argument.replace("[[]", "[") for argument in arguments))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_kernel_without_a_file_is_named_by_line_with_the_nearest(project):
    project.path.joinpath("matrix.yaml").write_text(MATRIX.replace("kernels.py", "kernel.py"))
    result = benchmark(project)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(
        ["matrix.yaml:4: kernels.double: unknown kernel 'double': no file kernel.py", "*did you mean kernels[?]"]
    )


def test_another_owner_of_the_option_is_named(project):
    project.path.joinpath("conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--benchmark', action='store_true')\n"
    )
    result = benchmark(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*another pytest plugin already owns the option --benchmark*", "*remedy:*"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_report_folder_without_write_permission(project):
    project.path.joinpath("reports").write_text("a file where a folder must be")
    result = benchmark(project, "--portkit-target", "h200")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*reports*", "*remedy:*"])


def test_collect_only_runs_nothing(project):
    result = benchmark(project, "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["matrix.yaml::double[[]h200-1000-float32-w4-compiled[]]"])
    assert not list(project.path.glob("reports/local/*"))


def test_a_folder_with_a_bracket_in_its_name(project):
    folder = project.path / "a[b] c"
    folder.mkdir()
    for name in ("kernels.py", "matrix.yaml"):
        project.path.joinpath(name).rename(folder / name)
    project.chdir()
    os.chdir(folder)
    result = benchmark(project, "--collect-only", "-q", "--portkit-target", "h200")
    result.stdout.fnmatch_lines(["*matrix.yaml::double[[]h200-1000-float32-w4-compiled[]]"])


@pytest.mark.parametrize(
    ("option", "word"),
    [("--portkit-modes", "mode of timing"), ("--portkit-baselines", "no kernel here has a baseline")],
)
def test_collect_only_tells_of_wrong_options_too(project, option, word):
    result = benchmark(project, "--collect-only", "-q", option, "hot")
    assert result.ret != 0
    result.stderr.fnmatch_lines([f"*{word}*hot*"])
    result.stderr.no_fnmatch_line("*Traceback*")
