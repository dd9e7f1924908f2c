"""Observations by rules: what was done, from tool calls; what was said, in its own sentences.

Nothing is invented. A fact is part of a sentence of the source, or has one of the forms that
`is_derived` recognizes. The same document always gives the same observations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from recollect.memory.observe import cues
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
    prose_sentences,
    shorten,
    split_clauses,
    without_lead,
)
from recollect.memory.observe.salience import Salience, is_about_self, is_empty, score_details
from recollect.memory.observe.sentence_words import overlap, terms, words
from recollect.memory.observe.work import Work, basename, collect_work
from recollect.model.documents import Document, Passage
from recollect.model.observations import Observation

MAKER = "rules-1"
TITLE_LENGTH = 80
SUBTITLE_LENGTH = 120
MAX_FACTS = 6
_FACT_LENGTH = 60  # approximate characters: a fact is a thought, not a paragraph
_MAX_FACT_LENGTH = 120
_TOTAL_LENGTH = 1_000  # characters of title, subtitle, facts and narrative together
_LIST_LENGTHS = (72, 220)  # characters of the first and the second fact made of a list
_MAX_NARRATIVE = 6  # sentences
_MAX_ANSWERS_IN_NARRATIVE = 1  # answers are added only up to this many sentences
_MAX_PART = 80  # passages after which long work is split
_MIN_PART = 4
_MAX_FILE_FACTS = 4
_MAX_OWN_LENGTH = 4_000  # characters: a longer message contains pasted text
_PASTE_MARGIN = 1_000
_MAX_OWN_LINES = 25
_MAX_SENTENCES = 400  # per message
_REQUEST = re.compile(
    r"^(?:(?:can|could|would|will) (?:you|we)(?: please| also| maybe| just)?|please|i(?:'d| would)"
    r" (?:like"
    r"|love) (?:you )?to"
    r"|i (?:want|need) you to|do you (?:know|think)(?: if)?|i(?:'m| am) (?:looking (?:for|to)"
    r"|trying to"
    r"|wondering(?: if| about)?"
    r"|curious(?: about| if)?|interested in|hoping to|thinking (?:of|about)|planning (?:to|on)?"
    r"|considering)"
    r"|i was (?:wondering(?: if| about)?|thinking (?:of|about))"
    r"|help me(?: with| to)?|tell me(?: more)? about|let'?s)\s+",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:(?:(?:can|could|would|will) (?:you|we)|do you think you (?:can|could))"
    r"(?: please| also| maybe| just)?(?: be able to)?(?: help me(?: to"
    r"| with)?| tell me(?: more)?(?: about)?| give me| provide(?: me)?(?: with)?)?"
    r"|please(?: help me)?|i(?:'m| am) (?:looking (?:for|to)|trying to|wondering(?: if(?: you"
    r" (?:can|could))?)?"
    r"|curious about|interested in)"
    r"|i was wondering(?: if you (?:can|could))?|help me(?: with| to)?|do you have any|i(?:'d|"
    r" would) (?:like"
    r"|love) (?:you )?to)\s+(?=\S)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"^(?:what|how|why|when|where|who|which|is|are|do|does|did|can|could|should|would|will|write"
    r"|create|make|give"
    r"|show|explain|list"
    r"|describe|generate|find|summari[sz]e|translate|fix|add|implement|change|update|remove|run"
    r"|check|review"
    r"|refactor|suggest|recommend"
    r"|compare|tell|help|look|read|use|build|test|commit|rewrite|draft|plan|act|provide|bitte"
    r"|kannst|wie|was|warum"
    r"|peux|comment|pourquoi"
    r"|puedes|cómo|qué)\b",
    re.IGNORECASE,
)
_TRIVIAL = re.compile(
    r"^(?:ok(?:ay)?|yes(?:,? please)?|yep|yeah|no|nope|sure|thanks?(?: you)?|thx|great|perfect|cool"
    r"|nice|good"
    r"|continue|go on|go ahead|proceed"
    r"|do it|please (?:continue|proceed|do)|keep going|next|done|hello|hi|hey|good (?:morning"
    r"|evening|night"
    r"|afternoon)|bye|/\w+|lgtm|y|n|k|hm+|wow|lol"
    r"|got it|sounds good|that(?:'s| is) (?:great|all|fine|it)|ja|nein|danke|weiter|oui|non|merci"
    r"|sí|gracias|继续|好的?"
    r"|はい|네)"
    r"(?:[\s,.!]+(?:ok(?:ay)?|yes|please|thanks?|thank you|so much|very much|great|go|continue|then"
    r"|there|claude|sir"
    r"|man|all|again))*[\s.!?…]*$",
    re.IGNORECASE,
)
_HEAD = re.compile(r"^(.{2,60}?)(?::\s|\s[-–—]\s|\s\(|:$)")


# -- derived facts ---------------------------------------------------------------

_FORMS = re.compile(
    r"(?:Created|Modified|Deleted) \S.*?(?: \(\+\d+ −\d+\))?|Modified \d+ files: .+"
    r"|Ran `.+?`(?:: (?:passed|failed)(?:, then (?:passed|failed))*)?"
    r"|Committed: .+|Renamed .+ to .+|Searched the web for: .+|Delegated: .+|Listed: .+|Read .+"
    r"|(?P<speaker>[^:\n]{1,80}): (?P<text>.+)",
    re.DOTALL,
)


def is_derived(fact: str) -> bool:
    """Whether a fact has one of the forms that are derived from tool calls and structure."""
    return _FORMS.fullmatch(fact) is not None


# -- observations ----------------------------------------------------------------


def observe(document: Document) -> list[Observation]:
    """What is worth remembering of a conversation, in its order."""
    exchanges = split_exchanges(document)
    if not exchanges:
        return []
    text = conversation_text(document, exchanges)
    stretches = [
        stretch for exchange in exchanges for stretch in _stretches(exchange, document.project)
    ]
    salience = Salience(stretch.sentences for stretch in stretches)
    observations: dict[str, Observation] = {}
    for stretch in stretches:
        for draft in _drafts(stretch, salience):
            observation = _observation(draft, stretch, document, text, salience)
            observations.setdefault(observation.id, observation)
    return list(observations.values())


def observation_id(conversation: str, passage: str, type_: str, title: str) -> str:
    """The id of an observation, which is the same as long as its title and place are."""
    key = "\0".join((conversation, passage, type_, title)).encode("utf-8", "surrogatepass")
    return f"obs-{hashlib.blake2b(key, digest_size=8).hexdigest()}"


@dataclass(slots=True)
class _Stretch:
    """An exchange, or a part of a long one."""

    passages: tuple[Passage, ...]
    request: str
    work: Work
    person_sentences: list[Sentence] = field(default_factory=list)
    model_sentences: list[Sentence] = field(default_factory=list)
    closing: int = 0
    """Where in `model_sentences` the last message begins."""
    ranking: list[tuple[float, int, str]] = field(default_factory=list)
    """The quotable model sentences, best first: the negated score, the place and the text."""
    is_among_people: bool = False
    """Whether people talk to each other without a model."""
    speakers: list[str] = field(default_factory=list)
    """The author of each of the person's sentences."""

    @property
    def sentences(self) -> list[str]:
        return [sentence.text for sentence in (*self.person_sentences, *self.model_sentences)]

    def attribute(self, text: str, number: int) -> str:
        """The text of a person's sentence, with the name of the speaker among people."""
        speaker = self.speakers[number]
        if self.is_among_people and speaker:
            return f"{speaker}: {text}"
        return text


