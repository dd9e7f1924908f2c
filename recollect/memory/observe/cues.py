"""The types of observations, and the words that reveal them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.memory.observe import foreign_cues
from recollect.memory.observe.sentence_words import Cue, words_of_all
from recollect.memory.observe.work import CONFIG, TEST, Work

TYPES = (
    "decision",
    "bugfix",
    "feature",
    "refactor",
    "discovery",
    "pattern",
    "preference",
    "change",
    "learning",
    "config",
    "test",
    "debug",
    "security",
)
_ALIASES = {
    "bug": "bugfix",
    "fix": "bugfix",
    "bugfixes": "bugfix",
    "hotfix": "bugfix",
    "features": "feature",
    "feat": "feature",
    "refactoring": "refactor",
    "refactors": "refactor",
    "cleanup": "refactor",
    "discoveries": "discovery",
    "finding": "discovery",
    "investigation": "discovery",
    "patterns": "pattern",
    "convention": "pattern",
    "preferences": "preference",
    "changes": "change",
    "chore": "change",
    "learnings": "learning",
    "learned": "learning",
    "lesson": "learning",
    "gotcha": "learning",
    "configuration": "config",
    "setup": "config",
    "settings": "config",
    "tests": "test",
    "testing": "test",
    "debugging": "debug",
    "error": "debug",
    "securityalert": "security",
    "securitynote": "security",
    "vulnerability": "security",
    "decisions": "decision",
    "tradeoff": "decision",
}


def parse_type(name: str) -> str | None:
    """The type that a name stands for (`bug-fix`, `Bug_Fix` and `fix` mean bugfix), or None."""
    bare_name = re.sub(r"[\s_-]+", "", name).casefold()
    if bare_name in TYPES:
        return bare_name
    return _ALIASES.get(bare_name)


DECISION = Cue(
    (
        "decided agreed settled opted chose chosen",
        r"\b(?:we|i)(?:'ve| have)? (?:\w+ )?(?:decided|agreed|settled on|opted|chose|chosen)\b",
    ),
    (
        "lets let",
        r"\blet'?s (?:go with|use|stick with|do it with|keep|drop|switch to)\b",
    ),
    (
        "ll will going",
        r"\b(?:i|we)(?:'ll|'m going to| will| am going to)(?: just| probably)? (?:go"
        r" with|stick (?:with|to)|choose|opt for|switch to|use)\b",
    ),
    ("think guess", r"\b(?:i think|guess) i'?ll (?:go|stick|take|choose|use)\b"),
    ("because", r"\binstead of\b.{1,80}\bbecause\b"),
    ("decision", r"\bthe decision (?:is|was)\b"),
    ("go going", r"\bgo(?:ing)? with\b"),
    # Corrections: "no, use X", "scrap X", "we drop X", "X replaces Y", "X it is".
    (
        "no nope nah",
        r"(?:^|[.!;] )(?:no|nope|nah)[,.:]? (?:please )?(?:use|take|make|keep|put|call|go)\b",
    ),
    (
        "scrap ditch drop retire abandon",
        r"(?:^|[.!;,] )(?:(?:ok|okay|right|alright|then|so),? )?(?:scrap|ditch|drop|retire|abandon)"
        r" (?:\w|`)",
    ),
    (
        "drop dropping ditch scrap retire abandon migrate switch replace",
        r"\bwe(?:'re| are)? (?:now )?(?:drop(?:ping)?|ditch|scrap|retire|abandon|migrate|switch"
        r"|replace)\b",
    ),
    (
        "replaces forget",
        r"\b\w+ (?:now )?replaces \w|\bforget (?:what i|about the|the)\b",
    ),
    ("instead", r"\b(?:use|do|take|make|put) (?:\S+ ){1,8}instead\b"),
    ("out", r"\b(?:is|are) out[.!]"),
    # The space comes first, because a pattern that begins with a character is searched faster.
    (
        "it",
        r" it is(?<!what it is)(?<!how it is)(?<!as it is)(?<!where it is)(?<!who it is)"
        r"(?<!way it is)(?<!that it is)[.!]*$",
    ),
    ("deciso", r"\babbiamo deciso\b|결정(?:했|하기로)"),
    foreign=foreign_cues.DECISION,
)
PREFERENCE = Cue(
    (
        "prefer rather like hate dislike don dont never can cant love enjoy fan into",
        r"\bi(?:'d| would)?(?: really| generally| usually| always| much)? (?:prefer|rather|like to"
        r" have|hate|dislike"
        r"|don'?t (?:like|want)|never want|can'?t stand|love|enjoy"
        r"|am (?:not )?(?:a )?(?:big )?(?:fan of|into))\b",
    ),
    ("favorite favourite go preferred", r"\bmy (?:favou?rite|go-to|preferred)\b"),
    (
        "more fan allergic vegetarian vegan",
        r"\bi'm (?:more of an?|a (?:big|huge) fan|allergic|vegetarian|vegan)\b",
    ),
    (
        "always never ever now sure stop",
        r"(?:^|[.!;:] |\b(?:and|so|but|please),? )(?:please )?(?:always|never|don'?t"
        r" ever|from now on|make sure (?:to|you) always|stop) \w+",
    ),
    (
        "don dont do",
        r"(?:^|[.!;:] |no, )(?:please )?(?:don'?t|do not) (?!(?:forget|worry|hesitate|know|think"
        r"|see|understand|have|get|need|want|you|we|they|be)\b)\w+",
    ),
    (
        "without",
        r"\b(?:never|don'?t|do not) \w+.{1,80}\bwithout (?:asking|telling|checking|my|approval)\b",
    ),
    ("please", r"\bplease (?:use|avoid|don'?t|do not|keep|prefer)\b"),
    ("preferisco", r"\bpreferisco\b|좋아(?:해|합)"),
    foreign=foreign_cues.PREFERENCE,
)
LEARNING = Cue(
    (
        "turns til learned appears reason root issue problem culprit bug cause caused because key"
        " found see why means fix lesson gotcha note important importantly due comes came so"
        " tried reverted difference effect help work success",
        r"\b(?:turns out|til\b|today i learned|it appears that|the reason (?:is|was|why)|root cause"
        r"|the (?:actual |real )?(?:issue|problem|culprit|bug|cause)"
        r" (?:is|was|seems|comes)|caused by|because of this|the key (?:insight|takeaway|point)"
        r"|found (?:the|it|that)|i see the (?:issue|problem)|that(?:'s| is) (?:why|because)"
        r"|this means|the fix (?:is|was)|lesson|gotcha|note that|important(?:ly)?:)"
        r"|\b(?:no (?:difference|effect)|(?:did not|didn'?t) (?:help|work)|without success"
        r"|tried .{1,80}\bbut|reverted)\b"
        r"|\bbecause\b|\bdue to\b|\b(?:comes|came) from\b|, so (?:that )?(?:the|it|a|every|no)"
        r"|원인",
    ),
    stems="lesson gotcha means why because",
    foreign=foreign_cues.LEARNING,
)
_KEY = r"(?:keys?|tokens?|secrets?|passwords?|credentials?)\b"
SECURITY = Cue(
    (
        "cve injection auth authentication authorization vulnerability vulnerabilities xss csrf"
        " ssrf rce privilege traversal leaked exposed security",
        r"\bcve-\d{4}-\d+|\b(?:sql|command|prompt|code|header|html) injection\b"
        r"|\bauth(?:entication|orization)? bypass\b"
        r"|\b(?:vulnerabilit(?:y|ies)|xss|csrf|ssrf|rce|privilege escalation|path traversal"
        r"|leaked (?:key|token|secret|password|credential)s?"
        r"|exposed (?:key|token|secret|credential)s?"
        r"|security (?:hole|issue|flaw|fix|bug|patch|advisory|audit))\b",
    ),
    (
        "leaked leak leaks compromised stolen exposed committed pushed published",
        rf"\b(?:leak(?:s|ed|ing)?|compromised|stolen)\b.{{0,60}}\b{_KEY}"
        rf"|\b{_KEY}.{{0,60}}\b(?:leak(?:s|ed)?|stolen|compromised|(?:is|was|were|got) exposed)\b"
        r"|\b(?:committed|pushed|published)\b.{0,40}"
        rf"(?:\b(?:api|private|secret) {_KEY}|\.env\b)",
    ),
    foreign=foreign_cues.SECURITY,
)
PATTERN = Cue(
    (
        "rule convention practice",
        r"\b(?:as a (?:rule|convention)|our convention|the convention (?:is|here)"
        r"|best practice (?:is|here))\b",
    ),
    ("always usually", r"\bwe (?:always|usually) (?:use|write|name|put|do)\b"),
    (
        "pattern antipattern",
        r"\b(?:(?:follow|use|using|uses|same|existing|established|standard)"
        r" (?:the |this |a |an )?(?:\w+ ){0,2}pattern|design pattern|anti-?pattern)\b",
    ),
    ("naming style house", r"\b(?:naming convention|coding style|style guide|house rules?)\b"),
)
FIX = Cue(
    (
        "fix fixes fixed fixing bug bugs broken crash crashes crashed crashing regression resolve"
        " resolves resolved doesn"
        " doesnt not fails fail failing failed error exception issue wrong incorrect incorrectly"
        " repair repaired hotfix",
        r"\b(?:fix(?:e[sd]|ing)?|bugs?|broken|crash(?:es|ed|ing)?|regression"
        r"|resolve[sd]?|doesn'?t work"
        r"|not working"
        r"|fails?|failing|failed"
        r"|error|exception|issue|wrong|incorrect(?:ly)?|repair(?:ed)?|hotfix)\b",
    ),
    foreign=foreign_cues.FIX,
)
REFACTOR = Cue(
    (
        "refactor refactored refactoring rename renames renamed renaming clean"
        " cleaned cleaning cleanup"
        " simplify"
        " simplified simplifies extract extracted extracting move moves moved moving"
        " dedup deduplicate"
        " restructure"
        " restructures restructured restructuring reorganize reorganise reorganized"
        " reorganised split"
        " splitting inline"
        " inlined",
        r"\b(?:refactor(?:ed|ing)?|renam(?:e[sd]?|ing)|clean(?:ed|ing)? up|cleanup"
        r"|simplif(?:y|ied|ies)"
        r"|extract(?:ed"
        r"|ing)? (?:\w+ ){0,3}(?:into|to)|mov(?:e[sd]?|ing) \S+"
        r" (?:in)?to|dedup(?:licate)?|restructur(?:e[sd]?|ing)|reorgani[sz](?:e[sd]?|ing)"
        r"|split(?:ting)? (?:up|\w+ into)"
        r"|inline[sd]?)\b",
    ),
    stems="reorgani inline",
    foreign=foreign_cues.REFACTOR,
)
FEATURE = Cue(
    (
        "add adds added adding implement implements implemented implementing create creates created"
        " creating build"
        " support supports introduce introduces introduced introducing new feat feature",
        r"\b(?:add(?:s|ed|ing)?|implement(?:s|ed|ing)?|creat(?:e[sd]?|ing)|build"
        r"|support(?:s)? (?:for"
        r" )?"
        r"|introduc(?:e[sd]?|ing)|new (?:feature|endpoint|command|page"
        r"|component|option|function|tool|flag|module)|feat(?:ure)?)\b",
    ),
    foreign=foreign_cues.FEATURE,
)
# What says that something is done in another way than before.
CHANGE = Cue(
    (
        "scrap ditch drop dropped dropping abandon retire replace replaces replaced"
        " replacing instead"
        " longer anymore switch switched migrate migrated forget revisit reconsider out now removed"
        " gone uninstalled",
        r"\b(?:scrap|ditch|drop(?:ped|ping)?|abandon|retire|replac(?:e[sd]?|ing)|instead|no longer"
        r"|anymore|switch(?:ed)?|migrated?|forget|revisit|reconsider|from now on|is out|are gone"
        r"|is gone|removed|uninstalled|not working out)\b",
    ),
    foreign=foreign_cues.CHANGE,
)
# What says that something was broken, even in a change of configuration files.
_REPAIR = Cue(
    (
        "fix fixes fixed fixing bug broken crash crashes crashed regression fails"
        " failing failed not",
        r"\b(?:fix(?:e[sd]|ing)?|bugs?|broken|crash(?:es|ed|ing)?|regression|fails|failing|failed"
        r"|not working|does not (?:work|exist))\b",
    ),
    foreign=foreign_cues.FIX,
)
_CONVENTIONAL_COMMIT = re.compile(r"^(\w+)(?:\([^)]*\))?!?: ")
_COMMIT_TYPES = {
    "fix": "bugfix",
    "feat": "feature",
    "refactor": "refactor",
    "test": "test",
    "tests": "test",
    "perf": "refactor",
    "build": "config",
    "ci": "config",
    "config": "config",
    "style": "refactor",
    "hotfix": "bugfix",
    "security": "security",
    "chore": "change",
    "docs": "change",
    "revert": "change",
}


def type_of_work(work: Work, request: str, outcome: str) -> str:
    """The type of an observation of work: by what was done, or by the words if that is unclear."""
    text = " ".join((*work.commits, request))
    if work.changes or work.renames or work.commits:
        return _type_of_change(work, text, outcome)
    if SECURITY.search(text) or SECURITY.search(outcome):
        return "security"
    if work.errors or FIX.search(request):
        return "debug"
    if any(run.outcomes[-1:] == ["failed"] for run in work.runs.values()):
        return "debug"
    if work.runs and re.search(r"\btests?\b", request, re.IGNORECASE):
        return "test"
    return "discovery"


def _type_of_change(work: Work, text: str, outcome: str) -> str:
    files = work.files_modified
    is_configuration = bool(files) and all(CONFIG.search(path) for path in files)
    if SECURITY.search(text):
        return "security"
    commit_type = _type_of_commits(work.commits)
    if commit_type == "change" and is_configuration:
        return "config"
    if commit_type is not None:
        return commit_type
    if files and all(TEST.search(path) for path in files):
        return "test"
    if is_configuration and not work.is_repair and not _REPAIR.search(text):
        return "config"
    return _type_by_words(work, text, outcome)


def _type_by_words(work: Work, text: str, outcome: str) -> str:
    if REFACTOR.search(text) and not FIX.search(text):
        return "refactor"
    if work.is_repair or FIX.search(text):
        return "bugfix"
    if any(change.is_new for change in work.changes.values()) or FEATURE.search(text):
        return "feature"
    if work.renames and not work.changes:
        return "refactor"
    if re.search(r"\b(?:fixed|the bug|the fix)\b", outcome, re.IGNORECASE):
        return "bugfix"
    return "change"


def _type_of_commits(commits: Sequence[str]) -> str | None:
    """The type that the last conventional commit names ("fix: ..." is a bugfix)."""
    for commit in reversed(commits):
        match = _CONVENTIONAL_COMMIT.match(commit)
        if match is not None and match[1].casefold() in _COMMIT_TYPES:
            return _COMMIT_TYPES[match[1].casefold()]
    return None


def type_of_talk(statements: Sequence[str], request: str, answer: str, *, question: bool) -> str:
    """The type of an observation of a conversation without tool calls."""
    text = " ".join(statements)
    text_words = words_of_all(statements)
    if SECURITY.search_words(text, text_words) or SECURITY.search(request):
        return "security"
    for type_, cue in (("decision", DECISION), ("preference", PREFERENCE), ("pattern", PATTERN)):
        if cue.search_words(text, text_words):
            return type_
    if statements and not question:
        return "discovery"
    if DECISION.search(answer[:400]):
        return "decision"
    return "learning"


def has_decision(text: str) -> bool:
    """Whether a text states a decision or a lasting preference."""
    return DECISION.search(text) is not None or PREFERENCE.search(text) is not None
