// A program on the official TypeScript package. Prints what its user sees: a JSON array on each line.
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const EVENTS = JSON.parse(process.env.PEER_EVENTS);
const SCHEMA = JSON.parse(process.env.PEER_SCHEMA);
const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const say = (...values) => process.stdout.write(JSON.stringify(values) + "\n");
const options = (more = {}) => ({ pathToClaudeCodeExecutable: process.env.PEER_PROGRAM, stderr: () => {}, ...more });

function blockOf(block) {
  const { id, tool_use_id, signature, ...rest } = block;
  return rest;
}

function show(message) {
  switch (message.type) {
    case "assistant":
      say("assistant", message.message.model, message.parent_tool_use_id !== null, message.error ?? null, message.message.content.map(blockOf));
      break;
    case "user": {
      const content = message.message.content;
      say("user", message.parent_tool_use_id !== null, typeof content === "string" ? content : content.map(blockOf));
      break;
    }
    case "result":
      say("result", message.subtype, message.is_error, message.num_turns, message.result ?? null, message.structured_output ?? null);
      say("cost", Math.round(message.total_cost_usd * 1e6) / 1e6, message.stop_reason, message.errors ?? null);
      say("denials", message.permission_denials.map((each) => each.tool_name));
      break;
    case "stream_event":
      say("stream", message.event.type, message.event.delta ?? null);
      break;
    case "system":
      say("system", message.subtype);
      break;
    default:
      say("other", message.type);
  }
}

// A conversation: each prompt is sent after the last answer.
class Conversation {
  #waiting = [];
  #wake = null;
  constructor(more) {
    const prompts = this.#prompts();
    this.query = query({ prompt: prompts, options: options(more) });
  }
  async *#prompts() {
    for (;;) {
      while (this.#waiting.length === 0) await new Promise((resolve) => (this.#wake = resolve));
      const prompt = this.#waiting.shift();
      if (prompt === null) return;
      yield { type: "user", message: { role: "user", content: prompt }, parent_tool_use_id: null };
    }
  }
  send(prompt) {
    this.#waiting.push(prompt);
    this.#wake?.();
  }
  async turn(prompt, seen = () => {}) {
    this.send(prompt);
    for (;;) {
      const { value, done } = await this.query.next();
      if (done) return;
      show(value);
      await seen(value);
      if (value.type === "result") return;
    }
  }
  async end() {
    this.send(null);
    for await (const message of this.query) show(message);
  }
}

async function showQuery({ prompt = "go", ...more } = {}) {
  let sessionId = null;
  for await (const message of query({ prompt, options: options(more) })) {
    show(message);
    if (message.type === "result") sessionId = message.session_id;
  }
  return sessionId;
}

const features = {
  query: () => showQuery(),
  async session() {
    const talk = new Conversation();
    await talk.turn("one");
    await talk.turn("two");
    await talk.end();
  },
  async hooks() {
    const kept = ["agent_type", "error", "prompt", "reason", "source", "stop_hook_active", "tool_input", "tool_name"];
    const seen = [];
    const hook = async (given) => {
      seen.push([given.hook_event_name, Object.fromEntries(kept.filter((name) => name in given).map((name) => [name, given[name]]))]);
      return {};
    };
    const hooks = Object.fromEntries(EVENTS.map((event) => [event, [{ hooks: [hook] }]]));
    const talk = new Conversation({ hooks, permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true });
    await talk.turn("go");
    await talk.turn("more");
    await talk.end();
    // Hooks of different events race with each other.
    for (const each of seen.map((one) => JSON.stringify(one)).sort()) say("hook", ...JSON.parse(each));
  },
  async misnamed() {
    const hook = async () => ({ hookSpecificOutput: { hookEventName: "PostToolUse", permissionDecision: "allow" } });
    const talk = new Conversation({ hooks: { PreToolUse: [{ hooks: [hook] }] } });
    await talk.turn("go");
    await talk.end();
  },
  async permissions() {
    const canUseTool = async (name, given) => {
      say("asked", name, given);
      if (given.command === "touch one") return { behavior: "allow", updatedInput: { command: "touch other" } };
      if (given.command === "touch two") return { behavior: "deny", message: "Not two." };
      throw new Error("the user's own error");
    };
    const talk = new Conversation({ canUseTool });
    await talk.turn("go");
    await talk.end();
  },
  async tools() {
    const price = tool("price", "The price of an article.", { article: z.string() }, async (given) => {
      say("called", given);
      if (given.article === "gold") return { content: [{ type: "text", text: "not for sale" }], isError: true };
      return { content: [{ type: "text", text: "2.5" }] };
    });
    const broken = tool("broken", "Fails.", {}, async () => {
      throw new Error("a bug");
    });
    const shop = createSdkMcpServer({ name: "shop", tools: [price, broken] });
    const talk = new Conversation({ mcpServers: { shop }, allowedTools: ["mcp__shop__price", "mcp__shop__broken"] });
    await talk.turn("go");
    say("status", (await talk.query.mcpServerStatus()).map((each) => [each.name, each.status]));
    await talk.end();
  },
  partial: () => showQuery({ includePartialMessages: true }),
  structured: () => showQuery({ outputFormat: { type: "json_schema", schema: SCHEMA } }),
  async interrupt() {
    const talk = new Conversation({ includePartialMessages: true });
    let asked = false;
    await talk.turn("go", async (message) => {
      if (message.type === "stream_event" && message.event.delta && !asked) {
        asked = true;
        await talk.query.interrupt();
      }
    });
    await talk.turn("again");
    await talk.end();
  },
  async control() {
    const talk = new Conversation();
    await talk.turn("one");
    await talk.query.setPermissionMode("acceptEdits");
    await talk.query.setModel("claude-sonnet-5-5");
    say("models", (await talk.query.supportedModels()).length > 0);
    say("commands", (await talk.query.supportedCommands()).length > 0);
    say("usage", (await talk.query.getContextUsage()).totalTokens > 0);
    for (const operation of [
      () => talk.query.toggleMcpServer("never", false),
      () => talk.query.stopTask("never"),
      () => talk.query.rewindFiles("never"),
      () => talk.query.setPermissionMode("nonsense"),
    ]) {
      try {
        await operation();
        say("done");
      } catch (error) {
        say("refused", error.name, error.message);
      }
    }
    await talk.turn("two");
    await talk.end();
  },
  subagents: () =>
    showQuery({
      agents: { scout: { description: "Looks.", prompt: "You look." } },
      permissionMode: "bypassPermissions",
      allowDangerouslySkipPermissions: true,
    }),
  async resume() {
    const first = await showQuery({ prompt: "one" });
    const second = await showQuery({ prompt: "two", resume: first });
    say("same", first === second);
    const third = await showQuery({ prompt: "three", resume: first, forkSession: true });
    say("forked", first !== third);
  },
  async errors() {
    const bypass = { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true };
    for (const more of [{}, { prompt: "on", maxTurns: 1, ...bypass }, { resume: UNKNOWN }]) {
      try {
        await showQuery(more);
      } catch (error) {
        say("raised", error.name, error.message);
      }
    }
  },
};

await features[process.argv[2]]();
