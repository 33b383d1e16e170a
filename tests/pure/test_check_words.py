"""What portkit check reads from a command line, a comment and a file, without importing any of it."""

import pytest

from portkit.errors import CaseError
from portkit.model import CaseSource, Check, Evidence
from portkit.plan.arguments import DtypeSpec, TensorSpec, map_specs, parse_argument, tensors
from portkit.plan.check import (
    cells_of,
    declared,
    module_file,
    named_apart,
    read_grid,
    read_pairs,
    read_place,
    refuse_large,
    shape_and_dtype,
    small_call,
    source_of,
)
from portkit.plan.scan import scan


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bf16[4096,4096]", TensorSpec((4096, 4096), "bfloat16")),
        ("float32[8]", TensorSpec((8,), "float32")),
        ("f32[]", TensorSpec((), "float32")),
        ("i64[8] < 32000", TensorSpec((8,), "int64", high=32000)),
        ("-1 <= f16[4] < 2.5", TensorSpec((4,), "float16", -1, 2.5)),
        ("bf16[4,8].T", TensorSpec((4, 8), "bfloat16", transposed=True)),
        ("bf16[4,8].T.T", TensorSpec((4, 8), "bfloat16")),
        ("-128 <= i8[4] < 128", TensorSpec((4,), "int8", -128, 128)),
        ("torch.bfloat16", DtypeSpec("bfloat16")),
        ("1e-6", 1e-6),
        ("-3", -3),
        ("None", None),
        ("silu", "silu"),
        ("'a b'", "a b"),
        ("[f32[2], f32[3]]", [TensorSpec((2,), "float32"), TensorSpec((3,), "float32")]),
        ("{'k': f32[2]}", {"k": TensorSpec((2,), "float32")}),
        ("(1, True)", (1, True)),
    ],
)
def test_values(text, value):
    assert parse_argument(text, "--arg") == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ff32[4]", "has no dtype: ff32\n  remedy: did you mean f32"),
        ("bf16[4,x]", "shape of other things than whole numbers"),
        ("bf16[-1]", "shape of other things than whole numbers"),
        ("f32[8].T", "transposes what has no two axes"),
        ("f32[8] > 3", "has no bounds of the form"),
        ("5 <= f32[8] < 2", "has no value from 5 to below 2"),
        ("i32[8] < 0", "has no value from 0 to below 0"),
        ("0 <= i64[8] < 2.5", "has bounds that are no whole numbers, as int64 has"),
        ("-5 <= u8[8] < 5", "has bounds past those of uint8, 0 to below 256"),
        ("f32[4000000000,4000000000]", "is larger than any address reaches"),
        ("__import__('os').system('true')", "is no value"),
        ("open('x')", "is no value"),
        ("a b", "is no value"),
    ],
)
def test_values_that_are_none(text, message):
    with pytest.raises(CaseError) as caught:
        parse_argument(text, "--arg x")
    assert message in caught.value.render()
    assert caught.value.place == "--arg x"


def test_all_tensors_of_a_value_are_found_and_replaced():
    value = parse_argument("[f32[2], {'k': (i32[3], 4)}]", "")
    assert [spec.shape for spec in tensors(value)] == [(2,), (3,)]
    assert map_specs(lambda spec: spec.bytes, value) == [8, {"k": (12, 4)}]


def test_pairs_by_name_and_by_place():
    assert read_pairs(["f32[2]", "eps=1e-6", "flag=True"], "--arg") == (
        ("", "f32[2]"),
        ("eps", "1e-6"),
        ("flag", "True"),
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [(["x=1", "x=2"], "x is given twice"), (["x=1", "2"], "without a name follows one with a name")],
)
def test_pairs_that_are_wrong(words, message):
    with pytest.raises(CaseError, match=message):
        read_pairs(words, "--arg")


def test_grids():
    assert read_grid("64, 8") == (64, 8)
    assert read_grid("") == ()
    for text in ("0", "a", "1,2,3,4"):
        with pytest.raises(CaseError, match="is no grid"):
            read_grid(text)


