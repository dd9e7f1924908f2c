"""English. `language.periods.english_rules` has the rules for its times."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "january jan",
        "february feb",
        "march mar",
        "april apr",
        "may",
        "june jun",
        "july jul",
        "august aug",
        "september sep sept",
        "october oct",
        "november nov",
        "december dec",
    ),
    weekdays=("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    numbers=(
        "one",
        "two couple",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    seasons={
        "spring": "spring",
        "summer": "summer",
        "autumn": "autumn",
        "fall": "autumn",
        "winter": "winter",
    },
    ordinals=("st", "nd", "rd", "th"),
)

ENGLISH = Language(
    code="en",
    name="English",
    stemmer="english",
    times=_TIMES,
    # Without `may`, which is also a month, and `like`, `said`, `id`, `let` and `mine`, which can
    # be the topic.
    function_words="""
        a an the this that these those
        myself ourselves yourself yourselves he him his himself she her hers herself it its itself
        they them their theirs themselves
        someone something anyone anything everyone everything thing things stuff ought
        be been being doing done having shall might must won't shan't ain't
        im ive youre dont doesnt didnt isnt wasnt cant couldnt wouldnt
        about above across after against along among around as at before behind below beneath beside
        besides between beyond by down during except for from in inside into near of off on onto out
        outside over per since through throughout till to toward towards under until up upon via
        with within without
        and or but nor so if then than because while although though whether unless
        not no yes all any both each either every few many more most much neither none other others
        another some such own same only very too also just ever again once here there now
        please
    """,
    question_words="""
        who whom whose which what when where why how whats whos wheres
        am is are was were do does did have has had will would should can could tell
    """,
    personal_words="i me my we us our ours you your yours i'm i've i'd",
    opening_verbs="remind suggest recommend",
    frames=(
        "(?:what|which) (?:kind|type|sort)s? of",
        # What people say to a search, and not about its topic: "find the chat where we discussed".
        "^(?:please )?(?:(?:can|could|would) you )?(?:please )?"
        "(?:find|show(?: me)?|list|search(?: for)?|look (?:up|for)|pull up|bring up|give me)"
        "(?: (?:all|any|every|the|my|our))*"
        " (?:conversation|chat|message|discussion|session|thread|everything|anything|something"
        "|what|when|where|if|whether)s?",
        "^(?:(?:that|the|this|my|our|a|all|any) )*"
        "(?:conversation|chat|message|discussion|session|thread|one)s?"
        " (?:about|regarding|where|in which|when)",
        "^(?:please )?(?:search (?:for|my|our)|look (?:up|for))",
        "(?:have|has|had|did|do|does) (?:i|we|you|the user) (?:(?:ever|already|previously|once) )*"
        "(?:talk|talked|speak|spoken|chat|chatted|discuss|discussed|mention|mentioned|say|said|ask"
        "|asked|tell|told|know|remember|recall)",
        "(?:i|we|you) (?:talked|spoke|chatted|discussed|mentioned|said|asked|told)",
        # "Do we still use …?" is about what follows.
        "^(?:do|are) (?:we|you|i|they) (?:(?:still|currently|already) )*(?:use|using|on)\\b",
        "^(?:do|does|are|is|have|has) (?:\\w+ ){1,3}(still|currently)\\b",
        # An agent's name for "I".
        "(?:did|does|do|has|had|is|was|of|by|from) (the user)\\b",
        "(?:the )?(?:user|users|user's) (?=(?:preference|instruction|rule|habit)s?\\b)",
        # To write about something is to mention it. "Write about …" is the beginning of a request.
        "(?<!^)(?:write|wrote|written|noted)"
        "(?=(?: (?:you|me|us|anything|something|nothing|everything|down))* about)",
        # The form of the answer: "a summary of everything we covered", "in the order in which …".
        "(?:give me |provide )?(?:a |an |the )?(?:\\w+ )?(?:summary|overview|recap|timeline) of",
        "(?:summari[sz]e|everything) (?:that )?(?:i|we)(?:'ve| have)?"
        " (?:covered|discussed|done|said)",
        "walk me through",
        "(?:what are )?some (?:good|great|nice|common|typical|popular)",
        "what(?:'s| is| are) the best(?: ways?)?",
        "(?:the )?order in which (?:i|we) (?:brought up|raised|mentioned|discussed|talked about)",
        "(?:the )?(?:different|various) (?:aspects|parts|topics)",
        "(?:throughout|across|over|in|during) (?:all )?(?:of )?(?:my|our) (?:\\w+ )?"
        "(?:conversation|chat|discussion|session)s",
        "in order",
        "(?:mention|name|list) (?:only )?\\w+ items?",
        "how (?:long|old|often|far|soon|late|early)",
        "remind me",
        "(?:was|am|were) wondering",
        "(?:our|my|your) (?:previous|last|earlier) (?:conversation|chat|discussion)s?",
        "in total",
        "how many times",
        "(?:how many )?(?:days|weeks|months|years)(?: ago| (?:have |has |had )?passed)",
        "how many (?:days|weeks|months|years)",
        "(?:last|past|next|this) (?:day|week|month|year|weekend|time)s?",
        "any (?:suggestion|recommendation|idea|tip|advice)s?",
        "(?:can|could|would) you (?:please )?(?:suggest|recommend)",
        "^(?:please )?(?:suggest|recommend)",
        "may (?:i|we)",
        "do (?:i|we) (?:like|prefer|want)",
        "is it (?:ok|okay|fine|allowed|acceptable|permitted|all right|alright)",
        "(?:am i|are we) (?:allowed|supposed) to",
        r"(?:ok|okay|fine|allowed|acceptable|permitted|welcome)(?= (?:in|on|at|here)\b|\?)",
    ),
    requests=(
        "^(?:please )?(?:suggest|recommend)",
        "(?:can|could|would|do) you (?:please )?(?:suggest|recommend)",
        "(?:any|some) (?:suggestion|recommendation)s?",
        "how (?:should|can|do|could) (?:i|we)",
        "what should (?:i|we)",
        "help me (?:plan|choose|decide|find)",
        "plan (?:a|an|the|my|our)",
        "any (?:ideas?|tips?|advice)",
    ),
    asks_time=(
        "when",
        "(?:what|which) (?:day|date|month|year|time)",
    ),
    asks_number=("how (?:many|much|old|long|often|far|tall|big|large)",),
    asks_future=(
        "^will",
        # Not "what did Will plant".
        "(?:what|which|when|where|who|whom|how|why)"
        "(?: (?!(?:did|does?|was|were|ha[ds]|have|would)\\b)\\w+){0,3} will",
        "(?:what|when|where|who|how|i|you|he|she|it|we|they)'ll",
        "(?:am|are|is) (?:\\w+ ){1,3}going to",
    ),
    asks_rule=(
        "(?:may|can|could|should|must|shall) (?:i|we|one)",
        "^(?:should|must)",
        "do (?:i|we) (?:like|prefer|want|allow|accept|avoid|have to)",
        "(?:am i|are we) (?:allowed|supposed|okay|ok|fine)",
        "is it (?:ok|okay|fine|allowed|acceptable|permitted|forbidden|all right|alright)",
        "^(?:is|are) [^.?!]{1,60} (?:ok|okay|fine|allowed|acceptable|permitted|forbidden|welcome"
        "|wanted|preferred)",
        "(?:my|our) (?:preference|preferred|favou?rite|convention|policy|rule|style)s?",
        "(?:the|a|any) (?:convention|policy|rule|guideline)s? (?:for|on|about)",
        # Two alternatives and no verb: "Tabs or spaces?"
        "^(?!(?:who|whom|whose|which|what|when|where|why|how|am|is|are|was|were|do|does|did|have|has"
        r"|had|will|would|can|could)\b)[^.?!,;]{1,60} or [^.?!,;]{1,60}(?=\?)",
    ),
    statements="""
        always never prefer prefers preference preferences favorite favourite love enjoy hate
        dislike avoid allergic vegetarian vegan fan
    """,
    standing_instructions=(
        "(?:please )?(?:always (?!\\w+ed\\b)|never (?!mind\\b)|from now on|going forward"
        "|(?:don't|do not) ever|make sure (?:to|you) (?:always|never)|remember to"
        "|when(?:ever)? i ask|every time i)",
    ),
    asks_assistant=(
        r"you(?:'ve|r)?\b[^.?!]{0,40}\b(?:recommend|suggest|tell|told|mention|say|said|gave|give"
        r"|provid|write|wrote|list|advi[cs]|creat|explain|describ|shar|helped|answer)\w*",
        "(?:our|your) (?:previous|last|earlier)",
        "remind me",
        "assistant",
        r"(?:chatgpt|claude|gemini|codex) (?:said|told|suggest|recommend|wrote)\w*",
    ),
    events="""
        do doing done happen happened happening go going gone work working worked talk talked
        talking speak spoke spoken discuss discussed chat chatted say said ask asked write wrote
        written change changed changes accomplish accomplished finish finished complete completed
        get got summary summarize summarise overview recap list show latest new anything everything
        something thing things stuff conversation conversations chats message messages discussion
        discussions session sessions topic topics
    """,
    irregular_forms="""
