// Everything that models, servers and the CLI wrote is data: it reaches a page through textContent only.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Properties are set as properties; `class`, `role`, `for` and names with a dash as attributes. */
function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "class" || name === "role" || name === "for" || name.includes("-")) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Controls, escape sequences, and characters that hide or reorder what is around them.
const UNSAFE = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
    "\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]|[\\ud800-\\udfff]", "gu");

function escaped(character) {
  const code = character.codePointAt(0);
  return code < 0x100 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
}

/** Return a text with such characters shown as escapes, on one line. */
function plain(text) {
  return String(text).replace(/\r\n|\n/g, " ").replace(UNSAFE, escaped);
}

/** Append a text to an element, with such characters as visible marks. */
function appendText(place, text) {
  text = text.replace(/\r\n/g, "\n");
  let done = 0;
  let run = "";
  for (const found of text.matchAll(UNSAFE)) {
    const between = text.slice(done, found.index);
    if (between) {
      if (run) place.append(el("span", { class: "mark", textContent: run }));
      run = "";
      place.append(between);
    }
    run += escaped(found[0]);
    done = found.index + found[0].length;
  }
  if (run) place.append(el("span", { class: "mark", textContent: run }));
  if (done < text.length) place.append(text.slice(done));
}

const FIRST = 20000;
const MORE = 200000;

/** Return a block of text; a long one is shown in parts. */
function textBlock(text, label, kind = "") {
  const pre = el("pre", { class: "text " + kind, tabIndex: 0, "aria-label": label, role: "region" });
  let shown = 0;
  const box = el("div", { class: "textbox" }, pre);
  const more = el("button", { type: "button", class: "more" });
  const show = (count) => {
    let end = Math.min(text.length, shown + count);
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
    appendText(pre, text.slice(shown, end));
    shown = end;
    if (shown < text.length) more.textContent = `Show ${bytes(Math.min(MORE, text.length - shown))} more of ${bytes(text.length)}`;
    else more.remove();
  };
  if (text.length > FIRST) box.append(more);
  more.addEventListener("click", () => show(MORE));
  show(FIRST);
  return box;
}

function bytes(count) {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

function count(number) {
  if (number < 10000) return number.toLocaleString("en-US");
  if (number < 1e6) return `${(number / 1e3).toFixed(number < 1e5 ? 1 : 0)}k`;
  return `${(number / 1e6).toFixed(2)}M`;
}

function duration(seconds) {
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
  if (seconds < 100) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} m ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

function clock(seconds) {
  if (seconds < 100) return seconds.toFixed(3);
  const whole = Math.floor(seconds);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = `${String(minutes).padStart(2, "0")}:${String(whole % 60).padStart(2, "0")}`;
  return whole < 3600 ? `${rest}.${Math.floor((seconds - whole) * 10)}` : `${Math.floor(whole / 3600)}:${rest}`;
}

function moment(seconds) {
  return seconds < 100 ? `${clock(seconds)} s` : clock(seconds);
}

function dollars(amount) {
  return amount === null || amount === undefined ? "" : `$${amount.toFixed(amount < 1 ? 4 : 2)}`;
}

/** Return the lines of a comparison: [sign, text], sign one of " ", "-", "+". */
function diffLines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const left = a.slice(head, a.length - tail);
  const right = b.slice(head, b.length - tail);
  const middle = [];
  if (left.length * right.length > 4e6) {
    middle.push(...left.map((line) => ["-", line]), ...right.map((line) => ["+", line]));
  } else {
    const width = right.length + 1;
    const table = new Uint32Array((left.length + 1) * width);
    for (let i = left.length - 1; i >= 0; i--) {
      for (let j = right.length - 1; j >= 0; j--) {
        table[i * width + j] = left[i] === right[j]
          ? table[(i + 1) * width + j + 1] + 1
          : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
      }
    }
    let i = 0;
    let j = 0;
    while (i < left.length || j < right.length) {
      if (i < left.length && j < right.length && left[i] === right[j]) {
        middle.push([" ", left[i]]);
        i += 1;
        j += 1;
      } else if (j >= right.length || (i < left.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
        middle.push(["-", left[i++]]);
      } else {
        middle.push(["+", right[j++]]);
      }
    }
  }
  const same = (lines) => lines.map((line) => [" ", line]);
  return [...same(a.slice(Math.max(0, head - 3), head)), ...middle, ...same(b.slice(b.length - tail, b.length - tail + 3))];
}

function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
}

const DIFF_ROWS = 1500;

/** The lines of a change, in a box. */
class Changes {
  constructor(rest) {
    this.rest = rest;
    this.box = el("div", { class: "diff", role: "region", tabIndex: 0, "aria-label": "Changes" });
    this.rows = 0;
    this.counts = { "+": 0, "-": 0, " ": 0 };
  }

  row(sign, text, before, after) {
    this.counts[sign] += 1;
    if (this.rows++ >= DIFF_ROWS) return;
    const cell = el("code", {});
    appendText(cell, text.length > 5000 ? `${text.slice(0, 5000)} … ${bytes(text.length)}` : text);
    this.box.append(el("div", { class: sign === "+" ? "add" : sign === "-" ? "del" : "same" },
      el("span", { class: "no", textContent: before ?? "" }), el("span", { class: "no", textContent: after ?? "" }),
      el("span", { class: "sign", textContent: sign === " " ? "" : sign }), cell));
  }

  part(text) {
    this.box.append(el("div", { class: "hunk", textContent: plain(text) }));
  }

  add(before, after) {
    const lines = before === "" ? after.split("\n").map((line) => ["+", line]) : diffLines(before, after);
    let number = 1;
    for (const [sign, text] of lines) this.row(sign, text, "", before === "" ? number++ : "");
  }

  finished(title) {
    if (this.rows > DIFF_ROWS) this.part(`${this.rows - DIFF_ROWS} more lines are in ${this.rest}`);
    return [el("p", { class: "quiet path", textContent: `${plain(title)}  +${this.counts["+"]} −${this.counts["-"]}` }), this.box];
  }
}
