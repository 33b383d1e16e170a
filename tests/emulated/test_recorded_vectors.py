"""The kernel that records instruction results: built for each architecture, executed, written, read and compared."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from portkit.cli import main
from portkit.emulate.amdgcn.architecture import ARCHITECTURES
from portkit.emulate.amdgcn.probes import probes_of
from portkit.emulate.core.vectors import EMULATOR, Probe, read, write
from portkit.emulate.vectors import comparisons
from portkit.model import Device, Host
from portkit.run import instruction_vectors
from portkit.run.instruction_vectors import Emulated, record

SOME = (
    *("v_add_f32", "v_fma_f64", "v_rcp_f16", "v_cmp_lt_f16", "v_cmp_class_f32", "v_lshlrev_b32", "v_fmac_f32"),
    *("v_mfma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_f16", "v_add_co_u32"),
    *("v_div_scale_f32.numerator", "v_pk_fma_f16", "v_dot2_f32_f16", "s_bfe_u64", "v_cvt_pk_fp8_f32"),
)


def chosen(architecture, names=SOME):
    return [probe for probe in probes_of(ARCHITECTURES[architecture]) if probe.name in names]


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100", "gfx1201"])
def test_from_kernel_to_comparison(architecture, tmp_path, capsys):
    """What the Triton kernel leaves, the emulator finds again with a kernel of its own."""
    probes = chosen(architecture)
    made = record(Emulated(architecture), probes)
    assert len(made.results) == len(probes) >= len(SOME) - 3
    assert not made.refused
    path = tmp_path / f"{architecture}.vectors"
    write(path, made)
    assert main(["emulate", "--check-vectors", str(path), "--accept-emulated"]) == 0
    said = capsys.readouterr().out
    assert f"{len(probes)} instructions compared, 0 outside what is declared" in said
    assert "EMULATED" in said


WIDE = (
    *("v_mfma_scale_f32_32x32x64_f8f6f4.fp8.fp6", "v_cvt_scalef32_pk32_f32_fp6", "v_cvt_scalef32_pk32_bf6_bf16"),
    *("v_mfma_f32_32x32x1_2b_f32", "v_fma_mixhi_f16.high", "v_bitop3_b16.0xca", "v_cmpx_lt_f64"),
)
"""Those that need most registers, and modifiers."""


def test_wide_operands_from_kernel_to_comparison():
    """What Triton hands to the assembler leaves the registers that the probes want."""
    probes = chosen("gfx950", WIDE)
    made = record(Emulated("gfx950"), probes)
    assert len(made.results) == len(WIDE)
    assert all(each.equal + each.nans == each.values for each in comparisons(made, "own"))


def test_results_are_those_of_the_instruction(tmp_path):
    """Not merely equal on both ways: sums of the operands that the file holds."""
    made = record(Emulated("gfx942"), chosen("gfx942", ["v_add_u32", "s_add_u32"]))
    rows = made.operands["U32-U32"].astype(int)
    exact = rows.sum(axis=1)
    assert made.results["v_add_u32"][:, 0].tolist() == (exact % 2**32).tolist()
    assert made.results["s_add_u32"][:, 0].tolist() == (exact % 2**32).tolist()
    assert made.results["s_add_u32"][:, 1].tolist() == (exact >> 32).tolist()


@pytest.mark.parametrize("target", ["mi300x", "rx7900xtx"])
def test_way_of_a_device(target):
    """The code that runs on hardware, in a process of its own that takes the GPU for present."""
    script = Path(__file__).with_name("claimed_vectors.py")
    command = [sys.executable, str(script), target, "v_add_f32", "v_add_f64", "s_add_u32", "v_cmp_lt_f16"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "launched 4\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_every_probe(architecture, tmp_path):
    """All assemble but scalar floats, which of RDNA3 only later chips have, and a move some LLVMs take as halves."""
    made = record(Emulated(architecture))
    missing = {"v_mov_b16"} & set(made.refused) if architecture.startswith("gfx1") else set()
    if architecture == "gfx1100":
        types = ("f16", "f32", "i32", "u32")
        missing |= {name for name in made.refused if name.startswith("s_") and name.endswith(types)}
    assert set(made.refused) == missing, made.refused
    path = tmp_path / "all.vectors"
    write(path, made)
    assert main(["emulate", "--check-vectors", str(path), "--accept-emulated"]) == 0


def test_instruction_that_the_assembler_refuses_is_named():
    wrong = Probe("v_frobnicate_b32", "v_frobnicate_b32", ("v_frobnicate_b32 v56, v32",), ("U32",), ("U32",))
    made = record(Emulated("gfx942"), [wrong])
    assert made.refused == {"v_frobnicate_b32": "v_frobnicate_b32: invalid instruction"}


# -- the command


@pytest.fixture
def few(monkeypatch):
    assembly = type(instruction_vectors.ASSEMBLIES["gfx1100"])
    monkeypatch.setattr(assembly, "probes", lambda self, architecture: chosen(architecture, ["v_add_f32"]))


@pytest.mark.usefixtures("few")
def test_emulated_recording_says_so(tmp_path, capsys):
    path = tmp_path / "own.vectors"
    assert main(["selftest", "--isa-vectors", str(path), "--emulated", "gfx1100"]) == 0
    assert "no evidence of any hardware" in capsys.readouterr().out
    origin = read(path).origin
    assert (origin.emulated, origin.device, origin.architecture) == (True, EMULATOR, "gfx1100")
    assert main(["emulate", "--check-vectors", str(path)]) == 2


def host(*devices):
    return Host("0" * 8, "Linux", "3.12", "2.13", "3.7.1", ("amd", "nvidia"), "570.1", None, tuple(devices), {})


def test_no_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(instruction_vectors, "probe_host", host)
    assert main(["selftest", "--isa-vectors", str(tmp_path / "x")]) == 2
    assert "no GPU is here that torch can use" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_nvidia_gpu_is_the_origin(monkeypatch):
    h200 = Device(0, "NVIDIA H200", "h200", "sm_90", 150 << 30, 132, "0" * 8)
    monkeypatch.setattr(instruction_vectors, "probe_host", lambda: host(h200))
    origin = instruction_vectors.Hardware().origin
    assert (origin.isa, origin.architecture, origin.device, origin.emulated) == ("ptx", "sm_90", "NVIDIA H200", False)


PTX_PROBES = (
    *("add.rz.f32", "ex2.approx.f32", "cvt.rn.satfinite.e4m3x2.f32", "fma.rn.f64", "setp.geu.f32", "max.bf16x2"),
    *("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2"),
)


@pytest.mark.parametrize("architecture", ["sm_89", "sm_90"])
def test_ptx_from_the_kernel_to_the_comparison(architecture):
    """The very kernel that would run on a device gives what the emulator's own kernel gives."""
    probes = [
        each for each in instruction_vectors.ASSEMBLIES[architecture].probes(architecture) if each.name in PTX_PROBES
    ]
    made = record(Emulated(architecture), probes[: 8 if architecture == "sm_90" else 3])
    assert made.refused == {}
    assert all(each.equal + each.nans == each.values for each in comparisons(made, "own"))


