// Jet's coalescing of keyed watermarks, as a program that `python -m wmlab conformance` can judge.
//
//     python -m wmlab conformance --rule jet-coalescer -- node examples/my_coalescer.js
//
// It reads a line of JSON and writes one. It needs nothing but Node.

"use strict";

const readline = require("node:readline");

// The watermark of one key: the least over the inputs that are neither idle nor done, the highest seen if none is left.
class Coalescer {
  constructor(inputs) {
    this.marks = new Array(inputs).fill(-Infinity);
    this.idle = new Set();
    this.last = -Infinity;
    this.highest = -Infinity;
  }

  // The coalesced watermark if it rises, else null.
  rise() {
    let lowest = Infinity;
    this.marks.forEach((mark, input) => {
      if (!this.idle.has(input)) lowest = Math.min(lowest, mark);
    });
    const coalesced = lowest === Infinity ? this.highest : lowest;
    if (coalesced <= this.last) return null;
    this.last = coalesced;
    return coalesced;
  }
}

// The watermarks of all keys, and whether all inputs are idle.
class KeyedCoalescer {
  constructor(inputs) {
    this.inputs = inputs;
    this.idle = new Set();
    this.done = new Set();
    this.keys = new Map();
    this.announced = false;
  }

  step(item) {
    switch (item.op) {
      case "restart":
        Object.assign(this, new KeyedCoalescer(this.inputs));
        return [];
      case "event":
        this.wake(item.input);
        return [];
      case "watermark":
        return this.watermark(item);
      default:
        return this.leaves(item);
    }
  }

  wake(input) {
    if (this.idle.delete(input)) this.announced = false;
    for (const coalescer of this.keys.values()) coalescer.idle.delete(input);
  }

  // A key begins with its first watermark: inputs that are idle or done by then take no part in it.
  watermark(item) {
    this.wake(item.input);
    if (!this.keys.has(item.key)) {
      const coalescer = new Coalescer(this.inputs);
      for (const input of this.idle) coalescer.idle.add(input);
      for (const input of this.done) coalescer.marks[input] = Infinity;
      this.keys.set(item.key, coalescer);
    }
    const coalescer = this.keys.get(item.key);
    coalescer.marks[item.input] = item.time;
    coalescer.highest = Math.max(coalescer.highest, item.time);
    const risen = coalescer.rise();
    return risen === null ? [] : [["watermark", item.key, risen]];
  }

  leaves(item) {
    if (item.op === "done") {
      this.done.add(item.input);
      this.idle.delete(item.input);
    } else {
      this.idle.add(item.input);
    }
    const emitted = [];
    for (const key of [...this.keys.keys()].sort((a, b) => a - b)) {
      const coalescer = this.keys.get(key);
      if (item.op === "done") coalescer.marks[item.input] = Infinity;
      else coalescer.idle.add(item.input);
      const risen = coalescer.rise();
      if (risen !== null) emitted.push(["watermark", key, risen]);
    }
    const left = this.inputs - this.done.size;
    if (left > 0 && this.idle.size === left && !this.announced) {
      this.announced = true;
      emitted.push(["idle"]);
    }
    return emitted;
  }
}

let coalescer = null;
readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  let answer = "ready";
  if ("start" in message) coalescer = new KeyedCoalescer(message.parameters.inputs);
  else answer = coalescer.step(message);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
