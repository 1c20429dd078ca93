// The page: what is chosen, filters, search, keys, links.

const config = JSON.parse(document.getElementById("config").textContent);
const data = new Data(config);
const byId = (id) => document.getElementById(id);
const state = { session: 0, view: "items", lanes: new Set(), problems: false, query: "", hits: null, item: -1, line: -1 };
const panel = new Panel(data, (number) => openItem(number, true));
const lanes = new Lanes(data, (number) => openItem(number, true));
const list = new VirtualList(byId("list"), drawRow, choose);
list.tail = data.live;

function drawRow(row) {
  if (state.view !== "items") return drawLine(row);
  const item = data.items[row];
  const made = el("div", { class: `item lane-${LANES[item.lane]} is-${item.status} depth-${item.depth}` },
    el("span", { class: "at", textContent: clock(item.start) }),
    el("span", { class: "kind", textContent: item.kind }),
    el("span", { class: "what" }, item.name && item.lane !== 1 ? el("b", { textContent: plain(item.name) + " " }) : null, plain(item.title || (item.lane === 1 ? item.outcome : ""))),
    el("span", { class: "outcome", textContent: outcome(item) }),
    el("span", { class: "took", textContent: item.end === null ? "…" : item.end > item.start ? duration(item.end - item.start) : "" }));
  return made;
}

function outcome(item) {
  if (item.status === "denied") return plain(item.decision || item.outcome);
  if (item.status === "open") return "no result";
  return plain(item.lane === 1 && !item.title ? "" : item.outcome);
}

function drawLine(number) {
  const line = data.line(number);
  const item = data.lineItems.get(number);
  return el("div", { class: `item frame dir-${line.direction}` },
    el("span", { class: "at", textContent: clock(line.at) }),
    el("span", { class: `kind dir ${line.direction}`, textContent: `${ARROWS[line.direction]} ${DIRECTIONS[line.direction]}` }),
    el("span", { class: "what", textContent: plain(line.label) }),
    el("span", { class: "outcome", textContent: item === undefined ? "" : plain(`${data.items[item].kind} ${data.items[item].name} ${data.items[item].title}`) }),
    el("span", { class: "took", textContent: bytes(line.size) }));
}

function choose(row) {
  if (state.view === "items") openItem(row, false);
  else openLine(row);
}

function hash(text) {
  history.replaceState(null, "", `#${text}`);
}

function openItem(number, move) {
  const item = data.items[number];
  if (!item) return;
  if (item.session !== state.session) setSession(item.session);
  state.item = number;
  state.line = -1;
  hash(`item-${number}`);
  lanes.show(item);
  if (move) {
    if (state.view !== "items") setView("items");
    let at = list.rows.indexOf(number);
    if (at < 0) {
      clearFilters();
      at = list.rows.indexOf(number);
    }
    list.select(at, false);
  }
  panel.item(number).catch(failed);
}

function openLine(number) {
  state.line = number;
  hash(`line-${number + 1}`);
  const item = data.lineItems.get(number);
  if (item !== undefined) lanes.show(data.items[item]);
  panel.line(number).catch(failed);
}

function openStop() {
  hash("stop");
  panel.stop(state.session);
}

function failed(error) {
  panel.begin("is-bad", "error");
  panel.text("This part could not be read", String(error?.message ?? error), "bad");
}

function setSession(session) {
  state.session = session;
  byId("session").value = String(session);
  lanes.set(session);
  drawChips();
  drawFilters();
  refresh();
}

function setView(view) {
  state.view = view;
  for (const name of ["items", "frames", "stderr"]) {
    byId(`tab-${name}`).setAttribute("aria-selected", String(name === view));
    byId(`tab-${name}`).tabIndex = name === view ? 0 : -1;
  }
  byId("list").setAttribute("aria-label", { items: "Items", frames: "Raw frames", stderr: "stderr" }[view]);
  byId("filters").hidden = view !== "items";
  refresh();
}

function clearFilters() {
  state.lanes.clear();
  state.problems = false;
  state.query = "";
  state.hits = null;
  byId("search").value = "";
  drawFilters();
  refresh();
}

const haystacks = [];
function haystack(number) {
  const item = data.items[number];
  if (haystacks[number]?.item !== item) haystacks[number] = { item, text: `${item.kind} ${item.name} ${item.title} ${item.outcome} ${item.decision}`.toLowerCase() };
  return haystacks[number].text;
}

