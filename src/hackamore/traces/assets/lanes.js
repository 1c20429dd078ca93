// The lanes, the strip of tokens and cost, and the part of the time that they show.

const TRACKS = 3;
const MOST_BARS = 2000; // of one lane, where long items overlap

class Lanes {
  constructor(data, choose) {
    this.data = data;
    this.choose = choose;
    this.place = document.getElementById("lanes");
    this.axis = document.getElementById("axis");
    this.strip = document.getElementById("strip");
    this.rows = LANES.map((name, lane) => {
      const track = el("div", { class: "track", role: "img" });
      const row = el("div", { class: `lane lane-${name}`, id: `lane-${name}` },
        el("span", { class: "lane-name", textContent: NAMES[lane] }), track);
      this.place.append(row);
      return { row, track };
    });
    this.paths = {};
    this.drawing = document.createElementNS(SVG, "svg");
    this.drawing.setAttribute("preserveAspectRatio", "none");
    this.drawing.setAttribute("role", "img");
    for (const name of ["cache_read", "cache_write", "input", "output", "cost"]) {
      this.paths[name] = document.createElementNS(SVG, "path");
      this.paths[name].setAttribute("class", `use-${name}`);
      this.drawing.append(this.paths[name]);
    }
    this.summary = el("div", { id: "usage" });
    this.strip.append(el("span", { class: "lane-name", textContent: "Tokens, cost" }),
      el("div", { class: "track", id: "strip-track" }, this.drawing), this.summary);
    new ResizeObserver(() => this.later()).observe(this.place);
    this.from = 0;
    this.to = 1;
    this.selected = -1;
    this.brush();
  }

  set(session) {
    const same = session === this.session && this.from === 0 && this.whole;
    this.session = session;
    const seconds = Math.max(this.data.sessions[session]?.seconds ?? 0, 0.001);
    if (same || !this.whole || this.known !== session) [this.from, this.to] = [0, seconds];
    this.known = session;
    this.whole = this.from === 0 && this.to >= seconds;
    this.seconds = seconds;
    this.prepare();
    this.draw();
  }

  /** Put items that overlap below each other. */
  prepare() {
    this.lanes = LANES.map(() => ({ items: [], tracks: 1 }));
    const ends = LANES.map(() => []);
    for (const number of this.data.ofSession[this.session] ?? []) {
      const item = this.data.items[number];
      const end = item.end ?? this.seconds;
      const own = ends[item.lane];
      let track = own.findIndex((until) => until <= item.start);
      if (track < 0) track = own.length < TRACKS ? own.length : TRACKS - 1;
      own[track] = Math.max(own[track] ?? 0, end);
      this.lanes[item.lane].items.push([item.start, end, track, item]);
      this.lanes[item.lane].tracks = Math.max(this.lanes[item.lane].tracks, track + 1);
    }
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    if (!this.lanes) return;
    const width = this.rows[0].track.clientWidth || 300;
    const scale = width / (this.to - this.from);
    this.lanes.forEach((lane, place) => {
      const { row, track } = this.rows[place];
      row.hidden = place > 0 && lane.items.length === 0 && place !== 1 && place !== 2;
      row.style.setProperty("--tracks", lane.tracks);
      const bars = [];
      const open = [];
      for (const [start, end, at, item] of lane.items) {
        if (end < this.from || start > this.to) continue;
        const x = Math.max(-2, (start - this.from) * scale);
        const wide = Math.min(width + 2, (end - this.from) * scale) - x;
        const last = open[at];
        if (last && x < last.x + last.wide + 1 && (wide < 3 || last.wide < 3) && last.wide < 40) {
          last.wide = Math.max(last.wide, x + wide - last.x);
          last.items += 1;
          last.problems += isProblem(item);
          if (item.number === this.selected) last.selected = true;
          continue;
        }
        open[at] = { x, wide, at, item, items: 1, problems: Number(isProblem(item)), status: item.status, selected: item.number === this.selected };
        if (bars.length < MOST_BARS || open[at].selected) bars.push(open[at]);
      }
      track.replaceChildren(...bars.map((bar) => this.bar(bar)));
      track.setAttribute("aria-label", `${NAMES[place]}: ${lane.items.length} items`);
    });
    this.drawAxis(width, scale);
    this.drawStrip(width, scale);
  }

  bar({ x, wide, at, item, items, problems, status, selected }) {
    if (items > 1) status = problems === items ? "failed" : problems ? "mixed" : "ok";
    const made = el("div", { class: `bar is-${status}${selected ? " selected" : ""}${item.lane === 0 ? ` mark-${item.kind.replace(/[^a-z]/g, "-")}` : ""}` });
    made.dataset.item = item.number;
    made.style.left = `${x}px`;
    made.style.width = `${Math.max(wide, 3)}px`;
    made.style.setProperty("--at", at);
    const text = plain(item.name && item.lane !== 1 ? `${item.name} ${item.title}` : item.title || item.outcome);
    made.title = items > 1 ? `${items} items${problems ? `, ${problems} problems,` : ""} from ${moment(item.start)}: ${text}` : `${item.kind} at ${moment(item.start)}, ${duration((item.end ?? item.start) - item.start)}: ${text}`;
    if (wide > 44 && items === 1) made.textContent = text;
    return made;
  }

