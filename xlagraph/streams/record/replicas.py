"""DistributedDataParallel: which of its buckets a collective reduces.

Its reducer (``torch/csrc/distributed/c10d/reducer.cpp``) fills the buckets from hooks behind the
``AccumulateGrad`` of each parameter and sends them from there in the order of their numbers, one
``allreduce_`` each. It waits for no stream but the one of the hook that completes a bucket.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Replicas:
    """Counts the buckets that each module sends in a backward pass."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, str]] = {}
        """A module's place among those found and the class that it wraps, by parameter's id."""
        self._sent: Counter[int] = Counter()

    def find(self, modules: Iterable[Any]) -> None:
        """Takes note of the parameters of those among live modules that are replicas.

        Not of a module with a communication hook, which may send more than once a bucket.
        """
        kind = sys.modules["torch"].nn.parallel.DistributedDataParallel
        found = [one for one in modules if isinstance(one, kind)]
        self._owners = {
            id(parameter): (place, type(replica.module).__name__)
            for place, replica in enumerate(found)
            if not getattr(replica, "_comm_hooks", None)
            for parameter in replica.module.parameters()
        }

    def owner(self, parameter: Any) -> tuple[int, str] | None:
        """Which module a parameter belongs to."""
        return self._owners.get(id(parameter))

    def backward_begins(self) -> None:
        """The next bucket of each module is its first, unless this is within another backward."""
        if sys.modules["torch"]._C._current_graph_task_id() < 0:  # noqa: SLF001
            self._sent.clear()

    def sends(self, owner: tuple[int, str], operator: str, given: Sequence[Any]) -> str:
        """The bucket that a collective reduces; "" where it reduces none.

        After the last bucket the reducer sends whole numbers: which parameters were used.
        """
        if not operator.startswith("c10d.allreduce_.") or not given[0][0].is_floating_point():
            return ""
        place, wrapped = owner
        number = self._sent[place]
        self._sent[place] += 1
        return f"DDP bucket {number} of {wrapped}"
