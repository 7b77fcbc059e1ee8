"""What is minimised: objectives, their batches and regularisers."""

from reltucker.errors import RecipeError
from reltucker.graph import KnowledgeGraph
from reltucker.model import RelationalTucker
from reltucker.training.objectives.all_entities import AllEntities
from reltucker.training.objectives.batches import QuestionBatches, TripleBatches
from reltucker.training.objectives.gradients import Gradients, RowGradient, dense
from reltucker.training.objectives.objective import Objective
from reltucker.training.objectives.sampled import NegativeSampling, SharedNegatives
from reltucker.training.recipe import TrainSettings

__all__ = ["Gradients", "Objective", "RowGradient", "check_objective", "dense", "make_objective"]


def make_objective(
    model: RelationalTucker, settings: TrainSettings, graph: KnowledgeGraph
) -> Objective:
    """The objective of a recipe on the training triples of a graph."""
    check_objective(settings, graph.seen_entities)
    match settings.objective:
        case "k_vs_all":
            exponent, at_once = settings.answer_exponent, settings.answers_at_once
            questions = QuestionBatches(model, graph, exponent, at_once)
            return AllEntities(model, settings, questions, len(graph.entities))
        case "one_vs_all":
            return AllEntities(model, settings, TripleBatches(model, graph), len(graph.entities))
        case "negative_sampling":
            kind = SharedNegatives if settings.shared_negatives else NegativeSampling
            return kind(model, settings, TripleBatches(model, graph), graph.seen_entities)


def check_objective(settings: TrainSettings, population: int) -> None:
    """Refuse what the objective cannot do on a graph with so many entities in train."""
    if settings.objective == "negative_sampling" and settings.negatives > population - 1:
        raise RecipeError(
            f"train.negatives = {settings.negatives}: only {population} entities occur in "
            f"train, so at most {population - 1} can be drawn without replacement"
        )
