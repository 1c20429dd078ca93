// Runs cases with the HttpAgent of @ag-ui/client, whose verifier fails a run on any event out of order.
// Arguments: the folder of the packages, the address, the first case and the case after the last one.
import { pathToFileURL } from "node:url"

const [packages, url, first, last] = process.argv.slice(2)
const { HttpAgent, buildResumeArray } = await import(pathToFileURL(`${packages}/@ag-ui/client/dist/index.mjs`))

async function play(number) {
  const agent = new HttpAgent({ url, threadId: `case-${number}`, initialMessages: [{ id: "1", role: "user", content: `case ${number}` }] })
  const events = []
  const found = { number, runs: 0, errors: [], failed: [] }
  const subscriber = {
    onEvent: ({ event }) => void events.push(event.type),
    onRunErrorEvent: ({ event }) => void found.failed.push(event.code),
    onRunFailed: ({ error }) => void found.errors.push(String(error)),
  }
  let resume
  do {
    found.runs += 1
    try {
      await agent.runAgent(resume ? { resume } : {}, subscriber)
    } catch (error) {
      found.errors.push(String(error))
      break
    }
    const open = agent.pendingInterrupts
    const answer = { status: "resolved", payload: { approved: number % 2 === 0 } }
    resume = open.length ? buildResumeArray(open, Object.fromEntries(open.map(({ id }) => [id, answer]))) : undefined
  } while (resume && found.runs < 5)
  found.messages = agent.messages
  found.counts = Object.fromEntries([...new Set(events)].map((type) => [type, events.filter((each) => each === type).length]))
  return found
}

const cases = []
for (let number = Number(first); number < Number(last); number += 1) cases.push(number)
const found = []
await Promise.all(Array.from({ length: 3 }, async () => {
  while (cases.length) found.push(await play(cases.shift()))
}))
process.stdout.write(JSON.stringify(found))
