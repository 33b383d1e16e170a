"""A fleet file to begin with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from portkit.errors import FleetError
from portkit.plan.matrix import read_matrix


def starter(folder: Path) -> str:
    """A fleet file for the matrix of a folder: this host as the matrix's first target, and examples in comments.

    Raises:
        FleetError: the folder has no matrix.
        MatrixError: the matrix can't be used.
    """
    matrix = folder / "matrix.yaml"
    if not matrix.is_file():
        remedy = "call this where matrix.yaml is, or write one: portkit init"
        raise FleetError("no matrix is here to run", place=str(matrix), remedy=remedy)
    text = resources.files("portkit.fleet").joinpath("data/fleet.yaml").read_text()
    return text.replace("TARGET", read_matrix(matrix).targets[0])
