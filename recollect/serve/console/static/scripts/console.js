// The entry point. The server renders all HTML; the scripts keep it up to date.

import { startActions } from "./actions.js";
import { startConversation } from "./conversation.js";
import { localizeTimes } from "./dom.js";
import { startDrafts } from "./drafts.js";
import { onFiltersChange, startFilters } from "./filters.js";
import { startItems } from "./item.js";
import { startKeyboard } from "./keyboard.js";
import { startLiveUpdates } from "./live.js";
import { showPage, startNavigation } from "./navigation.js";
import { startSearch } from "./search.js";
import { refreshList, startList } from "./sidebar.js";
import { startUploads } from "./uploads.js";

localizeTimes(document);
startList();
startFilters();
onFiltersChange(() => refreshList({ fromTop: true }));
startConversation();
startItems();
startDrafts();
startSearch();
startNavigation();
startActions();
startUploads();
startKeyboard();
startLiveUpdates();
showPage();
document.documentElement.dataset.ready = "";
