// Live updates: show what any program saves, and say when the server cannot be reached. Hidden pages
// do not listen, because browsers limit the number of connections per server.

import { updateConversation } from "./conversation.js";
import { fetchFragment, find, isAborted, wait } from "./dom.js";
import { currentFilters, updateOptions } from "./filters.js";
import { page, pageName, reloadPage } from "./navigation.js";
import { refreshList, withKind } from "./sidebar.js";
import { showToast } from "./toast.js";

const MIN_INTERVAL = 400; // milliseconds between two updates
const RECONNECT_DELAY = 3_000; // milliseconds
const NOTICE_DELAY = 1_000; // milliseconds; a server that restarts quickly is not worth a notice
let events = null;
let noticeTimer = null;
let isStale = false;
let isUpdating = false;

export function startLiveUpdates() {
  document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
  addEventListener("pagehide", stopListening);
  addEventListener("pageshow", (event) => event.persisted && listen());
  addEventListener("online", reconnect);
  find("[data-reconnect]").addEventListener("click", reconnect);
  if (!document.hidden) listen();
}

function listen() {
  if (events) return;
  events = new EventSource("/api/events");
  events.addEventListener("ready", () => {
    document.documentElement.dataset.live = "on";
    showUnreachable(false);
    update(); // something may have been saved since the page was rendered
  });
  events.addEventListener("changed", update);
  events.addEventListener("error", onError);
}

/** Browsers try again by themselves, except after an error response. */
function onError() {
  document.documentElement.dataset.live = "off";
  showUnreachable(true);
  if (events?.readyState !== EventSource.CLOSED) return;
  stopListening();
  setTimeout(() => document.hidden || listen(), RECONNECT_DELAY);
}

function reconnect() {
  stopListening();
  listen();
}

function showUnreachable(isUnreachable) {
  clearTimeout(noticeTimer);
  const notice = find("[data-unreachable]");
  if (isUnreachable) noticeTimer = setTimeout(() => (notice.hidden = false), NOTICE_DELAY);
  else notice.hidden = true;
}

function stopListening() {
  clearTimeout(noticeTimer);
  events?.close();
  events = null;
}

async function update() {
  isStale = true;
  if (isUpdating) return;
  isUpdating = true;
  while (isStale) {
    isStale = false;
    try {
      await Promise.all([refreshList(), updateConversation(), refreshFilterOptions()]);
      if (["start", "items", "item"].includes(pageName()) && !("leaving" in page().dataset)) await refreshPage();
    } catch (error) {
      if (!isAborted(error)) console.warn(error.message);
    }
    await wait(MIN_INTERVAL);
  }
  isUpdating = false;
}

async function refreshFilterOptions() {
  updateOptions(await fetchFragment(`/console/filters?${withKind(currentFilters())}`));
}

async function refreshPage() {
  const openPage = page();
  try {
    await reloadPage();
  } catch (error) {
    if (error.status !== 404 || openPage !== page() || "leaving" in openPage.dataset) throw error;
    openPage.dataset.leaving = "";
    showToast("This item was deleted.");
  }
}
