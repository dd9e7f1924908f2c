"""German. A search splits its compounds (`search.queries.forms.compounds`)."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "januar jänner jan",
        "februar feber feb",
        "märz maerz mrz",
        "april apr",
        "mai",
        "juni jun",
        "juli jul",
        "august aug",
        "september sep sept",
        "oktober okt",
        "november nov",
        "dezember dez",
    ),
    weekdays=(
        "montag montags",
        "dienstag dienstags",
        "mittwoch mittwochs",
        "donnerstag donnerstags",
        "freitag freitags",
        "samstag sonnabend samstags",
        "sonntag sonntags",
    ),
    numbers=(
        "ein eine einem einer einen",
        "zwei",
        "drei",
        "vier",
        "fünf fuenf",
        "sechs",
        "sieben",
        "acht",
        "neun",
        "zehn",
        "elf",
        "zwölf zwoelf",
    ),
    seasons={
        "frühling": "spring",
        "frühjahr": "spring",
        "sommer": "summer",
        "herbst": "autumn",
        "winter": "winter",
    },
    units={
        "minute": "minute",
        "minuten": "minute",
        "stunde": "hour",
        "stunden": "hour",
        "tag": "day",
        "tage": "day",
        "tagen": "day",
        "woche": "week",
        "wochen": "week",
        "monat": "month",
        "monate": "month",
        "monaten": "month",
        "monats": "month",
        "jahr": "year",
        "jahre": "year",
        "jahren": "year",
        "jahres": "year",
        "wochenende": "weekend",
    },
    moments={
        "heute": "today",
        "heute morgen": "this morning",
        "heute früh": "this morning",
        "heute nachmittag": "this afternoon",
        "heute abend": "this evening",
        "gestern": "yesterday",
        "gestern morgen": "yesterday morning",
        "gestern früh": "yesterday morning",
        "gestern nachmittag": "yesterday afternoon",
        "gestern abend": "last night",
        "gestern nacht": "last night",
        "letzte nacht": "last night",
        "vorgestern": "day before yesterday",
        "kürzlich": "recently",
        "vor kurzem": "recently",
        "in letzter zeit": "recently",
        "neulich": "the other day",
        "vorletzte woche": "week before last",
        "vorletzten monat": "month before last",
        "vorletztes jahr": "year before last",
        "seit gestern": "since yesterday",
        "an weihnachten": "at christmas",
        "zu weihnachten": "at christmas",
        "über weihnachten": "at christmas",
        "letzte weihnachten": "at christmas",
        "letztes weihnachten": "at christmas",
    },
    rules=(
        ("(?:im )?{month} (?:nächsten|kommenden) {unit}", "in {month} next {unit}"),
        ("(?:im )?{month} (?:letzten|vergangenen|vorigen) {unit}", "{month} last {unit}"),
        ("(?:im )?{month} (?:diesen|dieses) {unit}", "{month} this {unit}"),
        (
            "{weekday} (?:letzter|vergangener|voriger|letzte|vorige) {unit}",
            "{weekday} last {unit}",
        ),
        (
            "(?:letzte|vergangene|vorige) {unit}(?: am)? {weekday}",
            "{weekday} last {unit}",
        ),
        (
            "(?:am )?{weekday}(?: ,)? (?:den |dem )?{day} {month}(?: {year})?",
            "{day} {month} {year}",
        ),
        (
            "zwischen {month}(?: {year})? und {month2}(?: {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        (
            "von {month}(?: {year})? bis {month2}(?: {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        ("seit (?:dem )?{day} {month}(?: {year})?", "since {day} {month} {year}"),
        ("seit {month}(?: {year})?", "since {month} {year}"),
        ("seit (?:letztem|letzter|letzten) {unit}", "since last {unit}"),
        ("seit {weekday}", "since {weekday}"),
        ("seit {year}", "since {year}"),
        ("vor (?:dem )?{day} {month}(?: {year})?", "before {day} {month} {year}"),
        ("vor {month}(?: {year})?", "before {month} {year}"),
        ("nach (?:dem )?{day} {month}(?: {year})?", "after {day} {month} {year}"),
        ("nach {month}(?: {year})?", "after {month} {year}"),
        ("(?:am |vom |den |der |dem )?{day} {month}(?: {year})?", "{day} {month} {year}"),
        ("anfang (?:des )?(?:{month}(?: {year})?|{year})", "early {month} {year}"),
        ("mitte (?:{month}(?: {year})?|{year})", "mid {month} {year}"),
        ("ende (?:{month}(?: {year})?|{year})", "late {month} {year}"),
        ("(?:im )?{month} {year}", "{month} {year}"),
        ("im {month}|letzten {month}|diesen {month}", "in {month}"),
        ("(?:im )?{season} {year}", "{season} {year}"),
        ("(?:letzten|letztes|vergangenen|vorigen) {season}", "last {season}"),
        ("(?:diesen|dieses|im|in diesem) {season}", "this {season}"),
        ("vor (?:etwa |ungefähr |rund |circa |ca )?(?:{one} )?halben {unit}", "half a {unit} ago"),
        ("vor (?:{one} paar|einigen|wenigen) {unit}", "few {unit} ago"),
        ("vor mehreren {unit}", "several {unit} ago"),
        ("vor (?:etwa |ungefähr |rund |circa |ca |genau )?{count} {unit}", "{count} {unit} ago"),
        (
            "(?:in |während )?(?:den|der|die) (?:letzten|vergangenen) {count} {unit}",
            "last {count} {unit}",
        ),
        (
            "(?:in den|während der|die) (?:letzten|vergangenen)(?: paar)? {unit}",
            "last few {unit}",
        ),
        (
            "(?:(?:in|im|am) (?:der )?)?"
            "(?:letzte|letzten|letzter|letztes|letztem|vergangene|vergangenen|vergangener"
            "|vergangenes|vorige|vorigen|voriges|voriger) {unit}",
            "last {unit}",
        ),
        (
            "(?:in )?(?:diese|dieser|diesen|diesem|dieses) {unit}",
            "this {unit}",
        ),
        ("(?:am )?(?:letzten|vergangenen|vorigen) {weekday}", "last {weekday}"),
        ("(?:am|diesen) {weekday}", "on {weekday}"),
        ("(?:im {unit}|in) {year}", "in {year}"),
        ("(?:an|zu|über) weihnachten {year}", "christmas {year}"),
    ),
    ordinals=(".",),
)

GERMAN = Language(
    code="de",
    name="German",
    stemmer="german",
    linking_elements="s es n en e er",
    times=_TIMES,
    function_words="""
        musst müsst müssten sollst sollt darfst dürft durften dürfte dürften könnt willst wollt mag
        magst mögen ding dinge sache sachen
        der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner
        dieser diese dieses diesen diesem jener jene jenes jenen jenem derselbe dieselbe dasselbe
        sich selbst selber er ihn ihm es sie ihr ihre ihren ihrem ihrer ihres
        sein seine seinen seinem seiner seines man jemand jemanden jemandem etwas nichts alles
        niemand einander
        gewesen geworden werde wurden worden würde würden wäre wären hätte hätten gehabt
        könnte könnten möchte möchten müsste
        fuer ueber wuerde waere haette koennte moechte koennen
        in im ins an am ans auf aufs aus bei beim bis durch für gegen hinter mit nach neben ohne
        seit trotz über übers um ums unter vom von vor während wegen zu zum zur zwischen ab
        und oder aber denn sondern doch als wenn weil dass daß ob obwohl damit sodass falls während
        nicht kein nein ja nur auch noch schon sehr so zu mehr viel viele vielen wenig alle allen
        aller jede jeder jedes jeden jedem einige einigen manche andere anderen anderer anderes
        solche solcher selbe immer wieder nie hier da dort dann jetzt nun mal eben eigentlich denn
        gerade eher etwa ungefähr bitte damals dabei dazu davon darüber dafür damit daran darauf
    """,
    question_words="""
        wer wen wem wessen was welche welcher welches welchen welchem wann wo woher wohin warum
        weshalb wieso wie womit wofür wofuer worüber worueber wodurch woran worauf wozu wovon wovor
        woraus worin wobei
        ist bin sind war waren warst bist seid hat habe haben hatte hatten hast hattest
        wird werden wurde kann können konnte konnten kannst soll sollen sollte sollten will wollen
        wollte wollten muss müssen musste mussten darf dürfen durfte
    """,
    personal_words="""
        ich mich mir mein meine meinen meinem meiner meines wir uns unser unsere unseren unserem
        unserer du dich dir dein deine deinen deinem deiner deines euch euer eure euren
    """,
    opening_verbs="""
        sag sage erzähl erzähle zeig zeige nenne such suche finde erinnere erinnerst weißt weisst
        empfiehl empfehle empfiehlst schlag schlage plane gib gibt gab
    """,
    frames=(
        # "Wann haben wir über … gesprochen?"
        "(?:gesprochen|geredet|besprochen|diskutiert|erwähnt|gesagt|gefragt)"
        "(?=(?: (?:habe|haben|hatten|hast))?[?.! ]*$)",
        # "Was habe ich über … geschrieben?", but not "Wann habe ich Anna geschrieben?"
        "(?=(?:über|zu|zum|zur) .{1,100} ((?:auf)?geschrieben|notiert))",
        "(?:schrieb|schriebst|schrieben)(?=(?: \\w+){0,2} (?:über|zu|zum|zur))",
        "^(?:bitte )?(?:fass|fasse)(?=.{0,100} zusammen)|zusammen(?=,? was |[?.! ]*$)",
        "^(?:bitte )?(?:empfiehl|empfehle)(?: (?:mir|uns))?",
        "^(?:bitte )?(?:zeig|zeige|finde|such|suche)(?: mir)?"
        "(?: (?:alle|alles|das|die|den|meine|unsere))*"
        " (?:gespräch|gespräche|unterhaltung|unterhaltungen|chat|chats|nachricht|nachrichten)",
        "^(?:(?:das|die|der|mein|meine|unser|unsere) )?(?:gespräch|unterhaltung|chat|diskussion)"
        " (?:über|zum|zur|zu|wo|in dem|in der)",
        "befindet|befinden|befand|befanden",
        "gesagt|sagte|sagtest|sagten|erzählt|erwähnt",
        "(?:weißt|weisst|wissen) (?:du|sie) (?:noch|vielleicht|zufällig)",
        "(?:weißt|weisst) du",
        "(?:erinnerst|erinnern) (?:du|sie) (?:dich|sich)",
        "(?:erinner|erinnere) mich",
        "(?:sag|sage|erzähl|erzähle|zeig|zeige) (?:mir|uns)",
        "(?:kannst|könntest|können|könnten) (?:du|sie) (?:mir |uns )?(?:bitte )?"
        "(?:sagen|zeigen|nennen|helfen)",
        "wie (?:lange|oft|alt|weit|spät|früh|viele|viel)",
        "was für (?:eine?[nmrs]?)?",
        "(?:welche|was für eine) art(?: von)?",
        "(?:in )?unsere[mnrs]? (?:letzten|vorigen|früheren) (?:gespräch|chat|unterhaltung)e?n?",
        "insgesamt",
        "wie viele (?:tage|wochen|monate|jahre|male?)",
        "vor (?:ein paar |einigen |[0-9a-z]+ )?(?:tag|woche|monat|jahr|stunde)(?:en|n|e)?",
        "(?:letzte|vergangene|vorige|diese|nächste)[nmrs]? "
        "(?:tag|woche|monat|jahr|wochenende|mal)(?:en|n|e)?",
        "es (?:alles |noch |sonst )?(?:gab|gibt|ging|geht)",
        "(?:ging|geht|gab|gibt)(?: es|'?s)",
    ),
    requests=(
        r"empf(?:ehl|iehl|ohl)\w*",
        r"vorschl[aä]g\w*",
        "schlag(?:e|st)? .{0,40}vor",
        "(?:soll|sollte|sollten|muss|müssen|kann|könnte|könnten|darf) (?:ich|wir|man)",
        "hilf mir",
        r"(?:plan|plane|planen) (?:eine?n?|die|den|das|mein\w*|unser\w*)",
        "(?:irgendwelche )?(?:ideen|tipps|ratschläge)",
        "hast du (?:ideen|tipps|vorschläge|eine idee)",
    ),
    asks_time=(
        "wann",
        "(?:seit|bis|ab) wann",
        "welche[nmrs]? (?:tag|datum|monat|jahr|uhrzeit)",
        "wie spät",
    ),
    asks_number=(
        "wie (?:viele?|alt|lange?|oft|weit|groß|hoch|teuer|schwer)",
        "wieviele?",
        "wie viel(?:e|en)?",
    ),
    asks_future=(
        "^(?:werde|wirst|wird|werdet|werden)",
        r"(?:w[aeiou]\w*) (?:werde|wirst|wird|werdet|werden)",
    ),
    asks_rule=(
        "(?:darf|dürfen|soll|sollen|sollte|sollten|muss|müssen|kann|können) (?:ich|wir|man)",
        "^(?:darf|dürfen|soll|sollen|sollte|sollten|muss|müssen)",
        "(?:ist|sind) [^.?!]{1,60} (?:erlaubt|verboten|zulässig|erwünscht|okay|ok|in ordnung)",
        "(?:mag|bevorzuge|möchte|will) ich|(?:mögen|bevorzugen|möchten|wollen) wir",
        "(?:meine?|unsere?) (?:vorliebe|regel|konvention)e?n?",
    ),
    statements="immer nie niemals bevorzuge lieber lieblings liebe hasse vermeide mag",
    standing_instructions=(
        "(?:bitte )?(?:immer|nie|niemals|ab (?:jetzt|sofort)|von nun an|künftig|in zukunft)",
        "\\w+(?: mir| uns)?(?: bitte)? (?:immer (?!noch|wieder|mehr)|niemals|nie)",
        "(?:immer )?wenn ich (?:dich |nach )",
    ),
    asks_assistant=(
        r"(?:du|sie|dir|dein\w*)\b[^.?!]{0,60}\b(?:empf[aeio]\w*|vorgeschlagen|vorschl\w*|gesagt"
        r"|sagtest|erwähn\w*|genannt|gegeben|geschrieben|aufgelistet|geraten|erstellt|erklär\w*"
        r"|beschrieben|geteilt|geholfen|geantwortet)",
        r"(?:unser|dein)e?\w? (?:letzte|vorige|frühere)\w*",
        r"erinner\w* mich",
        "assistent(?:in|en)?",
        r"(?:chatgpt|claude|gemini|codex)\b[^.?!]{0,30}\b(?:gesagt|vorgeschlagen|empfohlen"
        r"|geschrieben)",
    ),
    events="""
        gemacht machen machte machten getan tun tat taten passiert passierte geschehen geschah los
        gearbeitet arbeiten geredet gesprochen sprachen besprochen diskutiert gesagt gefragt
        geschrieben geändert erledigt geschafft zusammenfassung überblick alles etwas gespräch
        gespräche unterhaltung unterhaltungen chat chats nachricht nachrichten thema themen zeig
        zeige
    """,
    irregular_forms="""
