// The list of a kind: as many rows as there are, of which only those near the window exist.

import { all, counted, fragment, given_up, one } from "./dom.js";
import { filters } from "./filters.js";

const ROWS = 50;
const AROUND = 1; // chunks loaded before and after those in sight
const KEPT = 3; // chunks away at which a chunk is dropped

const sidebar = one("#sidebar");
const list = one("[data-list]");
const canvas = one("[data-canvas]");
const height = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
const chunks = new Map(); // place -> element
const coming = new Map(); // place -> AbortController
let total = 0;
let turning = null; // to another kind
let current = "";
let planned = false;
let pressed = null; // while a row is being clicked, it is not replaced by a newer one
let release = null;

export function start_list() {
  const first = one("[data-chunk]", canvas);
  canvas.dataset.virtual = "";
  put(0, first);
  list.addEventListener("scroll", plan, { passive: true });
  list.addEventListener("pointerdown", () => (pressed = new Promise((resolve) => (release = resolve))));
  for (const end of ["pointerup", "pointercancel", "dragend"]) {
    addEventListener(end, () => setTimeout(() => {
      release?.();
      pressed = release = null;
    }));
  }
  new ResizeObserver(plan).observe(list);
}

/** Which kind is listed. */
export const listed = () => sidebar.dataset.source;

/** What asks for the rows and filters of the kind that is listed. */
export function about_list(given) {
  if (listed() !== "conversations") given.set("source", listed());
  return given;
}

/** List another kind, filtered as an address says. */
export async function turn_to(source, address) {
  if (source === (turning?.source ?? listed())) return;
  turning?.request.abort();
  const mine = (turning = { source, request: new AbortController() });
  const given = new URL(address, location.origin).searchParams;
  given.set("source", source);
  try {
    const made = await fragment(`/console/sidebar?${given}`, { signal: mine.request.signal });
    if (turning !== mine) return;
    for (const request of coming.values()) request.abort();
    coming.clear();
    for (const place of [...chunks.keys()]) drop(place);
    sidebar.dataset.source = source;
    one("[data-filters]").replaceWith(one("[data-filters]", made));
    list.scrollTop = 0;
    show_tab(source);
    put(0, one("[data-chunk]", made));
    plan();
  } catch (error) {
    if (!given_up(error)) one("[data-total-line]").textContent = error.message;
  } finally {
    if (turning === mine) turning = null;
  }
}

function show_tab(source) {
  for (const tab of all("[data-tab]", sidebar)) {
    if (tab.dataset.tab === source) {
      tab.setAttribute("aria-current", "true");
      for (const named of [canvas, one("button[data-act='drawer']")]) named.setAttribute("aria-label", tab.textContent);
    } else tab.removeAttribute("aria-current");
  }
}

/** Which row is open. */
export function mark_current(id) {
  current = id;
  for (const row of all(".row", canvas)) show_current(row);
}

/** Load what is in sight again: after a change of the filters from the top, else in place. */
export async function refresh({ top = false } = {}) {
  if (turning) return; // everything is new in a moment
  for (const request of coming.values()) request.abort();
  coming.clear();
  if (top) list.scrollTop = 0;
  const anchor = top ? null : first_in_sight();
  const was = list.scrollTop;
  const [from, to] = in_sight();
  for (const place of [...chunks.keys()]) if (place < from || place > to) drop(place);
  const wanted = [];
  for (let place = from; place <= to; place++) wanted.push(load(place));
  await Promise.all(wanted);
  for (const place of [...chunks.keys()]) if (place * ROWS >= Math.max(total, 1)) drop(place);
  if (anchor && was > height && list.scrollTop === was) { // whoever has scrolled meanwhile wants to be there
    const row = rows().find((one_row) => one_row.dataset.id === anchor.id);
    if (row) list.scrollTop = Number(row.dataset.place) * height - anchor.offset;
  }
  plan();
}

