"""Make a reviser from its name in a command or in a request to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veridical.records.errors import InputError, UnknownNameError
from veridical.workflows.revise.rule_revisers import Delete, Flag, Reviser

if TYPE_CHECKING:
    from veridical.llm.connection import Connection

REVISERS = ("factored", "self", "delete", "flag")


def make_reviser(name: str | None, connection: Connection | None, *, critic: str | None = None) -> Reviser:
    """Make the reviser called `name`, which proposes edits of unsupported statements.

    Args:
        name: A name in `REVISERS`. Default: "factored" if the connection has a model, and "delete" otherwise.
        connection: How to reach the chat model, for revisers that ask one.
        critic: The name of another model on the same server, which writes the critiques. Only for "factored".

    Raises:
        InputError: The name is unknown, the reviser needs a model, or the reviser takes no critic.
    """
    with_model = connection is not None and connection.model is not None
    name = name or ("factored" if with_model else "delete")
    if name not in REVISERS:
        raise UnknownNameError("reviser", name, REVISERS)
    if critic is not None and name != "factored":
        raise InputError(f"the reviser {name} takes no critic", hint="a critic goes with the reviser factored")
    if name in ("delete", "flag"):
        return Delete() if name == "delete" else Flag()
    if connection is None or not with_model:
        raise InputError(f"the reviser {name} asks a language model", hint="--model NAME; delete and flag ask none")
    from veridical.workflows.revise.llm_revisers import Factored, SelfCorrection

    model = connection.chat()
    if name == "self":
        return SelfCorrection(model)
    return Factored(model, critic=connection.chat(critic) if critic else None)
