// The page of approvals: a list that polls, the details of a request, and the forms of its answers.

const byId = (id) => document.getElementById(id);
const EVERY = 1000;
const HIDDEN = 10000;
const LONGEST = 60000;
const OUTCOMES = { allow: "Allowed", deny: "Denied", accept: "Accepted", decline: "Declined", cancel: "Cancelled" };
const STATES = {
  answered: "No call has had the answer yet.", used: "A call had the answer.",
  changed: "The call, or a file that it names, had changed: the answer counted for nothing.",
  lapsed: "The conversation went on without this call.", withdrawn: "The request was taken back.",
};
const KINDS = { tool: "tool", question: "question", plan: "plan", elicitation: "MCP server" };
const PLACES = { session: "in this session", localSettings: "in local settings", projectSettings: "in project settings", userSettings: "in user settings" };
const state = { view: "requests", rows: { requests: [], history: [] }, tags: {}, chosen: "", at: 0, shown: null, busy: false, wait: EVERY, read: 0, drawn: 0 };
let timer = 0;

// -- requests to the server -------------------------------------------------------------------------------------------

function live(text, bad) {
  if (byId("live").textContent !== text) byId("live").textContent = text;
  byId("live").className = bad ? "is-bad" : "";
}

/** Read a list; return whether it is another one than before. */
async function read(name) {
  const known = state.tags[name];
  const answer = await fetch(name, { cache: "no-store", headers: known ? { "If-None-Match": known } : {} });
  if (answer.status === 304) return false;
  if (answer.status === 403) throw new Error("You are not signed in any more");
  if (!answer.ok) throw new Error("Not connected");
  const found = await answer.json();
  state.tags[name] = answer.headers.get("ETag");
  state.rows[name] = found.rows;
  byId("person").textContent = `You answer as ${plain(found.person)}`;
  if (name === "requests") {
    byId("count").textContent = String(found.rows.length + found.more);
    document.title = found.rows.length ? `(${found.rows.length + found.more}) Approvals` : "Approvals";
  }
  return true;
}

async function poll() {
  clearTimeout(timer);
  try {
    const changed = await read("requests");
    if (state.view === "history" && (changed || Date.now() - state.read > 5000)) {
      state.read = Date.now();
      await read("history");
      drawList();
    } else if (changed) drawList();
    const shown = state.shown;
    if (changed && shown?.state === "waiting" && !state.busy && !state.rows.requests.some((row) => row.id === shown.id)) await load(shown.id);
    live("Live", false);
    state.wait = EVERY;
  } catch (error) {
    live(error instanceof TypeError ? "Not connected" : error.message, true);
    state.wait = Math.min(15000, 2 * state.wait);
  }
  clearTimeout(timer);
  timer = setTimeout(poll, document.hidden ? HIDDEN : state.wait);
}

async function load(id) {
  const turn = ++state.drawn;
  const answer = await fetch(`request/${encodeURIComponent(id)}`, { cache: "no-store" });
  const found = answer.ok ? await answer.json() : null;
  if (state.drawn !== turn) return; // something newer was asked for, or is shown: this may be older than an answer
  if (found) draw(found);
  else if (answer.status !== 404) throw new Error("Not connected");
  else {
    state.shown = null;
    byId("panel").replaceChildren(back(), el("p", { class: "quiet start", textContent: "There is no such request that you may see." }));
  }
}

/** Send an answer. `input` is JSON that goes out as it was written. */
async function send(given, input) {
  const shown = state.shown;
  if (!shown || shown.state !== "waiting" || state.busy) return;
  state.busy = true;
  const body = input === undefined ? JSON.stringify(given) : `{"action":"allow","input":${input}}`;
  try {
    const answer = await fetch(`request/${encodeURIComponent(shown.id)}`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (answer.ok || answer.status === 409) {
      const found = await answer.json();
      if (state.chosen === shown.id) {
        state.drawn += 1;
        draw(found.request, found.error);
        byId("panel").focus();
      }
    } else problem((await answer.text()).trim());
  } catch {
    problem("The answer was not delivered: there is no connection. Try again.");
  }
  state.busy = false;
  poll();
}

function problem(text) {
  byId("problem")?.remove();
  byId("panel").querySelector("form")?.prepend(banner(text, "is-bad", "problem"));
}

// -- the list ---------------------------------------------------------------------------------------------------------

function time(seconds) {
  return new Date(seconds * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "medium" });
}

