// What a click on a chart asks: the kernel answers with a sentence in the output of the chart, its facts folded beneath,
// and a thin line marks the moment.

const PLOT = ".js-plotly-plot"

// Where the x axis of a plot has the pixel that was clicked on: ms of a date, or a number; null beside the plot.
export const clickedAt = (plot, event) => {
    const box = plot.querySelector(".nsewdrag")?.getBoundingClientRect()
    const axis = plot._fullLayout?.xaxis
    if (!box || !axis || event.clientX < box.left || event.clientX > box.right) return null
    return axis.p2c(event.clientX - box.left)
}

// A thin line over all panels of a plot where it was clicked on; it leaves with the next click, and when the plot is drawn
// again, since then it would stand at another moment.
const markMoment = (plot, event) => {
    plot.querySelector(".wmlab-moment")?.remove()
    const box = plot.getBoundingClientRect()
    const areas = [...plot.querySelectorAll(".nsewdrag")].map(area => area.getBoundingClientRect())
    const first = Math.min(...areas.map(area => area.top)), last = Math.max(...areas.map(area => area.bottom))
    const line = document.createElement("div")
    line.className = "wmlab-moment"
    line.style.cssText = `position:absolute;pointer-events:none;width:0;border-left:1px solid currentColor;left:${
        event.clientX - box.left}px;top:${first - box.top}px;height:${last - first}px`
    plot.style.position = "relative"
    plot.appendChild(line)
    plot.once?.("plotly_relayout", () => line.remove())
}

const render = ({ model, el }) => {
    const said = document.createElement("div")
    el.classList.add("wmlab-live")
    said.setAttribute("role", "status")
    said.style.cssText = "padding:4px 10px"
    // Who has opened the facts of one moment reads those of the next one too.
    const show = () => {
        const isOpen = said.querySelector("details")?.open
        said.innerHTML = model.get("shown")
        said.querySelector("details")?.toggleAttribute("open", Boolean(isOpen))
    }
    // JupyterLab makes the plot again at times, so the click is heard where all outputs of the cell are.
    const click = event => {
        const plot = event.target.closest?.(PLOT)
        const at = plot && plot.closest(".jp-OutputArea") === el.closest(".jp-OutputArea") ? clickedAt(plot, event) : null
        if (at === null) return
        markMoment(plot, event)
        model.set("clicked", at)
        model.save_changes()
    }
    el.appendChild(said)
    show()
    model.on("change:shown", show)
    document.addEventListener("click", click)
    return () => document.removeEventListener("click", click)
}

export default { render }
