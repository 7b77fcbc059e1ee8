"""Recipes: every setting of a training run, typed, with its default and its meaning beside it."""

import difflib
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from reltucker.arguments import checked
from reltucker.atomic import write_text
from reltucker.choices import PresetName, TrackerName
from reltucker.errors import RecipeError
from reltucker.kernels import Precision
from reltucker.model import CORES
from reltucker.report.notebook import card
from reltucker.training.objectives import OBJECTIVES, REGULARIZERS, Objective

Rate = Annotated[float, Field(ge=0.0, lt=1.0)]

LARGEST_ENTITY_DIM = 10_000

RETIRED = (("train", "validation_share"),)
"""Settings of earlier versions, which stand in the recipes of their runs."""


class RecipeWarning(UserWarning):
    """Settings that can be used but probably do not do what was meant."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RecipeSettings(_Settings):
    """Who chooses what is not set."""

    preset: PresetName | None = Field(
        None, description="chooses from the graph's sizes; by default the defaults hold"
    )
    settled: bool = Field(False, description="whether what the preset has chosen stands here")


class GraphSettings(_Settings):
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


class ModelSettings(_Settings):
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
            raise ValueError(f"there is no model {name!r}{_nearest(name, CORES)}")
        return name


class TrainSettings(_Settings):
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
            raise ValueError(f"there is no {field.field_name} {name!r}{_nearest(name, registry)}")
        return name

    @property
    def objective_class(self) -> type[Objective]:
        """What is minimised."""
        return OBJECTIVES[self.objective].of(self)

    @property
    def draws(self) -> bool:
        """Whether `negatives` are drawn at all."""
        return "sampled_epochs" not in OBJECTIVES[self.objective].reads or self.sampled_epochs > 0


class Recipe(_Settings):
    """Everything that determines a run. Unknown keys and wrong values are refused by name."""

    recipe: RecipeSettings = RecipeSettings()
    graph: GraphSettings = GraphSettings()
    model: ModelSettings = ModelSettings()
    core: dict[str, Any] = Field({}, description="options of the chosen core, as it declares them")
    train: TrainSettings = TrainSettings()

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            recipe = validate(values)
        except ValidationError as error:
            raise RecipeError(_explain(cls, error)) from None
        if not recipe.is_open:  # else what is set may fit to what the preset will choose
            recipe._check_together()
        return recipe

    def _check_together(self) -> None:
        if self.model.batch_norm and not self.model.reciprocal:
            raise RecipeError("model.batch_norm needs model.reciprocal = true")
        if (self.train.regularizer == "none") != (self.train.regularizer_weight == 0.0):
            raise RecipeError("train.regularizer and train.regularizer_weight go together")
        options = CORES[self.model.name].Options
        for option in self.core:
            if option not in options.model_fields:
                raise RecipeError(
                    f"core.{option}: {self.model.name} has no such option; leave it out"
                )
        try:
            options.model_validate(self.core)
        except ValidationError as error:
            explained = _explain(options, error)
            separator = ": " if explained.startswith("there is no") else "."
            raise RecipeError(f"core{separator}{explained}") from None

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """What differs from the defaults, by dotted key."""
        default = Recipe.model_construct()
        for section, values in self.model_dump().items():
            for key, value in values.items():
                if value != default.value(f"{section}.{key}"):
                    yield f"{section}.{key}", value

    def _repr_html_(self) -> str:
        figures = {key: repr(value) for key, value in self.__repr_args__()}
        return card("Recipe, what is not the default", figures, code=self.to_toml())

    @classmethod
    def of(cls, values: dict[str, Any], source: str = "recipe") -> Self:
        """A recipe from nested dictionaries; `source` is named in errors."""
        try:
            return cls.model_validate(values)
        except RecipeError as error:
            raise RecipeError(f"{source}: {error}") from None

    @classmethod
    @checked()
    def load(cls, path: Path | str, *, of_run: bool = False) -> Self:
        """A recipe from a TOML file; in that `of_run`, settings that no longer exist are passed
        over, so that what was trained with them can still be used."""
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
            if of_run:
                for section, key in RETIRED:
                    values.get(section, {}).pop(key, None)
        except FileNotFoundError:
            raise RecipeError(f"{path}: there is no such recipe file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RecipeError(f"{path}: not a readable TOML file ({error})") from None
        return cls.of(values, str(path))

    @classmethod
    def preset(cls, name: PresetName) -> Self:
        """A recipe whose settings the preset chooses when it is trained, but for those that are
        set: Recipe.preset("best").with_values({"model.name": "complex"})."""
        return cls.of({"recipe": {"preset": name}})

    def by_preset(self, name: PresetName) -> Self:
        """The recipe with this preset for what is not set."""
        if self.recipe.settled:
            raise RecipeError(f"preset {name!r}: the recipe has every setting; leave it out")
        return self.with_values({"recipe.preset": name})

    @property
    def is_open(self) -> bool:
        """Whether a preset is still to choose what is not set."""
        return self.recipe.preset is not None and not self.recipe.settled

    def given(self) -> dict[str, Any]:
        """What was set, by dotted key."""
        sections = self.model_dump(exclude_unset=True).items()
        return {f"{name}.{key}": value for name, part in sections for key, value in part.items()}

    def gives_same(self, other: "Recipe") -> bool:
        """Whether both give the same figures: trackers look on."""
        here, there = (each.with_values({"train.trackers": []}) for each in (self, other))
        return here == there

    def value(self, key: str) -> Any:
        """The value of a dotted key such as `train.epochs`; None where there is none."""
        section, _, name = key.partition(".")
        settings = getattr(self, section, None)
        return settings.get(name) if isinstance(settings, dict) else getattr(settings, name, None)

    def to_toml(self) -> str:
        """The full recipe, defaults included."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    def save(self, path: Path) -> None:
        """Write the full recipe as TOML."""
        write_text(path, self.to_toml())

    @checked()
    def with_values(self, changes: dict[str, Any], source: str = "settings") -> Self:
        """The recipe with other values for dotted keys such as `train.epochs`."""
        values = self.model_dump(exclude_unset=True)
        for key, value in changes.items():
            *sections, last = str(key).split(".")
            table = values
            for section in sections:
                table = table.setdefault(section, {})
                if not isinstance(table, dict):
                    raise RecipeError(f"{source}: {section!r} in {key!r} is not a section")
            table[last] = value
        return self.of(values, source)

    def on(self, source: str | None) -> Self:
        """The recipe for another graph, for which labels and columns of the former one say
        nothing."""
        graph = {"source": source, "labels": None, "columns": None}
        return self.with_values({f"graph.{key}": value for key, value in graph.items()})

    def with_paths_beside(self, folder: Path) -> Self:
        """The recipe with the paths of its graph leading through `folder`, where they exist."""
        paths = (("source", self.graph.source), ("labels", self.graph.labels))
        beside = {
            f"graph.{key}": str(folder / path)
            for key, path in paths
            if path is not None and (folder / path).exists()
        }
        return self.with_values(beside)

    @checked()
    def changed(self, assignments: Iterable[str], source: str = "settings") -> Self:
        """The recipe after assignments such as `train.learning_rate=0.05`, values as in TOML."""
        changes = {}
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            if not equals:
                raise RecipeError(
                    f"{source} {assignment}: write it as KEY=VALUE, for example train.epochs=20"
                )
            changes[key.strip()] = _toml_value(text.strip())
        return self.with_values(changes, source)


