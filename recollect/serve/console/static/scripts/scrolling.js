// Keys that scroll. The browser scrolls the part of the page that has the focus; if none has, it
// would scroll the whole page, which has nothing to scroll.

import { find } from "./dom.js";

const LINE = 40; // pixels
const PAGE = 0.9; // of what is visible

/** Scroll the messages, or else the main part. Returns whether the key scrolls. */
export function scrollByKey({ key, shiftKey, target }) {
  const messages = find("[data-scroller]");
  const area = messages ?? find("#main");
  if (target !== document.body && !(messages && target.matches("#main, [data-name]"))) return false;
  const page = area.clientHeight * PAGE;
  const steps = {
    PageDown: page,
    PageUp: -page,
    " ": shiftKey ? -page : page,
    Home: -area.scrollTop,
    End: area.scrollHeight,
  };
  if (messages) Object.assign(steps, { ArrowDown: LINE, ArrowUp: -LINE });
  if (!(key in steps)) return false;
  area.scrollBy(0, steps[key]);
  return true;
}
