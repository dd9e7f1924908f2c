// The questions of a conversation: a list beside the messages, and keys to go from one to the next.

import { addStepper, firstVisibleMessage, onGrowth, openConversation, showMessage } from "./conversation.js";
import { find, isAborted, isTextField, loadSetting, plural, request, saveSetting } from "./dom.js";
import { onPage, page, pageName, updateSignal } from "./navigation.js";
import { showToast } from "./toast.js";

const WIDE = matchMedia("(min-width: 1500px)");
let outline = null; // { conversation, questions: [[index, text]], buttons, scanned, loading }

export function startOutline() {
  onPage(openPage);
  onGrowth(() => outline && isOpen() && load());
  addStepper((direction) => {
    step(direction === "next" ? 1 : -1);
    return true;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-outline-command]");
    if (button) COMMANDS[button.dataset.outlineCommand]();
    const question = event.target.closest("[data-question]");
    if (question) goTo(Number(question.dataset.question));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "o" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (pageName() !== "conversation" || isTextField(event.target) || find("dialog[open]")) return;
    if (loadSetting("shortcuts") === "off") return;
    event.preventDefault();
    toggle();
  });
}

const COMMANDS = { toggle, next: () => step(1), previous: () => step(-1) };
const panel = () => find("[data-outline]", page());
const isOpen = () => pageName() === "conversation" && !panel().hidden;

function openPage() {
  outline = null;
  if (pageName() !== "conversation") return;
  outline = { conversation: openConversation(), questions: [], buttons: [], scanned: 0, loading: null };
  outline.conversation.scroller.addEventListener("scroll", markCurrent, { passive: true });
  if (WIDE.matches && loadSetting("outline") !== "off") show(true);
}

function toggle() {
  const isVisible = !isOpen();
  saveSetting("outline", isVisible ? "on" : "off");
  show(isVisible);
}

function show(isVisible) {
  panel().hidden = !isVisible;
  find("[data-outline-command='toggle']", page()).setAttribute("aria-expanded", String(isVisible));
  if (isVisible) load();
}

// -- questions ---

/** Read the questions that are not known yet. Several calls share one request. */
function load() {
  const opened = outline;
  if (opened.scanned >= opened.conversation.total && opened.questions.length) return opened.loading;
  opened.loading ??= readQuestions(opened).finally(() => (opened.loading = null));
  return opened.loading;
}

async function readQuestions(opened) {
  const { id, through, total } = opened.conversation;
  let start = opened.scanned;
  try {
    while (start !== null) {
      const parameters = new URLSearchParams({ id, through, start });
      const response = await request(`/console/questions?${parameters}`, { signal: updateSignal() });
      const { entries, next } = await response.json();
      if (opened !== outline) return;
      opened.questions.push(...entries);
      addToList(entries);
      start = next;
    }
    opened.scanned = total;
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  }
}

function addToList(entries) {
  const list = find("[data-questions]", panel());
  const template = find("[data-question-template]", panel());
  for (const [index, text] of entries) {
    const item = template.content.cloneNode(true).firstElementChild;
    const button = find("button", item);
    button.dataset.question = index;
    find("bdi", button).textContent = text;
    outline.buttons.push(button);
    list.append(item);
  }
  const count = outline.questions.length;
  find("[data-question-count]", panel()).textContent = count ? plural(count, "question") : "No questions";
  markCurrent();
}

/** The last question at or above a message. */
function questionAt(index) {
  let low = 0;
  let high = outline.questions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (outline.questions[middle][0] <= index) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function markCurrent() {
  if (!outline || !isOpen()) return;
  const current = questionAt(Number(firstVisibleMessage()?.dataset.index ?? 0));
  const button = outline.buttons[current];
  const previous = find("[aria-current]", panel());
  if (previous === button) return;
  previous?.removeAttribute("aria-current");
  button?.setAttribute("aria-current", "true");
  button?.scrollIntoView({ block: "nearest" });
}

async function step(by) {
  if (!outline) return;
  await load();
  if (!outline?.questions.length) return;
  const visible = Number(firstVisibleMessage()?.dataset.index ?? 0);
  let target = questionAt(visible) + by;
  if (by < 0 && outline.questions[target + 1]?.[0] < visible) target += 1; // the start of this answer's question
  const focused = document.activeElement?.closest?.(".message")?.dataset.index;
  const onQuestion = outline.questions.findIndex(([index]) => index === Number(focused));
  if (focused !== undefined && onQuestion >= 0) target = onQuestion + by;
  if (target < 0) showToast("This is the first question.");
  else if (target >= outline.questions.length) showToast("This is the last question.");
  else await goTo(outline.questions[target][0]);
}

async function goTo(index) {
  try {
    const element = await showMessage(index);
    element?.focus({ preventScroll: true });
    if (!WIDE.matches && matchMedia("(max-width: 860px)").matches) show(false);
    markCurrent();
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  }
}
