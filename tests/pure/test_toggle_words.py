"""portkit toggle as far as no model runs: its words, Inductor's code as text, where time goes, what is shown."""

import json

import pytest

from portkit.analysis.toggle import spent
from portkit.cli import main
from portkit.errors import CaseError
from portkit.model import Clock, Ratio
from portkit.plan.arguments import TensorSpec
from portkit.plan.toggle import read_inputs, read_modes, read_subject, read_variant
from portkit.render.toggle import toggle_json, toggle_plain
from portkit.run.toggle.generated import generated, operations_in
from portkit.store.toggled import Agreement, Break, Fused, Generated, Roofs, Toggled, Way

OPERATIONS = {"add", "mul", "native_layer_norm", "native", "layer", "_softmax", "relu", "_to_copy", "sum"}


# --------------------------------------------------------------------------
# Words


def test_inputs_by_position_and_by_name():
    read = read_inputs(["bf16[8,2048]", "ids=0 <= i64[1,4] < 32000", "0 <= i64[2] < 5", "flag=True"])
    assert read == (
        (None, TensorSpec((8, 2048), "bfloat16")),
        ("ids", TensorSpec((1, 4), "int64", 0, 32000)),
        (None, TensorSpec((2,), "int64", 0, 5)),
        ("flag", True),
    )


@pytest.mark.parametrize(
    ("texts", "wrong", "right"),
    [
        (["bf16(8,2048)"], "is no value", "bf16[4096,4096]"),
        (["bf61[8]"], "has no dtype: bf61", "bf16"),
        (["x=3"], "gets no tensor", "--input 'bf16[8,2048]'"),
        (["x=f32[2]", "x=f32[3]"], "x is given twice", "once"),
    ],
)
def test_inputs_of_the_wrong_form(texts, wrong, right):
    with pytest.raises(CaseError) as caught:
        read_inputs(texts)
    assert wrong in caught.value.message
    assert right in caught.value.remedy


def test_modes():
    assert read_modes("default, max-autotune,default") == ("default", "max-autotune")
    assert read_modes("") == ()
    with pytest.raises(CaseError, match=r"no mode 'max-autotun'.*\n.*max-autotune"):
        read_modes("max-autotun")