@dataclass(slots=True)
class _Draft:
    type: str
    title: str
    subtitle: str = ""
    facts: list[str] = field(default_factory=list)
    narrative: list[str] = field(default_factory=list)
    has_files: bool = True


# -- stretches -------------------------------------------------------------------


def _stretches(exchange: Exchange, root: str) -> Iterator[_Stretch]:
    for passages in _split_work(exchange.quotable):
        stretch = _Stretch(passages, "", collect_work(passages, root))
        stretch.is_among_people = _are_people(passages)
        for passage in passages:
            if is_from_person(passage):
                text = person_text(passage)
                stretch.request = stretch.request or text
                sentences = _prose_sentences(_without_paste(text))
                stretch.person_sentences += sentences
                stretch.speakers += [passage.author or ""] * len(sentences)
            elif passage.type == "message" and passage.role == "assistant":
                stretch.closing = len(stretch.model_sentences)
                stretch.model_sentences += _prose_sentences(passage.content)
        if stretch.sentences or stretch.work.changes or stretch.work.commits:
            yield stretch


def _are_people(passages: Sequence[Passage]) -> bool:
    authors = {passage.author for passage in passages if is_from_person(passage)}
    if not authors or None in authors:
        return False
    return not any(passage.role == "assistant" for passage in passages)


