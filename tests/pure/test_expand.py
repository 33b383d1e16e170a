from dataclasses import replace

import pytest

from portkit.errors import CatalogError, MatrixError
from portkit.model import (
    Axes,
    CaseDeclaration,
    CaseSource,
    Direction,
    Evidence,
    ExclusionRule,
    Expectation,
    Matrix,
    MatrixKernel,
    Selector,
    Status,
)
from portkit.plan.expand import Emulate, Selection, default_tier, expand

KNOWN = ("h200", "l4", "mi300x", "gfx1032")


def declaration(name, **changes):
    values = {
        "shapes": ((8, 8), (16, 16)),
        "small_shapes": ((2, 8), (1, 8)),
        "dtypes": ("float32", "bfloat16"),
        "variants": {"w4": {"num_warps": 4}, "w8": {"num_warps": 8}},
        "directions": (Direction.FORWARD,),
        "source_hash": "0",
    }
    return CaseDeclaration(source=CaseSource(name, path=f"/k/{name}.py"), **values | changes)


def matrix(kernels=None, **changes):
    kernels = {"softmax": Axes()} if kernels is None else kernels
    values = {"targets": ("h200", "mi300x"), "tiers": {"full": {}}, "expectations": (), "exclusions": ()}
    places = {"kernels.softmax.shapes[1]": "matrix.yaml:7", "targets[1]": "matrix.yaml:9"}
    return Matrix(
        path="matrix.yaml",
        kernels=tuple(
            MatrixKernel(CaseSource(name, path=f"/k/{name}.py"), axes, "matrix.yaml:2")
            for name, axes in kernels.items()
        ),
        places=places,
        **values | changes,
    )


ONE = Axes(shapes=((8, 8),), dtypes=("float32",), variants=("w8",))
CASES = {"softmax": declaration("softmax")}


def labels(plan):
    return [cell.label for cell in plan.cells]


def test_order_and_labels():
    axes = Axes(shapes=((32, 32),), variants=("w8", "w4"))
    plan = expand(matrix({"softmax": axes}), CASES, KNOWN)
    assert labels(plan) == [
        "softmax[h200-32x32-float32-w8-compiled]",
        "softmax[mi300x-32x32-float32-w8-compiled]",
        "softmax[h200-32x32-float32-w4-compiled]",
        "softmax[mi300x-32x32-float32-w4-compiled]",
        "softmax[h200-32x32-bfloat16-w8-compiled]",
        "softmax[mi300x-32x32-bfloat16-w8-compiled]",
        "softmax[h200-32x32-bfloat16-w4-compiled]",
        "softmax[mi300x-32x32-bfloat16-w4-compiled]",
        "softmax[interpreter-2x8-float32-w8-interpreted]",
        "softmax[interpreter-2x8-bfloat16-w8-interpreted]",
        "softmax[interpreter-1x8-float32-w8-interpreted]",
        "softmax[interpreter-1x8-bfloat16-w8-interpreted]",
    ]


def test_whole_product_has_unique_labels():
    both = declaration("softmax", directions=(Direction.FORWARD, Direction.BACKWARD))
    plan = expand(matrix(), {"softmax": both}, KNOWN, targets=Selection(("all",)), present=["h200", "l4"])
    # 2 directions × (2 shapes × 2 dtypes × 2 variants × (3 compiled + 2 measured) + 2 small shapes × 2 dtypes)
    assert len(plan.cells) == 2 * (8 * 5 + 4)
    assert len(set(labels(plan))) == len(plan.cells)


SELECTIONS = {
    "no GPU": ([], [], ["h200 compiled", "mi300x compiled", "interpreter interpreted"]),
    "a GPU": ([], ["l4"], ["l4 compiled", "l4 measured"]),
    "all": (
        ["all"],
        ["l4", "h200"],
        [
            "h200 compiled",
            "h200 measured",
            "mi300x compiled",
            "l4 compiled",
            "l4 measured",
            "interpreter interpreted",
        ],
    ),
    "names": (["gfx1032, h200", "h200"], ["h200"], ["gfx1032 compiled", "h200 compiled", "h200 measured"]),
    "interpreter": (["interpreter"], ["h200"], ["interpreter interpreted"]),
    "device outside the catalogue": ([], ["gfx1099"], ["gfx1099 compiled", "gfx1099 measured"]),
}


