// A conversation. The window of messages grows at both ends while scrolling, up to a limit.

import { fetchFragment, find, findAll, formatNumber, isAborted, plural, wait } from "./dom.js";
import { highlightTerms, scrollToMessage } from "./highlight.js";
import { keepPlace, onPage, page, pageName, updateSignal } from "./navigation.js";
import { showToast } from "./toast.js";

const WINDOW = 40; // messages per request
const MAX_MESSAGES = 200; // more are removed at the far end
const BOTTOM_MARGIN = 80; // pixels
const CONTEXT = 8; // messages above one that is not in the page yet
const listeners = [];
const growthListeners = [];
const steppers = [];
let state = null;

/** The conversation that is open, or null. */
export const openConversation = () => state;

/** Call a function with an element whenever messages were added to it. */
export const onMessages = (listener) => listeners.push(listener);

/** Call a function when the open conversation has new messages, in the page or not. */
export const onGrowth = (listener) => growthListeners.push(listener);

/** Add a function that goes to the next or previous place. It returns whether it knows one. */
export const addStepper = (stepper) => steppers.push(stepper);

export function startConversation() {
  onPage(openPage);
  keepPlace(readPlace, restorePlace);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-command='show-all']");
    if (button) showWholeMessage(button);
    if (event.target.closest("[data-use-title]")) saveSuggestedTitle();
  });
}

/** Save the words that stand for the title as the title. */
function saveSuggestedTitle() {
  const form = find("[data-rename]", state.root);
  form.elements.title.value = find("[data-name] bdi", state.root).textContent;
  form.requestSubmit();
  find("[data-use-title]", state.root).remove();
}

export const goToStart = () => jumpTo(0);
export const goToEnd = () => state && jumpTo(Math.max(0, state.total - WINDOW), "end");

/** Go to the next or previous match of a search, or else to the next or previous question. */
export function stepMatch(direction) {
  const link = find(`[data-match="${direction}"]`);
  if (link) link.click();
  else if (!find("[data-match]")) steppers.some((step) => step(direction));
}

function openPage() {
  state?.observer.disconnect();
  state = null;
  if (pageName() !== "conversation") return;
  const root = page();
  const scroller = find("[data-scroller]", root);
  state = {
    root,
    scroller,
    id: root.dataset.id,
    through: root.dataset.through,
    query: root.dataset.query,
    terms: root.dataset.terms.split(" ").filter(Boolean),
    messages: find("[data-messages]", root),
    isLoading: false,
    hasFailed: false,
    unreadCount: 0,
    observer: new IntersectionObserver(onEdgeVisible, { root: scroller, rootMargin: "1200px 0px" }),
  };
  readRange(find("[data-window]", root));
  const opened = state;
  scroller.addEventListener("scroll", () => opened === state && onScroll(), { passive: true });
  const position = find("[data-position]", root);
  position.addEventListener("input", () => showPosition(Number(position.value)));
  position.addEventListener("change", () => jumpTo(Math.max(0, Number(position.value) - 1)));
  find("[data-new-messages]", root).addEventListener("click", () => goToEnd());
  announceMessages(state.messages);
  scrollToTarget();
  state.openedAt = scroller.scrollTop;
  updatePosition();
  observeEdges();
  if (state.query) loadMatches();
}

/** The message at the top of the page, unless the page is at the place where it was opened. */
function readPlace() {
  if (!state || state.scroller.scrollTop === state.openedAt) return {};
  return { message: Number(firstVisibleMessage()?.dataset.index ?? 0) };
}

async function restorePlace({ message }) {
  if (!state || message === undefined) return;
  state.isRestored = true;
  await showMessage(message);
}

function announceMessages(root) {
  highlightTerms(root, state.terms);
  for (const listener of listeners) listener(root);
}

/** Take over which messages a window has. */
function readRange(windowElement) {
  state.start = Number(windowElement.dataset.start);
  state.end = Number(windowElement.dataset.end);
  readSize(windowElement);
}

function readSize(windowElement) {
  state.total = Number(windowElement.dataset.total);
  state.size = windowElement.dataset.size;
}

async function scrollToTarget() {
  const opened = state;
  const target = find("[data-target]", state.messages);
  if (!target) return;
  const details = find(".collapsed", target);
  if (details) details.open = true;
  const hasMatch = scrollToMessage(target, state.scroller);
  target.focus({ preventScroll: true });
  const rest = find("[data-command='show-all']", target);
  if (hasMatch || !state.terms.length || !rest) return;
  await showWholeMessage(rest); // the match is in the part that was left out
  if (state !== opened || state.isRestored) return;
  scrollToMessage(target, state.scroller);
  state.openedAt = state.scroller.scrollTop;
}

// -- loading ---

/** Observe the edges again, so that an edge that is still visible reports once more. */
function observeEdges() {
  for (const edge of findAll("[data-edge]", state.root)) {
    state.observer.unobserve(edge);
    state.observer.observe(edge);
  }
}