def _without_paste(text: str) -> str:
    """The person's own words, which stand before and after a long pasted text."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > _MAX_OWN_LINES and len(text) > _MAX_OWN_LENGTH // 2:
        return "\n\n".join((*lines[:5], *lines[-3:]))
    if len(text) > _MAX_OWN_LENGTH:
        return f"{text[:_PASTE_MARGIN]}\n\n{text[-_PASTE_MARGIN:]}"
    return text


def _prose_sentences(text: str) -> list[Sentence]:
    return list(prose_sentences(text)[:_MAX_SENTENCES])


def _split_work(passages: tuple[Passage, ...]) -> Iterator[tuple[Passage, ...]]:
    """Long work in parts. A part ends with a commit, or when it has grown too long."""
    start = 0
    for end in range(1, len(passages)):
        if passages[end - 1].type != "tool_result" or len(passages) - end < _MIN_PART:
            continue
        is_long = end - start >= _MAX_PART and passages[end].type == "message"
        if is_long or (end - start >= _MIN_PART and _is_commit(passages[end - 2 : end])):
            yield passages[start:end]
            start = end
    if passages[start:]:
        yield passages[start:]


def _is_commit(call_and_result: Sequence[Passage]) -> bool:
    if "commit" not in call_and_result[0].content:
        return False
    return bool(collect_work(call_and_result).commits)


# -- drafts ----------------------------------------------------------------------


def _drafts(stretch: _Stretch, salience: Salience) -> Iterator[_Draft]:
    if _has_work(stretch):
        draft = _draft_work(stretch, salience)
        if draft is not None:
            yield draft
            yield from _draft_decision(stretch, draft)
        return
    draft = _draft_talk(stretch, salience)
    if draft is not None:
        yield draft


def _has_work(stretch: _Stretch) -> bool:
    work = stretch.work
    if not work.calls:
        return False
    return bool(
        work.changes
        or work.commits
        or work.renames
        or work.runs
        or work.errors
        or work.files_read
        or stretch.model_sentences
    )


def _draft_talk(stretch: _Stretch, salience: Salience) -> _Draft | None:
    statements = _statements(stretch, salience)
    request = _request(stretch, salience)
    answers = _answers(stretch, salience)
    lists = _list_facts(stretch.model_sentences)
    if _is_trivial_talk(stretch) and not lists and not (answers and _is_long_answer(stretch)):
        return None
    if not statements and not request and not answers:
        return None
    if stretch.is_among_people and statements:
        request = ""
    best_answer = _first(answers)
    title = (
        request
        or _first(statements)
        or _first_heading(stretch)
        or best_answer
        or _first(lists).removeprefix("Listed: ")
    )
    if not title.strip():
        return None
    type_ = cues.type_of_talk(" ".join(statements), request, best_answer, question=bool(request))
    draft = _Draft(type_, _format_title(title))
    facts = [text for text in statements if overlap(text, [draft.title]) < 0.9]
    title_start = draft.title.rstrip("…").casefold()
    facts.sort(key=lambda text: text.casefold().startswith(title_start))  # repeats the title: last
    _add_facts(draft, facts, 4)
    _add_facts(draft, lists[:1], 5)
    _add_facts(draft, (_best_clause(answer, salience) for answer in answers[:2]), 2)
    draft.subtitle = _subtitle(answers, draft)
    _add_narrative(draft, stretch, salience)
    draft.narrative += lists[1:]
    return draft


def _is_trivial_talk(stretch: _Stretch) -> bool:
    if not stretch.person_sentences:
        return True
    return _TRIVIAL.match(stretch.request.strip()) is not None


def _is_long_answer(stretch: _Stretch) -> bool:
    return len(" ".join(sentence.text for sentence in stretch.model_sentences)) >= 160


def _first(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    return texts[0]


def _first_heading(stretch: _Stretch) -> str:
    for sentence in stretch.model_sentences:
        if sentence.heading and not sentence.text.endswith(":"):
            return sentence.text
    return ""


def _draft_work(stretch: _Stretch, salience: Salience) -> _Draft | None:
    work = stretch.work
    request = ""
    if not _TRIVIAL.match(stretch.request.strip()):
        request = _request(stretch, salience)
    statements = _statements(stretch, salience)
    answers = _answers(stretch, salience)
    outcome = _outcome(stretch, salience)
    subject = request or _first(statements) or outcome or _first(answers)
    title = _work_title(work, subject)
    if not title:
        return None
    type_ = cues.type_of_work(work, stretch.request[:2_000], outcome)
    draft = _Draft(type_, _format_title(title))
    _add_work_facts(draft, work, answers, salience)
    new_statements = [text for text in statements if overlap(text, [draft.title]) < 0.8]
    _add_facts(draft, new_statements[:2], MAX_FACTS)
    _add_facts(draft, (_best_clause(answer, salience) for answer in answers), MAX_FACTS)
    _add_facts(draft, (f"Searched the web for: {q}" for q in work.web_queries[:1]), MAX_FACTS)
    candidates = answers
    if outcome:
        candidates = [outcome, *answers]
    draft.subtitle = _subtitle(candidates, draft)
    _add_narrative(draft, stretch, salience)
    return draft


def _work_title(work: Work, subject: str) -> str:
    if work.commits:
        return work.commits[-1]
    if work.changes:
        title = _change_title(work)
        if subject:
            title += f": {_without_politeness(subject)}"
        return title
    if subject:
        return subject
    if work.commands:
        return f"Ran {work.commands[0]}"
    return ""


def _add_work_facts(draft: _Draft, work: Work, answers: Sequence[str], salience: Salience) -> None:
    reasons = [answer for answer in answers if cues.LEARNING.search(answer)]
    _add_facts(draft, (_best_clause(reason, salience) for reason in reasons[:2]), 1)
    runs = [run for run in work.runs.values() if run.is_test or "failed" in run.outcomes]
    _add_facts(draft, (run.description for run in runs), 2)
    _add_facts(draft, _change_facts(work), 4)
    _add_facts(draft, (f"Committed: {commit}" for commit in work.commits[:-1][-1:]), 5)
    if draft.type in ("bugfix", "debug") or not work.changes:
        _add_facts(draft, work.errors[:1], 5)


def _draft_decision(stretch: _Stretch, work_draft: _Draft) -> Iterator[_Draft]:
    """A decision or lasting preference that the person mentioned during other work."""
    for type_, cue in (
        ("decision", cues.DECISION),
        ("preference", cues.PREFERENCE),
    ):
        if work_draft.type == type_:
            continue
        texts = [
            sentence.text
            for sentence in stretch.person_sentences
            if cue.search(sentence.text) and not sentence.question and len(sentence.text) < 400
        ]
        if texts:
            facts = [clause for text in texts[:2] for clause in split_clauses(text, _FACT_LENGTH)]
            title = _format_title(_without_politeness(texts[0]))
            yield _Draft(type_, title, facts=facts[:3], has_files=False)
            return


# -- sentences -------------------------------------------------------------------


def _statements(stretch: _Stretch, salience: Salience) -> list[str]:
    """What the person stated, not asked, in short clauses; the most significant first."""
    ranking: list[tuple[float, int, str]] = []
    for number, sentence in enumerate(stretch.person_sentences):
        if sentence.heading:
            continue
        for clause in split_clauses(sentence.text, _FACT_LENGTH):
            text = without_lead(clause)
            is_request = _REQUEST.match(text) is not None
            is_question = (
                clause.endswith("?")
                or _ASKS.match(text) is not None
                or (sentence.question and is_request)
            )
            has_own_details = is_about_self(text) and score_details(text) >= 0.5
            if len(terms(text)) < 2 or ((is_question or is_request) and not has_own_details):
                continue
            score = salience.of_person(clause, question=is_question)
            if score > 1.0:
                ranking.append((-score, number, stretch.attribute(text, number)))
    return _distinct(text for _, _, text in sorted(ranking)[:12])


def _request(stretch: _Stretch, salience: Salience) -> str:
    """The sentence that asks for something, the most significant one."""
    best = ""
    best_score = 0.0
    for number, sentence in enumerate(stretch.person_sentences):
        text = without_lead(sentence.text)
        is_request = sentence.question or _REQUEST.match(text) or _ASKS.match(text)
        if not is_request or is_empty(text):
            continue
        score = salience.of_words(text)
        if number == 0 or number == len(stretch.person_sentences) - 1:
            score += 0.6
        elif number >= 12:
            score -= 1.0
        score += 0.5 * score_details(text)
        if score > best_score:
            best = stretch.attribute(text, number)
            best_score = score
    if len(terms(best)) <= 1:
        return ""
    return best


def _answers(stretch: _Stretch, salience: Salience) -> list[str]:
    """The sentences of the model that carry its findings, the most significant first."""
    request_words = words(stretch.request[:2_000]).distinct
    for number, sentence in enumerate(stretch.model_sentences):
        text = sentence.text
        if sentence.heading or text.endswith(":") or len(text) < 20:
            continue
        is_closing = number >= stretch.closing
        score = salience.of_answer(text, question=sentence.question, last=is_closing)
        if score > 0.8:
            shared_words = len(request_words & words(text).distinct)
            score += 0.25 * min(4, shared_words) - 0.4 * sentence.item
            stretch.ranking.append((-score, number, text))
    stretch.ranking.sort()
    return _distinct(text for _, _, text in stretch.ranking[:14])


def _outcome(stretch: _Stretch, salience: Salience) -> str:
    """How it ended: the most significant sentence of the last message."""
    closing = [
        sentence.text
        for sentence in stretch.model_sentences[stretch.closing :]
        if not sentence.question and not sentence.heading and not is_empty(sentence.text)
    ]
    closing = [text for text in closing if 15 <= len(text) <= 300 and not text.endswith(":")]
    if not closing:
        return ""
    ranking = [
        (-salience.of_answer(text, question=False, last=True) + 0.02 * number, number, text)
        for number, text in enumerate(closing)
    ]
    _, _, best = min(ranking)
    return best


def _list_facts(sentences: Sequence[Sentence]) -> list[str]:
    """The list items of an answer as one or two facts."""
    heads: list[str] = []
    for sentence in sentences:
        if not sentence.item:
            continue
        head = _item_head(sentence.text)
        if head and not head.endswith("?") and head not in heads and len(head.split()) <= 9:
            heads.append(head)
    if len(heads) < 2:
        return []
    return _join_heads(heads)


def _item_head(text: str) -> str:
    """The name at the beginning of a list item; the item itself if it is short."""
    match = _HEAD.match(text)
    head = ""
    if match is not None:
        head = match[1]
    elif len(text) <= 45:
        head = text
    return head.strip(" .,:;\"'“”")


def _join_heads(heads: Sequence[str]) -> list[str]:
    """The heads as facts: a short one with the first few, and a longer one with more."""
    facts: list[str] = []
    for head in heads:
        if facts and len(facts[-1]) + len(head) + 2 <= _LIST_LENGTHS[len(facts) - 1]:
            facts[-1] += f"; {head}"
        elif len(facts) < len(_LIST_LENGTHS):
            facts.append(f"Listed: {head}")
        else:
            break
    return facts


def _best_clause(sentence: str, salience: Salience) -> str:
    """The most significant clause of a sentence."""
    clauses = [without_lead(clause) for clause in split_clauses(sentence, 70)]
    clauses = [clause for clause in clauses if len(terms(clause)) > 1]
    if not clauses:
        return sentence
    return max(clauses, key=lambda text: salience.of_words(text) + score_details(text))


def _distinct(texts: Iterable[str]) -> list[str]:
    """The texts that are not contained in an earlier one."""
    result: list[str] = []
    for text in texts:
        if overlap(text, result) < 0.8:
            result.append(text)
    return result


# -- assembly --------------------------------------------------------------------


def _add_facts(draft: _Draft, facts: Iterable[str], limit: int) -> None:
    """Add facts that say something new, up to `limit` facts in the draft."""
    for fact in facts:
        if len(draft.facts) >= limit:
            return
        text = fact.strip()
        if len(text) > _MAX_FACT_LENGTH:
            text = shorten(text, _MAX_FACT_LENGTH)
        if text and overlap(text, draft.facts) < 0.8 and overlap(text, [draft.title]) < 1:
            draft.facts.append(text)


def _subtitle(candidates: Iterable[str], draft: _Draft) -> str:
    for candidate in candidates:
        if overlap(candidate, [draft.title]) < 0.8 and len(candidate) <= 2 * SUBTITLE_LENGTH:
            return shorten(candidate, SUBTITLE_LENGTH)
    return ""


def _add_narrative(draft: _Draft, stretch: _Stretch, salience: Salience) -> None:
    """Fill the narrative in the order of the source: what else was said, then answered."""
    texts = [draft.title, *draft.facts]
    room = _TOTAL_LENGTH - len(draft.subtitle) - sum(map(len, texts))
    person_ranking = sorted(
        (-salience.of_person(sentence.text, question=False), number, sentence.text)
        for number, sentence in enumerate(stretch.person_sentences)
    )
    offset = len(person_ranking)
    model_ranking = [(score, offset + number, text) for score, number, text in stretch.ranking]
    narrative: list[tuple[int, str]] = []
    for ranking, limit, min_score, min_terms in (
        (person_ranking, _MAX_NARRATIVE, 0.3, 1),
        (model_ranking, _MAX_ANSWERS_IN_NARRATIVE, 1.6, 3),
    ):
        for negated_score, number, text in ranking:
            if len(narrative) >= limit or -negated_score < min_score:
                break
            is_suitable = len(text) <= min(room, 400) and len(terms(text)) >= min_terms
            if is_suitable and overlap(text, texts) < 1:
                narrative.append((number, text))
                texts.append(text)
                room -= len(text) + 1
    draft.narrative = [text for _, text in sorted(narrative)]


def _change_facts(work: Work) -> list[str]:
    changes = work.largest_changes
    if len(changes) > _MAX_FILE_FACTS:
        names = ", ".join(basename(change.path) for change in changes[:_MAX_FILE_FACTS])
        return [f"Modified {len(changes)} files: {names}, …"]
    facts = [change.description for change in changes]
    return facts + [f"Renamed {old} to {new}" for old, new in work.renames[:2]]


def _change_title(work: Work) -> str:
    """The changed files, as the beginning of a title."""
    changes = work.largest_changes
    verb = "Edit"
    if all(change.is_new for change in changes):
        verb = "Create"
    elif all(change.is_deleted for change in changes):
        verb = "Delete"
    names = list(dict.fromkeys(basename(change.path) for change in changes))
    title = f"{verb} {', '.join(names[:2])}"
    if len(names) > 2:
        title += f" and {len(names) - 2} more"
    return title


def _without_politeness(text: str) -> str:
    """A request without polite opening words."""
    request = without_lead(text)
    match = _POLITE.match(request)
    if match is None:
        return request
    rest = request[match.end() :].rstrip("?")
    if len(rest) < 10:
        return request
    return rest


def _format_title(text: str) -> str:
    title = _without_politeness(text).strip().rstrip(".!:,; ")
    return shorten(title[:1].upper() + title[1:], TITLE_LENGTH)


def _observation(
    draft: _Draft, stretch: _Stretch, document: Document, text: ConversationText, salience: Salience
) -> Observation:
    passages = tuple(passage.id for passage in stretch.passages)
    conversation = document.id or document.source_id
    person_words = " \n ".join(sentence.text for sentence in stretch.person_sentences)[:4_000]
    own_words = " \n ".join((*draft.facts, *draft.narrative, draft.subtitle))
    times = [passage.created_at for passage in stretch.passages if passage.created_at]
    observation = Observation(
        id=observation_id(conversation, passages[0], draft.type, draft.title),
        type=draft.type,
        title=draft.title,
        conversation=conversation,
        passages=passages,
        subtitle=draft.subtitle,
        narrative="\n".join(draft.narrative),
        facts=tuple(draft.facts),
        concepts=concepts(((draft.title, 1.0), (person_words, 1.0), (own_words, 0.6)), salience),
        project=document.project,
        created_at=next(iter(times), document.created_at),
        lines=text.span(passages),
        question_lines=text.passages.get(passages[0]),
        maker=MAKER,
    )
    if not draft.has_files:
        return observation
    return replace(
        observation,
        files_read=tuple(stretch.work.files_read[:50]),
        files_modified=stretch.work.files_modified[:50],
    )
