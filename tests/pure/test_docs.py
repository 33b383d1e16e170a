"""The documents name what is there."""

import importlib.metadata
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import portkit
from portkit.cli import COMMANDS
from portkit.model import KernelCase, Status
from portkit.plan.matrix_format import RULED

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
    "target",
    ["benchmark", "new-kernel", "test", "lint", "docs", "clean", "test-diverging-full", "test-triton-versions"],
)
def test_makefile_has_what_documents_promise(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_documents_have_every_status():
    text = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "docs").glob("*.md"))
    assert [each.value for each in Status if f"`{each.value}`" not in text] == []


def prose_of(document):
    """Without code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors_of(document):
    """Of its headings, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", prose_of(document))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_headings(document):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", prose_of(document))
    places = [(document.parent / page if page else document, anchor) for page, anchor in links]
    assert [anchor for page, anchor in places if page.suffix == ".md" and anchor not in anchors_of(page)] == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_dependency_has_a_reason_and_a_version(name):
    assert re.search(rf"(?m)^\|[^|]*\b{re.escape(name)}\b", (ROOT / "docs/libraries.md").read_text(encoding="utf-8"))
    assert re.search(rf"(?mi)^{re.escape(name)}==", (ROOT / "constraints.txt").read_text())


PINS = re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"))


def pythons(name, version):
    """Versions of Python that a pinned package takes; None where it is not here in that version."""
    try:
        found = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return SpecifierSet(found.get("Requires-Python") or "") if found["Version"] == version else None


@pytest.mark.parametrize(("name", "version"), PINS)
def test_a_pin_installs_on_the_first_python_that_the_project_takes(name, version):
    if (taken := pythons(name, version)) is None:
        pytest.skip(f"{name} {version} is not installed here")
    first = PROJECT["requires-python"].removeprefix(">=")
    assert f"{first}.0" in taken


def test_versions_agree():
    assert PROJECT["version"] == portkit.__version__


def test_base_install_brings_neither_torch_nor_triton():
    base = {name_of(each) for each in PROJECT["dependencies"]}
    assert not base & {"torch", "triton", "numpy", "liger-kernel"}
    assert {name_of(each) for each in EXTRAS["run"]} >= {"torch", "triton"}


def test_readme_leads_to_every_document():
    linked = set(re.findall(r"\]\((docs/[a-z-]+\.md)\)", README))
    assert linked == {f"docs/{each.name}" for each in (ROOT / "docs").glob("*.md")}


def test_every_field_of_a_kernel_case_is_explained():
    text = (ROOT / "docs/kernels.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"(?m)^\| (`.+?) \|", text))
    assert [each.name for each in fields(KernelCase) if not re.search(rf"`{each.name}[`(]", rows)] == []


def test_every_evidence_of_a_rule_is_named():
    text = (ROOT / "docs/matrix.md").read_text(encoding="utf-8")
    row = re.search(r"(?m)^\| `evidence` \|(.+)\|$", text)[1]
    assert re.findall(r"`(\w+)`", row) == list(RULED)


def test_names_of_test_modules_are_their_own():
    """Pytest imports a test module by its bare name: a second one of that name stops the collection."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_the_suite_has_every_kernel_file():
    """A case that no matrix names is never run."""
    named = (ROOT / "suite.yaml").read_text(encoding="utf-8") + (ROOT / "matrix.yaml").read_text(encoding="utf-8")
    declaring = [path for path in (ROOT / "kernels").glob("*.py") if "KernelCase(" in path.read_text(encoding="utf-8")]
    assert [p.stem for p in declaring if not re.search(rf"(?m)^  {p.stem}:|kernels/{p.stem}\.py", named)] == []
