import { one } from "./dom.js";

let undoing = null;

/** Say something at the foot of the page; with `act` it can be undone for a while. */
export function say(sentence, { label = "Undo", act = null, seconds = act ? 10 : 5 } = {}) {
  const made = one("#toast").content.cloneNode(true).firstElementChild;
  one("[data-say]", made).textContent = sentence;
  const close = () => {
    clearTimeout(timer);
    made.remove();
    if (undoing === run) undoing = null;
  };
  const run = async () => {
    close();
    try {
      await act();
    } catch (error) {
      say(error.message);
    }
  };
  if (act) {
    const button = one("[data-do]", made);
    button.textContent = label;
    button.hidden = false;
    button.addEventListener("click", run);
    undoing = run;
  }
  one("[data-close]", made).addEventListener("click", close);
  const timer = setTimeout(close, seconds * 1000);
  const shelf = one("[data-toasts]");
  while (shelf.children.length > 3) shelf.firstElementChild.remove();
  shelf.append(made);
}

/** Undo what the newest toast offers. */
export const undo = () => (undoing ? undoing() : say("There is nothing to undo."));