function isProblem(item) {
  return item.status === "failed" || item.status === "denied" || item.status === "open";
}

function rowsNow() {
  const query = state.query.toLowerCase();
  if (state.view === "items") {
    return (data.ofSession[state.session] ?? []).filter((number) => {
      const item = data.items[number];
      if (state.lanes.size && !state.lanes.has(item.lane)) return false;
      if (state.problems && !isProblem(item)) return false;
      return !query || haystack(number).includes(query) || (state.hits && item.refs.some(([, line]) => state.hits.has(line)));
    });
  }
  const rows = [];
  const table = data.table;
  const errors = data.labels.findIndex(([direction, label]) => direction === "other" && label === "stderr");
  const labels = data.labels.map(([, label]) => label.toLowerCase().includes(query));
  for (let number = 0; number < data.count; number++) {
    if (table[4 * number] !== state.session) continue;
    if (state.view === "stderr" && table[4 * number + 2] !== errors) continue;
    if (query && !labels[table[4 * number + 2]] && !state.hits?.has(number)) continue;
    rows.push(number);
  }
  return rows;
}

function refresh() {
  const rows = rowsNow();
  list.set(rows, state.view === "items" ? state.item : state.line);
  const all = state.view === "items" ? (data.ofSession[state.session] ?? []).length : data.count;
  const text = rows.length === all || state.view === "stderr" ? `${count(rows.length)}` : `${count(rows.length)} of ${count(all)}`;
  byId("found").textContent = text + (state.searching ?? "");
  byId("list").classList.toggle("empty", rows.length === 0);
  byId("list").dataset.empty = state.view === "stderr" ? "Nothing was written to stderr, or it is not recorded." : state.query || state.lanes.size || state.problems ? "Nothing matches. Press Escape to show everything." : "Nothing was recorded.";
}

let searchTurn = 0;
let searchTimer = 0;
function search(text) {
  state.query = text.trim();
  state.hits = null;
  const turn = ++searchTurn;
  clearTimeout(searchTimer);
  state.searching = "";
  refresh();
  if (state.query.length >= 2) searchTimer = setTimeout(() => searchLines(turn).catch(failed), 150);
}

/** Look for the text in all lines, a chunk at a time. */
async function searchLines(turn) {
  const quoted = JSON.stringify(state.query).slice(1, -1);
  const ascii = quoted.replace(/[^\x00-\x7f]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const wanted = [...new Set([quoted.toLowerCase(), ascii.toLowerCase()])];
  const hits = new Set();
  state.hits = hits;
  const chunks = data.chunks;
  let shown = performance.now();
  for (let number = 0; number < chunks; number++) {
    const lines = await data.chunk(number, false);
    if (turn !== searchTurn) return;
    lines.forEach((line, place) => {
      const lower = line.toLowerCase();
      if (wanted.some((text) => lower.includes(text))) hits.add(data.starts[number] + place);
    });
    if (performance.now() - shown > 120) {
      state.searching = ` · searching ${Math.round((100 * (number + 1)) / chunks)} %`;
      refresh();
      shown = performance.now();
      await new Promise((resolve) => setTimeout(resolve));
    }
    if (turn !== searchTurn) return;
  }
  state.searching = "";
  refresh();
}

function chip(name, value, kind = "") {
  return value === "" || value === null || value === undefined ? null : el("span", { class: `chip ${kind}` }, el("b", { textContent: plain(value) }), ` ${name}`);
}

function drawChips() {
  const info = data.sessions[state.session];
  if (!info) return byId("chips").replaceChildren();
  const counts = info.counts;
  const many = (kind, one, more) => (counts[kind] ? chip(counts[kind] === 1 ? one : more, count(counts[kind])) : null);
  const usage = info.usage;
  const problems = (data.ofSession[state.session] ?? []).filter((number) => isProblem(data.items[number])).length;
  const model = info.facts.find(([name]) => name === "model")?.[1];
  byId("chips").replaceChildren(...[
    chip("", duration(info.seconds)), many("prompt", "prompt", "prompts"),
    chip("tool calls", count((counts.tool ?? 0) + (counts.subagent ?? 0))),
    problems ? chip(problems === 1 ? "problem" : "problems", count(problems), "bad") : null,
    chip("tokens", count((usage.input ?? 0) + (usage.output ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0))),
    info.cost === null || info.cost === undefined ? null : chip("", dollars(info.cost)),
    model ? chip("", model, "wide") : null].filter(Boolean));
  const stop = info.stop;
  byId("why").className = `is-${stop?.level ?? "open"}`;
  byId("why").title = `${plain(stop?.title ?? "")} (w)`;
}

function drawFilters() {
  const counts = LANES.map(() => 0);
  let problems = 0;
  for (const number of data.ofSession[state.session] ?? []) {
    counts[data.items[number].lane] += 1;
    if (isProblem(data.items[number])) problems += 1;
  }
  const focused = document.activeElement?.dataset?.filter;
  const button = (name, text, number, pressed, kind) => {
    const made = el("button", { type: "button", class: `filter ${kind}`, "aria-pressed": String(pressed), title: `${text} (${name === "problems" ? "p" : Number(name) + 1})` },
      el("i", { "aria-hidden": "true" }), text, el("span", { class: "number", textContent: count(number) }));
    made.dataset.filter = name;
    made.hidden = number === 0 && !pressed;
    made.addEventListener("click", () => toggle(name));
    return made;
  };
  byId("filters").replaceChildren(...LANES.map((name, lane) => button(String(lane), NAMES[lane], counts[lane], state.lanes.has(lane), `lane-${name}`)),
    button("problems", "Problems", problems, state.problems, "problems"));
  if (focused) byId("filters").querySelector(`[data-filter="${CSS.escape(focused)}"]`)?.focus();
}

function toggle(name) {
  if (name === "problems") state.problems = !state.problems;
  else if (!state.lanes.delete(Number(name))) state.lanes.add(Number(name));
  drawFilters();
  refresh();
}

function nextProblem(step) {
  const rows = list.rows;
  if (state.view !== "items") setView("items");
  for (let tries = 1, at = list.active; tries <= rows.length; tries++) {
    at = (at + step + rows.length) % rows.length;
    if (isProblem(data.items[rows[at]])) return list.select(at, true);
  }
}

// -- theme ------------------------------------------------------------------------------------------------------------

const THEMES = ["system", "light", "dark"];
function theme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  try {
    localStorage.setItem("hackamore-trace-theme", name);
  } catch { /* a page from a file may have no storage */ }
}
function nextTheme() {
  theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]);
}

