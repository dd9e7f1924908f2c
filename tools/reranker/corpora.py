"""Parse the sources into passages, and into queries whose right passage is known."""

from __future__ import annotations

import csv
import html
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from xml.etree import ElementTree

from tools.reranker.questions import (
    Person,
    keywords,
    questions,
    requests,
)
from tools.reranker.words import content_words

NAMES = """
Ana Ben Carla David Emma Felix Grace Henry Isabel Jack Kate Leo Maria Noah Olivia Paul Quinn
Rosa Sam Tina Uma Victor Wendy Xavier Yara Zoe Alice Bob Clara Dan Elena Frank Gina Hugo Irene
James Karen Liam Mia Nick Oscar Priya Rachel Steve Tom Ursula Vera Will Andrew Beth Chris Diana
""".split()
LONGEST_PASSAGE = 220  # characters; longer texts are split into several passages
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

Files = dict[str, bytes]


@dataclass(slots=True)
class Corpus:
    """The passages of a source, and the queries they answer.

    `place` says which document or dialogue a passage belongs to.
    """

    name: str
    authors: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    examples: list[tuple[str, int, str]] = field(default_factory=list)
    """Query, number of the right passage, kind of query."""
    document_count: int = 0

    def add_text(self, author: str, text: str) -> range:
        """Add a text, split into passages at sentence ends, and return their numbers."""
        start = len(self.texts)
        for part in split_text(text):
            self.authors.append(author)
            self.texts.append(part)
            self.places.append(self.document_count)
        return range(start, len(self.texts))

    def end_document(self) -> None:
        self.document_count += 1

    def add_example(self, query: str, answer: int, kind: str) -> None:
        query = " ".join(query.split())[:300]
        if len(query) > 4:
            self.examples.append((query, answer, kind))

    def best_passage(self, passages: Sequence[int], hint: str) -> int:
        """The passage that shares most words with the hint; the first if several do."""
        if len(passages) == 1:
            return passages[0]
        words = {w.casefold() for w in content_words(hint)}
        return max(passages, key=lambda n: len(words & _word_set(self.texts[n])))


@lru_cache(maxsize=5_000)
def _word_set(text: str) -> set[str]:
    return {w.casefold() for w in content_words(text)}


def split_text(text: str) -> list[str]:
    parts: list[str] = []
    for sentence in _SENTENCE.split(text):
        sentence = " ".join(sentence.split())
        if parts and len(parts[-1]) + len(sentence) < LONGEST_PASSAGE:
            parts[-1] += " " + sentence
        elif sentence:
            parts.append(sentence[: 2 * LONGEST_PASSAGE])
    return parts


# -- questions written by people ---------------------------------------------------


def qmsum(files: Files, rng: random.Random) -> Corpus:
    """Questions about meetings, with the span of turns that answers them."""
    corpus = Corpus("qmsum")
    noise = re.compile(r"\{\w+\}\s*")
    for name in sorted(files):
        meeting = json.loads(files[name])
        turns = []
        for turn in meeting["meeting_transcripts"]:
            text = re.sub(r" (?=[.,?!'])", "", noise.sub("", turn["content"]))
            turns.append(corpus.add_text(turn["speaker"], text))
        for item in meeting["specific_query_list"]:
            spans = [range(int(a), int(b) + 1) for a, b in item["relevant_text_span"]]
            passages = [p for span in spans for t in span if t < len(turns) for p in turns[t]]
            if not passages or len(passages) > 150:
                continue
            hint = item["query"] + " " + item["answer"]
            ranked = _ranked_by_overlap(corpus, passages, hint)
            for passage in ranked[:2]:
                corpus.add_example(item["query"], passage, "question")
            for sentence in _SENTENCE.split(item["answer"])[:2]:
                best = _ranked_by_overlap(corpus, passages, sentence)
                corpus.add_example(sentence, best[0], "statement")
        corpus.end_document()
    return corpus


def _ranked_by_overlap(corpus: Corpus, passages: list[int], hint: str) -> list[int]:
    words = {w.casefold() for w in content_words(hint)}
    return sorted(passages, key=lambda n: -len(words & _word_set(corpus.texts[n])))


