// The panel: a form made of the fields that Python describes, and the picture of the run. What the user does is sent to
// Python, which answers with another form or another picture; nothing is decided here.

const keyOf = (path) => JSON.stringify(path)
const FAST_MS = 120
const PATIENCE_MS = 5_000
const SHORT_MS = 300
const STEPS = 100

// Text in which names stand in backquotes, as elements.
const prose = (text) => text.split("`").map((piece, i) => (i % 2 ? node("code", {}, piece) : piece))

const button = (text, act, attributes = {}) => {
  const made = node("button", { type: "button", ...attributes }, text)
  made.addEventListener("click", act)
  return made
}

const choose = (name, act) => {
  const made = node("select", { "aria-label": name })
  made.addEventListener("change", () => act(made.value))
  return made
}

const fill = (select, names, chosen) => {
  select.replaceChildren(...names.map((name) => new Option(name, name, name === chosen, name === chosen)))
  select.value = chosen
}

// A position of a slider as a number, and back: ends that are far apart are approached ever faster.
function scaleOf([low, high]) {
  const far = high - low > STEPS
  const [steps, bent] = far ? [STEPS, 3] : [high - low, 1]
  return {
    steps,
    value: (position) => Number((low + (high - low) * (position / steps) ** bent).toPrecision(2)),
    position: (value) => Math.round(steps * Math.min(Math.max((value - low) / (high - low), 0), 1) ** (1 / bent)),
  }
}

// One field: its label, its control, what it is for, and a place for the mistake in it.
class Field {
  constructor(field, send, id) {
    this.key = keyOf(field.path)
    this.send = send
    this.optional = field.optional
    const name = field.unit ? `${field.label} (${field.unit})` : field.label
    this.control = this.made(field, id)
    this.control.id = id
    this.control.dataset.key = this.key
    this.control.setAttribute("aria-describedby", `${id}-help ${id}-wrong`)
    this.wrong = node("p", { class: "wmlab-wrong", id: `${id}-wrong` })
    const help = node("p", { class: "wmlab-help", id: `${id}-help` }, ...prose(field.help))
    const label = node("label", { for: id }, name)
    if (field.kind === "yaml") label.append(" ", node("small", {}, "YAML"))
    const row = node("div", { class: "wmlab-control" }, this.control)
    if (field.usual) row.prepend(this.slider(field, name))
    this.root = node("div", { class: "wmlab-field" }, label, row, this.wrong, help)
    this.set(field)
  }

  made(field, id) {
    const bounds = [["at least", field.low], ["at most", field.high]].filter(([, bound]) => bound !== null)
    const rules = bounds.map(([word, bound]) => `${word} ${bound.toLocaleString("en").replaceAll(",", " ")}`)
    const title = [...rules, ...(field.optional ? ["may be empty"] : [])].join("; ")
    const commit = () => this.commit()
    if (field.kind === "flag" || field.kind === "choice") {
      const made = choose(field.label, commit)
      made.removeAttribute("aria-label")
      const choices = field.kind === "flag" ? ["false", "true"] : field.choices
      for (const choice of field.optional ? ["", ...choices] : choices) made.append(new Option(choice || "none", choice))
      return made
    }
    const placeholder = field.optional ? "none" : ""
    const made = node("input", { type: "text", title, placeholder, spellcheck: "false", autocomplete: "off" })
    if (field.kind === "whole" || field.kind === "real") made.inputMode = "decimal"
    if (field.names.length) {
      made.setAttribute("list", `${id}-names`)
      this.names = node("datalist", { id: `${id}-names` })
      this.names.append(...field.names.map((name) => new Option(name)))
    }
    made.addEventListener("change", commit)
    return made
  }

  slider(field, name) {
    const scale = scaleOf(field.usual)
    const made = node("input", { type: "range", min: 0, max: scale.steps, step: 1, "aria-label": `${name}, slider` })
    let gesture = 0
    const begin = () => (gesture = performance.timeOrigin + performance.now())
    made.addEventListener("pointerdown", begin)
    made.addEventListener("keydown", begin)
    made.addEventListener("input", () => {
      this.control.value = String(scale.value(Number(made.value)))
      clearTimeout(this.timer)
      this.timer = setTimeout(() => this.commit(gesture), FAST_MS)
    })
    this.follow = () => {
      const number = Number(this.control.value.replaceAll(",", "").replaceAll(" ", ""))
      made.style.visibility = this.control.value.trim() === "" || Number.isNaN(number) ? "hidden" : "visible"
      if (document.activeElement !== made) made.value = scale.position(number)
      made.setAttribute("aria-valuetext", this.control.value)
    }
    return made
  }