@pytest.mark.parametrize(("options", "present", "cells"), SELECTIONS.values(), ids=SELECTIONS)
def test_selection(options, present, cells):
    cases = {"softmax": declaration("softmax", small_shapes=((2, 8),))}
    plan = expand(matrix({"softmax": ONE}), cases, KNOWN, targets=Selection.parse(options), present=present)
    assert [f"{planned.cell.target} {planned.evidence}" for planned in plan.cells] == cells


def test_tier_narrows_the_kernels_it_names():
    tiers = {"full": {}, "quick": {"softmax": Axes(dtypes=("bfloat16",), variants=("w4",))}}
    two = matrix({"softmax": Axes(shapes=((8, 8),)), "gelu": ONE}, tiers=tiers, targets=("h200",))
    cases = {**CASES, "gelu": declaration("gelu")}
    assert default_tier(two) == "quick"
    quick = expand(two, cases, KNOWN, targets=Selection(("h200",)))
    assert quick.tier == "quick"
    assert labels(quick) == ["softmax[h200-8x8-bfloat16-w4-compiled]", "gelu[h200-8x8-float32-w8-compiled]"]
    full = expand(two, cases, KNOWN, tier="full", targets=Selection(("h200",)))
    assert len(full.cells) == 4 + 1


def test_first_rule_wins_and_exclusion_before_expectation():
    gap = Expectation(Selector(target="mi300x"), Status.TIMEOUT, "slow", "matrix.yaml:20")
    wider = Expectation(Selector(kernel="softmax"), Status.WRONG_RESULT, "wrong", "matrix.yaml:21")
    out = ExclusionRule(Selector(target="mi300x", dtype="bfloat16"), "no bf16", "matrix.yaml:25")
    one = Axes(shapes=((8, 8),), variants=("w8",))
    ruled = matrix({"softmax": one}, expectations=(gap, wider), exclusions=(out,))
    cells = expand(ruled, CASES, KNOWN, targets=Selection(("mi300x", "h200"))).cells
    assert {(c.cell.target, c.cell.dtype): (c.excluded, c.expectation) for c in cells} == {
        ("mi300x", "float32"): (None, gap),
        ("mi300x", "bfloat16"): ("no bf16", None),
        ("h200", "float32"): (None, wider),
        ("h200", "bfloat16"): (None, wider),
    }


TRITON = {
    "3.6.0": "range",
    "3.6.0+rocm7.0": "range",
    "3.7.0": "other",
    "3.7.1": "other",
    "3.8.0.dev1": None,
    None: None,
}


@pytest.mark.parametrize(("version", "rule"), TRITON.items(), ids=map(str, TRITON))
def test_rules_apply_to_their_range_of_triton(version, rule):
    """A kernel that fails under 3.6 and otherwise under 3.7 breaks neither host, nor one with 3.8."""
    rules = {
        "range": Expectation(Selector(kernel="softmax", triton="<3.7"), Status.COMPILE_ERROR, "why", "matrix.yaml:20"),
        "other": Expectation(Selector(triton=">=3.7,!=3.8.*"), Status.TIMEOUT, "why", "matrix.yaml:21"),
    }
    out = ExclusionRule(Selector(dtype="bfloat16", triton="==3.6.*"), "not there", "matrix.yaml:25")
    ruled = matrix({"softmax": Axes(shapes=((8, 8),))}, expectations=tuple(rules.values()), exclusions=(out,))
    cells = expand(ruled, CASES, KNOWN, triton=version).cells
    old = (version or "").startswith("3.6")
    assert {cell.excluded for cell in cells if cell.cell.dtype == "bfloat16"} == {"not there" if old else None}
    assert {cell.expectation for cell in cells if cell.cell.dtype == "float32"} == {rules.get(rule)}


def test_a_rule_for_one_shape():
    gap = Expectation(Selector(shape=(16, 16), dtype="float32"), Status.TIMEOUT, "slow", "matrix.yaml:20")
    small = Expectation(Selector(shape=(2, 8)), Status.WRONG_RESULT, "wrong", "matrix.yaml:21")
    plan = expand(matrix(expectations=(gap, small)), CASES, KNOWN)
    met = {(cell.cell.shape, cell.cell.dtype): cell.expectation for cell in plan.cells}
    assert {point for point, rule in met.items() if rule is gap} == {((16, 16), "float32")}
    assert {point for point, rule in met.items() if rule is small} == {((2, 8), "float32"), ((2, 8), "bfloat16")}