arise arose arisen|awake awoke awoken|beat beaten|become became|begin began begun|bend bent
bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built
burn burnt|buy bought|catch caught|choose chose chosen|cling clung|come came|creep crept
deal dealt|dig dug|do does did done|draw drew drawn|dream dreamt|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|fight fought|flee fled|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen
get got gotten|give gave given|go goes went gone|grow grew grown|hang hung|have had|hear heard
hide hid hidden|hold held|keep kept|kneel knelt|know knew known|lead led|lean leant|leap leapt
learn learnt|lend lent|lose lost|make made|mean meant|meet met|overcome overcame|pay paid
ride rode ridden|ring rang rung|rise rose risen|run ran|say said|seek sought|sell sold|send sent
sew sewn|shake shook shaken|shoot shot|show shown|shrink shrank shrunk|sing sang sung
sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken|speed sped|spend spent|spin spun
stand stood|steal stole stolen|stick stuck|sting stung|strike struck|swear swore sworn|sweep swept
swell swollen|swim swam swum|swing swung|take took taken|teach taught|tear tore torn|tell told
think thought|throw threw thrown|understand understood|undertake undertook|undo undone
wake woke woken|wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn
write wrote written|analysis analyses|child children|crisis crises|criterion criteria|foot feet
goose geese|half halves|index indices|knife knives|leaf leaves|life lives|loaf loaves|man men
mouse mice|person people|shelf shelves|thief thieves|tooth teeth|wife wives|wolf wolves
woman women
""",
    derivations="""
