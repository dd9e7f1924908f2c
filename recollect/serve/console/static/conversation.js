// A conversation: a window of its messages that grows at both ends while one scrolls, and never too large.

import { all, counted, fragment, given_up, one, spelled } from "./dom.js";
import { kind, on_page, page } from "./going.js";
import { light_up } from "./highlight.js";
import { say } from "./toast.js";

const WINDOW = 40;
const MOST = 200; // messages on the page; further away they are taken off it again
let state = null;

export function start_conversation() {
  on_page(open);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act='show-all']");
    if (button) show_all(button);
  });
}

/** Go to the first or the last message. */
export const to_start = () => jump(0);
export const to_end = () => state && jump(Math.max(0, state.total - WINDOW), "end");

/** Follow the link to the next or the previous match. */
export const step_match = (which) => one(`[data-match="${which}"]`)?.click();

function open() {
  state?.watching.disconnect();
  state = null;
  if (kind() !== "conversation") return;
  const root = page();
  const first = one("[data-window]", root);
  state = {
    root,
    id: root.dataset.id,
    through: root.dataset.through,
    query: root.dataset.query,
    words: root.dataset.words.split(" ").filter(Boolean),
    scroller: one("[data-scroller]", root),
    messages: one("[data-messages]", root),
    start: Number(first.dataset.start),
    end: Number(first.dataset.end),
    total: Number(first.dataset.total),
    busy: false,
    unread: 0,
    watching: new IntersectionObserver(on_edge, { root: one("[data-scroller]", root), rootMargin: "1200px 0px" }),
  };
  const mine = state;
  state.scroller.addEventListener("scroll", () => mine === state && tell_position(), { passive: true });
  const position = one("[data-position]", root);
  position.addEventListener("input", () => say_position(Number(position.value)));
  position.addEventListener("change", () => jump(Math.max(0, Number(position.value) - 1)));
  one("[data-pill]", root).addEventListener("click", () => to_end());
  light_up(state.messages, state.words);
  find_target();
  tell_position();
  watch_edges();
  if (state.query) show_matches();
}

function find_target() {
  const hit = one("[data-hit-here]", state.messages);
  if (!hit) return;
  const inner = one(".collapsed", hit);
  if (inner) inner.open = true;
  hit.scrollIntoView({ block: hit.offsetHeight > state.scroller.clientHeight * 0.8 ? "start" : "center" });
  hit.focus({ preventScroll: true });
}

function watch_edges() {
  for (const edge of all("[data-edge]", state.root)) {
    state.watching.unobserve(edge);
    state.watching.observe(edge);
  }
}

function on_edge(entries) {
  for (const entry of entries) {
    if (!entry.isIntersecting || !state || state.busy) continue;
    const above = entry.target.dataset.edge === "above";
    if (above && state.start > 0) extend(Math.max(0, state.start - WINDOW), state.start - Math.max(0, state.start - WINDOW), true);
    else if (!above && state.end < state.total) extend(state.end, WINDOW, false);
    else continue;
    return;
  }
}

async function part(start, limit) {
  const mine = state;
  const given = new URLSearchParams({ id: state.id, start, limit });
  if (state.through) given.set("through", state.through);
  if (state.query) given.set("q", state.query);
  const made = one("[data-window]", await fragment(`/console/messages?${given}`));
  return mine === state ? made : null;
}

async function extend(start, limit, above) {
  state.busy = true;
  try {
    const made = await part(start, limit);
    if (!made) return;
    light_up(made, state.words);
    const scroller = state.scroller;
    state.total = Number(made.dataset.total);
    if (above) {
      const height = scroller.scrollHeight;
      state.messages.prepend(made);
      scroller.scrollTop += scroller.scrollHeight - height;
      state.start = start;
    } else {
      state.messages.append(made);
      state.end = Number(made.dataset.end);
    }
    trim(above);
    tell_position();
  } catch (error) {
    if (!given_up(error)) say(error.message);
  } finally {
    if (state) {
      state.busy = false;
      watch_edges();
    }
  }
}

/** Take messages off at the far end. What is in sight stays where it is. */
function trim(above) {
  const known = all(".message", state.messages);
  const over = known.length - MOST;
  if (over <= 0) return;
  const scroller = state.scroller;
  const gone = above ? known.slice(-over) : known.slice(0, over);
  const height = scroller.scrollHeight;
  for (const message of gone) message.remove();
  if (above) state.end -= over;
  else {
    state.start += over;
    scroller.scrollTop -= height - scroller.scrollHeight;
  }
  for (const window of all("[data-window]", state.messages)) if (!window.children.length) window.remove();
}

