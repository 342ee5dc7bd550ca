// What a click on a chart asks: the widget stands below the chart, and the kernel answers with a sentence.

const PLOT = ".js-plotly-plot"

// Where the x axis of a plot has the pixel that was clicked on: ms of a date, or a number; null beside the plot.
export const clickedAt = (plot, event) => {
    const box = plot.querySelector(".nsewdrag")?.getBoundingClientRect()
    const axis = plot._fullLayout?.xaxis
    if (!box || !axis || event.clientX < box.left || event.clientX > box.right) return null
    return axis.p2c(event.clientX - box.left)
}

const render = ({ model, el }) => {
    const said = document.createElement("div")
    el.classList.add("wmlab-live")
    said.setAttribute("role", "status")
    said.style.cssText = "white-space:pre-wrap;padding:4px 10px"
    const show = () => { said.textContent = model.get("sentence") }
    // JupyterLab makes the plot again at times, so the click is heard where all outputs of the cell are.
    const click = event => {
        const plot = event.target.closest?.(PLOT)
        const at = plot && plot.closest(".jp-OutputArea") === el.closest(".jp-OutputArea") ? clickedAt(plot, event) : null
        if (at === null) return
        model.set("clicked", at)
        model.save_changes()
    }
    el.appendChild(said)
    show()
    model.on("change:sentence", show)
    document.addEventListener("click", click)
    return () => document.removeEventListener("click", click)
}

export default { render }
