"""The widgets of a panel and how they are laid out; what they do is said in the panel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import anywidget
import ipywidgets as ui

from wmlab.core.live_view import HIDES_THE_STILL, KeyGuard

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
        seen = [looking, self.notice, self.sentence, self.drawn, self.comparison, self.verdicts]
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
