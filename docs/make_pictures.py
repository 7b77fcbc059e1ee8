"""Make the pictures of the documentation: python docs/make_pictures.py"""

from pathlib import Path

from reltucker.model import CORES
from reltucker.report.charts import save_chart
from reltucker.report.matrices import core_slices

PICTURES = Path(__file__).parent / "pictures"
NAMES = {
    "rescal": "RESCAL, entity size 2",
    "distmult": "DistMult, entity size 4",
    "cp": "CP, entity size 4",
    "complex": "ComplEx, entity size 4",
    "hole": "HolE, entity size 4",
    "analogy": "Analogy, entity size 4, half of it scalars",
}


def main() -> None:
    """Draw the core of every bilinear model."""
    for name, title in NAMES.items():
        core = CORES[name].build(2 if name == "rescal" else 4, None, relations=1)
        save_chart(core_slices(core.tensor().numpy(), title), PICTURES / f"core-{name}.png")


if __name__ == "__main__":
    main()
