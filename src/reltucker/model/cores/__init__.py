"""The cores: one short description for each model of the family."""

from reltucker.model.cores.core import Core
from reltucker.model.cores.dense import DenseCore
from reltucker.model.cores.fixed import ComplexCore, FixedCore

CORES: dict[str, type[Core]] = {"drt": DenseCore, "complex": ComplexCore}
"""Every model by the name that recipes use."""

__all__ = ["CORES", "ComplexCore", "Core", "DenseCore", "FixedCore"]
