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


def in_equation(text: str) -> dict[str, Any]:
    """What a setting says about the equation in which it stands (docs/training.md)."""
    return {"equation": text}


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
    entity_dim: int = Field(
        100,
        ge=1,
        le=LARGEST_ENTITY_DIM,
        description="d_e",
        json_schema_extra=in_equation("e_i in R^d_e"),
    )
    relation_dim: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="d_r; by default what the core suggests",
        json_schema_extra=in_equation("r_k in R^d_r, M_k = G x_3 r_k"),
    )
    reciprocal: bool = Field(
        False,
        description="a second embedding for each inverse relation",
        json_schema_extra=in_equation("(?, k, j) is asked as (j, k + K, ?): q = e_j^T M_(k+K)"),
    )
    batch_norm: bool = Field(
        False,
        description="normalise given entities and queries, as TuckER; needs reciprocal",
        json_schema_extra=in_equation("q = BN(BN(e_g)^T M_k)"),
    )
    init: Literal["normal", "uniform"] = Field("normal", description="of embeddings and core")
    init_scale: float = Field(
        0.3,
        gt=0,
        description="scale of the initial embeddings",
        json_schema_extra=in_equation(
            "std e = init_scale / sqrt(d_e), std r = init_scale, std g = 1 / sqrt(d_e d_r)"
        ),
    )

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
        json_schema_extra=in_equation(
            "- log softmax(s_bn : n in {a} + J)[a], J drawn for b, negatives = number of J"
        ),
    )
    sampled_epochs: int = Field(
        0,
        ge=0,
        description="one_vs_all, k_vs_all: in so many first epochs `negatives` in place of all",
        json_schema_extra=in_equation(
            "w_b mean_A (log(exp s_ba + N / negatives sum_C exp s_bn) - s_ba)"
        ),
    )
    sampled_weights: Literal["all", "own"] = Field(
        "all",
        description="one_vs_all, k_vs_all: whether `negatives` of sampled epochs count as all "
        "entities together, or each as itself",
        json_schema_extra=in_equation("own: the same without N / negatives"),
    )
    shared_negatives: bool = Field(False, description="the same negatives for a whole batch")
    loss: Literal["softmax", "binary"] = Field("softmax", description="cross-entropy over entities")
    label_smoothing: Rate = Field(
        0.0,
        description="one_vs_all, k_vs_all: share spread evenly",
        json_schema_extra=in_equation("y_bn = (1 - c) [n in A_b] / n_b + c / N"),
    )
    answer_exponent: float = Field(
        0.0,
        ge=0.0,
        le=2.0,
        description="k_vs_all: a question with n answers counts n to this power; "
        "with 1 all triples count the same",
        json_schema_extra=in_equation("w_b = n_b^a / (B mean n^a)"),
    )
    answers_at_once: int | None = Field(
        None,
        ge=1,
        description="k_vs_all: ask a question with more answers several times, with so many each",
        json_schema_extra=in_equation("n_b <= m"),
    )
    answer_weights: Literal["alike", "frequency"] = Field(
        "alike",
        description="negative_sampling, one_vs_all: whether frequent answers count more",
        json_schema_extra=in_equation(
            "frequency: w_b = 0.9 n_a / n_max + 0.1, scaled to a mean of 1"
        ),
    )
    relation_prediction: float = Field(
        0.0,
        ge=0.0,
        description="weight of predicting the relation of a triple",
        json_schema_extra=in_equation("- w log softmax((G x_1 e_i x_2 e_j) R^T)[k]"),
    )
    score_megabytes: int = Field(
        256, ge=1, description="one_vs_all, k_vs_all: how large a block of scores may be"
    )
    products: Precision = Field(
        "float32",
        description="of queries and entities; bfloat16 is faster where processors know it",
    )
    optimizer: Literal["adagrad", "adam"] = Field("adagrad", description="who makes a step")
    learning_rate: float = Field(
        0.1,
        gt=0,
        description="of the optimiser",
        json_schema_extra=in_equation("adagrad: x <- x - rate g / sqrt(sum of g^2)"),
    )
    warm_up_epochs: float = Field(
        0.0,
        ge=0.0,
        description="over which the learning rate rises from 0",
        json_schema_extra=in_equation("rate <- rate epoch / warm_up_epochs"),
    )
    schedule: Literal["constant", "exponential", "plateau"] = Field(
        "constant",
        description="exponential: times `decay` after every epoch; plateau: times `decay` after "
        "`plateau_patience` epochs without a better validation MRR",
    )
    decay: float = Field(
        0.95,
        gt=0.0,
        le=1.0,
        description="factor of the schedule",
        json_schema_extra=in_equation("rate <- decay rate"),
    )
    plateau_patience: int = Field(3, ge=1, description="epochs, see `schedule`")
    averaged_epochs: float = Field(
        0.0,
        ge=0.0,
        description="judge and keep the mean of the weights over about so many epochs; 0: the last",
        json_schema_extra=in_equation("mean of x over the last steps"),
    )
    entity_dropout: Rate = Field(
        0.3,
        description="dropout on entity embeddings",
        json_schema_extra=in_equation(
            "e_n <- e_n z / (1 - p), P(z = 1) = 1 - p for each coordinate"
        ),
    )
    given_dropout: Rate = Field(
        0.0,
        description="dropout on the given entity of a question",
        json_schema_extra=in_equation("e_g <- e_g z / (1 - p)"),
    )
    relation_dropout: Rate = Field(
        0.0,
        description="dropout on relation embeddings",
        json_schema_extra=in_equation("r_k <- r_k z / (1 - p)"),
    )
    mixing_dropout: Rate = Field(
        0.2,
        description="dropout on mixing matrices",
        json_schema_extra=in_equation("M_k <- M_k z / (1 - p)"),
    )
    query_dropout: Rate = Field(
        0.0,
        description="dropout on queries",
        json_schema_extra=in_equation("q_b <- q_b z / (1 - p)"),
    )
    weight_decay: float = Field(
        0.0,
        ge=0,
        description="L2 penalty added to every gradient",
        json_schema_extra=in_equation("g <- g + weight_decay x"),
    )
    regularizer: str = Field(
        "none", description="on the factors of a batch, weighted by how often they occur"
    )
    regularizer_weight: float = Field(
        0.0,
        ge=0.0,
        description="of the regularizer",
        json_schema_extra=in_equation(
            "lp: c sum_b w_b (sum |e_g|^p + sum |r_k|^p + mean_A sum |e_a|^p); "
            "dura: c sum_b w_b (||q_b||^2 + mean_A ||e_a||^2)"
        ),
    )
    regularizer_power: float = Field(
        2.0,
        ge=1.0,
        le=4.0,
        description="p of lp and ivr",
        json_schema_extra=in_equation("p of lp and ivr"),
    )
    regularizer_intermediate: float = Field(
        1.0,
        ge=0.0,
        description="v of ivr: how much queries and mixing matrices count",
        json_schema_extra=in_equation(
            "ivr: c sum_b w_b (||e_g||^p + ||r_k||^p + mean_A ||e_a||^p + "
            "v (||q_b||^p + ||M_k||^p))"
        ),
    )
    orthogonality: float = Field(
        0.0,
        ge=0.0,
        description="weight of holding mixing matrices near orthogonal ones",
        json_schema_extra=in_equation("c mean_b ||M_k^T M_k - I||^2"),
    )
    patience: int = Field(10, ge=1, description="epochs without a better validation MRR")
    max_density: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None,
        description="early stopping counts epochs with at most this core density only; by default "
        "a core that learns which entries exist is waited for until it is sparse",
        json_schema_extra=in_equation("nnz(G) / (d_e^2 d_r)"),
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
