"""Ready calls of other libraries, against the same operation written out, on the CPU."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from portkit.baselines import KNOWN, Library, flag_gems, flashinfer, liger, pytorch
from portkit.baselines.library import TORCH


def draw(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(len(shape))
    return torch.rand(shape, generator=generator, dtype=torch.float64).sub(0.5).to(dtype)


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


X, Y, W = draw(6, 40), draw(6, 40) * 3, draw(40) + 1


@pytest.mark.parametrize(
    ("call", "inputs", "expected"),
    [
        (pytorch.softmax, {"x": X}, X.exp() / X.exp().sum(-1, keepdim=True)),
        (pytorch.sum_abs, {"x": X}, X.abs().sum()),
        (pytorch.rms_norm, {"x": X, "weight": W}, rms(X) * W),
        (pytorch.add_rms_norm, {"x": X, "residual": Y, "weight": W}, (rms(X + Y) * W, X + Y)),
        (
            pytorch.layer_norm,
            {"x": X, "weight": W, "bias": Y[0]},
            (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True, unbiased=False) + 1e-6).sqrt() * W + Y[0],
        ),
        (
            pytorch.cross_entropy,
            {"logits": X, "target": torch.tensor([0, 1, 2, 39, 0, 7])},
            -X.log_softmax(-1)[range(6), [0, 1, 2, 39, 0, 7]].mean(),
        ),
        (
            pytorch.linear_gelu,
            {"x": X, "weight": draw(8, 40), "bias": draw(8)},
            functional.gelu(X @ draw(8, 40).T + draw(8)),
        ),
    ],
)
def test_pytorchs_operators(call, inputs, expected):
    found = call(**inputs)
    for one, other in zip(
        *(value if isinstance(value, tuple) else (value,) for value in (found, expected)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert call.library is TORCH


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_one_backend(causal):
    query, key, value = (draw(1, 2, 5, 8, dtype=torch.float64) * k for k in (1, 2, 3))
    scores = query @ key.transpose(-1, -2) / math.sqrt(8)
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    found = pytorch.attention("MATH", causal=causal)(query=query, key=key, value=value)
    torch.testing.assert_close(found, scores.softmax(-1) @ value)
    with pytest.raises(RuntimeError):  # there is none for these inputs, and no other takes its place
        pytorch.attention("CUDNN_ATTENTION")(query=query, key=key, value=value)


def test_attention_shares_heads_of_keys():
    query, key, value = draw(1, 4, 5, 8), draw(1, 2, 5, 8) * 2, draw(1, 2, 5, 8) * 3
    wide = {"key": key.repeat_interleave(2, dim=1), "value": value.repeat_interleave(2, dim=1)}
    call = pytorch.attention("MATH", causal=True)
    torch.testing.assert_close(call(query=query, key=key, value=value), call(query=query, **wide))


def test_compiled_takes_options_of_inductor(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    call = pytorch.compiled(lambda x: x.exp() + 1, max_autotune=False)
    torch.testing.assert_close(call(x=X), X.exp() + 1)
    with pytest.raises(RuntimeError, match="no_such_option"):
        pytorch.compiled(lambda x: x + 1, no_such_option=1)(x=X)


def test_layout_of_flashinfers_silu_and_mul():
    packed = flashinfer.silu_and_mul.prepare(gate=X, up=Y)["gate_up"]
    assert torch.equal(packed[..., :40], X)
    assert torch.equal(packed[..., 40:], Y)


@pytest.mark.parametrize("module", [flag_gems, flashinfer, liger])
def test_each_module_names_its_library(module):
    calls = [getattr(module, name) for name in module.__all__]
    (library,) = [each for each in calls if isinstance(each, Library)]
    assert library in KNOWN
    assert {call.library for call in calls if call is not library} == {library}


def test_a_library_says_whether_it_is_there():
    here, gone = Library("torch", "torch"), Library("no-such-library", "no_such_library")
    assert (here.installed, here.version) == (True, torch.__version__)
    assert (gone.installed, gone.version) == (False, None)
