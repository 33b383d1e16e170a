"""Every operation that Liger-Kernel exports, from its installed package and unmodified, as cases.

Those of ``liger_kernel.ops`` (0.8.5). Each reference is the operation's own formula, as its file and its tests
state it, in plain PyTorch. Hidden sizes are no powers of two where the kernels mask, so that their masks bite;
batches are of a few rows. Of autotuned kernels the first configuration is taken without building the others. Not here
are the two that launch no Triton kernel on AMD: the fused linear scaled cross-entropy, whose kernels are CUTLASS's and
whose fallback is PyTorch's, and its tensor-parallel form.
"""

import math
import sys

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from liger_kernel import ops
from triton.runtime.autotuner import Autotuner

from portkit import Direction, KernelCase, Work
from portkit.model import FAMILIES

EPS = 1e-6
ROWS, HIDDEN, VOCABULARY = 4, 1000, 1500
IGNORED = -100

WIDE = ("float32", "bfloat16")
ONLY_ORDINARY = dict.fromkeys(FAMILIES, "the table is of ordinary inputs")


for module in [module for name, module in sys.modules.items() if name.startswith("liger_kernel.ops")]:
    for kernel in vars(module).values():
        if isinstance(kernel, Autotuner):
            del kernel.configs[1:]


def declare(name, fused, reference, inputs, *, dtypes=WIDE, backward=True, shape=(ROWS, HIDDEN), **more):
    """A case of one small shape, on ordinary inputs."""
    return KernelCase(
        name=f"liger_{name}",
        fused=fused,
        reference=reference,
        inputs=lambda make, shape, dtype: inputs(make, *shape, dtype=dtype),
        work=lambda shape, dtype: Work(8, 8, 8),
        shapes=(shape,),
        small_shapes=(shape,),
        dtypes=dtypes,
        variants={"default": {}},
        directions=tuple(Direction) if backward else (Direction.FORWARD,),
        family_gaps=ONLY_ORDINARY,
        **more,
    )


def calls(function, *settings):
    """The function with the inputs in their order, then its settings; ``apply`` takes no keywords."""
    return lambda **given: function.apply(*given.values(), *settings)


