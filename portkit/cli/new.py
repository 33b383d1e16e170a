"""``portkit new``: a kernel case that works, with its test, to write one's own into."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from string import Template

import click

from portkit.errors import CaseError, MatrixError
from portkit.plan.matrix import read_matrix
from portkit.store.journal import write_whole

NAME = re.compile(r"[a-z][a-z0-9_]*")
LONGEST = 100  # characters of a kernel's name, as in the matrix
KERNELS = re.compile(r"(?m)^kernels:[ \t]*(?:#.*)?\n(?P<entries>(?:[ \t]+\S.*\n|[ \t]*(?:#.*)?\n)*)")
QUICK = re.compile(
    r"(?m)^tiers:[ \t]*(?:#.*)?\n(?:[ \t]+\S.*\n|[ \t]*(?:#.*)?\n)*?(?P<indent>[ \t]+)quick:[ \t]*(?:#.*)?\n"
    r"(?P<entries>(?:(?P=indent)[ \t]+\S.*\n|[ \t]*\n)+)"
)
QUICK_AXES = "{shapes: [4096x4096], dtypes: [bfloat16], variants: [w4]}"  # one cell a target; of the skeleton's axes


@click.command("new", short_help="Write a kernel case that works, with its test.")
@click.argument("name")
@click.option(
    "--portkit-matrix", "--matrix", "matrix", type=click.Path(path_type=Path), default=Path("matrix.yaml"),
    show_default=True, help="The matrix that it is added to; written where there is none.",
)  # fmt: skip
def command(name: str, matrix: Path) -> None:
    """Write a kernel case that works, with its test, and add it to the matrix.

    NAME is that of the case: lower-case letters, digits and _. Nothing is written over. Where the
    matrix has a tier quick, one shape, dtype and variant of it go in there.
    """
    _check_name(name)
    content = _with_kernel(matrix, name)
    files = {
        matrix.parent / "kernels" / f"{name}.py": filled("kernel", name, matrix),
        matrix.parent / "tests" / f"test_{name}.py": filled("test", name, matrix),
    }
    refuse_what_is_there(files)
    for path, text in {**files, matrix: content}.items():
        write_text(path, text)
        click.echo(path)
    click.echo(f"\nIt runs as it is: pytest --benchmark --portkit-matrix {matrix} -k {name}, and pytest {[*files][1]}")


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > LONGEST or keyword.iskeyword(name):
        raise CaseError(
            f"{name!r} is no name of a kernel",
            remedy=f"begin with a lower-case letter, go on with those, digits and _, at most {LONGEST} in all",
        )


def refuse_what_is_there(files: Iterable[Path], remedy: str = "take another name") -> None:
    """See that no file is there yet.

    Raises:
        CaseError: one is.
    """
    for path in files:
        if path.exists():
            raise CaseError("is there already, and nothing is written over", place=str(path), remedy=remedy)


def filled(template: str, name: str, matrix: Path) -> str:
    """A file of the skeleton for a case of this name and a matrix."""
    text = (resources.files("portkit.cli") / "skeleton" / f"{template}.txt").read_text(encoding="utf-8")
    title = name.replace("_", " ").capitalize()
    return Template(text).substitute(name=name, title=title, matrix=matrix.name)


def _with_kernel(matrix: Path, name: str) -> str:
    """The matrix's text with one more entry, after the last of ``kernels``."""
    if not matrix.exists():
        return filled("matrix", name, matrix)
    if name in {kernel.source.name for kernel in read_matrix(matrix).kernels}:
        raise MatrixError(f"{name} is among its kernels already", place=str(matrix), remedy="take another name")
    text = matrix.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        text += "\n"
    block = KERNELS.search(text)
    if block is None:
        raise MatrixError(
            "its kernels do not stand one a line", place=str(matrix), remedy="write each on a line of its own, indented"
        )
    return _with_quick(_with_entry(text, block, f"{name}:"), name)


def _with_quick(text: str, name: str) -> str:
    """With one in the tier ``quick`` too, whose kernels stand one a line; a tier without them has all cells anyway."""
    block = QUICK.search(text)
    return text if block is None else _with_entry(text, block, f"{name}: {QUICK_AXES}")


def _with_entry(text: str, block: re.Match[str], entry: str) -> str:
    """With one more entry at the end of a block, indented as the first is."""
    entries = block["entries"].rstrip()
    indent = re.match(r"(?:[ \t]*(?:#.*)?\n)*([ \t]+)", block["entries"])
    end = block.start("entries") + len(entries)
    return f"{text[:end]}\n{indent[1] if indent else '  '}{entry}{text[end:]}"


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders above it.

    Raises:
        CaseError: the disk refuses.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise CaseError(
            f"can't be written: {error.strerror}", place=str(path), remedy="choose another folder"
        ) from error
