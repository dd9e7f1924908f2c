"""Requests, replies and pleasantries: what a person's message does, by its first words."""

from __future__ import annotations

import re

from recollect.language.detection import unspaced_language
from recollect.memory.observe.cues import DECISION

_MAX_REPLY_LENGTH = 140
_MAX_DECISION_LENGTH = 70
_MAX_CHOICE_WORDS = 5
_MAX_CHOICE_LENGTH = 40
_MAX_UNSPACED_CHOICE_LENGTH = 14
REQUEST = re.compile(
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
    r"(?:(?:what|how|why|when|where|who|which|is|are|do|does|did|can|could|should|would|will|write"
    r"|create|make|give"
    r"|show|explain|list"
    r"|describe|generate|find|summari[sz]e|translate|fix|add|implement|change|update|remove|run"
    r"|check|review"
    r"|refactor|suggest|recommend"
    r"|compare|tell|help|look|read|use|build|test|commit|rewrite|draft|plan|act|provide"
    r"|bitte|kannst|könntest|wie|was|warum|wieso|weshalb|woran|welche[rsmn]?|wo|wer|wann|schreib\w*"
    r"|zeig\w*|erklär\w*|füge|benenne"
    r"|peux|pouvez|pourrais|comment|pourquoi|quel(?:le)?s?|où|quand|est-ce|qu'est-ce|explique\w*"
    r"|ajoute|renomme|corrige|montre"
    r"|puedes|podrías|cómo|qué|por qué|cuál(?:es)?|cuándo|cuánt[oa]s?|dónde|explica|añade|cambia"
    r"|muestra|corrige)\b"
    r"|为什么|怎么|如何|什么|哪|请|帮|给|把)",
    re.IGNORECASE,
)
_ASKS_AT_THE_END = re.compile(r"(?:ですか|ますか|でしょうか|ください|吗|呢)[。？?]*$")
_ASKS_CAUSE = re.compile(
    r"\b(?:why|how come|what(?:'s| is| happened| went| made| caused)"
    r"|warum|wieso|weshalb|woran|pourquoi|d'où|por qué)\b|为什么|为何|原因|なぜ|どうして",
    re.IGNORECASE,
)
_PLEASANTRY = re.compile(
    r"^(?:thanks?(?: you)?|thx|hello|hi|hey|good (?:morning|evening|night|afternoon)|bye"
    r"|danke|merci|gracias|谢谢|多谢|ありがとう)(?:\W|$)",
    re.IGNORECASE,
)
TRIVIAL = re.compile(
    r"^(?:ok(?:ay)?|yes(?:,? please)?|yep|yeah|no|nope|sure|thanks?(?: you)?|thx|great|perfect|cool"
    r"|nice|good|fine|right|alright|agreed|ouch|sorry|oops|whoops|my bad|apologies"
    r"|how are you(?: doing)?(?: today)?|what'?s up|what time is it|are you (?:there|done|ready)"
    r"|still there|nice weather(?: today)?|git status"
    r"|continue|go on|go ahead|proceed|ship it|sounds right|makes sense"
    r"|do it|do that|please (?:continue|proceed|do)|keep going|next|done|hello|hi|hey"
    r"|good (?:morning|evening|night|afternoon)|bye|/\w+|lgtm|y|n|k|hm+|wow|lol"
    r"|later(?: then)?|fix(?: it)?|good catch"
    r"|got it|sounds good|that(?:'s| is) (?:great|all|fine|it)|ja|nein|danke|weiter|gut|genau|passt"
    r"|mach das|so machen wir (?:es|das)|oui|non|merci|d'accord|parfait|vas-y|allez"
    r"|sí|si|no|vale|gracias|de acuerdo|perfecto|hazlo|adelante"
    r"|entschuldigung|désolée?|pardon|perdón|对不起|抱歉|すみません|ごめん(?:なさい)?"
    r"|继续|好的?|好吧|可以|行|谢谢|はい|いいえ|お願いします|わかりました|ありがとう(?:ございます)?|네)"
    r"(?:[\s,.!、，]+(?:ok(?:ay)?|yes|please|thanks?|thank you|so much|very much|great|go|go ahead"
    r"|do it|fix|fix it|set it|ship it|continue|then"
    r"|there|claude|sir|bitte|so machen wir (?:es|das)|por favor|s'il te plaît"
    r"|man|all|again|today|claude))*[\s.!?…。！]*$",
    re.IGNORECASE,
)
_ACCEPTS = re.compile(
    r"^(?:(?:ok(?:ay)?|yes|yep|yeah|sure|right|alright|fine|good|agreed|ah|oh|ouch|lol|wow"
    r"|nice|cool|great|perfect|then|makes sense"
    r"|sounds (?:good|right|fine)|do (?:it|that|this)|go (?:ahead|with|for)|ship it|keep|sure"
    r"|gut|gern|dann|ja|genau|einverstanden|also|passt|in ordnung"
    r"|d'accord|oui|bon|allez|va pour|entendu|ah|alors|parfait"
    r"|vale|sí|de acuerdo|bien|pues|perfecto|entonces|claro|esa?)(?:[\s,.!:;]|$)"
    r"|好|可以|行|那就|那么|嗯|はい|では|それでは|わかりました|了解|やっぱり|じゃあ)",
    re.IGNORECASE,
)
_CHOICE_END = re.compile(
    r"\b(?:then|it is|it stays|instead|please|alors|dann|bitte|entonces)[.!]*$", re.IGNORECASE
)
_QUESTION = re.compile(r"[?？]|(?:ですか|ますか|でしょうか|吗|呢)[。\s]*$")
_OFFER = re.compile(
    r"\b(?:would|could|should|can|suggest|propose|recommend|options?|either|or|alternatively"
    r"|könnte|würde|wäre|schlage|vorschlagen|oder|propose|pourrait|suffi\w*|ou|sinon"
    r"|propongo|podría|sería|o bien|recomiendo)\b"
    r"|建议|可以|更合适|不如|或者|ましょう|できます|おすすめ|なら",
    re.IGNORECASE,
)
# Words that refer to what was said before.
_ANAPHOR = re.compile(
    r"\b(?:it|that|those|these|them|this|es|das|diese[nrms]?|ça|cela|eso|esto|lo)\b|それ|这个|那个",
    re.IGNORECASE,
)
_CONTEXT_WORD = re.compile(
    r"[\"“«]|(?:it|its|this|that|these|those|they|their|there|here|he|she|both|yes|no|es|das|dies\w*|er|sie|ja"
    r"|il|elle|ils|elles|ça|cela|c'est|oui|eso|esto|ello|sí)\b|[它这那]|それ|これ|はい",
    re.IGNORECASE,
)
_NEW_TOPIC = re.compile(
    r"^(?:now|next|also|and|but|what|how|why|another|jetzt|nun|außerdem|maintenant|ensuite|aussi"
    r"|ahora|también|además|现在|接下来|另外|次に|あと)\b",
    re.IGNORECASE,
)