def friendsqa(files: Files, rng: random.Random) -> Corpus:
    """Questions about scenes of a television series."""
    corpus = Corpus("friendsqa")
    for name in sorted(files):
        for scene in json.loads(files[name])["data"]:
            for paragraph in scene["paragraphs"]:
                turns = {}
                for turn in paragraph["utterances:"]:
                    author = turn["speakers"][0] if turn["speakers"] else ""
                    text = _rejoin(turn["utterance"])
                    turns[turn["uid"]] = corpus.add_text(author, text)
                    if turns[turn["uid"]]:
                        _ask_about_turn(corpus, turns[turn["uid"]], author.split(" ")[0], text, rng)
                for item in paragraph["qas"]:
                    for answer in item["answers"][:2]:
                        passages = turns.get(answer["utterance_id"])
                        if passages:
                            best = corpus.best_passage(passages, answer["answer_text"])
                            corpus.add_example(_rejoin(item["question"]), best, "question")
                corpus.end_document()
    return corpus


def _rejoin(text: str) -> str:
    """Undo the spaces of a tokenizer: "do n't know ." becomes "don't know."."""
    return re.sub(r" (?=n't\b|'(?:s|re|m|ve|ll|d)\b|[.,?!])", "", text)


def molweni(files: Files, rng: random.Random) -> Corpus:
    """Questions about technical chats among several people."""
    corpus = Corpus("molweni")
    for name in sorted(files):
        for dialogue in json.loads(files[name])["data"]["dialogues"]:
            starts = []
            position = 0
            for turn in dialogue["edus"]:
                passages = corpus.add_text(turn["speaker"], turn["text"])
                starts.append((position, passages))
                position += len(turn["speaker"]) + 2 + len(turn["text"]) + 1
            for item in dialogue["qas"]:
                for answer in item.get("answers", [])[:1]:
                    turn = [p for start, p in starts if start <= answer["answer_start"]][-1]
                    if turn:
                        best = corpus.best_passage(turn, answer["text"])
                        corpus.add_example(_rejoin(item["question"]), best, "question")
            corpus.end_document()
    return corpus


def squad(files: Files, rng: random.Random, name: str, longest: int) -> Corpus:
    """Questions about paragraphs, in the format of SQuAD."""
    corpus = Corpus(name)
    for path in sorted(files):
        for article in json.loads(files[path])["data"]:
            for paragraph in article["paragraphs"]:
                context = paragraph["context"][:longest]
                passages = corpus.add_text("", context)
                for item in paragraph["qas"]:
                    for answer in item["answers"][:1]:
                        text = answer["text"][:100].casefold()
                        matches = [p for p in passages if text in corpus.texts[p].casefold()]
                        if matches:
                            best = _ranked_by_overlap(corpus, matches, item["question"])[0]
                            corpus.add_example(item["question"], best, "question")
            corpus.end_document()
    return corpus


def xquad(files: Files, rng: random.Random) -> Corpus:
    return squad(files, rng, "xquad", 4_000)


def covidqa(files: Files, rng: random.Random) -> Corpus:
    return squad(files, rng, "covidqa", 60_000)


def medquad(files: Files, rng: random.Random) -> Corpus:
    """Medical questions with long answers."""
    corpus = Corpus("medquad")
    names = sorted(files)
    rng.shuffle(names)
    for name in names[:4_500]:
        root = ElementTree.fromstring(files[name])  # noqa: S314
        for pair in root.iter("QAPair"):
            question = (pair.findtext("Question") or "").replace("(are)", "").strip()
            answer = (pair.findtext("Answer") or "")[:1_500]
            passages = corpus.add_text("", answer)
            answers = [p for p in passages[:5] if not corpus.texts[p].endswith("?")]
            if answers and question:
                best = corpus.best_passage(answers, question)
                corpus.add_example(" ".join(question.split()), best, "answer")
        corpus.end_document()
    corpus.examples = rng.sample(corpus.examples, min(7_000, len(corpus.examples)))
    return corpus


# -- dialogues ---------------------------------------------------------------------


