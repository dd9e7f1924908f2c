"""Italian."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "gennaio",
        "febbraio",
        "marzo",
        "aprile",
        "maggio",
        "giugno",
        "luglio",
        "agosto",
        "settembre",
        "ottobre",
        "novembre",
        "dicembre",
    ),
    weekdays=("lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"),
    numbers=(
        "un uno una",
        "due",
        "tre",
        "quattro",
        "cinque",
        "sei",
        "sette",
        "otto",
        "nove",
        "dieci",
        "undici",
        "dodici",
    ),
    seasons={
        "primavera": "spring",
        "estate": "summer",
        "autunno": "autumn",
        "inverno": "winter",
    },
    units={
        "minuto": "minute",
        "minuti": "minute",
        "ora": "hour",
        "ore": "hour",
        "giorno": "day",
        "giorni": "day",
        "settimana": "week",
        "settimane": "week",
        "mese": "month",
        "mesi": "month",
        "anno": "year",
        "anni": "year",
        "weekend": "weekend",
    },
    moments={
        "oggi": "today",
        "stamattina": "this morning",
        "questa mattina": "this morning",
        "oggi pomeriggio": "this afternoon",
        "questo pomeriggio": "this afternoon",
        "stasera": "this evening",
        "stanotte": "tonight",
        "ieri": "yesterday",
        "ieri mattina": "yesterday morning",
        "ieri pomeriggio": "yesterday afternoon",
        "ieri sera": "last night",
        "ieri notte": "last night",
        "la scorsa notte": "last night",
        "l'altro ieri": "day before yesterday",
        "l'altroieri": "day before yesterday",
        "altroieri": "day before yesterday",
        "recentemente": "recently",
        "di recente": "recently",
        "ultimamente": "recently",
        "poco fa": "recently",
        "l'altro giorno": "the other day",
        "da ieri": "since yesterday",
        "a natale": "at christmas",
        "per natale": "at christmas",
        "lo scorso natale": "at christmas",
    },
    rules=(
        ("(?:lo )?scorso fine {week}|(?:il )?fine {week} scorso", "last weekend"),
        (
            "(?:a |in )?{month} (?:del|dell') (?:prossimo {unit}|{unit} prossimo)",
            "in {month} next year",
        ),
        (
            "(?:a |in |nel )?{month} (?:dell' {unit} scorso|dello scorso {unit})",
            "{month} last {unit}",
        ),
        ("(?:a |in )?{month} di quest' {unit}", "{month} this {unit}"),
        ("(?:il )?{weekday} (?:della|di) (?:scorsa {unit}|{unit} scorsa)", "{weekday} last {unit}"),
        ("(?:il )?{weekday}(?: ,)? {day} {month}(?: (?:del )?{year})?", "{day} {month} {year}"),
        (
            "tra {month}(?: (?:del )?{year})? e {month2}(?: (?:del )?{year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        (
            "da {month}(?: (?:del )?{year})? a {month2}(?: (?:del )?{year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        ("(?:dal|dall') {day} {month}(?: (?:del )?{year})?", "since {day} {month} {year}"),
        ("da {month}(?: (?:del )?{year})?", "since {month} {year}"),
        (
            "(?:dalla|dal|dallo|dall') (?:scors[oa] {unit}|{unit} scors[oa])",
            "since last {unit}",
        ),
        ("da {weekday}", "since {weekday}"),
        ("dal {year}", "since {year}"),
        ("prima (?:del|dell') {day} {month}(?: (?:del )?{year})?", "before {day} {month} {year}"),
        ("prima di {month}(?: (?:del )?{year})?", "before {month} {year}"),
        ("dopo (?:il|l') {day} {month}(?: (?:del )?{year})?", "after {day} {month} {year}"),
        ("dopo {month}(?: (?:del )?{year})?", "after {month} {year}"),
        ("(?:il |l' |del |dell' )?{day} {month}(?: (?:del )?{year})?", "{day} {month} {year}"),
        (
            "(?:all' )?inizio (?:di |del )?(?:{month}(?: (?:del )?{year})?|{year})",
            "early {month} {year}",
        ),
        ("(?:a )?metà (?:di |del )?(?:{month}(?: (?:del )?{year})?|{year})", "mid {month} {year}"),
        (
            "(?:alla |a )?fine (?:di |del )?(?:{month}(?: (?:del )?{year})?|{year})",
            "late {month} {year}",
        ),
        ("(?:a |in |nel )?{month} (?:del )?{year}", "{month} {year}"),
        ("(?:a|in|nel {unit} di) {month}|(?:lo )?scorso {month}|{month} scorso", "in {month}"),
        ("(?:in |nell' |nella |l' |la )?{season} (?:del )?{year}", "{season} {year}"),
        ("(?:la |l' |lo )?scors[oa] {season}|(?:la |l' )?{season} scors[oa]", "last {season}"),
        ("(?:quest'|questa|questo|in) {season}", "this {season}"),
        ("(?:{one} )?mezz' {unit} fa", "half an hour ago"),
        ("(?:qualche|alcuni|alcune|parecchi) {unit} fa", "few {unit} ago"),
        ("{one} paio di {unit} fa", "couple {unit} ago"),
        ("(?:circa )?{count} {unit} fa", "{count} {unit} ago"),
        (
            "(?:negli|nelle|nei|gli|le|i) ultim[ie] {count} {unit}",
            "last {count} {unit}",
        ),
        ("(?:negli|nelle|nei|gli|le|i) ultim[ie] {unit}", "last few {unit}"),
        ("(?:la |lo |l' |il )?(?:scors[oa] {unit}|{unit} (?:scors[oa]|passat[oa]))", "last {unit}"),
        ("(?:questa|questo|quest') {unit}", "this {unit}"),
        ("{weekday} scors[oa]|(?:lo |la )?scors[oa] {weekday}", "last {weekday}"),
        # no preposition: "Che cosa ho detto lunedì?"
        ("(?:(?:di|questo|questa|il|la) )?{weekday}", "on {weekday}"),
        ("(?:nel|nell' {unit}) {year}", "in {year}"),
        ("(?:a )?natale (?:del )?{year}", "christmas {year}"),
    ),
    ordinals=("o", "a"),
)

ITALIAN = Language(
    code="it",
    name="Italian",
    stemmer="italian",
    times=_TIMES,
    function_words="""
        dobbiamo dovete devono doveva dovevano dovrebbe dovrebbero potete possono poteva potevano
        potremmo potrebbero vuole vogliamo volete vogliono voleva vorrei vorrebbe cose
        il lo la i gli le l un uno una del dello della dei degli delle dell al allo alla ai agli
        alle all dal dallo dalla dai dagli dalle dall nel nello nella nei negli nelle nell sul sullo
        sulla sui sugli sulle sull col
        questo questa questi queste quest quello quella quelli quelle quel quei quegli ciò
        egli lui lei esso essa essi loro gli ne ci vi si sé suo sua suoi sue
        qualcuno qualcosa nulla niente nessuno nessuna ogni tutto tutta tutti tutte altro altra
        altri altre stesso stessa stessi stesse alcuni alcune qualche tale tali
        essere stato stata stati state essendo avere avuto sia siano sarà saranno sarebbe avrebbe
        di a da in con su per tra fra d verso senza sotto sopra dopo prima durante contro fino
        e ed o od ma però né che se perché poiché quindi mentre come anche affinché
        non più meno molto molta molti molte poco poca pochi poche tanto tanta tanti tante troppo
        già ancora sempre mai qui qua lì là allora poi ora adesso solo così bene sì no circa favore
        c
    """,
    question_words="""
        chi che cosa cos quale quali qual quando dove dov come com perché quanto quanta quanti
        quante è sono era erano sei siamo siete ero eravamo ha ho hai hanno abbiamo avete aveva
        avevano avevo avevi c'è c'era posso puoi può possiamo potrei potresti potrebbe devo devi
        deve dovrei dovresti dovremmo voglio vuoi
    """,
    personal_words="""
        io me mi mio mia miei mie noi nostro nostra nostri nostre tu te ti tuo tua tuoi tue
        voi vostro vostra m t
    """,
    opening_verbs="""
        dimmi ricordi ricordami ricorda mostrami raccontami dammi consiglia consigliami consigli
        suggerisci suggeriscimi raccomanda raccomandami trova cerca pianifica aiutami
    """,
    frames=(
        # "Quando abbiamo parlato di …"
        "(?:abbiamo|ho|hai|avete) (?:(?:già|mai) )?(?:parlato|discusso|menzionato|detto|chiesto)",
        # "Cosa ho scritto su …", but not "Quando ho scritto ad Anna?"
        "(?:scritto|scrissi|scrisse|scriveva|annotato)(?=(?: (?:qualcosa|niente|nulla))? "
        "(?:su|sul|sullo|sull|sulla|sui|sugli|sulle|di|del|dello|dell|della|dei|degli|delle))",
        "^(?:riassumi|riassumimi)",
        "^(?:consiglia|consigliami|suggerisci|suggeriscimi|raccomanda|raccomandami)",
        "^(?:(?:la|mia|nostra|quella) )*(?:conversazione|chat|discussione)"
        " (?:su|sul|sulla|sui|sulle|dove|in cui)",
        "come si (?:fa|fanno)",
        "si (?:trova|trovano|trovava|trovare)",
        "detto|disse|menzionato|raccontato",
        "(?:ti|si) ricord[ia]",
        "(?:dimmi|ricordami|raccontami|mostrami)",
        "(?:puoi|potresti|può|potrebbe) (?:dirmi|ricordarmi|mostrarmi|aiutarmi|dire)",
        "(?:mi puoi|mi potresti) (?:dire|ricordare|mostrare)",
        "(?:sai|sapresti)",
        "che (?:tipo|genere|cosa)(?: di)?",
        "(?:da )?quanto tempo",
        "quant[eio] (?:volte|giorni|settimane|mesi|anni)",
        "(?:nostra|nostre|mia|tua) (?:ultima|precedente|scorsa) (?:conversazione|chat|discussione)",
        "in totale",
        "(?:giorni|giorno|settimane|settimana|mesi|mese|anni|anno|ore|ora) fa",
        "(?:giorno|settimana|mese|anno|volta|fine settimana) (?:scors[oa]|passat[oa]|prossim[oa])",
        "(?:scors[oa]|ultim[oa]|prossim[oa]) (?:giorno|settimana|mese|anno|volta|fine settimana)",
        "quest(?:o|a|') ?(?:settimana|mese|anno|volta)",
    ),
    requests=(
        r"consigli\w*",
        r"sugger\w*",
        r"raccomand\w*",
        "devo|dovrei|dobbiamo|dovremmo|bisogna|si deve|come (?:posso|potrei|faccio)",
        "aiutami",
        r"(?:pianifica|organizza|programma)\w*",
        "(?:qualche )?(?:idea|idee)",
    ),
    asks_time=(
        "quando",
        "(?:che|quale) (?:giorno|data|mese|anno|ora)",
        "a che ora",
    ),
    asks_number=("quant[oaie]",),
    asks_rule=(
        "posso|possiamo|devo|dobbiamo|dovrei|dovremmo|si può|si deve|si devono|bisogna",
        "deve|devono|dovrebbe|dovrebbero",
        "(?:è|sono) (?:permess|vietat|consentit)[oaie]",
        "preferisco|preferiamo|mi piace|ci piace",
        "(?:mia|mie|nostra|nostre) (?:preferenz|regol)[ae]",
    ),
    statements="sempre mai preferisco preferito preferita adoro odio evita evito",
    standing_instructions=(
        "sempre|mai|d'ora in poi|da ora in poi|da adesso in poi|in futuro",
        "(?:per favore,? )?(?:non )?\\w+ (?:sempre|mai)",
        "(?:quando|ogni volta che) (?:ti )?(?:chiedo|chiederò)",
    ),
    asks_assistant=(
        r"(?:hai|avevi|ha)\b[^.?!]{0,40}\b(?:consigliat|suggerit|raccomandat|dett|menzionat|dat"
        r"|scritt|elencat|spiegat|descritt|creat|condivis|aiutat|rispost|propost)\w*",
        r"(?:nostra|nostro|tua|tuo) (?:ultima|ultimo|precedente)",
        "ricordami",
        "assistente",
        r"(?:chatgpt|claude|gemini|codex) (?:ha|mi ha)\b[^.?!]{0,30}\b(?:detto|suggerito"
        r"|consigliato|scritto)",
    ),
    events="""
        fatto fare successo accaduto lavorato parlato discusso detto chiesto scritto cambiato
        finito completato riassunto qualcosa tutto cosa cose conversazione conversazioni messaggio
        messaggi argomento argomenti mostra mostrami
    """,
    irregular_forms="""
andare vado vai va andiamo vanno andato andata|aprire aperto|bere bevo beve bevuto|chiedere chiesto
chiudere chiuso|correre corso|dare diede dato|decidere deciso|dire dico dice disse detto
fare faccio fai fa fanno fece fatto|leggere letto|mettere messo|morire morto muore|muovere mosso
nascere nato|perdere perso|piacere piaciuto|prendere preso|proporre proposto|ridere riso
rimanere rimasto|rispondere risposto|rompere rotto|sapere sai|scegliere scelto|scendere sceso
scrivere scritto|spendere speso|stare sto sta stanno|togliere tolto
uscire esco esce uscito|vedere visto vedo|venire vengo viene venuto|vincere vinto
vivere vissuto|volere voglio vuole|offrire offerto|raccogliere raccolto|cuocere cotto
uovo uova|uomo uomini|dito dita|braccio braccia|città
""",
    joiners="'",
    typical_words="""
        fa scorso scorsa prossimo detto parlato comprato chiesto chiama chiamava ultimo
        ultima fatto consigliato
        costava funziona significa
    """,
    letters="àèìòù",
)
