// Shows a page that tries again while the server cannot be reached. Only that page and its files are
// stored: never a conversation, another page, or an answer of the API. The server puts VERSION in front.

const PREFIX = "recollect-offline-";
const CACHE = PREFIX + VERSION;
const PAGE = "/offline";
const FILES = ["console.css", "theme.js", "offline.js", "favicon.svg"].map((name) => `/static/${VERSION}/${name}`);
let hasCheckedServer = false;

addEventListener("install", (event) => event.waitUntil(install()));
addEventListener("activate", (event) => event.waitUntil(activate()));
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (request.mode === "navigate") event.respondWith(openPage(event));
  else if (FILES.includes(new URL(request.url).pathname)) event.respondWith(openFile(request));
});

async function install() {
  const cache = await caches.open(CACHE);
  await cache.addAll([PAGE, ...FILES].map((url) => new Request(url, { credentials: "omit" })));
  await skipWaiting();
}

async function activate() {
  await removeCaches((name) => name !== CACHE);
  await registration.navigationPreload?.enable(); // the request does not wait for this worker to start
  await clients.claim();
}

async function openPage(event) {
  try {
    const response = (await event.preloadResponse) ?? (await fetch(event.request));
    event.waitUntil(leaveIfRemoved());
    return response;
  } catch (error) {
    const page = await caches.match(PAGE, { cacheName: CACHE, ignoreVary: true });
    if (!page) throw error;
    return new Response(page.body, { status: 503, headers: page.headers });
  }
}

async function openFile(request) {
  return (await caches.match(request, { cacheName: CACHE, ignoreVary: true })) ?? fetch(request);
}

/** Unregister if the server has no such worker, because it is an older one or another program. */
async function leaveIfRemoved() {
  if (hasCheckedServer) return;
  hasCheckedServer = true;
  const response = await fetch("/service-worker.js", { cache: "no-store", credentials: "omit" });
  const isScript = response.headers.get("Content-Type")?.includes("javascript");
  if (response.status !== 404 && !(response.ok && !isScript)) return;
  await registration.unregister();
  await removeCaches(() => true);
}

async function removeCaches(isOld) {
  const names = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && isOld(name));
  await Promise.all(names.map((name) => caches.delete(name)));
}
