// The scrubber: controls around the frames of a run. A frame is drawn by the description that comes with the frames
// (frames.ITEM_SHAPES in Python), as page.frame_parts draws it there.

const SVG = "http://www.w3.org/2000/svg"

// Columns of differences back to values.
const summed = (start, steps) => {
  let value = start
  return steps.map((step) => (value += step))
}

// The index of the last of the ascending values that is not beyond `value`; -1 if all are.
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

// The frames that page.frames_json wrote.
export function readFrames(json) {
  const frames = JSON.parse(json)
  frames.changes = summed(frames.low, frames.changes)
  frames.incidents.at = summed(frames.low, frames.incidents.at)
  frames.sentences.from = summed(frames.low, frames.sentences.from)
  for (const [reader, lines] of Object.entries(frames.overviews))
    frames.overviews[reader] = lines.map((line) => frames.texts[line]).join("")
  for (const panel of frames.panels) {
    const columns = panel.items
    const from = summed(frames.low, columns.from)
    const low = summed(0, columns.low)
    panel.items = from.map((at, i) => ({
      lane: columns.lane[i],
      from: at,
      to: columns.life[i] < 0 ? Infinity : at + columns.life[i],
      low: low[i],
      high: low[i] + columns.length[i],
      style: frames.styles[columns.style[i]],
      text: frames.texts[columns.text[i]],
    }))
  }
  return frames
}

export const itemsAt = (panel, at) => panel.items.filter((item) => item.from <= at && at < item.to)

const element = (name, attributes, ...content) => filled(document.createElementNS(SVG, name), attributes, content)

const label = (x, y, text, role, size, anchor = "start") =>
  element("text", { x, y, class: `wmlab-fill-${role}`, "font-size": size, "text-anchor": anchor }, text)

const outline = (frames, points, role) => {
  const [width, dash] = frames.roles[role]
  const d = `M${points.map((point) => point.join(" ")).join("L")}`
  const look = { d, fill: "none", class: `wmlab-stroke-${role}`, "stroke-width": width, "stroke-linejoin": "round" }
  return element("path", dash ? { ...look, "stroke-dasharray": dash } : look)
}

const area = (points, role, opacity) =>
  element("path", {
    d: `M${points.map((point) => point.join(" ")).join("L")}Z`,
    class: `wmlab-fill-${role}`,
    "fill-opacity": opacity,
  })

const column = (panel, value) => panel.left + ((value - panel.low) / (panel.high - panel.low)) * panel.width

function itemLabel({ sizes }, panel, item, role, side, left, length, y) {
  const { text } = item
  const right = panel.left + panel.width
  const width = text.length * sizes.character
  if (side === "left") return [label(panel.left - 8, y, text, role, sizes.beside, "end")]
  if (side === "right") return [label(right + 8, y, text, role, sizes.beside)]
  if (side === "middle") {
    const fitting = [text, text.split(" ")[0]].find((wish) => wish.length * sizes.character + 6 <= length)
    return fitting ? [label(left + length / 2, y, fitting, role, sizes.small, "middle")] : []
  }
  const before = side === "before" ? left - width - 4 >= panel.left : left + width + 4 > right
  return [label(left + (before ? -4 : 4), y, text, role, sizes.small, before ? "end" : "start")]
}

function drawItem(frames, panel, item, origin) {
  const [shape, role, opacity] = item.style
  const [kind, outlines, text] = frames.shapes[shape]
  const [low, high] = [item.low, item.high].map((value) => Math.min(Math.max(value - origin, panel.low), panel.high))
  if ((kind === "area" && low >= high) || (kind === "point" && low !== item.low - origin)) return []
  const left = column(panel, low)
  const length = column(panel, high) - left
  const top = panel.top + panel.head_px + Math.max(item.lane, 0) * panel.lane_px
  const height = item.lane < 0 ? panel.lanes * panel.lane_px : panel.lane_px
  const parts = outlines.map(([filled, corners]) => {
    const points = corners.map(([along, px, share, down]) => [left + along * length + px, top + share * height + down])
    return filled ? area(points, role, opacity) : outline(frames, points, role)
  })
  if (!text) return parts
  const [side, share, down, textRole] = text
  return [...parts, ...itemLabel(frames, panel, item, textRole || role, side, left, length, top + share * height + down)]
}

