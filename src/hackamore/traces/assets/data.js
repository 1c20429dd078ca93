// The data of the page: an index that is read first, and chunks of lines that are decoded when they are needed.

const LANES = ["session", "model", "tools", "permissions", "hooks", "subagents", "background"];
const NAMES = ["Session", "Model", "Tools", "Permission waits", "Hooks", "Subagents", "Background tasks"];
const KEPT_CHUNKS = 24;

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const made = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) made[at] = binary.charCodeAt(at);
  return made;
}

async function inflated(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

function itemOf(fields, number) {
  const [session, lane, kind, start, end, title, outcome, status, parent, name, decision, refs] = fields;
  return { number, session, lane, kind, start, end, title, outcome, status, parent, name, decision, refs };
}

class Data {
  constructor(config) {
    this.live = Boolean(config.live);
    this.items = [];
    this.samples = [];
    this.sessions = [];
    this.labels = [];
    this.table = [];
    this.starts = [0];
    this.problems = [];
    this.facts = [];
    this.lineItems = new Map();
    this.ofSession = [];
    this.epoch = 0;
    this.version = 0;
    this.cache = new Map();
  }

  async load() {
    if (this.live) return this.poll();
    const element = document.getElementById("index");
    this.take(JSON.parse(await inflated(fromBase64(element.textContent))));
    element.remove();
    return true;
  }

  /** Ask the server for everything that is new; return whether anything is. */
  async poll() {
    const query = `epoch=${this.epoch}&since=${this.version}&lines=${this.count}&samples=${Math.max(0, this.samples.length - 100)}`;
    const answer = await fetch(`index?${query}`, { cache: "no-store", credentials: "omit", redirect: "error" });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    const index = await answer.json();
    if (index.epoch !== this.epoch) {
      Object.assign(this, { items: [], samples: [], table: [], epoch: index.epoch, lineItems: new Map(), ofSession: [] });
      this.cache.clear();
    }
    const changed = index.items.length > 0 || index.table.length > 0;
    this.version = index.version;
    this.more = index.more;
    this.take(index);
    return changed;
  }

  take(index) {
    this.title = index.title;
    this.kind = index.kind;
    this.facts = index.facts;
    this.problems = index.problems;
    this.sessions = index.sessions;
    this.labels = index.labels;
    this.starts = index.starts;
    if (index.numbers) {
      index.numbers.forEach((number, place) => this.put(number, index.items[place]));
      this.samples.splice(index.samples_from, this.samples.length, ...index.samples);
      for (const value of index.table) this.table.push(value);
    } else {
      index.items.forEach((fields, number) => this.put(number, fields));
      this.samples = index.samples;
      this.table = index.table;
    }
    // A reply begins when its request was sent, and is known later.
    const order = (one, other) => this.items[one].start - this.items[other].start || one - other;
    for (const numbers of this.ofSession) numbers?.sort(order);
  }

  put(number, fields) {
    const known = this.items[number];
    const item = itemOf(fields, number);
    item.depth = item.parent >= 0 && this.items[item.parent] ? Math.min(3, this.items[item.parent].depth + 1) : 0;
    this.items[number] = item;
    if (!known) (this.ofSession[item.session] ??= []).push(number);
    for (const [, line] of item.refs) if (!this.lineItems.has(line)) this.lineItems.set(line, number);
  }

  get count() {
    return this.table.length / 4;
  }

  /** Return a line of the table: session, seconds, direction, label, size. */
  line(number) {
    const at = 4 * number;
    const [direction, label] = this.labels[this.table[at + 2]];
    return { number, session: this.table[at], at: this.table[at + 1] / 1000, direction, label, size: this.table[at + 3] };
  }

  chunkOf(line) {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  get chunks() {
    return this.live ? this.starts.length : this.starts.length - 1;
  }

  /** Return the texts of the lines of a chunk. */
  async chunk(number, keep = true) {
    const closed = number + 1 < this.starts.length;
    const known = this.cache.get(number);
    if (known) {
      this.cache.delete(number);
      this.cache.set(number, known);
      return known;
    }
    const work = this.fetchChunk(number).then((text) => (text === "" ? [] : text.split("\n")));
    if (keep && closed) {
      this.cache.set(number, work);
      work.catch(() => this.cache.delete(number));
      if (this.cache.size > KEPT_CHUNKS) this.cache.delete(this.cache.keys().next().value);
    }
    return work;
  }

  async fetchChunk(number) {
    if (!this.live) return inflated(fromBase64(document.getElementById(`chunk-${number}`).textContent));
    const answer = await fetch(`chunk/${number}`, { cache: "no-store", credentials: "omit", redirect: "error" });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return inflated(await answer.arrayBuffer());
  }

  async text(line) {
    const number = this.chunkOf(line);
    const lines = await this.chunk(number);
    return lines[line - this.starts[number]] ?? "";
  }

  /** Return a line as an object: the recorded entry with its frame, or the entry of a conversation. */
  async object(line) {
    const text = await this.text(line);
    try {
      const entry = JSON.parse(text);
      return { entry, frame: this.kind === "recording" ? entry.f ?? null : entry, text };
    } catch {
      return { entry: null, frame: null, text };
    }
  }
}
