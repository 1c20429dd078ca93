// The details of an item, a line, or the reason why a session stopped.

const EDITS = new Set(["Edit", "Write", "MultiEdit", "NotebookEdit"]);

class Panel {
  constructor(data, go) {
    this.data = data;
    this.go = go;
    this.place = document.getElementById("panel");
    this.turn = 0;
  }

  /** Show new content; what is still being read for older content is dropped. */
  begin(kind, name, ...parts) {
    this.turn += 1;
    const back = el("button", { type: "button", class: "back", textContent: "← List" });
    back.addEventListener("click", () => this.close());
    const copy = el("button", { type: "button", class: "copy-link", textContent: "Copy link" });
    copy.addEventListener("click", () => copyText(location.href, copy));
    this.head = el("div", { class: "head" }, back, el("span", { class: `badge ${kind}`, textContent: name }), ...parts, copy);
    this.body = el("div", { class: "body" });
    this.place.replaceChildren(this.head, this.body);
    this.place.scrollTop = 0;
    document.body.classList.add("detail");
    return this.turn;
  }

  close() {
    document.body.classList.remove("detail");
    document.getElementById("list").focus();
  }

  section(title, ...children) {
    const made = el("section", { class: "sec", id: `sec-${title.toLowerCase().replace(/[^a-z]+/g, "-")}` },
      el("h3", { textContent: title }), ...children);
    this.body.append(made);
    return made;
  }

  text(title, text, kind = "") {
    if (text === "" || text === undefined || text === null) return;
    const copy = el("button", { type: "button", class: "copy", textContent: "Copy" });
    copy.addEventListener("click", () => copyText(text, copy));
    const made = this.section(title, textBlock(text, title, kind));
    made.querySelector("h3").append(el("span", { class: "quiet", textContent: bytes(text.length) }), copy);
  }

  table(title, rows) {
    const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
    if (!shown.length) return;
    const list = el("dl", {});
    for (const [name, value] of shown) {
      const cell = el("dd", {});
      if (value instanceof Node) cell.append(value);
      else appendText(cell, String(value));
      list.append(el("dt", { textContent: plain(name) }), cell);
    }
    this.section(title, list);
  }

  link(number, text) {
    const made = el("button", { type: "button", class: "link", textContent: plain(text) });
    made.addEventListener("click", () => this.go(number));
    return made;
  }

  async item(number) {
    const item = this.data.items[number];
    const took = item.end === null ? "open" : duration(item.end - item.start);
    const turn = this.begin(`lane-${LANES[item.lane]}`, item.kind, el("strong", { textContent: plain(item.name) }),
      el("span", { class: `status is-${item.status}`, textContent: STATUS[item.status] ?? item.status }),
      el("span", { class: "quiet", textContent: `${moment(item.start)} · ${took}` }));
    this.body.append(el("h2", { textContent: plain(item.title || item.name || item.kind) }));
    if (item.parent >= 0) {
      const above = this.data.items[item.parent];
      this.body.append(el("p", { class: "part-of" }, "Part of ", this.link(item.parent, described(above))));
    }
    const found = [];
    for (const [role, line, block] of item.refs) {
      if (found.length >= 60) break;
      const read = await this.data.object(line);
      if (turn !== this.turn) return;
      found.push({ role, line, block, ...read });
    }
    const show = { tool: "call", subagent: "call", model: "reply", permission: "question", hook: "question", mcp: "question",
      question: "question", control: "question", interrupt: "question", prompt: "prompt", result: "outcome", stderr: "stderr" };
    this[show[item.kind] ?? "other"](item, found);
    this.frames(item, found);
  }

  children(item) {
    const own = this.data.ofSession[item.session] ?? [];
    return own.filter((number) => this.data.items[number].parent === item.number).map((number) => this.data.items[number]);
  }

