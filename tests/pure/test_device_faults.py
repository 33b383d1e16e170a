"""Words by which a fault of the running kernel is known."""

import pytest

from portkit.run.device_faults import aborted_by_runtime, names_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("CUDA error: an illegal memory access was encountered", True),
        ("HIP error: unspecified launch failure", True),
        ("Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2. Reason: Unknown.", True),
        ("Queue aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION", True),
        ("HIP error: invalid argument", False),
        ("out of memory", False),
    ],
)
def test_a_fault_is_known_by_its_words(text, fault):
    assert names_fault(text) == fault


@pytest.mark.parametrize(
    ("log", "aborted"),
    [
        ("a warning\nMemory access fault by GPU node-1 on address 0x2.\nAborted\n", True),
        ("HW Exception by GPU node-2 (Agent handle: 0x1) reason :GPU Hang\n", True),
        (
            ":0:rocdevice.cpp: Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION: code 0x1016\n",
            True,
        ),
        ("LLVM ERROR: Cannot select\nAborted\n", False),
        ("terminate called after throwing an instance of 'c10::Error'\n", False),
    ],
)
def test_an_abort_of_rocm_s_runtime_is_told_from_others(log, aborted):
    assert aborted_by_runtime(log) == aborted