4 - s ed ing er ers or ors
3 e es ed ing er ers
2 g gs gger ggers
2 n ns nner nners
2 p ps pper ppers
3 t ts tter tters
3 m ms mmer mmers
3 ate ates ated ating ation ations ator ators
4 a as ate ates ated ating ation ations
3 y ies ied ying ication ications ier iers
3 y ies ied ying ial ials iance
4 - s ed ing ure ures
4 e es ed ing ure ures
2 ide ides ided iding ision isions
3 nd nds nded nding nsion nsions nse nses
3 rt rts rted rting rsion rsions
3 it its itted itting ission issions
4 ibe ibes ibed ibing iption iptions
3 uce uces uced ucing uction uctions
2 eive eives eived eiving eption eptions
3 olve olves olved olving olution olutions
3 ume umes umed uming umption
2 tain tains tained taining tenance tention
4 - s ed ing ment ments
4 - s ed ing age ages
4 e es ed ing age ages
5 - s ed ing y ies
4 e es ed ing ition itions
4 - s ship ships
4 - s able
4 e es able
""",
    families="""
act action|advise advice|acquire acquisition|analyse analyze analysis|behave behavior behaviour
believe belief|choose choice|compare comparison|deep depth|depart departure|destroy destruction
die death dead|enter entry entrance|explain explanation|fly flight|give gift|grow growth
high height|know knowledge|long length|lose loss|marry marriage|mix mixture|move movement
own owner owners ownership|pay payment payments|prove proof|repeat repetition|safe safety
see sight|sell sale sales|sign signature signatures|solve solution solutions|speak speech
strong strength|succeed success successful|use usage|weigh weight|wide width
""",
    inflections="""
- s es ed ing
e es ed ing
y ies ied ying
""",
)
