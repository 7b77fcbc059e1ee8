"""The cores: one short description for each model of the family."""

from reltucker.model.cores.core import Core, MatrixCore
from reltucker.model.cores.dense import DenseCore
from reltucker.model.cores.fixed import (
    AnalogyCore,
    ComplexCore,
    CpCore,
    DistMultCore,
    FixedCore,
    HoleCore,
    RescalCore,
)
from reltucker.model.cores.gated import GatedCore

CORES: dict[str, type[Core]] = {
    core.name: core
    for core in (
        DenseCore,
        GatedCore,
        RescalCore,
        DistMultCore,
        CpCore,
        ComplexCore,
        HoleCore,
        AnalogyCore,
    )
}
"""Every model by the name that recipes use."""

__all__ = ["CORES", "Core", "DenseCore", "FixedCore", "GatedCore", "MatrixCore", "RescalCore"]
