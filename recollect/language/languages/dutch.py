"""Dutch. A search splits its compounds (`search.queries.forms.compounds`)."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "januari jan",
        "februari feb",
        "maart mrt",
        "april apr",
        "mei",
        "juni jun",
        "juli jul",
        "augustus aug",
        "september sep sept",
        "oktober okt",
        "november nov",
        "december dec",
    ),
    weekdays=("maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag"),
    numbers=(
        "een één",
        "twee",
        "drie",
        "vier",
        "vijf",
        "zes",
        "zeven",
        "acht",
        "negen",
        "tien",
        "elf",
        "twaalf",
    ),
    seasons={
        "lente": "spring",
        "voorjaar": "spring",
        "zomer": "summer",
        "herfst": "autumn",
        "najaar": "autumn",
        "winter": "winter",
    },
    units={
        "minuut": "minute",
        "minuten": "minute",
        "uur": "hour",
        "uren": "hour",
        "dag": "day",
        "dagen": "day",
        "week": "week",
        "weken": "week",
        "maand": "month",
        "maanden": "month",
        "jaar": "year",
        "jaren": "year",
        "weekend": "weekend",
    },
    moments={
        "vandaag": "today",
        "vanmorgen": "this morning",
        "vanochtend": "this morning",
        "vanmiddag": "this afternoon",
        "vanavond": "this evening",
        "vannacht": "last night",
        "gisteren": "yesterday",
        "gisterochtend": "yesterday morning",
        "gisterenochtend": "yesterday morning",
        "gistermiddag": "yesterday afternoon",
        "gisteravond": "last night",
        "gisterenavond": "last night",
        "gisternacht": "last night",
        "afgelopen nacht": "last night",
        "eergisteren": "day before yesterday",
        "onlangs": "recently",
        "kortgeleden": "recently",
        "de laatste tijd": "recently",
        "laatst": "the other day",
        "pas geleden": "recently",
        "sinds gisteren": "since yesterday",
        "met kerst": "at christmas",
        "met kerstmis": "at christmas",
        "afgelopen kerst": "at christmas",
        "vorige kerst": "at christmas",
    },
    rules=(
        ("(?:in )?{month} (?:van )?volgend {unit}", "in {month} next {unit}"),
        ("(?:in )?{month} (?:van )?(?:vorig|afgelopen) {unit}", "{month} last {unit}"),
        ("(?:in )?{month} (?:van )?dit {unit}", "{month} this {unit}"),
        ("{weekday} (?:vorige|afgelopen) {unit}", "{weekday} last {unit}"),
        ("vorige {unit} {weekday}", "{weekday} last {unit}"),
        ("(?:op )?{weekday}(?: ,)? {day} {month}(?: {year})?", "{day} {month} {year}"),
        (
            "tussen {month}(?: {year})? en {month2}(?: {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        (
            "van {month}(?: {year})? tot(?: en met)? {month2}(?: {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        ("sinds {day} {month}(?: {year})?", "since {day} {month} {year}"),
        ("sinds {month}(?: {year})?", "since {month} {year}"),
        ("sinds (?:vorige?|afgelopen) {unit}", "since last {unit}"),
        ("sinds {weekday}", "since {weekday}"),
        ("sinds {year}", "since {year}"),
        ("voor {day} {month}(?: {year})?", "before {day} {month} {year}"),
        ("voor {month}(?: {year})?", "before {month} {year}"),
        ("na {day} {month}(?: {year})?", "after {day} {month} {year}"),
        ("na {month}(?: {year})?", "after {month} {year}"),
        ("(?:op |de )?{day} {month}(?: {year})?", "{day} {month} {year}"),
        ("begin (?:van )?(?:{month}(?: {year})?|{year})", "early {month} {year}"),
        ("(?:midden|half|medio) (?:in )?(?:{month}(?: {year})?|{year})", "mid {month} {year}"),
        ("eind(?:e)? (?:van )?(?:{month}(?: {year})?|{year})", "late {month} {year}"),
        ("(?:in )?{month} {year}", "{month} {year}"),
        ("in {month}|(?:afgelopen|vorige) {month}", "in {month}"),
        ("(?:in |de |het )*{season} (?:van )?{year}", "{season} {year}"),
        ("(?:de |het )?(?:afgelopen|vorige?) {season}", "last {season}"),
        ("(?:deze|dit|in de|in het) {season}", "this {season}"),
        ("(?:{one} )?half {unit} geleden", "half a {unit} ago"),
        ("(?:{one} paar|enkele|enige|wat) {unit} geleden", "few {unit} ago"),
        ("(?:ongeveer |zo' n )?{count} {unit} geleden", "{count} {unit} ago"),
        (
            "(?:in |de )*(?:afgelopen|laatste) {count} {unit}",
            "last {count} {unit}",
        ),
        ("(?:in |de )*(?:afgelopen|laatste) paar {unit}", "last few {unit}"),
        ("(?:in |de |het )*(?:vorige?|afgelopen|verleden) {unit}", "last {unit}"),
        ("(?:deze|dit) {unit}", "this {unit}"),
        ("(?:afgelopen|vorige) {weekday}", "last {weekday}"),
        ("(?:op|deze) {weekday}", "on {weekday}"),
        ("(?:in|in het {unit}) {year}", "in {year}"),
        ("(?:met |op )?kerst(?:mis)? {year}", "christmas {year}"),
    ),
    ordinals=("e", "ste", "de"),
)

DUTCH = Language(
    code="nl",
    name="Dutch",
    stemmer="dutch",
    linking_elements="s en e",
    times=_TIMES,
    function_words="""
        mochten wilt ding dingen
        de het een 't 'n die dat deze dit dezelfde hetzelfde zulke zo'n
        hij hem zij ze haar hun hen zich zelf zijn er men iemand iets niemand niets alles allemaal
        ander andere anderen elk elke ieder iedere iedereen sommige enkele enige
        wezen geweest word worden werden geworden zou zouden gehad
        aan achter af bij binnen boven buiten door in langs met na naar naast om onder op over per
        rond sinds te tegen ten ter tijdens toe tot tussen uit van vanaf vanuit via volgens voor
        voorbij zonder
        en of maar want dus noch als dan omdat doordat hoewel terwijl toen zodat tenzij indien
        niet geen wel nee ja ook nog al zeer heel erg meer meest minder veel vele weinig alle
        steeds weer nooit altijd ooit hier daar nu eens even eigenlijk alleen maar zo toch
        graag alsjeblieft aub daarvan daarover daarmee ervan erover
    """,
    question_words="""
        wie wiens wat welk welke wanneer waar waarom hoe hoeveel waarmee waarover waarvan waarvoor
        waarheen waaraan waarop waarin
        is ben bent was waren heeft heb hebben hebt had hadden wordt werd kan kun kunt kunnen kon
        konden zal zullen moet moeten moest moesten mag mogen mocht wil willen wilde wilden
        zou gaat ga
    """,
    personal_words="""
        ik mij me mijn m'n mezelf wij we ons onze jij je jou jouw jezelf jullie u uw
    """,
    opening_verbs="""
        zeg vertel toon herinner weet noem geef zoek vind adviseer beveel raad stel plan help
    """,
    frames=(
        # "Wanneer hebben we het over … gehad?"
        "(?:gesproken|gepraat|besproken|genoemd|gezegd|gevraagd|gehad)"
        "(?=(?: (?:heb|hebben|hadden))?[?.! ]*$)",
        # "Wat heb ik over … geschreven?", but not "Wanneer heb ik Anna geschreven?"
        "(?=over .{1,100} ((?:op)?geschreven|genoteerd))",
        "(?:schreef|schreven)(?=(?: \\w+){0,2} over)",
        "^vat(?=.{0,100} samen)|samen(?=,? wat |[?.! ]*$)",
        "^(?:(?:het|de|mijn|ons|onze|dat) )?(?:gesprek|chat|discussie) (?:over|waar|waarin)",
        "(?:bevindt|bevinden|bevond) zich|zich (?:bevindt|bevinden)",
        "zei|zeiden|gezegd|verteld|vertelde|genoemd",
        "weet (?:je|jij|u) (?:nog|misschien|toevallig)",
        "weet (?:je|jij|u)",
        "herinner (?:je|jij|u)(?: je| zich)?",
        "herinner me",
        "(?:vertel|zeg|toon|laat) (?:me|mij|ons)(?: eens)?",
        "(?:kun|kan|kunt|zou) (?:je|jij|u) (?:me |mij |ons )?(?:eens )?"
        "(?:vertellen|zeggen|herinneren|laten zien|helpen)",
        "wat voor(?: een)?",
        "(?:welk|welke) (?:soort|type)(?: van)?",
        "hoe (?:lang|oud|vaak|ver|laat|vroeg|veel)",
        "hoeveel (?:dagen|weken|maanden|jaren|jaar|keer)",
        "(?:ons|onze|mijn|je) (?:vorige?|laatste|eerdere) (?:gesprek|gesprekken|chat|discussie)",
        "in totaal",
        "(?:dagen|dag|weken|week|maanden|maand|jaren|jaar|uur|uren) geleden",
        "(?:vorige?|afgelopen|volgende?|deze|dit|laatste) (?:dag|week|maand|jaar|weekend|keer)",
    ),
    requests=(
        r"aanbev\w*|aanra[ad]\w*|aan te raden|aanrader",
        "(?:raad|beveel) .{0,40}aan",
        r"suggest\w*|suggere\w*",
        r"advies|advise\w*",
        "stel .{0,40}voor",
        "(?:moet|moeten|kan|kunnen|mag|zou|zullen) (?:ik|wij|we|je)",
        "help (?:me|mij)",
        r"plan (?:een|de|het|mijn|onze?)",
        "(?:ideeën|tips|idee)",
    ),
    asks_time=(
        "wanneer",
        "(?:welke|welk|hoe) (?:dag|datum|maand|jaar|laat)",
    ),
    asks_number=(
        "hoeveel",
        "hoe (?:veel|oud|lang|vaak|ver|groot|hoog|duur)",
    ),
    asks_future=("^(?:zal|zult|zullen)", r"(?:w\w+|hoe) (?:\w+ )?(?:zal|zult|zullen)"),
    asks_rule=(
        "(?:mag|mogen|moet|moeten|kan|kunnen) (?:ik|we|wij|men|je)",
        "^(?:mag|mogen|moet|moeten)",
        "(?:is|zijn) [^.?!]{1,60} (?:toegestaan|verboden|oké|ok)",
        "(?:wil|verkies) ik|(?:willen|verkiezen) (?:we|wij)|heb ik liever|hebben we liever",
        "(?:mijn|onze) (?:voorkeur|regel)(?:en|s)?",
    ),
    statements="altijd nooit liever voorkeur favoriete graag haat vermijd",
    standing_instructions=(
        "(?:altijd|nooit|vanaf nu|voortaan|in het vervolg)",
        "\\w+(?: me| ons)?(?: alsjeblieft)? (?:altijd|nooit)",
        "(?:telkens )?(?:als|wanneer) ik (?:je |vraag )",
    ),
    asks_assistant=(
        r"(?:je|jij|u)\b[^.?!]{0,60}\b(?:aanbevolen|aangeraden|voorgesteld|gezegd|zei|genoemd"
        r"|noemde|gegeven|gaf|geschreven|schreef|geadviseerd|uitgelegd|beschreven|gemaakt"
        r"|gedeeld|geholpen|geantwoord|verteld|vertelde)",
        "(?:ons|onze|je|jouw) (?:vorige?|laatste|eerdere)",
        "herinner me",
        "assistent",
        r"(?:chatgpt|claude|gemini|codex)\b[^.?!]{0,30}\b(?:zei|gezegd|voorgesteld|aanbevolen"
        r"|geschreven)",
    ),
    events="""
        gedaan doen deed deden gebeurd gebeurde gewerkt gesproken gepraat besproken gezegd
        gevraagd vroeg vroegen zei zeiden sprak spraken schreef schreven geschreven veranderd
        gewijzigd afgerond samenvatting overzicht alles iets gesprek gesprekken chat chats bericht
        berichten onderwerp onderwerpen
    """,
    irregular_forms="""