/** Put the focus on the row after or before the one that has it, or that is open. */
export async function step(by) {
  const row = document.activeElement?.closest?.(".row") ?? rows().find((r) => r.dataset.id === current);
  const at = row ? Number(row.dataset.place) + by : by > 0 ? Math.ceil(list.scrollTop / height) : 0;
  await focus_row(at);
}

export async function focus_row(at) {
  if (!total) return;
  const place = Math.max(0, Math.min(at, total - 1));
  const y = place * height;
  if (y < list.scrollTop) list.scrollTop = y;
  else if (y + height > list.scrollTop + list.clientHeight) list.scrollTop = y + height - list.clientHeight;
  const chunk = Math.floor(place / ROWS);
  if (!chunks.has(chunk)) await load(chunk);
  rows().find((row) => Number(row.dataset.place) === place)?.focus({ preventScroll: true });
}

/** The row after the open one, for when that is deleted. */
export function neighbour(id, otherwise = "/") {
  const known = rows().sort((a, b) => a.dataset.place - b.dataset.place);
  const at = known.findIndex((row) => row.dataset.id === id);
  return (known[at + 1] ?? known[at - 1])?.href ?? otherwise;
}

const rows = () => all(".row", canvas);

function in_sight() {
  const first = Math.floor(list.scrollTop / height / ROWS);
  const last = Math.floor((list.scrollTop + Math.max(list.clientHeight, 1)) / height / ROWS);
  const end = Math.max(0, Math.ceil(total / ROWS) - 1);
  return [Math.max(0, first - AROUND), Math.min(end, last + AROUND)];
}

function first_in_sight() {
  const at = Math.floor(list.scrollTop / height);
  const row = rows().find((one_row) => Number(one_row.dataset.place) === at);
  return row && { id: row.dataset.id, offset: at * height - list.scrollTop };
}

function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    const [from, to] = in_sight();
    for (const [place, request] of [...coming]) {
      if (place < from || place > to) {
        request.abort();
        coming.delete(place);
      }
    }
    for (let place = from; place <= to; place++) if (!chunks.has(place) && !coming.has(place)) load(place);
    for (const [place, chunk] of [...chunks]) {
      if ((place < from - KEPT || place > to + KEPT) && !chunk.contains(document.activeElement)) drop(place);
    }
  });
}

async function load(place) {
  const request = new AbortController();
  coming.get(place)?.abort();
  coming.set(place, request);
  const asked = about_list(filters());
  asked.set("offset", place * ROWS);
  asked.set("limit", ROWS);
  try {
    const made = await fragment(`/console/rows?${asked}`, { signal: request.signal });
    await pressed;
    if (coming.get(place) === request) put(place, one("[data-chunk]", made));
  } catch (error) {
    if (!given_up(error)) one("[data-total-line]").textContent = error.message;
  } finally {
    if (coming.get(place) === request) coming.delete(place);
  }
}

function put(place, chunk) {
  const old = chunks.get(place);
  for (const row of all(".row", chunk)) show_current(row);
  if (old && old !== chunk && old.innerHTML === chunk.innerHTML && old.dataset.total === chunk.dataset.total) return;
  const focused = old?.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  chunk.style.top = `${place * ROWS * height}px`;
  if (old && old !== chunk) old.replaceWith(chunk);
  else if (!chunk.isConnected) canvas.append(chunk);
  chunks.set(place, chunk);
  total = Number(chunk.dataset.total);
  canvas.style.height = `${Math.max(total, 1) * height}px`;
  one("[data-total-line]").textContent = counted(total, chunk.dataset.one, chunk.dataset.many);
  if (focused) all(".row", chunk).find((row) => row.dataset.id === focused)?.focus({ preventScroll: true });
}

function drop(place) {
  chunks.get(place)?.remove();
  chunks.delete(place);
}

function show_current(row) {
  if (current && row.dataset.id === current) row.setAttribute("aria-current", "page");
  else row.removeAttribute("aria-current");
}
