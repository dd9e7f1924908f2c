"""Observations by rules: what was done, from tool calls; what was said, in its own sentences.

Nothing is invented. A fact is part of a sentence of the source, or has one of the forms that
`is_derived` recognizes. The same document always gives the same observations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from recollect.memory.names import is_folder
from recollect.memory.observe import cues, replies
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

MAKER = "rules-2"
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
_MIN_OUTCOME_TERMS = 3
_DIGIT = re.compile(r"\d")
_MAX_FILE_FACTS = 4
_MAX_OWN_LENGTH = 4_000  # characters: a longer message contains pasted text
_PASTE_MARGIN = 1_000
_MAX_OWN_LINES = 25
_MAX_SENTENCES = 400  # per message
_PERSONAL = (("decision", cues.DECISION), ("preference", cues.PREFERENCE))
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
        stretch
        for exchange in _join_replies(exchanges, document.project)
        for stretch in _stretches(exchange, document.project)
    ]
    if not _is_coding(document):
        for stretch in stretches:
            stretch.is_everyday = True
    salience = Salience(stretch.sentences for stretch in stretches)
    observations: dict[str, Observation] = {}
    for stretch in stretches:
        for draft in _drafts(stretch, salience):
            observation = _observation(draft, stretch, document, text, salience)
            observations.setdefault(observation.id, observation)
    return list(observations.values())


def _is_coding(document: Document) -> bool:
    """Whether a conversation is about work in a project, as opposed to everyday life."""
    if is_folder(document.project):
        return True
    return any(passage.type == "tool_call" for passage in document.passages)


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
    reply: str = ""
    """The last of the person's messages that accept or choose what the model offered."""
    offer: int = 0
    """Where in `model_sentences` the part begins that follows the first reply."""
    is_everyday: bool = False
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


def _join_replies(exchanges: Sequence[Exchange], root: str) -> list[Exchange]:
    """The exchanges, each together with the replies to what the model offered in it."""
    joined: list[Exchange] = []
    for exchange in exchanges:
        if joined and _is_reply_to(joined[-1], exchange, root):
            passages = (*joined[-1].passages, *exchange.passages)
            joined[-1] = replace(joined[-1], passages=passages)
        else:
            joined.append(exchange)
    return joined


def _is_reply_to(previous: Exchange, exchange: Exchange, root: str) -> bool:
    if not previous.quotable or not exchange.quotable or len(previous.passages) > _MAX_PART:
        return False
    request, offer = previous.quotable[0], previous.quotable[-1]
    message = exchange.quotable[0]
    if not is_from_person(request) or not is_from_person(message):
        return False
    if offer.role != "assistant" or offer.type != "message":
        return False
    text = person_text(message)
    if not replies.is_reply(text, person_text(request), offer.content):
        return False
    # After something was done, only a bare "yes, continue" goes on with it.
    is_bare = replies.TRIVIAL.match(text.strip()) is not None
    return is_bare or not collect_work(previous.quotable, root).changes


def _stretches(exchange: Exchange, root: str) -> Iterator[_Stretch]:
    for passages in _split_work(exchange.quotable):
        stretch = _Stretch(passages, "", collect_work(passages, root))
        stretch.is_among_people = _are_people(passages)
        for passage in passages:
            if is_from_person(passage):
                _add_person_message(stretch, passage)
            elif passage.type == "message" and passage.role == "assistant":
                stretch.closing = len(stretch.model_sentences)
                stretch.model_sentences += _prose_sentences(passage.content)
        if stretch.sentences or stretch.work.changes or stretch.work.commits:
            yield stretch


def _add_person_message(stretch: _Stretch, passage: Passage) -> None:
    text = person_text(passage)
    if not stretch.request:
        stretch.request = text
    elif not stretch.is_among_people:
        stretch.offer = stretch.offer or len(stretch.model_sentences)
        stretch.reply = text
    sentences = _prose_sentences(_without_paste(text))
    stretch.person_sentences += sentences
    stretch.speakers += [passage.author or ""] * len(sentences)


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
    if stretch.is_everyday and not statements:
        return None
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
    draft = _Draft(_type_of_talk(stretch, request, best_answer), _format_title(title))
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