def asks(text: str) -> bool:
    """Whether a text asks a question or for something to be done, by its first or last words."""
    if _ASKS.match(text):
        return True
    return not text.isascii() and _ASKS_AT_THE_END.search(text) is not None


def is_question(text: str) -> bool:
    return _QUESTION.search(text) is not None


def is_order(text: str) -> bool:
    """Whether a text asks for something to be done, politely or not, and not for an answer."""
    return REQUEST.match(text) is not None or (asks(text) and not is_question(text))


def needs_context(text: str) -> bool:
    """Whether a sentence begins with a word for something that was said before, or is a quote."""
    return _CONTEXT_WORD.match(text) is not None


def is_pleasantry(text: str) -> bool:
    return _PLEASANTRY.match(text.strip()) is not None


def is_reply(text: str, request: str, answer: str) -> bool:
    """Whether a message can only be understood as the reply to an answer to a request.

    It accepts an offer ("yes please", "ok, do it"), or it chooses ("the table then", "14").
    """
    text = text.strip()
    if not text or len(text) > _MAX_REPLY_LENGTH or _QUESTION.search(text) or "\n" in text:
        return False
    if _NEW_TOPIC.match(text) or is_pleasantry(text):
        return False
    if TRIVIAL.match(text) or _ACCEPTS.match(text):
        return True
    if not _is_choice(text):
        return False
    # The answer may be long, so it is searched last.
    is_offer = _QUESTION.search(request) or _ANAPHOR.search(text) or _OFFER.search(answer)
    return is_offer is not None


def _is_choice(text: str) -> bool:
    if len(text) <= _MAX_DECISION_LENGTH and DECISION.search(text):
        return True
    if asks(text):
        return False
    length = _MAX_CHOICE_LENGTH
    if unspaced_language(text) is not None:
        length = _MAX_UNSPACED_CHOICE_LENGTH
    is_short = len(text) <= length and len(text.split()) <= _MAX_CHOICE_WORDS
    return is_short or _CHOICE_END.search(text) is not None


def asks_cause(text: str) -> bool:
    """Whether a message asks why something happens."""
    return _ASKS_CAUSE.search(text) is not None


def strip_politeness(request: str) -> str:
    """A request without polite opening words."""
    match = _POLITE.match(request)
    if match is None:
        return request
    rest = request[match.end() :].rstrip("?")
    if len(rest) < 10:
        return request
    return rest