async function jump(start, block = "start") {
  if (!state) return;
  try {
    const from = Math.max(0, Math.min(start, state.total - WINDOW));
    const made = await part(from, WINDOW);
    if (!made) return;
    light_up(made, state.words);
    state.messages.replaceChildren(made);
    Object.assign(state, { start: Number(made.dataset.start), end: Number(made.dataset.end), total: Number(made.dataset.total) });
    const wanted = block === "end" ? all(".message", made).at(-1) : one(`[data-index="${start}"]`, made);
    if (block === "end") state.scroller.scrollTop = state.scroller.scrollHeight;
    else if (from === 0 && start === 0) state.scroller.scrollTop = 0;
    else wanted?.scrollIntoView({ block });
    wanted?.focus({ preventScroll: true });
    unread(0);
    tell_position();
    watch_edges();
  } catch (error) {
    say(error.message);
  }
}

function at_bottom() {
  const { scroller, end, total } = state;
  return end >= total && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
}

function tell_position() {
  const top = state.scroller.getBoundingClientRect().top;
  const messages = all(".message", state.messages);
  let low = 0;
  let high = messages.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (messages[middle].getBoundingClientRect().bottom > top + 8) high = middle;
    else low = middle + 1;
  }
  const bottom = at_bottom();
  const at = bottom ? state.total : Number(messages[low]?.dataset.index ?? 0) + 1;
  one("[data-where]", state.root).hidden = state.total <= 8 || (state.start === 0 && state.end >= state.total && state.total < WINDOW / 2);
  const position = one("[data-position]", state.root);
  position.max = Math.max(1, state.total);
  position.value = at;
  say_position(at);
  one("[data-amount]", state.root).textContent = counted(state.total, "message");
  if (bottom) unread(0);
}

const say_position = (at) => {
  one("[data-position-said]", state.root).textContent = `message ${spelled(at)} of ${spelled(state.total)}`;
};

function unread(count) {
  state.unread = count;
  const pill = one("[data-pill]", state.root);
  pill.hidden = !count;
  pill.textContent = count ? `${counted(count, "new message")} ↓` : "";
}

/** Something was saved: take in what is new at the end. */
export async function grow() {
  if (kind() !== "conversation") return;
  while (state?.busy) await new Promise((resolve) => setTimeout(resolve, 50));
  if (!state || "leaving" in state.root.dataset) return;
  const followed = at_bottom();
  const whole = state.end >= state.total;
  const last = all(".message", state.messages).at(-1);
  state.busy = true;
  try {
    const made = await part(Math.max(0, state.end - 1), whole ? WINDOW : 1);
    if (!made) return;
    rename(made.dataset.name);
    const total = Number(made.dataset.total);
    const first = one(".message", made);
    if (last && first?.dataset.message !== last.dataset.message) return await again();
    const more = total - state.total;
    state.total = total;
    if (whole && more > 0) {
      if (last) first.remove();
      light_up(made, state.words);
      state.messages.append(made);
      state.end = Number(made.dataset.end);
      one(".none", state.messages)?.remove();
    }
    if (more > 0 && followed) state.scroller.scrollTop = state.scroller.scrollHeight;
    else if (more > 0) unread(state.unread + more);
    tell_position();
  } catch (error) {
    if (error.status === 404) say("This conversation was deleted.");
    else if (!given_up(error)) say(error.message);
  } finally {
    if (state) {
      state.busy = false;
      watch_edges();
    }
  }
}

/** Another way through the conversation is the newest now: show it at the same place. */
async function again() {
  const made = await part(state.start, WINDOW);
  if (!made) return;
  light_up(made, state.words);
  state.messages.replaceChildren(made);
  Object.assign(state, { start: Number(made.dataset.start), end: Number(made.dataset.end), total: Number(made.dataset.total) });
  tell_position();
}

export function rename(name) {
  const heading = one("[data-name] bdi", state.root);
  if (heading.textContent === name) return;
  heading.textContent = name;
  state.root.dataset.title = document.title = `${name} · Recollect`;
}

async function show_matches() {
  const mine = state;
  const given = new URLSearchParams({ id: state.id, q: state.query, m: state.root.dataset.target });
  try {
    const made = await fragment(`/console/matches?${given}`);
    if (mine === state) one("[data-matches]", state.root)?.replaceChildren(made);
  } catch (error) {
    if (!given_up(error)) say(error.message);
  }
}

async function show_all(button) {
  const message = button.closest(".message");
  const given = new URLSearchParams({ id: state.id, m: message.dataset.message });
  button.disabled = true;
  try {
    const made = await fragment(`/console/message?${given}`);
    const body = one("[data-body]", message);
    body.replaceChildren(made);
    light_up(body, state.words);
    button.parentElement.remove();
  } catch (error) {
    button.disabled = false;
    say(error.message);
  }
}
