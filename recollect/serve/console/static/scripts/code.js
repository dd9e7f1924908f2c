// Blocks of code: copy them, and wrap their lines or scroll.

import { findAll, loadSetting, saveSetting } from "./dom.js";
import { onMessages } from "./conversation.js";
import { onPage, page } from "./navigation.js";
import { showToast } from "./toast.js";

const SELECTOR = ".body pre";

export function startCodeTools() {
  applyWrapping();
  onPage(() => page() && addTools(page()));
  onMessages(addTools);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-code-command]");
    if (button) COMMANDS[button.dataset.codeCommand](button);
  });
}

const COMMANDS = {
  copy: (button) => copyCode(button.closest(".code").querySelector("pre")),
  wrap: () => {
    saveSetting("wrap", isWrapped() ? "off" : "on");
    applyWrapping();
  },
};

const isWrapped = () => loadSetting("wrap") === "on";

/** Wrap long lines everywhere, or nowhere: people who want it once want it again. */
function applyWrapping() {
  document.documentElement.toggleAttribute("data-wrap", isWrapped());
  for (const button of findAll("[data-code-command='wrap']")) showState(button);
}

function showState(button) {
  button.setAttribute("aria-pressed", String(isWrapped()));
}

function addTools(root) {
  const blocks = root.matches?.(SELECTOR) ? [root] : findAll(SELECTOR, root);
  for (const block of blocks) {
    if (block.parentElement.matches(".code")) continue;
    block.tabIndex = 0; // it scrolls, so the keyboard must reach it
    const frame = document.createElement("div");
    frame.className = "code";
    block.replaceWith(frame);
    frame.append(tools(block), block);
  }
  for (const table of findAll(".body .table", root)) table.tabIndex = 0;
  for (const body of findAll(".body:has(math)", root)) if (body.scrollWidth > body.clientWidth) body.tabIndex = 0;
}

function tools(block) {
  const element = document.createElement("div");
  element.className = "code-tools";
  if (!block.matches(".plain")) element.append(toolButton("wrap", "Wrap", "Wrap long lines"));
  element.append(toolButton("copy", "Copy", "Copy this block"));
  return element;
}

function toolButton(command, text, title) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small quiet";
  button.dataset.codeCommand = command;
  button.textContent = text;
  button.title = title;
  if (command === "wrap") showState(button);
  return button;
}

async function copyCode(block) {
  const copy = block.cloneNode(true);
  for (const label of copy.querySelectorAll(".language")) label.remove();
  try {
    await navigator.clipboard.writeText(copy.textContent);
    showToast("Code copied.");
  } catch {
    showToast("The browser does not allow copying. Select the text instead.");
  }
}