def test_a_subject_needs_a_file_and_a_function(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("", encoding="utf-8")
    assert read_subject(f"{path}:build").path == str(path)
    with pytest.raises(CaseError, match="names no function that builds the model"):
        read_subject(str(path))
    with pytest.raises(CaseError, match="no such file"):
        read_subject(f"{tmp_path}/n.py:build")


def test_variants(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("", encoding="utf-8")
    assert read_variant(f"liger={path}:patched").name == "liger"
    for text, wrong in ((f"{path}:patched", "has no name"), (f"eager={path}:patched", "the model itself")):
        with pytest.raises(CaseError, match=wrong):
            read_variant(text)


def test_the_command_says_what_is_wrong_before_anything_starts(tmp_path, capsys):
    path = tmp_path / "m.py"
    path.write_text("", encoding="utf-8")
    assert main(["toggle", str(path) + ":build", "--input", "f32[2]", "--limit", "0"]) == 2
    assert "--limit must be a number of seconds above 0" in capsys.readouterr().err
    same = ["--variant", f"a={path}:x", "--variant", f"a={path}:y"]
    assert main(["toggle", str(path) + ":build", "--input", "f32[2]", *same]) == 2
    assert "two variants have the same name" in capsys.readouterr().err


# --------------------------------------------------------------------------
# Inductor's code


def test_operations_of_a_kernel_name():
    assert operations_in("triton_per_fused__softmax_add_native_layer_norm_3", OPERATIONS) == (
        "_softmax",
        "add",
        "native_layer_norm",
    )
    assert operations_in("cpp_fused_0", OPERATIONS) == ()
    assert operations_in("triton_tem_fused_unheard_of_1", OPERATIONS) == ("unheard_of",)
    assert operations_in("cpp_CppMicroGemmFP32Vec_2", OPERATIONS) == ()


CODE = """
cpp_fused_add_mul_0 = async_compile.cpp_pybinding(['float*'], r'''
  cpp_fused_add_mul_0(in a comment);
''')
triton_poi_fused_relu_1 = async_compile.triton('triton_poi_fused_relu_1', '''
''', device_str='cuda')

class Runner:
    def call(self, args):
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        cpp_fused_add_mul_0(buf0, buf1)
        cpp_fused_add_mul_0(buf1, buf2)
        triton_poi_fused_relu_1.run(buf2, 64, stream=stream0)
        buf3 = torch.ops.aten._scaled_dot_product_flash_attention.default(buf2)
        assert_size_stride(buf2, (8,), (1,))
        return (buf3, )

def benchmark_compiled_module(args):
    extern_kernels.mm(arg0_1, arg1_1, out=buf0)
"""


def test_calls_of_generated_code():
    found = generated([CODE], OPERATIONS)
    assert found.kernels == (
        Fused("cpp_fused_add_mul_0", ("add", "mul"), 2),
        Fused("triton_poi_fused_relu_1", ("relu",), 1),
    )
    assert found.library == {"extern_kernels.mm": 1, "torch.ops.aten._scaled_dot_product_flash_attention.default": 1}
    assert (found.graphs, found.calls) == (1, 5)


# --------------------------------------------------------------------------
# Where the time goes


def way(**changes):
    given = {"wall": Clock(1.0, 0.9, 1.1, 20), "kernel_ms": 0.8, "launches": 4, "moved_bytes": 2_000_000_000}
    return Way(**{"name": "compile default", "mode": "default", **given, **changes})


def toggled(*ways, **changes):
    given = {
        "model": "m.py:build",
        "inputs": ("f32[2,2]",),
        "device": "a GPU",
        "on_gpu": True,
        "torch": "2.13.0",
        "dtype": "float32",
        "ways": ways,
        "breaks": (),
        "flops": 10**11,
        "rounds": 20,
        "settled": True,
        "roofs": Roofs(4000.0, 500.0, "float32"),
    }
    return Toggled(**{**given, **changes})


def test_the_roofline_says_what_bounds():
    memory = spent(way(), toggled())  # 2 GB at 4 TB/s: 0.5 ms; 1e11 at 5e14 a second: 0.2 ms
    assert (memory.bound, memory.attained) == ("memory", pytest.approx(0.625))
    assert memory.idle == pytest.approx(0.2)
    compute = spent(way(), toggled(flops=3 * 10**11))
    assert (compute.bound, compute.attained) == ("compute", pytest.approx(0.75))


def test_a_device_that_waits_is_launch_bound():
    judged = spent(way(kernel_ms=0.4), toggled())
    assert (judged.bound, judged.idle) == ("launch", pytest.approx(0.6))


@pytest.mark.parametrize(
    ("one", "found", "why"),
    [
        (way(), toggled(on_gpu=False), "no ceilings are measured on a CPU"),
        (way(failed="x"), toggled(), "it does not run"),
        (way(), toggled(roofs=None, nulls={"roofs": "no such GPU"}), "no such GPU"),
        (way(moved_bytes=None, nulls={"moved_bytes": "beside"}), toggled(), "beside"),
        (way(kernel_ms=None, nulls={"kernel_ms": "no trace"}), toggled(), "no trace"),
    ],
)
def test_what_bounds_is_not_guessed(one, found, why):
    judged = spent(one, found)
    assert judged.bound is None
    assert why in judged.why


# --------------------------------------------------------------------------
# What is shown

SHOWN = toggled(
    way(name="eager", mode=None),
    way(
        speedup=Ratio(2.0, 1.9, 2.1),
        agreement=Agreement(True, "float64", 1e-3, 2e-3, 4e-3, 8e-3),
        generated=Generated(1, (Fused("a", ("add", "mul"), 2), Fused("b", ("add", "mul"), 1)), {"extern.mm": 3}),
    ),
    way(name="compile max-autotune", mode="max-autotune", failed="torch.compile fails: E: no", wall=None),
    way(name="liger", mode=None, agreement=Agreement(False, "float64", 1.0, 2.0, 4e-3, 8e-3, "rms 1 of 0.004")),
    breaks=(Break("m.py:7", "a call of print"),),
)


def test_what_a_terminal_shows():
    text = toggle_plain(SHOWN, 120)
    assert "2.00  1.9" in text
    assert "Graph breaks: 1\n  m.py:7  a call of print" in text
    assert "3 × add + mul" in text
    assert "3 × extern.mm, a library's" in text
    assert "fails [1]" in text
    assert "[1] torch.compile fails: E: no" in text
    assert "torch.compiler.disable" in text
    assert "wrong [2]" in text
    assert "compile default: memory-bound, its kernels at 62% of that ceiling; the device is idle for 20%" in text


def test_an_interval_that_holds_1_is_told():
    assert "0.90 to 1.10, may be 1" in toggle_plain(toggled(way(speedup=Ratio(1.0, 0.9, 1.1))), 120)
    assert "may be 1" not in toggle_plain(SHOWN, 120)


def test_as_data():
    data = json.loads(toggle_json(SHOWN))
    assert data["ways"][1]["speedup"] == {"value": 2.0, "low": 1.9, "high": 2.1}
    assert data["time_goes_to"]["compile default"]["bound"] == "memory"
