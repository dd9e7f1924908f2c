"""Observations by rules: what was done, from the structure; what was said, in its own sentences.

Nothing is invented. A fact is a piece of a sentence of the source, or one of
the forms that `derived` names, filled from the structure. The same document
always gives the same observations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from recollect.memory.observe import kinds
from recollect.memory.observe.conversation_text import ConversationText, conversation_text
from recollect.memory.observe.exchanges import (
    Exchange,
    is_from_person,
    person_text,
    split_exchanges,
)
from recollect.memory.observe.phrases import concepts
from recollect.memory.observe.prose import (
    Sentence,
    clauses,
    cut,
    is_prose,
    prose,
    without_lead,
)
from recollect.memory.observe.salience import Salience, is_empty, is_own
from recollect.memory.observe.words import overlap, terms, words
from recollect.memory.observe.work import Work, basename, work
from recollect.model.documents import Document, Passage
from recollect.model.observations import Observation

MAKER = "rules-1"
TITLE = 80
SUBTITLE = 120
FACTS = 6
_FACT = 60  # characters, about; a fact is a thought, not a paragraph
_LONGEST_FACT = 120
_WHOLE = 1_000  # characters of title, subtitle, facts and narrative together
_LISTED = (72, 220)  # characters
_NARRATIVE = 6  # sentences
_ANSWERED = 1  # sentences, until which answers are added to it
_PART = 80  # passages, after which a long stretch of work is told in parts
_AFTER_COMMIT = 4
_FILES_NAMED = 4
_PASTED = 4_000  # characters: the person's own words stand before and after what they pasted
_AROUND = 1_000
_LINES = 25
_SENTENCES = 400  # of one stretch that are judged
_REQUEST = re.compile(
    r"^(?:(?:can|could|would|will) (?:you|we)(?: please| also| maybe| just)?|please|i(?:'d| would) (?:like"
    r"|love) (?:you )?to"
    r"|i (?:want|need) you to|do you (?:know|think)(?: if)?|i(?:'m| am) (?:looking (?:for|to)|trying to"
    r"|wondering(?: if| about)?"
    r"|curious(?: about| if)?|interested in|hoping to|thinking (?:of|about)|planning (?:to|on)?|considering)"
    r"|i was (?:wondering(?: if| about)?|thinking (?:of|about))"
    r"|help me(?: with| to)?|tell me(?: more)? about|let'?s)\s+",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:(?:(?:can|could|would|will) (?:you|we)|do you think you (?:can|could))"
    r"(?: please| also| maybe| just)?(?: be able to)?(?: help me(?: to"
    r"| with)?| tell me(?: more)?(?: about)?| give me| provide(?: me)?(?: with)?)?"
    r"|please(?: help me)?|i(?:'m| am) (?:looking (?:for|to)|trying to|wondering(?: if(?: you (?:can|could))?)?"
    r"|curious about|interested in)"
    r"|i was wondering(?: if you (?:can|could))?|help me(?: with| to)?|do you have any|i(?:'d| would) (?:like"
    r"|love) (?:you )?to)\s+(?=\S)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:what|how|why|when|where|who|which|is|are|do|does|did|can|could|should|would|will|write|create|make|give"
    r"|show|explain|list"
    r"|describe|generate|find|summari[sz]e|translate|fix|add|implement|change|update|remove|run|check|review"
    r"|refactor|suggest|recommend"
    r"|compare|tell|help|look|read|use|build|test|commit|rewrite|draft|plan|act|provide|bitte|kannst|wie|was|warum"
    r"|peux|comment|pourquoi"
    r"|puedes|cómo|qué)\b",
    re.IGNORECASE,
)
_TRIVIAL = re.compile(
    r"^(?:ok(?:ay)?|yes(?:,? please)?|yep|yeah|no|nope|sure|thanks?(?: you)?|thx|great|perfect|cool|nice|good"
    r"|continue|go on|go ahead|proceed"
    r"|do it|please (?:continue|proceed|do)|keep going|next|done|hello|hi|hey|good (?:morning|evening|night"
    r"|afternoon)|bye|/\w+|lgtm|y|n|k|hm+|wow|lol"
    r"|got it|sounds good|that(?:'s| is) (?:great|all|fine|it)|ja|nein|danke|weiter|oui|non|merci|sí|gracias|继续|好的?"
    r"|はい|네)"
    r"(?:[\s,.!]+(?:ok(?:ay)?|yes|please|thanks?|thank you|so much|very much|great|go|continue|then|there|claude|sir"
    r"|man|all|again))*[\s.!?…]*$",
    re.IGNORECASE,
)
_HEAD = re.compile(r"^(.{2,60}?)(?::\s|\s[-–—]\s|\s\(|:$)")


# -- forms of what is derived ----------------------------------------------------

_FORMS = re.compile(
    r"(?:Created|Modified|Deleted) \S.*?(?: \(\+\d+ −\d+\))?|Modified \d+ files: .+|Ran `.+?`(?:: (?:passed"
    r"|failed)(?:, then (?:passed|failed))*)?"
    r"|Committed: .+|Renamed .+ to .+|Searched the web for: .+|Delegated: .+|Listed: .+|Read .+"
    r"|(?P<who>[^:\n]{1,80}): (?P<said>.+)",
    re.DOTALL,
)


def derived(fact: str) -> bool:
    """Whether a fact has one of the forms that are filled from the structure."""
    return _FORMS.fullmatch(fact) is not None


# -- the whole -------------------------------------------------------------------


def observe(document: Document) -> list[Observation]:
    """What is worth remembering of a conversation, in its order."""
    parts = split_exchanges(document)
    if not parts:
        return []
    lines = conversation_text(document, parts)
    stretches = [s for exchange in parts for s in _stretches(exchange, document.project)]
    salience = Salience(s.sentences for s in stretches)
    found: dict[str, Observation] = {}
    for stretch in stretches:
        for draft in _drafts(stretch, salience):
            observation = _finished(draft, stretch, document, lines, salience)
            found.setdefault(observation.id, observation)
    return list(found.values())


def identity(conversation: str, passage: str, type_: str, title: str) -> str:
    """The id of an observation: the same as long as what it says and where it stands are."""
    said = "\0".join((conversation, passage, type_, title)).encode("utf-8", "surrogatepass")
    return f"obs-{hashlib.blake2b(said, digest_size=8).hexdigest()}"


@dataclass(slots=True)
class _Stretch:
    """An exchange or a part of one, read."""

    passages: tuple[Passage, ...]
    request: str
    work: Work
    asked: list[Sentence] = field(default_factory=list)
    told: list[Sentence] = field(default_factory=list)
    """What the model said, in order."""
    closing: int = 0
    """Where in `told` its last message begins."""
    judged: list[tuple[float, int, str]] = field(default_factory=list)
    """The sentences of `told` that may be quoted: minus what they are worth, their place, their text; best first."""
    people: bool = False
    """Whether people talk among themselves; then `asked` says who spoke."""
    speakers: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        return [s.text for s in (*self.asked, *self.told)]


@dataclass(slots=True)
class _Draft:
    type: str
    title: str
    subtitle: str = ""
    facts: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)
    files: bool = True


# -- reading ---------------------------------------------------------------------


def _stretches(exchange: Exchange, root: str) -> Iterator[_Stretch]:
    for passages in _parts(exchange.quotable):
        stretch = _Stretch(passages, "", work(passages, root))
        authors = {p.author for p in passages if is_from_person(p)}
        stretch.people = (
            None not in authors
            and bool(authors)
            and not any(p.role == "assistant" for p in passages)
        )
        for passage in passages:
            if is_from_person(passage):
                text = person_text(passage)
                stretch.request = stretch.request or text
                said = _said(_own(text))
                stretch.asked += said
                stretch.speakers += [passage.author or ""] * len(said)
            elif passage.type == "message" and passage.role == "assistant":
                stretch.closing = len(stretch.told)
                stretch.told += _said(passage.content)
        if stretch.asked or stretch.told or stretch.work.changes or stretch.work.commits:
            yield stretch


def _own(text: str) -> str:
    """A person's own words: those before and after what they pasted, where a text is as long as if they had."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > _LINES and len(text) > _PASTED // 2:
        return "\n\n".join((*lines[:5], *lines[-3:]))
    return text if len(text) <= _PASTED else f"{text[:_AROUND]}\n\n{text[-_AROUND:]}"


