"""``portkit report`` on a terminal."""

from __future__ import annotations

import dataclasses
import io
import re

import pytest
from factories import build, header, launch, record, timing

from portkit.analysis.rows import comparison
from portkit.model import INTERPRETER, Direction, Evidence, Expectation, Outcome, Selector, Stage, Status
from portkit.render.terminal.console import make_console
from portkit.render.terminal.overview import print_overview
from portkit.store.merge import Dataset, Row

EXPECTATION = Expectation(Selector(), Status.OUT_OF_RESOURCES, "too much shared memory", "matrix.yaml:3")
BROKEN = Outcome(Status.COMPILE_ERROR, Stage.COMPILE, "error: operand out of range")
LOST = Outcome(Status.WORKER_LOST, Stage.RUN, "killed")


def dataset(*records):
    return Dataset((header(),), tuple(Row(each, (), older_source=False) for each in records), (), {})


def overview(*records, width=100, findings=5, encoding="utf-8", steps=("portkit merge here",)):
    bytes_ = io.BytesIO()
    file = io.TextIOWrapper(bytes_, encoding=encoding, errors="replace")
    shown = comparison(dataset(*records), explain=findings != 0)
    print_overview(make_console(file, width), shown, findings, steps)
    file.flush()
    return bytes_.getvalue().decode(encoding)


def grid(text):
    """Kernel → target → marks, of all tables; a column begins where its head does."""
    found = {}
    heads = []
    for line in text.split("\n"):
        if line.startswith(("NVIDIA ", "AMD ", "CPU ")):
            heads = list(re.finditer(r"\S+", line))
        elif not line:
            heads = []
        elif heads:
            ends = [*(head.start() for head in heads[1:]), None]
            cells = {head[0]: line[head.start() : end].strip() for head, end in zip(heads, ends, strict=True)}
            kernel = cells.pop(heads[0][0])
            found.setdefault(kernel, {}).update({target: marks for target, marks in cells.items() if marks != "–"})
    return found


MIXED = (
    record(Evidence.MEASURED, timing=timing(0.5, 1.5)),
    record(),
    record(dtype="float16", outcome=BROKEN),
    record(target="mi300x", outcome=BROKEN),
    record(target="mi300x", dtype="float16"),
    record(Evidence.INTERPRETED, target=INTERPRETER),
    record(case="rope", target="mi300x", outcome=Outcome(Status.OUT_OF_RESOURCES), expectation=EXPECTATION),
    record(case="rope", target="a100", outcome=LOST),
    record(case="rope", target="h200", direction=Direction.BACKWARD),
)


def test_each_evidence_of_a_kernel_and_target_has_its_mark():
    assert grid(overview(*MIXED, findings=0)) == {
        "softmax": {"h200": "M✓ C✗1/2", "mi300x": "C✗1/2", "interpreter": "I✓"},
        "rope": {"a100": "C?", "mi300x": "C!"},
        "rope backward": {"h200": "C✓"},
    }


def test_kernels_that_do_not_carry_over_stand_first():
    made = (record(case="a"), record(case="z", outcome=BROKEN), record(case="z", target="mi300x"))
    assert list(grid(overview(*made, findings=0))) == ["z", "a"]


def test_a_time_limit_outside_the_kernel_is_no_verdict():
    late = (
        record(target=name, outcome=Outcome(Status.TIMEOUT, stage))
        for name, stage in (("h200", Stage.REFERENCE), ("a100", Stage.COMPILE))
    )
    assert grid(overview(*late, findings=0))["softmax"] == {"h200": "C?", "a100": "C✗"}


def test_the_head_says_what_carries_over_and_what_does_not():
    text = overview(*MIXED, findings=0)
    assert text.startswith(
        "1 of 3 kernels does not carry over: softmax (h200, mi300x)\n1 of 3 kernels has no verdict: rope (a100)\n"
    )
    assert "measured 1 passed · compiled 3 built, 2 compile_error" in " ".join(text.split())
    assert "No row here was run on an AMD GPU." in text
    assert overview(record(), findings=0).startswith("softmax is good on h200 (only built).\n")


