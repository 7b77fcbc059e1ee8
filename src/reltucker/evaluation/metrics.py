"""What ranks are summarised to: MRR, mean rank, HITS@k."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

HITS = (1, 3, 10)


@dataclass(frozen=True)
class Metrics:
    """Averages over queries; 0 where there are no queries."""

    mrr: float
    mean_rank: float
    hits: dict[int, float]
    queries: int

    @classmethod
    def of(cls, ranks: npt.NDArray[np.float64]) -> "Metrics":
        """MRR = mean of 1 / rank, HITS@k = share of ranks <= k."""
        if not len(ranks):
            return cls(0.0, 0.0, dict.fromkeys(HITS, 0.0), 0)
        return cls(
            mrr=float(np.mean(1.0 / ranks)),
            mean_rank=float(np.mean(ranks)),
            hits={k: float(np.mean(ranks <= k)) for k in HITS},
            queries=len(ranks),
        )

    def to_dict(self) -> dict[str, float | int]:
        """JSON-ready, with the keys mrr, hits@1, hits@3, hits@10, mean_rank, queries."""
        return {
            "mrr": self.mrr,
            **{f"hits@{k}": value for k, value in self.hits.items()},
            "mean_rank": self.mean_rank,
            "queries": self.queries,
        }
