// The agent under test: it may run commands, but none that deletes files.
import { query } from "@anthropic-ai/claude-agent-sdk";

export async function ask(prompt, options = {}) {
  const canUseTool = async (name, input) =>
    /\brm\b/.test(input.command ?? "")
      ? { behavior: "deny", message: "do not delete files" }
      : { behavior: "allow", updatedInput: input };
  for await (const message of query({ prompt, options: { canUseTool, ...options } })) {
    if (message.type !== "result") continue;
    if (message.is_error) throw new Error(message.result);
    return message.result;
  }
}