def test_a_kernel_without_rows_on_a_target_has_none_there():
    text = overview(record(), record(case="rope", target="a100"), findings=0)
    assert text.startswith("All 2 kernels are good wherever they have rows (2 only built).\n")
    assert "✓ good, – no rows" in text
    assert overview(record(), record(target="a100"), findings=0).startswith(
        "softmax is good on all 2 targets (2 only built).\n"
    )


def test_good_kernels_are_said_to_be_known_how():
    ran = [record(Evidence.MEASURED), record(), record(Evidence.EMULATED, target="mi300x"), record(target="a100")]
    gap = record(target="rx7900xtx", outcome=Outcome(Status.OUT_OF_RESOURCES), expectation=EXPECTATION)
    assert overview(*ran, gap, width=160, findings=0).startswith(
        "softmax is good on all 4 targets (1 measured, 1 emulated, 1 only built, 1 with a gap that the matrix knows).\n"
    )
    both = [record(Evidence.MEASURED), record(case="rope")]
    assert overview(*both, findings=0).startswith("All 2 kernels are good on h200 (1 measured, 1 only built).\n")
    further = [record(target="a100"), record(case="rope", target="a100")]
    assert overview(*both, *further, findings=0).startswith(
        "All 2 kernels are good on all 2 targets (1 measured in part, 1 only built).\n"
    )


RAISED = Outcome(Status.LAUNCH_ERROR, Stage.RUN, "ValueError: no")
NOT_CAPTURED = Outcome(Status.CAPTURE_FAILED, Stage.CAPTURE, "ValueError: no")


def _interpreted(**changes):
    return record(Evidence.INTERPRETED, target=INTERPRETER, build=None, **changes)


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (
            [_interpreted(outcome=RAISED), *(record(target=x, outcome=NOT_CAPTURED) for x in ("h200", "mi300x"))],
            "1 of 1 kernel fails on every target tried: softmax (h200, mi300x, interpreter)",
        ),
        (
            [_interpreted(), record(outcome=BROKEN), record(target="mi300x", outcome=BROKEN)],
            "1 of 1 kernel fails on every target tried: softmax (h200, mi300x)",
        ),
        (
            [_interpreted(outcome=RAISED), record(), record(target="mi300x")],
            "1 of 1 kernel fails in the interpreter: softmax (interpreter)",
        ),
        (
            [_interpreted(outcome=RAISED), record(), record(target="mi300x", outcome=BROKEN)],
            "1 of 1 kernel does not carry over: softmax (mi300x, interpreter)",
        ),
        (  # a question that only a GPU could answer: nothing is known of the kernel
            [_interpreted(), record(outcome=NOT_CAPTURED)],
            "1 of 1 kernel has no verdict: softmax (h200)",
        ),
        (
            [_interpreted(outcome=RAISED), record(outcome=LOST)],
            "1 of 1 kernel fails in the interpreter: softmax (interpreter)\n"
            "1 of 1 kernel has no verdict: softmax (h200)",
        ),
    ],
)
def test_failing_everywhere_or_in_the_interpreter_is_no_matter_of_carrying_over(records, told):
    assert overview(*records, findings=0).startswith(f"{told}\n")


def test_what_is_not_good_stands_with_its_cause_the_gravest_first():
    text = overview(*MIXED, findings=0)
    part = text[text.index("Not good, and why") : text.index("Kernels by target")].split("\n")[1:]
    assert [line for line in part if line] == [
        "✗ softmax: compile_error on h200, mi300x (compiled, 2 rows)",
        "  error: operand out of range",
        "? rope 4096x4096 float32 w8: worker_lost on a100 (compiled, 1 row)",
        "  killed",
        "! rope 4096x4096 float32 w8: out_of_resources on mi300x (compiled, 1 row)",
        "  expected: too much shared memory. Found: out_of_resources",
    ]


def test_a_gap_that_has_closed_is_told_though_the_row_is_good():
    text = overview(record(expectation=EXPECTATION), findings=0)
    told = "✓ softmax 4096x4096 float32 w8: built on h200 (compiled, 1 row)"
    assert f"{told}\n  the gap has closed; the matrix expects out_of_resources" in text


