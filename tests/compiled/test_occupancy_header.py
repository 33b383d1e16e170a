"""Theoretical occupancy against other people's answers: NVIDIA's header and LLVM.

Both come with the Triton wheel. NVIDIA's ``cuda_occupancy.h`` is compiled into a
small program that answers one configuration a line.
"""

import importlib.util
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

from portkit.model import Platform
from portkit.targets.catalog import load_catalog
from portkit.targets.occupancy import occupancy, waves_per_simd

CASES_PER_ARCHITECTURE = 10_000
NO_LIMIT = 2**31 - 1  # INT_MAX in the header's answer
UNKNOWN_DEVICE = 2  # the header's CUDA_OCC_ERROR_UNKNOWN_DEVICE
CUDA = [arch for arch in load_catalog().architectures if arch.platform is Platform.CUDA]
ROCM = [arch for arch in load_catalog().architectures if arch.platform is Platform.ROCM]
HEADER_FIELDS = ("blocks", "registers", "shared memory", "waves", "blocks limit", "barriers")

PROGRAM = r"""
#include <climits>
#include <cstdio>
#include <cstring>
#include "cuda_occupancy.h"

// One line in: major minor threads_per_sm shared_per_sm shared_optin shared_reserved
//              registers dynamic_shared threads barriers
// One line out: blocks per SM, then what each resource alone would allow.
int main() {
  int major, minor, threads_per_sm, registers, threads, barriers;
  size_t per_sm, optin, reserved, dynamic;
  while (scanf("%d %d %d %zu %zu %zu %d %zu %d %d", &major, &minor, &threads_per_sm, &per_sm, &optin, &reserved,
               &registers, &dynamic, &threads, &barriers) == 10) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = threads_per_sm;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = per_sm;
    device.sharedMemPerBlockOptin = optin;
    device.reservedSharedMemPerBlock = reserved;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;  // as Triton sets it
    kernel.maxDynamicSharedSizeBytes = optin;
    kernel.numBlockBarriers = barriers;
    cudaOccDeviceState state;
    cudaOccResult r;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &kernel, &state, threads, dynamic);
    if (error != CUDA_OCC_SUCCESS) {
      fprintf(stderr, "error %d\n", error);
      return 1;
    }
    printf("%d %d %d %d %d %d\n", r.activeBlocksPerMultiprocessor, r.blockLimitRegs, r.blockLimitSharedMem,
           r.blockLimitWarps, r.blockLimitBlocks, r.blockLimitBarriers);
  }
}
"""


def header_directory():
    found = importlib.util.find_spec("triton")
    if found is None:
        pytest.skip("Triton is not installed: its wheel has cuda_occupancy.h")
    directory = Path(found.submodule_search_locations[0]) / "backends" / "nvidia" / "include"
    if not (directory / "cuda_occupancy.h").is_file():
        pytest.skip("this Triton ships no cuda_occupancy.h")
    return directory


