// The scrubber: controls around the frames of a film. `draw.js` comes before this file in one module.

const KEYS = [
  ["← →", "previous, next change"],
  ["PageUp PageDown", "ten changes"],
  ["Home End", "beginning, end"],
  ["Space", "play, pause"],
  ["n p", "next, previous event of the chosen kind"],
  ["v V", "next, previous violation"],
]
const REST_MS = 500
const TELL_MS = 250
const VIOLATION = "violation"

const node = (name, attributes = {}, ...children) => {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, " ")

const button = (parent, sign, name, key, act) => {
  const made = node("button", { type: "button", "aria-label": name, title: key ? `${name} (${key})` : name }, sign)
  made.addEventListener("click", act)
  parent.append(made)
  return made
}

// 1, 2, 5, 10, ... and their inverses: the place of the first that runs the film in at most 20 s is the default.
function speeds(lengthMs) {
  const wished = lengthMs / 20_000
  const power = Math.floor(Math.log10(wished))
  const steps = [power - 1, power, power + 1].flatMap((p) => [1, 2, 5].map((digit) => digit * 10 ** p))
  const usual = steps.findIndex((step) => step >= wished)
  return { steps: steps.map((step) => Number(step.toPrecision(1))), usual: usual < 0 ? steps.length - 1 : usual }
}

export class Scrubber {
  constructor(film, { at, notice = "", onMove = () => {} }) {
    this.film = film
    this.onMove = onMove
    this.at = at
    this.playing = false
    this.told = 0
    this.calm = matchMedia("(prefers-reduced-motion: reduce)")
    const name = `Scrubber of ${film.title}: arrow keys step, space plays`
    this.root = node("div", { class: "wmlab-scrubber", tabindex: "0", role: "group", "aria-label": name })
    this.root.setAttribute("data-lm-suppress-shortcuts", "true")
    this.root.append(this.buildTime(), this.buildJumps(), this.buildWords(), this.buildPicture())
    this.root.addEventListener("keydown", (event) => this.press(event))
    this.show(at, notice)
  }

