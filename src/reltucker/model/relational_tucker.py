"""The one model: entity matrix E, relation matrix R, core G, score e_i^T (G x_3 r_k) e_j."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reltucker.errors import ReltuckerError
from reltucker.graph import Direction
from reltucker.model.arrangement import Arrangement
from reltucker.model.cores import Core
from reltucker.model.dropout import NO_DROPOUT, QueryDropout, dropped
from reltucker.model.initial import Initial, draw_rows, drawing
from reltucker.model.normalisation import QueryNorm
from reltucker.peers import ALONE, Peers
from reltucker.report.notebook import card, matrix_picture
from reltucker.report.tables import Value

DRAWN = 20_000_000
"""Up to so many entries a notebook reads to draw a mixing matrix."""


class RelationalTucker(nn.Module):
    """The Relational Tucker decomposition of N entities and K relations with a given core.

    E : (N, d_e), R : (K, d_r), core.tensor() = G : (d_e, d_e, d_r)

    With reciprocal relations R has 2 K rows: row K + k belongs to the inverse of relation k, and
    (?, k, j) is asked as (j, k^-1, ?). Scores of triples and queries over relations use rows k.

    With batch normalisation, as in TuckER, the given entity's row and the query are normalised
    over the batch; after training both are fixed affine maps. It needs reciprocal relations, since
    e_i^T M_k e_j would otherwise be two different scores, asked from either side.

    Among several processes each has the rows `held` of E, and all else; what is without gradients
    can be asked by all of them together, for any entities.
    """

    def __init__(
        self,
        entities: int,
        relations: int,
        core: Core,
        *,
        reciprocal: bool = False,
        batch_norm: bool = False,
        peers: Peers = ALONE,
    ) -> None:
        super().__init__()
        self._entities = entities
        self.relations = relations
        self.reciprocal = reciprocal
        self.peers = peers
        self.held = peers.span(entities)
        self.E = nn.Parameter(torch.empty(self.held.stop - self.held.start, core.entity_dim))
        self.R = nn.Parameter(torch.empty(relations * (1 + reciprocal), core.relation_dim))
        self.core = core
        self.norm = QueryNorm(core.entity_dim, peers) if batch_norm else None

    @property
    def entities(self) -> int:
        """How many entities there are, whoever holds them."""
        return len(self.E) if self.peers.size == 1 else self._entities

    @property
    def first(self) -> int:
        """The entity of the first row that this process holds."""
        return 0 if self.peers.size == 1 else self.held.start

    def own(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of the ids, in ascending order, whose rows this process holds."""
        if self.peers.size == 1:
            return ids
        return ids[slice(*np.searchsorted(ids, [self.held.start, self.held.stop]))]

    def reset(
        self, generator: torch.Generator, scale: float = 1.0, kind: Initial = "normal"
    ) -> None:
        """Draw all parameters anew; embeddings have the variance scale^2 / dimension, relations
        scale^2, and the core what keeps scores at the scale of a product of embeddings."""
        draw = drawing(kind, generator)
        draw_rows(draw, self.E, self.held, self.entities, scale * self.core.entity_dim**-0.5)
        draw(self.R, scale)
        self.core.reset(draw)

    def arrange(self, relations: Tensor, asks_subject: Tensor) -> Arrangement:
        """Arrange questions with these relations (Q,) that ask for subjects or for objects (Q,);
        with reciprocal relations all of them ask for objects, some of the inverse relation."""
        if self.reciprocal:
            relations = relations + self.relations * asks_subject
            asks_subject = torch.zeros_like(asks_subject)
        return Arrangement.of(relations, asks_subject, len(self.R))

    def ask(
        self,
        arrangement: Arrangement,
        given: Tensor,
        relations: Tensor,
        masks: QueryDropout = NO_DROPOUT,
    ) -> Tensor:
        """The way from questions to queries q, whose scores are q E^T; differentiable.

        given (Q, d_e) : the rows of the given entities, in the order of the arrangement
        relations (U, d_r) : the rows of R that the arrangement names
        """
        mixing = self.core.mixing(dropped(relations, masks.relations), masks.mixing)
        return self.ask_mixed(arrangement, given, mixing, masks)

    def ask_mixed(
        self,
        arrangement: Arrangement,
        given: Tensor,
        mixing: Tensor,
        masks: QueryDropout = NO_DROPOUT,
    ) -> Tensor:
        """The same with the compact form of M_k (U, ...) at hand."""
        if self.norm is not None:
            given = self.norm.given(given)
        queries = self.core.queries(mixing, dropped(given, masks.given), arrangement)
        if self.norm is not None:
            queries = self.norm.query(queries)
        return dropped(queries, masks.queries)

    def with_entities(self, rows: Tensor) -> "RelationalTucker":
        """A model for use with other rows of entities (n, d_e); all else is shared, not copied."""
        model = RelationalTucker(0, self.relations, self.core, reciprocal=self.reciprocal)
        model.E = nn.Parameter(rows, requires_grad=False)
        model.R, model.norm = self.R, self.norm
        model.training = False  # and not by `eval()`, which would reach into what is shared
        return model

    def serving_state(self) -> dict[str, Tensor]:
        """What is needed to use the model after training, by name."""
        core = {f"core.{name}": value for name, value in self.core.serving_state().items()}
        norm = {} if self.norm is None else self.norm.state_dict(prefix="norm.")
        return {"E": self.E.detach(), "R": self.R.detach(), **core, **norm}

    @torch.no_grad()
    def load_serving_state(self, state: Mapping[str, Tensor], in_place: bool = False) -> None:
        """The inverse of `serving_state`; raises KeyError, RuntimeError or ValueError where the
        state does not fit the model. With `in_place` E and R are those of the state, not copies;
        they may be a file in memory."""
        types = {name: value.dtype for name, value in self.serving_state().items()}
        if {name: value.dtype for name, value in state.items()} != types:
            raise ValueError("tensors are missing, too many, or of other types")
        for name, parameter in (("E", self.E), ("R", self.R)):
            if state[name].shape != parameter.shape:
                raise ValueError(f"{name} has the shape {tuple(state[name].shape)}")
            if in_place:
                parameter.data = state[name].to(parameter)
            else:
                parameter.copy_(state[name])
        if self.norm is not None:
            self.norm.load_state_dict(
                {k.removeprefix("norm."): v for k, v in state.items() if k.startswith("norm.")}
            )
        self.core.load_serving_state(
            {k.removeprefix("core."): v for k, v in state.items() if k.startswith("core.")}
        )

    @torch.no_grad()
    def rows(self, ids: Tensor) -> Tensor:
        """The rows (n, d_e) of any entities (n,), whoever holds them."""
        return self.peers.rows(self.E, ids, self.entities)

    @torch.no_grad()
    def queries(self, direction: Direction, first: Tensor, second: Tensor) -> Tensor:
        """The query vectors q with scores q E^T (q R^T for relations), in the caller's order.

        (first, second) are ids (B,): (subject, relation) for objects, (object, relation) for
        subjects, (subject, object) for relations.
        """
        if direction == "relation":
            return self.relation_queries(self.rows(first), self.rows(second))
        asks_subject = torch.full_like(second, direction == "subject", dtype=torch.bool)
        arrangement = self.arrange(second, asks_subject)
        given = self.rows(first[arrangement.order])
        return arrangement.undone(self.ask(arrangement, given, self.R[arrangement.relations]))

    @torch.no_grad()
    def plausibility_queries(
        self, direction: Direction, given: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rows of subjects (where objects are asked for) or of objects (B, d_e), and ids of their
        relations (B,), to q (B, d_e) and c (B,): the plausibility of a triple is q . e + c with
        the row e of its other entity.

        With reciprocal relations it is the mean of two scores, both of which are linear in e, so
        that one product with E serves both: asked from e, the score of a given g is
        (s_1 e + t_1)^T M (s_2 g) + t_2 . g with the scales and shifts of batch normalisation.
        """
        asks_subject = torch.full_like(relations, direction == "subject", dtype=torch.bool)
        arrangement = self.arrange(relations, asks_subject)
        rows = self.R[arrangement.relations]
        queries = arrangement.undone(self.ask(arrangement, given[arrangement.order], rows))
        if not self.reciprocal:
            return queries, queries.new_zeros(len(queries))
        back = relations + self.relations * (direction == "object")
        arrangement = Arrangement.of(back, torch.ones_like(asks_subject), len(self.R))
        mixing = self.core.mixing(self.R[arrangement.relations])
        none, nothing = given.new_ones(()), given.new_zeros(given.shape[1])
        affine = (none, nothing, none, nothing) if self.norm is None else self.norm.affine()
        s_1, t_1, s_2, t_2 = affine
        ordered = self.core.queries(mixing, (s_2 * given)[arrangement.order], arrangement)
        answers = arrangement.undone(ordered)
        return 0.5 * (queries + s_1 * answers), 0.5 * (answers @ t_1 + given @ t_2)

    def relation_queries(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """e_i, e_j (B, d_e) to queries over R (B, d_r), differentiable. With batch normalisation
        scores by them lack a term that is the same for all relations."""
        if self.norm is not None:
            subjects, objects = self.norm.given(subjects), objects * self.norm.query_scale()
        return self.core.relation_queries(subjects, objects)

    def candidates(self, direction: Direction) -> Tensor:
        """What queries of this direction are multiplied with: E, or R for relations."""
        return self.R.detach()[: self.relations] if direction == "relation" else self.E.detach()

    def extra_repr(self) -> str:
        """The sizes, as torch shows modules."""
        sizes = f"entities={self.entities}, relations={self.relations}"
        return f"{sizes}, reciprocal={self.reciprocal}"

    def _repr_html_(self) -> str:
        core = self.core
        figures: dict[str, Value] = {
            "entities": self.entities,
            "relations": self.relations,
            "d_e, d_r": f"{core.entity_dim:,}, {core.relation_dim:,}",
            "reciprocal relations": self.reciprocal,
            "batch normalisation": self.norm is not None,
            "parameters": sum(p.numel() for p in self.parameters()),
            "of the core": sum(p.numel() for p in core.parameters()),
            "numbers": f"{str(self.E.dtype).removeprefix('torch.')}, {self.E.device}",
        }
        work = core.entity_dim**2 * (1 if core.learns == "nothing" else core.relation_dim)
        picture = None
        if work <= DRAWN and self.relations and self.E.device.type != "meta":
            picture = matrix_picture(self.mixing_matrix(0).cpu().numpy())
        caption = "strength of the entries of the first M_k"
        return card(f"Relational Tucker model: {core.title}", figures, picture, caption)

    def forward(self, triples: Tensor) -> Tensor:
        """s_ijk = e_i^T M_k e_j for triples (..., 3) of ids (i, k, j) to (...), differentiable once
        for E, R, the core and the normalisation, which is over all given triples in training.

        In training the gates of a core that has them are drawn anew by torch's generator, and
        `core.penalty` is that of these gates. Dropout is not the model's.
        """
        self._check(triples)
        i, k, j = triples.reshape(-1, 3).long().unbind(dim=1)
        if not len(i):
            return self.E[i].sum(dim=1).view(triples.shape[:-1])
        if self.training:
            self.core.begin_step(int(torch.randint(2**62, ())))
        arrangement = self.arrange(k, torch.zeros_like(k, dtype=torch.bool))
        rows = self.R[arrangement.relations]
        queries = self.ask(arrangement, self.E[i[arrangement.order]], rows)
        scores = (queries * self.E[j[arrangement.order]]).sum(dim=1)
        return arrangement.undone(scores).view(triples.shape[:-1])

    def _check(self, triples: Tensor) -> None:
        """Refuse what are no triples of ids; the loops below would not notice."""
        if not isinstance(triples, Tensor):
            raise ReltuckerError(
                f"the model takes a tensor of ids, not a {type(triples).__name__}; "
                "torch.tensor makes one of a list"
            )
        if triples.dim() == 0 or triples.shape[-1] != 3 or triples.is_floating_point():
            raise ReltuckerError(
                f"the model takes integers (..., 3), the ids of subject, relation and object, not "
                f"{str(triples.dtype).removeprefix('torch.')} of the shape {tuple(triples.shape)}"
            )
        sizes = triples.new_tensor([len(self.E), self.relations, len(self.E)], dtype=torch.long)
        if bool(((triples < 0) | (triples >= sizes)).any()):
            raise ReltuckerError(
                f"the model has {len(self.E):,} entities and {self.relations:,} relations, "
                "numbered from 0, and a triple has another id"
            )

    @torch.no_grad()
    def score(self, triples: Tensor) -> Tensor:
        """s_ijk = e_i^T M_k e_j for triples (n, 3) of ids (i, k, j)."""
        queries = self.queries("object", triples[:, 0], triples[:, 1])
        return (queries * self.rows(triples[:, 2])).sum(dim=1)

    def plausibility(self, triples: Tensor) -> Tensor:
        """How a triple is judged by itself, whatever was asked: the mean of its scores asked for
        the object and for the subject, which differ with reciprocal relations only. (n, 3) ids
        (i, k, j) to (n,)."""
        scores = self.score(triples)
        if not self.reciprocal:
            return scores
        queries = self.queries("subject", triples[:, 2], triples[:, 1])
        return 0.5 * (scores + (queries * self.rows(triples[:, 0])).sum(dim=1))

    @torch.no_grad()
    def mixing_matrix(self, relation: int) -> Tensor:
        """M_k (d_e, d_e) of one relation, the scales of batch normalisation included."""
        matrix = self.core.mixing_matrices(self.R[relation : relation + 1])[0]
        return matrix if self.norm is None else self.norm.scaled(matrix)