  drawAxis(width, scale) {
    const wanted = (this.to - this.from) / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= wanted);
    const ticks = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const tick = el("span", { textContent: at < 100 ? `${Number(at.toFixed(6))} s` : clock(at).replace(/\.0$/, "") });
      tick.style.left = `${(at - this.from) * scale}px`;
      ticks.push(tick);
    }
    this.axis.replaceChildren(...ticks);
  }

  drawStrip(width, scale) {
    const tall = 44;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    const own = this.data.samples.filter((sample) => sample[0] === this.session);
    const columns = new Map();
    let most = 1;
    for (const [, at, , input, output, read, write, cost] of own) {
      if (cost !== null || at < this.from || at > this.to) continue;
      const x = Math.floor(((at - this.from) * scale) / 4) * 4;
      const sum = input + output + read + write;
      if (!columns.has(x) || columns.get(x).sum < sum) columns.set(x, { sum, read, write, input, output });
      most = Math.max(most, sum);
    }
    const parts = { cache_read: "", cache_write: "", input: "", output: "" };
    for (const [x, found] of columns) {
      let y = tall;
      for (const [name, key] of [["cache_read", "read"], ["cache_write", "write"], ["input", "input"], ["output", "output"]]) {
        const high = (found[key] / most) * (tall - 6);
        if (high > 0.2) parts[name] += `M${x} ${y}h3v${-high}h-3z`;
        y -= high;
      }
    }
    for (const [name, path] of Object.entries(parts)) this.paths[name].setAttribute("d", path);
    const costs = own.filter((sample) => sample[7] !== null);
    const highest = costs.reduce((most, sample) => Math.max(most, sample[7]), 1e-9);
    let line = "";
    for (const [, at, , , , , , cost] of costs) {
      const x = (at - this.from) * scale;
      const y = tall - 2 - (cost / highest) * (tall - 8);
      line += line ? `H${x}V${y}` : `M0 ${tall - 2}H${x}V${y}`;
    }
    this.paths.cost.setAttribute("d", line && `${line}H${width}`);
    const usage = this.data.sessions[this.session]?.usage ?? {};
    const given = (usage.input ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0);
    const ratio = given ? Math.round((100 * (usage.cache_read ?? 0)) / given) : 0;
    const cost = this.data.sessions[this.session]?.cost;
    const legend = [["cache_read", "cache read"], ["cache_write", "cache write"], ["input", "input"], ["output", "output"]].map(([name, text]) =>
      el("span", { class: `key use-${name}` }, el("i", {}), `${text} ${count(usage[name] ?? 0)}`));
    this.summary.replaceChildren(...legend, el("span", { class: "key", id: "cache-ratio", textContent: `cache hits ${ratio} %` }),
      el("span", { class: "key use-cost", id: "cost" }, el("i", {}), cost === null || cost === undefined ? "cost unknown" : `cost ${dollars(cost)}`));
    this.drawing.setAttribute("aria-label", `Tokens of ${columns.size} moments, highest ${count(most)}`);
  }

  zoom(factor, middle = this.middle) {
    const span = Math.min(this.seconds, Math.max((this.to - this.from) * factor, this.seconds / 1e5, 0.002));
    let from = middle - (middle - this.from) * (span / (this.to - this.from));
    from = Math.max(0, Math.min(from, this.seconds - span));
    [this.from, this.to] = [from, from + span];
    this.whole = span >= this.seconds;
    this.later();
  }

  /** The selected item, where it can be seen, else the middle. */
  get middle() {
    const start = this.data.items[this.selected]?.start ?? -1;
    return start >= this.from && start <= this.to ? start : (this.from + this.to) / 2;
  }

  pan(part) {
    const span = this.to - this.from;
    const from = Math.max(0, Math.min(this.from + part * span, this.seconds - span));
    [this.from, this.to] = [from, from + span];
    this.later();
  }

  fit() {
    [this.from, this.to] = [0, this.seconds];
    this.whole = true;
    this.later();
  }

  show(item) {
    this.selected = item.number;
    const end = item.end ?? item.start;
    if (end < this.from || item.start > this.to) {
      const span = this.to - this.from;
      const from = Math.max(0, Math.min(item.start - span / 3, this.seconds - span));
      [this.from, this.to] = [from, from + span];
    }
    this.later();
  }

  brush() {
    const area = document.getElementById("timeline");
    const shade = el("div", { id: "brush", hidden: true });
    this.place.append(shade);
    let begin = null;
    const second = (event) => {
      const box = this.rows[0].track.getBoundingClientRect();
      return this.from + (Math.max(0, Math.min(event.clientX - box.left, box.width)) / box.width) * (this.to - this.from);
    };
    area.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest("button") || event.pointerType === "touch") return;
      begin = { at: second(event), x: event.clientX };
    });
    window.addEventListener("pointermove", (event) => {
      if (!begin || Math.abs(event.clientX - begin.x) < 6) return;
      const box = this.place.getBoundingClientRect();
      shade.hidden = false;
      shade.style.left = `${Math.min(begin.x, event.clientX) - box.left}px`;
      shade.style.width = `${Math.abs(event.clientX - begin.x)}px`;
    });
    window.addEventListener("pointerup", (event) => {
      if (!begin) return;
      const from = begin;
      begin = null;
      shade.hidden = true;
      const until = second(event);
      if (Math.abs(event.clientX - from.x) >= 6) {
        [this.from, this.to] = [Math.min(from.at, until), Math.max(from.at, until, Math.min(from.at, until) + 0.001)];
        this.whole = false;
        this.later();
        return;
      }
      const bar = event.target.closest?.(".bar");
      if (bar) this.choose(Number(bar.dataset.item));
    });
    area.addEventListener("dblclick", (event) => {
      if (!event.target.closest("button, .bar")) this.fit();
    });
    area.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey) this.pan(Math.sign(event.deltaY || event.deltaX) * 0.15);
      else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, second(event));
    }, { passive: false });
  }
}