function drawList() {
  const rows = state.rows[state.view];
  const focused = document.activeElement?.dataset?.id;
  byId("list").replaceChildren(...rows.map((row) => {
    const when = row.state === "waiting" ? `asked ${time(row.asked_at)}, until ${time(row.deadline)}` : outcome(row);
    const button = el("button", { type: "button", "aria-current": String(row.id === state.chosen) },
      el("b", { textContent: `${plain(row.tool)} · ${KINDS[row.kind]}` }), el("span", { class: "what", textContent: plain(row.summary) }),
      el("span", { class: "quiet", textContent: when }), el("span", { class: "quiet", textContent: plain(row.conversation) }));
    button.dataset.id = row.id;
    button.addEventListener("click", () => choose(row.id));
    return el("li", {}, button);
  }));
  byId("empty").hidden = rows.length > 0;
  byId("empty").textContent = state.view === "requests" ? "No request waits for you." : "No request has been answered yet.";
  if (focused) byId("list").querySelector(`button[data-id="${CSS.escape(focused)}"]`)?.focus();
}

function outcome(row) {
  const by = row.answered_by === null ? "" : ` by ${plain(row.answered_by)}, ${time(row.answered_at)}`;
  return row.outcome ? `${OUTCOMES[row.outcome]}${by}` : "Withdrawn";
}

function choose(id) {
  state.chosen = id;
  state.shown = null;
  state.at = Math.max(0, state.rows[state.view].findIndex((row) => row.id === id));
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  document.body.classList.add("detail");
  for (const button of byId("list").querySelectorAll("button")) button.setAttribute("aria-current", String(button.dataset.id === id));
  byId("list").querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  byId("panel").replaceChildren(back());
  return load(id).catch(() => live("Not connected", true));
}

function move(by) {
  const rows = state.rows[state.view];
  const at = rows.findIndex((row) => row.id === state.chosen);
  const to = at >= 0 ? at + by : by > 0 ? state.at : state.at - 1; // an answered one has left its place to the next
  const next = rows[Math.max(0, Math.min(rows.length - 1, to))];
  if (next && next.id !== state.chosen) choose(next.id);
}

function setView(view) {
  state.view = view;
  state.read = 0;
  for (const name of ["requests", "history"]) byId(`tab-${name}`).setAttribute("aria-pressed", String(name === view));
  document.body.classList.remove("detail");
  drawList();
  poll();
}

// -- the details ------------------------------------------------------------------------------------------------------

function back() {
  const button = el("button", { id: "back", type: "button", textContent: "← Requests" });
  button.addEventListener("click", () => document.body.classList.remove("detail"));
  return button;
}

function banner(text, kind, id) {
  const made = el("p", { class: `banner ${kind}`, role: kind === "is-bad" ? "alert" : "status" });
  if (id) made.id = id;
  appendText(made, text);
  return made;
}

function section(title, ...parts) {
  return el("div", { class: "sec" }, el("h3", { textContent: plain(title) }), ...parts);
}

function table(rows) {
  const cells = rows.filter(([, value]) => value !== undefined && value !== null && value !== "").flatMap(([name, value]) => {
    const cell = el("dd", {});
    appendText(cell, pretty(value));
    return [el("dt", { textContent: plain(name) }), cell];
  });
  return cells.length ? el("dl", {}, ...cells) : null;
}

/** Return the values of JSON, with numbers as they are written: those of JavaScript are not exact. */
function values(text) {
  return JSON.parse(text, (_, value, context) => (typeof value === "number" && context?.source !== undefined ? context.source : value));
}

const CHANGES = {
  Edit: (input) => [["old_string", "new_string"], [[input.old_string, input.new_string]]],
  Write: (input) => [["content"], [["", input.content]]],
  NotebookEdit: (input) => [["new_source"], [["", input.new_source]]],
  MultiEdit: (input) => [["edits"], Array.isArray(input.edits) ? input.edits.map((edit) => (
    Object.keys(edit ?? {}).every((name) => ["old_string", "new_string"].includes(name)) ? [edit?.old_string, edit?.new_string] : [])) : [[]]],
};

