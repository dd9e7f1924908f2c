// What is saved by any program appears at once. A page that nobody sees does not listen: a browser has few connections.

import { fragment, given_up } from "./dom.js";
import { filters, renew_choices } from "./filters.js";
import { kind, page, renew } from "./going.js";
import { grow } from "./conversation.js";
import { about_list, refresh } from "./sidebar.js";
import { say } from "./toast.js";

const PAUSE = 400; // milliseconds between two refreshes
let source = null;
let stale = false;
let busy = false;

export function start_live() {
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && listen());
  if (!document.hidden) listen();
}

function listen() {
  if (source) return;
  source = new EventSource("/api/events");
  source.addEventListener("ready", () => {
    document.documentElement.dataset.live = "on";
    changed(); // something may have been saved since the page was made
  });
  source.addEventListener("changed", changed);
  source.addEventListener("error", () => {
    document.documentElement.dataset.live = "off";
    if (source?.readyState === EventSource.CLOSED) {
      stop();
      setTimeout(() => document.hidden || listen(), 10_000);
    }
  });
}

function stop() {
  source?.close();
  source = null;
}

async function changed() {
  stale = true;
  if (busy) return;
  busy = true;
  while (stale) {
    stale = false;
    try {
      await Promise.all([refresh(), grow(), choices()]);
      if (["start", "items", "item"].includes(kind()) && !("leaving" in page().dataset)) await again();
    } catch (error) {
      if (!given_up(error)) console.warn(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  busy = false;
}

async function choices() {
  renew_choices(await fragment(`/console/filters?${about_list(filters())}`));
}

async function again() {
  const shown = page();
  try {
    await renew();
  } catch (error) {
    if (error.status !== 404 || shown !== page() || "leaving" in shown.dataset) throw error;
    shown.dataset.leaving = "";
    say("This was deleted.");
  }
}