// -- keys -------------------------------------------------------------------------------------------------------------

const KEYS = [
  ["↓ ↑ or j k", "next and previous row"], ["PgDn PgUp Home End", "move in the list"], ["Enter", "go to the details"], ["Escape", "back to the list; then show everything"],
  ["/", "search"], ["e E", "next and previous problem"], ["w", "why did it stop?"], ["i f s", "items, raw frames, stderr"],
  ["1 to 7", "show only a lane; 0 shows all"], ["p", "show only problems"], ["+ − =", "zoom in, out, whole session"], ["← →", "move in time"],
  ["[ ]", "previous and next session"], ["t", "theme"], ["?", "this help"]];

function help() {
  const dialog = byId("keys");
  if (dialog.open) return dialog.close();
  const close = el("button", { type: "button", textContent: "Close" });
  close.addEventListener("click", () => dialog.close());
  const rows = KEYS.flatMap(([key, text]) => [el("dt", {}, el("kbd", { textContent: key })), el("dd", { textContent: text })]);
  dialog.replaceChildren(el("h2", { id: "keys-title", textContent: "Keyboard" }), el("dl", {}, ...rows),
    el("p", { class: "quiet", textContent: "In the timeline: drag to zoom, double-click for the whole session, Ctrl + wheel to zoom, Shift + wheel to move." }), close);
  dialog.showModal();
}

function move(by) {
  list.select(list.active < 0 ? (by > 0 ? 0 : list.rows.length - 1) : list.active + by, true);
}

