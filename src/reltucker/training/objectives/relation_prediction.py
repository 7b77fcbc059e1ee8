"""Relation prediction: the softmax cross-entropy of a fact's relation against all rows of R.

loss = weight sum over facts (i, k, j) of -log softmax(t . r_k' : k')[k],  t = G x_1 e_i x_2 e_j
"""

import torch
from torch import Tensor

from reltucker.model import RelationalTucker
from reltucker.training.objectives.gradients import Gradients, dense

FACTS_AT_ONCE = 256
"""How many facts are handled at once: a dense core holds d_e^2 numbers for each."""


def predict_relations(
    model: RelationalTucker,
    subjects: Tensor,
    relations: Tensor,
    objects: Tensor,
    weight: float,
    gradients: Gradients,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of subjects and objects (F, d_e) and the rows of R that belong to them (F,): the loss,
    and its gradients for the rows. Those for R and the core are added to `gradients`."""
    parameters = dict(model.named_parameters())
    shared = [name for name in gradients if name != "E"]
    total_of = {name: dense(gradients[name], parameters[name]) for name in shared}
    for_subjects, for_objects = torch.empty_like(subjects), torch.empty_like(objects)
    total = torch.zeros((), dtype=torch.float64, device=relations.device)
    for begin in range(0, len(relations), FACTS_AT_ONCE):
        part = slice(begin, begin + FACTS_AT_ONCE)
        e_i, e_j = (rows[part].detach().requires_grad_() for rows in (subjects, objects))
        scores = model.relation_queries(e_i, e_j) @ model.R.t()
        loss = torch.nn.functional.cross_entropy(scores, relations[part], reduction="sum") * weight
        inputs = [e_i, e_j, *(parameters[name] for name in shared)]
        for_subjects[part], for_objects[part], *others = torch.autograd.grad(
            loss, inputs, allow_unused=True
        )
        for name, gradient in zip(shared, others, strict=True):
            if gradient is not None:
                total_of[name] += gradient
        total += loss.detach()
    gradients |= total_of
    return total, for_subjects, for_objects
