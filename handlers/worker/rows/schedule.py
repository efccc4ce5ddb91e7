"""Plans the calls for a batch whose rows belong to several models."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from handlers.worker.rows.plan import Planner
from handlers.worker.values import Call


class Schedule:
    """The calls of a worker, in an order that changes between models as rarely as possible.

    The rows of each model have a plan of their own. A model's calls follow each other, and the model that computed last
    comes first. So a batch with rows of n models changes the model n times at most, and n - 1 times if the model that
    computed last is one of them.

    Args:
        planners: one per model.
    """

    def __init__(self, planners: Sequence[Planner]) -> None:
        self._planners = planners
        self._last_member: int | None = None

    def plan(self, lengths: Sequence[int], members: Sequence[int]) -> list[Call]:
        """The calls in the order to run them. A model whose planner fails gets none.

        Args:
            lengths: the number of tokens in each row.
            members: the number of each row's model.
        """
        rows: dict[int, list[int]] = {}
        for row, member in enumerate(members):
            rows.setdefault(member, []).append(row)
        calls = []
        for member in sorted(rows, key=lambda member: (member != self._last_member, member)):
            member_rows = rows[member]
            try:
                member_calls = self._planners[member].plan([lengths[row] for row in member_rows])
            except Exception:
                logging.getLogger(__name__).exception("the rows of model %s could not be planned", member)
                continue
            for call in member_calls:
                calls.append(call._replace(rows=tuple(member_rows[index] for index in call.rows), member=member))
            self._last_member = member
        return calls
