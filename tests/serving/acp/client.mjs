// The TypeScript client of the Agent Client Protocol: `client.mjs PACKAGES CWD PYTHON` prints what it saw as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, cwd, python] = process.argv.slice(2);
const sdk = await import(pathToFileURL(`${packages}/@agentclientprotocol/sdk/dist/v1/unstable/acp.js`));
const child = spawn(python, ["-m", "hackamore", "acp"], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
const texts = {};
const asked = [];
const { methods } = sdk;
const client = sdk
  .client({ name: "a test" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification(methods.client.session.update, ({ params: { sessionId, update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") {
      texts[sessionId] = (texts[sessionId] ?? "") + update.content.text;
    }
  });
const stream = sdk.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const connection = client.connect(stream);
const ask = (method, params) => connection.agent.request(method, params);
const code = async (call) => {
  try {
    await call;
    return null;
  } catch (error) {
    return error.code;
  }
};

const { session } = methods.agent;
const said = (text) => [{ type: "text", text }];
const made = await ask(methods.agent.initialize, { protocolVersion: sdk.PROTOCOL_VERSION, clientCapabilities: {} });
const { sessionId } = await ask(session.new, { cwd, mcpServers: [] });
const answer = await ask(session.prompt, { sessionId, prompt: said("Make it") });
const text = texts[sessionId];
await ask(session.setMode, { sessionId, modeId: "plan" });
const { configOptions } = await ask(session.setConfigOption, { sessionId, configId: "model", value: "haiku" });
const value = (id) => configOptions.find((option) => option.id === id).currentValue;
const { sessions } = await ask(session.list, { cwd });
delete texts[sessionId];
await ask(session.load, { sessionId, cwd, mcpServers: [] });
const replayed = texts[sessionId];
const copy = await ask(session.fork, { sessionId, cwd, mcpServers: [] });
await ask(session.prompt, { sessionId: copy.sessionId, prompt: said("And here?") });
await ask(session.close, { sessionId });
const refused = [
  await code(ask(session.delete, { sessionId })),
  await code(ask(session.new, { cwd: "relative", mcpServers: [] })),
  await code(ask(session.prompt, { sessionId, prompt: said("Closed?") })),
];
child.stdin.end();
console.log(
  JSON.stringify({
    agent: made.agentInfo.name,
    asked,
    text,
    stop: answer.stopReason,
    mode: value("mode"),
    model: value("model"),
    listed: sessions.length,
    replayed,
    copy: texts[copy.sessionId],
    refused,
    code: await ended,
  }),
);
process.exit(0);
