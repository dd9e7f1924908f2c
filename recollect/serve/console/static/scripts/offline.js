// The page that the service worker shows while the server cannot be reached. It stands at the address
// that was requested, so reloading it opens the right page.

const INTERVAL = 3_000; // milliseconds

async function tryAgain() {
  try {
    const response = await fetch("/healthz", { cache: "no-store" });
    if (response.ok) reload();
  } catch {
    // Still unreachable.
  }
}

function reload() {
  if (location.pathname === "/offline") location.replace("/");
  else location.reload();
}

document.querySelector("[data-try]").addEventListener("click", tryAgain);
addEventListener("online", tryAgain);
setInterval(tryAgain, INTERVAL);