def _ask_about_turn(
    corpus: Corpus, passages: range, name: str, text: str, rng: random.Random, topic: str = ""
) -> None:
    """Add rule-made queries about a turn of a dialogue."""
    person = Person(name)
    for question in questions(text, person, rng):
        if len(content_words(question)) >= 2 + (not person.is_self):
            corpus.add_example(question, corpus.best_passage(passages, question), "rule")
    if topic:
        for passage in passages:
            for request in requests(corpus.texts[passage], topic, person, rng):
                corpus.add_example(request, passage, "request")
    if rng.random() < 0.03:
        passage = rng.choice(passages)
        corpus.add_example(keywords(corpus.texts[passage], rng), passage, "keywords")


def _last_question(text: str) -> str:
    """The last question in a text, or nothing."""
    sentences = [s.strip() for s in _SENTENCE.split(text) if s.strip()]
    if sentences and sentences[-1].endswith("?") and len(content_words(sentences[-1])) >= 3:
        return sentences[-1]
    return ""


_TOPICS = "movies movie films film music song songs band team players player books game games show"


def selfdialogue(files: Files, rng: random.Random) -> Corpus:
    """Small talk about films, music and sports, without names."""
    corpus = Corpus("selfdialogue")
    for name in sorted(files):
        for row in csv.DictReader(io.StringIO(files[name].decode("utf-8", "replace"))):
            turns = []
            for number in range(1, 30):
                text = row.get(f"Answer.sentence{number}")
                if text:
                    turns.append(text)
            if len(turns) >= 6 and rng.random() < 0.5:
                _add_small_talk(corpus, turns, rng)
    return corpus


def _add_small_talk(corpus: Corpus, turns: list[str], rng: random.Random) -> None:
    authors = rng.sample(NAMES, 2)
    if rng.random() < 0.4:
        authors = ["user", "assistant"]
    question = ""
    for number, raw in enumerate(turns):
        text = re.sub(r"\bi\b", "I", raw)
        author = authors[number % 2]
        if author == "user" and rng.random() < 0.5:
            text = _inside_a_request(text, rng)
        passages = corpus.add_text(author, text)
        if not passages:
            continue
        if question and rng.random() < 0.7 and len(content_words(text)) >= 4:
            corpus.add_example(question, corpus.best_passage(passages, question), "reply")
        question = _last_question(text)
        topics = [t for t in _TOPICS.split() if re.search(rf"\b{t}\b", text)]
        if author != "assistant":
            _ask_about_turn(corpus, passages, author, text, rng, (topics or [""])[0])
        elif rng.random() < 0.04:
            words = keywords(text, rng)
            if words:
                opening = rng.choice(["What did you say about", "What did you tell me about"])
                corpus.add_example(f"{opening} {words}?", passages[0], "about")
    corpus.end_document()


_OPENINGS = (
    "Can you help me with something?",
    "I'm looking for some tips.",
    "I need some advice on this.",
    "Can you recommend something similar?",
    "What do you think I should do next?",
    "I'm trying to plan ahead and could use some ideas.",
    "Could you give me a few suggestions?",
    "I was wondering if you could explain how that works.",
)


def _inside_a_request(text: str, rng: random.Random) -> str:
    """People mention facts about themselves when they ask an assistant for something else."""
    opening = rng.choice(_OPENINGS)
    remark = rng.choice(["By the way, ", "", "", "Oh, and "])
    if rng.random() < 0.6:
        return f"{opening} {remark}{text}"
    return f"{text} {opening}"


_SPEAKER = re.compile(r"^\*\*([^*:]+):\*\*\s*(?:\\\[[\d:.]+\\\]\s*)?", re.MULTILINE)


def changelog(files: Files, rng: random.Random) -> Corpus:
    """Podcasts: long conversations among people with names."""
    corpus = Corpus("changelog")
    for name in sorted(files):
        parts = _SPEAKER.split(files[name].decode("utf-8", "replace"))
        question = ""
        for author, raw in zip(parts[1::2], parts[2::2], strict=True):
            text = html.unescape(re.sub(r"\[([^\]]*)\]\([^)]*\)|\\|\*\*", r"\1", raw))
            passages = corpus.add_text(author, text[:2_500])
            if not passages:
                continue
            if question and len(content_words(text)) >= 5:
                best = corpus.best_passage(passages[:3], question)
                corpus.add_example(question, best, "reply")
            question = _last_question(text)
            _ask_about_podcast(corpus, passages, author, rng)
        corpus.end_document()
    limits = {"reply": 10_000, "rule": 18_000, "about": 4_000, "keywords": 3_000}
    corpus.examples = _limit_kinds(corpus.examples, limits, rng)
    return corpus


