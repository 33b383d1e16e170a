"""The version of the verdict's rule is raised with the rule."""

import ast
from pathlib import Path

import pytest

from portkit.model import REJUDGED, VERDICT_RULE, Status, digest, stands
from portkit.run.source_hash import canonical

RUN = Path(__file__).parents[2] / "portkit" / "run"
FILES = ("verify", "controls", "discrete", "families", "scale")
"""What makes the rule: error, limit and scale, controls, outputs that are no numbers, input families."""

RULES = {1: "2425124662359bb1", 2: "db10d7cec39fd2d1"}
"""Version → digest of its text and terms."""


def test_verdicts_that_a_rule_leaves_alone_stand():
    assert max(REJUDGED) == max(RULES) == VERDICT_RULE
    assert stands("weak_check", 2)
    assert stands("passed", 1)
    assert stands("wrong_result", 1)
    assert not stands("weak_check", 1)
    assert not any(stands(status, 0) or stands(status, VERDICT_RULE + 1) for status in Status)


def rule_of(texts):
    """Digest of the rule's text, the docstring of ``verify``, and of the code of all files without comments."""
    trees = {name: ast.parse(text) for name, text in texts.items()}
    return digest([ast.get_docstring(trees["verify"]), {name: canonical(tree) for name, tree in trees.items()}])


@pytest.fixture(scope="module")
def texts():
    return {name: (RUN / f"{name}.py").read_text(encoding="utf-8") for name in FILES}


def test_a_rule_that_changes_is_another_version(texts):
    assert rule_of(texts) == RULES[VERDICT_RULE], (
        "what judges results has changed. Where a verdict that was given might be another one, raise VERDICT_RULE of "
        "portkit/model.py, add its line to RULES here and have kept verdicts given again; where none can (a name, a "
        "message, a type), put the new digest in the place of the old one"
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("verify", "DRAWN_IN = 15 / 16", "DRAWN_IN = 7 / 8"),
        ("verify", "16 + 4 * math.log2", "16 + 3 * math.log2"),
        ("verify", "limit = 2 e + r", "limit = 3 e + r"),
        ("controls", "VISIBLE = 1 / 16", "VISIBLE = 1 / 8"),
        ("discrete", "margin <= self.band", "margin < self.band"),
    ],
)
def test_terms_and_text_are_seen(texts, name, old, new):
    assert texts[name].count(old) >= 1
    assert rule_of({**texts, name: texts[name].replace(old, new)}) != rule_of(texts)


def test_comments_are_not(texts):
    assert rule_of({name: f"{text}\n# said otherwise\n" for name, text in texts.items()}) == rule_of(texts)
