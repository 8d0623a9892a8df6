"""Group command-line options, so that a command takes a dataclass as one parameter with an option for each field."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from typer.models import OptionInfo

R = TypeVar("R")


def option_groups(command: Callable[..., R]) -> Callable[..., R]:
    """Decorate a Typer command so that a parameter annotated with a dataclass becomes one option per field.

    Typer itself has no such groups. Annotate the fields of the dataclass as Typer parameters
    (`Annotated[str, typer.Option(…)]`). Its class attribute `PANEL` names the panel of `--help` that lists its options.

    Raises:
        ValueError: Two groups have a field in common.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        annotation = hints[parameter.name]
        if is_dataclass(annotation):
            groups[parameter.name] = annotation
            parameters += _parameters_of(annotation)
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=annotation))

    def run(**values: Any) -> R:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    run.__name__, run.__module__ = command.__name__, command.__module__
    # join lines that the source only wraps: the terminal wraps them to its own width
    run.__doc__ = re.sub(r"(?<=[^\n.:\]])\n(?=[^\n\[])", " ", inspect.getdoc(command) or "")
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    panel = getattr(group, "PANEL", None)

    def parameter(field: Field[Any]) -> inspect.Parameter:
        annotation = hints[field.name]
        kind, *extras = get_args(annotation)
        for i, extra in enumerate(extras):
            if isinstance(extra, OptionInfo) and extra.rich_help_panel is None:
                extras[i] = copy(extra)
                extras[i].rich_help_panel = panel
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        return inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=Annotated[(kind, *extras)],  # type: ignore[valid-type]
        )

    return [parameter(field) for field in fields(group)]