  call(item, found) {
    const call = found.find((one) => one.role === "call");
    const block = call?.frame?.message?.content?.[call.block] ?? {};
    const result = found.find((one) => one.role === "result");
    const content = result?.frame?.message?.content?.[result.block]?.content;
    const own = this.children(item);
    this.decision(item, result, own);
    const input = block.input ?? {};
    if (EDITS.has(item.name)) this.edit(input, result?.frame?.tool_use_result ?? result?.frame?.toolUseResult);
    this.input(input, EDITS.has(item.name) ? ["content", "old_string", "new_string", "edits", "new_source"] : []);
    if (item.status === "open") this.section("Result", el("p", { class: "quiet", textContent: "No result was received." }));
    else this.content("Result", content, item.status === "failed" || item.status === "denied" ? "bad" : "");
    const extra = result?.frame?.tool_use_result ?? result?.frame?.toolUseResult;
    if (extra && typeof extra === "object" && extra.stderr) this.text("Result: stderr", String(extra.stderr), "bad");
    const tasks = found.filter((one) => one.role === "task").map((one) => one.frame ?? {});
    const last = tasks.findLast?.((frame) => frame.usage) ?? {};
    if (last.usage) this.table("Subagent", [["summary", last.summary], ["status", last.status], ["tokens", last.usage.total_tokens], ["tool calls", last.usage.tool_uses]]);
    const inside = own.filter((one) => one.kind !== "permission" && one.kind !== "hook");
    if (inside.length) {
      const list = el("ul", { class: "links" }, ...inside.slice(0, 200).map((one) => el("li", {}, this.link(one.number, described(one)))));
      this.section("Inside", list);
    }
  }

  decision(item, result, own) {
    const meta = (result?.frame?.tool_result_meta ?? []).find((one) => one?.permission_decision)?.permission_decision;
    const session = this.data.sessions[item.session];
    const rules = (session?.rules ?? []).filter(([source, text]) => text.startsWith(item.name) || source.includes("mode") || text.includes(item.name));
    const rows = [["decision", item.decision || (item.status === "open" ? "none yet" : this.data.kind === "recording" ? "not reported by this CLI version" : "not stored in conversations")]];
    if (meta) rows.push(["reported by the CLI", [meta.decision, meta.source && `source: ${meta.source}`, meta.reason_type && `reason: ${meta.reason_type}`].filter(Boolean).join(", ")]);
    for (const one of own) {
      if (one.kind === "permission") rows.push(["permission callback", this.link(one.number, `${one.outcome || "no answer"} (waited ${one.end === null ? "until the end" : duration(one.end - one.start)})`)]);
      if (one.kind === "hook") rows.push([`hook ${one.name}`, this.link(one.number, one.outcome || "no answer")]);
    }
    for (const [source, text] of rules.slice(0, 12)) rows.push([`rule: ${source}`, text]);
    this.table("Decision", rows);
  }

  input(input, hidden) {
    if (input === null || typeof input !== "object") return this.text("Input", pretty(input));
    const rows = [];
    const long = [];
    for (const [name, value] of Object.entries(input)) {
      if (hidden.includes(name)) continue;
      const text = typeof value === "string" ? value : pretty(value);
      if (text.length > 120 || text.includes("\n") || name === "command") long.push([name, text]);
      else rows.push([name, text]);
    }
    this.table("Input", rows);
    for (const [name, text] of long) this.text(`Input: ${plain(name)}`, text);
  }

  edit(input, extra) {
    const path = input.file_path ?? input.notebook_path ?? "";
    const hunks = Array.isArray(extra?.structuredPatch) && extra.structuredPatch.length ? extra.structuredPatch : null;
    const changes = new Changes("the raw frames");
    if (hunks) {
      for (const hunk of hunks) {
        changes.part(`@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`);
        let [before, after] = [hunk.oldStart, hunk.newStart];
        for (const line of hunk.lines ?? []) {
          const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
          changes.row(sign, String(line).slice(1), sign === "+" ? "" : before++, sign === "-" ? "" : after++);
        }
      }
    } else {
      const edits = Array.isArray(input.edits) ? input.edits : [input];
      for (const [place, edit] of edits.entries()) {
        if (edits.length > 1) changes.part(`edit ${place + 1} of ${edits.length}`);
        const before = String(extra?.originalFile && input.content !== undefined ? extra.originalFile : edit?.old_string ?? "");
        changes.add(before, String(edit?.new_string ?? edit?.content ?? edit?.new_source ?? ""));
      }
    }
    this.section("Changes", ...changes.finished(path));
  }

  content(title, content, kind = "") {
    if (content === undefined || content === null) return;
    if (typeof content === "string") return this.text(title, content, kind);
    for (const block of Array.isArray(content) ? content : [content]) {
      if (typeof block?.text === "string") this.text(title, block.text, kind);
      else this.text(`${title}: ${plain(block?.type ?? "content")}`, pretty(block), kind);
    }
  }