def test_a_rule_for_one_direction():
    both = declaration("softmax", directions=(Direction.FORWARD, Direction.BACKWARD))
    gap = Expectation(
        Selector(kernel="softmax", direction=Direction.BACKWARD), Status.TIMEOUT, "slow", "matrix.yaml:20"
    )
    plan = expand(matrix(expectations=(gap,)), {**CASES, "softmax": both}, KNOWN)
    ruled = {(cell.cell.case, cell.cell.direction) for cell in plan.cells if cell.expectation is gap}
    assert ruled == {("softmax", Direction.BACKWARD)}
    with pytest.raises(MatrixError, match="selects no cell") as caught:
        expand(matrix(expectations=(gap,)), CASES, KNOWN)
    assert "direction 'backward'" in str(caught.value)


def test_a_triton_that_is_no_version_can_not_be_told():
    rule = Expectation(Selector(kernel="softmax", triton="<3.7"), Status.TIMEOUT, "why", "matrix.yaml:20")
    with pytest.raises(MatrixError, match="calls itself 'main', which is no version") as caught:
        expand(matrix(expectations=(rule,)), CASES, KNOWN, triton="main")
    assert caught.value.place == "matrix.yaml:20"


def test_hash_follows_labels_and_rules():
    plain = expand(matrix(), CASES, KNOWN).plan_hash
    gap = Expectation(Selector(target="mi300x"), Status.TIMEOUT, "slow", "matrix.yaml:20")
    moved = Expectation(Selector(target="mi300x"), Status.TIMEOUT, "very slow", "matrix.yaml:30")
    assert expand(matrix(), CASES, KNOWN).plan_hash == plain
    assert expand(matrix({"softmax": ONE}), CASES, KNOWN).plan_hash != plain
    ruled = expand(matrix(expectations=(gap,)), CASES, KNOWN).plan_hash
    assert ruled != plain
    assert expand(matrix(expectations=(moved,)), CASES, KNOWN).plan_hash == ruled


EMULATED = [
    "softmax[mi300x-2x8-float32-w8-emulated]",
    "softmax[interpreter-2x8-float32-w8-interpreted]",
    "softmax[mi300x-1x8-float32-w8-emulated]",
    "softmax[interpreter-1x8-float32-w8-interpreted]",
]


def small(plan):
    return [label for label in labels(plan) if "compiled" not in label and "measured" not in label]


def test_targets_without_a_gpu_run_small_shapes_emulated():
    plan = expand(matrix({"softmax": ONE}), CASES, KNOWN, emulatable=["mi300x", "gfx942"])
    assert small(plan) == EMULATED
    assert small(expand(matrix({"softmax": ONE}), CASES, KNOWN)) == EMULATED[1::2]


def test_a_tier_may_have_some_of_the_small_shapes():
    tiers = {"full": {}, "quick": {"softmax": Axes(small_shapes=((1, 8),))}}
    one = matrix({"softmax": ONE}, tiers=tiers, targets=("mi300x",))
    assert small(expand(one, CASES, KNOWN, emulatable=["mi300x"])) == EMULATED[2:]
    assert small(expand(one, CASES, KNOWN, tier="full", emulatable=["mi300x"])) == EMULATED
    kernel = matrix({"softmax": replace(ONE, small_shapes=((2, 8),))}, targets=("mi300x",))
    assert small(expand(kernel, CASES, KNOWN, emulatable=["mi300x"])) == EMULATED[:2]


def test_every_variant_of_the_tier_is_emulated_and_the_first_one_interpreted():
    tiers = {"full": {}, "narrow": {"softmax": Axes(variants=("w4",))}}
    whole = replace(matrix({"softmax": replace(ONE, variants=("w8", "w4"))}), tiers=tiers)
    plan = expand(whole, CASES, KNOWN, tier="full", emulatable=["mi300x"])
    emulated = [(cell.cell.shape, cell.cell.variant) for cell in plan.cells if cell.evidence is Evidence.EMULATED]
    assert emulated == [((2, 8), "w8"), ((2, 8), "w4"), ((1, 8), "w8"), ((1, 8), "w4")]
    assert {c.cell.variant for c in plan.cells if c.evidence is Evidence.INTERPRETED} == {"w8"}
    narrow = expand(whole, CASES, KNOWN, tier="narrow", emulatable=["mi300x"])
    assert {c.cell.variant for c in narrow.cells} == {"w4"}


