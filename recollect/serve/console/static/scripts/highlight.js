// Highlight the words of a search without changing the markup.

const MAX_RANGES = 5000;
const MARGIN = 60; // pixels between a match and the edge of a box
const highlight = "highlights" in CSS ? new Highlight() : null;
if (highlight) CSS.highlights.set("query", highlight);

// Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese, Korean.
const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]/;

// A word, or a name such as C++ or C#.
const WORD = /(?<![\p{L}\p{N}])[a-z](?:\+\+?|#)(?![\p{L}+#])|[\p{L}\p{N}]+/giu;

const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replaceAll("ß", "ss");

/** Whether a word is one of the terms, or an inflected form of one. */
function matches(word, terms) {
  const folded = fold(word);
  return terms.some(
    (term) => folded === term || (term.length > 3 && folded.startsWith(term) && folded.length <= term.length + 4),
  );
}

export function highlightTerms(root, terms) {
  if (!highlight || !terms.length) return;
  if (root.isConnected || !highlight.size) removeDetachedRanges();
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const unspacedTerms = terms.filter((term) => UNSPACED.test(term));
  while (walker.nextNode() && highlight.size < MAX_RANGES) {
    const node = walker.currentNode;
    if (node.parentElement.closest("[data-body]")) highlightNode(node, terms, unspacedTerms);
  }
}

function highlightNode(node, terms, unspacedTerms) {
  for (const match of node.data.matchAll(WORD)) {
    const word = match[0];
    if (matches(word, terms)) {
      addRange(node, match.index, word.length);
      continue;
    }
    for (const term of unspacedTerms) {
      for (let at = word.indexOf(term); at >= 0; at = word.indexOf(term, at + 1)) {
        addRange(node, match.index + at, term.length);
      }
    }
  }
}

function removeDetachedRanges() {
  for (const range of [...highlight]) if (!range.startContainer.isConnected) highlight.delete(range);
}

/** The first highlight in an element, or null. */
function firstRange(root) {
  for (const range of highlight ?? []) {
    if (root.contains(range.startContainer)) return range;
  }
  return null;
}

/** The element with the first highlight, to scroll to it. */
export const firstHighlight = (root) => firstRange(root)?.startContainer.parentElement ?? null;

/** Scroll to a message. In one that does not fit, scroll to the first highlight. Returns whether there is one. */
export function scrollToMessage(message, scroller) {
  const isTall = message.offsetHeight > scroller.clientHeight * 0.8;
  message.scrollIntoView({ block: isTall ? "start" : "center" });
  const match = firstRange(message);
  if (isTall && match) {
    const range = new Range();
    range.setStart(match.startContainer, match.startOffset);
    range.setEnd(match.endContainer, match.endOffset);
    scrollToRange(range, scroller);
  }
  return match !== null;
}

/** Scroll to a range, also inside boxes that scroll themselves, unless it is visible. */
export function scrollToRange(range, scroller) {
  for (const box of [...scrollingParents(range, scroller), scroller]) {
    const place = range.getBoundingClientRect();
    const area = box.getBoundingClientRect();
    const isVisible = place.top >= area.top + MARGIN && place.bottom <= area.bottom - MARGIN;
    if (!isVisible) box.scrollTop += place.top - area.top - area.height / 3;
  }
}

function scrollingParents(range, scroller) {
  const parents = [];
  for (let element = range.startContainer.parentElement; element && element !== scroller; element = element.parentElement) {
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(element).overflowY);
    if (scrolls && element.scrollHeight > element.clientHeight) parents.push(element);
  }
  return parents;
}

function addRange(node, start, length) {
  highlight.add(
    new StaticRange({ startContainer: node, startOffset: start, endContainer: node, endOffset: start + length }),
  );
}