function onEdgeVisible(entries) {
  for (const entry of entries) {
    if (!entry.isIntersecting || !state || state.isLoading) continue;
    if (entry.target.dataset.edge === "above") {
      if (state.start === 0) continue;
      const start = Math.max(0, state.start - WINDOW);
      extend(start, state.start - start, "above");
    } else {
      if (state.end >= state.total) continue;
      extend(state.end, WINDOW, "below");
    }
    return;
  }
}

/** Fetch messages. Returns null if another page was opened in the meantime. */
async function fetchWindow(start, limit) {
  const requester = state;
  const parameters = new URLSearchParams({ id: state.id, start, limit });
  if (state.through) parameters.set("through", state.through);
  if (state.query) parameters.set("q", state.query);
  const fragment = await fetchFragment(`/console/messages?${parameters}`, { signal: updateSignal() });
  return requester === state ? find("[data-window]", fragment) : null;
}

async function extend(start, limit, edge) {
  state.isLoading = true;
  try {
    const windowElement = await fetchWindow(start, limit);
    if (!windowElement) return;
    readSize(windowElement);
    if (edge === "above") {
      const { scroller } = state;
      const height = scroller.scrollHeight;
      state.messages.prepend(windowElement);
      scroller.scrollTop += scroller.scrollHeight - height;
      state.start = start;
    } else {
      state.messages.append(windowElement);
      state.end = Number(windowElement.dataset.end);
    }
    announceMessages(windowElement);
    removeFarMessages(edge);
    updatePosition();
    finishLoading();
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
    if (!state) return;
    state.isLoading = false;
    state.hasFailed = true; // tried again on the next scroll, or when the server is back
  }
}

function finishLoading() {
  if (!state) return;
  state.isLoading = false;
  observeEdges();
}

/** Remove messages at the end opposite to the one that grew. Visible messages stay in place. */
function removeFarMessages(grownEdge) {
  const messages = findAll(".message", state.messages);
  const excess = messages.length - MAX_MESSAGES;
  if (excess <= 0) return;
  const { scroller } = state;
  const height = scroller.scrollHeight;
  if (grownEdge === "above") {
    for (const message of messages.slice(-excess)) message.remove();
    state.end -= excess;
  } else {
    for (const message of messages.slice(0, excess)) message.remove();
    state.start += excess;
    scroller.scrollTop -= height - scroller.scrollHeight;
  }
  for (const windowElement of findAll("[data-window]", state.messages)) {
    if (!windowElement.children.length) windowElement.remove();
  }
}

async function jumpTo(index, block = "start") {
  if (!state) return;
  try {
    const start = Math.max(0, Math.min(index, state.total - WINDOW));
    const windowElement = await fetchWindow(start, WINDOW);
    if (!windowElement) return;
    replaceMessages(windowElement);
    const atEnd = block === "end";
    const target = atEnd ? findAll(".message:not([hidden])", windowElement).at(-1) : elementOf(index);
    if (atEnd) state.scroller.scrollTop = state.scroller.scrollHeight;
    else if (index === 0) state.scroller.scrollTop = 0;
    else target?.scrollIntoView({ block });
    target?.focus({ preventScroll: true });
    setUnread(0);
    updatePosition();
    observeEdges();
  } catch (error) {
    showToast(error.message);
  }
}

function replaceMessages(windowElement) {
  state.messages.replaceChildren(windowElement);
  readRange(windowElement);
  announceMessages(windowElement);
}

/** The element of a message in the page. A tool's result is part of the row of its call. */
export function elementOf(index) {
  const message = find(`.message[data-index="${index}"]`, state.messages);
  return message?.hidden ? find(`.message[data-index="${message.dataset.call}"]`, state.messages) : message;
}

/** Show a message that may not be in the page yet. Returns its element, or null. */
export async function showMessage(index, { block = "start" } = {}) {
  if (!state) return null;
  if (!elementOf(index)) {
    const windowElement = await fetchWindow(Math.max(0, index - CONTEXT), WINDOW);
    if (!windowElement) return null;
    replaceMessages(windowElement);
    const call = find(`.message[data-index="${index}"]`, windowElement)?.dataset.call;
    if (call && !elementOf(index)) return showMessage(Number(call), { block });
  }
  const element = elementOf(index);
  element?.scrollIntoView({ block });
  updatePosition();
  observeEdges();
  return element;
}

// -- position ---

function onScroll() {
  updatePosition();
  if (!state.hasFailed || state.isLoading) return;
  state.hasFailed = false;
  observeEdges();
}

function isAtBottom() {
  const { scroller, end, total } = state;
  return end >= total && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < BOTTOM_MARGIN;
}