@pytest.mark.parametrize(("choice", "emulated"), [("auto", []), ("off", []), ("all", EMULATED[::2])])
def test_a_target_whose_gpu_is_there_is_emulated_where_asked(choice, emulated):
    choices = {"emulatable": ["mi300x"], "emulate": Emulate(choice), "targets": Selection(("mi300x",))}
    plan = expand(matrix({"softmax": ONE}), CASES, KNOWN, present=["mi300x"], **choices)
    assert small(plan) == emulated
    assert "softmax[mi300x-8x8-float32-w8-measured]" in labels(plan)


def test_rules_on_emulated_cells():
    why = Expectation(Selector(evidence=Evidence.EMULATED, shape=(1, 8)), Status.UNSUPPORTED, "why", "matrix.yaml:20")
    ruled = matrix({"softmax": ONE}, expectations=(why,))
    plan = expand(ruled, CASES, KNOWN, emulatable=["mi300x"])
    assert [planned.cell.shape for planned in plan.cells if planned.expectation] == [(1, 8)]
    switched_off = expand(ruled, CASES, KNOWN, emulatable=["mi300x"], emulate=Emulate.OFF)
    assert not any(planned.expectation for planned in switched_off.cells)


def test_kernel_without_declaration_gets_no_cell():
    rule = Expectation(Selector(variant="w99"), Status.TIMEOUT, "of the broken kernel, maybe", "matrix.yaml:20")
    plan = expand(matrix({"softmax": ONE, "broken": Axes()}, expectations=(rule,)), CASES, KNOWN)
    assert {planned.cell.case for planned in plan.cells} == {"softmax"}


def gap(**select):
    return {"expectations": (Expectation(Selector(**select), Status.TIMEOUT, "why", "matrix.yaml:20"),)}


REFUSED = {
    "unknown target": ({"targets": ("h200", "mi300")}, "matrix.yaml:9: targets[1]", "unknown target 'mi300'", "mi300x"),
    "dtype": (
        {"kernels": {"softmax": Axes(dtypes=("float16",))}},
        "matrix.yaml: kernels.softmax.dtypes[0]",
        "kernel case 'softmax' declares no dtype 'float16'",
        "bfloat16",
    ),
    "variant": (
        {"kernels": {"softmax": Axes(variants=("w8", "w16"))}},
        "matrix.yaml: kernels.softmax.variants[1]",
        "declares no variant 'w16'",
        "known: w4, w8",
    ),
    "direction": (
        {"kernels": {"softmax": Axes(directions=(Direction.BACKWARD,))}},
        "matrix.yaml: kernels.softmax.directions[0]",
        "declares no direction 'backward'",
        "forward",
    ),
    "rank": (
        {"kernels": {"softmax": Axes(shapes=((8, 8), (8, 8, 8)))}},
        "matrix.yaml:7: kernels.softmax.shapes[1]",
        "shape '8x8x8' has 3 axes where the kernel case has 2",
        "8x8",
    ),
    "tier widens": (
        {"tiers": {"full": {}, "nightly": {"softmax": Axes(shapes=((8, 9),))}}},
        "matrix.yaml: tiers.nightly.softmax.shapes[0]",
        "a tier only narrows, and the kernel has no shape '8x9'",
        "8x8",
    ),
    "small shape": (
        {"kernels": {"softmax": Axes(small_shapes=((2, 8), (2, 9)))}},
        "matrix.yaml: kernels.softmax.small_shapes[1]",
        "declares no small shape '2x9'",
        "2x8",
    ),
    "rule's dtype": (gap(dtype="float16"), "matrix.yaml:20", "selects no cell", "dtype 'float16': did you mean bfloat"),
    "rule's variant": (gap(variant="w16"), "matrix.yaml:20", "selects no cell", "variant 'w16': known: w4, w8"),
    "rule's shape": (
        gap(shape=(16, 8)),
        "matrix.yaml:20",
        "selects no cell",
        "shape '16x8': did you mean 1x8 or 16x16",
    ),
    "rule's shape is a small one": (gap(target="h200", shape=(2, 8)), "matrix.yaml:20", "no cell", "together"),
    "rule of another Triton": (gap(variant="w16", triton="<3"), "matrix.yaml:20", "selects no cell", "variant 'w16'"),
    "rule's evidence": (gap(target="h200", evidence=Evidence.INTERPRETED), "matrix.yaml:20", "no cell", "together"),
    "rule on a target that is never emulated": (
        gap(target="h200", evidence=Evidence.EMULATED),
        "matrix.yaml:20",
        "no cell",
        "together",
    ),
    "interpreter runs the first variant": (gap(target="interpreter", variant="w8"), "matrix.yaml:20", "no cell", "all"),
}


