// The official TypeScript client of MCP with a program on standard streams: node stdio_client.mjs PACKAGES FOLDER COMMAND ARGUMENT...
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [packages, folder, command, ...args] = process.argv.slice(2);
const { resolve } = createRequire(`${packages}/`);
const load = (name) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/client/${name}.js`)));
const { Client } = await load("index");
const { StdioClientTransport } = await load("stdio");

const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args: [...args, folder] }));
const call = (name, given = {}, options = {}) => client.callTool({ name, arguments: given }, undefined, options);
const seen = { server: client.getServerVersion().name, tools: (await client.listTools()).tools.length };
seen.article = (await call("article", { name: "tea" })).structuredContent; // checked against the output schema by the client
seen.failed = await call("sold_out");
seen.noisy = (await call("noisy")).content[0].text;
seen.big = (await call("big", { size: 500_000 })).content[0].text.length;
seen.met = (await Promise.all([call("meet", { name: "Ann" }), call("meet", { name: "Bob" })])).map((met) => met.content[0].text);
const stop = new AbortController();
const waiting = call("wait", { name: "one" }, { signal: stop.signal }).catch(() => "cancelled");
while (!existsSync(`${folder}/one.running`)) await pause(10);
stop.abort();
seen.waiting = await waiting;
while (!existsSync(`${folder}/one.cancelled`)) await pause(10);
await client.close();
console.log(JSON.stringify(seen));
