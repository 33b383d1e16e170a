"""portkit check on kernels that nobody wrote for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from portkit.cli import main
from portkit.errors import CaseError
from portkit.model import CaseSource, Check
from portkit.run.checked import case_of
from portkit.run.load import import_source

KINDS = Path(__file__).parent / "cases" / "checked_kinds.py"

KERNEL = """
import subprocess
import torch, triton
import triton.language as tl

def seeded(x):
    here, elsewhere = ("rocm-smi", "nvidia-smi") if torch.version.hip else ("nvidia-smi", "rocm-smi")
    assert subprocess.run([here, "-L"], capture_output=True).returncode == 0
    assert subprocess.run([elsewhere], capture_output=True).returncode != 0
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    seed, offset = generator.get_state().view(torch.int64)
    generator.set_state(generator.get_state())
    return twice(x, beyond=int(seed) + int(offset))

@triton.jit
def kernel(x, y, n, BEYOND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) * 2, mask=at < n + BEYOND)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beyond=0):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BEYOND=beyond, BLOCK=128)
        return y

    @staticmethod
    def backward(ctx, dy):
        return Twice.apply(dy), None

def twice(x, beyond=0):
    return Twice.apply(x, beyond)

def four_times(x, beyond=0):
    return x * 4

def double(x, beyond=0):
    return x * 2


LIMIT = 3


async def awaited(x):
    return twice(x)


class Scaled:
    def __init__(self, factor, weights=None):
        self.factor, self.weights = factor, weights

    def times(self, x):
        return twice(x) * self.factor


class Weighted(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(size))

    def forward(self, x):
        return twice(x * self.weights)
"""

SCRIPT = """
import sys
import torch
from maths import twice

if __name__ == "__main__":
    x = torch.ones(int(sys.argv[1]), device="cuda", requires_grad=True)
    loss = twice(x).sum()
    loss.backward()
    if len(sys.argv) > 2:
        torch.compile(lambda x: x + 1)(x)
    sys.exit(0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "maths.py").write_text(KERNEL, encoding="utf-8")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    return folder


def check(capsys, folder, *words):
    """Exit code and rows, by case and target, as data."""
    code = main(["check", "--json", "--report", str(folder / "reports"), *map(str, words)])
    said = capsys.readouterr()
    if code == 2:
        return code, said.err
    return code, {(row["kernel"], row["target"], row["evidence"]): row for row in json.loads(said.out)["rows"]}


def test_kernels_of_every_kind_build_for_both_vendors(capsys, tmp_path):
    code, rows = check(capsys, tmp_path, KINDS, "-t", "h200,mi355x")
    assert [key for key, row in rows.items() if row["status"] != "built"] == []
    assert code == 0
    kinds = {"softmax", "dropout", "LayerNorm.apply", "matmul", "attention", "grouped_matmul", "_dropout"}
    assert {case for case, *_ in rows} == kinds | {"persistent_matmul", "scaled_matmul"}
    assert rows["matmul", "h200", "compiled"]["configurations"] == 4
    assert rows["LayerNorm.apply", "h200", "compiled"]["direction"] == "backward"
    assert all(row["registers_per_thread"] > 0 for row in rows.values())


def test_a_function_is_captured_as_it_is_and_then_known(capsys, folder):
    words = (f"{folder / 'maths.py'}:seeded", "--arg", "x=f32[1000]", "-t", "h200,a100,gfx942")
    code, rows = check(capsys, folder, *words)
    assert (code, len(rows)) == (0, 3)
    assert rows["seeded", "gfx942", "compiled"]["shape"] == [1000]
    reports = set((folder / "reports").glob("*.jsonl"))
    assert check(capsys, folder, *words) == (code, rows)
    assert set((folder / "reports").glob("*.jsonl")) == reports  # nothing ran again


def test_a_script_is_captured_whole(capsys, folder):
    code, rows = check(capsys, folder, "--script", folder / "train.py", "-t", "mi300x", "--", "4096")
    assert code == 0
    assert rows["train.py", "mi300x", "compiled"]["launches"] == 2  # forward and backward


@pytest.mark.slow
def test_what_torch_compile_would_make_is_refused(capsys, folder):
    code, rows = check(capsys, folder, "--script", folder / "train.py", "-t", "mi300x", "--", "4096", "compile")
    (row,) = rows.values()
    assert (code, row["status"]) == (1, "capture_failed")
    assert "compiled by torch.compile, whose own kernels are not known for an absent GPU" in row["cause"]


def test_what_can_not_be_called_is_one_error(capsys, folder):
    code, said = check(capsys, folder, f"{folder}/maths.py:thrice", "--arg", "x=f32[4]", "-t", "h200,mi300x")
    assert code == 2
    assert "maths.py: has no thrice\n  remedy: did you mean twice" in said
    assert said.count("error:") == 1