// Everything that is drawn of a panel at a moment, besides what never changes.
export function drawPanel(frames, panel, at) {
  const clock = panel.relative ? at : 0
  const there = itemsAt(panel, at)
  const origins = new Map(there.filter((item) => item.style[0] === "origin").map((item) => [item.lane, item.high]))
  const parts = there.flatMap((item) => drawItem(frames, panel, item, origins.get(item.lane) ?? clock))
  if (panel.cursor) {
    const x = column(panel, at - clock)
    const y = panel.top + frames.sizes.now
    parts.push(outline(frames, [[x, y + 3], [x, panel.top + panel.head_px + panel.lanes * panel.lane_px]], "title"))
    parts.push(label(x, y, "now", "title", frames.sizes.small, "middle"))
  }
  return parts
}

// The lanes of a moment in words: what stands in the column of values, and the blocks.
export function wordsOf(frames, at) {
  return frames.panels.flatMap((panel) => {
    const there = itemsAt(panel, at)
    const texts = (lane, shapes) =>
      there.filter((item) => item.lane === lane && item.text && shapes.includes(item.style[0])).map((item) => item.text)
    return Array.from({ length: panel.lanes }, (_, lane) => [texts(lane, ["name"])[0], texts(lane, frames.values)])
      .filter(([name, values]) => name && values.length)
      .map(([name, values]) => `${name}: ${values.join(", ")}`)
  })
}

const KEYS = [
  ["← →", "previous, next change"],
  ["PageUp PageDown", "ten changes"],
  ["Home End", "beginning, end"],
  ["Space", "play, pause"],
  ["n p", "next, previous event of the chosen kind"],
  ["v V", "next, previous violation"],
]
const CALM_MS = 500
const REPORT_MS = 250

const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, " ")

// A moment in words, as frames.ScrubberFrames.clock writes it.
export function clockOf({ instants, short }, at) {
  if (instants) return new Date(at).toISOString().replace("T", " ").replace(/(\.000)?Z$/, " UTC")
  if (short) return `${grouped(at)} ms`
  let rest = Math.abs(at)
  if (rest >= 3_600_000) rest -= rest % 1_000
  const parts = []
  for (const [unit, length] of [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000]]) {
    if (rest >= length) parts.push(`${grouped(Math.floor(rest / length))} ${unit}`)
    rest %= length
  }
  if (rest || !parts.length) parts.push(`${rest / 1_000} s`)
  return `${at < 0 ? "−" : ""}${parts.join(" ")}`
}

const button = (parent, sign, name, key, act) => {
  const made = node("button", { type: "button", "aria-label": name, title: key ? `${name} (${key})` : name }, sign)
  made.addEventListener("click", act)
  parent.append(made)
  return made
}

// 1, 2, 5, 10, ... and their inverses; the default is the first that plays the run in at most 20 s.
function speeds(lengthMs) {
  const wanted = lengthMs / 20_000
  const power = Math.floor(Math.log10(wanted))
  const steps = [power - 1, power, power + 1].flatMap((p) => [1, 2, 5].map((digit) => digit * 10 ** p))
  const usual = steps.findIndex((step) => step >= wanted)
  return { steps: steps.map((step) => Number(step.toPrecision(1))), usual: usual < 0 ? steps.length - 1 : usual }
}

export class Scrubber {
  constructor(frames, { at, reader = null, notice = "", onMove = () => {}, onReader = () => {} }) {
    this.frames = frames
    this.onMove = onMove
    this.onReader = onReader
    this.at = at
    this.playing = false
    this.reported = 0
    this.calm = matchMedia("(prefers-reduced-motion: reduce)")
    const name = `Scrubber of ${frames.title}: arrow keys step, space plays`
    const look = { class: "wmlab-scrubber wmlab-live", tabindex: "0", role: "group", "aria-label": name }
    this.root = node("div", look)
    this.root.append(this.buildTime(), this.buildJumps(), this.buildWords(), this.buildPicture())
    this.root.addEventListener("keydown", (event) => this.press(event))
    this.see(reader)
    this.show(at, notice)
  }

