// The page's script: the server renders everything; this keeps it alive.

import { start_actions } from "./actions.js";
import { start_conversation } from "./conversation.js";
import { settle } from "./dom.js";
import { on_filters, start_filters } from "./filters.js";
import { shown, start_going } from "./going.js";
import { start_keys } from "./keys.js";
import { start_knowledge } from "./knowledge.js";
import { start_live } from "./live.js";
import { start_search } from "./search.js";
import { refresh, start_list } from "./sidebar.js";
import { start_uploads } from "./uploads.js";

settle(document);
start_list();
start_filters();
on_filters(() => refresh({ top: true }));
start_conversation();
start_knowledge();
start_search();
start_going();
start_actions();
start_uploads();
start_keys();
start_live();
shown();
document.documentElement.dataset.ready = "";
