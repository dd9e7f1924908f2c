// Actions on conversations and items: rename, tag, move, export, delete, copy.

import { showName } from "./conversation.js";
import { find, findAll, request } from "./dom.js";
import { editConversation, moveConversation, showTags } from "./edits.js";
import { goTo, page, pageName, stopUpdates } from "./navigation.js";
import { neighbourUrl, refreshList } from "./sidebar.js";
import { showToast } from "./toast.js";

const MEDIA_TYPES = { json: "application/json", txt: "text/plain", md: "text/markdown" };
const MAX_TOAST_NAME = 60; // characters

const conversationApi = (id, rest = "") => `/conversations/${encodeURIComponent(id)}${rest}`;
const itemApi = (kind, id, rest = "") => `/api/knowledge/${kind}/${encodeURIComponent(id)}${rest}`;
const conversationPage = (id) =>
  [".", ".."].includes(id) ? `/c/?${new URLSearchParams({ id })}` : `/c/${encodeURIComponent(id)}`;

const BUTTONS = [
  "[data-copy]",
  "[data-copy-text]",
  "[data-export]",
  "[data-remove-tag]",
  "[data-command='copy-message']",
  "[data-permalink]",
].join(", ");

export function startActions() {
  document.addEventListener("click", (event) => {
    for (const menu of findAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    const button = event.target.closest(BUTTONS);
    if (button) runAction(button, event);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const submit = formAction(form);
    if (!submit) return;
    event.preventDefault();
    submit(form).catch((error) => showToast(error.message));
  });
  document.addEventListener("focusout", (event) => {
    const form = event.target.closest?.("[data-rename]");
    if (form && !form.contains(event.relatedTarget)) showRenameForm(false);
  });
}

function runAction(button, event) {
  const { copy: command, copyText: field, export: format, removeTag: tag } = button.dataset;
  if (field !== undefined) copyItemText(field);
  else if (command) copy(command, "Command copied. Run it in a terminal.");
  else if (format) exportAs(format);
  else if (tag !== undefined) removeTag(button);
  else if (button.matches("[data-permalink]")) {
    event.preventDefault();
    copy(button.href, "Link copied.");
  } else copyMessage(button.closest(".message"));
}

function formAction(form) {
  if (form.matches("[data-rename]")) return saveName;
  if (form.matches("[data-add-tag]")) return addTag;
  if (form.matches("[data-project]")) return moveToProject;
  return null;
}

const conversationId = () => (pageName() === "conversation" ? page().dataset.id : null);

// -- rename, move, tag ---

export function showRenameForm(visible) {
  if (!conversationId()) return;
  const form = find("[data-rename]", page());
  form.hidden = !visible;
  find("[data-name]", page()).classList.toggle("visually-hidden", visible); // a page has a heading
  if (!visible) return;
  const input = form.elements.title;
  input.value = find("[data-name] bdi", page()).textContent;
  input.focus();
  input.select();
}

async function saveName(form) {
  const title = form.elements.title.value.trim();
  const offerUndo = await editConversation(conversationId(), "rename", title);
  showRenameForm(false);
  showName(title);
  find("[data-name]", page()).focus();
  refreshList();
  offerUndo();
}

async function moveToProject(form) {
  const { value, defaultValue } = form.elements.project;
  const menu = form.closest(".menu");
  menu.open = false;
  find("summary", menu).focus();
  if (value.trim() !== defaultValue) await moveConversation(conversationId(), value.trim(), defaultValue);
}

async function addTag(form) {
  const tag = form.elements.tag.value.trim();
  if (!tag) return;
  form.elements.tag.value = "";
  await changeTags("tag", tag);
  focusTagInput();
}

/** Remove a tag. The focus goes to the next one. */
async function removeTag(button) {
  const index = findAll("[data-remove-tag]", page()).indexOf(button);
  try {
    await changeTags("untag", button.dataset.removeTag);
  } catch (error) {
    showToast(error.message);
    return;
  }
  const buttons = findAll("[data-remove-tag]", page());
  const next = buttons[index] ?? buttons.at(-1);
  if (next) next.focus();
  else focusTagInput();
}

async function changeTags(action, tag) {
  const id = conversationId();
  const offerUndo = await editConversation(id, action, tag);
  await showTags(id);
  refreshList();
  offerUndo();
}

export function focusTagInput() {
  find("[data-add-tag] input", page())?.focus();
}

// -- export ---

export function toggleExportMenu() {
  const menu = find("[data-menu='export']", page() ?? document);
  if (!menu) return;
  menu.open = !menu.open;
  if (menu.open) find("button, .popup a", menu).focus();
}

function exportAs(format) {
  find("[data-menu='export']", page()).open = false;
  return download(conversationId(), find("[data-name] bdi", page()).textContent, format);
}

/** Export a conversation as a file. */
export async function download(id, title, format) {
  try {
    const response = await request(conversationApi(id, `/export?format=${format}`), { method: "POST" });
    const text = format === "json" ? await response.text() : (await response.json()).content;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: MEDIA_TYPES[format] }));
    link.download = `${fileName(title)}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    showToast(error.message);
  }
}

function fileName(title) {
  const name = title.replace(/[^\p{L}\p{N}._ -]+/gu, " ").replace(/\s+/g, " ").replace(/^[ .]+|[ .]+$/g, "");
  return name.slice(0, 80) || "conversation";
}

// -- delete ---

export async function deleteDocument() {
  if (pageName() === "item") {
    const { id, kind, url } = page().dataset;
    await deleteAndOfferUndo({
      deleteUrl: itemApi(kind, id, "?undo=true"),
      nextPage: neighbourUrl(id, `/knowledge/${kind}`),
      restoreUrl: "/api/knowledge/restore",
      restoreField: "document",
      restoredPage: url,
    });
  } else if (conversationId()) {
    const id = conversationId();
    await deleteAndOfferUndo({
      deleteUrl: conversationApi(id, "?undo=true"),
      nextPage: neighbourUrl(id),
      restoreUrl: "/conversations/restore",
      restoreField: "conversation",
      restoredPage: conversationPage(id),
    });
  }
}

async function deleteAndOfferUndo({ deleteUrl, nextPage, restoreUrl, restoreField, restoredPage }) {
  const openPage = page();
  const name = find("[data-name] bdi", openPage).textContent;
  stopUpdates();
  try {
    const response = await request(deleteUrl, { method: "DELETE" });
    const backup = (await response.json())[restoreField];
    await goTo(nextPage, { history: "replace" });
    refreshList();
    const shortName = name.length > MAX_TOAST_NAME ? `${name.slice(0, MAX_TOAST_NAME)}…` : name;
    showToast(`Deleted “${shortName}”.`, { action: () => restore(restoreUrl, backup, restoredPage) });
  } catch (error) {
    delete openPage.dataset.leaving;
    showToast(error.message);
  }
}

async function restore(url, backup, restoredPage) {
  await request(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(backup),
  });
  await refreshList();
  await goTo(restoredPage);
}

// -- copy ---

async function copy(text, message) {
  try {
    await navigator.clipboard.writeText(text);
    showToast(message);
  } catch {
    showToast(`Copy this: ${text}`, { seconds: 20 });
  }
}

/** Copy the source text of a message, not the rendered one. */
function copyMessage(message) {
  const parameters = new URLSearchParams({ id: conversationId(), m: message.dataset.message });
  return copyFrom(`/console/message-text?${parameters}`);
}

/** Copy the source text of an item, or of one of its fields. */
function copyItemText(field) {
  const { kind, id } = page().dataset;
  return copyFrom(`/console/item-text?${new URLSearchParams({ kind, id, field })}`);
}

async function copyFrom(url) {
  try {
    const text = request(url).then((response) => response.blob());
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
    showToast("Text copied.");
  } catch {
    showToast("The browser does not allow copying. Select the text instead.");
  }
}