  commit(gesture = null) {
    if (this.control.value === this.committed) return
    this.committed = this.control.value
    this.follow?.()
    this.send(this.control.value, gesture)
  }

  // Whether something was typed that Python does not know yet.
  get dirty() {
    return this.control.value !== this.committed
  }

  set(field) {
    if (document.activeElement !== this.control || !this.dirty) this.control.value = field.text
    this.committed = field.text
    if (this.names && !this.names.isConnected) this.root?.append(this.names)
    this.follow?.()
  }

  say(text) {
    this.wrong.textContent = text
    this.root.classList.toggle("wmlab-is-wrong", Boolean(text))
    this.control.toggleAttribute("aria-invalid", Boolean(text))
    if (text) this.control.setAttribute("aria-invalid", "true")
  }
}

class Panel {
  constructor(model) {
    this.model = model
    this.opened = new Set()
    this.chosen = { writers: 0, streams: 0 }
    this.fields = new Map()
    const look = { class: "wmlab-panel wmlab-live", role: "group", "aria-label": "Panel of a scenario" }
    this.root = node("div", look)
    this.mistakes = node("div", { class: "wmlab-mistakes", role: "alert" })
    const columns = node("div", { class: "wmlab-columns" }, this.buildForm(), this.buildView())
    this.root.append(this.mistakes, columns, this.verdicts, this.comparing)
    this.root.addEventListener("keydown", (event) => this.press(event))
    this.listeners = Object.entries({
      form: () => this.showForm(),
      picture: () => this.showPicture(),
      sentence: () => (this.sentence.textContent = model.get("sentence")),
      running: () => this.showRunning(),
      notice: () => this.showNotice(),
      kept: () => this.showKept(),
      comparison: () => this.showKept(),
      verdicts: () => (this.verdicts.innerHTML = model.get("verdicts")),
      python: () => (this.python.textContent = model.get("python")),
      yaml: () => (this.yaml.textContent = model.get("yaml")),
      readers: () => this.showChoices(),
      reader: () => this.showChoices(),
      chosen: () => this.showChoices(),
      answered: () => this.heard(),
    }).map(([name, act]) => [`change:${name}`, act])
    for (const [name, act] of this.listeners) {
      model.on(name, act)
      act()
    }
  }

  // What the user did, for Python.
  act(name, ...given) {
    clearTimeout(this.waiting)
    try {
      this.model.send({ do: name, with: given })
      this.waiting = setTimeout(() => {
        this.silence.textContent = "The kernel does not answer: it is busy with another cell."
      }, PATIENCE_MS)
    } catch {
      this.silence.textContent = "The kernel was restarted, and the panel is not connected: run this cell again."
    }
  }

  heard() {
    clearTimeout(this.waiting)
    this.silence.textContent = ""
  }

  buildForm() {
    this.undo = button("↶ Undo", () => this.act("undo"), { title: "Ctrl+Z" })
    this.redo = button("↷ Redo", () => this.act("redo"), { title: "Ctrl+Y or Ctrl+Shift+Z" })
    this.status = node("span", { class: "wmlab-said", role: "status" })
    this.load = node("section", { "aria-label": "Who writes" })
    this.rules = node("section", { "aria-label": "The stream and its watermarks" })
    this.acts = node("section", { "aria-label": "What happens" })
    this.expert = node("details", { class: "wmlab-expert" })
    this.expert.append(node("summary", {}, "Expert: every field"), (this.parts = node("div")))
    return node(
      "div",
      { class: "wmlab-form" },
      node("div", { class: "wmlab-row wmlab-bar" }, this.undo, this.redo, this.status),
      this.load,
      this.acts,
      this.rules,
      this.expert,
      this.buildCopy(),
    )
  }

