// The official TypeScript SDK as a client of `recollect mcp`, or of `recollect serve`.
//
//     node search.mjs MODE COMMAND [ARGUMENT…]
//     node search.mjs MODE http://127.0.0.1:8765/mcp
//     node search.mjs v1 ws://127.0.0.1:8765/mcp/ws
//
// MODE is "v1" for SDK 1, or how SDK 2 negotiates the version: "legacy", "auto" or a version.
// Prints one JSON object with the answers of the server.

const [mode, command, ...args] = process.argv.slice(2);

async function transport(library) {
  if (command.startsWith("ws://")) {
    const { WebSocketClientTransport } = await import("@modelcontextprotocol/sdk/client/websocket.js");
    return new WebSocketClientTransport(new URL(command));
  }
  if (command.startsWith("http://")) {
    const { StreamableHTTPClientTransport } = await import(library === "v1"
      ? "@modelcontextprotocol/sdk/client/streamableHttp.js"
      : "@modelcontextprotocol/client");
    return new StreamableHTTPClientTransport(new URL(command));
  }
  const { StdioClientTransport } = await import(library === "v1"
    ? "@modelcontextprotocol/sdk/client/stdio.js"
    : "@modelcontextprotocol/client/stdio");
  return new StdioClientTransport({ command, args, env: process.env });
}

async function connect() {
  const identity = { name: "recollect-tests", version: "1.0.0" };
  if (mode === "v1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const client = new Client(identity);
    await client.connect(await transport("v1"));
    return client;
  }
  const { Client } = await import("@modelcontextprotocol/client");
  const negotiation = ["legacy", "auto"].includes(mode) ? mode : { pin: mode };
  const client = new Client(identity, { versionNegotiation: { mode: negotiation } });
  await client.connect(await transport("v2"));
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
  match: await search("东京 tower"),
  no_match: await search("nothing like it"),
  failure: await client.callTool({ name: "conversation_search", arguments: { limit: "many" } }),
  unknown_tool: await outcome(client.callTool({ name: "no_such_tool", arguments: {} })),
  resources: (await client.listResources()).resources,
  contents: (await client.readResource({ uri: "recollect://conversation/c1" })).contents,
  prompts: (await client.listPrompts()).prompts,
  prompt: (await client.getPrompt({ name: "recall", arguments: { topic: "towers" } })).messages,
};
await client.close();
console.log(JSON.stringify(report));
