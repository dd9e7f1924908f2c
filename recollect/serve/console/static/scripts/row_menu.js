// The menu of a row in the list of conversations. Every change can be undone.

import { download } from "./actions.js";
import { find, findAll } from "./dom.js";
import { editConversation } from "./edits.js";
import { goTo, page, reloadPage, stopUpdates } from "./navigation.js";
import { currentRow, neighbourUrl, refreshList } from "./sidebar.js";
import { showToast } from "./toast.js";

const menu = find("#row-menu");
const dialog = find("#row-dialog");
let row = null;

const FORMS = {
  rename: { title: "Rename the conversation", label: "New title", submit: "Rename" },
  tag: { title: "Add a tag", label: "Tag", submit: "Add" },
};

export function startRowMenu() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-row-menu]");
    if (button) openRowMenu(find(".row", button.parentElement), button);
  });
  document.addEventListener("keydown", (event) => {
    const isMenuKey = event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey);
    if (!isMenuKey || !event.target.closest?.(".row")) return;
    event.preventDefault();
    openRowMenu(event.target.closest(".row"));
  });
  menu.addEventListener("keydown", onMenuKey);
  menu.addEventListener("click", (event) => {
    const button = event.target.closest("[data-row-action]");
    if (button) run(button.dataset.rowAction);
  });
  find("[data-cancel]", dialog).addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "save") submit();
    else row?.focus();
  });
}

/** Open the menu of a row, by default the focused or current one. */
export function openRowMenu(target = currentRow(), anchor = target) {
  if (!target || !find("[data-row-menu]", target.parentElement)) return;
  row = target;
  find("[data-pin-label]", menu).textContent = row.hasAttribute("data-pinned") ? "Unpin" : "Pin";
  menu.showPopover();
  const box = anchor.getBoundingClientRect();
  const left = anchor === row ? box.left + 24 : box.right - menu.offsetWidth;
  menu.style.left = `${Math.max(8, Math.min(left, innerWidth - menu.offsetWidth - 8))}px`;
  menu.style.top = `${Math.max(8, Math.min(box.bottom, innerHeight - menu.offsetHeight - 8))}px`;
  items()[0].focus();
}

const items = () => findAll("[role='menuitem']", menu).filter((item) => item.offsetParent);

function onMenuKey(event) {
  const all = items();
  const index = all.indexOf(document.activeElement);
  if (event.key === "ArrowDown") all[(index + 1) % all.length].focus();
  else if (event.key === "ArrowUp") all[(index - 1 + all.length) % all.length].focus();
  else if (event.key === "Home") all[0].focus();
  else if (event.key === "End") all.at(-1).focus();
  else if (event.key === "Escape" || event.key === "Tab") {
    menu.hidePopover();
    row.focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

const rowTitle = () => find(".title", row).textContent;

function run(action) {
  menu.hidePopover();
  if (FORMS[action]) openForm(action);
  else if (action === "pin") change(row.hasAttribute("data-pinned") ? "unpin" : "pin");
  else if (action === "delete") change("delete");
  else download(row.dataset.id, `conversation-${row.dataset.id}`, action);
}

function openForm(action) {
  const { title, label, submit: button } = FORMS[action];
  find("h2", dialog).textContent = title;
  find("[data-label]", dialog).textContent = label;
  find("[data-submit]", dialog).textContent = button;
  const input = find("input", dialog);
  input.value = action === "rename" ? rowTitle() : "";
  dialog.dataset.action = action;
  dialog.returnValue = "";
  dialog.showModal();
  input.focus();
  input.select();
}

function submit() {
  change(dialog.dataset.action, find("input", dialog).value.trim());
}

async function change(action, text = "") {
  const { id } = row.dataset;
  const isOpen = page()?.dataset.id === id;
  const nextPage = neighbourUrl(id);
  if (isOpen && action === "delete") stopUpdates();
  try {
    const offerUndo = await editConversation(id, action, text);
    if (isOpen && action === "delete") await goTo(nextPage, { history: "replace" });
    else if (isOpen) await reloadPage();
    await refreshList();
    offerUndo();
  } catch (error) {
    showToast(error.message);
  }
}
