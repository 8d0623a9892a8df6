"""Limit the calls and the money that chat models may spend.

Before a request is sent, its highest possible cost is reserved, so that parallel requests cannot overspend.
"""

from __future__ import annotations

import threading

from veridical.llm.protocol import Request
from veridical.records.errors import InputError
from veridical.records.types import Usage

Prices = tuple[float, float]  # money per million prompt tokens and per million completion tokens


def most_tokens(request: Request) -> tuple[int, int]:
    """Return an upper bound for the prompt tokens of a request, and one for its completion tokens.

    The bound for the prompt is its size in bytes plus room for the chat template, because a token has at least one byte
    of UTF-8.

    >>> from veridical.llm.protocol import Message
    >>> most_tokens(Request((Message("user", "é"),), max_tokens=5))
    (34, 5)
    """
    size = sum(len(m.content.encode("utf-8", "replace")) + 16 for m in request.messages)  # 16: template marks
    return size + 16, request.max_tokens


class Budget:
    """Limits the number of calls to chat models and their cost. Threads can share a budget.

    Call `reserve` before a request, and `settle` after it. Each request reserves its highest possible cost until its
    true cost is known, so spending never exceeds `max_cost`.

    * If only the reservations of running requests stand in the way, a new request waits for their true cost.
    * If the money would not be enough even without these reservations, or no calls are left, the request is refused.

    Args:
        prices: The price per million prompt tokens, and per million completion tokens.
        max_cost: The highest amount of money to spend, in the currency of `prices`. None for no limit.
        max_calls: The maximum number of calls. None for no limit.

    Attributes:
        calls: The number of requests that were allowed.
        refused: The number of requests that were refused.
        cost: The money spent so far.

    Raises:
        InputError: `max_cost` is given without prices, or a number is below 0.
    """

    def __init__(
        self, *, prices: Prices | None = None, max_cost: float | None = None, max_calls: int | None = None
    ) -> None:
        if max_cost is not None and prices is None:
            raise InputError("max_cost is given without prices", hint="prices=(input, output) per million tokens")
        if prices is not None and not (len(prices) == 2 and all(0 <= p < float("inf") for p in prices)):
            raise InputError(f"prices are {prices}", hint="(input, output) per million tokens, neither below 0")
        if (max_cost is not None and not max_cost >= 0) or (max_calls is not None and max_calls < 0):
            raise InputError("a budget is below 0", hint="0 sends nothing, None is no limit")
        self.prices, self.max_cost, self.max_calls = prices, max_cost, max_calls
        self.calls = self.refused = 0
        self.cost = 0.0
        self._reserved: list[float] = []
        self._changed = threading.Condition()

    def cost_of(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the price of a call with these numbers of tokens, or None if there are no prices."""
        if self.prices is None:
            return None
        return (prompt_tokens * self.prices[0] + completion_tokens * self.prices[1]) / 1e6

    def reserve(self, request: Request) -> float | None:
        """Reserve the highest possible cost of a request before it is sent, and return this amount for `settle`.

        If the amount fits only once running requests turn out cheaper than reserved, wait until they are settled.
        Return None if it does not fit even then, or if no calls are left. The request must then not be sent.
        """
        most = self.cost_of(*most_tokens(request)) or 0.0
        with self._changed:
            while self._exceeded(self.cost + sum(self._reserved) + most):
                if self._exceeded(self.cost + most) or not self._reserved:
                    self.refused += 1
                    return None
                self._changed.wait()
            self.calls += 1
            self._reserved.append(most)
        return most

    def _exceeded(self, cost: float) -> bool:
        """Check whether one more call, which would raise the total cost to `cost`, exceeds a limit."""
        no_calls_left = self.max_calls is not None and self.calls >= self.max_calls
        return no_calls_left or (self.max_cost is not None and cost > self.max_cost)

    def settle(self, reserved: float, usage: Usage | None) -> None:
        """Replace a reserved amount by the amount that the request really cost, after it has ended.

        `reserved` is what `reserve` returned. If `usage` or its cost is unknown, the whole reserved amount is treated
        as spent.
        """
        spent = reserved if usage is None or (usage.calls and usage.cost is None) else usage.cost or 0.0
        with self._changed:
            self._reserved.remove(reserved)
            self.cost += spent
            self._changed.notify_all()
