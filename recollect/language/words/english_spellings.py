"""Words with several spellings in English: colour and color, organise and organize, wifi and Wi-Fi.

They are one word, so a search for either finds both. A spelling that does not exist does no harm,
because no message has it.
"""

from __future__ import annotations

from functools import lru_cache

# British, American. Words that begin with these: `favour` is also in "favourite".
_BEGINNINGS = """
    armour armor | behaviour behavior | candour candor | clamour clamor | colour color
    | demeanour demeanor | endeavour endeavor | favour favor | fervour fervor | flavour flavor
    | harbour harbor | honour honor | humour humor | labour labor | neighbour neighbor
    | odour odor | parlour parlor | rigour rigor | rumour rumor | saviour savior | savour savor
    | splendour splendor | tumour tumor | valour valor | vapour vapor | vigour vigor

    | calibre caliber | centre center | centred centered | centimetre centimeter | fibre fiber
    | kilometre kilometer | litre liter | lustre luster | manoeuvr maneuver | meagre meager
    | metre meter | millimetre millimeter | sombre somber | spectre specter | theatre theater

    | analogue analog | catalogue catalog | dialogue dialog
    | defence defense | licence license | offence offense | pretence pretense

    | cancelled canceled | cancelling canceling | counsellor counselor | fuelled fueled
    | jewellery jewelry | labelled labeled | labelling labeling | marvellous marvelous
    | modelled modeled | modelling modeling | travelled traveled | traveller traveler
    | travelling traveling | woollen woolen
    | enrolment enrollment | fulfilment fulfillment | instalment installment | skilful skillful

    | anaemi anemi | anaesthe anesthe | coeliac celiac | diarrhoea diarrhea | foetus fetus
    | gynaecolog gynecolog | leukaemi leukemi | oestrogen estrogen | orthopaedic orthopedic
    | paediatric pediatric

    | ageing aging | aluminium aluminum | artefact artifact | cosy cozy | doughnut donut
    | grey gray | judgement judgment | moustache mustache | mum mom | omelette omelet
    | plough plow | programme program | pyjama pajama | sceptic skeptic | tyre tire
    | yoghurt yogurt
"""
_PAIRS = [pair.split() for pair in _BEGINNINGS.split("|")]
_OTHERS = {british: american for british, american in _PAIRS}
_OTHERS |= {american: british for british, american in _PAIRS}
_LENGTHS = sorted(set(map(len, _OTHERS)), reverse=True)
# Written as one word, with a hyphen, or as two words. Not those whose two words usually mean
# something else, such as "to do".
_HYPHENATED = """
    check-in co-founder co-worker data-base data-set e-book e-commerce e-mail e-reader file-name
    follow-up full-time health-care hi-fi lo-fi log-in non-profit open-source part-time pre-order
    real-time sci-fi screen-shot sign-up smart-phone t-shirt time-zone user-name web-site well-being
    wi-fi x-ray
"""
_PARTS = {name.replace("-", ""): tuple(name.split("-")) for name in _HYPHENATED.split()}
# "ise" and "ize", "isation" and "ization", "yse" and "yze".
_ENDINGS = {
    f"{vowel}{letter}{rest}": f"{vowel}{other}{rest}"
    for vowel in "iy"
    for letter, other in ("sz", "zs")
    for rest in ("e", "es", "ed", "er", "ers", "ing", "ation", "ations")
}
_MIN_LETTERS_BEFORE = 3  # "rise" and "size" have one spelling


@lru_cache(maxsize=4_096)
def other_spelling(word: str) -> str:
    """The British spelling of an American word, or the reverse; empty if there is none."""
    for length in _LENGTHS:
        other = _OTHERS.get(word[:length])
        if other is not None:
            return other + word[length:]
    for ending, other_ending in _ENDINGS.items():
        beginning = word.removesuffix(ending)
        if _MIN_LETTERS_BEFORE <= len(beginning) < len(word):
            return beginning + other_ending
    return ""


def separate_words(word: str) -> list[tuple[str, str]]:
    """A compound as two words, in singular and plural, if it is also written like that."""
    parts = _PARTS.get(word) or _PARTS.get(word.removesuffix("s"))
    if parts is None:
        return []
    first, last = parts
    return [(first, last), (first, f"{last}s")]


def joined_word(text: str) -> str:
    """A hyphenated word as one word, if it is also written like that; else empty."""
    word = text.lower().replace("-", "")
    if "-" not in text or not separate_words(word):
        return ""
    return word
