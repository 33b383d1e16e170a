"""Operations of vLLM that ask for the platform they run on, answered by PyTorch.

vLLM asks the vendors' management libraries and its own compiled part, which a host without a GPU has not.
"""

import torch
import vllm.platforms
from vllm.platforms.interface import Platform, PlatformEnum


class PyTorchsPlatform(Platform):
    """What vLLM's own classes say of a GPU, as far as these operations ask."""

    _enum = PlatformEnum.ROCM if torch.version.hip else PlatformEnum.CUDA
    device_type = "cuda"

    @classmethod
    def num_compute_units(cls, device_id: int = 0) -> int:
        """SMs or compute units."""
        return torch.cuda.get_device_properties(device_id).multi_processor_count


vllm.platforms.current_platform = PyTorchsPlatform()

from vllm.model_executor.determinism.batch_invariant import (  # noqa: E402 - they look at the platform as they load
    matmul_descriptor_persistent,
    matmul_persistent,
)
from vllm.third_party.flash_linear_attention.ops.layernorm_guard import rmsnorm_fn  # noqa: E402
from vllm.triton_utils.allocation import set_triton_allocator  # noqa: E402
from vllm.v1.sample.ops.topk_topp_triton import apply_top_k_top_p_triton  # noqa: E402

set_triton_allocator(torch.device("cuda"))  # as vLLM does before it launches kernels with descriptors

__all__ = ["apply_top_k_top_p_triton", "matmul_descriptor_persistent", "matmul_persistent", "rmsnorm_fn"]
