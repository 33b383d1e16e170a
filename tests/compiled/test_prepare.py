"""From a matrix file and the catalogue to a plan."""

from pathlib import Path

from portkit.plan.expand import Selection
from portkit.run.benchmark import prepare

ROOT = Path(__file__).parents[2]


def test_targets_have_the_catalogues_name_however_they_are_written(tmp_path):
    path = tmp_path / "matrix.yaml"
    kernel = ROOT / "kernels" / "softmax.py"
    path.write_text(f"kernels: {{softmax: {{path: {kernel}, dtypes: [float32]}}}}\ntargets: [sm_86, gfx942]\n")
    prepared = prepare(path, tier=None, selection=Selection.parse(["all,sm_90"]))
    targets = [planned.cell.target for planned in prepared.plan.cells]
    assert [name for name in dict.fromkeys(targets) if name != "interpreter"][:2] == ["sm86", "gfx942"]
    assert "sm90" in targets
    assert "sm_90" not in targets