beginnen begon begonnen|begrijpen begreep begrepen|bieden bood geboden|bijten beet gebeten
binden bond gebonden|blijven bleef gebleven|breken brak gebroken|brengen bracht gebracht
denken dacht gedacht|doen deed gedaan|dragen droeg gedragen|drinken dronk gedronken
eten gegeten|gaan ging gegaan|geven gaf gegeven|helpen hielp geholpen|houden hield gehouden
kiezen koos gekozen|kijken keek gekeken|komen kwam gekomen|kopen kocht gekocht koopt koop
krijgen kreeg gekregen|laten liet gelaten|lezen las gelezen leest|liggen lag gelegen
lopen liep gelopen loopt|nemen nam genomen neemt|rijden reed gereden|roepen riep geroepen
schrijven schreef geschreven|slapen sliep geslapen|sluiten sloot gesloten|snijden sneed gesneden
spreken sprak gesproken|springen sprong gesprongen|staan stond gestaan|stelen stal gestolen
sterven stierf gestorven|treffen trof getroffen|trekken trok getrokken|vallen viel gevallen
vergeten vergat|verkopen verkocht|verliezen verloor verloren|vinden vond gevonden
vliegen vloog gevlogen|vragen vroeg gevraagd|wassen waste gewassen|weten wist geweten
winnen won gewonnen|worden werd|zeggen zei gezegd|zien zag gezien|zingen zong gezongen
zitten zat gezeten|zoeken zocht gezocht|zwemmen zwom gezwommen|maken maakte gemaakt maakt
bouwen bouwde gebouwd|leren leerde geleerd|plannen plande gepland|bestellen bestelde besteld
betalen betaalde betaald|kosten kostte gekost|werken werkte gewerkt|koken kookte gekookt
reizen reisde gereisd|spelen speelde gespeeld|wonen woonde gewoond woont|huren huurde gehuurd
boeken boekte geboekt|repareren repareerde gerepareerd|verhuizen verhuisde verhuisd
fietsen fiets fietst gefietst
boek boeken|kind kinderen|stad steden|ei eieren|schip schepen|lid leden
""",
    irregular_endings="en",
    stem_spellings=(
        ("s$", "z"),  # huizen
        ("f$", "v"),  # brieven
        (r"([aeou])\1([^aeiou])$", r"\1\2e"),  # straten
        ("^(?!ge)", "ge"),  # geklust
    ),
    joiners="'",
    typical_words="""
        vorige vorig afgelopen geleden gezegd zei gekocht gevraagd gemaakt gesproken
        verteld heet heette volgende
        kost kostte betekent werkt werkte
    """,
    letters="ë",
    derivations="""
4 eren eer eert eerd eerde eerden atie aties ator
4 en t te ten de den ing ingen er ers
""",
)
