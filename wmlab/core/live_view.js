// What the programs of all live views have in common.

const filled = (made, attributes, content) => {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...content)
  return made
}

const node = (name, attributes = {}, ...content) => filled(document.createElement(name), attributes, content)

// Keys without Ctrl, Alt or Cmd are the view's while the focus is in it, and all others JupyterLab's, but for those
// that `also` claims. JupyterLab looks at the attribute before the event reaches the view, first of all at the target's.
function claimKeys(root, also = () => false) {
  const mark = (event) => {
    const plain = !(event.ctrlKey || event.metaKey || event.altKey)
    if (root.contains(event.target)) event.target.toggleAttribute("data-lm-suppress-shortcuts", plain || also(event))
  }
  window.addEventListener("keydown", mark, true)
  return () => window.removeEventListener("keydown", mark, true)
}
