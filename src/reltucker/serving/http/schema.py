"""What goes in and out over HTTP, typed: the OpenAPI description is made of it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

NAME_LENGTH = 20_000
"""Characters of a name."""
MANY = 1_000
"""Questions, triples, candidates or answers to a question in one request."""
ROWS = 100_000
"""Answers in one request: questions times the answers to each."""

Kind = Literal["entity", "relation"]
Name = Annotated[str, Field(max_length=NAME_LENGTH)]
Top = Annotated[int, Field(ge=1, le=MANY)]
Triple = Annotated[list[Name], Field(min_length=3, max_length=3)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


class Health(BaseModel):
    """That the server is there."""

    status: Literal["ok"]
    version: str


class Summary(BaseModel):
    """A run in short."""

    name: str
    graph: str
    model: str
    entities: int
    relations: int
    triples: dict[str, int]
    effective_parameters: int
    calibrated: bool = Field(description="whether answers have probabilities")
    figures: dict[str, Any] = Field(description="what training ended with")


class Details(Summary):
    """A run with its sizes, in both views."""

    sizes: dict[str, Any]


class NameFound(BaseModel):
    """A name, its label and how often it occurs in the training triples."""

    name: str
    label: str
    count: int


class Asked(_Body):
    """A triple with one part left out, null or `?`: that is asked for."""

    subject: Name | None = None
    relation: Name | None = None
    object: Name | None = None

    def parts(self) -> tuple[str | None, str | None, str | None]:
        """In the order of a triple."""
        return self.subject, self.relation, self.object


class Questions(_Body):
    """Questions, and how they are answered."""

    questions: Annotated[list[Asked], Field(min_length=1, max_length=MANY)]
    top: Top = 10
    known: bool = Field(False, description="keep facts that the graph holds")
    held_out: bool = Field(False, description="facts of the test split count as unknown")


class Answer(BaseModel):
    """A candidate with its rank, as the triple that it makes."""

    rank: int
    subject: str
    relation: str
    object: str
    answer: str
    label: str
    score: float
    probability: float | None = Field(description="null without calibration")
    known: bool


class Answers(BaseModel):
    """For each question its answers, best first."""

    answers: list[list[Answer]]


class Triples(_Body):
    """Named triples (subject, relation, object)."""

    triples: Annotated[list[Triple], Field(min_length=1, max_length=MANY)]


class Scored(BaseModel):
    """A triple with its score and how it ranks among the answers to either question; null for
    names that stand in valid or test only."""

    subject: str
    relation: str
    object: str
    score: float | None
    probability: float | None
    object_rank: float | None
    subject_rank: float | None
    known: bool


class Scores(BaseModel):
    """In the order of the triples."""

    triples: list[Scored]


class Calibrated(BaseModel):
    """How probabilities were fitted, and how far they hold: by bins of the probability, on triples
    that they were not fitted to."""

    split: str
    triples: int
    corrupted: int
    threshold: float
    reliability: dict[str, Any]
    relations: list[dict[str, Any]]


class Epochs(BaseModel):
    """What was noted after each epoch of training."""

    epochs: list[dict[str, Any]]


class Results(BaseModel):
    """Ranks of held-out triples, by relation; of a sample, where there are many."""

    split: str
    triples: int
    metrics: dict[str, Any]
    relations: list[dict[str, Any]]


class Core(BaseModel):
    """The share of entries of the core that are not zero, whole and by slice."""

    density: float
    slices: list[float]


class Mixing(BaseModel):
    """M_k of a relation. With a `step` above 1 a value stands for a block of so many rows and
    columns, and is that with the largest absolute value."""

    relation: str
    label: str
    entity_dim: int
    step: int
    values: list[list[float]]


class Place(NameFound):
    """A name on the map."""

    x: float
    y: float


class Fact(BaseModel):
    """A triple around an entity, with labels; predicted ones have a score."""

    subject: str
    subject_label: str
    relation: str
    relation_label: str
    object: str
    object_label: str
    score: float | None = None
    probability: float | None = None


class Neighbourhood(BaseModel):
    """An entity between facts that the graph holds and new ones that the model predicts."""

    name: str
    label: str
    facts: int = Field(description="how many facts the graph holds about it")
    known: list[Fact]
    predicted: list[Fact]