/** Return the names of fields that a comparison shows whole, and the comparison; nothing for an input of another shape. */
function changes(request, input) {
  const [names, edits] = CHANGES[request.tool]?.(input) ?? [[], []];
  if (!edits.length || !edits.flat().length || edits.some((edit) => edit.length !== 2 || edit.some((text) => typeof text !== "string"))) return [[], null];
  const made = new Changes("the exact input");
  for (const [place, [before, after]] of edits.entries()) {
    if (edits.length > 1) made.part(`edit ${place + 1} of ${edits.length}`);
    made.add(before, after);
  }
  return [names, section(request.tool === "Write" ? "New content" : "Changes", ...made.finished(pretty(input.file_path ?? input.notebook_path ?? "")))];
}

/** Return what is asked for, readable and complete. */
function asked(request) {
  const input = values(request.text);
  if (request.kind === "question") return [];
  if (request.kind === "elicitation") return [section("Message", textBlock(pretty(input.message ?? ""), "Message", "prose")), request.details.url ? section("Address", textBlock(request.details.url, "Address")) : null];
  const [hidden, compared] = request.kind === "tool" && Object.hasOwn(CHANGES, request.tool) ? changes(request, input) : [[], null];
  const parts = [compared];
  const rows = [];
  for (const [name, value] of Object.entries(input)) {
    if (hidden.includes(name)) continue;
    const text = pretty(value);
    if (name === "command" || name === "plan" || text.length > 120 || text.includes("\n")) parts.push(section(name, textBlock(text, name, name === "plan" ? "prose" : "")));
    else rows.push([name, text]);
  }
  return [...parts, rows.length ? section("Input", table(rows)) : null];
}

function follows(request) {
  const before = request.follows;
  if (!before) return null;
  const what = `An earlier request of this conversation was ${before.outcome ? outcome(before).toLowerCase() : before.state}; its answer does not count here.`;
  if (before.text === request.text) return section("Asked again", el("p", { textContent: `${what} The input is the same: a file that it names has changed, or the call is a second one.` }));
  const made = new Changes("the exact input");
  made.add(before.text, request.text);
  return section("Difference to the earlier request", el("p", { textContent: what }), ...made.finished(`${before.tool} and ${request.tool}`));
}

function draw(request, error) {
  state.shown = request;
  const waits = request.state === "waiting";
  const status = el("span", { class: `badge status ${waits ? "is-open" : request.outcome === "deny" ? "is-denied" : "is-ok"}`, textContent: request.state });
  const reason = el("p", { class: "reason" });
  appendText(reason, request.reason);
  const facts = table([["conversation", request.conversation], ["session", request.session_id], ["asked", time(request.asked_at)], ["until", waits ? time(request.deadline) : null],
    ["may answer", request.approvers?.join(", ")], ...Object.entries(request.tags), ...Object.entries(request.details), ["call", request.call]]);
  const answer = request.answer === null ? null : section("Answer", textBlock(pretty(request.answer), "Answer"));
  byId("panel").replaceChildren(...[
    back(), el("h2", {}, plain(request.tool), el("span", { class: "badge", textContent: KINDS[request.kind] }), status),
    error ? banner(error, "is-bad") : null, waits ? null : banner(`${outcome(request)}. ${STATES[request.state] ?? ""}`, "is-ok"),
    request.reason ? section("Reason", reason) : null, ...asked(request), follows(request), waits ? form(request) : answer, section("Request", facts),
    el("details", {}, el("summary", { textContent: "Exact input (JSON)" }), textBlock(request.text, "Exact input")),
  ].filter((part) => part));
  byId("panel").scrollTop = 0;
}

// -- the forms --------------------------------------------------------------------------------------------------------

function button(text, kind, action) {
  const made = el("button", { type: "button", class: kind, textContent: text });
  made.addEventListener("click", action);
  return made;
}

function form(request) {
  const made = el("form", { "aria-label": "Answer" });
  const parts = request.kind === "question" ? questions(request) : request.kind === "elicitation" ? fields(request) : call(request);
  made.append(...parts);
  made.addEventListener("submit", (event) => event.preventDefault());
  return made;
}

function denial() {
  const message = el("input", { type: "text", id: "message", "aria-label": "Message to the model", placeholder: "Message to the model", maxLength: 10000, autocomplete: "off" });
  const ends = el("input", { type: "checkbox", id: "ends" });
  const deny = () => send({ action: "deny", message: message.value, interrupt: ends.checked });
  message.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) deny(); });
  return el("div", { class: "row" }, message, el("label", {}, ends, " End the turn"), button("Deny", "no-way", deny));
}

