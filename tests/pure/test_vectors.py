"""Recorded instruction results: the file, its faults, and the emulator held against it from the command line."""

import json
import math
import zipfile
from dataclasses import replace

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np

from portkit.cli import main
from portkit.emulate.amdgcn.architecture import ARCHITECTURES
from portkit.emulate.amdgcn.isa.lookup import all_entries
from portkit.emulate.amdgcn.probes import probes_of, with_named_halves
from portkit.emulate.amdgcn.replay import results_of
from portkit.emulate.core import vectors
from portkit.emulate.core.operands import operands_for
from portkit.emulate.core.vectors import Bound, Origin, Probe, Recording, compare, read, write
from portkit.errors import VectorsError

GPU = Origin("amdgcn", "gfx942", "AMD Instinct MI300X", False, "6.10.5 HIP 6.4", "3.7.1", "0.1")
NAMES = ("v_add_f32", "v_exp_f32", "v_max_i32", "v_add_f64", "s_add_u32", "v_cmp_lt_f16", "v_dot2_f32_f16")


def recording(names=NAMES, architecture="gfx942", **origin):
    """A recording as the emulator would have made it."""
    device = ARCHITECTURES[architecture]
    probes = tuple(probe for probe in probes_of(device) if probe.name in names)
    operands = {probe.operands: operands_for(probe.sources, 128) for probe in probes}
    results = {probe.name: results_of(probe, operands[probe.operands], device) for probe in probes}
    return Recording(replace(GPU, architecture=architecture, **origin), probes, operands, results)


@pytest.fixture(scope="module")
def made():
    return recording()


@pytest.fixture
def file(made, tmp_path):
    path = tmp_path / "mi300x.vectors"
    write(path, made)
    return path


def changed(made, name, row, column, bits):
    """The recording with some bits of one result flipped."""
    words = made.results[name].copy()
    words[row, column] ^= bits
    return replace(made, results={**made.results, name: words})


# -- the file


def test_what_is_written_is_read(made, file):
    back = read(file)
    assert (back.origin, back.probes, back.refused) == (made.origin, made.probes, made.refused)
    for name in NAMES:
        assert np.array_equal(back.results[name], made.results[name])
    for key, words in made.operands.items():
        assert np.array_equal(back.operands[key], words)


def rewritten(file, edit):
    """The archive with its members changed, the header's checksum made right again."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    edit(header, members)
    if members["header.json"]:
        members["header.json"] = json.dumps(header).encode()
        members["header.sha256"] = vectors._digest(members["header.json"]).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def newer(header, members):
    header["version"] = 2


def other(header, members):
    header["format"] = "something else"


def damaged(header, members):
    members["results/v_add_f32.npy"] = members["results/v_add_f32.npy"][:-4] + b"\0\1\2\3"


def shortened(header, members):
    del members["operands/F32-F32.npy"]


def without_device(header, members):
    del header["origin"]["device"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (newer, "version 2 of the format, where this portkit reads version 1"),
        (other, "holds no instruction vectors"),
        (damaged, "the checksum of results/v_add_f32.npy is wrong"),
        (shortened, "the checksum of operands/F32-F32.npy is wrong"),
        (without_device, "lacks what a recording has"),
    ],
)
def test_bad_files_are_refused(file, edit, message, capsys):
    rewritten(file, edit)
    assert main(["emulate", "--check-vectors", str(file)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert str(file) in said
    assert "remedy: " in said


def test_edited_header_is_refused(file, capsys):
    """To turn an emulated file into one of hardware takes more than an editor."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["header.json"] = members["header.json"].replace(b"MI300X", b"MI325X")
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert main(["emulate", "--check-vectors", str(file)]) == 2
    assert "the checksum of the header is wrong" in capsys.readouterr().err


def test_missing_file(tmp_path, capsys):
    assert main(["emulate", "--check-vectors", str(tmp_path / "none")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"PK\3\4 but no archive", b"{}"])
def test_file_that_is_no_archive(tmp_path, capsys, content):
    path = tmp_path / "text"
    path.write_bytes(content)
    assert main(["emulate", "--check-vectors", str(path)]) == 2
    assert "is no recording" in capsys.readouterr().err


