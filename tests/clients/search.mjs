// The official TypeScript SDK as a client of `recollect mcp`.
//
//     node search.mjs MODE COMMAND [ARGUMENT…]
//
// MODE is "v1" for the SDK of the session era, or how SDK 2 negotiates: "legacy", "auto" or a version.
// Prints one JSON object with what the server said.

const [mode, command, ...args] = process.argv.slice(2);

async function connect() {
  const who = { name: "recollect-tests", version: "1.0.0" };
  if (mode === "v1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const client = new Client(who);
    await client.connect(new StdioClientTransport({ command, args, env: process.env }));
    return client;
  }
  const { Client } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const negotiation = ["legacy", "auto"].includes(mode) ? mode : { pin: mode };
  const client = new Client(who, { versionNegotiation: { mode: negotiation } });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  return client;
}

async function outcome(promise) {
  try {
    return await promise;
  } catch (error) {
    return { code: error.code, message: error.message };
  }
}

const client = await connect();
const search = (query) => client.callTool({ name: "conversation_search", arguments: { query } });
const report = {
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  tools: (await client.listTools()).tools,
  found: await search("东京 tower"),
  nothing: await search("nothing like it"),
  refused: await client.callTool({ name: "conversation_search", arguments: { limit: "many" } }),
  unknown: await outcome(client.callTool({ name: "no_such_tool", arguments: {} })),
};
await client.close();
console.log(JSON.stringify(report));
