"""One training step of a compiled Llama-style block, for ``portkit check --script``.

On a host with a GPU, torch.compile's kernels of forward and backward pass are taken from it and
built for every target::

    portkit check --script examples/train_step.py -t h200,mi300x
"""

import torch
from toggle_llama_block import Block
from torch.nn import functional

HIDDEN, HEADS, INTERMEDIATE = 1024, 8, 2816


def main() -> None:
    """Forward, backward, and a step of the optimizer."""
    block = Block(HIDDEN, HEADS, INTERMEDIATE).to("cuda", torch.bfloat16)
    compiled = torch.compile(block)
    optimizer = torch.optim.SGD(block.parameters(), lr=1e-3)
    x = torch.randn(2, 512, HIDDEN, device="cuda", dtype=torch.bfloat16)
    loss = functional.mse_loss(compiled(x).float(), torch.zeros_like(x, dtype=torch.float32))
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main()
