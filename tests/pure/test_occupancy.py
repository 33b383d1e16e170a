"""Theoretical occupancy: answers worked out by hand, and what can't launch."""

import json

import pytest
from click.testing import CliRunner

from portkit.cli.occupancy import command as occupancy_command
from portkit.cli.targets import command as targets_command
from portkit.errors import CatalogError
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import broken_limits, occupancy, waves_per_simd

CATALOG = load_catalog()


def arch(name):
    return CATALOG.architecture(name)


def answer(name, registers, shared, threads, **more):
    found = occupancy(arch(name), registers=registers, shared_bytes=shared, threads=threads, **more)
    return found.blocks_per_unit, found.percent, found.limiter


@pytest.mark.parametrize(
    ("name", "registers", "waves"),
    [
        ("gfx90a", 64, 8),  # 512 // 64
        ("gfx90a", 65, 7),  # 512 // 72
        ("gfx942", 128, 4),  # 512 // 128
        ("gfx942", 296, 1),  # 256 and 40 accumulation registers: 512 // 296
        ("gfx950", 0, 8),  # smallest allocation; 8 waves at most
        ("gfx950", 513, 0),  # more than a thread may have
        ("gfx1030", 65, 12),  # 1024 // 80
        ("gfx1100", 97, 12),  # 1536 // 120
        ("gfx1102", 97, 9),  # 1024 // 112
        ("gfx1201", 256, 5),  # 1536 // 264
        ("gfx1010", 49, 18),  # 1024 // 56
    ],
)
def test_waves_per_simd(name, registers, waves):
    assert waves_per_simd(arch(name), registers) == waves


@pytest.mark.parametrize(
    ("name", "registers", "shared", "threads", "expected"),
    [
        # 256 threads are 4 waves of 64 (8 of 32 on RDNA)
        ("gfx942", 128, 32768, 256, (2, 25.0, "shared memory")),  # 65536 // 32768
        ("gfx942", 128, 0, 256, (4, 50.0, "registers")),  # 4 waves · 4 SIMDs // 4
        ("gfx942", 32, 513, 64, (32, 100.0, "waves")),  # LDS 65536 // 1024 = 64, waves 32 // 1
        ("gfx90a", 32, 0, 128, (16, 100.0, "waves")),  # 32 // 2 and 16 by barriers
        ("gfx950", 32, 1281, 64, (32, 100.0, "waves")),  # LDS 163840 // 2560 = 64
        ("gfx950", 128, 81921, 512, (1, 25.0, "shared memory")),  # two granules of 1280 too many for two blocks
        ("gfx1030", 64, 0, 64, (32, 100.0, "waves")),  # 64 // 2 and 32 by barriers
        ("gfx1030", 32, 0, 32, (64, 100.0, "waves")),  # one wave needs no barrier
        ("gfx1100", 128, 32768, 256, (4, 50.0, "shared memory")),  # 131072 // 32768, of 64 waves
        ("gfx1100", 120, 0, 256, (6, 75.0, "registers")),  # 1536 // 120 = 12, · 4 // 8
        ("gfx1102", 120, 0, 256, (4, 50.0, "registers")),  # 1024 // 128 = 8, · 4 // 8
        ("gfx1201", 200, 65536, 1024, (0, 0.0, "registers: 200 a thread")),  # 7 waves · 4 < 32
        ("gfx1201", 192, 65536, 1024, (1, 50.0, "registers")),  # 8 waves · 4 // 32; LDS leaves two
        # NVIDIA: H200 with 168 registers, the case that ncu reported on compute capability 10.0
        ("sm_100", 168, 205696, 384, (1, 18.75, "registers")),
        ("sm_90", 32, 0, 32, (32, 50.0, "blocks")),
        ("sm_75", 32, 32768, 256, (2, 50.0, "shared memory")),  # 65536 // 32768, of 32 warps
    ],
)
def test_worked_out_by_hand(name, registers, shared, threads, expected):
    blocks, percent, limiter = answer(name, registers, shared, threads)
    assert (blocks, percent) == expected[:2]
    assert limiter.startswith(expected[2])


def test_every_resource_has_its_count():
    found = occupancy(arch("sm_100"), registers=168, shared_bytes=205696, threads=384, barriers=7)
    assert found.limits == {"waves": 5, "blocks": 32, "registers": 1, "shared memory": 1, "barriers": 9}  # ncu's


def test_named_barriers_limit_from_hopper_on():
    assert answer("sm_90", 32, 0, 64, barriers=4) == (16, 50.0, "barriers")  # 32 · 2 // 4
    assert answer("sm_120", 32, 0, 64, barriers=4) == (6, 25.0, "barriers")  # 24 // 4
    assert answer("sm_80", 32, 0, 64, barriers=4) == (32, 100.0, "waves")


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_120"])
def test_a_block_has_sixteen_named_barriers(name):
    assert answer(name, 32, 0, 1024, barriers=16)[0] > 0
    assert answer(name, 32, 0, 1024, barriers=17) == (0, 0.0, "named barriers 17 > 16")


def test_tensor_memory_is_taken_in_powers_of_two():
    assert answer("sm_100", 32, 0, 128, tensor_memory_columns=129) == (2, 12.5, "tensor memory")  # 512 // 256
    assert answer("sm_100", 32, 0, 128, tensor_memory_columns=513)[2] == "tensor memory 513 columns > 512 columns"
    assert answer("sm_90", 32, 0, 128, tensor_memory_columns=32)[2] == "tensor memory 32 columns > 0 columns"