/** The first message below the top of the scroller, by binary search. */
export function firstVisibleMessage() {
  const top = state.scroller.getBoundingClientRect().top;
  const messages = findAll(".message:not([hidden])", state.messages);
  let low = 0;
  let high = messages.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (messages[middle].getBoundingClientRect().bottom > top + 24) high = middle;
    else low = middle + 1;
  }
  return messages[low];
}

function updatePosition() {
  const atBottom = isAtBottom();
  const number = atBottom ? state.total : Number(firstVisibleMessage()?.dataset.index ?? 0) + 1;
  const isComplete = state.start === 0 && state.end >= state.total;
  const isShort = state.total <= 8 || (isComplete && state.total < WINDOW / 2);
  find("[data-position-bar]", state.root).hidden = isShort;
  const position = find("[data-position]", state.root);
  position.max = Math.max(1, state.total);
  position.value = number;
  showPosition(number);
  find("[data-message-count]", state.root).textContent = state.size;
  if (atBottom) setUnread(0);
}

function showPosition(number) {
  const text = `message ${formatNumber(number)} of ${formatNumber(state.total)}`;
  find("[data-position-text]", state.root).textContent = text;
}

function setUnread(count) {
  state.unreadCount = count;
  const button = find("[data-new-messages]", state.root);
  button.hidden = !count;
  button.textContent = count ? `${plural(count, "new message")} ↓` : "";
}

// -- changes ---

/** Something was saved: show new messages at the end. */
export async function updateConversation() {
  if (pageName() !== "conversation") return;
  while (state?.isLoading) await wait(50);
  if (!state || "leaving" in state.root.dataset) return;
  state.isLoading = true;
  try {
    await appendNewMessages();
  } catch (error) {
    if (error.status === 404) showToast("This conversation was deleted.");
    else if (!isAborted(error)) showToast(error.message);
  } finally {
    finishLoading();
  }
}

async function appendNewMessages() {
  const wasAtBottom = isAtBottom();
  const showsEnd = state.end >= state.total;
  const lastMessage = findAll(".message", state.messages).at(-1);
  const windowElement = await fetchWindow(Math.max(0, state.end - 1), showsEnd ? WINDOW : 1);
  if (!windowElement) return;
  showName(windowElement.dataset.name);
  const firstMessage = find(".message", windowElement);
  if (lastMessage && firstMessage?.dataset.message !== lastMessage.dataset.message) {
    await showOtherBranch();
    return;
  }
  const oldTotal = state.total;
  readSize(windowElement);
  const newCount = state.total - oldTotal;
  if (showsEnd && newCount > 0) {
    if (lastMessage) firstMessage.remove();
    state.messages.append(windowElement);
    state.end = Number(windowElement.dataset.end);
    find(".empty-hint", state.messages)?.remove();
    announceMessages(windowElement);
    await updateToolRows(windowElement);
  }
  if (newCount > 0) for (const listener of growthListeners) listener();
  if (newCount > 0 && wasAtBottom) state.scroller.scrollTop = state.scroller.scrollHeight;
  else if (newCount > 0) setUnread(state.unreadCount + newCount);
  updatePosition();
}

/** Results have arrived: show them in the rows of their calls. */
async function updateToolRows(windowElement) {
  for (const result of findAll("[data-call]", windowElement)) {
    const row = find(`.message[data-index="${result.dataset.call}"]`, state.messages);
    if (!row || find(".tool-result", row)) continue;
    const update = await fetchWindow(Number(result.dataset.call), 1);
    const newRow = update && find(".message", update);
    if (newRow?.dataset.message !== row.dataset.message) continue;
    find("details", newRow).open = find("details", row).open;
    row.replaceWith(newRow);
    announceMessages(newRow);
  }
}

/** Another branch is the newest now. Show it at the same position. */
async function showOtherBranch() {
  const windowElement = await fetchWindow(state.start, WINDOW);
  if (!windowElement) return;
  replaceMessages(windowElement);
  updatePosition();
}

export function showName(name) {
  const heading = find("[data-name] bdi", state.root);
  if (heading.textContent === name) return;
  heading.textContent = name;
  state.root.dataset.title = document.title = `${name} · Recollect`;
}

async function loadMatches() {
  const requester = state;
  const parameters = new URLSearchParams({ id: state.id, q: state.query, m: state.root.dataset.scrollTo });
  try {
    const fragment = await fetchFragment(`/console/matches?${parameters}`);
    if (requester === state) find("[data-matches]", state.root)?.replaceChildren(fragment);
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  }
}

export async function showWholeMessage(button) {
  const message = button.closest("[data-message]");
  const parameters = new URLSearchParams({ id: state.id, m: message.dataset.message });
  button.disabled = true;
  try {
    const fragment = await fetchFragment(`/console/message?${parameters}`);
    const body = find("[data-body]", message);
    body.replaceChildren(fragment);
    announceMessages(body);
    button.parentElement.remove();
  } catch (error) {
    button.disabled = false;
    showToast(error.message);
  }
}