  buildTime() {
    const { frames } = this
    const row = node("div", { class: "wmlab-row" })
    button(row, "|◂", "Beginning", "Home", () => this.go(frames.low))
    button(row, "◂", "Previous change", "←", () => this.step(-1))
    this.playButton = button(row, "▶", "Play", "Space", () => this.toggle())
    button(row, "▸", "Next change", "→", () => this.step(1))
    button(row, "▸|", "End", "End", () => this.go(frames.high))
    const range = { type: "range", min: frames.low, max: frames.high, step: 1, "aria-label": "Clock" }
    this.slider = node("input", range)
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)))
    this.clock = node("output", { class: "wmlab-clock" })
    row.append(this.slider, this.clock)
    return row
  }

  buildJumps() {
    const row = node("div", { class: "wmlab-row" })
    const { steps, usual } = speeds(this.frames.high - this.frames.low)
    this.speed = node("select", { "aria-label": "Speed" })
    steps.forEach((step, i) => this.speed.append(new Option(`${step}×`, step, i === usual, i === usual)))
    row.append(node("label", {}, "Speed ", this.speed))
    const { violation } = this.frames
    const kinds = this.frames.kinds.filter((kind) => kind !== violation)
    if (kinds.length) {
      this.kind = node("select", { "aria-label": "Kind of event" })
      for (const kind of kinds) this.kind.append(new Option(`${kind} (${this.moments(kind).length})`, kind))
      row.append(node("label", {}, "Event ", this.kind))
      button(row, "◂ previous", "Previous event of this kind", "p", () => this.jump(this.kind.value, -1))
      button(row, "next ▸", "Next event of this kind", "n", () => this.jump(this.kind.value, 1))
    }
    if (this.frames.kinds.includes(violation))
      button(row, "next violation ▸", "Next violation", "v", () => this.jump(violation, 1))
    const readers = Object.keys(this.frames.overviews)
    if (readers.length > 1) {
      this.reader = node("select", { "aria-label": "Reader" })
      for (const reader of readers) this.reader.append(new Option(reader))
      this.reader.addEventListener("change", () => {
        this.see(this.reader.value)
        this.onReader(this.reader.value)
      })
      row.append(node("label", {}, "Bounds of ", this.reader))
    }
    const list = node("dl")
    for (const [keys, act] of KEYS) list.append(node("dt", {}, keys), node("dd", {}, act))
    row.append(node("details", {}, node("summary", {}, "Keys"), list))
    return row
  }

  buildWords() {
    this.sentence = node("p", { class: "wmlab-sentence", "aria-live": "polite" })
    this.status = node("p", { class: "wmlab-status", "aria-live": "polite" })
    return node("div", { class: "wmlab-words" }, this.sentence, this.status)
  }

  buildPicture() {
    const { frames } = this
    this.picture = element("svg", { viewBox: `0 0 ${frames.width} ${frames.height}`, role: "img" })
    this.layers = frames.panels.map((panel) => {
      const still = element("g", {})
      still.innerHTML = panel.still
      const moving = element("g", {})
      this.picture.append(still, moving)
      this.whole = still
      return moving
    })
    const whole = frames.panels.findIndex((panel) => panel.cursor && !panel.relative)
    this.picture.addEventListener("pointerdown", (event) => this.point(event, frames.panels[whole]))
    this.picture.addEventListener("pointermove", (event) => event.buttons && this.point(event, frames.panels[whole]))
    return node("div", { class: "wmlab-picture" }, this.picture)
  }

  // Draws the bounds of a reader over the whole run.
  see(reader) {
    this.whole.innerHTML = this.frames.overviews[reader ?? ""]
    if (this.reader) this.reader.value = reader
  }

  point(event, panel) {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.picture.getScreenCTM().inverse())
    const share = (place.x - panel.left) / panel.width
    if (place.y < panel.top || share < 0 || share > 1) return
    this.go(Math.round(panel.low + share * (panel.high - panel.low)))
  }

  moments(kind) {
    const { at, kind: kinds } = this.frames.incidents
    return at.map((moment, i) => [moment, kinds[i]]).filter(([, k]) => this.frames.texts[k] === kind).map(([m]) => m)
  }

  // Moves to the moment and reports it.
  go(at, notice = "") {
    this.pause()
    this.show(at, notice)
    this.onMove(this.at)
  }

  step(count) {
    const { changes } = this.frames
    let here = lastAt(changes, this.at)
    if (count < 0 && changes[Math.max(here, 0)] < this.at) here += 1
    this.go(changes[Math.min(Math.max(here + count, 0), changes.length - 1)])
  }

  jump(kind, direction) {
    const moments = this.moments(kind)
    const target = moments[direction > 0 ? lastAt(moments, this.at) + 1 : lastAt(moments, this.at - 1)]
    if (target === undefined) this.show(this.at, `There is no ${direction > 0 ? "later" : "earlier"} ${kind}`)
    else this.go(target)
  }

  toggle() {
    if (this.playing) {
      this.go(Math.floor(this.at))
      return
    }
    if (this.at >= this.frames.high) this.show(this.frames.low)
    this.playing = true
    this.mark("❚❚", "Pause", "off")
    this.last = performance.now()
    this.tick()
  }

  pause() {
    this.playing = false
    clearTimeout(this.timer)
    cancelAnimationFrame(this.request)
    this.mark("▶", "Play", "polite")
  }

  mark(sign, name, live) {
    for (const words of [this.sentence, this.status]) words.setAttribute("aria-live", live)
    this.playButton.textContent = sign
    this.playButton.setAttribute("aria-label", name)
    this.playButton.title = `${name} (Space)`
  }

  // One step of playing; who prefers reduced motion gets two pictures a second.
  tick() {
    const again = () => {
      const now = performance.now()
      const at = this.at + (now - this.last) * Number(this.speed.value)
      this.last = now
      this.show(Math.min(at, this.frames.high))
      if (now - this.reported > REPORT_MS) {
        this.reported = now
        this.onMove(Math.round(this.at))
      }
      if (this.at >= this.frames.high) this.go(this.frames.high)
      else if (this.playing) this.tick()
    }
    if (this.calm.matches) this.timer = setTimeout(again, CALM_MS)
    else this.request = requestAnimationFrame(again)
  }

  // Draws the moment; one outside the recording becomes the nearest inside.
  show(at, notice = "") {
    const { frames } = this
    this.at = Math.min(Math.max(at, frames.low), frames.high)
    const now = Math.floor(this.at)
    frames.panels.forEach((panel, i) => this.layers[i].replaceChildren(...drawPanel(frames, panel, now)))
    this.slider.value = now
    this.clock.textContent = clockOf(frames, now)
    this.slider.setAttribute("aria-valuetext", this.clock.textContent)
    this.describe(now, notice)
  }

  describe(now, notice) {
    const { frames } = this
    const index = lastAt(frames.sentences.from, now)
    const sentence = index < 0 ? "" : frames.texts[frames.sentences.text[index]]
    this.sentence.textContent = sentence && `${sentence[0].toUpperCase()}${sentence.slice(1)}.`
    const change = lastAt(frames.changes, now)
    const here = frames.changes[change]
    const happened = frames.incidents.text.filter((_, i) => frames.incidents.at[i] === here).map((text) => frames.texts[text])
    const parts = [`Change ${change + 1} of ${frames.changes.length}`, ...happened]
    this.status.textContent = `${parts.join(" · ")}${notice ? ` · ${notice}` : ""}`
    if (!this.playing) this.picture.setAttribute("aria-label", wordsOf(frames, now).join(". "))
  }

  press(event) {
    const target = event.target.tagName
    if (event.ctrlKey || event.metaKey || event.altKey || target === "SELECT" || target === "SUMMARY") return
    if (target === "BUTTON" && (event.key === " " || event.key === "Enter")) return
    const act = {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      PageUp: () => this.step(-10),
      PageDown: () => this.step(10),
      Home: () => this.go(this.frames.low),
      End: () => this.go(this.frames.high),
      " ": () => this.toggle(),
      n: () => this.kind && this.jump(this.kind.value, 1),
      p: () => this.kind && this.jump(this.kind.value, -1),
      v: () => this.jump(this.frames.violation, 1),
      V: () => this.jump(this.frames.violation, -1),
    }[event.key]
    if (!act) return
    event.preventDefault()
    event.stopPropagation()
    act()
  }
}

// What anywidget calls in a notebook: the frames and the moment come from the kernel, the moment goes back to it.
function render({ model, el }) {
  const scrubber = new Scrubber(readFrames(model.get("frames_json")), {
    at: model.get("at_ms"),
    notice: model.get("notice"),
    reader: model.get("reader"),
    onReader: (reader) => {
      model.set("reader", reader)
      model.save_changes()
    },
    onMove: (at) => {
      model.set("at_ms", at)
      model.save_changes()
    },
  })
  const follow = () => {
    if (!scrubber.playing && model.get("at_ms") !== scrubber.at) scrubber.show(model.get("at_ms"), model.get("notice"))
  }
  const see = () => scrubber.see(model.get("reader"))
  model.on("change:at_ms", follow)
  model.on("change:reader", see)
  model.on("change:notice", () => scrubber.show(model.get("at_ms"), model.get("notice")))
  const release = claimKeys(scrubber.root)
  el.replaceChildren(scrubber.root)
  return () => {
    release()
    scrubber.pause()
    model.off("change:at_ms", follow)
    model.off("change:reader", see)
  }
}

export default { render }