FILE = """
import torch, triton

def helper(n):
    return n

@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    pass

def launch(x, eps: float, *, out=None):
    kernel[(4,)](x, eps)

def outer(x):
    return launch(x, 1.0)

class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight=None):
        kernel[(1,)](x)

    @staticmethod
    def backward(ctx, dy):
        kernel[(1,)](dy)

def norm(x):
    return Norm.apply(x)

# portkit: check launch --arg x=f32[8] --arg eps=1e-6
    # portkit:check kernel --arg 'f32[2, 4]' --grid 4
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_file_is_searched_without_importing_it(file):
    found = {each.name: each for each in scan(file).functions}
    assert list(found) == ["launch", "outer", "Norm.forward", "norm", "kernel"]
    assert found["kernel"].kernel
    assert found["outer"].launches == ("kernel",)
    assert found["launch"].signature == "launch(x, eps, out=…)"
    assert [each.name for each in found["Norm.forward"].needs] == ["x"]


def test_what_returns_a_value_is_no_kernel(file):
    file.write_text(
        "import triton\n\n@triton.jit\ndef kernel(x):\n    pass\n\n@triton.jit\ndef part(x):\n    return x\n"
    )
    assert [each.name for each in scan(file).functions] == ["kernel"]


def test_kernel_cases_of_a_file_are_named(file):
    assert scan(file).cases == ()
    file.write_text('case = KernelCase(name="norm", fused=f)\nmore = [portkit.KernelCase(name="wide"), KernelCase()]\n')
    assert scan(file).cases == ("norm", "wide")


def test_a_file_that_is_not_python(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("def (", encoding="utf-8")
    with pytest.raises(CaseError, match=r"broken.py:1: is not Python"):
        scan(path)


def test_comments_say_how_functions_are_called(file):
    (first, words), (second, others) = declared(file)
    assert (first.rpartition(":")[2], words) == ("29", ["launch", "--arg", "x=f32[8]", "--arg", "eps=1e-6"])
    assert (second.rpartition(":")[2], others) == ("30", ["kernel", "--arg", "f32[2, 4]", "--grid", "4"])


def test_a_comment_with_an_open_quote(tmp_path):
    path = tmp_path / "quote.py"
    path.write_text("# portkit: check f --arg 'x\n", encoding="utf-8")
    with pytest.raises(CaseError, match=r"quote.py:1: the comment's words are none"):
        list(declared(path))


def test_places(file):
    place = read_place(f"{file}:launch")
    assert (place.path, place.function) == (file, "launch")
    assert read_place("portkit.model:Check.x").path == module_file("portkit.model")
    for text, message in (
        ("missing.py", "no such file"),
        ("not a module", "neither a file nor a module"),
        ("nothing_of_that_name", "no module nothing_of_that_name"),
        ("portkit.nothing", "package portkit has no module portkit.nothing"),
    ):
        with pytest.raises(CaseError, match=message):
            read_place(text)


def test_what_is_meant_by_a_name_that_is_no_module(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    (file.parent / "folder").mkdir()
    for text, right in (
        (file.stem, f"write {file.name}"),
        ("folder", r"write folder/FILE\.py"),
        ("./folder", "a folder"),
    ):
        with pytest.raises(CaseError, match=right):
            read_place(text)


def test_a_file_of_a_package_is_imported_as_its_module(tmp_path):
    package = tmp_path / "top" / "ops"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "norm.py").touch()
    source = source_of(read_place(f"{package / 'norm.py'}:f"), Check("f"))
    assert (source.path, source.module) == (None, "top.ops.norm")
    assert source.check.root == str(tmp_path)


CHECK = Check("f", arguments=(("x", "bf16[64,32]"), ("w", "f32[32]"), ("eps", "1e-6")))


def test_rows_have_shape_and_dtype_of_the_largest_tensor():
    assert shape_and_dtype(CHECK) == ((64, 32), "bfloat16")
    assert shape_and_dtype(Check("f", arguments=(("n", "4"),))) == ((), "mixed")


def test_names_are_told_apart():
    assert [each.name for each in named_apart([CaseSource("f"), CaseSource("f"), CaseSource("g")])] == ["f", "f_2", "g"]


def test_emulated_cells_are_of_the_small_call():
    check = Check("f", arguments=CHECK.arguments, small=(("x", "bf16[4,32]"),))
    cells = cells_of(CaseSource("f", path="f.py", check=check), ["h200", "mi300x"], ["mi300x"])
    assert [(each.evidence, each.cell.target, each.cell.shape) for each in cells] == [
        (Evidence.COMPILED, "h200", (64, 32)),
        (Evidence.COMPILED, "mi300x", (64, 32)),
        (Evidence.EMULATED, "mi300x", (4, 32)),
    ]


def test_small_arguments_that_do_not_fit():
    with pytest.raises(CaseError, match=r"'y' is no argument of the call\n  remedy: name one of x, w, eps"):
        small_call(Check("f", arguments=CHECK.arguments, small=(("y", "1"),)))
    with pytest.raises(CaseError, match="emulation takes 64 MiB at most"):
        refuse_large(Check("f", arguments=(("x", "f32[4096,4097]"),)))
    refuse_large(CHECK)