def test_folder_instead_of_a_file(tmp_path, capsys):
    assert main(["emulate", "--check-vectors", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "can't be read" in told
    assert "remedy: name a readable file" in told
    with pytest.raises(VectorsError, match="can't be written"):
        write(tmp_path, recording(("v_add_f32",)))


@pytest.mark.parametrize("origin", [{"isa": "ptx", "architecture": "sm_70"}, {"architecture": "gfx1030"}])
def test_architecture_that_is_not_emulated(made, tmp_path, capsys, origin):
    path = tmp_path / "other.vectors"
    write(path, replace(made, origin=replace(GPU, **origin)))
    assert main(["emulate", "--check-vectors", str(path)]) == 2
    assert "which is not emulated" in capsys.readouterr().err


def test_other_architecture_than_asked_for(file, capsys):
    assert main(["emulate", "--check-vectors", str(file), "--architecture", "gfx950"]) == 2
    assert "recorded on gfx942, not on gfx950" in capsys.readouterr().err


def test_lines_that_do_not_run_are_named(made, tmp_path, capsys):
    path = tmp_path / "strange.vectors"
    probe = replace(made.probes[0], lines=("v_frobnicate_b32 v56, v32",))
    write(path, replace(made, probes=(probe, *made.probes[1:])))
    assert main(["emulate", "--check-vectors", str(path)]) == 2
    assert "v_frobnicate_b32" in capsys.readouterr().err


def test_nothing_asked_for(capsys):
    assert main(["emulate"]) == 2
    told = capsys.readouterr().err
    assert "--check-vectors: no file to hold the emulator against" in told
    assert "portkit selftest --isa-vectors FILE" in told


# -- the emulator's own files


def test_emulated_file_never_passes_for_hardware(made, tmp_path, capsys):
    path = tmp_path / "own.vectors"
    write(path, replace(made, origin=replace(GPU, emulated=True, device=vectors.EMULATOR)))
    assert main(["emulate", "--check-vectors", str(path)]) == 2
    assert "recorded by the emulator, not by a GPU" in capsys.readouterr().err
    assert main(["emulate", "--check-vectors", str(path), "--accept-emulated"]) == 0
    assert "EMULATED: recorded by the emulator itself; no evidence of any hardware." in capsys.readouterr().out


# -- the comparison


def row_of(said, name):
    return next(line for line in said.splitlines() if line.startswith(name))


def test_equal_results(file, capsys):
    assert main(["emulate", "--check-vectors", str(file)]) == 0
    said = capsys.readouterr().out
    assert "gfx942: AMD Instinct MI300X, driver 6.10.5 HIP 6.4, Triton 3.7.1" in said
    assert "7 instructions compared, 0 outside what is declared" in said
    assert all("100.00 %" in row_of(said, name) and "equal" in row_of(said, name) for name in NAMES)


@pytest.mark.parametrize(
    ("name", "bits", "code", "verdict"),
    [
        ("v_exp_f32", 1, 0, "within"),  # one step, as declared
        ("v_exp_f32", 4, 1, "DIFFERS"),
        ("v_add_f32", 1, 1, "DIFFERS"),
        ("v_max_i32", 1, 1, "DIFFERS"),
        ("v_cmp_lt_f16", 1, 1, "DIFFERS"),
        ("s_add_u32", 1 << 31, 1, "DIFFERS"),
    ],
)
def test_differences(made, tmp_path, capsys, name, bits, code, verdict):
    """The first row of results that is a number is changed."""
    words = made.results[name][:, 0]
    row = next(n for n, x in enumerate(words) if 0x3000_0000 < int(x) < 0x4F00_0000) if "exp" in name else 100
    path = tmp_path / "changed.vectors"
    write(path, changed(made, name, row, 0, bits))
    assert main(["emulate", "--check-vectors", str(path)]) == code
    said = row_of(capsys.readouterr().out, name)
    assert verdict in said
    if code:
        probe = next(each for each in made.probes if each.name == name)
        first = made.operands[probe.operands][row]
        assert f"({' '.join(f'{word:#x}' for word in first)}) recorded " in said


def f32(x):
    return int(np.float32(x).view(np.uint32))


def compared(recorded, computed, kind="F32", bound=None, sizes=None):
    probe = Probe("p", "p", (), ("U32",), (kind,))
    columns = [np.array(side, np.uint32).reshape(-1, 1) for side in (recorded, computed)]
    return compare(probe, np.zeros((len(recorded), 1), np.uint32), *columns, bound or Bound(), sizes)


@pytest.mark.parametrize(
    ("recorded", "computed", "steps", "outside"),
    [
        (f32(1.0), f32(1.0), 0, 0),
        (f32(1.0), f32(1.0) + 3, 3, 1),
        (f32(0.0), f32(-0.0), 1, 1),
        (1, 0x8000_0001, 3, 1),
        (0x7FC0_0000, 0xFFC0_1234, 0, 0),
        (0x7FC0_0000, f32(1.0), math.inf, 1),
        (0x7F80_0000, 0x7F7F_FFFF, 1, 1),
    ],
)
def test_steps_between_floats(recorded, computed, steps, outside):
    found = compared([recorded], [computed])
    assert (found.largest, found.outside) == (steps, outside)


def test_nan_of_other_bits_is_counted_apart():
    found = compared([0x7FC0_0000, f32(2.0)], [0xFFC0_0001, f32(2.0)])
    assert (found.values, found.equal, found.nans, found.outside) == (2, 1, 1, 0)


def test_bounds():
    close = [f32(1.0), f32(1.0) + 2]
    assert compared(close[:1], close[1:], bound=Bound(ulps=1)).outside == 1
    assert compared(close[:1], close[1:], bound=Bound(ulps=2)).outside == 0
    assert compared(close[:1], close[1:], bound=Bound(absolute=1e-6)).outside == 0
    assert compared(close[:1], close[1:], bound=Bound(absolute=1e-8)).outside == 1
    sizes = np.array([[1000.0]])
    assert compared(close[:1], close[1:], bound=Bound(relative=1e-9), sizes=sizes).outside == 0
    assert compared([0x7F80_0000], [f32(1.0)], bound=Bound(absolute=1.0)).outside == 1


@pytest.mark.parametrize(("kind", "left", "right", "steps"), [("F16", 0x3C00, 0x3C02, 2), ("B16", 0xBF80, 0xBF7F, 1)])
def test_halves_count_steps_of_their_own(kind, left, right, steps):
    """What lies above the half is no part of it."""
    assert compared([left], [right | 0xABCD_0000], kind).largest == steps


def test_pairs_are_two_values():
    found = compared([0x3C00_3C00], [0x3C00_3C01], "F16x2")
    assert (found.values, found.equal, found.largest) == (2, 1, 1)


# -- which instructions, on which operands


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_every_arithmetic_entry_has_a_probe(architecture):
    """All that compute one result from their operands; accumulation registers only move."""
    generation = ARCHITECTURES[architecture].generation
    arithmetic = {n for n, e in all_entries().items() if e.operands and generation in e.generations}
    probed = {probe.mnemonic for probe in probes_of(ARCHITECTURES[architecture])}
    assert arithmetic - probed == {n for n in arithmetic if n.startswith("v_accvgpr")}
    compares = {n for n, e in all_entries().items() if n.startswith("v_cmp_") and generation in e.generations}
    assert compares <= probed


@pytest.mark.parametrize("sources", [("F32", "F32"), ("F64",), ("F16x2", "F16x2", "F32"), ("U8x4", "U8x4", "U32")])
def test_operands_are_the_same_everywhere_and_begin_with_edges(sources):
    first, second = operands_for(sources), operands_for(sources)
    assert np.array_equal(first, second)
    assert first.shape == (1024, sum(vectors.kind_of(kind).words for kind in sources))
    if sources == ("F32", "F32"):
        pairs = {tuple(row) for row in first.tolist()}
        edges = (0, 0x8000_0000, 1, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000)
        assert {(a, b) for a in edges for b in edges} <= pairs


def test_names_of_halves_change_no_result():
    """Where LLVM has 16-bit registers, their names take the place of the registers'."""
    architecture = ARCHITECTURES["gfx1100"]
    named = {probe: with_named_halves(probe) for probe in probes_of(architecture)}
    assert all(named[probe] is None for probe in named if probe.mnemonic in {"v_add_f32", "v_pk_add_f16", "s_add_u32"})
    chosen = ["v_rcp_f16", "v_add_nc_u16", "v_cvt_f32_f16", "v_fma_f16"]
    for probe in (each for each in named if each.name in chosen):
        assert named[probe].lines[-1].count(".l") == sum(k in {"F16", "U16"} for k in (*probe.sources, *probe.results))
        operands = operands_for(probe.sources)[:64]
        plain, halves = (results_of(form, operands, architecture) for form in (probe, named[probe]))
        assert np.array_equal(plain, halves)