def _ask_about_podcast(corpus: Corpus, passages: range, author: str, rng: random.Random) -> None:
    name = rng.choice([author, author.split(" ")[0]])
    if rng.random() < 0.45:
        name = "user"
        for passage in passages:
            corpus.authors[passage] = "user"
            if rng.random() < 0.4 and len(corpus.texts[passage]) < LONGEST_PASSAGE:
                corpus.texts[passage] = _inside_a_request(corpus.texts[passage], rng)
    for passage in passages:
        _ask_about_turn(corpus, range(passage, passage + 1), name, corpus.texts[passage], rng)
    passage = rng.choice(passages)
    words = keywords(corpus.texts[passage], rng)
    if words and name != "user" and rng.random() < 0.2:
        corpus.add_example(f"What did {name} say about {words}?", passage, "about")


def _limit_kinds(
    examples: list[tuple[str, int, str]], limits: dict[str, int], rng: random.Random
) -> list[tuple[str, int, str]]:
    result = []
    for kind in sorted({e[2] for e in examples}):
        those = [e for e in examples if e[2] == kind]
        result += rng.sample(those, min(len(those), limits.get(kind, len(those))))
    return result


def sgd(files: Files, rng: random.Random) -> Corpus:
    """Dialogues with an assistant that books things, with what the user asked for in each turn."""
    corpus = Corpus("sgd")
    services = {}
    for service in json.loads(files["train/schema.json"]):
        slots = {s["name"]: s["description"] for s in service["slots"]}
        services[service["service_name"]] = (service["description"], slots)
    for name in sorted(files):
        if "dialogues" in name:
            for dialogue in json.loads(files[name]):
                if rng.random() < 0.5:
                    _add_booking(corpus, dialogue, services, rng)
    limits = {"slot": 9_000, "request": 5_000, "reply": 6_000, "rule": 3_000}
    corpus.examples = _limit_kinds(corpus.examples, limits, rng)
    return corpus


def _add_booking(
    corpus: Corpus, dialogue: Any, services: dict[str, Any], rng: random.Random
) -> None:
    user = rng.choice([*NAMES, *["user"] * 40])
    question = ""
    for turn in dialogue["turns"]:
        is_user = turn["speaker"] == "USER"
        passages = corpus.add_text(user if is_user else "assistant", turn["utterance"])
        if not passages:
            continue
        if question and rng.random() < 0.3:
            corpus.add_example(question, passages[0], "reply")
        question = _last_question(turn["utterance"])
        if is_user:
            _ask_about_turn(corpus, passages, user, turn["utterance"], rng)
            for frame in turn["frames"]:
                _ask_about_slots(corpus, passages, Person(user), frame, services, rng)
    corpus.end_document()


_SLOT_QUESTIONS = (
    "What {slot} {did} ask for?",
    "Which {slot} {did} want?",
    "{slot} {did} choose?",
    "What was the {slot}?",
)
_SLOT_REQUESTS = (
    "{service} for {whom} again.",
    "Please {service} as {who} usually would.",
    "How should you {service} for {whom}?",
    "Can you help {whom} {service}?",
)


def _ask_about_slots(
    corpus: Corpus,
    passages: range,
    person: Person,
    frame: Any,
    services: dict[str, Any],
    rng: random.Random,
) -> None:
    service, slots = services[frame["service"]]
    details = [a for a in frame["actions"] if a["act"] == "INFORM" and a["slot"] in slots]
    for action in details[:2]:
        slot = rng.choice([slots[action["slot"]], action["slot"].replace("_", " ")])
        slot = slot[0].lower() + slot[1:].rstrip(".")
        passage = corpus.best_passage(passages, " ".join(action["values"]))
        query = rng.choice(_SLOT_QUESTIONS).format(slot=slot, did=person.did())
        corpus.add_example(query[0].upper() + query[1:], passage, "slot")
    if len(details) >= 2 and rng.random() < 0.5:
        who, whom = person.name, person.name
        if person.is_self:
            who, whom = "I", "me"
        text = service[0].lower() + service[1:].rstrip(".")
        query = rng.choice(_SLOT_REQUESTS).format(service=text, who=who, whom=whom)
        corpus.add_example(query[0].upper() + query[1:], passages[0], "request")


