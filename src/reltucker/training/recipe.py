"""Recipes: all settings of a training run together, read, changed, checked and written."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import tomli_w
from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from reltucker.arguments import checked
from reltucker.atomic import write_text
from reltucker.choices import PresetName
from reltucker.errors import RecipeError
from reltucker.model import CORES
from reltucker.report.notebook import card
from reltucker.training.objectives import OBJECTIVES, REGULARIZERS
from reltucker.training.recipe_files import recipe_file
from reltucker.training.settings import (
    GraphSettings,
    ModelSettings,
    RecipeSettings,
    Settings,
    TrainSettings,
    nearest,
)

RETIRED = (("train", "validation_share"),)
"""Settings of earlier versions, which stand in the recipes of their runs."""


class RecipeWarning(UserWarning):
    """Settings that can be used but probably do not do what was meant."""


class Recipe(Settings):
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
        """A recipe from a TOML file, or by the name of one that comes with the program, such as
        best/wn18rr-rescal-256. In that `of_run`, settings that no longer exist are passed over, so
        that what was trained with them can still be used."""
        path = Path(path) if of_run else recipe_file(path)
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
        return f"there is no setting {key!r}{nearest(key, _keys(recipe))}"
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
