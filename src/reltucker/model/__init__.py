"""A graph becomes E, R, G: the one model, its cores, and their sizes."""

from reltucker.model.cores import CORES, Core
from reltucker.model.groups import RelationGroups
from reltucker.model.relational_tucker import RelationalTucker
from reltucker.model.sizes import Sizes, sizes_of

__all__ = ["CORES", "Core", "RelationGroups", "RelationalTucker", "Sizes", "sizes_of"]
