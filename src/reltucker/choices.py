"""The words a user may choose from, in recipes, in Python and on the command line.

They stand here, without any import, so that `reltucker --help` need not wait for torch.
"""

from typing import Literal

SplitName = Literal["train", "valid", "test"]
Protocol = Literal["standard", "seen", "paper"]
ShownProtocol = Literal["standard", "seen", "paper", "all"]
Breakdown = Literal["relation", "kind", "direction"]
ExportFormat = Literal["parquet", "word2vec"]
SamplerName = Literal["paper", "gp", "tpe", "random", "grid"]
PrunerName = Literal["none", "median", "halving"]
ObjectiveName = Literal["mrr", "skyline"]
PresetName = Literal["good", "best", "fast", "paper"]
TrackerName = Literal["tensorboard", "mlflow", "wandb"]
NameKind = Literal["entity", "relation"]
Factor = Literal["entities", "relations", "inverse_relations"]
Alikeness = Literal["queries", "embeddings"]
