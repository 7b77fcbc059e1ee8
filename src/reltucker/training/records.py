"""What the files of a run may hold, checked when they are read: anybody may have written them."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MOST = 10**15
Count = Annotated[int, Field(ge=0, le=MOST)]
Number = Annotated[float, Field(ge=-MOST, le=MOST)]
Seconds = Annotated[float, Field(ge=0, le=MOST)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Record(BaseModel):
    """Keys that no code asks for are kept as they are."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    @classmethod
    def checked(cls, document: dict[str, Any]) -> dict[str, Any]:
        """The document, which is one of these, without what is null in it; ValueError, which says
        what is not."""
        try:
            cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"{where}: {first['msg'].lower()}") from None
        return {key: value for key, value in document.items() if value is not None}


class Figures(_Record):
    """Ranks of a split by one protocol (`evaluation.Metrics`)."""

    mrr: Share
    hits_at_1: Share = Field(alias="hits@1")
    hits_at_3: Share = Field(alias="hits@3")
    hits_at_10: Share = Field(alias="hits@10")
    mean_rank: Seconds
    queries: Count


class ByProtocol(_Record):
    """Figures by every protocol."""

    standard: Figures
    seen: Figures
    paper: Figures


class Validated(_Record):
    """Figures of an epoch; those of a sample of the triples are by one protocol."""

    standard: Figures | None = None
    seen: Figures
    paper: Figures | None = None


class EpochRecord(_Record):
    """A line of epochs.jsonl."""

    epoch: int = Field(ge=1, le=MOST)
    loss: Number
    seconds: Seconds
    train_seconds: Seconds = 0.0
    epoch_seconds: Seconds = 0.0
    core_density: Share = 1.0
    best: bool = False
    valid: Validated | None = None


class Origin(_Record):
    """A run from which another one was made."""

    run: str


class MergedRun(Origin):
    """A part of a merged run."""

    weight: float = Field(ge=0, le=MOST)
    seen: Figures
    recipe: dict[str, Any]


class FoldedIn(Origin):
    """Entities that were added to a run."""

    entities: Count
    triples: Count


class ResultRecord(ByProtocol):
    """result.json."""

    epochs: Count
    best_epoch: Count
    seconds: Seconds
    seconds_per_epoch: Seconds
    valid_full_filter: Figures | None = None
    peak_memory_bytes: Count | None = None
    effective_parameters: Count | None = None
    started_from: Origin | None = None
    merged_from: list[MergedRun] | None = None
    folded_in: list[FoldedIn] | None = None
    ended_early: bool = False


class ScheduleState(_Record):
    """Of the learning rate."""

    factor: float = Field(ge=0, le=MOST)
    waited: Count


class StoppingState(_Record):
    """Of early stopping."""

    best_mrr: float = Field(ge=-1, le=1)
    best_epoch: Count
    waited: Count


class AverageState(_Record):
    """Of the mean of the weights."""

    updates: Count
    means: dict[str, Any]


class TensorName(_Record):
    """A tensor, by its name."""

    tensor: str


class CheckpointState(_Record):
    """The JSON state of a checkpoint, beside its tensors."""

    model: dict[str, TensorName]
    optimizer: dict[str, dict[str, TensorName]]
    average: AverageState
    schedule: ScheduleState
    stopping: StoppingState
    best: dict[str, TensorName]
    generator: TensorName
    epoch: Count
    seconds: Seconds
    training_seconds: Seconds