const ACTIONS = {
  "/": () => byId("search").focus(), "?": help, j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1),
  PageDown: () => move(Math.max(1, Math.floor(byId("list").clientHeight / list.height) - 1)), PageUp: () => move(-Math.max(1, Math.floor(byId("list").clientHeight / list.height) - 1)),
  Home: () => list.select(0, true), End: () => list.select(list.rows.length - 1, true),
  Enter: () => { if (list.active >= 0) { choose(list.rows[list.active]); byId("panel").focus(); } },
  e: () => nextProblem(1), E: () => nextProblem(-1), w: openStop, i: () => setView("items"), f: () => setView("frames"), s: () => setView("stderr"),
  p: () => toggle("problems"), 0: () => { state.lanes.clear(); drawFilters(); refresh(); }, "+": () => lanes.zoom(0.6), "-": () => lanes.zoom(1.6), "=": () => lanes.fit(),
  ArrowLeft: () => lanes.pan(-0.2), ArrowRight: () => lanes.pan(0.2), t: nextTheme,
  "[": () => state.session > 0 && setSession(state.session - 1), "]": () => state.session < data.sessions.length - 1 && setSession(state.session + 1),
};
for (let lane = 0; lane < LANES.length; lane++) ACTIONS[lane + 1] = () => toggle(String(lane));

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const target = event.target;
  const typing = target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (document.activeElement === byId("search") || byId("panel").contains(document.activeElement) || document.body.classList.contains("detail") && innerWidth < 900) {
      document.body.classList.remove("detail");
      byId("list").focus();
    } else clearFilters();
    return;
  }
  if (typing) {
    if (target.id === "search" && (event.key === "Enter" || event.key === "ArrowDown")) {
      event.preventDefault();
      byId("list").focus();
      list.select(0, true);
    }
    return;
  }
  if (target.closest("[role=tablist]") && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
    const views = ["items", "frames", "stderr"];
    setView(views[(views.indexOf(state.view) + (event.key === "ArrowRight" ? 1 : 2)) % 3]);
    byId(`tab-${state.view}`).focus();
    return event.preventDefault();
  }
  if (target.closest("button, summary") && (event.key === "Enter" || event.key === " ")) return;
  const scrolls = target.closest("pre, .diff, #panel") && /^(Arrow|Page|Home|End)/.test(event.key);
  if (scrolls || !Object.hasOwn(ACTIONS, event.key)) return;
  event.preventDefault();
  ACTIONS[event.key]();
});

// -- start ------------------------------------------------------------------------------------------------------------

function follow() {
  const found = /^#(item|line)-(\d{1,9})$/.exec(location.hash);
  if (location.hash === "#stop") return openStop();
  if (!found) return undefined;
  const number = Number(found[2]);
  if (found[1] === "item") return openItem(number, true);
  if (number < 1 || number > data.count) return undefined;
  const { session } = data.line(number - 1);
  if (session !== state.session) setSession(session);
  setView("frames");
  state.line = number - 1;
  list.select(list.rows.indexOf(number - 1), true);
  return undefined;
}

function drawSessions() {
  byId("sessions").hidden = data.sessions.length < 2;
  byId("session").replaceChildren(...data.sessions.map((info, number) => el("option", { value: String(number), textContent: plain(`${number + 1}: ${info.name}, ${duration(info.seconds)}${info.failed ? `, ${info.failed} problems` : ""}`) })));
  byId("session").value = String(state.session);
}

function live(text, bad = false) {
  byId("live").hidden = false;
  byId("live").textContent = text;
  byId("live").className = bad ? "is-bad" : "is-open";
}

async function watch() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, data.more ? 0 : 700));
    if (document.hidden && !data.more) continue;
    try {
      const changed = await data.poll();
      live("Live");
      if (!changed) continue;
      drawSessions();
      lanes.set(state.session);
      drawChips();
      drawFilters();
      refresh();
    } catch (error) {
      live(`Not connected: ${error.message}`, true);
      await new Promise((resolve) => setTimeout(resolve, 3000));
    }
  }
}

let stored = "system";
try {
  stored = localStorage.getItem("hackamore-trace-theme") ?? "system";
} catch { /* no storage */ }
theme(THEMES.includes(stored) ? stored : "system");
byId("theme").addEventListener("click", nextTheme);
byId("help").addEventListener("click", help);
byId("why").addEventListener("click", openStop);
byId("zoom-in").addEventListener("click", () => lanes.zoom(0.6));
byId("zoom-out").addEventListener("click", () => lanes.zoom(1.6));
byId("zoom-fit").addEventListener("click", () => lanes.fit());
byId("session").addEventListener("change", (event) => setSession(Number(event.target.value)));
byId("search").addEventListener("input", (event) => search(event.target.value));
for (const name of ["items", "frames", "stderr"]) byId(`tab-${name}`).addEventListener("click", () => setView(name));
addEventListener("hashchange", follow);

try {
  await data.load();
  drawSessions();
  setSession(0);
  panel.stop(0);
  follow();
  if (!location.hash) document.body.classList.remove("detail");
  document.documentElement.dataset.ready = "true";
  performance.mark("ready");
  if (data.live) {
    live("Live");
    watch();
  }
} catch (error) {
  document.documentElement.dataset.ready = "failed";
  failed(error);
}
