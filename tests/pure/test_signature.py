"""Calls that the text of a file alone shows to be mistaken."""

import ast

import pytest

from portkit.errors import CaseError
from portkit.model import Check
from portkit.plan.signature import refuse_mistaken, signature

PLAIN = "import torch\n\ndef scale(x, factor=2.0, *, flag: bool = False) -> int:\n    return x\n\ndef _inner(x): ...\n"


def refuse(tmp_path, text, function, *arguments):
    path = tmp_path / "kernels.py"
    path.write_text(text)
    refuse_mistaken(path, Check(function, arguments=arguments), path.name)


@pytest.mark.parametrize(
    ("function", "arguments", "words", "remedy"),
    [
        ("scael", (), "has no scael", "did you mean scale"),
        ("nosuch.method", (), "has no nosuch.method", "known: scale"),
        (
            "scale",
            (),
            "scale does not take these arguments: missing a required argument: 'x'",
            "scale(x, factor=2.0, *",
        ),
        ("scale", (("x", "f32[4]"), ("y", "1")), "unexpected keyword argument 'y'", "flag: bool=False) -> int"),
        (
            "scale",
            (("", "1"), ("", "2"), ("", "3")),
            "too many positional arguments",
            "give each with --arg NAME=VALUE",
        ),
    ],
)
def test_what_the_text_shows_is_refused(tmp_path, function, arguments, words, remedy):
    with pytest.raises(CaseError) as refused:
        refuse(tmp_path, PLAIN, function, *arguments)
    assert words in refused.value.message
    assert remedy in refused.value.remedy
    assert refused.value.place == "kernels.py"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "from others import *\n",
        "from others import scale\n",
        "import others as scale\n",
        "def __getattr__(name): ...\n",
        "globals()['scale'] = 3\n",
        "try:\n    scale = 1\nexcept ImportError as error:\n    scale = None\n",
        "with open('x') as scale: ...\n",
        "(scale := 3)\n",
        "for scale in (): ...\n",
        "match 3:\n    case scale: ...\n",
        "match 3:\n    case [scale, second] as both: ...\n",
        "match 3:\n    case [first, *scale]: ...\n",
        "match 3:\n    case {'a': 1, **scale}: ...\n",
        "match 3:\n    case {'a': scale, **others}: ...\n",
        "def make():\n    global scale\n",
        "def scale(:\n",  # the import says where
        "@wrapped\ndef scale(): ...\n",
        "def scale(): ...\nscale = wrapped(scale)\n",
        "class scale:\n    def __init__(self, y): ...\n",
        "def scale(*a, **k): ...\n",
    ],
)
def test_what_it_does_not_show_is_left_to_the_import(tmp_path, text):
    refuse(tmp_path, text, "scale", ("x", "f32[4]"))


def test_names_within_functions_are_not_the_files(tmp_path):
    with pytest.raises(CaseError, match="has no scale"):
        refuse(tmp_path, "def make():\n    scale = 3\n    def inner(): ...\n", "scale")


def test_a_signature_is_that_of_the_text():
    tree = ast.parse("def f(a, b=1, /, c=2, *rest, d, e=3, **others): ...")
    assert str(signature(tree.body[0])) == "(a, b=Ellipsis, /, c=Ellipsis, *rest, d, e=Ellipsis, **others)"
