"""What goes in and out over HTTP, typed: the OpenAPI description is made of it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reltucker.serving.http.predictor import Options

NAME_LENGTH = 20_000
"""Characters of a name."""
MANY = 1_000
"""Questions, triples, candidates or answers to a question in one request."""
ROWS = 100_000
"""Answers in one request: questions times the answers to each."""

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


class _How(_Body):
    top: Top = 10
    known: bool = Field(False, description="keep facts that the graph holds")
    held_out: bool = Field(False, description="facts of the test split count as unknown")
    in_range: bool = Field(
        False, description="only entities that stand there in a training triple of the relation"
    )
    among: list[Name] | None = Field(None, max_length=MANY, description="only these entities")
    where: list[Name] = Field(
        [], max_length=20, description="only entities with these facts, as 'relation=object'"
    )

    def options(self) -> Options:
        """As the predictor takes them."""
        among = None if self.among is None else tuple(self.among)
        return Options(self.top, self.known, self.held_out, self.in_range, among, tuple(self.where))


class Questions(_How):
    """Questions, and how they are answered."""

    questions: Annotated[list[Asked], Field(min_length=1, max_length=MANY)]


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


class Added(_How):
    """Facts that name new entities, and questions that may name them, too."""

    triples: Annotated[list[Triple], Field(min_length=1, max_length=MANY)]
    questions: Annotated[list[Asked], Field(max_length=MANY)] = []


class AnswersWithNew(Answers):
    """The names that are new, and the answers with them."""

    entities: list[str]


class WhyTriple(_Body):
    """A triple to explain, by how many parts and facts."""

    subject: Name
    relation: Name
    object: Name
    top: Annotated[int, Field(ge=1, le=100)] = 10


class Part(BaseModel):
    """A path from a coordinate of the subject by a slice of the core to one of the object, whose
    numbers multiply to the part; null is the constant of batch normalisation."""

    model_config = ConfigDict(extra="allow")


class ScoreParts(BaseModel):
    """score = sum of the parts + rest, for one way to ask."""

    way: Literal["object", "subject"]
    score: float
    parts: list[Part]
    rest: float
    interactions: int


class Support(BaseModel):
    """A known fact, and by how much the plausibility would fall without it."""

    subject: str
    relation: str
    object: str
    of: Literal["subject", "object", "both"]
    support: float


class Explained(BaseModel):
    """Why a triple has its score."""

    subject: str
    relation: str
    object: str
    known: bool
    score: float
    plausibility: float
    probability: float | None
    asked: list[ScoreParts]
    facts: list[Support]


class Discovery(_Body):
    """Which new facts to look for."""

    top: Top = 100
    relations: Annotated[list[Name], Field(min_length=1, max_length=MANY)] | None = None
    entities: Annotated[list[Name], Field(min_length=1, max_length=MANY)] | None = None
    per_relation: bool = Field(False, description="so many of each relation")
    min_probability: float | None = Field(None, ge=0, le=1)
    anywhere: bool = Field(False, description="also entities that never stand there in train")
    held_out: bool = Field(False, description="facts of the test split count as unknown")


class NewFact(BaseModel):
    """A fact that the graph does not hold."""

    rank: int
    subject: str
    relation: str
    object: str
    score: float
    probability: float | None


class DiscoveryLine(BaseModel):
    """A line of the stream: how far the work is, a fact, or why it ended early. The facts come at
    the end, best first."""

    done: int | None = None
    total: int | None = None
    fact: NewFact | None = None
    error: str | None = None


class Alike(BaseModel):
    """A name that is like the one asked for; 1 is the same."""

    rank: int
    name: str
    label: str
    similarity: float


class Duplicate(BaseModel):
    """Two entities that may be one; `shared` is the share of their facts that both have."""

    rank: int
    first: str
    second: str
    similarity: float
    shared: float | None


class Link(BaseModel):
    """A relation that others explain."""

    relation: str
    kind: str
    others: list[str]
    weights: list[float]
    explained: float
    facts: float | None
    facts_back: float | None


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
