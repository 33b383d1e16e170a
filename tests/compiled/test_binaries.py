"""Figures read from binaries, held against the vendors' own tools."""

import collections
import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs Triton to compile kernels")

import triton
import triton.backends.nvidia
import triton.language as tl
from packaging.version import Version
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from portkit.errors import BinaryError, HostError
from portkit.model import Platform
from portkit.run.binaries import read_resources
from portkit.run.sass import machine_code
from portkit.run.texts import read_texts

CUOBJDUMP = Path(triton.backends.nvidia.__file__).parent / "bin" / "cuobjdump"
NVIDIA = [75, 80, 89, 90, 100, 120]
RDNA2 = [("gfx1030", 32)] if Version(triton.__version__) < Version("3.9") else []  # dropped there
AMD = [("gfx90a", 64), ("gfx942", 64), ("gfx950", 64), *RDNA2, ("gfx1100", 32), ("gfx1201", 32)]


@triton.jit
def scale(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def keep(x, y, n, B: tl.constexpr):
    # Three blocks stay live over two reductions.
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = tl.load(x + i + B)
    c = tl.load(x + i + 2 * B)
    s = tl.sum(a) + tl.sum(b * c)
    tl.store(y + i, a * s + b)
    tl.store(y + i + B, b - s + c)
    tl.store(y + i + 2 * B, c * s)


@triton.jit
def product(x, y, z, B: tl.constexpr):
    i = tl.arange(0, B)
    o = i[:, None] * B + i[None, :]
    tl.store(z + o, tl.dot(tl.load(x + o), tl.load(y + o)))


VECTOR = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}
MATRIX = {"x": "*fp16", "y": "*fp16", "z": "*fp32", "B": "constexpr"}
# name → kernel, values per lane with one warp
CASES = {"scale": (scale, 8), "keep": (keep, 32), "spilling": (keep, 64)}
WIDE = (keep, 128)
# Few registers are allowed, so that a small kernel spills: LLVM needs minutes for one that needs more than all.
FEW_REGISTERS = {"cuda": {"maxnreg": 32}, "hip": {"waves_per_eu": 8}}


def compiled(case, target):
    kernel, per_lane = CASES.get(case, WIDE)
    block = per_lane * target.warp_size
    options = {"num_warps": 1, **(FEW_REGISTERS[target.backend] if case == "spilling" else {})}
    try:
        return triton.compile(ASTSource(kernel, VECTOR, {"B": block}), target=target, options=options)
    except RuntimeError as error:
        if "unsupported target" in str(error):
            pytest.skip(str(error))
        raise


def compiled_product(target):
    return triton.compile(ASTSource(product, MATRIX, {"B": 64}), target=target, options={"num_warps": 4})


def resources(platform, kernel, warp_size):
    return read_resources(
        platform,
        kernel.kernel,
        kernel=kernel.metadata.name,
        shared_bytes=kernel.metadata.shared,
        num_warps=kernel.metadata.num_warps,
        warp_size=warp_size,
    )


def cuobjdump(cubin, folder):
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    text = subprocess.run([CUOBJDUMP, "--dump-resource-usage", path], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", text)}


def llvm(amdgcn):
    """The comments of the last function of the text: the kernel, behind what it calls."""
    return {name: int(value) for name, value in re.findall(r"; (\w+): *(\d+)", amdgcn)}


@pytest.mark.parametrize("case", [*CASES, "product"])
@pytest.mark.parametrize("arch", NVIDIA)
def test_cubin_figures_are_those_of_cuobjdump(arch, case, tmp_path):
    target = GPUTarget("cuda", arch, 32)
    kernel = compiled_product(target) if case == "product" else compiled(case, target)
    actual = resources(Platform.CUDA, kernel, 32)
    expected = cuobjdump(kernel.asm["cubin"], tmp_path)
    assert actual.registers_per_thread == expected["REG"]
    assert actual.spill_bytes_per_thread == expected["STACK"]
    assert actual.raw["sm"] == arch
    assert actual.raw["required_threads"] == actual.threads_per_block
    assert actual.shared_bytes_per_block == kernel.metadata.shared
    if case == "spilling":
        assert actual.spill_bytes_per_thread > 0
    if case == "scale":
        assert actual.spill_bytes_per_thread == 0


@pytest.mark.parametrize("arch", [90, 120])
def test_machine_code_is_that_of_cuobjdump_and_shows_spills(arch, tmp_path):
    """ptxas keeps them out of PTX."""
    cubin = compiled("spilling", GPUTarget("cuda", arch, 32)).asm["cubin"]
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin)
    dumped = subprocess.run([CUOBJDUMP, "-sass", path], capture_output=True, text=True, check=True).stdout
    names = collections.Counter(re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z][\w.]*)", dumped))
    lines = machine_code(cubin).split("\n")
    found = (re.match(r"  (?:@!?U?P\w+ +)?([A-Z][\w.]*)", line) for line in lines)
    assert collections.Counter(each[1] for each in found if each) == names
    assert names["STL"] > 0 or names["STL.64"] > 0 or names["STL.128"] > 0
    assert "?trans" not in "".join(lines)


