r"""The rows of a comparison as a LaTeX table for a paper.

A ``longtable`` of booktabs with the columns of the other tables, and its notes. It is a fragment:
``\input`` it where ``\usepackage{booktabs,longtable}`` stands in the preamble.
"""

from __future__ import annotations

from typing import Final

from tabulate import tabulate

from portkit.analysis.rows import Comparison
from portkit.render.columns import Notes, one_line
from portkit.render.rows import COLUMNS, KERNEL_COLUMNS
from portkit.store.schema import clean

_HEAD: Final = r"""% Made by portkit; needs \usepackage{booktabs,longtable} and a LaTeX of 2020 or later."""

_COMMANDS: Final = {
    **{"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{each: f"\\{each}" for each in "&%$#_"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedblright{}"},
    **{"[": "{[}", "]": "{]}"},  # behind a line's end they would be its argument
    **{"`": r"\textasciigrave{}", "'": r"\textquotesingle{}"},
    **{"×": r"\texttimes{}", "÷": r"\textdiv{}", "±": r"\textpm{}", "µ": r"\textmu{}", "†": r"\textdagger{}"},
    **{"–": "--", "—": "---", "…": r"\dots{}", "→": r"\textrightarrow{}", "≥": r"$\geq$", "≤": r"$\leq$"},
    **{"−": r"\textminus{}", "·": r"\textperiodcentered{}", "²": r"\texttwosuperior{}"},
}
"""Character → what LaTeX shows it by."""

_TABLE: Final = str.maketrans(_COMMANDS)
_LAST: Final = "\u017f"  # of the letters that pdfLaTeX prints without a package: Latin


def comparison_latex(comparison: Comparison, findings: int | None = None, width: int | None = None) -> str:
    """The rows as a table, and the notes that its figures have."""
    del findings, width  # they are no rows
    notes = Notes()
    columns = [*KERNEL_COLUMNS, *COLUMNS]
    body = [[latex(column.cell(row, notes)) for column in columns] for row in comparison.rows]
    align = ["right" if column.right else "left" for column in columns] if body else None
    table = tabulate(
        body,
        [latex(column.name) for column in columns],
        tablefmt="latex_raw",
        colalign=align,
        disable_numparse=True,
    )
    told = "\n".join(f"\\item[{number}] {latex(text)}" for number, text in notes.numbered())
    listed = f"\n\\begin{{description}}\n{told}\n\\end{{description}}" if told else ""
    return f"{_HEAD}\n{_long(table)}{listed}"


def latex(text: str) -> str:
    r"""A text that LaTeX prints as it is; no character of it is a command. What pdfLaTeX can't print stands as ``?``.

    >>> print(latex(r"50%_of \input{x} & ~$"))
    50\%\_of \textbackslash{}input\{x\} \& \textasciitilde{}\$
    """
    shown = one_line(clean(text)).translate(_TABLE)
    return "".join(each if each.isascii() or (each.isalpha() and each <= _LAST) else "?" for each in shown)


def _long(table: str) -> str:
    """Tabulate's ``tabular`` as a ``longtable`` whose head stands on every page."""
    begin, _, rest = table.partition("\n")
    head, body = rest.removeprefix("\\hline\n").split("\\hline\n", 1)
    body = body.removesuffix("\\end{tabular}").removesuffix("\\hline\n")
    columns = begin.removeprefix("\\begin{tabular}")
    lines = [f"\\begin{{longtable}}{columns}", "\\toprule", head.rstrip("\n"), "\\midrule", "\\endhead"]
    return "\n".join([*lines, *([body.rstrip("\n")] if body.strip() else []), "\\bottomrule", "\\end{longtable}"])
