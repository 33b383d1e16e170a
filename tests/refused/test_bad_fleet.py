"""Fleet files that are refused, each with its line, key and remedy."""

import pytest

from portkit.errors import FleetError, MatrixError
from portkit.fleet.site import chosen, read_fleet
from portkit.fleet.starter import starter
from portkit.plan.matrix import read_matrix

GOOD = """\
version: 1
tier: quick
places:
  - target: h200
    partition: gpu
    resource: gpu:h200
    nodes: [n1, n2]
  - target: mi300x
    host: amd1
    count: 2
    ci: {runner: [self-hosted, mi300x], image: rocm/pytorch}
  - {target: rtx4090, local: true, optional: true}
"""


def refusal(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").write_text(text)
    with pytest.raises(FleetError) as caught:
        read_fleet(tmp_path / "fleet.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("version: 1", "version: 2", "fleet.yaml:1: version: format version 2 is unknown"),
        (
            "target: h200",
            "target: h20",
            "fleet.yaml:4: places[0].target: unknown target 'h20'\n  remedy: did you mean h200?",
        ),
        ("nodes: [n1, n2]", "nodes: [n1, n1]", "fleet.yaml:7: places[0].nodes[1]: 'n1' is listed twice"),
        ("nodes: [n1, n2]", "nodes: ['n[1-2]']", "places[0].nodes[0]: 'n[1-2]' is no node of Slurm"),
        ("partition: gpu", "partitio: gpu", "fleet.yaml:5: places[0].partitio: unknown key 'partitio'"),
        ("resource: gpu:h200", "resource: gpu:h200:1", "places[0].resource: 'gpu:h200:1' is no generic resource"),
        ("count: 2", "count: two", "fleet.yaml:10: places[1].count: must be a whole number, not text"),
        ("count: 2", "count: -1", "fleet.yaml:10: places[1].count: must be at least 0, not -1"),
        ("count: 2", "count: 2\n    devices: [0]", "fleet.yaml:8: places[1]: has count 2 and 1 devices"),
        ("host: amd1", "host: -oProxyCommand=x", "fleet.yaml:9: places[1].host: '-oProxyCommand=x' is no host"),
        (
            "host: amd1",
            "host: amd1\n    partition: x",
            "fleet.yaml:8: places[1]: is reached in 2 ways: partition and host",
        ),
        ("local: true", "local: false", "fleet.yaml:12: places[2]: is reached in no way"),
        ("local: true", "local: true, nodes: [a]", "has 'nodes', which only a place with partition can have"),
        (
            "target: rtx4090",
            "target: mi300x, name: mi300x-amd1",
            "two places are named 'mi300x-amd1', here and at line 8",
        ),
        ("target: rtx4090", "target: rtx4090, name: 4090", "fleet.yaml:12: places[2].name: must be text, not a number"),
        ("target: rtx4090", "target: rtx4090, name: a b", "places[2].name: 'a b' is no name of a place"),
        ("optional: true", "optional: 1", "fleet.yaml:12: places[2].optional: must be true or false, not a number"),
        ("tier: quick", "seconds: {jo: 1}", "fleet.yaml:2: seconds.jo: unknown key 'jo'\n  remedy: did you mean job?"),
        ("tier: quick", "seconds: {cell: 0}", "fleet.yaml:2: seconds.cell: must be more than 0, not 0"),
        ("tier: quick", "files: [../x]", "fleet.yaml:2: files[0]: '../x' is not below the folder of the fleet file"),
        ("optional: true", "env: {'A B': x}", "fleet.yaml:12: places[2].env: 'A B' is no name of a variable"),
        ("runner:", "runer:", "fleet.yaml:11: places[1].ci.runer: unknown key 'runer'"),
    ],
)
def test_mistake(tmp_path, monkeypatch, old, new, told):
    assert old in GOOD
    assert told in refusal(tmp_path, monkeypatch, GOOD.replace(old, new, 1))


def test_unknown_choice_of_targets(tmp_path):
    (tmp_path / "fleet.yaml").write_text(GOOD)
    with pytest.raises(FleetError, match="no place of the fleet has the target 'mi300'\n  remedy: did you mean mi300x"):
        list(chosen(read_fleet(tmp_path / "fleet.yaml"), ["mi300"]))


def test_no_file(tmp_path):
    with pytest.raises(FleetError, match="no such fleet file"):
        read_fleet(tmp_path / "fleet.yaml")


def test_where_no_file_is_the_remedy_is_the_command_that_writes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FleetError, match=r"no such fleet file\n.*write one: portkit fleet init"):
        read_fleet(tmp_path / "fleet.yaml")
    with pytest.raises(FleetError, match=r"no matrix is here to run\n.*write one: portkit init"):
        starter(tmp_path)
    with pytest.raises(MatrixError, match=r"no such matrix file\n.*write one: portkit init"):
        read_matrix(tmp_path / "matrix.yaml")
