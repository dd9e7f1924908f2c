"""The types of observations, and the words by which one is told from another."""

from __future__ import annotations

import re

from recollect.memory.observe.words import Cue
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
    """The type that a name means: `bug-fix`, `Bug_Fix` and `fix` are bugfix. None if it is none."""
    bare = re.sub(r"[\s_-]+", "", name).casefold()
    return bare if bare in TYPES else _ALIASES.get(bare)


DECISION = Cue(
    "decided agreed settled opted chose chosen lets let go ll will guess think because decision going entschieden"
    " lass décidé decidido decidimos deciso",
    r"\b(?:we|i)(?:'ve| have)? (?:\w+ )?(?:decided|agreed|settled on|opted|chose|chosen)\b",
    r"\blet'?s (?:go with|use|stick"
    r" with|do it with|keep|drop|switch to)\b",
    r"\b(?:i|we)(?:'ll|'m going to| will| am going to)(?: just| probably)? (?:go"
    r" with|stick (?:with|to)|choose|opt for|switch to)\b",
    r"\b(?:i think|guess) i'?ll (?:go|stick|take|choose|use)\b",
    r"\binstead of\b.{1,80}\bbecause\b",
    r"\bthe decision (?:is|was)\b",
    r"\bgoing with\b",
    r"\b(?:wir haben (?:uns )?(?:für"
    r" )?\w* ?entschieden|lass uns \w+ nehmen|on a décidé|nous avons décidé|hemos decidido|decidimos|abbiamo deciso)\b",
    r"决定|決め(?:た|ました)|결정(?:했|하기로)",
)
PREFERENCE = Cue(
    "prefer rather hate dislike don can love enjoy fan into favorite favourite go preferred allergic vegetarian vegan"
    " more always never ever now sure stop please bevorzuge mag lieber immer niemals préfère toujours jamais prefiero"
    " siempre nunca preferisco like",
    r"\bi(?:'d| would)?(?: really| generally| usually| always| much)? (?:prefer|rather have|like to have|hate|dislike"
    r"|don'?t like|can'?t stand|love|enjoy|am (?:not )?(?:a )?(?:big )?(?:fan of|into))\b",
    r"\bmy (?:favou?rite|go-to"
    r"|preferred)\b",
    r"\bi'm (?:more of an?|a (?:big|huge) fan|allergic|vegetarian|vegan)\b",
    r"(?:^|[.!,;] )(?:please )?(?:always|never|don'?t"
    r" ever|from now on|make sure (?:to|you) always|stop) \w+",
    r"\bplease (?:use|avoid|don'?t|do not|keep|prefer)\b",
    r"\b(?:bevorzuge|mag ich nicht|lieber|immer|niemals|je préfère|toujours|jamais|prefiero|siempre|nunca"
    r"|preferisco)\b",
    r"喜欢|更喜|好きです|좋아(?:해|합)",
)
LEARNING = Cue(
    "turns til learned appears reason root issue problem culprit bug cause caused because key found see why means fix"
    " lesson gotcha note important importantly grund ursache liegt stellt raison razón causa resulta",
    r"\b(?:turns out|til\b|today i learned|it appears that|the reason (?:is|was|why)|root cause|the (?:actual "
    r"|real )?(?:issue|problem|culprit|bug|cause)"
    r" (?:is|was|seems|comes)|caused by|because of this|the key (?:insight|takeaway|point)|found (?:the|it|that)"
    r"|i see the"
    r" (?:issue|problem)|that(?:'s| is) (?:why|because)|this means|the fix (?:is|was)|lesson|gotcha|note that"
    r"|important(?:ly)?:)",
    r"\b(?:der grund|ursache|liegt daran|es stellt sich heraus|la raison|la cause|la razón|la causa|resulta que)\b",
    r"原因|理由|원인",
)
SECURITY = Cue(
    "cve injection auth authentication authorization vulnerability vulnerabilities xss csrf ssrf rce privilege"
    " traversal leaked exposed security",
    r"\bCVE-\d{4}-\d+",
    r"\b(?:sql|command|prompt|code|header|html) injection\b",
    r"\bauth(?:entication|orization)? bypass\b",
    r"\b(?:vulnerabilit(?:y|ies)|xss|csrf|ssrf|rce|privilege escalation|path traversal|leaked (?:key|token|secret"
    r"|password"
    r"|credential)s?|exposed (?:key|token|secret|credential)s?|security (?:hole|issue|flaw|fix|bug|patch|advisory"
    r"|audit))\b",
)
PATTERN = Cue(
    "convention rule practice we pattern antipattern anti style rules guide naming",
    r"\b(?:as a (?:rule|convention)|our convention|the convention (?:is|here)|best practice (?:is|here)|we (?:always"
    r"|usually)"
    r" (?:use|write|name|put|do)|(?:follow|use|using|uses|same|existing|established|standard) (?:the |this |a "
    r"|an )?(?:\w+ ){0,2}pattern"
    r"|design pattern|anti-?pattern|naming convention|coding style|style guide|house rules?)\b",
)
FIX = Cue(
    "fix fixes fixed fixing bug bugs broken crash crashes crashed crashing regression resolve resolves resolved doesn"
    " doesnt not fails fail failing failed error exception issue wrong incorrect incorrectly repair repaired hotfix",
    r"\b(?:fix(?:e[sd]|ing)?|bugs?|broken|crash(?:es|ed|ing)?|regression|resolve[sd]?|doesn'?t work|not working"
    r"|fails?|failing|failed"
    r"|error|exception|issue|wrong|incorrect(?:ly)?|repair(?:ed)?|hotfix)\b",
)
REFACTOR = Cue(
    "refactor refactored refactoring rename renames renamed renaming clean cleaned cleaning cleanup simplify"
    " simplified simplifies extract extracted extracting move moves moved moving dedup deduplicate restructure"
    " restructures restructured restructuring reorganize reorganise reorganized reorganised split splitting inline"
    " inlined",
    r"\b(?:refactor(?:ed|ing)?|renam(?:e[sd]?|ing)|clean(?:ed|ing)? up|cleanup|simplif(?:y|ied|ies)|extract(?:ed"
    r"|ing)? (?:\w+ ){0,3}(?:into|to)|mov(?:e[sd]?|ing) \S+"
    r" (?:in)?to|dedup(?:licate)?|restructur(?:e[sd]?|ing)|reorgani[sz](?:e[sd]?|ing)|split(?:ting)? (?:up|\w+ into)"
    r"|inline[sd]?)\b",
)
FEATURE = Cue(
    "add adds added adding implement implements implemented implementing create creates created creating build"
    " support supports introduce introduces introduced introducing new feat feature",
    r"\b(?:add(?:s|ed|ing)?|implement(?:s|ed|ing)?|creat(?:e[sd]?|ing)|build|support(?:s)? (?:for )?"
    r"|introduc(?:e[sd]?|ing)|new (?:feature|endpoint|command|page"
    r"|component|option|function|tool|flag|module)|feat(?:ure)?)\b",
)
_CONVENTIONAL = re.compile(r"^(\w+)(?:\([^)]*\))?!?: ")
_BY_PREFIX = {
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
}


