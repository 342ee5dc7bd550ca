"""A form of widgets from fields given as data: one control per field, with its unit, its bounds and its label.

It knows nothing of scenarios. Every control has a description that a screen reader says and is reached by the Tab key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from html import escape
from typing import Any, Final, Protocol

import ipywidgets as widgets  # type: ignore[import-untyped]

_WIDTH: Final = "98%"
_LABEL_WIDTH: Final = "262px"
_HIGHEST: Final = 2**53
"""Beyond it a browser's numbers are no longer exact."""


class Field(Protocol):
    """What a control is made from; see `wmlab.streams.scenario.form.FormField`."""

    @property
    def path(self) -> Hashable:
        """What the field is called towards the program."""

    @property
    def group(self) -> str:
        """The heading that it stands under."""

    @property
    def label(self) -> str:
        """What it is called towards the user."""

    @property
    def unit(self) -> str:
        """The unit of its number; "" for none."""

    @property
    def kind(self) -> str:
        """whole, real, flag, choice, text or yaml."""

    @property
    def value(self) -> Any:
        """What it holds; None: nothing."""

    @property
    def low(self) -> float | None:
        """The smallest number."""

    @property
    def high(self) -> float | None:
        """The largest number."""

    @property
    def choices(self) -> Sequence[str]:
        """What may be chosen."""

    @property
    def optional(self) -> bool:
        """Whether it may be empty."""


class Form(widgets.VBox):  # type: ignore[misc]
    """The controls of the fields, folded by group. `changed(path, value)` is called after each change by the user.

    `removable` maps a group to what is called when its part is removed.
    """

    def __init__(self, changed: Callable[[Any, Any], None], remove: Callable[[str], None]) -> None:
        self._changed = changed
        self._remove = remove
        self._controls: dict[Hashable, widgets.Widget] = {}
        self._shape: tuple[Hashable, ...] = ()
        self._quiet = False
        super().__init__(layout=widgets.Layout(width="450px", min_width="400px"))

    def __repr__(self) -> str:
        return f"Form of {len(self._controls)} fields"

    def control(self, path: Hashable) -> widgets.Widget:
        """The control of a field."""
        return self._controls[path]

    def show(self, fields: Sequence[Field], removable: Sequence[str]) -> None:
        """Show these fields with their values; controls are built anew only if the fields are others than before."""
        shape = tuple((field.path, field.group) for field in fields)
        self._quiet = True
        try:
            if shape != self._shape:
                self._build(fields, removable)
                self._shape = shape
            for field in fields:
                self._controls[field.path].value = _offered(field)
        finally:
            self._quiet = False

    def _build(self, fields: Sequence[Field], removable: Sequence[str]) -> None:
        self._controls = {field.path: self._control(field) for field in fields}
        groups: dict[str, list[widgets.Widget]] = {}
        for field in fields:
            groups.setdefault(field.group, []).append(self._controls[field.path])
        for group in removable:
            button = widgets.Button(description=f"remove {group}", layout=widgets.Layout(width=_WIDTH))
            button.on_click(lambda _, group=group: self._remove(group))
            groups[group].append(button)
        folds = widgets.Accordion([widgets.VBox(controls) for controls in groups.values()], titles=list(groups))
        folds.selected_index = min(1, len(groups) - 1)
        self.children = (folds,)

    def _control(self, field: Field) -> widgets.Widget:
        control = make_control(field)
        control.observe(lambda change: self._tell(field, change["new"]), "value")
        return control

    def _tell(self, field: Field, held: Any) -> None:
        if not self._quiet:
            self._changed(field.path, taken(field, held))


def make_control(field: Field) -> widgets.Widget:
    """The control that fits the field."""
    unit = f" ({field.unit})" if field.unit else ""
    look: dict[str, Any] = {
        "description": f"{field.label}{unit}",
        "layout": widgets.Layout(width=_WIDTH),
        "style": {"description_width": _LABEL_WIDTH},
        "tooltip": _rule(field),
    }
    if field.kind == "flag":
        return widgets.Checkbox(indent=False, **look)
    if field.kind == "choice" and not field.optional:
        return widgets.Dropdown(options=list(field.choices), **look)
    if field.kind == "whole" and not field.optional:
        return widgets.BoundedIntText(min=_low(field), max=_high(field), **look)
    if field.kind == "real" and not field.optional:
        low = -_HIGHEST if field.low is None else field.low
        return widgets.BoundedFloatText(min=low, max=_HIGHEST if field.high is None else field.high, **look)
    return widgets.Text(continuous_update=False, placeholder="none" if field.optional else "", **look)


def taken(field: Field, held: Any) -> Any:
    """What a control's content means: an empty optional field is None, a number in a text box is a number."""
    if not isinstance(held, str):
        return held
    if field.optional and not held.strip():
        return None if field.kind != "yaml" else "null"
    if field.kind in {"whole", "real"}:
        return _number(held)
    return held


def _number(held: str) -> Any:
    for read in (int, float):
        try:
            return read(held.replace(",", "").strip())
        except ValueError:
            continue
    return held


def _offered(field: Field) -> Any:
    if field.kind in {"flag", "choice", "whole", "real"} and not field.optional:
        return field.value
    return "" if field.value is None or (field.optional and field.value == "null") else str(field.value)


def _low(field: Field) -> int:
    return -_HIGHEST if field.low is None else max(int(field.low), -_HIGHEST)


def _high(field: Field) -> int:
    return _HIGHEST if field.high is None else min(int(field.high), _HIGHEST)


def _rule(field: Field) -> str:
    bounds = {"at least": field.low, "at most": field.high}
    told = [f"{word} {bound:,}" for word, bound in bounds.items() if bound is not None]
    if field.kind == "yaml":
        told.append("as YAML")
    return "; ".join([*told, *(["may be empty"] if field.optional else [])]) or field.label


def notice(mistakes: Mapping[str, str] | None, problem: str = "", remedy: str = "") -> str:
    """An error as HTML: what is wrong, field by field, and what to do; "" for none."""
    if not mistakes and not problem:
        return ""
    listed = "".join(f"<li><b>{escape(path)}</b>: {escape(wrong)}</li>" for path, wrong in (mistakes or {}).items())
    said = f"{escape(problem)} " if problem else ""
    return (
        f"<div role='alert' style='border-left:4px solid #B3001B;padding:4px 10px'>{said}<ul style='margin:2px 0'>"
        f"{listed}</ul>{escape(remedy)}</div>"
    )
