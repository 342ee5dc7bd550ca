// Draws a frame of a film: the same drawing that wmlab/view/scrubber_still.py makes, item by item.

const SVG = "http://www.w3.org/2000/svg"
const SMALL = 10.5
const SIZE = 11.5
const MARKER = 4.5
const NOW = 32
const EM_PER_CHARACTER = 0.57

// Columns of differences back to values.
const summed = (start, steps) => {
  let value = start
  return steps.map((step) => (value += step))
}

// The place of the last of the ascending values that is not beyond `value`; -1 if all are.
export function lastAt(values, value) {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (values[middle] <= value) low = middle + 1
    else high = middle
  }
  return low - 1
}

// The film that wmlab/view/scrubber_json.py wrote.
export function readFilm(json) {
  const film = JSON.parse(json)
  film.changes = summed(film.low, film.changes)
  film.happened.at = summed(film.low, film.happened.at)
  film.sentences.from = summed(film.low, film.sentences.from)
  for (const panel of film.panels) {
    const columns = panel.items
    const from = summed(film.low, columns.from)
    const low = summed(0, columns.low)
    panel.items = from.map((at, i) => ({
      lane: columns.lane[i],
      from: at,
      to: columns.life[i] < 0 ? Infinity : at + columns.life[i],
      low: low[i],
      high: low[i] + columns.length[i],
      style: film.styles[columns.style[i]],
      text: film.texts[columns.text[i]],
    }))
  }
  return film
}

export const itemsAt = (panel, at) => panel.items.filter((item) => item.from <= at && at < item.to)

const element = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  if (text !== undefined) made.textContent = text
  return made
}

const label = (x, y, text, role, size, anchor = "start") =>
  element("text", { x, y, class: `wmlab-fill-${role}`, "font-size": size, "text-anchor": anchor }, text)

const path = (film, d, role) => {
  const [width, dash] = film.roles[role]
  const look = { d, fill: "none", class: `wmlab-stroke-${role}`, "stroke-width": width, "stroke-linejoin": "round" }
  return element("path", dash ? { ...look, "stroke-dasharray": dash } : look)
}

const marker = (film, x, y, shape, role) => {
  if (shape === "cross")
    return path(film, `M${x - MARKER} ${y - MARKER}l9 9M${x - MARKER} ${y + MARKER}l9 -9`, role)
  const corners =
    shape === "diamond"
      ? [[x, y - MARKER], [x + MARKER, y], [x, y + MARKER], [x - MARKER, y]]
      : [[x, y - MARKER], [x + MARKER, y + MARKER], [x - MARKER, y + MARKER]]
  return element("path", { d: `M${corners.map((corner) => corner.join(" ")).join("L")}Z`, class: `wmlab-fill-${role}` })
}

const wide = (text) => text.length * EM_PER_CHARACTER * SMALL

const fitting = (text, width) =>
  [text, text.split(" ")[0], ""].find((wish) => !wish || wide(wish) + 6 <= width)

// Whether a flag's label stands left of its pole: that of a lower bound does, unless it would leave the panel.
const standsBefore = (panel, text, role, x) =>
  role === "lower" ? x - wide(text) - 4 >= panel.left : x + wide(text) + 4 > panel.left + panel.width

const column = (panel, value) => panel.left + ((value - panel.low) / (panel.high - panel.low)) * panel.width

function area(film, panel, item, [shape, role, opacity], origin, top) {
  const inside = (value) => Math.min(Math.max(value - origin, panel.low), panel.high)
  const left = column(panel, inside(item.low))
  const right = column(panel, inside(item.high))
  if (right <= left) return []
  const inset = shape === "block" ? 2 : panel.lane * 0.36
  const bottom = top + panel.lane - inset
  const d = `M${left} ${top + inset}H${right}V${bottom}H${left}Z`
  const drawn = [element("path", { d, class: `wmlab-fill-${role}`, "fill-opacity": opacity })]
  if (shape === "bar") return drawn
  drawn.push(path(film, d, role))
  const text = fitting(item.text, right - left)
  if (text) drawn.push(label((left + right) / 2, top + panel.lane / 2 + 4, text, "title", SMALL, "middle"))
  return drawn
}

function point(film, panel, item, [shape, role], x, middle) {
  const half = panel.lane / 2
  const top = panel.top + panel.head
  if (shape === "line") return [path(film, `M${x} ${top}V${top + panel.lanes * panel.lane}`, role)]
  if (shape === "tick") {
    const reach = half * (film.roles[role][0] > 1 ? 0.62 : 0.4)
    return [path(film, `M${x} ${middle - reach}V${middle + reach}`, role)]
  }
  if (shape === "flag") {
    const [side, anchor] = standsBefore(panel, item.text, role, x) ? [-4, "end"] : [4, "start"]
    const pole = path(film, `M${x} ${middle - half + 2}V${middle + half - 2}`, role)
    const y = role === "lower" ? middle - half + 9 : middle + half - 2.5
    return [pole, label(x + side, y, item.text, role, SMALL, anchor)]
  }
  return [marker(film, x, middle, shape, role)]
}

function drawn(film, panel, item, origin) {
  const top = panel.top + panel.head + Math.max(item.lane, 0) * panel.lane
  const middle = top + panel.lane / 2
  const [shape, role] = item.style
  if (shape === "origin") return []
  if (shape === "name") return [label(panel.left - 8, middle + 4, item.text, role, SIZE, "end")]
  if (shape === "value") return [label(panel.left + panel.width + 8, middle + 4, item.text, role, SIZE)]
  if (shape === "block" || shape === "bar") return area(film, panel, item, item.style, origin, top)
  const place = item.low - origin
  return place < panel.low || place > panel.high
    ? []
    : point(film, panel, item, item.style, column(panel, place), middle)
}

// Everything that is drawn of a panel at a moment, besides what never changes.
export function drawPanel(film, panel, at) {
  const clock = panel.relative ? at : 0
  const there = itemsAt(panel, at)
  const origins = new Map(there.filter((item) => item.style[0] === "origin").map((item) => [item.lane, item.low]))
  const parts = there.flatMap((item) => drawn(film, panel, item, origins.get(item.lane) ?? clock))
  if (panel.cursor) {
    const x = column(panel, at - clock)
    parts.push(path(film, `M${x} ${panel.top + NOW + 3}V${panel.top + panel.head + panel.lanes * panel.lane}`, "title"))
    parts.push(label(x, panel.top + NOW, "now", "title", SMALL, "middle"))
  }
  return parts
}

// The lanes of a moment in words: what stands in the column of values, and the blocks.
export function wordsOf(film, at) {
  return film.panels.flatMap((panel) => {
    const there = itemsAt(panel, at)
    const said = (lane, shapes) =>
      there.filter((item) => item.lane === lane && item.text && shapes.includes(item.style[0])).map((item) => item.text)
    return Array.from({ length: panel.lanes }, (_, lane) => lane)
      .map((lane) => [said(lane, ["name"])[0], said(lane, ["block", "value"])])
      .filter(([name, told]) => name && told.length)
      .map(([name, told]) => `${name}: ${told.join(", ")}`)
  })
}
