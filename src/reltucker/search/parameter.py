"""The values of one searched setting: a list of them, or all between two bounds."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from optuna import Trial
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from reltucker.errors import RecipeError
from reltucker.model import CORES
from reltucker.training import Recipe

Scalar = bool | int | float | str
Bound = int | float | Literal["relations", "rows"]
Distribution = CategoricalDistribution | IntDistribution | FloatDistribution


def _distribution(value: Any) -> Any:
    return json_to_distribution(value) if isinstance(value, str) else value


StoredDistribution = Annotated[
    Distribution, BeforeValidator(_distribution), PlainSerializer(distribution_to_json)
]
"""In JSON as Optuna writes it."""


class Parameter(BaseModel):
    """The values of one setting: a list of them, or all between two bounds.

    A bound `"relations"` is the number of relations of the graph, `"rows"` twice that, which are
    the rows of R with reciprocal relations. In a region, `start` is where the search begins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    values: list[Scalar] | None = Field(None, min_length=1)
    low: Bound | None = None
    high: Bound | None = None
    log: bool = False
    step: int | float | None = Field(None, gt=0)
    start: Scalar | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("give both low and high")
        if (self.low is None) == (self.values is None):
            raise ValueError("give either values = [...] or low = ... and high = ...")
        if self.values is not None and (self.log or self.step is not None):
            raise ValueError("log and step belong to low and high, not to values")
        if self.log and self.step is not None:
            raise ValueError("give either log or step")
        return self

    def distribution(self, is_integer: bool, relations: int) -> Distribution:
        """The same for Optuna, in a graph with so many relations; ValueError where it is empty."""

        def number(value: Any) -> Any:
            return {"relations": relations, "rows": 2 * relations}.get(value, value)

        if self.values is not None:
            return CategoricalDistribution(list(dict.fromkeys(map(number, self.values))))
        low, high = number(self.low), number(self.high)
        if isinstance(self.high, str):
            high = max(low, high)
        if low > high:
            raise ValueError(f"low = {low} is above high = {high}")
        if not is_integer:
            return FloatDistribution(low, high, self.log, self.step)
        step = 1 if self.step is None else self.step
        if any(value != int(value) for value in (low, high, step)):
            raise ValueError("low, high and step must be whole numbers")
        return IntDistribution(low, high - (high - low) % step, self.log, int(step))


def distributions_of(
    parameters: Mapping[str, Parameter], relations: int, source: str
) -> dict[str, Distribution]:
    """Parameters by dotted key for Optuna, in a graph with so many relations."""
    found = {}
    for key, parameter in parameters.items():
        try:
            found[key] = parameter.distribution(is_integer(key), relations)
        except ValueError as error:
            raise RecipeError(f"{source}.{key}: {error}") from None
    return found


def suggest(trial: Trial, key: str, among: Distribution) -> Any:
    """Ask Optuna for the value of what it calls `key`."""
    if isinstance(among, CategoricalDistribution):
        return trial.suggest_categorical(key, among.choices)
    draw: Any = trial.suggest_int if isinstance(among, IntDistribution) else trial.suggest_float
    return draw(key, among.low, among.high, step=among.step, log=among.log)


def grid_values(key: str, among: Distribution) -> list[Any]:
    """All values of one setting, in order; a continuous one has none to list."""
    if isinstance(among, CategoricalDistribution):
        return list(among.choices)
    if isinstance(among, IntDistribution) and not among.log:
        return list(range(among.low, among.high + 1, among.step))
    if isinstance(among, FloatDistribution) and among.step is not None:
        steps = round((among.high - among.low) / among.step)
        return [among.low + step * among.step for step in range(steps + 1)]
    raise RecipeError(
        f"space.{key}: this sampler needs a grid; give values = [...], or low, high and step"
    )


def extremes(among: Distribution) -> list[Any]:
    """All values of a list, the bounds of a range."""
    if isinstance(among, CategoricalDistribution):
        return list(among.choices)
    return [among.low, among.high]


def nearest(value: Any, among: Distribution) -> Any:
    """The value of a setting that is nearest to a wanted one."""
    if isinstance(among, CategoricalDistribution):
        return value if value in among.choices else among.choices[0]
    value = min(max(value, among.low), among.high)
    if among.step is not None:
        value = among.low + round((value - among.low) / among.step) * among.step
    return value


def is_integer(key: str) -> bool:
    """Whether a setting of the recipe takes whole numbers only; one that is none does not."""
    section, _, name = key.partition(".")
    if section == "core":
        options = (core.Options.model_fields for core in CORES.values())
        fields = {option: field for each in options for option, field in each.items()}
    else:
        fields = type(getattr(Recipe(), section)).model_fields
    if name not in fields:
        return False
    kind = fields[name].annotation
    kinds = get_args(kind) or (kind,)
    return int in kinds and float not in kinds