def test_gpu_of_an_architecture_that_is_not_emulated(monkeypatch, tmp_path, capsys):
    old = Device(0, "AMD Radeon RX 6800", "gfx1030", "gfx1030", 16 << 30, 60, "0" * 8)
    monkeypatch.setattr(instruction_vectors, "probe_host", lambda: host(old))
    monkeypatch.setattr(instruction_vectors.torch.version, "hip", "6.4")
    assert main(["selftest", "--isa-vectors", str(tmp_path / "x")]) == 2
    assert "gfx1030 is not emulated" in capsys.readouterr().err


def test_amd_gpu_is_the_origin(monkeypatch):
    """The file of a device has its name, architecture and drivers, and no mark of the emulator."""
    mi300x = Device(0, "AMD Instinct MI300X", "mi300x", "gfx942", 192 << 30, 304, "0" * 8)
    monkeypatch.setattr(
        instruction_vectors, "probe_host", lambda: replace(host(mi300x), driver="6.10.5", toolkit="HIP 6.4")
    )
    monkeypatch.setattr(instruction_vectors.torch.version, "hip", "6.4")
    origin = instruction_vectors.Hardware().origin
    assert (origin.architecture, origin.device, origin.emulated) == ("gfx942", "AMD Instinct MI300X", False)
    assert (origin.driver, origin.triton) == ("6.10.5 HIP 6.4", "3.7.1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["selftest", "--emulated", "gfx942"], "goes with --isa-vectors"),
        (["selftest", "--seed", "1"], "--seed goes with --isa-vectors"),
        (["selftest", "--isa-vectors", "{}/x", "--folder", "{}"], "--folder is for the report of the checks"),
        (["selftest", "--isa-vectors", "/dev/null/x", "--emulated", "gfx942"], "/dev/null is no folder"),
        (["selftest", "--isa-vectors", "{}/x", "--emulated", "sm_70"], "sm_70 is not emulated"),
    ],
)
def test_bad_input(arguments, message, tmp_path, capsys):
    assert main([each.format(tmp_path) for each in arguments]) == 2
    assert message in capsys.readouterr().err


def test_what_nvidias_assembler_refuses_is_told_and_the_others_are_recorded():
    """It is handed to Triton as an error of its own, and says so in more than one line."""
    bad = Probe("frob", "frob", ("frob.b32 %q0, %i0;",), ("I32",), ("I32",))
    good = Probe("not.b32", "not.b32", ("not.b32 %q0, %i0;",), ("I32",), ("I32",))
    made = record(Emulated("sm_90"), [bad, good])
    assert list(made.results) == ["not.b32"]
    assert made.refused == {"frob": "frob: Not a name of any known instruction: 'frob'"}
