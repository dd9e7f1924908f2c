"""Words: their stems, which of them carry the topic of a query, and which are similar.

A stemmer reduces a word to the stem that its inflected forms share. The script decides which one is
used. For Latin letters it is that of the language of the query, or English. The files of the
languages list irregular forms ("went", "bought", "children").
"""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from recollect.configuration import expand_path
from recollect.errors import InvalidInput
from recollect.language.languages import ENGLISH, Language
from recollect.language.queries.query_tree import Node, Word, words
from recollect.language.symbols import symbol_name
from recollect.language.text import bare_word, has_token, is_unspaced, tokens
from recollect.language.when import formats_in
from recollect.settings import SYNONYMS

# -- stems ---

_LATIN = "latin"
# The first and last letter of a script, and the language whose stemmer is used for it.
_SCRIPTS = (
    ("a", "z", _LATIN),
    ("\u00df", "\u024f", _LATIN),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0590", "\u05ff", "yiddish"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
_LONGEST_WORD = 64
_MIN_PREFIX_CHARACTERS = 3  # too many words begin with fewer
_local = threading.local()


def stem(word: str, language: Language = ENGLISH) -> str:
    """The stem of a lower-case word. Words with digits or of other scripts stay as they are."""
    result = _stem(language.base_forms.get(word, word), language)
    if language is ENGLISH:
        return one_spelling(result)
    base = base_of_inflected(word, result, language)
    if base is None:
        return result
    return _stem(base, language)


def stems(words: Iterable[str]) -> list[str]:
    """The English stems of many words, in half the time."""
    stem_word = _stemmer(ENGLISH.stemmer).stemWord
    irregular = ENGLISH.base_forms
    results: list[str] = []
    for word in words:
        if word.isascii() and word.isalpha() and len(word) <= _LONGEST_WORD:
            result = one_spelling(stem_word(irregular.get(word, word)))
        else:
            result = stem(word)
        results.append(result)
    return results


def related_words(word: str, language: Language) -> tuple[set[str], set[str]]:
    """Words that may have the same stem as a word, and prefixes of further ones.

    A vocabulary has only English stems. In other languages, it is searched for these instead.
    """
    base = language.base_forms.get(word, word)
    base = base_of_inflected(word, _stem(base, language), language) or base
    words = {word, base, *language.irregular_forms_of.get(base, ())}
    roots = {each: _stem(each, language) for each in words}
    prefixes = {commonprefix(pair) for pair in roots.items()}  # noqa: RUF071 (not of paths)
    for root in set(roots.values()):  # huis and huiz for the stem of huizen
        spellings = {root}
        for pattern, replacement in language.fields.pairs("stem_spellings"):
            spellings |= {re.sub(pattern, replacement, each) for each in spellings}
        prefixes |= spellings
    return words, {prefix for prefix in prefixes if len(prefix) >= _MIN_PREFIX_CHARACTERS}


# Words without a vowel, or with one at the end. The stemmer keeps the "s" of their plurals.
_ACRONYMS = re.compile("(?:[bcdfghjklmnpqrstvwxz]{2,5}|[bcdfghjklmnpqrstvwxz]{2,4}[aiou])s")
_MIN_LETTERS = 5  # "iris" is no "iriz"


def one_spelling(root: str) -> str:
    """The stem of American spellings for that of British ones, and of an acronym for its plural."""
    if root.endswith(("is", "ys")) and len(root) >= _MIN_LETTERS:
        return f"{root[:-1]}z"
    if root.endswith("s"):
        is_plural = _ACRONYMS.fullmatch(root) and root not in acronyms_in_s()
        return root[:-1] if is_plural else root
    british, american = british_stems()
    return british.sub(lambda match: american[match[0]], root)


@cache
def british_stems() -> tuple[re.Pattern[str], dict[str, str]]:
    """A pattern for British stems and beginnings of stems, and the American one of each."""
    words, beginnings = (ENGLISH.fields.groups(name) for name in ("spellings", "beginnings"))
    stem_word = _stemmer(ENGLISH.stemmer).stemWord
    stems = {stem_word(british): stem_word(american) for british, american in words}
    stems = {british: american for british, american in stems.items() if british != american}
    pattern = rf"\A(?:{'|'.join(dict(beginnings))}|(?:{'|'.join(stems)})\Z)"
    return re.compile(pattern), stems | dict(beginnings)


@cache
def acronyms_in_s() -> frozenset[str]:
    return frozenset(ENGLISH.fields.words("acronyms_in_s"))


def base_of_inflected(word: str, root: str, language: Language) -> str | None:
    """The base form of an irregular form that has an ending: gehen for gingen, by way of ging."""
    if root not in language.base_forms:
        return None
    if word.removeprefix(root) not in language.fields.words("irregular_endings"):  # ginger
        return None
    return language.base_forms[root]


def _stem(word: str, language: Language) -> str:
    stemmer = stemmer_of_script(word[:1])
    if stemmer == _LATIN:
        stemmer = language.stemmer
        for ending, replacement in language.accent_endings:
            if word.endswith(ending):
                word = word.removesuffix(ending) + replacement
    if not stemmer or len(word) > _LONGEST_WORD or not word.isalpha():
        return word
    result: str = _stemmer(stemmer).stemWord(word)
    return result or word


@cache
def stemmer_of_script(letter: str) -> str:
    for first, last, name in _SCRIPTS:
        if first <= letter <= last:
            return name
    return ""


def _stemmer(name: str) -> Any:
    """One stemmer per thread, since stemmers are not thread-safe."""
    stemmers: dict[str, Any] = _local.__dict__
    if name not in stemmers:
        import Stemmer  # type: ignore[import-not-found]

        stemmers[name] = Stemmer.Stemmer(name, 0)  # its cache takes longer than stemming
    return stemmers[name]


# -- the words of a topic ---

_OPERATOR_WORDS = ("AND", "OR", "NOT", "NEAR")
_CONTRACTIONS = frozenset(["s", "re", "ve", "ll", "d", "m", "t"])


def content_words(node: Node, language: Language = ENGLISH) -> tuple[Word, ...]:
    """The words of a plain query without stop words; all words if only stop words are left.

    Function words that are joined to another word are cut off: `l'avion` is `avion`.
    """
    all_words = words(node)
    is_upper_case = all(word.text.upper() == word.text for word in all_words)
    content = [
        without_joined_words(word, language) if language.joiners else word
        for word in all_words
        if not is_stop_word(word.text, is_upper_case, language)
    ]
    return tuple(content or all_words)


def is_stop_word(text: str, query_is_upper_case: bool, language: Language) -> bool:
    if text in _OPERATOR_WORDS:  # of a query that was not valid
        return True
    if len(text) > 1 and text.isupper() and not query_is_upper_case:  # IT, US, WHO
        return False
    bare = bare_word(text)
    parts = language.joined_parts(bare) if language.joiners else [bare]
    if bare in language.stop_words or language.stop_words.issuperset(parts):
        return True
    head, _, tail = bare.partition("'")
    heads = {head, head.removesuffix("n") if tail == "t" else head}  # can't, isn't
    return tail in _CONTRACTIONS and not heads.isdisjoint(language.stop_words)


def without_joined_words(word: Word, language: Language) -> Word:
    """The word without the function words at its beginning and end."""
    parts = language.joined_parts(bare_word(word.text))
    if len(parts) == 1:
        return word
    while parts and parts[0] in language.stop_words:
        parts.pop(0)
    while parts and parts[-1] in language.stop_words:
        parts.pop()
    text = "-".join(parts)
    if not has_token(text):
        return word
    return Word(text, word.prefix)


_MIN_NAME = 3  # letters
_SENTENCE_ENDS = (".", "?", "!", ":")


def names_in(text: str) -> set[str]:
    """The words of names in an English text. English capitalizes little else in a sentence."""
    words = text.split()
    if 2 * sum(word[0].isupper() for word in words) > len(words):
        return set()  # a title, in which everything is capitalized
    names: set[str] = set()
    for previous, word in pairwise(words):
        bare = word.lstrip("\"“‘'(")
        if bare[:1].isupper() and not previous.endswith(_SENTENCE_ENDS):
            names.update(name for name in tokens(bare) if len(name) >= _MIN_NAME)
    return names


# -- similar words ---

MIN_CHARACTERS = 5
"""Shorter words have too many neighbours to guess which one was meant."""
MAX_CHARACTERS = 24
"""Longer words are rarely words, and the number of neighbours grows with the length."""


def may_be_misspelled(word: str) -> bool:
    """Whether a word may be a misspelling of one of its neighbours, judging by its letters."""
    if symbol_name(word):
        return False
    return MIN_CHARACTERS <= len(word) <= MAX_CHARACTERS and word.isascii() and word.isalpha()


def neighbours(word: str) -> set[str]:
    """All words that differ from this one by one letter added, removed, replaced or swapped.

    Also those in which one letter is doubled and another one is not.
    """
    words: set[str] = set()
    for index in range(len(word) + 1):
        head, tail = word[:index], word[index:]
        words |= {head + letter + tail for letter in ascii_lowercase}
        words |= {head + letter + tail[1:] for letter in ascii_lowercase if tail}
        words |= {head + tail[1:], head + tail[1:2] + tail[:1] + tail[2:]}
        if tail[:1] == tail[1:2]:
            single = head + tail[1:]
            words |= {single[: place + 1] + single[place:] for place in range(len(single))}
    return words - {word}


def closest(name: str, names: Iterable[str]) -> list[str]:
    """All names, the most similar ones first. The others keep their order."""
    names = list(dict.fromkeys(names))
    by_casefold: dict[str, list[str]] = {}
    for each in names:
        by_casefold.setdefault(each.casefold(), []).append(each)
    matches = difflib.get_close_matches(name.casefold(), by_casefold, n=5, cutoff=0.5)
    similar = [each for match in matches for each in by_casefold[match]]
    longer = [each for each in names if name.casefold() in each.casefold()]
    return list(dict.fromkeys([*similar, *longer, *names]))


# -- words as people write them ---

_WORD = re.compile(r"\w+")
_MOST_CHARACTERS = 20_000  # of a text


def as_written(name: str, texts: Iterable[str]) -> str:
    """A word as the first text that has it writes it, in lower case; itself if none has it.

    The index has no accents: ruckenschmerzen may be rückenschmerzen.
    """
    if not name.isalpha():
        return name
    for text in texts:
        if text.isascii():
            continue
        for match in _WORD.finditer(text[:_MOST_CHARACTERS]):
            if tokens(match[0]) == [name]:
                return match[0].lower()
    return name


def join_pairs(names: Sequence[str], text: str) -> list[str]:
    """The names of terms, without the overlap of those that follow each other in a text.

    Text in a script without spaces is indexed by pairs of characters: 非同 and 同期 are 非同期.
    """
    joined: list[str] = []
    for name in names:
        longer = ""
        if joined and name and is_unspaced(name) and joined[-1][-1] == name[0]:
            longer = joined[-1] + name[1:]
        if longer and longer in text:
            joined[-1] = longer
        else:
            joined.append(name)
    return joined


# -- other formats ---
# wifi and Wi-Fi, `EventLoop` and event_loop, 1249 and 1,249. What is the same word in every text
# has one form already: in the index (Müller and muller, sœur and soeur), or by its stem (colour
# and color, PDF and PDFs).

Form = tuple[str, ...]
"""Consecutive words, as they are indexed; usually just one."""

_FILE_AND_LINE = re.compile(r"\W*+(?P<file>[^:]*\w\.[A-Za-z]\w*):(?P<line>[0-9]+)(?::[0-9]+)?\W*")
_PACKAGE_AND_VERSION = re.compile(r"\W*+[\w./-]++(?:[=~<>!]=|@)(?P<version>v?[0-9]+(?:\.\w+)+)\W*")
_PART_OF_CAMEL_CASE = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_LETTERS_OR_DIGITS = re.compile("[a-z]+|[0-9]+")
_GROUP = 3  # digits
_MAX_DIGITS = 15
_LONG_VOWEL = "ー"
_MIN_KATAKANA = 3


def other_formats(word: str) -> list[Form]:
    """The other formats of a word as it was typed. Those that do not exist do no harm."""
    form = tuple(tokens(word))
    if not form:
        return []
    place = _FILE_AND_LINE.fullmatch(word)
    if place is not None:  # app.py:12 is "app.py", line 12
        return [(*tokens(place["file"]), "line", place["line"])]
    if form[-1] == _LONG_VOWEL and len(form) > _MIN_KATAKANA:  # サーバー (server) is サーバ
        return [form[:-1]]
    formats = formats_in(word)
    first, *others = form
    if first.isdigit() and others and len(first) <= _GROUP:  # 2.14.0 is v2.14.0
        formats.append((f"v{first}", *others))
    if all(part.isascii() and part.isdigit() for part in form):
        formats += _numbers(form)
    elif first[0] == "v" and first[1:].isdigit():
        formats.append((first[1:], *others))
    elif word.isascii() and not symbol_name(first):
        formats += [
            ("".join(form),),  # get_user is getUser, and B-204 is B204
            tuple(map(str.lower, _PART_OF_CAMEL_CASE.findall(word))),  # EventLoop is event_loop
            tuple(_LETTERS_OR_DIGITS.findall(" ".join(form))),  # 2.5mg is 2.5 mg
        ]
    return [other for other in dict.fromkeys(formats) if other != form]


def _numbers(form: Form) -> list[Form]:
    """1249.50 is also 1,249.50, 1.249,50 and 1 249,50: in words, 1 249 50. And the reverse."""
    first, *others = form
    if _GROUP < len(first) <= _MAX_DIGITS and first[0] != "0":
        return [(*tokens(f"{int(first):,}"), *others)]
    groups = [first]
    while others and len(others[0]) == _GROUP:
        groups.append(others.pop(0))
    if len(groups) == 1 or len(others) > 1:
        return []
    return [("".join(groups), *others)]


def parts_that_stand_alone(word: str) -> list[str]:
    """The file of `app.py:12`, and the version of `numpy==2.0.25` or `react@18.2.0`."""
    place, pin = _FILE_AND_LINE.fullmatch(word), _PACKAGE_AND_VERSION.fullmatch(word)
    return [match[1] for match in (place, pin) if match is not None]


def separate_words(word: str) -> list[Form]:
    """A compound as two words, in singular and plural, if it is also written like that."""
    parts = hyphenated().get(word) or hyphenated().get(word.removesuffix("s"))
    if parts is None:
        return []
    first, last = parts
    return [(first, last), (first, f"{last}s")]


def joined_word(text: str) -> str:
    """A hyphenated word as one word, if it is also written like that; else empty."""
    word = text.lower().replace("-", "")
    return word if "-" in text and separate_words(word) else ""


@cache
def hyphenated() -> dict[str, list[str]]:
    names = ENGLISH.fields.words("hyphenated")
    return {name.replace("-", ""): name.split("-") for name in names}


# -- synonyms ---
# Of technical terms, which the built-in embedding model does not relate. The setting `synonyms`
# names a file with more.

FILE = Path(__file__).with_name("synonyms.txt")


def synonyms(words: Sequence[str]) -> list[list[Form]]:
    """For each word, the others of the groups that it is in. Raises InvalidInput."""
    version = synonyms_version() if words else None
    groups, own_groups = _groups(FILE), _groups(*version) if version else {}
    return [groups.get((word,), []) + own_groups.get((word,), []) for word in words]


def synonyms_version() -> tuple[Path, int] | None:
    """The file that the user added, and when it was changed. Raises InvalidInput."""
    name = SYNONYMS.get()
    if not name:
        return None
    path = expand_path(name)
    try:
        return path, path.stat().st_mtime_ns
    except OSError as error:
        raise InvalidInput(f"The file of synonyms cannot be read: {error}") from error


@lru_cache(maxsize=2)
def _groups(path: Path, modified_at: int = 0) -> dict[Form, list[Form]]:
    """The synonyms of every word in a file. `modified_at` is only part of the cache key."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The file of synonyms {path} cannot be read: {error}") from error
    groups: dict[Form, list[Form]] = {}
    for line in lines:
        phrases = [] if line.startswith("#") else [tuple(tokens(text)) for text in line.split(",")]
        phrases = [phrase for phrase in phrases if phrase]
        for phrase in phrases:
            groups.setdefault(phrase, []).extend(p for p in phrases if p != phrase)
    return groups