/** Return JSON that means the same, with characters that hide or reorder others as escapes. */
function escapes(text) {
  return text.replace(UNSAFE, (found) => found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
}

function call(request) {
  const parts = [el("div", { class: "row" }, button("Allow", "yes", () => send({ action: "allow" })))];
  if (request.rules.length) {
    const place = el("select", { id: "place", "aria-label": "Where the rules are kept" }, ...Object.entries(PLACES).map(([value, text]) => el("option", { value, textContent: text })));
    const rules = el("code", {});
    appendText(rules, request.rules.join(", "));
    parts.push(el("div", { class: "row" }, button("Always allow", "always", () => send({ action: "always", destination: place.value })), rules, place));
  }
  parts.push(denial());
  if (new Blob([request.text]).size > LONGEST) return [...parts, el("p", { class: "quiet", textContent: "The input is too long to be edited here." })];
  const text = el("textarea", { id: "edited", value: escapes(request.text), "aria-label": "Input as JSON", spellcheck: false });
  const edit = el("details", { id: "edit" }, el("summary", { textContent: "Edit the input" }), text, el("div", { class: "row" }, button("Allow with this input", "edited", () => {
    try {
      const found = JSON.parse(text.value);
      if (found === null || typeof found !== "object" || Array.isArray(found)) throw new SyntaxError("it must be an object");
    } catch (error) {
      return problem(`The input is not valid JSON: ${error.message}`);
    }
    return send(null, text.value);
  })));
  return [...parts, edit];
}

function questions(request) {
  const asked = JSON.parse(request.text).questions;
  const parts = [];
  const found = [];
  const objects = (list) => (Array.isArray(list) ? list.filter((each) => each !== null && typeof each === "object") : []);
  for (const [place, each] of objects(asked).entries()) {
    const kind = each.multiSelect ? "checkbox" : "radio";
    const options = objects(each.options).map((option) => {
      const input = el("input", { type: kind, name: `question-${place}`, value: option.label });
      const label = el("label", { class: "choice" }, input, ` ${plain(option.label)}`);
      if (option.description) label.append(el("span", { class: "quiet", textContent: ` ${plain(option.description)}` }));
      if (option.preview) label.append(textBlock(pretty(option.preview), "Preview"));
      return [input, label];
    });
    const other = el("input", { type: "text", "aria-label": `Another answer to: ${plain(each.question)}`, placeholder: "Another answer", maxLength: 10000, autocomplete: "off" });
    if (kind === "radio") other.addEventListener("input", () => { if (other.value) for (const [input] of options) input.checked = false; });
    parts.push(el("fieldset", {}, el("legend", { textContent: plain(each.question) }), ...options.map(([, label]) => label), other));
    found.push(() => [each.question, [...options.filter(([input]) => input.checked).map(([input]) => input.value), ...(other.value.trim() ? [other.value.trim()] : [])].join(", ")]);
  }
  const answer = () => {
    const answers = found.map((each) => each());
    const open = answers.find(([, text]) => !text);
    if (open) return problem(`Answer each question first: ${open[0]}`);
    return send({ action: "allow", answers: Object.fromEntries(answers) });
  };
  return [...parts, el("div", { class: "row" }, button("Send the answers", "yes", answer)), denial()];
}

/** Return a field of a form of an MCP server: its parts, and the function that returns its value; undefined is no value. */
function field(name, schema, required) {
  const title = `${plain(schema.title ?? name)}${required ? " *" : ""}`;
  const list = (found) => (Array.isArray(found) ? found : undefined);
  const choices = (of) => list(of?.enum)?.map((value, at) => [value, of.enumNames?.[at] ?? value])
    ?? list(of?.oneOf ?? of?.anyOf)?.filter((each) => each?.const !== undefined).map((each) => [each.const, each.title ?? each.const]);
  const hint = schema.description ? el("span", { class: "quiet", textContent: plain(schema.description) }) : null;
  if (schema.type === "boolean") {
    const input = el("input", { type: "checkbox", checked: schema.default === true });
    return [el("label", { class: "choice" }, input, ` ${title} `, hint), () => input.checked];
  }
  const many = schema.type === "array" ? choices(schema.items) : undefined;
  if (many) {
    const inputs = many.map(([value]) => el("input", { type: "checkbox", checked: Array.isArray(schema.default) && schema.default.includes(value) }));
    return [el("fieldset", {}, el("legend", { textContent: title }), hint, ...many.map(([, text], at) => el("label", { class: "choice" }, inputs[at], ` ${plain(text)}`))),
      () => many.filter((_, at) => inputs[at].checked).map(([value]) => value)];
  }
  const one = choices(schema);
  const number = schema.type === "number" || schema.type === "integer";
  const simple = number || schema.type === "string";
  const input = one ? el("select", {}, el("option", { value: "", textContent: "—" }), ...one.map(([value, text], at) => el("option", { value: String(at), textContent: plain(text), selected: value === schema.default })))
    : simple ? el("input", { type: number ? "number" : "text", step: number ? (schema.type === "integer" ? "1" : "any") : undefined, value: schema.default ?? "", autocomplete: "off" })
      : el("textarea", { placeholder: "JSON" });
  const value = () => {
    if (input.value === "") return undefined;
    if (one) return one[Number(input.value)][0];
    return number ? Number(input.value) : simple ? input.value : JSON.parse(input.value);
  };
  return [el("label", { class: "field" }, el("span", { textContent: title }), input, hint), value];
}

function fields(request) {
  const schema = JSON.parse(request.text).schema ?? {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const parts = [];
  const found = [];
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    const [part, value] = field(name, each ?? {}, required.includes(name));
    parts.push(part);
    found.push([name, value]);
  }
  const accept = () => {
    try {
      const content = found.map(([name, value]) => [name, value()]).filter(([, value]) => value !== undefined);
      const open = required.find((name) => !content.some(([known]) => known === name));
      if (open) return problem(`A value is missing: ${open}`);
      return send(found.length ? { action: "accept", content: Object.fromEntries(content) } : { action: "accept" });
    } catch (error) {
      return problem(`A value is not valid JSON: ${error.message}`);
    }
  };
  return [...parts, el("div", { class: "row" }, button("Accept", "yes", accept), button("Decline", "no-way", () => send({ action: "decline" })), button("Cancel", "cancel", () => send({ action: "cancel" })))];
}

// -- keys -------------------------------------------------------------------------------------------------------------

const KEYS = [["j k", "next and previous request"], ["Enter", "go to the request"], ["a", "allow, or send the form"], ["d", "deny: write a message, then Enter"],
  ["e", "edit the input"], ["w h", "waiting requests, history"], ["Escape", "leave a field; back to the list"], ["?", "this help"]];

function help() {
  const dialog = byId("keys");
  const rows = KEYS.flatMap(([key, text]) => [el("dt", {}, el("kbd", { textContent: key })), el("dd", { textContent: text })]);
  dialog.replaceChildren(el("h2", { id: "keys-title", textContent: "Keyboard" }), el("dl", {}, ...rows), button("Close", "", () => dialog.close()));
  dialog.showModal();
}

const inForm = (selector) => byId("panel").querySelector(`form ${selector}`);
const ACTIONS = {
  j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), "?": help, w: () => setView("requests"), h: () => setView("history"),
  a: () => inForm(".yes")?.click(), d: () => (inForm("#message") ?? inForm(".no-way"))?.focus(),
  e: () => { if (byId("edit")) { byId("edit").open = true; byId("edited").focus(); } },
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || byId("keys").open) return;
  const typing = event.target.matches("input[type=text], input[type=number], select, textarea");
  if (event.key === "Escape") {
    if (typing) byId("panel").focus();
    else document.body.classList.remove("detail");
  } else if (event.key === "Enter" && event.target === document.body) byId("panel").focus();
  else if (!typing && !event.repeat && Object.hasOwn(ACTIONS, event.key) && !(event.key.startsWith("Arrow") && byId("panel").contains(event.target))) {
    event.preventDefault();
    ACTIONS[event.key]();
  } else if (!typing && event.repeat && (event.key === "j" || event.key === "k")) ACTIONS[event.key]();
});

byId("help").addEventListener("click", help);
byId("tab-requests").addEventListener("click", () => setView("requests"));
byId("tab-history").addEventListener("click", () => setView("history"));
addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
addEventListener("hashchange", open);

function open() {
  let id = "";
  try {
    id = decodeURIComponent(location.hash.slice(1));
  } catch { /* not one of this page */ }
  if (id && id !== state.chosen) return choose(id);
  return undefined;
}

await poll();
await open();
document.documentElement.dataset.ready = "true";