beginnen begann begonnen|beißen biss gebissen|bieten bot geboten|binden band gebunden
bitten bat gebeten|bleiben blieb geblieben|brechen brach gebrochen|bringen brachte gebracht
denken dachte gedacht|empfehlen empfahl empfohlen empfiehlt|essen aß gegessen isst
fahren fuhr gefahren fährt|fallen fiel gefallen fällt|fangen fing gefangen|finden fand gefunden
fliegen flog geflogen|geben gab gegeben gibt|gehen ging gegangen|gewinnen gewann gewonnen
gießen goss gegossen|halten hielt gehalten hält|heißen hieß geheißen|helfen half geholfen hilft
kennen kannte gekannt|kommen kam gekommen|laden lud geladen|laufen lief gelaufen läuft
lesen las gelesen liest|liegen lag gelegen|lügen log gelogen|nehmen nahm genommen nimmt
nennen nannte genannt|reiten ritt geritten|rufen rief gerufen|schlafen schlief geschlafen
schlagen schlug geschlagen schlägt|schließen schloss geschlossen|schneiden schnitt geschnitten
schreiben schrieb geschrieben|schwimmen schwamm geschwommen|sehen sah gesehen sieht
singen sang gesungen|sitzen saß gesessen|sprechen sprach gesprochen spricht
springen sprang gesprungen|stehen stand gestanden|stehlen stahl gestohlen|steigen stieg gestiegen
sterben starb gestorben|tragen trug getragen trägt|treffen traf getroffen trifft
trinken trank getrunken|tun tat getan|vergessen vergaß vergisst|verlieren verlor verloren
waschen wusch gewaschen|werfen warf geworfen wirft|wissen wusste gewusst weiß
ziehen zog gezogen|umziehen umgezogen|kaufen kauft gekauft|machen macht gemacht
sagen sagt gesagt|bauen baut gebaut|lernen lernt gelernt|planen plant geplant
bestellen bestellt|bezahlen bezahlt|kosten kostet gekostet|arbeiten arbeitet gearbeitet
kochen kocht gekocht|reisen reist gereist|spielen spielt gespielt|wohnen wohnt gewohnt
zahlen zahlt gezahlt|fragen fragt gefragt|suchen sucht gesucht|buchen bucht gebucht
mieten mietet gemietet|reparieren repariert|zeigen zeigt gezeigt|hören hört gehört
erzählen erzählt|besuchen besucht|verkaufen verkauft|benutzen benutzt|brauchen braucht gebraucht
bekommen bekam|verstehen verstand verstanden|entstehen entstand entstanden|bestehen bestanden
erhalten erhielt erhält|behalten behielt behält|enthalten enthielt enthält
lassen ließ gelassen lässt|verlassen verließ verlässt|versprechen versprach versprochen verspricht
besprechen besprach besprochen bespricht|beschreiben beschrieb beschrieben
verschreiben verschrieb verschrieben|unterschreiben unterschrieb unterschrieben
entscheiden entschied entschieden|beschließen beschloss beschlossen
vergleichen verglich verglichen|verschieben verschob verschoben|erfinden erfand erfunden
verbringen verbrachte verbracht|leihen lieh geliehen|verleihen verlieh verliehen
wachsen wuchs gewachsen wächst|anrufen angerufen|einladen eingeladen|anfangen angefangen
ankommen angekommen|mitbringen mitgebracht|mitnehmen mitgenommen|teilnehmen teilgenommen
aufstehen aufgestanden|abschließen abgeschlossen|vorschlagen vorgeschlagen
stattfinden stattgefunden|einziehen eingezogen|ausziehen ausgezogen
haus häuser|buch bücher|kind kinder|mann männer|land länder|rad räder|stadt städte
mutter mütter|vater väter|bruder brüder|baum bäume|zahn zähne|stuhl stühle
""",
    irregular_endings="e en st t",
    typical_words="""
        anfang mitte ende letzte letzten letztes letzter vorige vergangene gesagt gemacht gekauft 
        gesprochen besprochen gefragt geschrieben erzählt erwähnt über
        kostet kosten kostete bedeutet funktioniert funktionierte heißt macht machte steht sagt
        sagte liegt braucht
    """,
    letters="äöüß",
    optional_accents=False,
    derivations="""
4 ieren iere iert ierte ierten ierung ierungen ation ationen ator
4 en e t te ten ung ungen er
4 rn re rt rte rten rung rungen rer
""",
)
