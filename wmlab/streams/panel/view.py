"""The widgets of a panel: each field of the form, and how all of them are laid out; what they do is in the panel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from typing import Any, Final

import anywidget
import ipywidgets as ui

from wmlab.core.live_view import HIDES_THE_STILL, KeyGuard
from wmlab.core.mistakes import Location
from wmlab.streams.panel.fields import Field

Commit = Callable[[Location, Any], object]
"""What is called with the path of a field and what a user has put into it: a text as it was typed, or a value."""


class Control:
    """The widgets of a field, all in `box`.

    A text is committed by Enter or by leaving it, a slider when it is let go.
    """

    def __init__(self, field: Field, commit: Commit) -> None:
        self._commit = commit
        self._is_showing = False
        self._slider: Any = None
        common = {"description": field.label, "tooltip": field.help, "layout": ui.Layout(flex="1 1 0", min_width="0")}
        match field.kind:
            case "flag":
                self.entry: Any = ui.Checkbox(indent=False, **common)
            case "choice":
                self.entry = ui.Dropdown(options=[words for words, _ in field.choices], **common)
            case _:
                self.entry = ui.Text(continuous_update=False, placeholder=field.empty, **common)
        widgets = [self.entry]
        if field.stops:
            self._slider = ui.SelectionSlider(
                options=_stops(field),
                continuous_update=False,
                readout=False,
                tooltip=f"{field.label}: {field.help}",
                layout=ui.Layout(flex="0 1 30%", min_width="80px"),
            )
            self._slider.observe(lambda change: self._offer(change["new"]), "value")
            widgets.append(self._slider)
        self._help = ui.HTML(layout=ui.Layout(display=None if field.help_below else "none"))
        self._mistake = ui.HTML(layout=ui.Layout(display="none"))
        for below in (self._help, self._mistake):
            below.add_class("wmlab-below")
        self._help.add_class("wmlab-help")
        self.box = ui.VBox([ui.HBox(widgets), self._help, self._mistake])
        self.show(field)
        self.entry.observe(lambda change: self._offer(change["new"]), "value")

    def show(self, field: Field) -> None:
        """Show the value of the field, which has the same path and kind as before, and no mistake."""
        self.field, self._is_showing = field, True
        if field.kind == "choice":
            self.entry.options = [words for words, _ in field.choices]
            self.entry.value = next(words for words, choice in field.choices if choice == field.value)
        else:
            self.entry.value = field.value if field.kind == "flag" else field.text
        if self._slider is not None:
            self._slider.options = _stops(field)
            self._slider.value = field.text
        self._help.value = escape(field.help)
        self._is_showing = False
        self.refuse("")

    def refuse(self, mistake: str) -> None:
        """Say what is wrong with what was put into the field; "" if nothing is."""
        self._mistake.value = f"<span class='wmlab-mistake' role='alert'>{escape(mistake)}</span>" if mistake else ""
        self._mistake.layout.display = None if mistake else "none"

    def close(self) -> None:
        """Forget the widgets, in the kernel and in the browser."""
        for widget in (*self.box.children[0].children, *self.box.children, self.box):
            widget.close()

    def _offer(self, offered: Any) -> None:
        if not self._is_showing:
            self._commit(self.field.path, dict(self.field.choices).get(offered, offered))


def _stops(field: Field) -> list[tuple[str, str]]:
    """The stops of the slider: in words, and as one types them."""
    texts = map(field.text_of, field.stops)
    return [(text or field.empty, text) for text in texts]


_STYLE: Final = f"""<style>
{HIDES_THE_STILL}
.wmlab-panel .wmlab-mistake {{color:var(--jp-error-color1)}}
.wmlab-panel .widget-html-content {{line-height:1.4;white-space:normal}}
.wmlab-panel .widget-label {{width:150px}}
.wmlab-panel .wmlab-looking .widget-label {{width:auto}}
.wmlab-panel .widget-toggle-buttons .widget-toggle-button {{width:auto;padding:0 8px}}
.wmlab-panel .widget-hslider.widget-slider {{align-self:center;margin:0 10px}}
.wmlab-panel .wmlab-fields > * {{flex:none}}
.wmlab-panel .wmlab-below {{padding-left:158px}}
.wmlab-panel .wmlab-help {{color:var(--jp-ui-font-color2)}}
.wmlab-panel {{container-type:inline-size}}
@container (max-width:860px) {{.wmlab-panel .wmlab-fields {{max-height:236px;overflow-y:auto}}}}
.wmlab-panel textarea {{font-family:var(--jp-code-font-family)}}
.wmlab-panel [data-uncommitted] {{border-color:var(--jp-warn-color1) !important}}
.wmlab-panel :is(.widget-text,.widget-textarea):has([data-uncommitted]) {{position:relative;overflow:visible}}
.wmlab-panel :is(.widget-text,.widget-textarea):has([data-uncommitted])::after {{
position:absolute;z-index:10;padding:0 6px;white-space:nowrap;
color:var(--jp-warn-color1);background:var(--jp-layout-color0)}}
.wmlab-panel .widget-text:has([data-uncommitted])::after {{content:"Enter takes it";left:100%;top:4px}}
.wmlab-panel .widget-textarea:has([data-uncommitted])::after {{content:"Not run yet";right:22px;top:4px}}
.wmlab-panel .wmlab-mistake code {{white-space:pre-wrap}}
</style>"""


class UncommittedMark(anywidget.AnyWidget):
    """Marks a box of text of the panel from the first key until its value is committed; it shows nothing.

    A box is committed by Enter, or when it loses the focus; one of several lines by Shift+Enter.
    """

    _esm = """
    const boxes = ".wmlab-panel input[type=text], .wmlab-panel textarea"
    const mark = (target, on) => target.matches?.(boxes) && target.toggleAttribute("data-uncommitted", on)
    const type = ({ target }) => mark(target, true)
    const leave = ({ target }) => mark(target, false)
    const press = event => {
        const { target, key, shiftKey } = event
        if (key !== "Enter" || !target.matches?.(boxes)) return
        if (target.localName === "input") return mark(target, false)
        if (!shiftKey) return
        event.preventDefault()
        target.blur()
        target.focus()
    }
    const heard = { input: type, change: leave, focusout: leave, keydown: press }
    const render = ({ el }) => {
        el.hidden = true
        for (const [name, hear] of Object.entries(heard)) window.addEventListener(name, hear, true)
        return () => {
            for (const [name, hear] of Object.entries(heard)) window.removeEventListener(name, hear, true)
        }
    }
    export default { render }
    """


class PanelView:
    """The widgets of a panel, all in `root`: two columns, which stand below each other where there is no room.

    `section` chooses what the form shows, `part` which of several parts; `fields` are the controls of that part.
    """

    def __init__(self, sections: Iterable[str], pictures: Iterable[str], examples: Iterable[str]) -> None:
        titles = [("Open an example …", ""), *((name, name) for name in examples)]
        self.example = ui.Dropdown(options=titles, value="", tooltip="Open an example", layout=_fitting())
        self.undo = ui.Button(description="Undo", icon="undo", layout=_fitting())
        self.redo = ui.Button(description="Redo", icon="repeat", layout=_fitting())
        self.section = ui.ToggleButtons(options=list(sections))
        self.part = ui.Select(options=[], layout=ui.Layout(width="auto"))
        self.add = ui.Button(layout=_fitting())
        self.remove = ui.Button(description="Remove", layout=_fitting())
        self.fields = ui.VBox()
        self.text = ui.Textarea(continuous_update=False, rows=22, layout=ui.Layout(width="auto"))
        self.wrong_lines = ui.HTML()
        self.yaml = ui.VBox(
            [
                ui.HTML("The whole scenario. Shift+Enter runs it, and so does leaving the box."),
                self.text,
                self.wrong_lines,
            ]
        )
        self.picture = ui.Dropdown(description="Picture", options=list(pictures), layout=_fitting())
        self.reader = ui.Dropdown(description="Reader", options=[], layout=_fitting())
        self.keep = ui.Button(description="Keep this run", layout=_fitting())
        self.check = ui.Button(description="Check", tooltip="Check the invariants of this run", layout=_fitting())
        self.notice, self.sentence, self.drawn = ui.HTML(), ui.HTML(), ui.Output()
        self.comparison, self.verdicts = ui.HTML(), ui.HTML()
        opening = _row([self.example, self.undo, self.redo])
        looking = _row([self.picture, self.reader, self.keep, self.check])
        form = [opening, self.section, self.part, ui.HBox([self.add, self.remove]), self.fields, self.yaml]
        seen = [looking, self.notice, self.verdicts, self.sentence, self.drawn, self.comparison]
        columns = [
            ui.VBox(form, layout=ui.Layout(flex="1 1 340px", min_width="0", max_width="560px", padding="0 12px 0 0")),
            ui.VBox(seen, layout=ui.Layout(flex="2 1 480px", min_width="0")),
        ]
        style = ui.HTML(_STYLE, layout=ui.Layout(display="none"))
        self.root = ui.VBox([style, KeyGuard(), UncommittedMark(), _row(columns)])
        classes = {
            "wmlab-live": self.root,
            "wmlab-keys": self.root,
            "wmlab-panel": self.root,
            "wmlab-looking": looking,
            "wmlab-fields": self.fields,
        }
        for name, widget in classes.items():
            widget.add_class(name)
        for html in (self.comparison, self.verdicts):
            html.add_class("jp-RenderedHTMLCommon")  # gives tables their look in JupyterLab


def _fitting() -> Any:
    return ui.Layout(width="auto", max_width="100%")


def _row(children: list[Any]) -> Any:
    return ui.Box(children, layout=ui.Layout(flex_flow="row wrap", align_items="flex-start", width="100%"))
