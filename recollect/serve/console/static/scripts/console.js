// The entry point. The server renders all HTML; the scripts keep it up to date.

import { startActions } from "./actions.js";
import { startCodeTools } from "./code.js";
import { startConversation } from "./conversation.js";
import { startDrafts } from "./drafts.js";
import { onFiltersChange, startFilters } from "./filters.js";
import { startFind } from "./find.js";
import { startItems } from "./item.js";
import { startKeyboard } from "./keyboard.js";
import { startLiveUpdates } from "./live.js";
import { showPage, startNavigation } from "./navigation.js";
import { startOutline } from "./outline.js";
import { startSearch } from "./search.js";
import { refreshList, startList } from "./sidebar.js";
import { startTimes } from "./times.js";
import { startUploads } from "./uploads.js";

startTimes();
startList();
startFilters();
onFiltersChange(() => refreshList({ fromTop: true }));
startConversation();
startCodeTools();
startFind();
startOutline();
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
