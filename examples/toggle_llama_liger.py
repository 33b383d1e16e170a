"""A small random Llama of ``transformers`` with and without Liger-Kernel's patch, for ``portkit toggle``.

Needs ``pip install transformers liger-kernel``, and a GPU for the patched one: Liger's kernels are
Triton's. Nothing is downloaded, the configuration is written here::

    portkit toggle examples/toggle_llama_liger.py:build --input '0 <= i64[4,1024] < 32000' \
        --variant liger=examples/toggle_llama_liger.py:build_patched

Of Liger's patch its rotary positions stay out: only the instance that is returned is patched (``model=``), and they
take the place of a function of transformers' module.
On a CPU the variant shows as failed, and the rest works.
"""

import torch
from torch import nn


class Logits(nn.Module):
    """A causal language model that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Token numbers are sequences × length."""
        return self.model(input_ids=ids, use_cache=False).logits


def build() -> nn.Module:
    """Four layers of 1024 features, bfloat16, random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415 - heavy, and may be absent

    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
    )
    return Logits(LlamaForCausalLM(config).to(torch.bfloat16).eval())


def build_patched() -> nn.Module:
    """The same with Liger's RMSNorm and SwiGLU."""
    from liger_kernel.transformers import apply_liger_kernel_to_llama  # noqa: PLC0415 - the unpatched model needs none

    built = build()
    apply_liger_kernel_to_llama(model=built.model, rope=False, cross_entropy=False, fused_linear_cross_entropy=False)
    return built
