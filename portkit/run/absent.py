"""Triton's driver interface for a GPU that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from portkit.model import Target
from portkit.run.shim import Answers


class AbsentDriver(DriverBase):
    """Triton's driver interface for a GPU that is not there."""

    def __init__(self, target: Target, answers: Answers, do_bench: Callable[..., Any]) -> None:
        super().__init__()
        self.target = target
        self.do_bench = do_bench
        self.utils = _AbsentUtils(answers)

    @classmethod
    def is_active(cls) -> bool:
        """Never chosen by itself, only by ``set_active``."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """No launcher is built, so a type needs no C++ name."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """The target in Triton's words."""
        arch = self.target.architecture
        return GPUTarget(arch.triton_backend, arch.triton_arch, arch.wave_size)

    def get_active_torch_device(self) -> torch.device:
        """The device that tensors claim to be on."""
        return torch.device("cuda", 0)

    def get_current_device(self) -> int:
        """The only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """The only device stays current."""

    def get_current_stream(self, device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_device_interface(self) -> Any:
        """HIP and CUDA share torch.cuda."""
        return torch.cuda

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Major and minor of the target."""
        major, minor = torch.cuda.get_device_capability()
        return major, minor

    def get_benchmarker(self) -> Callable[..., Any]:
        """For those who time by themselves; Triton's autotuner is followed elsewhere."""
        return self.do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Nothing to evict."""
        return torch.empty(0)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Nothing to evict."""


class _AbsentUtils:
    """The driver's C helpers: only the device query is ever asked."""

    _NAMES: ClassVar = {  # Triton's name → torch's
        "max_shared_mem": "shared_memory_per_block_optin",
        "max_num_regs": "regs_per_multiprocessor",
        "multiprocessor_count": "multi_processor_count",
        "warpSize": "warp_size",
        "max_threads_per_sm": "max_threads_per_multi_processor",
        "arch": "gcnArchName",
        "sm_clock_rate": "clock_rate",
        "mem_clock_rate": "memory_clock_rate",
        "mem_bus_width": "memory_bus_width",
    }

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def unload_module(self, module: Any) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, device: int) -> Any:
        return _TritonProperties(self._answers, self._NAMES)


class _TritonProperties:
    """A mapping that logs what is read, by torch's names."""

    def __init__(self, answers: Answers, names: dict[str, str]) -> None:
        self._answers, self._names = answers, names

    def __getitem__(self, name: str) -> Any:
        return self._answers[self._names[name]]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._names else default