def _said(text: str) -> list[Sentence]:
    return [sentence for sentence in prose(text) if is_prose(sentence.text)][:_SENTENCES]


def _parts(passages: tuple[Passage, ...]) -> Iterator[tuple[Passage, ...]]:
    """A long stretch of work in parts: it ends with a commit, or where it has grown too long to be told at once."""
    start = 0
    for at in range(1, len(passages)):
        before = passages[at - 1]
        if before.type != "tool_result" or len(passages) - at < _AFTER_COMMIT:
            continue
        grown = at - start >= _PART
        committed = (
            at - start >= _AFTER_COMMIT
            and "commit" in passages[at - 2].content
            and bool(work(passages[at - 2 : at]).commits)
        )
        if committed or (grown and passages[at].type == "message"):
            yield passages[start:at]
            start = at
    if passages[start:]:
        yield passages[start:]


# -- drafts ----------------------------------------------------------------------


def _drafts(stretch: _Stretch, salience: Salience) -> Iterator[_Draft]:
    done = stretch.work
    if done.calls and (
        done.changes
        or done.commits
        or done.moved
        or done.runs
        or done.errors
        or done.read
        or stretch.told
    ):
        if draft := _of_work(stretch, salience):
            yield draft
            yield from _beside(stretch, draft, salience)
    elif draft := _of_talk(stretch, salience):
        yield draft


