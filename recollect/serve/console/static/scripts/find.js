// Find in the conversation. The server says which messages contain the text, also those that are not
// in the page yet. The page highlights the text in the messages that it has.

import {
  addStepper,
  elementOf,
  firstVisibleMessage,
  onMessages,
  openConversation,
  showMessage,
  showWholeMessage,
} from "./conversation.js";
import { find, findAll, isAborted, plural, request, wait } from "./dom.js";
import { scrollToRange } from "./highlight.js";
import { onPage, page, pageName } from "./navigation.js";
import { showToast } from "./toast.js";

const TYPING_PAUSE = 150; // milliseconds
const MAX_RANGES = 3000;
const allRanges = "highlights" in CSS ? new Highlight() : null;
const currentRange = "highlights" in CSS ? new Highlight() : null;
if (allRanges) {
  currentRange.priority = 1;
  CSS.highlights.set("find", allRanges);
  CSS.highlights.set("find-current", currentRange);
}

let search = null; // { text, pattern, indexes, isComplete, at, range, controller }

export function startFind() {
  onPage(() => close());
  onMessages((root) => search && highlight(root));
  addStepper((direction) => {
    if (!search) return false;
    step(direction === "next" ? 1 : -1);
    return true;
  });
  document.addEventListener("keydown", onKeydown, { capture: true });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-find-command]");
    if (button) COMMANDS[button.dataset.findCommand]();
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-find-text]")) searchSoon(event.target.value);
  });
}

const COMMANDS = { open, close: () => close(true), next: () => step(1), previous: () => step(-1) };
const bar = () => find("[data-find]", page() ?? document);
const isOpen = () => bar() && !bar().hidden;