@pytest.mark.parametrize(
    ("name", "needs", "texts"),
    [
        ("gfx942", {"threads": 2048, "shared_bytes": 0, "registers": 32}, ["threads 2048 > 1024"]),
        ("sm_86", {"threads": 128, "shared_bytes": 131072, "registers": 32}, ["shared memory 131072 B > 101376 B"]),
        ("gfx1100", {"threads": 32, "shared_bytes": 65537, "registers": 32}, ["shared memory 65537 B > 65536 B"]),
        ("sm_90", {"threads": 64, "shared_bytes": 0, "registers": 256}, ["registers 256 a thread > 255 a thread"]),
        # 17 warps are checked as 20: 20 · 3328 registers
        ("sm_90", {"threads": 544, "shared_bytes": 0, "registers": 100}, ["registers 66560 > 65536 in a block"]),
        (
            "gfx942",
            {"threads": 1024, "shared_bytes": 65536, "registers": 129},
            ["registers: 129 a thread leave room for 12 waves in a CU, the block has 16"],
        ),
        ("gfx950", {"threads": 1024, "shared_bytes": 163840, "registers": 128}, []),
    ],
)
def test_broken_limits_in_words(name, needs, texts):
    assert list(broken_limits(arch(name), **needs)) == texts
    found = occupancy(arch(name), **needs)
    assert (found.percent == 0) == bool(texts)
    if texts:
        assert found.limiter == "; ".join(texts)


@pytest.mark.parametrize(("scalars", "waves"), [(0, 40), (80, 40), (81, 32), (102, 28)])
def test_scalar_registers_bind_on_gfx906_alone(scalars, waves):
    """800 a SIMD in blocks of 16: 80 leave room for ten waves, 96 for eight, 112 for seven."""
    needs = {"registers": 24, "shared_bytes": 0, "threads": 64, "scalar_registers": scalars}
    assert occupancy(arch("gfx906"), **needs).waves_per_unit == waves
    assert occupancy(arch("gfx942"), **needs).waves_per_unit == 32


@pytest.mark.parametrize(
    "needs",
    [
        {"registers": -1, "shared_bytes": 0, "threads": 32},
        {"registers": 1, "shared_bytes": -1, "threads": 32},
        {"registers": 1, "shared_bytes": 0, "threads": 0},
        {"registers": 1, "shared_bytes": 0.5, "threads": 32},
        {"registers": 1, "shared_bytes": 0, "threads": 32, "barriers": -1},
    ],
)
def test_nonsense_is_refused(needs):
    with pytest.raises(ValueError, match="must be"):
        occupancy(arch("sm_90"), **needs)


def test_sources_that_differ_are_told():
    assert any("LDS granule" in doubt for doubt in arch("gfx1100").doubts)
    assert any("WGP" in doubt for doubt in arch("gfx1100").doubts)
    assert not arch("sm_90").doubts


def run(command, *arguments):
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_occupancy_command():
    asked = ("--target", "mi300x", "--registers", "128", "--shared", "32768", "--threads", "256")
    text = run(occupancy_command, *asked)
    assert "25.0 %" in text
    assert "limiter: shared memory" in text
    assert "doubts: " in text
    found = json.loads(run(occupancy_command, *asked, "--json"))
    assert (found["percent"], found["blocks_per_unit"], found["unit"]) == (25.0, 2, "CU")
    assert found["limits"] == {"waves": 8, "blocks": 16, "registers": 4, "shared memory": 2}


def test_occupancy_command_with_barriers():
    needs = ("--registers", "32", "--threads", "64")
    assert "16 blocks and 32 of 64 warps" in run(occupancy_command, "--target", "h200", *needs, "--barriers", "4")
    assert "limiter: named barriers 17 > 16" in run(occupancy_command, "--target", "a100", *needs, "--barriers", "17")
    with pytest.raises(CatalogError, match=r"--barriers: gfx942 has no named barriers\n.*leave the option out"):
        run(occupancy_command, "--target", "mi300x", *needs, "--barriers", "1")
    assert "waves" in run(occupancy_command, "--target", "mi300x", *needs)


def test_occupancy_command_has_the_vendors_words():
    needs = ("--registers", "16", "--threads", "1024")
    nvidia, amd = (run(occupancy_command, "--target", name, *needs) for name in ("h200", "mi300x"))
    assert "64 of 64 warps per SM\nlimiter: warps\n" in nvidia
    assert "wave" not in nvidia
    assert "32 of 32 waves per CU\nlimiter: waves\n" in amd
    found = json.loads(run(occupancy_command, "--target", "h200", *needs, "--json"))
    assert found["limiter"] == "waves"  # one word for all vendors, as in records
    assert "waves" in found["limits"]


def test_targets_command_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run(targets_command)
    assert max(map(len, text.splitlines())) <= 80
    assert "left out for want of room: title, vendor, L2 MiB, tf32; a wider terminal or --json has them" in " ".join(
        text.split()
    )
    row = next(line for line in text.splitlines() if line.startswith("h200 "))
    assert row.split()[1:5] == ["sm_90", "132", "4800", "141"]
    monkeypatch.delenv("COLUMNS")
    assert "NVIDIA H200" in run(targets_command)  # through a pipe all of it


def test_targets_command():
    lines = run(targets_command, "--platform", "rocm").splitlines()
    row = next(line for line in lines if line.startswith("mi355x"))
    assert row.split()[-3:] == ["–", "–", "–"]  # float16, bfloat16 and fp8 have no source
    assert not any(line.startswith("h200") for line in lines)
    found = {each["name"]: each for each in json.loads(run(targets_command, "--json"))}
    assert found["h200"]["architecture"]["name"] == "sm_90"
    assert found["mi355x"]["peak_tflops"]["bfloat16"] is None