def _type_of_talk(stretch: _Stretch, request: str, answer: str) -> str:
    own_words = [s.text for s in stretch.person_sentences if not s.question]
    type_ = cues.type_of_talk(" ".join(own_words), request, answer, question=bool(request))
    if type_ in ("learning", "discovery") and _is_choice(stretch):
        return "decision"
    return type_


def _is_choice(stretch: _Stretch) -> bool:
    """Whether the person chose among what the model offered, rather than asked for a cause."""
    if not stretch.reply or replies.is_pleasantry(stretch.reply):
        return False
    return not replies.asks_cause(stretch.request)


def _has_decision(text: str) -> bool:
    return cues.DECISION.search(text) is not None or cues.PREFERENCE.search(text) is not None


def _is_trivial_talk(stretch: _Stretch) -> bool:
    if not stretch.person_sentences:
        return True
    return replies.TRIVIAL.match(stretch.request.strip()) is not None


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
    if not replies.TRIVIAL.match(stretch.request.strip()):
        request = _request(stretch, salience)
    statements = _statements(stretch, salience)
    answers = _answers(stretch, salience)
    outcome = _outcome(stretch, salience)
    subject = request or _first(statements) or _first_words(stretch)
    type_, title = _own_rule(stretch, request)
    if not title:
        type_ = _type_of_work(stretch, outcome)
        title = _work_title(work, subject, outcome or _first(answers))
    if not title:
        return None
    draft = _Draft(type_, _format_title(title))
    _add_said_facts(draft, stretch, answers, salience)
    _add_done_facts(draft, work)
    new_statements = [text for text in statements if overlap(text, [draft.title]) < 0.8]
    _add_facts(draft, new_statements[:2], MAX_FACTS)
    _add_facts(draft, (_best_clause(answer, salience) for answer in answers), MAX_FACTS)
    _add_facts(draft, (f"Searched the web for: {q}" for q in work.web_queries[:1]), MAX_FACTS)
    draft.subtitle = _subtitle([_capitalize(subject), outcome, *answers], draft)
    _add_narrative(draft, stretch, salience)
    return draft


def _first_words(stretch: _Stretch) -> str:
    for sentence in stretch.person_sentences:
        if not is_empty(sentence.text) and not replies.TRIVIAL.match(sentence.text):
            return sentence.text
    return ""


def _own_rule(stretch: _Stretch, request: str) -> tuple[str, str]:
    """The type and the title of a message that only states a decision or a preference."""
    if request or stretch.reply or stretch.work.commits or not stretch.person_sentences:
        return "", ""
    first = stretch.person_sentences[0]
    for type_, cue in _PERSONAL:
        if cue.search(first.text) and not first.question:
            return type_, first.text
    return "", ""


def _type_of_work(stretch: _Stretch, outcome: str) -> str:
    text = f"{stretch.request[:2_000]}\n{stretch.reply}"
    type_ = cues.type_of_work(stretch.work, text, outcome)
    is_certain = type_ not in ("change", "feature", "config", "discovery")
    if is_certain and (type_ == "security" or not cues.DECISION.search(stretch.reply)):
        return type_
    if _is_choice(stretch):
        return "decision"
    return type_


def _work_title(work: Work, subject: str, outcome: str) -> str:
    """What came out of the work: the commit, or how the model describes it."""
    if work.commits:
        return work.commits[-1]
    if work.changes:
        if len(terms(outcome)) >= _MIN_OUTCOME_TERMS:
            return outcome
        title = _change_title(work)
        if subject:
            title += f": {_without_politeness(subject)}"
        return title
    if subject or outcome:
        return subject or outcome
    if work.commands:
        return f"Ran {work.commands[0]}"
    return ""


