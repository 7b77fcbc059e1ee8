"""Settings: each with its type, default, range and meaning, and the equation in which it stands."""

import difflib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from reltucker.choices import PresetName, TrackerName
from reltucker.kernels import Precision
from reltucker.model import CORES
from reltucker.training.objectives import OBJECTIVES, REGULARIZERS, Objective

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]

LARGEST_ENTITY_DIM = 10_000


class Settings(BaseModel):
    """Unknown keys are refused, and so is what is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RecipeSettings(Settings):
    """Who chooses what is not set."""

    preset: PresetName | None = Field(
        None, description="chooses from the graph's sizes; by default the defaults hold"
    )
    settled: bool = Field(False, description="whether what the preset has chosen stands here")


class GraphSettings(Settings):
    """Where the triples come from."""

    source: str | None = Field(None, description="catalog name, file or folder")
    labels: str | None = Field(None, description="file of (id, name), or RDF labels, for display")
    language: str = Field("en", description="of labels that stand in RDF files")
    seed: int = Field(0, ge=0, description="of the 80/10/10 split of a single file")
    columns: str | None = Field(
        None, description="of tables: relation,subject,object, or names or numbers for s, r and o"
    )
    max_memory: str = Field(
        "50%", description="a graph that takes more is refused; a share of all, or such as 8GB"
    )

    def reading(self) -> dict[str, Any]:
        """What `load_graph` is told beside the source."""
        return self.model_dump(exclude={"source"})


class ModelSettings(Settings):
    """Which core, and how large."""

    name: str = Field("drt", description="the core: " + ", ".join(CORES))
    entity_dim: int = Field(100, ge=1, le=LARGEST_ENTITY_DIM, description="d_e")
    relation_dim: int | None = Field(
        None, ge=1, le=100_000_000, description="d_r; by default what the core suggests"
    )
    reciprocal: bool = Field(False, description="a second embedding for each inverse relation")
    batch_norm: bool = Field(
        False, description="normalise given entities and queries, as TuckER; needs reciprocal"
    )
    init: Literal["normal", "uniform"] = Field("normal", description="of embeddings and core")
    init_scale: float = Field(0.3, gt=0, description="scale of the initial embeddings")

    @field_validator("name")
    @classmethod
    def _known_core(cls, name: str) -> str:
        if name not in CORES:
            raise ValueError(f"there is no model {name!r}{nearest(name, CORES)}")
        return name


class TrainSettings(Settings):
    """How it is fitted; the defaults are the paper's protocol."""

    objective: str = Field(
        "negative_sampling",
        description="a triple against drawn entities; a triple against all entities; "
        "a question with all of its answers against all entities",
    )
    epochs: int = Field(200, ge=1, description="at the most; early stopping may end sooner")
    batch_size: int = Field(500, ge=1, description="triples, or questions for k_vs_all")
    negatives: int = Field(
        24,
        ge=1,
        description="pseudo-negatives for each side of a triple, without replacement; at most all "
        "other entities",
    )
    sampled_epochs: int = Field(
        0,
        ge=0,
        description="one_vs_all, k_vs_all: in so many first epochs `negatives` in place of all",
    )
    sampled_weights: Literal["all", "own"] = Field(
        "all",
        description="one_vs_all, k_vs_all: whether `negatives` of sampled epochs count as all "
        "entities together, or each as itself",
    )
    shared_negatives: bool = Field(False, description="the same negatives for a whole batch")
    loss: Literal["softmax", "binary"] = Field("softmax", description="cross-entropy over entities")
    label_smoothing: Rate = Field(0.0, description="one_vs_all, k_vs_all: share spread evenly")
    answer_exponent: float = Field(
        0.0,
        ge=0.0,
        le=2.0,
        description="k_vs_all: a question with n answers counts n to this power; "
        "with 1 all triples count the same",
    )
    answers_at_once: int | None = Field(
        None,
        ge=1,
        description="k_vs_all: ask a question with more answers several times, with so many each",
    )
    answer_weights: Literal["alike", "frequency"] = Field(
        "alike",
        description="negative_sampling, one_vs_all: whether frequent answers count more",
    )
    relation_prediction: float = Field(
        0.0, ge=0.0, description="weight of predicting the relation of a triple"
    )
    score_megabytes: int = Field(
        256, ge=1, description="one_vs_all, k_vs_all: how large a block of scores may be"
    )
    products: Precision = Field(
        "float32",
        description="of queries and entities; bfloat16 is faster where processors know it",
    )
    optimizer: Literal["adagrad", "adam"] = Field("adagrad")
    learning_rate: float = Field(0.1, gt=0, description="of the optimiser")
    warm_up_epochs: float = Field(
        0.0, ge=0.0, description="over which the learning rate rises from 0"
    )
    schedule: Literal["constant", "exponential", "plateau"] = Field(
        "constant",
        description="exponential: times `decay` after every epoch; plateau: times `decay` after "
        "`plateau_patience` epochs without a better validation MRR",
    )
    decay: float = Field(0.95, gt=0.0, le=1.0, description="factor of the schedule")
    plateau_patience: int = Field(3, ge=1, description="epochs, see `schedule`")
    averaged_epochs: float = Field(
        0.0,
        ge=0.0,
        description="judge and keep the mean of the weights over about so many epochs; 0: the last",
    )
    entity_dropout: Rate = Field(0.3, description="dropout on entity embeddings")
    given_dropout: Rate = Field(0.0, description="dropout on the given entity of a question")
    relation_dropout: Rate = Field(0.0, description="dropout on relation embeddings")
    mixing_dropout: Rate = Field(0.2, description="dropout on mixing matrices")
    query_dropout: Rate = Field(0.0, description="dropout on queries")
    weight_decay: float = Field(0.0, ge=0, description="L2 penalty added to every gradient")
    regularizer: str = Field(
        "none", description="on the factors of a batch, weighted by how often they occur"
    )
    regularizer_weight: float = Field(0.0, ge=0.0, description="of the regularizer")
    regularizer_power: float = Field(2.0, ge=1.0, le=4.0, description="p of lp and ivr")
    regularizer_intermediate: float = Field(
        1.0, ge=0.0, description="v of ivr: how much queries and mixing matrices count"
    )
    orthogonality: float = Field(
        0.0, ge=0.0, description="weight of holding mixing matrices near orthogonal ones"
    )
    patience: int = Field(10, ge=1, description="epochs without a better validation MRR")
    max_density: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None,
        description="early stopping counts epochs with at most this core density only; by default "
        "a core that learns which entries exist is waited for until it is sparse",
    )
    validate_every: int | None = Field(
        None, ge=1, description="epochs between validations; by default chosen from sizes"
    )
    validate_triples: int | None = Field(
        None, ge=1, description="how many triples a validation ranks; by default as above"
    )
    seed: int = Field(0, ge=0, lt=2**63, description="of initial values, batches and dropout")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA if there is one")
    checkpoint_seconds: float = Field(
        20.0, ge=0, description="write the resumable state at most this often"
    )

    trackers: list[TrackerName] = Field(
        [], description="who is told of every epoch: tensorboard, mlflow, wandb; no figure changes"
    )
    peer_seconds: float = Field(
        600.0, gt=0, le=1e6, description="several processes: how long to wait for one that hangs"
    )

    @field_validator("trackers", mode="before")
    @classmethod
    def _listed(cls, names: Any) -> Any:
        """Each once; a text may name several, with commas between them."""
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        return list(dict.fromkeys(names)) if isinstance(names, list | tuple) else names

    @field_validator("objective", "regularizer")
    @classmethod
    def _known(cls, name: str, field: ValidationInfo) -> str:
        registry = OBJECTIVES if field.field_name == "objective" else REGULARIZERS
        if name not in registry:
            raise ValueError(f"there is no {field.field_name} {name!r}{nearest(name, registry)}")
        return name

    @property
    def objective_class(self) -> type[Objective]:
        """What is minimised."""
        return OBJECTIVES[self.objective].of(self)

    @property
    def draws(self) -> bool:
        """Whether `negatives` are drawn at all."""
        return "sampled_epochs" not in OBJECTIVES[self.objective].reads or self.sampled_epochs > 0


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest valid word: the same setting of another section, or the like."""
    known, last = list(known), word.rpartition(".")[2]
    short = {key.rpartition(".")[2]: key for key in reversed(known)}
    close = [last] if last in short else difflib.get_close_matches(word, known, 1, 0.6)
    close = close or difflib.get_close_matches(last, short, 1, 0.5)
    if close:
        return f"; did you mean {short.get(close[0], close[0])!r}?"
    return f"; there are {', '.join(known)}"