def test_nothing_is_called_but_what_was_asked_for(capsys, tmp_path):
    calls = tmp_path / "calls"
    (tmp_path / "noted.py").write_text(
        KERNEL
        + f"""

def note(name):
    with open({str(calls)!r}, "a") as file:
        print(name, file=file)

def asked(x):
    note("asked")
    return twice(x)

def never(x):
    note("never")

if __name__ == "__main__":
    note("main")
""",
        encoding="utf-8",
    )
    code, _ = check(capsys, tmp_path, f"{tmp_path}/noted.py:asked", "--arg", "x=f32[1000]", "-t", "h200,mi300x")
    assert code == 0
    assert calls.read_text(encoding="utf-8").split() == ["asked", "asked"]  # once a target


EMULATED = ("--emulate", "-t", "mi300x,h200")


def test_a_method_is_called_on_an_object_that_init_makes(capsys, folder):
    place = f"{folder / 'maths.py'}:Scaled.times"
    words = (place, "--init", "factor=2", "--init", "weights=f32[8]", "--arg", "x=f32[1000]")
    code, rows = check(capsys, folder, *words, "-t", "h200")
    assert code == 0
    assert rows["Scaled.times", "h200", "compiled"]["launches"] == 1


@pytest.mark.slow
def test_an_object_has_the_same_weights_where_it_is_emulated_and_interpreted(capsys, folder):
    place = f"{folder / 'maths.py'}:Weighted"
    words = ("--init", "size=1000", "--arg", "x=bf16[1000]", "--emulate", "-t", "mi300x")
    code, rows = check(capsys, folder, place, *words)
    assert code == 0
    assert rows["Weighted", "mi300x", "emulated"]["status"] == "passed"


def test_machine_code_is_held_against_the_interpreter(capsys, folder):
    place = f"{folder / 'maths.py'}:twice"
    code, rows = check(capsys, folder, place, "--arg", "x=bf16[100000]", "--small", "x=bf16[1000]", *EMULATED)
    assert code == 0
    assert rows["twice", "mi300x", "emulated"]["status"] == "passed"
    assert rows["twice", "mi300x", "emulated"]["shape"] == [1000]
    assert ("twice", "h200", "compiled") in rows


@pytest.mark.parametrize(
    ("beyond", "reference", "status"),
    [
        (1, "double", "out_of_bounds"),
        pytest.param(0, "four_times", "wrong_result", marks=pytest.mark.slow),
        pytest.param(0, "double", "passed", marks=pytest.mark.slow),
    ],
)
def test_machine_code_is_held_against_a_reference(capsys, folder, beyond, reference, status):
    file = folder / "maths.py"
    given = ("--arg", "x=f32[1000]", "--arg", f"beyond={beyond}")
    words = (f"{file}:twice", *given, "--reference", f"{file}:{reference}", "--emulate", "-t", "mi300x")
    code, rows = check(capsys, folder, *words)
    assert (code, rows["twice", "mi300x", "emulated"]["status"]) == (int(status != "passed"), status)


@pytest.mark.parametrize(
    ("check_of", "message"),
    [
        (Check("twice", arguments=(("z", "f32[4]"),)), "does not take these arguments: missing a required argument"),
        (Check("kernel", arguments=(("x", "f32[4]"),)), "nothing says with how many blocks it is launched"),
        (Check("twice", arguments=(("x", "f32[4]"),), grid=(4,)), "is no kernel, and so it chooses its grid itself"),
        (Check("torch"), "torch is no function"),
        (Check("awaited", arguments=(("x", "f32[4]"),)), "awaited runs only when it is awaited"),
        (Check("LIMIT.real"), "LIMIT.real is no function"),
        (Check("LIMIT.nothing"), "has no LIMIT.nothing"),
        (
            Check("Scaled.times", arguments=(("x", "f32[4]"),)),
            "missing a required argument: 'factor'.*\n.*--init NAME=",
        ),
        (Check("Scaled.times", init=(("", "2"),)), "Scaled.times does not take these arguments: missing .* 'x'"),
        (Check("Scaled", init=(("", "2"),)), "objects of Scaled can't be called.*\n.*Scaled.METHOD"),
    ],
)
def test_what_can_not_be_called(folder, check_of, message):
    with pytest.raises(CaseError, match=message):
        case_of(CaseSource("f", path=str(folder / "maths.py"), check=check_of), check_of, import_source)


def test_help_is_quick():
    code = "import sys, portkit.cli.check; print(sorted({'torch', 'triton', 'numpy', 'polars'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
