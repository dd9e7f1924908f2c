// The list of a kind. Only the rows near the visible area exist in the document.

import { fetchFragment, find, findAll, isAborted, plural, request } from "./dom.js";
import { currentFilters } from "./filters.js";

const ROWS = 50; // per chunk
const LOAD_AHEAD = 1; // chunks before and after the visible ones
const KEEP_DISTANCE = 3; // chunks further away are removed

const sidebar = find("#sidebar");
const list = find("[data-list]");
const canvas = find("[data-canvas]");
const rowHeight = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
const chunks = new Map(); // chunk number -> element
const requests = new Map(); // chunk number -> AbortController
let total = 0;
let kindSwitch = null; // the pending switch to another kind
let currentId = "";
let isScheduled = false;
let pointerDown = null; // rows are not replaced while one is being clicked
let releasePointer = null;

export function startList() {
  canvas.dataset.virtual = "";
  showChunk(0, find("[data-chunk]", canvas));
  list.addEventListener("scroll", scheduleLoad, { passive: true });
  list.addEventListener("pointerdown", () => {
    pointerDown = new Promise((resolve) => (releasePointer = resolve));
  });
  for (const type of ["pointerup", "pointercancel", "dragend"]) {
    addEventListener(type, () => setTimeout(() => {
      releasePointer?.();
      pointerDown = releasePointer = null;
    }));
  }
  new ResizeObserver(scheduleLoad).observe(list);
}

export const listedKind = () => sidebar.dataset.kind;

/** Add the listed kind to the parameters of a request. */
export function withKind(parameters) {
  if (listedKind() !== "conversations") parameters.set("kind", listedKind());
  return parameters;
}

/** List another kind, with the filters of a URL. */
export async function switchKind(kind, address) {
  const isPending = find("[data-pending]", canvas) !== null; // error pages come without rows
  if (!isPending && kind === (kindSwitch?.kind ?? listedKind())) return;
  kindSwitch?.controller.abort();
  const pending = (kindSwitch = { kind, controller: new AbortController() });
  const parameters = new URL(address, location.origin).searchParams;
  parameters.set("kind", kind);
  try {
    const fragment = await fetchFragment(`/console/sidebar?${parameters}`, { signal: pending.controller.signal });
    if (kindSwitch !== pending) return;
    abortRequests();
    for (const number of [...chunks.keys()]) removeChunk(number);
    sidebar.dataset.kind = kind;
    find("[data-filters]").replaceWith(find("[data-filters]", fragment));
    list.scrollTop = 0;
    showTab(kind);
    showChunk(0, find("[data-chunk]", fragment));
    scheduleLoad();
  } catch (error) {
    showError(error);
  } finally {
    if (kindSwitch === pending) kindSwitch = null;
  }
}

function showTab(kind) {
  for (const tab of findAll("[data-tab]", sidebar)) {
    if (tab.dataset.tab !== kind) {
      tab.removeAttribute("aria-current");
      continue;
    }
    tab.setAttribute("aria-current", "true");
    canvas.setAttribute("aria-label", tab.textContent);
    find("button[data-command='drawer']").setAttribute("aria-label", tab.textContent);
  }
}

/** Mark the row of the open document, and scroll to it. */
export function markCurrent(id) {
  if (id === currentId) return;
  currentId = id;
  for (const row of rows()) showCurrent(row);
  if (id) scrollToCurrent(id);
}

/** The row that has the focus, or that of the open document. */
export const currentRow = () =>
  document.activeElement?.closest?.(".row") ??
  find(".row", document.activeElement?.closest?.(".row-item") ?? document.createElement("div")) ??
  rows().find((row) => row.dataset.id === currentId);

/** Show the row of the open document. The server knows where it is in the list. */
async function scrollToCurrent(id) {
  let index = Number(rows().find((row) => row.dataset.id === id)?.dataset.rowIndex ?? -1);
  if (index < 0) {
    const parameters = withKind(currentFilters());
    parameters.set("id", id);
    try {
      const response = await request(`/console/row-index?${parameters}`);
      index = (await response.json()).index ?? -1;
    } catch {
      return; // the list stays where it is
    }
  }
  if (index < 0 || id !== currentId) return;
  const top = index * rowHeight;
  const isVisible = top >= list.scrollTop && top + rowHeight <= list.scrollTop + list.clientHeight;
  if (!isVisible) list.scrollTop = top - list.clientHeight / 3;
}

/** Reload the visible rows: in place, or from the top after a change of the filters. */
export async function refreshList({ fromTop = false } = {}) {
  if (kindSwitch) return; // everything will be loaded anyway
  abortRequests();
  if (fromTop) list.scrollTop = 0;
  const anchor = fromTop ? null : firstVisibleRow();
  const scrollTop = list.scrollTop;
  const [first, last] = wantedChunks();
  for (const number of [...chunks.keys()]) if (number < first || number > last) removeChunk(number);
  const loads = [];
  for (let number = first; number <= last; number++) loads.push(loadChunk(number));
  await Promise.all(loads);
  for (const number of [...chunks.keys()]) if (number * ROWS >= Math.max(total, 1)) removeChunk(number);
  // Keep the same row in place, unless the person scrolled in the meantime.
  if (anchor && scrollTop > rowHeight && list.scrollTop === scrollTop) {
    const row = rows().find((candidate) => candidate.dataset.id === anchor.id);
    if (row) list.scrollTop = Number(row.dataset.rowIndex) * rowHeight - anchor.offset;
  }
  scheduleLoad();
}

