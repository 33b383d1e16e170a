"""The tensors of a call's inputs, wherever they are: in lists, tuples and dicts too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def map_tensors(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The same value with every tensor in it changed."""
    return pytree.tree_map_only(torch.Tensor, change, value)


def named_leaves(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that holds no others, by its place: ``x``, ``xs[1]``, ``cache['k']``."""
    for name, value in inputs.items():
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            yield name + pytree.keystr(path), leaf


def named_tensors(inputs: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """Every tensor, by its place."""
    return [(place, leaf) for place, leaf in named_leaves(inputs) if isinstance(leaf, torch.Tensor)]


def map_named_tensors(change: Callable[[str, torch.Tensor], Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same inputs with every tensor changed, which may depend on its place."""

    def at(name: str, value: Any) -> Any:
        def visit(path: Any, leaf: Any) -> Any:
            return change(name + pytree.keystr(path), leaf) if isinstance(leaf, torch.Tensor) else leaf

        return pytree.tree_map_with_path(visit, value)

    return {name: at(name, value) for name, value in inputs.items()}