@pytest.fixture(scope="session")
def header(tmp_path_factory):
    """A function from a list of configurations to the header's answers."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    directory = tmp_path_factory.mktemp("occupancy")
    source, program = directory / "occupancy.cpp", directory / "occupancy"
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-O1", "-w", f"-I{header_directory()}", source, "-o", program], check=True)

    def ask(lines):
        done = subprocess.run([program], input="\n".join(lines), capture_output=True, text=True, check=False)
        if done.returncode:
            unknown_device(done.stderr)
        return [dict(zip(HEADER_FIELDS, map(int, line.split()), strict=True)) for line in done.stdout.splitlines()]

    return ask


def configurations(arch, count):
    """Random needs of a block, legal and illegal, with the edges of every limit among them."""
    rng = random.Random(arch.name)
    largest = arch.shared_bytes_per_block_max
    edges = [0, 1, 49152 - arch.shared_bytes_reserved, 49152, 49153, largest - 1, largest, largest + 1]
    registers = [each for each in range(300) if each != 256]  # test_256_registers
    for _ in range(count):
        yield {
            "registers": rng.choice(registers),
            "shared_bytes": rng.choice([rng.choice(edges), rng.randrange(2048), rng.randrange(largest + 4096)]),
            "threads": rng.choice([32 * rng.randint(1, 32), rng.randint(1, 1100), 2048]),
            "barriers": rng.choice([0, 1, 1, 2, 7, 16]),
        }


def line(arch, needs):
    major, minor = divmod(arch.triton_arch, 10)
    limits = [arch.max_waves_per_unit * 32, arch.shared_bytes_per_unit]
    limits += [arch.shared_bytes_per_block_max, arch.shared_bytes_reserved]
    asked = [needs[key] for key in ("registers", "shared_bytes", "threads", "barriers")]
    return " ".join(str(number) for number in (major, minor, *limits, *asked))


def unknown_device(error):
    """Skip what the header of an older Triton does not know; fail for any other reason."""
    import triton

    assert error == f"error {UNKNOWN_DEVICE}\n"
    assert Version(triton.__version__) < Version("3.7")
    pytest.skip(f"cuda_occupancy.h of Triton {triton.__version__} does not know this architecture")


def expected_limits(answer, needs):
    """The header's count of each resource, those left out that set no limit."""
    limits = {"waves": answer["waves"], "blocks": answer["blocks limit"]}
    if needs["registers"]:  # the header sets no limit for 0; portkit takes the smallest allocation
        limits["registers"] = answer["registers"]
    return limits | {key: answer[key] for key in ("shared memory", "barriers") if answer[key] != NO_LIMIT}


@pytest.mark.parametrize("arch", CUDA, ids=lambda arch: arch.name)
def test_blocks_per_sm_equal_the_header(header, arch):
    cases = list(configurations(arch, CASES_PER_ARCHITECTURE))
    answers = header([line(arch, needs) for needs in cases])
    assert len(answers) == CASES_PER_ARCHITECTURE
    launching = 0
    for needs, answer in zip(cases, answers, strict=True):
        ours = occupancy(arch, **needs)
        limits = dict(ours.limits)
        if not needs["registers"]:
            del limits["registers"]
        assert (ours.blocks_per_unit, limits) == (answer["blocks"], expected_limits(answer, needs)), needs
        launching += ours.blocks_per_unit > 0
    assert 0.2 < launching / len(cases) < 0.9  # both kinds are among them


def test_enough_configurations():
    assert len(CUDA) * CASES_PER_ARCHITECTURE >= 10_000


def test_256_registers_is_where_the_header_is_wider(header):
    """No instruction can name a 256th register, so 255 is the limit here."""
    arch = load_catalog().architecture("sm_90")
    needs = {"registers": 256, "shared_bytes": 0, "threads": 128, "barriers": 1}
    assert header([line(arch, needs)])[0]["blocks"] == 2
    assert occupancy(arch, **needs).blocks_per_unit == 0


@pytest.mark.parametrize("arch", ROCM, ids=lambda arch: arch.name)
def test_waves_per_simd_equal_llvm(arch):
    triton = pytest.importorskip("triton", reason="Triton is not installed: it has LLVM's AMD backend")
    from occupancy_kernels import row_softmax
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x": "*fp32", "y": "*fp32", "n": "i32"}
    sources = [ASTSource(row_softmax, signature, {"BLOCK": each * arch.wave_size}) for each in (4, 64)]
    target = GPUTarget("hip", arch.name, arch.wave_size)
    if arch.name == "gfx906" and Version(triton.__version__) < Version("3.8"):
        pytest.skip("Triton builds for gfx906 from 3.8 on")
    if arch.family in ("RDNA1", "RDNA2") and Version(triton.__version__) >= Version("3.9"):
        pytest.skip("Triton builds for RDNA1 and RDNA2 up to 3.8")
    seen = set()
    for source in sources:
        assembly = triton.compile(source, target=target, options={"num_warps": 1}).asm["amdgcn"]
        registers = int(re.search(r"\.vgpr_count: *(\d+)", assembly)[1])
        scalars = int(re.search(r"\.sgpr_count: *(\d+)", assembly)[1])
        waves = int(re.search(r"; Occupancy: (\d+)", assembly)[1])
        assert waves_per_simd(arch, registers, scalars) == waves, registers
        seen.add(waves)
    assert len(seen) > 1  # registers bind in one of them
