"""The tables of launch options against the Triton that is installed, and what becomes of one that no backend has."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from triton.backends.amd.compiler import HIPOptions
from triton.backends.nvidia.compiler import CUDAOptions
from workshop import CASES

from portkit.model import CaseSource, Cell, Direction, Evidence, PlannedCell, Platform, Status
from portkit.plan.options import AMD, NVIDIA, foreign
from portkit.run.load import load_case
from portkit.run.session import chains_for
from portkit.targets.catalog import load_catalog

HIP, CUDA = ({each.name for each in fields(options)} for options in (HIPOptions, CUDAOptions))


def test_no_table_has_an_option_of_the_other_backend():
    assert not NVIDIA & HIP - {"num_ctas"}  # of which AMD's takes 1 alone
    assert not AMD & CUDA


def test_the_options_that_kernels_set_are_there():
    assert {"waves_per_eu", "matrix_instr_nonkdim", "kpack"} <= HIP & AMD
    assert {"maxnreg", "num_ctas"} <= CUDA & NVIDIA


@pytest.mark.parametrize(
    ("variant", "options", "owner", "other"),
    [
        ("b32amd", {"waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint"}, Platform.ROCM, Platform.CUDA),
        ("b64r128", {"maxnreg"}, Platform.CUDA, Platform.ROCM),
    ],
)
def test_the_suite_has_variants_of_each_vendor_s_options(variant, options, owner, other):
    """They apply to that vendor's targets alone, and the kernel gets them."""
    path = str(Path(__file__).parents[2] / "kernels" / "decode_attention.py")
    case = load_case(CaseSource("decode_attention", path=path))
    params = case.variants[variant]
    assert options <= params.keys()
    assert foreign(params, owner) is None
    assert all(name in foreign(params, other) for name in options)
    query = torch.empty(1, 4, 16, dtype=torch.float16)
    module = sys.modules[case.fused.__module__]
    assert options <= module.Steps(**params).launch(query, 16).keys()


@pytest.mark.parametrize("target", ["h200", "mi300x"])
def test_an_option_that_no_backend_has_is_unsupported_by_its_name(workshop, target):
    cell = Cell("unknown_option", Direction.FORWARD, (256,), "float32", "default", target)
    sources = {"unknown_option": CaseSource("unknown_option", path=str(CASES / "traps.py"))}
    chains = chains_for([PlannedCell(cell, Evidence.COMPILED)], sources, {target: load_catalog().get(target)})
    (result,) = workshop.session.results(chains)
    assert result.outcome.status is Status.UNSUPPORTED
    assert "num_wraps" in result.outcome.message