# -- documentation -----------------------------------------------------------------


_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_CODE = re.compile(r"```.*?```|~~~.*?~~~|<!--.*?-->", re.DOTALL)
_LIQUID = re.compile(r"\{%-? data variables\.(?:\w+\.)*\w+ -?%\}")
_TAGS = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]+>|^\s*\|.*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def markdown(files: Files, rng: random.Random, name: str, count: int) -> Corpus:
    """Headings and the paragraphs below them."""
    corpus = Corpus(name)
    for path in sorted(files):
        text = files[path].decode("utf-8", "replace")
        front = _FRONT_MATTER.match(text)
        title = ""
        if front:
            line = re.search(r"^title: *['\"]?(.*?)['\"]?$", front[1], re.MULTILINE)
            if line:
                title = _plain(line[1])
            text = text[front.end() :]
        parts = re.split(r"^#{1,5} +(.+)$", _CODE.sub("", text), flags=re.MULTILINE)
        headings = [title, *(_plain(h) for h in parts[1::2])]
        for heading, body in zip(headings, parts[::2], strict=True):
            _add_section(corpus, title, heading, _plain(body), rng)
        corpus.end_document()
    corpus.examples = rng.sample(corpus.examples, min(count, len(corpus.examples)))
    return corpus


def _plain(text: str) -> str:
    text = _TAGS.sub("", _LIQUID.sub("GitHub", text))
    text = re.sub(r"\s*\{#[^}]*\}", "", text)
    return html.unescape(_LINK.sub(r"\1", text)).replace("`", "").replace("**", "").strip()


def _add_section(corpus: Corpus, title: str, heading: str, body: str, rng: random.Random) -> None:
    passages = corpus.add_text("", body[:2_000])
    if not passages or not content_words(heading):
        return
    query = heading
    if heading != title and title and rng.random() < 0.6:
        query = rng.choice([f"{title}: {heading}", f"{heading} {title}", f"{heading} in {title}"])
    if rng.random() < 0.25:
        query = rng.choice(["what is {}", "how does {} work", "{}?"]).format(query.lower())
    candidates = [p for p in passages[:3] if not corpus.texts[p].endswith("?")]
    if not candidates:
        return
    corpus.add_example(query, corpus.best_passage(candidates, query), "heading")
    if len(passages) > 1 and rng.random() < 0.2:
        passage = rng.choice(passages)
        corpus.add_example(keywords(corpus.texts[passage], rng), passage, "keywords")


def kubernetes(files: Files, rng: random.Random) -> Corpus:
    return markdown(files, rng, "kubernetes", 13_000)


def githubdocs(files: Files, rng: random.Random) -> Corpus:
    return markdown(files, rng, "githubdocs", 13_000)


def collegesuccess(files: Files, rng: random.Random) -> Corpus:
    """Textbooks: titles of sections and the paragraphs below them."""
    corpus = Corpus("collegesuccess")
    space = "{http://cnx.rice.edu/cnxml}"
    for path in sorted(files):
        root = ElementTree.fromstring(files[path])  # noqa: S314
        title = root.findtext(f"{space}title") or ""
        for section in root.iter(f"{space}section"):
            heading = title
            element = section.find(f"{space}title")
            if element is not None:
                heading = "".join(element.itertext())
            for paragraph in section.findall(f"{space}para"):
                body = " ".join("".join(paragraph.itertext()).split())
                _add_section(corpus, title, heading, body, rng)
        corpus.end_document()
    return corpus


PARSERS: dict[str, Callable[[Files, random.Random], Corpus]] = {
    parser.__name__: parser
    for parser in (
        *(qmsum, friendsqa, molweni, xquad, covidqa, medquad),
        *(sgd, selfdialogue, changelog, kubernetes, githubdocs, collegesuccess),
    )
}


def parse(name: str, files: Files, seed: int) -> Corpus:
    return PARSERS[name](files, random.Random(f"{seed} {name}"))  # noqa: S311
