"""Variants × targets: how much slower each is than the winner there, and what a winner costs elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from portkit.analysis.rows import Comparison
from portkit.analysis.views.variants import Variants, variants
from portkit.render.plots.plot import Plot, Spec
from portkit.store.merge import Dataset


def _map(data: str, x: str, y: str, y_title: str) -> Spec:
    """Squares of a factor from 1 on, with its words on them."""
    return {
        "data": {"name": data},
        "encoding": {
            "x": {
                "field": x,
                "type": "nominal",
                "title": None,
                "sort": None,
                "axis": {"labelAngle": 0, "orient": "top"},
            },
            "y": {"field": y, "type": "nominal", "title": y_title, "sort": None},
        },
        "layer": [
            {
                "mark": {"type": "rect", "cornerRadius": 2, "opacity": 0.95},
                "encoding": {
                    "color": {
                        "condition": {"test": "datum.factor <= 1", "value": "#cfe6f5"},
                        "field": "factor",
                        "type": "quantitative",
                        "title": None,
                        "legend": None,
                        "scale": {
                            "domain": [1, 2],
                            "clamp": True,
                            "range": ["#f1f3f5", "#f0a36b"],
                            "interpolate": "rgb",
                        },
                    },
                    "tooltip": [{"field": name} for name in (x, y, "words", "told")],
                },
            },
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {"text": {"field": "words"}, "color": {"value": "#1f2328"}},
            },
        ],
    }


SPEC: Final = _map("cells", "target", "variant", "variant")
TRANSFERS: Final = _map("transfers", "on", "of", "winner of")


def plots(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One map an operation with times of several variants on several targets."""
    del dataset
    for view in variants(comparison):
        targets = ", ".join(dict.fromkeys(cell.target for cell in view.cells))
        yield Plot.of(
            view.operation,
            "variants",
            title="Variants by target: time ÷ the winner's there",
            alt=f"How much slower each variant is than the fastest one on {targets}, on the {view.clock} clock.",
            height=26 * len({cell.variant for cell in view.cells}),
            datasets={"cells": list(_cells(view))},
        )


def transfers(comparison: Comparison, dataset: Dataset) -> Iterator[Plot]:
    """One map an operation: the winner of one target, run on another."""
    del dataset
    for view in variants(comparison):
        yield Plot.of(
            view.operation,
            "transfers",
            title="Transfer penalty: one target's winner on another",
            alt="What the fastest variant of each target costs on every other one, "
            f"as its time ÷ that of the own winner, on the {view.clock} clock.",
            height=26 * len({each.of for each in view.transfers}),
            datasets={"transfers": list(_transfers(view))},
        )


def _cells(view: Variants) -> Iterator[dict[str, Any]]:
    for cell in view.cells:
        words = "★ fastest" if cell.winner else f"{cell.slower:.2f}×"
        yield {
            "target": cell.target,
            "variant": cell.variant,
            "factor": cell.slower,
            "words": words,
            "told": f"{cell.ms:.4g} ms",
        }


def _transfers(view: Variants) -> Iterator[dict[str, Any]]:
    for target in dict.fromkeys(each.of for each in view.transfers):
        yield {"of": target, "on": target, "factor": 1, "words": "own", "told": "its own winner"}
    for each in view.transfers:
        words = f"{each.penalty:.2f}×" if each.penalty is not None else "–"
        told = f"{each.variant}: {each.reason}" if each.reason else each.variant
        yield {"of": each.of, "on": each.on, "factor": each.penalty, "words": words, "told": told}
