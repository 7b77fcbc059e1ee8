"""Objectives over all entities: `one_vs_all` and `k_vs_all`.

The equations are those of `reltucker.kernels.all_entities`. The first asks both questions of each
triple with one answer; the second asks each distinct question once with all of its answers.
"""

from torch import Tensor

from reltucker.kernels import all_entities_loss
from reltucker.model import RelationalTucker
from reltucker.training.objectives.batches import Batch, Batches
from reltucker.training.objectives.entities import EntityRows
from reltucker.training.objectives.objective import Keys, Objective
from reltucker.training.recipe import TrainSettings


class AllEntities(Objective):
    """Softmax or binary cross-entropy over the scores of all entities of the graph.

    Those that never occur in train are candidates too: they are only pushed away, and else their
    scores near 0 would outrank true answers.
    """

    def __init__(
        self, model: RelationalTucker, settings: TrainSettings, batches: Batches, population: int
    ) -> None:
        super().__init__(model, settings, batches, population)
        self._scores = model.E.new_empty(0)

    def _entities_touched(self) -> int:
        return len(self.model.E)

    def _candidates(self, batch: Batch, keys: Keys) -> Tensor:
        return batch.answers[:0]

    def _judge(
        self,
        batch: Batch,
        queries: Tensor,
        entities: EntityRows,
        answers: Tensor,
        candidates: Tensor,
    ) -> tuple[Tensor, Tensor]:
        size = len(queries)
        limit = max(size, int(self.settings.score_megabytes * 2**20) // queries.element_size())
        if len(self._scores) < min(limit, size * self.population):
            self._scores = queries.new_empty(min(limit, size * self.population))
        return all_entities_loss(
            self.settings.loss,
            queries,
            entities.matrix,
            batch.starts,
            answers,
            batch.weights,
            self.settings.label_smoothing,
            self._scores,
            entities.gradient,
        )

    def _entity_gradient(self, entities: EntityRows, places: Tensor, rows: Tensor) -> None:
        entities.add(places, rows)
        entities.mask_gradient()
