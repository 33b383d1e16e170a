"""The documents name what is there."""

import re
import tomllib
from pathlib import Path

import pytest

import portkit
from portkit.cli import COMMANDS
from portkit.model import Status

ROOT = Path(portkit.__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower()


REQUIREMENTS = sorted({name_of(each) for group in [PROJECT["dependencies"], *EXTRAS.values()] for each in group})


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_has_every_command(command):
    assert f"`portkit {command}" in README


@pytest.mark.parametrize(
    "target", ["benchmark", "test", "lint", "clean", "test-diverging-full", "test-triton-versions"]
)
def test_makefile_has_what_documents_promise(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_documents_have_every_status():
    text = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "docs").glob("*.md"))
    assert [each.value for each in Status if f"`{each.value}`" not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_dependency_has_a_reason_and_a_version(name):
    assert re.search(rf"(?m)^\|[^|]*\b{re.escape(name)}\b", (ROOT / "docs/libraries.md").read_text(encoding="utf-8"))
    assert re.search(rf"(?mi)^{re.escape(name)}==", (ROOT / "constraints.txt").read_text())


def test_versions_agree():
    assert PROJECT["version"] == portkit.__version__


def test_base_install_brings_neither_torch_nor_triton():
    base = {name_of(each) for each in PROJECT["dependencies"]}
    assert not base & {"torch", "triton", "numpy", "liger-kernel"}
    assert {name_of(each) for each in EXTRAS["run"]} >= {"torch", "triton"}
