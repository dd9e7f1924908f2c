// Charts that are wider than the screen show their newest columns first.

import { findAll } from "./dom.js";
import { onPage } from "./navigation.js";

export function startCharts() {
  onPage(() => {
    for (const drawing of findAll("[data-drawing]")) drawing.scrollLeft = drawing.scrollWidth;
  });
}