def wide(x):
    """What kernels compute and return in float32 whatever comes in; float64 stays."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def several(make, names, *shape, dtype, low=-1.0, high=1.0):
    return {name: make.uniform(shape, dtype, low=low, high=high) for name in names.split()}


# -- activations


def _pair(make, rows, hidden, dtype):
    return several(make, "a b", rows, hidden, dtype=dtype, low=-4.0, high=4.0)


def _one(make, *shape, dtype):
    return {"x": make.uniform(shape, dtype, low=-4.0, high=4.0)}


def _gate_up(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


swiglu = declare("swiglu", calls(ops.LigerSiLUMulFunction), lambda a, b: F.silu(a) * b, _pair, in_place=("a", "b"))
gate_up = declare("gate_up", calls(ops.LigerFusedGateUpSiLUMulFunction), _gate_up, _one)
geglu = declare(
    "geglu",
    calls(ops.LigerGELUMulFunction),
    lambda a, b: F.gelu(a, approximate="tanh") * b,
    _pair,
    in_place=("a", "b"),
)
relu_squared = declare("relu_squared", calls(ops.LigerReLUSquaredFunction), lambda x: F.relu(x).square(), _one)


def _dyt(x, alpha, gamma, beta):
    return gamma * torch.tanh(alpha * x) + beta


def _dyt_inputs(make, rows, hidden, dtype):
    return {
        "x": make.uniform((rows, hidden), dtype, low=-4.0, high=4.0),
        "alpha": make.full((1,), dtype, 0.5),
        **several(make, "gamma beta", hidden, dtype=dtype),
    }


dyt = declare("dyt", calls(ops.LigerDyTFunction), _dyt, _dyt_inputs)


# -- norms


def _normed(x):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS)


def _norm_inputs(make, rows, hidden, dtype):
    return {
        "x": make.uniform((rows, hidden), dtype),
        "weight": make.uniform((hidden,), dtype, low=0.5, high=1.5),
    }


def _norm_bias_inputs(make, rows, hidden, dtype):
    return {**_norm_inputs(make, rows, hidden, dtype), "bias": make.uniform((hidden,), dtype)}


rms_norm = declare(
    "rms_norm",
    calls(ops.LigerRMSNormFunction, EPS, 0.0, "llama", False),
    lambda x, weight: _normed(x) * weight,
    _norm_inputs,
)
rms_norm_gemma = declare(
    "rms_norm_gemma",
    calls(ops.LigerRMSNormFunction, EPS, 1.0, "gemma", False),
    lambda x, weight: _normed(x) * (1 + weight),
    _norm_inputs,
)
layer_norm = declare(
    "layer_norm",
    calls(ops.LigerLayerNormFunction, EPS),
    lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias, EPS),
    _norm_bias_inputs,
)


def _add_norm(x, residual, weight):
    total = x + residual
    return _normed(total) * weight, total


fused_add_rms_norm = declare(
    "fused_add_rms_norm",
    calls(ops.LigerFusedAddRMSNormFunction, EPS, 0.0, "llama", False),
    _add_norm,
    lambda make, rows, hidden, dtype: {
        **several(make, "x residual", rows, hidden, dtype=dtype),
        "weight": make.uniform((hidden,), dtype, low=0.5, high=1.5),
    },
)
modulated_rms_norm = declare(
    "modulated_rms_norm",
    calls(ops.LigerModulatedRMSNormFunction, EPS, 0.0, "llama", False),
    lambda x, weight, scale, shift: (1 + scale[:, None]) * (_normed(x) * weight) + shift[:, None],
    lambda make, batch, rows, hidden, dtype: {
        "x": make.uniform((batch, rows, hidden), dtype),
        "weight": make.uniform((hidden,), dtype, low=0.5, high=1.5),
        **several(make, "scale shift", batch, hidden, dtype=dtype),
    },
    shape=(2, 3, HIDDEN),
)


def _poly_norm(x, weight, bias):
    return weight[0] * _normed(x**3) + weight[1] * _normed(x**2) + weight[2] * _normed(x) + bias


poly_norm = declare(
    "poly_norm",
    calls(ops.LigerPolyNormFunction, EPS, False),
    _poly_norm,
    lambda make, rows, hidden, dtype: {
        "x": make.uniform((rows, hidden), dtype),
        "weight": make.uniform((3,), dtype),
        "bias": make.uniform((), dtype),
    },
)
group_norm = declare(
    "group_norm",
    lambda x, weight, bias: ops.LigerGroupNormFunction.apply(x, weight, bias, x.shape[1], 4, EPS),
    lambda x, weight, bias: F.group_norm(x, 4, weight, bias, EPS),
    lambda make, batch, channels, size, dtype: {
        "x": make.uniform((batch, channels, size), dtype),
        "weight": make.uniform((channels,), dtype, low=0.5, high=1.5),
        "bias": make.uniform((channels,), dtype),
    },
    shape=(2, 16, 300),
    limits={"bfloat16": 0.02},  # its backward adds up gradients of weights in their own dtype, by atomics
)


# -- softmax and its kin


def _sparsemax(x):
    given, x = x.dtype, wide(x)
    ordered = x.sort(dim=-1, descending=True).values
    sums = ordered.cumsum(dim=-1) - 1
    place = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    size = (ordered * place > sums).sum(dim=-1, keepdim=True)
    return (x - sums.gather(-1, size - 1) / size.to(x.dtype)).clamp_min(0).to(given)


softmax = declare("softmax", calls(ops.LigerSoftmaxFunction), lambda x: torch.softmax(x, dim=-1), _one)
sparsemax = declare(
    "sparsemax",
    calls(ops.LigerSparsemaxFunction, -1),
    _sparsemax,
    _one,
    shape=(ROWS, 500),
    limits={"float32": 2e-5},  # a difference of numbers near 4, taken relative to a mean of 0.02
)


def _masked(scores, value):
    size = scores.shape[-1]
    future = torch.ones(size, size, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future, value)


def _multi_token(scores, weight, bias, padding=1):
    return _masked(F.conv2d(torch.softmax(_masked(scores, -torch.inf), dim=-1), weight, bias, padding=padding), 0.0)


multi_token_attention = declare(
    "multi_token_attention",
    calls(ops.LigerMultiTokenAttentionFunction, 1, 1, 1, 1, False),
    _multi_token,
    lambda make, batch, channels, size, dtype: {
        "scores": make.uniform((batch, channels, size, size), dtype, low=-4.0, high=4.0),
        "weight": make.uniform((channels, channels, 3, 3), dtype),
        "bias": make.uniform((channels,), dtype),
    },
    shape=(1, 2, 48),
    dtypes=("float32", "float16"),  # its own chain in bfloat16 between the kernels errs by as much as the check allows
)


def _neighborhood(q, k, v, kernel=7):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    place = torch.arange(q.shape[-2], device=q.device)
    near = (place[:, None] - place[None, :]).abs() <= kernel // 2
    return torch.softmax(scores.masked_fill(~near, -torch.inf), dim=-1) @ v


neighborhood_attention = declare(
    "neighborhood_attention",
    calls(ops.LigerFusedNeighborhoodAttentionFunction, 7, 1, None),
    _neighborhood,
    lambda make, batch, heads, tokens, size, dtype: several(make, "q k v", batch, heads, tokens, size, dtype=dtype),
    shape=(1, 2, 80, 32),
    allow_tf32=True,
)


def _attn_res(v, query, norm):
    alpha = torch.softmax((_normed(v) * norm * query).sum(dim=-1), dim=0)
    return (alpha[..., None] * v).sum(dim=0)


attn_res = declare(
    "attn_res",
    calls(ops.LigerAttnResFunction, EPS),
    _attn_res,
    lambda make, blocks, batch, tokens, size, dtype: {
        "v": make.uniform((blocks, batch, tokens, size), dtype),
        "query": make.uniform((size,), dtype, low=-0.1, high=0.1),
        "norm": make.uniform((size,), dtype, low=0.5, high=1.5),
    },
    shape=(5, 1, 3, 200),
)


# -- positions


def _turned(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def _rope(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + _turned(q) * sin, k * cos + _turned(k) * sin


def _heads(make, tokens, q_heads, k_heads, size, dtype):
    return {
        "q": make.uniform((1, tokens, q_heads, size), dtype).transpose(1, 2),
        "k": make.uniform((1, tokens, k_heads, size), dtype).transpose(1, 2),
    }


def _angles(make, *shape, dtype):
    return {name: torch.cat([make.uniform(shape, dtype)] * 2, dim=-1) for name in ("cos", "sin")}


rope = declare(
    "rope",
    calls(ops.LigerRopeFunction),
    _rope,
    lambda make, tokens, q_heads, k_heads, size, dtype: {
        **_heads(make, tokens, q_heads, k_heads, size, dtype),
        **_angles(make, 1, tokens, size // 2, dtype=dtype),
    },
    shape=(5, 8, 2, 64),
    differentiable=("q", "k"),
    in_place=("q", "k"),
)

SECTIONS = (8, 12, 12)


def _mrope(q, k, cos, sin):
    """Each section of the head takes its angles from time, height or width."""
    parts = [size for _ in range(2) for size in SECTIONS]
    cos, sin = (
        torch.cat([part[n % 3] for n, part in enumerate(angles.split(parts, dim=-1))], dim=-1) for angles in (cos, sin)
    )
    return _rope(q, k, cos, sin)


mrope = declare(
    "mrope",
    calls(ops.LigerQwen2VLMRopeFunction, SECTIONS),
    _mrope,
    lambda make, tokens, q_heads, k_heads, size, dtype: {
        **_heads(make, tokens, q_heads, k_heads, size, dtype),
        **_angles(make, 3, 1, tokens, size // 2, dtype=dtype),
    },
    shape=(5, 8, 2, 64),
    differentiable=("q", "k"),
    in_place=("q", "k"),
)


def _complex_rope(q, k, angles):
    turn = torch.view_as_complex(wide(angles))[None, :, None]

    def turned(x):
        pairs = torch.view_as_complex(wide(x).unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)

    return turned(q), turned(k)


llama4_rope = declare(
    "llama4_rope",
    lambda q, k, angles: ops.LigerLlama4RopeFunction.apply(q.clone(), k.clone(), torch.view_as_complex(wide(angles))),
    _complex_rope,
    lambda make, tokens, q_heads, k_heads, size, dtype: {
        "q": make.uniform((1, tokens, q_heads, size), dtype),
        "k": make.uniform((1, tokens, k_heads, size), dtype),
        "angles": make.uniform((tokens, size // 2, 2), dtype),
    },
    shape=(5, 8, 2, 64),
    differentiable=("q", "k"),
)


# -- losses


def _targets(make, rows, vocabulary):
    """One row is left out of the loss."""
    target = make.integers((rows,), "int64", 0, vocabulary)
    target[rows // 2] = IGNORED
    return target


def _logits(make, rows, vocabulary, dtype):
    return {
        "logits": make.uniform((rows, vocabulary), dtype, low=-4.0, high=4.0),
        "target": _targets(make, rows, vocabulary),
    }


def _cross_entropy(logits, target):
    return F.cross_entropy(logits, target, ignore_index=IGNORED)


cross_entropy = declare(
    "cross_entropy",
    lambda logits, target: ops.LigerCrossEntropyFunction.apply(logits, target, None)[0],
    _cross_entropy,
    _logits,
    shape=(ROWS, VOCABULARY),
    in_place=("logits",),
)

SOFTCAP, SMOOTHING, SQUARES = 30.0, 0.1, 1e-4


def _cross_entropy_full(logits, target, weight):
    """Softcap, weights, label smoothing, and the squared log-sum-exp, which leaves ignored rows out."""
    capped = SOFTCAP * torch.tanh(logits / SOFTCAP)
    loss = F.cross_entropy(
        capped, target, weight.to(logits.dtype), ignore_index=IGNORED, label_smoothing=SMOOTHING, reduction="sum"
    )
    kept = target != IGNORED
    return loss + SQUARES * torch.logsumexp(capped, dim=-1)[kept].square().sum()


cross_entropy_full = declare(
    "cross_entropy_full",
    lambda logits, target, weight: ops.LigerCrossEntropyFunction.apply(
        logits, target, weight, IGNORED, SQUARES, SMOOTHING, "sum", SOFTCAP
    )[0],
    _cross_entropy_full,
    lambda make, rows, vocabulary, dtype: {
        **_logits(make, rows, vocabulary, dtype),
        "weight": make.uniform((vocabulary,), "float32", low=0.5, high=1.5),
    },
    shape=(ROWS, VOCABULARY),
    in_place=("logits",),
    differentiable=("logits",),
)
vocab_parallel_cross_entropy = declare(
    "vocab_parallel_cross_entropy",
    lambda logits, target: ops.LigerVocabParallelCEFunction.apply(
        logits[:, None], target[:, None], None, IGNORED, 0.0, "nemo", "mean"
    ),
    lambda logits, target: F.cross_entropy(wide(logits), target, ignore_index=IGNORED, reduction="none")[:, None],
    _logits,
    shape=(ROWS, VOCABULARY),
)


def _distributions(make, rows, vocabulary, dtype):
    """Log-probabilities of a student, and of a teacher."""
    made = several(make, "student teacher", rows, vocabulary, dtype="float32", low=-4.0, high=4.0)
    return {name: torch.log_softmax(x, dim=-1).to(getattr(torch, dtype)) for name, x in made.items()}


def _jsd_terms(student, teacher, beta=0.5):
    student, teacher = wide(student), wide(teacher)
    mean = torch.log(beta * teacher.exp() + (1 - beta) * student.exp())
    kept, other = teacher.exp() * (teacher - mean), student.exp() * (student - mean)
    return beta * kept + (1 - beta) * other


jsd = declare(
    "jsd",
    calls(ops.LigerJSDFunction, None, 0.5, IGNORED),
    lambda student, teacher: (_jsd_terms(student, teacher).sum() / student.shape[0]).to(student.dtype),
    _distributions,
    shape=(ROWS, VOCABULARY),
    differentiable=("student",),
)
kl_div = declare(
    "kl_div",
    calls(ops.LigerKLDivLossFunction, "batchmean", True, 1e-10),
    lambda student, teacher: F.kl_div(wide(student), wide(teacher), reduction="batchmean", log_target=True),
    _distributions,
    shape=(ROWS, VOCABULARY),
    differentiable=("student",),
)
tvd = declare(
    "tvd",
    calls(ops.LigerTVDLossFunction, None, "batchmean", IGNORED),
    lambda student, teacher: 0.5 * (wide(student) - wide(teacher)).abs().sum() / student.shape[0],
    lambda make, rows, vocabulary, dtype: {
        name: x.exp() for name, x in _distributions(make, rows, vocabulary, dtype).items()
    },
    shape=(ROWS, VOCABULARY),
    differentiable=("student",),
    limits={"bfloat16": 4e-3},  # it stores what it adds up in the dtype of the inputs
)


def _ce_tvd(student, teacher, target):
    student, teacher = wide(student), wide(teacher)
    entropy = F.cross_entropy(student, target, ignore_index=IGNORED, reduction="none")
    distance = 0.5 * (torch.softmax(student, dim=-1) - torch.softmax(teacher, dim=-1)).abs().sum(dim=-1)
    return entropy, distance * (target != IGNORED)


fused_ce_tvd = declare(
    "fused_ce_tvd",
    calls(ops.LigerFusedCETVDFunction, IGNORED),
    _ce_tvd,
    lambda make, rows, vocabulary, dtype: {
        **several(make, "student teacher", rows, vocabulary, dtype=dtype, low=-4.0, high=4.0),
        "target": _targets(make, rows, vocabulary),
    },
    shape=(ROWS, VOCABULARY),
    differentiable=("student",),
)

BETA, TEMPERATURE, LOW, HIGH = 0.04, 0.9, 0.2, 0.4


def _grpo(logits, old, known, ids, advantages):
    """Clipped ratio of policies and its distance to the reference policy, per token."""
    all_logs = torch.log_softmax(wide(logits[:, :-1]) / TEMPERATURE, dim=-1)
    logs = all_logs.gather(-1, ids[..., None]).squeeze(-1)
    ratio = (logs - old).exp()
    clipped = ratio.clamp(1 - LOW, 1 + HIGH)
    gain = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    distance = (known - logs).exp() - (known - logs) - 1
    return -gain + BETA * distance


grpo = declare(
    "grpo",
    lambda logits, old, known, ids, advantages: ops.GrpoLossFunction.apply(
        logits, old, known, ids, advantages, None, TEMPERATURE, BETA, LOW, HIGH, False, "grpo", None, False
    )[0],
    _grpo,
    lambda make, batch, tokens, vocabulary, dtype: {
        "logits": make.uniform((batch, tokens + 1, vocabulary), dtype, low=-2.0, high=2.0),
        **several(make, "old known", batch, tokens, dtype="float32", low=-9.0, high=-5.0),
        "ids": make.integers((batch, tokens), "int64", 0, vocabulary),
        "advantages": make.uniform((batch,), "float32"),
    },
    shape=(2, 3, VOCABULARY),
    differentiable=("logits",),
)


# -- projections with a loss behind them


def _projection(make, rows, hidden, vocabulary, dtype):
    return {
        "x": make.uniform((rows, hidden), dtype),
        "weight": make.uniform((vocabulary, hidden), dtype, low=-0.5, high=0.5),
    }


fused_linear_cross_entropy = declare(
    "fused_linear_cross_entropy",
    lambda x, weight, target: ops.LigerFusedLinearCrossEntropyFunction.apply(x, weight, target)[0],
    lambda x, weight, target: _cross_entropy(wide(x @ weight.T), target),
    lambda make, rows, hidden, vocabulary, dtype: {
        **_projection(make, rows, hidden, vocabulary, dtype),
        "target": _targets(make, rows, vocabulary),
    },
    shape=(8, 64, 500),
)
fused_linear_kl_div = declare(
    "fused_linear_kl_div",
    calls(ops.LigerFusedLinearKLDivFunction),
    lambda x, weight, target: F.kl_div(
        torch.log_softmax(wide(x @ weight.T), dim=-1), wide(target), reduction="batchmean"
    ),
    lambda make, rows, hidden, vocabulary, dtype: {
        **_projection(make, rows, hidden, vocabulary, dtype),
        "target": _distributions(make, rows, vocabulary, dtype)["teacher"].exp(),
    },
    shape=(8, 64, 500),
    differentiable=("x", "weight"),
)


def _linear_jsd(x, weight, teacher, teacher_weight):
    student = torch.log_softmax(wide(x @ weight.T), dim=-1)
    return _jsd_terms(student, torch.log_softmax(wide(teacher @ teacher_weight.T), dim=-1)).sum() / x.shape[0]


fused_linear_jsd = declare(
    "fused_linear_jsd",
    calls(ops.LigerFusedLinearJSDFunction, None, 0.5),
    _linear_jsd,
    lambda make, rows, hidden, vocabulary, dtype: {
        **_projection(make, rows, hidden, vocabulary, dtype),
        "teacher": make.uniform((rows, hidden), dtype),
        "teacher_weight": make.uniform((vocabulary, hidden), dtype, low=-0.5, high=0.5),
    },
    shape=(8, 64, 500),
    differentiable=("x", "weight"),
)


# -- layers


def _embedding(weight, ids):
    return weight[ids]


embedding = declare(
    "embedding",
    calls(ops.LigerEmbeddingFunction),
    _embedding,
    lambda make, rows, size, dtype: {
        "weight": make.uniform((rows, size), dtype),
        "ids": make.integers((2, 9), "int64", 0, rows),
    },
    shape=(50, 72),
)


def _swiglu_layer(x, gate, up, down):
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def _layer(make, rows, hidden, inner, dtype):
    return {
        "x": make.uniform((rows, hidden), dtype),
        **several(make, "gate up", inner, hidden, dtype=dtype, low=-0.25, high=0.25),
        "down": make.uniform((hidden, inner), dtype, low=-0.25, high=0.25),
    }


mlp = declare(
    "mlp",
    calls(ops.LigerMLPFunction),
    _swiglu_layer,
    lambda make, batch, rows, hidden, inner, dtype: {
        **_layer(make, rows, hidden, inner, dtype),
        "x": make.uniform((batch, rows, hidden), dtype),
    },
    dtypes=("bfloat16", "float16"),
    shape=(1, 16, 64, 128),
)


def _by_tiles(x, gate, up, down):
    """Weights of the module are no inputs of the function: only x has a gradient through it."""

    def layer(weights, part):
        gate, up, down = weights
        return ops.LigerSiLUMulFunction.apply(part @ gate.T, part @ up.T) @ down.T

    return ops.LigerTiledMLPFunction.apply(layer, (gate, up, down), x, 3)


tiled_mlp = declare("tiled_mlp", _by_tiles, _swiglu_layer, _layer, shape=(7, 48, 100), differentiable=("x",))


def _experts(x, gate_up, down, ids, weights):
    """The sum over the experts that each token chose."""
    out = torch.zeros_like(x)
    for place in range(ids.shape[1]):
        chosen = ids[:, place].long()
        inner = _gate_up(torch.einsum("th,tih->ti", x, gate_up[chosen]))
        out = out + weights[:, place, None] * torch.einsum("ti,thi->th", inner, down[chosen])
    return out


fused_moe = declare(
    "fused_moe",
    calls(ops.LigerFusedMoEFunction),
    _experts,
    lambda make, tokens, experts, hidden, inner, dtype: {
        "x": make.uniform((tokens, hidden), dtype),
        "gate_up": make.uniform((experts, 2 * inner, hidden), dtype, low=-0.25, high=0.25),
        "down": make.uniform((experts, hidden, inner), dtype, low=-0.25, high=0.25),
        "ids": torch.stack(
            [
                make.integers((tokens,), "int32", 0, experts // 2),
                make.integers((tokens,), "int32", experts // 2, experts),
            ],
            dim=1,
        ),
        "weights": make.uniform((tokens, 2), dtype, low=0.25, high=0.75),
    },
    dtypes=("bfloat16", "float16"),
    shape=(10, 4, 64, 64),
)


# -- hyper-connections

STREAMS, STEPS = 4, 5


def _coefficients(x, phi, b, pre, post, res):
    """Gates before and after a layer, and a doubly stochastic matrix between the streams."""
    flat = wide(x).flatten(-2)
    mixed = (flat @ wide(phi)) * torch.rsqrt(flat.square().mean(dim=-1, keepdim=True) + EPS)
    first, second, rest = mixed.split([STREAMS, STREAMS, STREAMS**2], dim=-1)
    b1, b2, b3 = b.split([STREAMS, STREAMS, STREAMS**2])
    matrix = torch.softmax((rest * res + b3).unflatten(-1, (STREAMS, STREAMS)), dim=-1) + EPS
    matrix = matrix / (matrix.sum(dim=-2, keepdim=True) + EPS)
    for _ in range(STEPS - 1):
        matrix = matrix / (matrix.sum(dim=-1, keepdim=True) + EPS)
        matrix = matrix / (matrix.sum(dim=-2, keepdim=True) + EPS)
    return torch.sigmoid(first * pre + b1), torch.sigmoid(second * post + b2) * 2.0, matrix


mhc_coeffs = declare(
    "mhc_coeffs",
    calls(ops.LigerMHCCoeffsFunction, True, STEPS, EPS, 0.0, EPS, 2.0),
    _coefficients,
    lambda make, tokens, channels, dtype: {
        "x": make.uniform((tokens, STREAMS, channels), dtype),
        "phi": make.uniform((STREAMS * channels, STREAMS**2 + 2 * STREAMS), dtype, low=-0.1, high=0.1),
        "b": make.uniform((STREAMS**2 + 2 * STREAMS,), "float32"),
        **{name: make.full((), "float32", value) for name, value in (("pre", 0.5), ("post", 0.75), ("res", 0.25))},
    },
    shape=(5, 96),
    allow_tf32=True,
)
mhc_pre = declare(
    "mhc_pre",
    calls(ops.LigerMHCPreFunction),
    lambda x, gates: (wide(x) * gates[..., None]).sum(dim=-2).to(x.dtype),
    lambda make, tokens, channels, dtype: {
        "x": make.uniform((tokens, STREAMS, channels), dtype),
        "gates": make.uniform((tokens, STREAMS), "float32"),
    },
    shape=(5, 200),
)


def _post_res(x, out, gates, matrix):
    return (matrix @ wide(x) + gates[..., None] * wide(out)[..., None, :]).to(x.dtype)


mhc_post_res = declare(
    "mhc_post_res",
    calls(ops.LigerMHCPostResFunction),
    _post_res,
    lambda make, tokens, channels, dtype: {
        "x": make.uniform((tokens, STREAMS, channels), dtype),
        "out": make.uniform((tokens, channels), dtype),
        "gates": make.uniform((tokens, STREAMS), "float32"),
        "matrix": make.uniform((tokens, STREAMS, STREAMS), "float32"),
    },
    shape=(5, 200),
)