def _add_said_facts(
    draft: _Draft, stretch: _Stretch, answers: Sequence[str], salience: Salience
) -> None:
    """What was said, by use: causes, decisions with what was offered, numbers, errors."""
    causes = [text for text in answers if cues.LEARNING.search(text)]
    _add_facts(draft, (_cause(text, salience) for text in causes[:2]), 2)
    decisions = [
        clause
        for sentence in stretch.person_sentences
        if not sentence.question and _has_decision(sentence.text)
        for clause in split_clauses(sentence.text, _MAX_FACT_LENGTH)
    ]
    _add_facts(draft, decisions[:1], 3)
    offers = {sentence.text for sentence in stretch.model_sentences[: stretch.offer]}
    _add_facts(draft, (text for text in answers if text in offers), 3)
    numbers = [text for text in answers if _DIGIT.search(text)]
    closing = {sentence.text for sentence in stretch.model_sentences[stretch.closing :]}
    outcomes = [text for text in answers if text in closing and text not in numbers]
    _add_facts(draft, (_best_clause(text, salience) for text in (*numbers[:2], *outcomes[:1])), 4)
    if draft.type in ("bugfix", "debug") or not stretch.work.changes:
        _add_facts(draft, stretch.work.errors[:1], 4)


def _add_done_facts(draft: _Draft, work: Work) -> None:
    """What was done: test runs, changed files, commits."""
    runs = [run for run in work.runs.values() if run.is_test or "failed" in run.outcomes]
    _add_facts(draft, (run.description for run in runs), 5)
    _add_facts(draft, _change_facts(work), MAX_FACTS)
    _add_facts(draft, (f"Committed: {commit}" for commit in work.commits[:-1][-1:]), MAX_FACTS)


def _cause(sentence: str, salience: Salience) -> str:
    """The sentence that names a cause; if it is long, the clause of it that does."""
    if len(sentence) <= _MAX_FACT_LENGTH:
        return sentence
    clauses = [text for text in split_clauses(sentence, 70) if cues.LEARNING.search(text)]
    if clauses:
        return clauses[0]
    return _best_clause(sentence, salience)


def _draft_decision(stretch: _Stretch, work_draft: _Draft) -> Iterator[_Draft]:
    """A decision or lasting preference that the person mentioned during other work."""
    if work_draft.type in ("decision", "preference") or stretch.reply:
        return
    for type_, cue in _PERSONAL:
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
            is_question = _is_question(sentence, clause, text)
            is_request = is_question
            if replies.REQUEST.match(text) and not cues.DECISION.search(sentence.text):
                is_request = True
            if len(terms(text)) < 2 or (is_request and not _has_own_details(stretch, text)):
                continue
            score = salience.of_person(clause, question=is_question)
            if score > 1.0:
                ranking.append((-score, number, stretch.attribute(text, number)))
    return _distinct(text for _, _, text in sorted(ranking)[:12])


def _is_question(sentence: Sentence, clause: str, text: str) -> bool:
    """Whether a clause asks for something. `text` is the clause without introductory words."""
    if clause.endswith(("?", "？")):
        return True
    if sentence.question:
        return replies.REQUEST.match(text) is not None or replies.ASKS.search(text) is not None
    return replies.ASKS.search(text) is not None and not _has_decision(sentence.text)


def _has_own_details(stretch: _Stretch, text: str) -> bool:
    """Whether people say something about themselves although they ask for something.

    In everyday life, questions are asked all the time, and what matters is said without them.
    """
    return not stretch.is_everyday and is_about_self(text) and score_details(text) >= 0.5


def _request(stretch: _Stretch, salience: Salience) -> str:
    """The sentence that asks for something, the most significant one."""
    best = ""
    best_score = 0.0
    for number, sentence in enumerate(stretch.person_sentences):
        text = without_lead(sentence.text)
        if not _is_request(sentence, text) or is_empty(text):
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


def _is_request(sentence: Sentence, text: str) -> bool:
    """Whether a sentence asks for something. `text` is the sentence without introductory words."""
    if sentence.question:
        return True
    if replies.REQUEST.match(sentence.text):
        return cues.DECISION.search(sentence.text) is None
    is_request = replies.REQUEST.match(text) or replies.ASKS.search(text)
    return is_request is not None and not _has_decision(sentence.text)


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
    return replies.strip_politeness(without_lead(text))


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


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