def _of_talk(stretch: _Stretch, salience: Salience) -> _Draft | None:
    statements = _statements(stretch, salience)
    request = _request(stretch, salience)
    answers = _answers(stretch, salience)
    listed = _listed(stretch.told)
    trivial = _TRIVIAL.match(stretch.request.strip()) is not None or not stretch.asked
    if (
        trivial
        and not listed
        and (not answers or len(" ".join(s.text for s in stretch.told)) < 160)
    ):
        return None
    if not statements and not request and not answers:
        return None
    heading = next((s.text for s in stretch.told if s.heading and not s.text.endswith(":")), "")
    best = answers[0] if answers else ""
    request = "" if stretch.people and statements else request
    title = (
        request
        or (statements[0] if statements else "")
        or heading
        or best
        or "".join(listed[:1]).removeprefix("Listed: ")
    )
    if not title.strip():
        return None
    type_ = kinds.of_words(" ".join(statements), request, best, question=bool(request))
    draft = _Draft(type_, _titled(title))
    own = [s for s in statements if overlap(s, [draft.title]) < 0.9]
    own.sort(
        key=lambda s: s.casefold().startswith(draft.title.rstrip("…").casefold())
    )  # what the title begins, last
    _gather(draft, own, 4)
    _gather(draft, listed[:1], 5)
    _gather(draft, (part for a in answers[:2] for part in _short(a, salience)), 2)
    draft.subtitle = _subtitle(answers, draft)
    _tell(draft, stretch, salience)
    draft.narrative += listed[1:]
    return draft


def _of_work(stretch: _Stretch, salience: Salience) -> _Draft | None:
    done = stretch.work
    request = "" if _TRIVIAL.match(stretch.request.strip()) else _request(stretch, salience)
    statements = _statements(stretch, salience)
    answers = _answers(stretch, salience)
    outcome = _outcome(stretch, salience)
    subject = (
        request
        or (statements[0] if statements else "")
        or outcome
        or (answers[0] if answers else "")
    )
    if done.commits:
        title = done.commits[-1]
    elif done.changes:
        title = f"{_edited(done)}: {_opened(subject)}" if subject else _edited(done)
    else:
        title = subject or (f"Ran {done.commands[0]}" if done.commands else "")
    if not title:
        return None
    type_ = kinds.of_work(done, stretch.request[:2_000], outcome)
    draft = _Draft(type_, _titled(title))
    reasons = [a for a in answers if kinds.LEARNING.search(a)]
    _gather(draft, (part for a in reasons[:2] for part in _short(a, salience)[:1]), 1)
    _gather(
        draft, (run.told for run in done.runs.values() if run.test or "failed" in run.outcomes), 2
    )
    _gather(draft, _changed(done), 4)
    _gather(draft, [f"Committed: {commit}" for commit in done.commits[:-1]][-1:], 5)
    _gather(
        draft, done.errors[:1] if draft.type in ("bugfix", "debug") or not done.changes else (), 5
    )
    _gather(draft, [s for s in statements if overlap(s, [draft.title]) < 0.8][:2], FACTS)
    _gather(draft, (part for a in answers for part in _short(a, salience)[:1]), FACTS)
    _gather(draft, [f"Searched the web for: {query}" for query in done.searched[:1]], FACTS)
    draft.subtitle = _subtitle([outcome, *answers] if outcome else answers, draft)
    _tell(draft, stretch, salience)
    return draft


def _beside(stretch: _Stretch, first: _Draft, salience: Salience) -> Iterator[_Draft]:
    """What the person decided or asked for once and for all, while something else was done."""
    for type_, cue in (("decision", kinds.DECISION), ("preference", kinds.PREFERENCE)):
        if first.type == type_:
            continue
        said = [
            s.text
            for s in stretch.asked
            if cue.search(s.text) and not s.question and len(s.text) < 400
        ]
        if said:
            draft = _Draft(
                type_,
                _titled(_opened(said[0])),
                facts=[part for s in said[:2] for part in clauses(s, _FACT)][:3],
            )
            draft.files = False
            yield draft
            return