@pytest.mark.parametrize(("changes", "place", "message", "remedy"), REFUSED.values(), ids=REFUSED)
def test_refused(changes, place, message, remedy):
    with pytest.raises(MatrixError) as caught:
        expand(matrix(**changes), CASES, KNOWN, emulatable=["mi300x"])
    assert caught.value.place == place
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_rule_may_speak_of_another_tier():
    tiers = {"full": {}, "quick": {"softmax": Axes(variants=("w4",))}}
    ruled = matrix(tiers=tiers, **gap(variant="w8", evidence=Evidence.MEASURED))
    assert all(cell.expectation is None for cell in expand(ruled, CASES, KNOWN).cells)


def test_unknown_tier():
    with pytest.raises(MatrixError, match="unknown tier 'ful'") as caught:
        expand(matrix(), CASES, KNOWN, tier="ful")
    assert caught.value.remedy == "did you mean full?"


def test_unknown_target_of_the_user():
    with pytest.raises(CatalogError, match="unknown target 'h20'") as caught:
        expand(matrix(), CASES, KNOWN, targets=Selection(("h20",)))
    assert caught.value.remedy == "did you mean h200?"


def canonical(name):
    """As the catalogue does it: 90, sm90 and sm_90 are one architecture."""
    if name.removeprefix("sm").removeprefix("_") != "90":
        raise CatalogError(f"unknown target {name!r}")
    return "sm90"


def test_targets_are_known_by_any_of_their_names():
    rules = (Expectation(Selector(target="sm_90", dtype="float32"), Status.TIMEOUT, "slow", "matrix.yaml:20"),)
    spelled = matrix({"softmax": ONE}, targets=("h200", "sm_90"), expectations=rules)
    asked = Selection.parse(["90,h200", "sm_90"])
    plan = expand(spelled, CASES, [*KNOWN, "sm90"], targets=asked, resolve=canonical)
    assert labels(plan) == ["softmax[sm90-8x8-float32-w8-compiled]", "softmax[h200-8x8-float32-w8-compiled]"]
    assert plan.cells[0].expectation.reason == "slow"
    both = expand(spelled, CASES, [*KNOWN, "sm90"], targets=Selection(("all",)), resolve=canonical)
    assert [planned.cell.target for planned in both.cells[:2]] == ["h200", "sm90"]


def test_a_target_listed_under_two_names():
    with pytest.raises(MatrixError, match="'sm90' is listed twice, under two names") as caught:
        expand(matrix(targets=("sm_90", "sm90")), CASES, [*KNOWN, "sm90"], resolve=canonical)
    assert caught.value.place == "matrix.yaml:9: targets[1]"


def test_empty_plan():
    with pytest.raises(MatrixError, match="no kernel case could be read"):
        expand(matrix(), {}, KNOWN)


def test_measured_cells_of_a_partition_have_its_modes():
    """What is built or emulated has none: it is of the target, not of a device."""
    modes = {"mi300x": "CPX/NPS4"}
    plan = expand(
        matrix({"softmax": ONE}), CASES, KNOWN, present=["mi300x", "h200"], partitions=modes, emulatable=["mi300x"]
    )
    assert {(planned.evidence, planned.cell.target, planned.cell.partition) for planned in plan.cells} == {
        (Evidence.COMPILED, "h200", None),
        (Evidence.MEASURED, "h200", None),
        (Evidence.COMPILED, "mi300x", None),
        (Evidence.MEASURED, "mi300x", "CPX/NPS4"),
    }
    assert "softmax[mi300x-8x8-float32-w8-cpx-nps4-measured]" in labels(plan)