function onKeydown(event) {
  if (pageName() !== "conversation" || find("dialog[open]")) return;
  const isShortcut = (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "f";
  const input = find("[data-find-text]", page());
  if (isShortcut && !event.shiftKey) {
    if (document.activeElement === input) return; // the second time, the browser's own find
    event.preventDefault();
    open();
  } else if (event.key === "Escape" && isOpen() && !find(".menu[open]")) {
    event.preventDefault();
    event.stopPropagation();
    close(true);
  } else if (event.key === "Enter" && event.target === input && !event.isComposing) {
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  }
}

function open() {
  bar().hidden = false;
  const input = find("[data-find-text]", bar());
  const selection = String(getSelection()).trim();
  if (selection && !selection.includes("\n") && selection.length < 100) input.value = selection;
  input.focus();
  input.select();
  if (input.value && input.value !== search?.text) searchSoon(input.value);
}

function close(restoreFocus = false) {
  if (!openConversation()) return;
  const message = search?.at >= 0 ? elementOf(search.indexes[search.at]) : firstVisibleMessage();
  search?.controller.abort();
  search = null;
  allRanges?.clear();
  currentRange?.clear();
  if (!isOpen()) return;
  bar().hidden = true;
  find("[data-find-count]", bar()).textContent = "";
  if (restoreFocus) message?.focus({ preventScroll: true });
}

// -- search ---

async function searchSoon(text) {
  search?.controller.abort();
  allRanges?.clear();
  currentRange?.clear();
  search = null;
  showCount();
  const words = text.trim().split(/\s+/).filter(Boolean);
  if (!words.length) return;
  const pattern = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+"), "giu");
  const started = { text, pattern, indexes: [], isComplete: false, at: -1, range: 0, controller: new AbortController() };
  search = started;
  await wait(TYPING_PAUSE);
  if (search !== started) return;
  try {
    await readMatches(started);
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  }
}

async function readMatches(started) {
  const { id, through } = openConversation();
  let start = 0;
  while (start !== null) {
    const parameters = new URLSearchParams({ id, through, text: started.text, start });
    const response = await request(`/console/find?${parameters}`, { signal: started.controller.signal });
    const { entries, next } = await response.json();
    if (search !== started) return;
    started.indexes.push(...entries);
    started.isComplete = next === null;
    start = next;
    showCount();
    if (started.at < 0 && (started.isComplete || started.indexes.length)) await goToFirst();
  }
  highlight(openConversation().messages);
}

/** The first match at or below the top of the page. */
async function goToFirst() {
  const visible = Number(firstVisibleMessage()?.dataset.index ?? 0);
  const next = search.indexes.findIndex((index) => index >= visible);
  if (search.indexes.length) await goTo(Math.max(0, next), "first");
}

function showCount() {
  const element = bar() && find("[data-find-count]", bar());
  if (!element) return;
  element.textContent = countText();
  for (const button of findAll("[data-find-command='next'], [data-find-command='previous']", bar())) {
    button.disabled = !search?.indexes.length;
  }
}

function countText() {
  if (!search) return "";
  const { indexes, at, isComplete } = search;
  if (!indexes.length) return isComplete ? "No matches" : "Searching…";
  const total = `${plural(indexes.length, "message")}${isComplete ? "" : " so far"}`;
  return at < 0 ? total : `${(at + 1).toLocaleString("en")} of ${total}`;
}

// -- going from match to match ---

async function step(by) {
  if (!search?.indexes.length) return;
  const ranges = rangesOf(search.indexes[search.at]);
  const next = search.range + by;
  if (next >= 0 && next < ranges.length) {
    search.range = next;
    showRange(ranges[next]);
    return;
  }
  const count = search.indexes.length;
  await goTo((search.at + by + count) % count, by > 0 ? "first" : "last");
}

async function goTo(at, which) {
  const started = search;
  const index = started.indexes[at];
  started.at = at;
  showCount();
  try {
    const element = await showMessage(index, { block: "nearest" });
    if (!element || search !== started) return;
    const details = find("details", element);
    if (details) details.open = true;
    const rest = find("[data-command='show-all']", partOf(index));
    if (!rangesOf(index).length && rest) await showWholeMessage(rest);
    const ranges = rangesOf(index);
    started.range = which === "first" ? 0 : Math.max(0, ranges.length - 1);
    highlight(openConversation().messages);
    if (ranges.length) showRange(ranges[started.range]);
    else element.scrollIntoView({ block: "start" });
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  }
}

function showRange(range) {
  currentRange?.clear();
  currentRange?.add(range);
  scrollToRange(range, openConversation().scroller);
}

/** The element that has the text of a message: the row of a tool has the texts of two. */
function partOf(index) {
  const element = elementOf(index);
  if (!element) return null;
  return Number(element.dataset.index) === index ? element : find(".tool-result", element);
}

function rangesOf(index) {
  const part = partOf(index);
  if (!part) return [];
  const inResult = part.matches(".tool-result");
  const bodies = findAll("[data-body]", part).filter((body) => inResult || !body.closest(".tool-result"));
  return bodies.flatMap((body) => matchesIn(body));
}

// -- highlights ---

function highlight(root) {
  if (!allRanges || !search) return;
  for (const range of [...allRanges]) if (!range.startContainer.isConnected) allRanges.delete(range);
  const bodies = root.matches?.("[data-body]") ? [root] : findAll("[data-body]", root);
  for (const body of bodies) {
    if (allRanges.size > MAX_RANGES) return;
    for (const range of matchesIn(body)) allRanges.add(range);
  }
}

/** The ranges of a text that match, also across elements. */
function matchesIn(body) {
  const nodes = [];
  let text = "";
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    if (walker.currentNode.parentElement.closest(".code-tools")) continue;
    nodes.push({ node: walker.currentNode, start: text.length });
    text += walker.currentNode.data;
  }
  const ranges = [];
  for (const match of text.matchAll(search.pattern)) {
    if (!match[0].length || ranges.length >= MAX_RANGES) break;
    ranges.push(rangeAt(nodes, match.index, match.index + match[0].length));
  }
  return ranges;
}

function rangeAt(nodes, start, end) {
  const nodeAt = (offset) => {
    let low = 0;
    let high = nodes.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (nodes[middle].start <= offset) low = middle;
      else high = middle - 1;
    }
    return nodes[low];
  };
  const first = nodeAt(start);
  const last = nodeAt(end - 1);
  const range = new Range();
  range.setStart(first.node, start - first.start);
  range.setEnd(last.node, end - last.start);
  return range;
}