def test_what_is_no_cubin_is_refused_with_the_words_of_nvdisasm():
    with pytest.raises(HostError, match="nvdisasm"):
        machine_code(b"no ELF")


def test_the_machine_code_of_a_kernel_is_kept_where_it_spills():
    kernel = compiled("spilling", GPUTarget("cuda", 90, 32))
    assert "STL" in read_texts(kernel, spills=True).stages["sass"]
    assert "sass" not in read_texts(kernel).stages


@pytest.mark.parametrize("case", [*CASES, "product"])
@pytest.mark.parametrize(("arch", "warp_size"), AMD)
def test_hsaco_figures_are_those_of_llvm(arch, warp_size, case):
    target = GPUTarget("hip", arch, warp_size)
    kernel = compiled_product(target) if case == "product" else compiled(case, target)
    actual = resources(Platform.ROCM, kernel, warp_size)
    expected = llvm(kernel.asm["amdgcn"])
    assert actual.registers_per_thread == expected.get("TotalNumVgprs", expected["NumVgprs"])
    assert actual.spill_bytes_per_thread == expected["ScratchSize"]
    assert actual.raw["sgpr_count"] == expected["TotalNumSgprs"]
    assert actual.raw.get("agpr_count") == expected.get("NumAgprs")
    assert actual.raw["wavefront_size"] == warp_size
    if case == "spilling":
        assert actual.spill_bytes_per_thread > 0
        assert actual.raw["vgpr_spill_count"] > 0
    if case == "scale":
        assert actual.spill_bytes_per_thread == 0


def test_accumulation_registers_count_on_cdna():
    kernel = compiled("wide", GPUTarget("hip", "gfx942", 64))
    actual = resources(Platform.ROCM, kernel, 64)
    assert actual.raw["agpr_count"] > 0
    assert actual.registers_per_thread == 256 + actual.raw["agpr_count"]


@pytest.fixture(scope="module")
def binaries():
    return {
        Platform.CUDA: compiled("scale", GPUTarget("cuda", 90, 32)).kernel,
        Platform.ROCM: compiled("scale", GPUTarget("hip", "gfx942", 64)).kernel,
    }


def read(platform, binary, kernel="scale"):
    return read_resources(platform, binary, kernel=kernel, shared_bytes=0, num_warps=1, warp_size=32)


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.6])
def test_truncated_binary_is_one_error(binaries, platform, part):
    whole = binaries[platform]
    with pytest.raises(BinaryError, match="damaged"):
        read(platform, whole[: int(len(whole) * part)])


def test_other_vendors_binary_is_named(binaries):
    with pytest.raises(BinaryError, match="is no cubin: its ELF machine is EM_AMDGPU"):
        read(Platform.CUDA, binaries[Platform.ROCM])
    with pytest.raises(BinaryError, match="is no hsaco: its ELF machine is EM_CUDA"):
        read(Platform.ROCM, binaries[Platform.CUDA])


@pytest.mark.parametrize("platform", Platform)
def test_missing_kernel_is_named(binaries, platform):
    with pytest.raises(BinaryError, match="for kernel 'other'"):
        read(platform, binaries[platform], kernel="other")
