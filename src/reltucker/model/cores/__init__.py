"""The cores: one file for each model of the family. A core is added here and nowhere else."""

from reltucker.model.cores.analogy import AnalogyCore
from reltucker.model.cores.block import BlockCore
from reltucker.model.cores.complex import ComplexCore
from reltucker.model.cores.core import Core, CoreOptions
from reltucker.model.cores.cp import CpCore
from reltucker.model.cores.distmult import DistMultCore
from reltucker.model.cores.drt import DenseCore
from reltucker.model.cores.fixed import FixedCore
from reltucker.model.cores.hole import HoleCore
from reltucker.model.cores.merged import MergedCore, joined
from reltucker.model.cores.rescal import RescalCore
from reltucker.model.cores.srt import GatedCore

CORES: dict[str, type[Core]] = {
    core.name: core
    for core in (
        DenseCore,
        GatedCore,
        BlockCore,
        RescalCore,
        DistMultCore,
        CpCore,
        ComplexCore,
        HoleCore,
        AnalogyCore,
        MergedCore,
    )
}
"""Every model by the name that recipes use."""

__all__ = [
    "CORES",
    "Core",
    "CoreOptions",
    "DenseCore",
    "FixedCore",
    "GatedCore",
    "MergedCore",
    "RescalCore",
    "joined",
]