def test_what_costs_is_told_with_its_first_finding():
    spilling = build(launch(255, spill=512))
    made = [record(case=case, build=spilling) for case in ("softmax", "rope")]
    others = [record(case=case, target="mi300x") for case in ("softmax", "rope", "gemm")]
    text = overview(*made, *others, width=200)
    why = "Spills on some targets and not on others"
    told = f"2 of 3 kernels run at a cost: rope ({why}); softmax ({why})"
    assert text.split("\n")[:2] == ["All 3 kernels are good wherever they have rows (2 only built).", told]


def test_an_error_that_is_found_in_good_rows_is_no_good_kernel():
    far = build(launch(signals={"offsets32": 2}, largest_elements=2**32))
    text = overview(record(build=far), record(target="mi300x"), width=200)
    told = "softmax (32-bit offsets that can overflow on h200)"
    assert text.split("\n")[0] == f"1 of 1 kernel does not carry over: {told}"
    assert " good " not in text.partition("Kernels by target")[0]


def test_on_a_terminal_that_is_too_low_the_verdict_stands_at_the_end_again(monkeypatch):
    def last(height):
        file = io.StringIO()
        file.isatty = lambda: True
        monkeypatch.setenv("LINES", str(height))
        print_overview(make_console(file, 100), comparison(dataset(*MIXED), explain=False), 0, ["portkit merge here"])
        return file.getvalue().partition("In short")[2]

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "1 of 3 kernels does not carry over: softmax (h200, mi300x)" in last(24)
    assert not last(200)


def test_times_have_speedups_with_their_intervals():
    text = overview(*MIXED, findings=0)
    assert re.search(r"softmax 4096x4096 float32 w8 +h200 +0\.5 +3\.00 \(2\.94–3\.06\)", text)


@pytest.mark.parametrize("width", [160, 80, 60, 40])
def test_no_line_is_longer_than_the_terminal_and_no_target_is_lost(width):
    names = [f"target{number:02}" for number in range(30)]
    text = overview(*(_on(record(), name) for name in names), width=width, findings=0)
    assert max(len(line) for line in text.split("\n")) <= width
    assert list(grid(text)["softmax"]) == names


def _on(made, target):
    """The record on a target that no catalogue has."""
    cell = dataclasses.replace(made.cell, target=target)
    keys = dataclasses.replace(made.keys, cell_key=target)
    return dataclasses.replace(made, cell=cell, keys=keys)


def test_findings_are_told_with_explanation_and_remedy():
    broken = ("shared memory 131072 B > 65536 B",)
    over = build(launch(limits_broken=broken))
    big = record(target="mi300x", build=over, outcome=Outcome(Status.OUT_OF_RESOURCES, Stage.LIMITS, broken[0]))
    text = overview(record(), big, width=200)
    assert re.search(r"^PK\d+ error .*softmax 4096x4096 float32 w8", text, re.M)
    assert "  Remedy: " in text


def test_without_unicode_signs_are_ascii_and_the_table_is_the_same():
    text = overview(*MIXED, findings=0, encoding="ascii")
    assert text.isascii()
    assert "C?" in text
    assert "Cx1/2" in text
    assert "3.00 (2.94-3.06)" in text
    assert "?" not in text.replace("C?", "").replace("? rope", "").replace("? no verdict", "")


def test_nothing_is_coloured_but_on_a_terminal():
    assert "\x1b" not in overview(*MIXED)


def test_a_terminal_has_colours_unless_no_color_is_set(monkeypatch):
    def coloured():
        file = io.StringIO()
        file.isatty = lambda: True
        console = make_console(file, 100)
        print_overview(console, comparison(dataset(*MIXED), explain=False), 0, ())
        return file.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32mM✓" in coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-7]m", coloured())


def test_a_hostile_name_is_text():
    text = overview(record(case="[red]x[/red] :smile:"), findings=0)
    assert "[red]x[/red] :smile:" in text


def test_commands_to_copy_are_never_broken():
    step = "portkit show '" + "x" * 200 + "'"
    assert step in overview(record(), width=60, steps=(step,)).split("\n")


def test_without_rows_it_says_so():
    assert (
        overview() == "no rows\n1 report\nNo row here was run on an NVIDIA GPU.\nNo row here was run on an AMD GPU.\n"
    )


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert make_console(io.StringIO()).width == 120
    monkeypatch.setenv("COLUMNS", "72")
    assert make_console(io.StringIO()).width == 72