  buildCopy() {
    this.python = node("pre", { tabindex: "0", "aria-label": "The scenario as Python" })
    this.yaml = node("pre", { tabindex: "0", "aria-label": "The scenario as YAML" })
    const said = node("span", { class: "wmlab-said", role: "status" })
    const copy = (name, from) => button(`Copy as ${name}`, async () => (said.textContent = await copied(from, name)))
    const file = node("input", { type: "text", placeholder: "scenario.yaml", "aria-label": "File" })
    const save = button("Save as YAML", () => this.act("save", file.value))
    return node(
      "section",
      { "aria-label": "Copy or save the scenario" },
      node("h3", {}, "Take the scenario along"),
      node("div", { class: "wmlab-row" }, copy("Python", this.python), copy("YAML", this.yaml), said),
      node("div", { class: "wmlab-row" }, file, save, (this.saved = node("span", { class: "wmlab-said", role: "status" }))),
      node("details", {}, node("summary", {}, "Look at the Python"), this.python),
      node("details", {}, node("summary", {}, "Look at the YAML"), this.yaml),
    )
  }

  buildView() {
    const { model } = this
    this.choice = choose("Picture", (name) => this.act("picture", name))
    fill(this.choice, model.get("pictures"), model.get("chosen"))
    this.reader = choose("Reader", (name) => this.act("reader", name))
    this.readerLabel = node("label", {}, "Reader ", this.reader)
    this.bar = node("progress", { max: 100, "aria-label": "Run" })
    this.running = node("span", { class: "wmlab-running" }, "running ", this.bar, button("Cancel", () => this.act("cancel")))
    this.sentence = node("p", { class: "wmlab-sentence", "aria-live": "polite" })
    this.silence = node("p", { class: "wmlab-wrong", role: "alert" })
    this.picture = node("div", { class: "wmlab-picture" })
    this.label = node("input", { type: "text", placeholder: "its name, if you like", "aria-label": "Name of the run" })
    this.notice = node("span", { class: "wmlab-said", role: "status" })
    this.toComparison = button("Look at the comparison ↓", () => {
      this.comparing.open = true
      this.comparing.scrollIntoView({ block: "start", behavior: "smooth" })
      this.comparing.querySelector("summary").focus({ preventScroll: true })
    })
    this.verdicts = node("div", { class: "wmlab-verdicts", "aria-live": "polite" })
    this.comparison = node("div")
    this.keptNames = node("summary")
    this.comparing = node("details", { class: "wmlab-comparison" }, this.keptNames, this.comparison)
    const view = node(
      "div",
      { class: "wmlab-view" },
      node("div", { class: "wmlab-row" }, node("label", {}, "Picture ", this.choice), this.readerLabel, this.running),
      this.sentence,
      this.silence,
      this.picture,
      node(
        "div",
        { class: "wmlab-row" },
        button("Keep this run", () => this.act("keep", this.label.value)),
        this.label,
        button("Verdicts", () => this.act("judge"), { title: "Have Spark check every promise of this run" }),
        this.notice,
        this.toComparison,
      ),
    )
    let known = 0
    this.watch = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width)
      if (!width || Math.abs(width - known) < 8) return
      known = width
      clearTimeout(this.fitting)
      this.fitting = setTimeout(() => this.act("fit", width), FAST_MS)
    })
    this.watch.observe(this.picture)
    return view
  }

  // The form: built anew if there are other fields than before, else each control gets its content.
  showForm() {
    const form = this.model.get("form")
    const shape = JSON.stringify(form.parts.map((part) => [part.path, part.fields.map((field) => [field.path, field.choices, field.names])]))
    if (form.added) this.added(form.added)
    if (shape !== this.shape) this.build(form)
    this.shape = shape
    for (const part of form.parts) {
      for (const field of part.fields) for (const control of this.fields.get(keyOf(field.path)) ?? []) control.set(field)
      for (const heading of this.root.querySelectorAll("[data-part]"))
        if (heading.dataset.part === keyOf(part.path)) heading.textContent = part.title
    }
    this.undo.disabled = !form.undo
    this.redo.disabled = !form.redo
    this.showMistakes(form.mistakes)
    this.status.replaceChildren(...(form.removed ? [`Removed: ${form.removed}. Undo brings it back.`] : []))
    if (form.added) this.focusOn(form.added)
  }

  added([name, index]) {
    this.opened.add(keyOf([name, index]))
    if (name in this.chosen) this.chosen[name] = index
  }

  focusOn(path) {
    const begin = keyOf(path).slice(0, -1)
    const inside = [...this.root.querySelectorAll("[data-key]")].find((control) => control.dataset.key.startsWith(`${begin},`))
    inside?.focus()
    inside?.scrollIntoView({ block: "nearest" })
  }

  build(form) {
    const before = document.activeElement?.dataset?.key
    const inExpert = this.expert.contains(document.activeElement)
    this.form = form
    this.fields.clear()
    this.buildFirst(form)
    this.buildActs(form)
    const parts = form.parts.filter((part) => part.path[0] !== "script")
    this.parts.replaceChildren(...parts.map((part) => this.fold(part)))
    if (!before) return
    const again = (this.fields.get(before) ?? []).find((field) => inExpert === this.expert.contains(field.root))
    again?.control.focus()
  }

  control(field) {
    const key = keyOf(field.path)
    const there = this.fields.get(key) ?? []
    const send = (text, gesture) => this.act("change", field.path, text, gesture)
    const made = new Field(field, send, `wmlab-${this.number}-${key.replace(/[^a-z0-9]+/gi, "-")}${there.length}`)
    this.fields.set(key, [...there, made])
    return made.root
  }

  get number() {
    return (this.given ??= Math.random().toString(36).slice(2, 8))
  }

  buildFirst(form) {
    const groups = new Map()
    for (const part of form.parts) {
      const name = part.path[0] ?? "run"
      if (part.fields.some((field) => field.usual)) groups.set(name, [...(groups.get(name) ?? []), part])
    }
    const blocks = (...names) => names.filter((name) => groups.has(name)).map((name) => this.firstOf(name, groups.get(name)))
    this.load.replaceChildren(...blocks("writers"))
    this.rules.replaceChildren(...blocks("stream", "streams", "controllers", "run"))
  }

  firstOf(name, parts) {
    const index = Math.min(this.chosen[name] ?? 0, parts.length - 1)
    const part = parts[index]
    const titles = { writers: "Writer", stream: "Stream", streams: "Stream", controllers: "Watermark cycle", run: "Network" }
    const head = node("div", { class: "wmlab-row wmlab-head" }, node("h3", {}, titles[name]))
    if (parts.length > 1) {
      const select = choose(titles[name], (chosen) => {
        this.chosen[name] = Number(chosen)
        this.build(this.model.get("form"))
        this.showForm()
        this.root.querySelector(`select[aria-label="${titles[name]}"]`)?.focus()
      })
      parts.forEach((other, i) => select.append(new Option(other.title.replace(/^\w+ /, ""), i, i === index, i === index)))
      head.append(select)
    }
    if (name === "writers") head.append(...this.writerButtons(part))
    return node("div", { class: "wmlab-block" }, head, ...part.fields.filter((field) => field.usual).map((field) => this.control(field)))
  }

  writerButtons(part) {
    const kinds = Object.entries(this.model.get("kinds").writers)
    const add = node("select", { "aria-label": "Add a writer", class: "wmlab-add" }, new Option("add a writer …", ""))
    for (const [kind, help] of kinds) {
      const option = new Option(`${kind} writer`, kind)
      option.title = help.replaceAll("`", "")
      add.append(option)
    }
    add.addEventListener("change", () => add.value && this.act("add", "writers", add.value))
    const parts = [add]
    if (part.removable) parts.push(this.remover(part, "Remove"))
    return parts
  }

  remover(part, text = `Remove ${part.title}`) {
    return button(text, () => this.act("remove", part.path), { "aria-label": `Remove ${part.title}` })
  }

  buildActs(form) {
    const acts = form.parts.filter((part) => part.path[0] === "script")
    const help = node("p", { class: "wmlab-help" })
    const kind = choose("Something that happens", () => tell())
    const kinds = this.model.get("kinds").script
    for (const name of Object.keys(kinds)) kind.append(new Option(name.replaceAll("_", " "), name))
    kind.value = this.kind ?? kind.value
    const tell = () => {
      this.kind = kind.value
      help.replaceChildren(...prose(kinds[kind.value]))
    }
    tell()
    const add = button("Add it", () => this.act("add", "script", kind.value))
    const none = acts.length ? [] : [node("p", { class: "wmlab-help" }, "Nothing yet: all goes well.")]
    this.acts.replaceChildren(
      node("h3", {}, "What happens: faults, scales and more"),
      ...none,
      ...acts.map((part) => this.fold(part)),
      node("div", { class: "wmlab-row" }, kind, add),
      help,
    )
  }

  // A part that opens and closes: its heading, what it is, its fields.
  fold(part) {
    const key = keyOf(part.path)
    const title = node("span", { "data-part": key }, part.title)
    const made = node("details", {}, node("summary", {}, title), node("p", { class: "wmlab-help" }, ...prose(part.help)))
    made.append(...part.fields.map((field) => this.control({ ...field, usual: null })))
    if (part.removable) made.append(this.remover(part))
    made.open = this.opened.has(key)
    made.addEventListener("toggle", () => (made.open ? this.opened.add(key) : this.opened.delete(key)))
    return made
  }

  showMistakes(mistakes) {
    const texts = new Map()
    for (const { path, text } of mistakes) {
      const key = keyOf(path)
      texts.set(key, texts.has(key) ? `${texts.get(key)}; ${text}` : text)
    }
    for (const [key, controls] of this.fields)
      for (const control of controls) {
        control.say(texts.get(key) ?? "")
        if (texts.has(key) && this.acts.contains(control.root)) control.root.closest("details").open = true
      }
    const entries = mistakes.map(({ path, where, text }) => {
      const link = path ? button(where, () => this.goTo(path), { class: "wmlab-link" }) : node("b", {}, where)
      return node("li", {}, link, `: ${text}`)
    })
    const head = mistakes.length === 1 ? "A mistake" : `${mistakes.length} mistakes`
    const said = `${head} in the form. The picture shows the last scenario without mistakes.`
    this.mistakes.replaceChildren(...(entries.length ? [node("p", {}, said), node("ul", {}, ...entries)] : []))
  }

  goTo(path) {
    const [control] = this.fields.get(keyOf(path)) ?? []
    if (!control) return
    for (let fold = control.root.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true
    control.control.focus()
    control.root.scrollIntoView({ block: "nearest" })
  }

  showPicture() {
    this.picture.innerHTML = this.model.get("picture")
  }

  showRunning() {
    const percent = this.model.get("running")
    this.bar.value = percent ?? 0
    clearTimeout(this.showing)
    if (percent === null) this.running.hidden = true
    // A short run would only flicker.
    else this.showing = setTimeout(() => (this.running.hidden = false), SHORT_MS)
  }

  showNotice() {
    const text = this.model.get("notice")
    this.notice.textContent = text
    this.saved.textContent = /^Written to /.test(text) ? text : ""
  }

  showKept() {
    const kept = this.model.get("kept")
    this.keptNames.textContent = `Kept: ${kept.join(", ")}`
    this.comparison.innerHTML = this.model.get("comparison")
    this.comparing.hidden = !kept.length
    this.toComparison.hidden = kept.length < 2
  }

  showChoices() {
    const { model } = this
    this.choice.value = model.get("chosen")
    fill(this.reader, model.get("readers"), model.get("reader"))
    this.readerLabel.hidden = model.get("chosen") !== model.get("pictures")[0] || model.get("readers").length < 2
  }

  // Ctrl+Z takes back what was typed in a field, and after that the last change of the form.
  press(event) {
    if (!takesBack(event)) return
    const key = event.target.dataset?.key
    if ((this.fields.get(key) ?? []).some((field) => field.control === event.target && field.dirty)) return
    if (event.target.tagName === "INPUT" && event.target.type === "text" && !key) return
    event.preventDefault()
    event.stopPropagation()
    this.act(event.shiftKey || event.key.toLowerCase() === "y" ? "redo" : "undo")
  }

  leave() {
    clearTimeout(this.waiting)
    this.watch.disconnect()
    for (const [name, act] of this.listeners) this.model.off(name, act)
  }
}

const takesBack = (event) => (event.ctrlKey || event.metaKey) && !event.altKey && "zy".includes(event.key.toLowerCase())

async function copied(element, name) {
  try {
    await navigator.clipboard.writeText(element.textContent)
  } catch {
    element.closest("details").open = true
    getSelection().selectAllChildren(element)
    if (!document.execCommand("copy")) return `Not allowed here: press Ctrl+C to copy the ${name}.`
  }
  return `${name} is in the clipboard.`
}

function render({ model, el }) {
  const panel = new Panel(model)
  const release = claimKeys(panel.root, takesBack)
  el.replaceChildren(panel.root)
  return () => {
    release()
    panel.leave()
  }
}

export default { render }