/** Focus the next or previous row. */
export async function stepRow(by) {
  const row = document.activeElement?.closest?.(".row") ?? rows().find((candidate) => candidate.dataset.id === currentId);
  let index = 0;
  if (row) index = Number(row.dataset.rowIndex) + by;
  else if (by > 0) index = Math.ceil(list.scrollTop / rowHeight);
  await focusRow(index);
}

async function focusRow(wantedIndex) {
  if (!total) return;
  const index = Math.max(0, Math.min(wantedIndex, total - 1));
  const top = index * rowHeight;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
  const number = Math.floor(index / ROWS);
  if (!chunks.has(number)) await loadChunk(number);
  rows().find((row) => Number(row.dataset.rowIndex) === index)?.focus({ preventScroll: true });
}

/** The URL of the row next to a document, to go there when the document is deleted. */
export function neighbourUrl(id, fallback = "/") {
  const sorted = rows().sort((a, b) => a.dataset.rowIndex - b.dataset.rowIndex);
  const index = sorted.findIndex((row) => row.dataset.id === id);
  return (sorted[index + 1] ?? sorted[index - 1])?.href ?? fallback;
}

const rows = () => findAll(".row", canvas);

/** The first and the last chunk that should exist. */
function wantedChunks() {
  const first = Math.floor(list.scrollTop / rowHeight / ROWS);
  const last = Math.floor((list.scrollTop + Math.max(list.clientHeight, 1)) / rowHeight / ROWS);
  const end = Math.max(0, Math.ceil(total / ROWS) - 1);
  return [Math.max(0, first - LOAD_AHEAD), Math.min(end, last + LOAD_AHEAD)];
}

function firstVisibleRow() {
  const index = Math.floor(list.scrollTop / rowHeight);
  const row = rows().find((candidate) => Number(candidate.dataset.rowIndex) === index);
  return row && { id: row.dataset.id, offset: index * rowHeight - list.scrollTop };
}

function scheduleLoad() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    loadWantedChunks();
  });
}

function loadWantedChunks() {
  const [first, last] = wantedChunks();
  for (const [number, controller] of [...requests]) {
    if (number >= first && number <= last) continue;
    controller.abort();
    requests.delete(number);
  }
  for (let number = first; number <= last; number++) {
    if (!chunks.has(number) && !requests.has(number)) loadChunk(number);
  }
  for (const [number, chunk] of [...chunks]) {
    const isFar = number < first - KEEP_DISTANCE || number > last + KEEP_DISTANCE;
    if (isFar && !chunk.contains(document.activeElement)) removeChunk(number);
  }
}

async function loadChunk(number) {
  const controller = new AbortController();
  requests.get(number)?.abort();
  requests.set(number, controller);
  const parameters = withKind(currentFilters());
  parameters.set("offset", number * ROWS);
  parameters.set("limit", ROWS);
  try {
    const fragment = await fetchFragment(`/console/rows?${parameters}`, { signal: controller.signal });
    await pointerDown;
    if (requests.get(number) === controller) showChunk(number, find("[data-chunk]", fragment));
  } catch (error) {
    showError(error);
  } finally {
    if (requests.get(number) === controller) requests.delete(number);
  }
}

function abortRequests() {
  for (const controller of requests.values()) controller.abort();
  requests.clear();
}

function showError(error) {
  if (!isAborted(error)) find("[data-list-total]").textContent = error.message;
}

function showChunk(number, chunk) {
  const old = chunks.get(number);
  for (const row of findAll(".row", chunk)) showCurrent(row);
  if (old && old !== chunk && old.innerHTML === chunk.innerHTML && old.dataset.total === chunk.dataset.total) return;
  const focusedId = old?.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  chunk.style.top = `${number * ROWS * rowHeight}px`;
  if (old && old !== chunk) old.replaceWith(chunk);
  else if (!chunk.isConnected) canvas.append(chunk);
  chunks.set(number, chunk);
  total = Number(chunk.dataset.total);
  canvas.style.height = `${Math.max(total, 1) * rowHeight}px`;
  if (!("pending" in chunk.dataset)) showTotal(chunk);
  if (focusedId) {
    const row = findAll(".row", chunk).find((candidate) => candidate.dataset.id === focusedId);
    row?.focus({ preventScroll: true });
  }
}

function showTotal(chunk) {
  find("[data-list-total]").textContent = plural(total, chunk.dataset.singular, chunk.dataset.plural);
}

function removeChunk(number) {
  chunks.get(number)?.remove();
  chunks.delete(number);
}

function showCurrent(row) {
  if (currentId && row.dataset.id === currentId) row.setAttribute("aria-current", "page");
  else row.removeAttribute("aria-current");
}