  reply(item, found) {
    let usage = null;
    let stop = null;
    const calls = this.data.ofSession[item.session].filter((number) => {
      const other = this.data.items[number];
      return (other.kind === "tool" || other.kind === "subagent") && found.some((one) => other.refs.some(([role, line, block]) => role === "call" && line === one.line && block === one.block));
    });
    for (const one of found) {
      const message = one.frame?.message;
      usage = message?.usage ?? usage;
      stop = message?.stop_reason ?? stop;
      const content = message?.content;
      const block = typeof content === "string" ? { type: "text", text: content } : content?.[one.block];
      if (!block) continue;
      if (block.type === "text") this.text("Text", block.text ?? "", "prose");
      else if (block.type === "thinking") this.text("Thinking", block.thinking || "The text of this thinking is not in the trace.", "prose thinking");
      else if (!String(block.type).endsWith("tool_use")) this.text(plain(block.type ?? "Block"), pretty(block));
    }
    if (calls.length) {
      this.section("Calls", el("ul", { class: "links" }, ...calls.map((number) => {
        const other = this.data.items[number];
        return el("li", {}, this.link(number, `${other.name} ${other.title}`));
      })));
    }
    const sample = this.data.samples.find((one) => one[2] === item.number);
    this.table("Usage", [["model", item.name], ["stop reason", stop], ...(sample ? [["input tokens", count(sample[3])], ["cache read", count(sample[5])], ["cache write", count(sample[6])],
      ["output tokens", sample[4] <= 1 && this.data.kind === "recording" ? "in the result of the turn" : count(sample[4])]] : [])]);
  }

  question(item, found) {
    const asked = found.find((one) => one.role === "ask")?.frame ?? {};
    const answer = found.find((one) => one.role === "answer")?.frame ?? {};
    const request = asked.request ?? asked;
    const payload = answer.response?.response ?? answer.response ?? answer;
    if (item.kind === "permission" || item.kind === "hook") {
      const specific = payload?.hookSpecificOutput ?? {};
      this.table("Decision", [["answer", item.outcome || "no answer"],
        ["reason", payload?.message ?? specific.permissionDecisionReason ?? payload?.reason ?? payload?.stopReason],
        ["explanation", payload?.systemMessage],
        ["waited", item.end === null ? "until the end of the trace" : duration(item.end - item.start)],
        ["blocked path", request.blocked_path], ["reason for the request", typeof request.decision_reason === "object" ? pretty(request.decision_reason) : request.decision_reason],
        ["permission mode", request.input?.permission_mode], ["rules it adds", payload?.updatedPermissions ? pretty(payload.updatedPermissions) : undefined],
        ["rules the CLI suggests", request.permission_suggestions ? pretty(request.permission_suggestions) : undefined]]);
    }
    const input = request.input ?? request.message ?? Object.fromEntries(Object.entries(request).filter(([name]) => name !== "subtype"));
    if (item.name === "initialize") this.text("Request", pretty(request));
    else this.input(item.kind === "hook" ? { ...input, session_id: undefined, transcript_path: undefined } : input, []);
    if (found.some((one) => one.role === "answer")) this.text("Answer", pretty(payload ?? {}), item.status === "denied" || item.status === "failed" ? "bad" : "");
    else this.section("Answer", el("p", { class: "quiet", textContent: "No answer." }));
  }

  prompt(item, found) {
    const one = found[0];
    const content = one?.frame ? one.frame.message?.content : one?.entry?.text;
    this.content("Prompt", content, "prose");
    const result = found.find((other) => other.role === "result");
    if (result?.frame?.result) this.text("Answer", String(result.frame.result), "prose");
  }

  outcome(item, found) {
    const frame = found[0]?.frame ?? {};
    const usage = frame.usage ?? {};
    this.table("Outcome", [["subtype", frame.subtype], ["terminal reason", frame.terminal_reason], ["stop reason", frame.stop_reason],
      ["errors", Array.isArray(frame.errors) ? frame.errors.join("\n") : undefined], ["turns", frame.num_turns],
      ["duration", typeof frame.duration_ms === "number" ? duration(frame.duration_ms / 1000) : undefined],
      ["time in the API", typeof frame.duration_api_ms === "number" ? duration(frame.duration_api_ms / 1000) : undefined],
      ["cost so far", dollars(frame.total_cost_usd)], ["input tokens", usage.input_tokens], ["cache read", usage.cache_read_input_tokens],
      ["cache write", usage.cache_creation_input_tokens], ["output tokens", usage.output_tokens],
      ["denied calls", frame.permission_denials?.length ? pretty(frame.permission_denials) : undefined]]);
    if (frame.result) this.text("Result", String(frame.result), "prose");
    if (frame.structured_output !== undefined) this.text("Structured output", pretty(frame.structured_output));
  }