# -- sentences -------------------------------------------------------------------


def _statements(stretch: _Stretch, salience: Salience) -> list[str]:
    """What the person said, not asked, in short; the most telling first."""
    scored: list[tuple[float, int, str]] = []
    for number, sentence in enumerate(stretch.asked):
        if sentence.heading:
            continue
        for piece in clauses(sentence.text, _FACT):
            bare = without_lead(piece)
            question = (
                piece.endswith("?")
                or _ASKS.match(bare) is not None
                or (sentence.question and _REQUEST.match(bare) is not None)
            )
            telling = is_own(bare) and salience.of_details(bare) >= 0.5
            if len(terms(bare)) < 2 or ((question or _REQUEST.match(bare)) and not telling):
                continue
            score = salience.of_person(piece, question=question)
            if score > 1.0:
                who = stretch.speakers[number]
                scored.append(
                    (-score, number, f"{who}: {bare}" if stretch.people and who else bare)
                )
    return _distinct(text for _, _, text in sorted(scored)[:12])


def _request(stretch: _Stretch, salience: Salience) -> str:
    """What the person asked for, as short as it can be said in their words."""
    best, best_score = "", 0.0
    for number, sentence in enumerate(stretch.asked):
        bare = without_lead(sentence.text)
        asks = sentence.question or _REQUEST.match(bare) or _ASKS.match(bare)
        if not asks or is_empty(bare):
            continue
        near = number == 0 or number == len(stretch.asked) - 1
        score = (
            salience.of_words(bare)
            + (0.6 if near else 0 if number < 12 else -1.0)
            + 0.5 * salience.of_details(bare)
        )
        if score > best_score:
            who = stretch.speakers[number]
            best, best_score = (f"{who}: {bare}" if stretch.people and who else bare), score
    return best if len(terms(best)) > 1 else ""


def _answers(stretch: _Stretch, salience: Salience) -> list[str]:
    """The sentences of the model that carry what it found, the most telling first."""
    asked_for = words(stretch.request[:2_000]).distinct
    for number, sentence in enumerate(stretch.told):
        text = sentence.text
        if sentence.heading or text.endswith(":") or len(text) < 20:
            continue
        score = salience.of_answer(text, question=sentence.question, last=number >= stretch.closing)
        if score > 0.8:
            score += 0.25 * min(4, len(asked_for & words(text).distinct)) - 0.4 * sentence.item
            stretch.judged.append((-score, number, text))
    stretch.judged.sort()
    return _distinct(text for _, _, text in stretch.judged[:14])


def _outcome(stretch: _Stretch, salience: Salience) -> str:
    """How it ended: the most telling sentence of the last message."""
    closing = [
        s
        for s in stretch.told[stretch.closing :]
        if not s.question and not s.heading and not is_empty(s.text)
    ]
    closing = [s for s in closing if 15 <= len(s.text) <= 300 and not s.text.endswith(":")]
    scored = [
        (-salience.of_answer(s.text, question=False, last=True) + 0.02 * n, n, s.text)
        for n, s in enumerate(closing)
    ]
    return min(scored)[2] if scored else ""


def _listed(told: Sequence[Sentence]) -> list[str]:
    """The heads of the items in an answer, as facts."""
    heads: list[str] = []
    for sentence in told:
        if sentence.item:
            found = _HEAD.match(sentence.text)
            head = found[1] if found else sentence.text if len(sentence.text) <= 45 else ""
            head = head.strip(" .,:;\"'“”")
            if head and not head.endswith("?") and head not in heads and len(head.split()) <= 9:
                heads.append(head)
    return _joined(heads) if len(heads) > 1 else []


def _joined(heads: Sequence[str]) -> list[str]:
    """Names as facts: the first few as one that is short, more of them as another."""
    facts: list[str] = []
    for head in heads:
        room = _LISTED[min(len(facts), 2) - 1] if facts else 0
        if facts and len(facts[-1]) + len(head) + 2 <= room:
            facts[-1] += f"; {head}"
        elif len(facts) < len(_LISTED):
            facts.append(f"Listed: {head}")
        else:
            break
    return facts


def _short(sentence: str, salience: Salience) -> list[str]:
    """A sentence by its most telling parts."""
    pieces = [p for piece in clauses(sentence, 70) if len(terms(p := without_lead(piece))) > 1]
    return sorted(pieces, key=lambda p: -(salience.of_words(p) + salience.of_details(p)))[:1] or [
        sentence
    ]


