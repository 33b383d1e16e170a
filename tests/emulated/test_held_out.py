"""``scripts/held_out.py``: what is taken of a GPU and how it is compared; the emulator stands for the GPU."""

import io
import json
import lzma
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from script_modules import script_module

from portkit.emulate.core.vectors import write
from portkit.errors import HostError, VectorsError
from portkit.run import instruction_vectors
from portkit.run.instruction_vectors import Emulated, record

held_out = script_module("held_out")
kernels = script_module("vector_kernels")
functions = held_out.record_functions
SEED = 3
ALL = list(kernels.launches("sm_90"))


def few(architecture):
    """A kernel of rows, of products and of bytes."""
    if architecture == "sm_90":
        yield from [each for each in ALL if each.kernel in {"swiglu", "quantized"}][:3]
        yield kernels._product("bf16", "fp32", (20, 24, 40), odd=3)


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """A folder with results of few kernels; to the last one of each the device adds what it is told."""
    monkeypatch.setattr(kernels, "launches", few)

    def take(off=0):
        def device(saved, text, values):
            results = held_out.emulator(saved, text, values)
            written = next(each for each in saved["arguments"] if isinstance(each, dict) and each["written"])
            results[0].view(held_out.WIDTHS.get(written["kind"], np.uint8))[-1] += off
            return results

        (tmp_path / "taken.json").write_text(json.dumps({"seed": SEED, "target": "h200"}))
        held_out.take_kernels(tmp_path / held_out.FILES["kernels"], SEED, device)
        return tmp_path

    return take


def lines(said, table=0):
    part = said.split("\n\n")[table].splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in part[2:]]


def test_equal_results(taken, capsys):
    assert held_out.main([str(taken()), "--only", "kernels"]) == 0
    said = capsys.readouterr().out
    assert [(row[0], row[1], row[2], row[-1]) for row in lines(said)] == [
        ("sm_90 swiglu bf16", "7001", "3", "equal"),
        ("sm_90 swiglu fp16", "4444", "3", "equal"),
        ("sm_90 quantized bf16 fp8e4nv fp32", "3001", "3", "equal"),
        ("sm_90 product bf16 fp32", "20x24x40", "3", "equal"),
    ]
    assert lines(said, 1) == [["kernels", "4", "4", "0", "0", "14,929", "0", "0"]]


def test_one_other_result_is_beyond(taken, capsys):
    assert held_out.main([str(taken(off=2)), "--only", "kernels"]) == 1
    said = capsys.readouterr().out
    rows = lines(said)
    assert lines(said, 1) == [["kernels", "4", "0", "0", "4", "14,929", "4", "inf"]]
    assert [row[3:6] for row in rows if row[0] == "sm_90 product bf16 fp32"] == [["480", "479", "2"]]
    assert {row[-1] for row in rows} == {"BEYOND"}


def test_inputs_of_another_numpy_are_refused(taken):
    path = taken() / held_out.FILES["kernels"]
    with pytest.raises(VectorsError, match="other inputs than were recorded"):
        list(held_out.kernels(path, SEED + 1))


def test_a_product_is_that_of_its_inputs(taken):
    """Worked out in float64 from the seed."""
    saved = next(each for each in stored(taken()) if each["kernel"] == "product")
    a, b = ((bits.astype(np.uint32) << 16).view(np.float32)[:, :40] for bits in held_out.inputs(saved, SEED)[:2])
    (found,) = results(taken(), "product")
    np.testing.assert_allclose(found.view(np.float32).reshape(20, 24), a.astype(float) @ b.T, atol=1e-4)


def stored(folder):
    return json.loads(bytes(opened(folder)["header"]))


def results(folder, kernel):
    number = [each["kernel"] for each in stored(folder)].index(kernel)
    return [array for name, array in opened(folder).items() if re.fullmatch(rf"{number}/\d+", name)]


def opened(folder):
    content = lzma.decompress((folder / held_out.FILES["kernels"]).read_bytes())
    with np.load(io.BytesIO(content)) as arrays:
        return dict(arrays)


