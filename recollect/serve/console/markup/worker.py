"""The process that renders texts: one request after another until its input ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from recollect.importers.sandbox import protocol
from recollect.importers.sandbox.confinement import Memory, confine, limit_cpu
from recollect.importers.sandbox.protocol import Bounds
from recollect.serve.console.markup.diffs import changed_lines, edit_diffs
from recollect.serve.console.markup.formulas import Allowance
from recollect.serve.console.markup.markdown import markdown, note


def render(request: dict[str, Any]) -> Any:
    text, detail, allowance = request["text"], request["detail"], Allowance(request["allowance"])
    match request["do"]:
        case "markdown":
            return markdown(text, allowance)
        case "note":
            return note(text, detail, allowance)
        case "diffs":
            return edit_diffs(detail, text)
        case "lines":
            return changed_lines(detail.split("\n"), text.split("\n"))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    replies = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not get between the replies
    memory, bounds = Memory(), Bounds()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["do"] == "confine":
            bounds = Bounds(**request["bounds"])
            memory.limit_growth(bounds.largest_memory, for_good=True)
            reply = protocol.json_frame(protocol.READY, confine([]))
        else:
            start = time.process_time()
            limit_cpu(bounds.cpu_seconds)
            memory.limit_growth(bounds.memory)
            try:
                result = render(request)
            except Exception:  # a library may raise anything for a hostile text
                result = None
            limit_cpu(0)
            seconds = time.process_time() - start
            reply = protocol.json_frame(protocol.DATA, [result, seconds])
        view = memoryview(reply)
        while view:
            view = view[os.write(replies, view) :]


if __name__ == "__main__":
    main()