def of_work(work: Work, request: str, outcome: str) -> str:
    """The type of a stretch in which an agent worked, by what it did; by its words where that leaves it open."""
    told = " ".join((*work.commits, request))
    if work.changes or work.moved or work.commits:
        return _of_change(work, told, outcome)
    if SECURITY.search(told) or SECURITY.search(outcome):
        return "security"
    if (
        work.errors
        or FIX.search(request)
        or any(run.outcomes[-1:] == ["failed"] for run in work.runs.values())
    ):
        return "debug"
    return "test" if work.runs and re.search(r"\btests?\b", request, re.IGNORECASE) else "discovery"


def _of_change(work: Work, told: str, outcome: str) -> str:
    files = work.modified
    if SECURITY.search(told):
        return "security"
    for commit in reversed(work.commits):
        if (named := _CONVENTIONAL.match(commit)) and (
            type_ := _BY_PREFIX.get(named[1].casefold())
        ):
            return type_
    if files and all(TEST.search(path) for path in files):
        return "test"
    if REFACTOR.search(told) and not FIX.search(told):
        return "refactor"
    if work.mended or FIX.search(told):
        return "bugfix"
    if files and all(CONFIG.search(path) for path in files):
        return "config"
    if any(change.created for change in work.changes.values()) or FEATURE.search(told):
        return "feature"
    if work.moved and not files:
        return "refactor"
    return (
        "bugfix"
        if re.search(r"\b(?:fixed|the bug|the fix)\b", outcome, re.IGNORECASE)
        else "change"
    )


def of_words(statements: str, request: str, answer: str, *, question: bool) -> str:
    """The type of a stretch of mere talk."""
    if SECURITY.search(statements) or SECURITY.search(request):
        return "security"
    if DECISION.search(statements):
        return "decision"
    if PREFERENCE.search(statements):
        return "preference"
    if PATTERN.search(statements):
        return "pattern"
    if statements and not question:
        return "discovery"
    if DECISION.search(answer[:400]):
        return "decision"
    return "learning"
