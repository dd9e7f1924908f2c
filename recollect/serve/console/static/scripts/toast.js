// Short messages at the bottom of the page.

import { find } from "./dom.js";

const MAX_TOASTS = 4;
let pendingUndo = null;

/** Show a message. With `action`, it has a button, by default to undo something. */
export function showToast(message, { label = "Undo", action = null, seconds = action ? 10 : 5 } = {}) {
  const toast = find("#toast").content.cloneNode(true).firstElementChild;
  find("[data-text]", toast).textContent = message;
  const close = () => {
    clearTimeout(timer);
    toast.remove();
    if (pendingUndo === run) pendingUndo = null;
  };
  const run = async () => {
    close();
    try {
      await action();
    } catch (error) {
      showToast(error.message);
    }
  };
  if (action) {
    const button = find("[data-toast-action]", toast);
    button.textContent = label;
    button.hidden = false;
    button.addEventListener("click", run);
    pendingUndo = run;
  }
  find("[data-close]", toast).addEventListener("click", close);
  const timer = setTimeout(close, seconds * 1000);
  const toasts = find("[data-toasts]");
  while (toasts.children.length >= MAX_TOASTS) toasts.firstElementChild.remove();
  toasts.append(toast);
}

/** Run the action of the newest toast. */
export const undo = () => (pendingUndo ? pendingUndo() : showToast("Nothing to undo."));
