"""Pipelines of asynchronous copies and products, and what deleting one wait, fence, commit or barrier of them does.

A deletion is found where the checker finds something, where the launch does not end well, or where other bits come out.
Those that no run can tell apart stay: a group that is merged with the one behind it, a barrier or a wait that another
one covers. The proxy fence behind ``cp.async`` is there from Triton 3.7 on, and is missed then.
"""

import dataclasses
import re

import numpy as np
import pytest
from compiled import OPTIONS, build
from test_ptx_matrix_kernels import described, matmul, operand, tl

from portkit.emulate import run

WAITS = re.compile(
    r"cp\.async\.(commit|wait)_group|wgmma\.(fence|commit_group|wait_group)|fence\.proxy|bar(rier)?\.sync|"
    r"cp\.async\.bulk\.(commit|wait)_group|tcgen05\.(wait|commit)|mbarrier\.(arrive|try_wait|init)"
)
DEPTH = 448


def mutants(text):
    """The name of each deletion, and the text without its instruction; of a waiting loop, without the loop."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        found = WAITS.search(line)
        if not found or line.lstrip().startswith("//"):
            continue
        end = number
        while found[0] == "mbarrier.try_wait" and "bra" not in lines[end]:
            end += 1
        yield found[0], "\n".join(lines[:number] + [""] * (end + 1 - number) + lines[end + 1 :])


def product(architecture):
    signature = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*fp32", "N": "i32", "K": "i32"}
    built = build(matmul, architecture, signature, {"BM": 64, "BN": 64, "BK": 64, "ACC": tl.float32}, num_stages=3)
    rng = np.random.default_rng(0)
    (a, _), (b, _) = operand(rng, "bf16", (128, DEPTH)), operand(rng, "bf16", (64, DEPTH))
    return built, (2, 1), lambda: [a, b, np.zeros((128, 64), np.float32), 64, DEPTH]


def tensors(architecture):
    signature = {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "M": "i32", "N": "i32", "K": "i32"}
    constants = {"BM": 64, "BN": 32, "BK": 32, "WS": False}
    built = build(described, architecture, signature, constants, num_stages=3)
    rng, (m, n) = np.random.default_rng(1), (112, 48)
    (a, _), (b, _) = operand(rng, "bf16", (m, DEPTH)), operand(rng, "bf16", (n, DEPTH))
    return built, (2,), lambda: [a, b, np.zeros((m, n), np.uint16), m, n, DEPTH, np.zeros(1 << 14, np.uint8)]


def outcome(built, text, grid, arguments):
    """Whether a launch passes, and what it leaves in its result."""
    values = arguments()
    options = dataclasses.replace(OPTIONS, budget=300_000_000)
    done = run(text, built.architecture, grid, values, built.waves, built.shared_bytes, options)
    return done.outcome.status == "passed", values[2]


def survivors(made):
    """How many deletions there are, and the names of those that are not found."""
    built, grid, arguments = made
    passed, expected = outcome(built, built.text, grid, arguments)
    assert passed
    count, left = 0, []
    for name, text in mutants(built.text):
        count += 1
        passed, found = outcome(built, text, grid, arguments)
        if passed and np.array_equal(found, expected):
            left.append(name)
    return count, left


REDUNDANT = {"cp.async.commit_group", "bar.sync", "fence.proxy"}
ABOUT_MAPS = {"cp.async.bulk.commit_group", "cp.async.bulk.wait_group"}
"""Where a tensor map is made, there is nothing to commit and to wait for."""


def test_deletions_in_a_pipeline_of_copies_and_products_are_found():
    count, left = survivors(product("sm_90"))
    assert count >= 15
    assert len(left) <= 4
    assert set(left) <= REDUNDANT
    assert not OPTIONS.fenced_copies or "fence.proxy" not in left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "architecture", "most"),
    [(product, "sm_80", 3), (product, "sm_100", 12), (tensors, "sm_90", 23), (tensors, "sm_100", 28)],
)
def test_deletions_in_more_pipelines_are_found(make, architecture, most):
    count, left = survivors(make(architecture))
    assert count >= 12
    assert len(left) <= most
    last = {"cp.async.wait_group"} if architecture == "sm_100" else set()
    assert set(left) <= REDUNDANT | (ABOUT_MAPS if make is tensors else last)
