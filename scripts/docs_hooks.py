"""Pages of the documentation site that are made from the code, and links that lead out of it; see mkdocs.yml."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from portkit.analysis.findings import rules
from portkit.plan.matrix import matrix_schema

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]\[]*)\]\(((?!https?:|#)[^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```[ \t]*$)", re.DOTALL | re.MULTILINE)

CLI = """# Command line

::: mkdocs-click
    :module: portkit.cli
    :command: cli
    :prog_name: portkit
    :depth: 1
    :style: plain
    :list_subcommands: true
"""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for every rule into the navigation."""
    pages = [{f"{rule.id} {rule.title}": f"rules/{rule.id}.md"} for rule in rules()]
    for section in config.nav or []:
        for entries in section.values():
            for entry in entries if isinstance(entries, list) else []:
                for name, target in entry.items():
                    if target == "RULES":
                        entry[name] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {
        "index.md": _moved(ROOT / "README.md"),
        "contributing.md": _moved(ROOT / "CONTRIBUTING.md"),
        "reference/cli.md": CLI,
        "reference/pytest.md": _pytest_options(),
        "reference/matrix.md": _matrix_keys(),
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show links to files of the repository that are no pages as their names."""
    folder = (Path(config.docs_dir) / page.file.src_uri).parent
    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(partial(_kept, folder), part) for part in parts)


def _kept(folder: Path, link: re.Match[str]) -> str:
    """The link, or where it leads to a file beside the documents, that file's name."""
    target = (folder / link[2].partition("#")[0]).resolve()
    docs = ROOT / "docs"
    if target.is_relative_to(docs) or not target.exists():
        return link[0]  # a page, or a mistake that the build reports
    name = target.relative_to(ROOT).as_posix()
    return link[1] if link[1].strip("`") == name else f"{link[1]} (`{name}`)"


def _moved(path: Path) -> str:
    """A document of the root as a page: its links to docs/ are to pages beside it, others from one folder up."""
    text = path.read_text(encoding="utf-8")

    def moved(link: re.Match[str]) -> str:
        name, target = link[1], link[2]
        if name == target and target.startswith(("docs/", "CONTRIBUTING")):  # on a site pages have titles
            name = _title(ROOT / target)
        if target.startswith("docs/"):
            return f"[{name}]({target.removeprefix('docs/')})"
        if target == "CONTRIBUTING.md":
            return f"[{name}](contributing.md)"
        return f"[{name}](../{target})"

    return LINK.sub(moved, text)


def _title(document: Path) -> str:
    """The first heading of a document."""
    return document.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


# -- options of pytest


def _pytest_options() -> str:
    """The plugin's own options, as ``pytest --help`` tells them."""
    rows = [f"| `{_option(names, given)}` | {_cell(_help(given))} |" for names, given in _options()]
    head = "# Options of pytest\n\n`pytest --benchmark` runs the matrix; [what each means](../running.md#options).\n"
    return "\n".join([head, "| option | |", "|---|---|", *rows, ""])


def _options() -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    import portkit.pytest_plugin as plugin  # noqa: PLC0415 (loads pytest)

    class Group:
        options: list[tuple[tuple[str, ...], Mapping[str, Any]]] = []  # noqa: RUF012 (of this call alone)

        def addoption(self, *names: str, **given: Any) -> None:
            self.options.append((names, given))

    class Parser:
        group = Group()

        def getgroup(self, *_: str) -> Group:
            return self.group

    plugin.pytest_addoption(Parser())  # type: ignore[arg-type]
    yield ("--benchmark",), {"action": "store_true", "help": "collect the kernels of the matrix, and nothing else"}
    yield from Parser.group.options


def _option(names: tuple[str, ...], given: Mapping[str, Any]) -> str:
    value = given.get("metavar", "") if given.get("action") != "store_true" else ""
    return f"{names[0]} {value}".strip()


def _help(given: Mapping[str, Any]) -> str:
    """The help with its default in place, as argparse writes it."""
    action = argparse.Action([], "value", help=given["help"], default=given.get("default"))
    return argparse.HelpFormatter("pytest")._expand_help(action)


# -- keys of the matrix


def _matrix_keys() -> str:
    """Every key of a matrix file, from its JSON schema."""
    schema = matrix_schema()
    parts = {"A matrix file": schema, **{name: schema["$defs"][name] for name in schema["$defs"]}}
    head = "# Matrix keys\n\nFrom the JSON schema of the file; [what they mean](../matrix.md).\n"
    return "\n".join([head, *(_table(name, part) for name, part in parts.items())])


def _table(name: str, schema: Mapping[str, Any]) -> str:
    title = name.removesuffix("Format") if name != "A matrix file" else name
    required = schema.get("required", [])
    rows = [_row(key, value, required) for key, value in schema.get("properties", {}).items()]
    about = " ".join(schema.get("description", "").split())
    return "\n".join([f"## {title}\n", about, "", "| key | value | required | |", "|---|---|---|---|", *rows, ""])


def _row(key: str, schema: Mapping[str, Any], required: Sequence[str]) -> str:
    needed = "yes" if key in required else "no"
    return f"| `{key}` | {_cell(_type(schema))} | {needed} | {_cell(schema.get('description', ''))} |"


def _type(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2].removesuffix("Format")
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(_type(each) for each in schema[key])
    return _container(schema)


def _container(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of: {_type(schema.get('items', {}))}"
    if kind == "object":
        named = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), {})
        return f"name → {_type(named)}"
    if kind == "null":
        return "nothing"
    named = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return f"{named} like `{schema['pattern']}`" if "pattern" in schema else named


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
