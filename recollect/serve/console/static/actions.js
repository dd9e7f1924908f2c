// What can be done with a conversation or another document: rename, tags, project, export, delete; and copying.

import { all, ask, fragment, one } from "./dom.js";
import { go, kind, page } from "./going.js";
import { rename as show_name } from "./conversation.js";
import { neighbour, refresh } from "./sidebar.js";
import { say } from "./toast.js";

const address = (id, rest = "") => `/conversations/${encodeURIComponent(id)}${rest}`;
const page_of = (id) => ([".", ".."].includes(id) ? `/c/?${new URLSearchParams({ id })}` : `/c/${encodeURIComponent(id)}`);
const item_address = (source, id, rest = "") => `/api/knowledge/${source}/${encodeURIComponent(id)}${rest}`;
const TYPES = { json: "application/json", txt: "text/plain", md: "text/markdown" };

export function start_actions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-text], [data-export], [data-untag], [data-act='copy-message'], [data-permalink]");
    for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (!button) return;
    if (button.dataset.copyText !== undefined) copy_text(button.dataset.copyText);
    else if (button.dataset.copy) copy(button.dataset.copy, "The command was copied; run it in a terminal.");
    else if (button.dataset.export) export_as(button.dataset.export);
    else if (button.dataset.untag !== undefined) change_tags((tags) => tags.filter((tag) => tag !== button.dataset.untag));
    else if (button.matches("[data-permalink]")) {
      event.preventDefault();
      copy(button.href, "The link was copied.");
    } else copy_message(button.closest(".message"));
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const act = form.matches("[data-rename]") ? save_name : form.matches("[data-tagging]") ? add_tag : form.matches("[data-project]") ? move : null;
    if (!act) return;
    event.preventDefault();
    act(form).catch((error) => say(error.message));
  });
  document.addEventListener("focusout", (event) => {
    const form = event.target.closest?.("[data-rename]");
    if (form && !form.contains(event.relatedTarget)) naming(false);
  });
}

const id = () => (kind() === "conversation" ? page().dataset.id : null);

/** Show or hide the field for a new title. */
export function naming(on) {
  if (!id()) return;
  const form = one("[data-rename]", page());
  form.hidden = !on;
  one("[data-name]", page()).hidden = on;
  if (on) {
    form.elements.title.value = one("[data-name] bdi", page()).textContent;
    form.elements.title.focus();
    form.elements.title.select();
  }
}

async function put(changes) {
  await ask(address(id(), `?${new URLSearchParams(changes)}`), { method: "PUT" });
}

async function save_name(form) {
  const title = form.elements.title.value.trim();
  await put([["title", title]]);
  naming(false);
  show_name(title);
  one("[data-name]", page()).focus();
  refresh();
}

async function move(form) {
  const namespace = form.elements.namespace.value.trim();
  await put([["namespace", namespace]]);
  const menu = form.closest(".menu");
  menu.open = false;
  one("summary", menu).textContent = namespace.split(/[\\/]/).filter(Boolean).at(-1) ?? namespace;
  refresh();
}

const tags = () => all("[data-untag]", page()).map((button) => button.dataset.untag);

async function add_tag(form) {
  const tag = form.elements.tag.value.trim();
  if (!tag) return;
  form.elements.tag.value = "";
  await change_tags((known) => (known.includes(tag) ? known : [...known, tag]));
  one("[data-tagging] input", page())?.focus();
}

async function change_tags(change) {
  const wanted = change(tags());
  try {
    await put(wanted.length ? wanted.map((tag) => ["tags", tag]) : [["tags", ""]]);
    const made = await fragment(`/console/tags?${new URLSearchParams({ id: id() })}`);
    one("[data-tags]", page()).replaceWith(made);
    refresh();
  } catch (error) {
    say(error.message);
  }
}

export function start_tag() {
  one("[data-tagging] input", page())?.focus();
}

export function export_menu() {
  const menu = one("[data-menu='export']", page() ?? document);
  if (!menu) return;
  menu.open = !menu.open;
  if (menu.open) one("button, .sheet a", menu).focus();
}

async function export_as(format) {
  one("[data-menu='export']", page()).open = false;
  try {
    const answer = await ask(address(id(), `/export?format=${format}`), { method: "POST" });
    const text = format === "json" ? await answer.text() : (await answer.json()).content;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: TYPES[format] }));
    link.download = `${file_name(one("[data-name] bdi", page()).textContent)}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    say(error.message);
  }
}

function file_name(title) {
  const clean = title.replace(/[^\p{L}\p{N}._ -]+/gu, " ").replace(/\s+/g, " ").replace(/^[ .]+|[ .]+$/g, "");
  return clean.slice(0, 80) || "conversation";
}

export async function remove() {
  if (kind() === "item") return remove_item();
  const gone = id();
  if (!gone) return;
  const name = one("[data-name] bdi", page()).textContent;
  const next = neighbour(gone);
  const shown = page();
  shown.dataset.leaving = ""; // so that it is not asked for new messages meanwhile
  try {
    const answer = await ask(address(gone, "?undo=true"), { method: "DELETE" });
    const { conversation } = await answer.json();
    await go(next, { history: "replace" });
    refresh();
    offer_back(name, "/conversations/restore", conversation, page_of(gone));
  } catch (error) {
    delete shown.dataset.leaving;
    say(error.message);
  }
}

async function remove_item() {
  const shown = page();
  const { id: gone, source, address: where } = shown.dataset;
  const name = one("[data-name] bdi", shown).textContent;
  const next = neighbour(gone, `/knowledge/${source}`);
  shown.dataset.leaving = "";
  try {
    const answer = await ask(item_address(source, gone, "?undo=true"), { method: "DELETE" });
    const { document: deleted } = await answer.json();
    await go(next, { history: "replace" });
    refresh();
    offer_back(name, "/api/knowledge/restore", deleted, where);
  } catch (error) {
    delete shown.dataset.leaving;
    say(error.message);
  }
}

/** Say what was deleted, and put it back if the person wants that. */
function offer_back(name, door, deleted, where) {
  say(`Deleted “${name.length > 60 ? `${name.slice(0, 60)}…` : name}”.`, {
    act: async () => {
      await ask(door, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(deleted) });
      await refresh();
      await go(where);
    },
  });
}

async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    say(`Copy this: ${text}`, { seconds: 20 });
  }
}

/** Copy a message as it was written, not as it is shown. */
const copy_message = (message) => copy_from(`/console/source?${new URLSearchParams({ id: id(), m: message.dataset.message })}`);

/** The same of a document, or of one of its fields. */
const copy_text = (field) => copy_from(`/console/text?${new URLSearchParams({ source: page().dataset.source, id: page().dataset.id, field })}`);

async function copy_from(where) {
  try {
    const text = ask(where).then((answer) => answer.blob());
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
    say("The text was copied.");
  } catch {
    say("The browser does not allow copying here; select the text instead.");
  }
}