def refuse_idle(recipe: Recipe) -> None:
    """Refuse a setting that was changed and has no effect beside the others, by name: whoever set
    it expects one. Recipes of earlier runs may have some, so that only training asks."""
    train, default = recipe.train, TrainSettings()
    learns_pattern = CORES[recipe.model.name].learns == "pattern"
    has_matrices = CORES[recipe.model.name].has_matrices
    rules = [
        ("decay", train.schedule != "constant", "a train.schedule that is not 'constant'"),
        ("plateau_patience", train.schedule == "plateau", "train.schedule = 'plateau'"),
        (
            "negatives",
            train.draws,
            "train.objective = 'negative_sampling', or train.sampled_epochs",
        ),
        ("sampled_weights", train.sampled_epochs > 0, "train.sampled_epochs"),
        ("products", not train.objective_class.by_rows, "candidates that questions share"),
        ("orthogonality", has_matrices, "a core with mixing matrices, such as drt"),
        ("max_density", learns_pattern, "a core that learns which entries exist, such as srt"),
    ]
    for section, registry in (("objective", OBJECTIVES), ("regularizer", REGULARIZERS)):
        chosen = registry[getattr(train, section)]
        for key in sorted({key for one in registry.values() for key in one.reads}):
            readers = " or ".join(repr(n) for n, one in registry.items() if key in one.reads)
            rules.append((key, key in chosen.reads, f"train.{section} = {readers}"))
    for key, has_effect, needed in rules:
        value = getattr(train, key)
        if value != getattr(default, key) and not has_effect:
            raise RecipeError(
                f"train.{key} = {value!r} has no effect here: it is for {needed}; leave it out"
            )


def _toml_value(text: str) -> Any:
    """A TOML value; what is not one is taken as a plain string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(recipe: type[BaseModel], error: ValidationError) -> str:
    """The first problem of a validation error as one sentence that names the key."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    key = ".".join(path)
    if first["type"] == "extra_forbidden":
        return f"there is no setting {key!r}{_nearest(key, _keys(recipe))}"
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and isinstance(first["input"], dict):
        return reason  # of settings that do not go together; it names them
    if not path:
        return f"a {type(first['input']).__name__} is no recipe; give a dict of sections"
    return f"{key} = {first['input']!r}: {reason[:1].lower()}{reason[1:]}"


def _keys(settings: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all settings and sections."""
    keys: list[str] = []
    for name, field in settings.model_fields.items():
        keys.append(prefix + name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys.extend(_keys(kind, f"{prefix}{name}."))
        elif name == "core":
            keys.extend(f"core.{o}" for core in CORES.values() for o in core.Options.model_fields)
    return keys


def _nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest valid word: the same setting of another section, or the like."""
    known, last = list(known), word.rpartition(".")[2]
    short = {key.rpartition(".")[2]: key for key in reversed(known)}
    close = [last] if last in short else difflib.get_close_matches(word, known, 1, 0.6)
    close = close or difflib.get_close_matches(last, short, 1, 0.5)
    if close:
        return f"; did you mean {short.get(close[0], close[0])!r}?"
    return f"; there are {', '.join(known)}"