def _distinct(texts: Iterable[str]) -> list[str]:
    """Without those whose words another before them has."""
    found: list[str] = []
    for text in texts:
        if overlap(text, found) < 0.8:
            found.append(text)
    return found


# -- putting together ------------------------------------------------------------


def _gather(draft: _Draft, facts: Iterable[str], most: int) -> None:
    """Add facts that say something new, until there are so many."""
    for fact in facts:
        if len(draft.facts) >= most:
            return
        said = fact.strip()
        said = said if len(said) <= _LONGEST_FACT else cut(said, _LONGEST_FACT).removesuffix("…")
        if said and overlap(said, draft.facts) < 0.8 and overlap(said, [draft.title]) < 1:
            draft.facts.append(said)


def _subtitle(candidates: Iterable[str], draft: _Draft) -> str:
    for candidate in candidates:
        if overlap(candidate, [draft.title]) < 0.8 and len(candidate) <= 2 * SUBTITLE:
            return cut(candidate, SUBTITLE)
    return ""


def _tell(draft: _Draft, stretch: _Stretch, salience: Salience) -> None:
    """The narrative, in the order of the source: what else the person said, then what else was answered."""
    known = [draft.title, *draft.facts]
    room = _WHOLE - len(draft.subtitle) - sum(map(len, known))
    said = [
        (-salience.of_person(s.text, question=False), n, s.text)
        for n, s in enumerate(stretch.asked)
    ]
    told = [(score, len(said) + number, text) for score, number, text in stretch.judged]
    chosen: list[tuple[int, str]] = []
    for sentences, most, least, shortest in (
        (sorted(said), _NARRATIVE, 0.3, 1),
        (told, _ANSWERED, 1.6, 3),
    ):
        for score, number, text in sentences:
            if len(chosen) >= most or -score < least:
                break
            if (
                len(text) <= min(room, 400)
                and len(terms(text)) >= shortest
                and overlap(text, known) < 1
            ):
                chosen.append((number, text))
                known.append(text)
                room -= len(text) + 1
    draft.narrative = [text for _, text in sorted(chosen)]


def _changed(done: Work) -> list[str]:
    changes = sorted(done.changes.values(), key=lambda c: -(c.added + c.removed))
    if len(changes) > _FILES_NAMED:
        names = ", ".join(basename(c.path) for c in changes[:_FILES_NAMED])
        return [f"Modified {len(changes)} files: {names}, …"]
    moved = [f"Renamed {before} to {after}" for before, after in done.moved[:2]]
    return [change.told for change in changes] + moved


def _edited(done: Work) -> str:
    """The files that changed, as the beginning of a title."""
    changes = sorted(done.changes.values(), key=lambda c: -(c.added + c.removed))
    verb = (
        "Create"
        if all(c.created for c in changes)
        else "Delete"
        if all(c.deleted for c in changes)
        else "Edit"
    )
    names = list(dict.fromkeys(basename(change.path) for change in changes))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{verb} {', '.join(names[:2])}{more}"


def _opened(text: str) -> str:
    """A request without the politeness it begins with."""
    bare = without_lead(text)
    polite = _POLITE.match(bare)
    rest = bare[polite.end() :].rstrip("?") if polite else bare
    return rest if len(rest) >= 10 else bare


def _titled(text: str) -> str:
    bare = _opened(text).strip().rstrip(".!:,; ")
    return cut(bare[:1].upper() + bare[1:], TITLE)


def _finished(
    draft: _Draft,
    stretch: _Stretch,
    document: Document,
    lines: ConversationText,
    salience: Salience,
) -> Observation:
    passages = tuple(p.id for p in stretch.passages)
    conversation = document.id or document.source_id
    asked_words = " \n ".join(s.text for s in stretch.asked)[:4_000]
    told = " \n ".join((*draft.facts, *draft.narrative, draft.subtitle))
    observation = Observation(
        id=identity(conversation, passages[0], draft.type, draft.title),
        type=draft.type,
        title=draft.title,
        conversation=conversation,
        passages=passages,
        subtitle=draft.subtitle,
        narrative="\n".join(draft.narrative),
        facts=tuple(draft.facts),
        concepts=concepts(((draft.title, 1.0), (asked_words, 1.0), (told, 0.6)), salience),
        project=document.project,
        created_at=next(
            (p.created_at for p in stretch.passages if p.created_at), document.created_at
        ),
        lines=lines.span(passages),
        asked=lines.passages.get(passages[0]),
        maker=MAKER,
    )
    if not draft.files:
        return observation
    return replace(
        observation,
        files_read=tuple(stretch.work.read[:50]),
        files_modified=stretch.work.modified[:50],
    )
