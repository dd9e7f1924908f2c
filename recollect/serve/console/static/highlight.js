// Light up the words of a search in a conversation, without touching its markup.

const MOST = 5000;
const found = "highlights" in CSS ? new Highlight() : null;
if (found) CSS.highlights.set("sought", found);

const bare = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Whether a word is one of those sought, in any of its forms. */
function matches(word, sought) {
  const folded = bare(word);
  return sought.some((one) => folded === one || (one.length > 3 && folded.startsWith(one) && folded.length <= one.length + 4));
}

export function light_up(root, sought) {
  if (!found || !sought.length) return;
  if (root.isConnected || !found.size) for (const range of [...found]) if (!range.startContainer.isConnected) found.delete(range);
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const unspaced = sought.filter((word) => /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]/.test(word));
  while (walk.nextNode() && found.size < MOST) {
    const node = walk.currentNode;
    if (!node.parentElement.closest("[data-body]")) continue;
    for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      if (matches(word[0], sought)) add(node, word.index, word[0].length);
      else for (const part of unspaced) {
        for (let at = word[0].indexOf(part); at >= 0; at = word[0].indexOf(part, at + 1)) add(node, word.index + at, part.length);
      }
    }
  }
}

/** The first of them, for the page to go there. */
export function first_lit(root) {
  for (const range of found ?? []) if (root.contains(range.startContainer)) return range.startContainer.parentElement;
  return null;
}

function add(node, start, length) {
  const range = new StaticRange({ startContainer: node, startOffset: start, endContainer: node, endOffset: start + length });
  found.add(range);
}