  stderr(item, found) {
    this.text("stderr", String(found[0]?.entry?.text ?? ""), "bad");
  }

  other(item, found) {
    const one = found[0];
    if (!one) return;
    const text = one.frame?.message?.content;
    if (text !== undefined) this.content("Text", text);
    else this.text("Entry", pretty(one.frame ?? one.entry ?? one.text));
  }

  frames(item, found) {
    const list = el("div", { class: "frames" });
    const seen = new Set();
    for (const one of found) {
      if (seen.has(one.line)) continue;
      seen.add(one.line);
      const line = this.data.line(one.line);
      const box = el("details", {}, el("summary", {}, el("span", { class: `dir ${line.direction}`, textContent: ARROWS[line.direction] }),
        ` ${plain(line.label)} `, el("span", { class: "quiet", textContent: `line ${one.line + 1} · ${moment(line.at)} · ${bytes(line.size)}` })));
      box.addEventListener("toggle", () => {
        if (box.open && box.childElementCount === 1) box.append(textBlock(pretty(one.frame ?? one.entry ?? one.text), `Frame on line ${one.line + 1}`));
      });
      list.append(box);
    }
    if (item.refs.length > 60) list.append(el("p", { class: "quiet", textContent: `${item.refs.length - 60} more frames are in the list of raw frames.` }));
    this.section("Raw frames", list);
  }

  async line(number) {
    const line = this.data.line(number);
    const turn = this.begin(`dir-${line.direction}`, DIRECTIONS[line.direction], el("strong", { textContent: plain(line.label) }),
      el("span", { class: "quiet", textContent: `line ${number + 1} · ${moment(line.at)} · ${bytes(line.size)}` }));
    const item = this.data.lineItems.get(number);
    if (item !== undefined) this.body.append(el("p", { class: "part-of" }, "Part of ", this.link(item, described(this.data.items[item]))));
    const { entry, frame, text } = await this.data.object(number);
    if (turn !== this.turn) return;
    if (entry?.k === "stderr") this.text("stderr", String(entry.text ?? ""), "bad");
    this.text("Frame", pretty(frame ?? entry ?? text));
  }

  stop(session) {
    const info = this.data.sessions[session];
    const stop = info?.stop ?? { level: "open", title: "Nothing was read", text: "", evidence: [], item: -1 };
    this.begin(`stop-${stop.level}`, "stop", el("strong", { textContent: "Why did it stop?" }));
    this.body.append(el("h2", { class: `verdict is-${stop.level}`, textContent: plain(stop.title) }));
    if (stop.text) {
      const text = el("p", {});
      appendText(text, stop.text);
      this.body.append(text);
    }
    if (stop.item >= 0) {
      const item = this.data.items[stop.item];
      this.section("Jump", this.link(stop.item, described(item)));
    }
    const list = el("ul", { class: "links" }, ...stop.evidence.map(([text, item]) => el("li", {}, item >= 0 ? this.link(item, text) : plain(text))));
    if (stop.evidence.length) this.section("Evidence", list);
    this.about(session);
  }

  about(session) {
    const info = this.data.sessions[session];
    this.table("Session", [...new Map([...this.data.facts, ...(info?.facts ?? [])].filter(([name]) => name !== "recorded"))]);
    this.table("Permission rules and modes", info?.rules ?? []);
    if (this.data.problems.length) this.text("Parts that could not be read", this.data.problems.join("\n"), "bad");
  }
}

const STATUS = { ok: "ok", failed: "failed", denied: "denied", open: "no result", note: "note" };
const ARROWS = { out: "→", in: "←", other: "·" };
const DIRECTIONS = { out: "to the CLI", in: "from the CLI", other: "note" };

/** Return an item as one line. */
function described(item) {
  const words = `${item.name} ${item.title || item.outcome}`.trim();
  return words.startsWith(item.kind) ? words : `${item.kind} ${words}`;
}

async function copyText(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = before), 1500);
}