  buildTime() {
    const { film } = this
    const row = node("div", { class: "wmlab-row" })
    button(row, "|◂", "Beginning", "Home", () => this.go(film.low))
    button(row, "◂", "Previous change", "←", () => this.step(-1))
    this.playButton = button(row, "▶", "Play", "Space", () => this.toggle())
    button(row, "▸", "Next change", "→", () => this.step(1))
    button(row, "▸|", "End", "End", () => this.go(film.high))
    const range = { type: "range", min: film.low, max: film.high, step: 1, "aria-label": "Clock" }
    this.slider = node("input", range)
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)))
    this.clock = node("output", { class: "wmlab-clock" })
    row.append(this.slider, this.clock)
    return row
  }

  buildJumps() {
    const row = node("div", { class: "wmlab-row" })
    const { steps, usual } = speeds(this.film.high - this.film.low)
    this.speed = node("select", { "aria-label": "Speed" })
    steps.forEach((step, i) => this.speed.append(new Option(`${step}×`, step, i === usual, i === usual)))
    row.append(node("label", {}, "Speed ", this.speed))
    const kinds = this.film.kinds.filter((kind) => kind !== VIOLATION)
    if (kinds.length) {
      this.kind = node("select", { "aria-label": "Kind of event" })
      for (const kind of kinds) this.kind.append(new Option(`${kind} (${this.moments(kind).length})`, kind))
      row.append(node("label", {}, "Event ", this.kind))
      button(row, "◂ previous", "Previous event of this kind", "p", () => this.jump(this.kind.value, -1))
      button(row, "next ▸", "Next event of this kind", "n", () => this.jump(this.kind.value, 1))
    }
    if (this.film.kinds.includes(VIOLATION))
      button(row, "next violation ▸", "Next violation", "v", () => this.jump(VIOLATION, 1))
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
    const { film } = this
    this.picture = document.createElementNS(SVG, "svg")
    this.picture.setAttribute("viewBox", `0 0 ${film.width} ${film.height}`)
    this.picture.setAttribute("role", "img")
    this.layers = film.panels.map((panel) => {
      const still = document.createElementNS(SVG, "g")
      still.innerHTML = panel.still
      const moving = document.createElementNS(SVG, "g")
      this.picture.append(still, moving)
      return moving
    })
    const whole = film.panels.findIndex((panel) => panel.cursor && !panel.relative)
    this.picture.addEventListener("pointerdown", (event) => this.point(event, film.panels[whole]))
    this.picture.addEventListener("pointermove", (event) => event.buttons && this.point(event, film.panels[whole]))
    return this.picture
  }

  point(event, panel) {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.picture.getScreenCTM().inverse())
    const share = (place.x - panel.left) / panel.width
    if (place.y < panel.top || share < 0 || share > 1) return
    this.go(Math.round(panel.low + share * (panel.high - panel.low)))
  }

  moments(kind) {
    const { at, kind: kinds } = this.film.happened
    return at.map((moment, i) => [moment, kinds[i]]).filter(([, k]) => this.film.texts[k] === kind).map(([m]) => m)
  }

  // Moves to the moment and tells whoever listens.
  go(at, notice = "") {
    this.pause()
    this.show(at, notice)
    this.onMove(this.at)
  }

  step(count) {
    const { changes } = this.film
    let here = lastAt(changes, this.at)
    if (count < 0 && changes[Math.max(here, 0)] < this.at) here += 1
    this.go(changes[Math.min(Math.max(here + count, 0), changes.length - 1)])
  }

  jump(kind, direction) {
    const moments = this.moments(kind)
    const here = lastAt(moments, this.at)
    const target = direction > 0 ? moments[here + 1] : moments[lastAt(moments, this.at - 1)]
    if (target === undefined) this.show(this.at, `There is no ${direction > 0 ? "later" : "earlier"} ${kind}.`)
    else this.go(target)
  }

  toggle() {
    if (this.playing) {
      this.go(Math.floor(this.at))
      return
    }
    if (this.at >= this.film.high) this.show(this.film.low)
    this.playing = true
    this.sentence.setAttribute("aria-live", "off")
    this.status.setAttribute("aria-live", "off")
    this.mark("❚❚", "Pause")
    this.last = performance.now()
    this.tick()
  }

  pause() {
    this.playing = false
    clearTimeout(this.timer)
    cancelAnimationFrame(this.frame)
    this.sentence.setAttribute("aria-live", "polite")
    this.status.setAttribute("aria-live", "polite")
    this.mark("▶", "Play")
  }

  mark(sign, name) {
    this.playButton.textContent = sign
    this.playButton.setAttribute("aria-label", name)
    this.playButton.title = `${name} (Space)`
  }

  // One turn of playing; who prefers reduced motion gets two pictures a second.
  tick() {
    const again = () => {
      const now = performance.now()
      const at = this.at + (now - this.last) * Number(this.speed.value)
      this.last = now
      this.show(Math.min(at, this.film.high))
      if (now - this.told > TELL_MS) {
        this.told = now
        this.onMove(Math.round(this.at))
      }
      if (this.at >= this.film.high) this.go(this.film.high)
      else if (this.playing) this.tick()
    }
    if (this.calm.matches) this.timer = setTimeout(again, REST_MS)
    else this.frame = requestAnimationFrame(again)
  }

  // Draws the moment; one outside the recording becomes the nearest inside.
  show(at, notice = "") {
    const { film } = this
    this.at = Math.min(Math.max(at, film.low), film.high)
    const now = Math.floor(this.at)
    film.panels.forEach((panel, i) => this.layers[i].replaceChildren(...drawPanel(film, panel, now)))
    this.slider.value = now
    this.slider.setAttribute("aria-valuetext", this.words(now))
    this.clock.textContent = this.words(now)
    this.tell(now, notice)
  }

  tell(now, notice) {
    const { film } = this
    const place = lastAt(film.sentences.from, now)
    const said = place < 0 ? "" : film.texts[film.sentences.text[place]]
    this.sentence.textContent = said && `${said[0].toUpperCase()}${said.slice(1)}.`
    const change = lastAt(film.changes, now)
    const here = film.changes[change]
    const happened = film.happened.text.filter((_, i) => film.happened.at[i] === here).map((text) => film.texts[text])
    const parts = [`Change ${change + 1} of ${film.changes.length}`, ...happened]
    this.status.textContent = `${parts.join(" · ")}${notice ? ` · ${notice}` : ""}`
    if (!this.playing) this.picture.setAttribute("aria-label", wordsOf(film, now).join(". "))
  }

  words(at) {
    return this.film.instants ? `${new Date(at).toISOString().replace("T", " ").replace("Z", "")} UTC` : `${grouped(at)} ms`
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
      Home: () => this.go(this.film.low),
      End: () => this.go(this.film.high),
      " ": () => this.toggle(),
      n: () => this.kind && this.jump(this.kind.value, 1),
      p: () => this.kind && this.jump(this.kind.value, -1),
      v: () => this.jump(VIOLATION, 1),
      V: () => this.jump(VIOLATION, -1),
    }[event.key]
    if (!act) return
    event.preventDefault()
    event.stopPropagation()
    act()
  }
}

// What anywidget calls in a notebook: the film and the moment come from the kernel, the moment goes back to it.
function render({ model, el }) {
  const scrubber = new Scrubber(readFilm(model.get("film_json")), {
    at: model.get("at_ms"),
    notice: model.get("notice"),
    onMove: (at) => {
      model.set("at_ms", at)
      model.save_changes()
    },
  })
  const follow = () => {
    if (!scrubber.playing && model.get("at_ms") !== scrubber.at) scrubber.show(model.get("at_ms"), model.get("notice"))
  }
  model.on("change:at_ms", follow)
  model.on("change:notice", () => scrubber.show(model.get("at_ms"), model.get("notice")))
  el.replaceChildren(scrubber.root)
  return () => {
    scrubber.pause()
    model.off("change:at_ms", follow)
  }
}

export default { render }