@pytest.mark.parametrize(("capability", "found"), [(None, "none"), ((8, 9), "sm_89")])
def test_kernels_are_taken_of_hopper_alone(monkeypatch, capability, found):
    monkeypatch.setattr("torch.cuda.is_available", lambda: capability is not None)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda: capability)
    with pytest.raises(HostError, match=f"of sm_90, and here is {found}") as raised:
        held_out.Gpu()
    assert "--only instructions functions" in raised.value.render()


def test_no_shape_is_one_of_the_suites():
    """Nor has a kernel of the suite none."""
    shapes, cells = set(), held_out.plan("h200").plan.cells
    for each in held_out.prepare(held_out.SUITE, tier="small", selection=held_out.Selection(("h200",))).plan.cells:
        shapes.add((each.cell.case, each.cell.shape))
    assert not shapes & {(each.cell.case, each.cell.shape) for each in cells}
    assert {each.cell.case for each in cells} == {case for case, _ in shapes}


def test_instructions_that_are_equal_are_one_line(tmp_path, monkeypatch):
    names = ("add.rz.f32", "ex2.approx.f32", "fma.rn.f64")
    probes = [each for each in instruction_vectors.ASSEMBLIES["sm_90"].probes("sm_90") if each.name in names]
    made = record(Emulated("sm_90"), probes, seed=SEED)
    made.results["add.rz.f32"][5] += 1
    write(tmp_path / "some.vectors", made)
    same, other = held_out.instructions(tmp_path / "some.vectors", SEED)
    assert (same.name, same.results, same.equal, same.within) == ("2 instructions", 2048, 2048, True)
    assert (other.name, other.results, other.equal, other.within) == ("add.rz.f32", 1024, 1023, False)


@pytest.mark.parametrize(("off", "verdict"), [(0, "equal"), (1, "within"), (64, "BEYOND")])
def test_functions(tmp_path, monkeypatch, off, verdict):
    def gpu(name, bits):
        given = functions.emulated(name, bits)
        given[3] += off
        return given

    span = functions.Span("lg2.approx.f32", 0x4000_0000, 0x4080_0000, random=500)
    monkeypatch.setattr(functions, "_device", lambda: "a device")
    monkeypatch.setattr(functions, "_results", gpu)
    monkeypatch.setattr(held_out, "held_out_spans", lambda: [span, replace(span, last=0x4100_0000)])
    held_out.take_functions(tmp_path / "some.npz", SEED)
    (row,) = held_out.functions(tmp_path / "some.npz", SEED)
    assert (row.results, row.equal, row.furthest) == (1000, 1000 - 2 * bool(off), off)
    assert row.told(SEED)[-1] == verdict


KEPT = Path(__file__).parents[1] / "records" / "nvidia_h200_held_out"


@pytest.mark.parametrize(
    ("part", "lines", "results"),
    [("kernels", 66, 620_014), ("instructions", 1, 565_546)],
)
def test_what_was_taken_of_an_h200(part, lines, results):
    """Of a seed and of shapes that nothing was made from: to the bit."""
    found = held_out.rows(KEPT, part)
    assert (len(found), sum(row.results for row in found)) == (lines, results)
    assert {row.verdict for row in found} == {"equal"}


def test_the_suite_is_taken_before_this_process_uses_the_gpu(tmp_path, monkeypatch):
    """Its processes are forked, which CUDA does not survive."""
    taken = []
    for part in held_out.PARTS:
        monkeypatch.setattr(held_out, f"take_{part}", lambda *given, part=part: taken.append(part))
    monkeypatch.setattr(held_out, "Gpu", lambda: None)
    held_out.take(tmp_path, SEED, held_out.PARTS, "h200")
    assert taken == ["suite", "kernels", "instructions", "functions"]


@pytest.mark.slow
def test_functions_that_were_taken_of_an_h200():
    assert {row.verdict for row in held_out.rows(KEPT, "functions")} == {"equal"}
