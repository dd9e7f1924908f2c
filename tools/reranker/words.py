"""The words that the training data is made from.

The list of stop words is not the one of `recollect.language`: that one changes with the search, and
the training groups must stay as they are.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_][\w'.-]*[^\W_]|[^\W_]")
_STOP_WORDS = """
    a an the this that these those
    i me my myself we us our ours ourselves you your yours yourself yourselves he him his himself
    she her hers herself it its itself they them their theirs themselves
    someone something anyone anything everyone everything
    am is are was were be been being do does did doing done have has had having will would shall
    should can could might must won't shan't ain't
    im ive youre whats whos wheres dont doesnt didnt isnt wasnt cant couldnt wouldnt
    about above across after against along among around as at before behind below beneath beside
    besides between beyond by down during except for from in inside into near of off on onto out
    outside over per since through throughout till to toward towards under until up upon via with
    within without
    and or but nor so if then than because while although though whether unless
    who whom whose which what when where why how
    not no yes all any both each either every few many more most much neither none other others
    another some such own same only very too also just ever again once here there now
    please tell
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


def content_words(text: str) -> list[str]:
    return [w for w in _WORD.findall(text) if w.casefold() not in STOP_WORDS and len(w) > 2]
