"""French."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "janvier janv",
        "février févr",
        "mars",
        "avril avr",
        "mai",
        "juin",
        "juillet juil",
        "août aout",
        "septembre",
        "octobre oct",
        "novembre nov",
        "décembre déc",
    ),
    weekdays=("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    numbers=(
        "un une",
        "deux",
        "trois",
        "quatre",
        "cinq",
        "six",
        "sept",
        "huit",
        "neuf",
        "dix",
        "onze",
        "douze",
    ),
    seasons={
        "printemps": "spring",
        "été": "summer",
        "automne": "autumn",
        "hiver": "winter",
    },
    units={
        "minute": "minute",
        "minutes": "minute",
        "heure": "hour",
        "heures": "hour",
        "jour": "day",
        "jours": "day",
        "semaine": "week",
        "semaines": "week",
        "mois": "month",
        "an": "year",
        "ans": "year",
        "année": "year",
        "années": "year",
        "weekend": "weekend",
    },
    moments={
        "aujourd'hui": "today",
        "ce matin": "this morning",
        "cet après-midi": "this afternoon",
        "ce soir": "this evening",
        "hier": "yesterday",
        "hier matin": "yesterday morning",
        "hier après-midi": "yesterday afternoon",
        "hier soir": "last night",
        "cette nuit": "last night",
        "la nuit dernière": "last night",
        "avant-hier": "day before yesterday",
        "récemment": "recently",
        "dernièrement": "recently",
        "ces derniers temps": "recently",
        "l'autre jour": "the other day",
        "depuis hier": "since yesterday",
        "à noël": "at christmas",
        "le week-end dernier": "last weekend",
        "ce week-end": "last weekend",
    },
    rules=(
        (
            "(?:en |au {unit} de |au {unit} d' )?{month} (?:de )?(?:l' )?{unit} prochaine?",
            "in {month} next {unit}",
        ),
        ("(?:en )?{month} (?:de )?(?:l' )?{unit} (?:derniere?|passee?)", "{month} last {unit}"),
        ("(?:en )?{month} de cette {unit}", "{month} this {unit}"),
        ("{weekday} de la {unit} (?:derniere|passee)", "{weekday} last {unit}"),
        ("(?:le )?{weekday} {day} {month}(?: {year})?", "{day} {month} {year}"),
        (
            "entre {month}(?: {year})? et {month2}(?: {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        (
            "(?:de |d' ){month}(?: {year})? à {month2}(?: {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        ("depuis le {day} {month}(?: {year})?", "since {day} {month} {year}"),
        ("depuis {month}(?: {year})?", "since {month} {year}"),
        ("depuis (?:la |le |l' ){unit} derniere?", "since last {unit}"),
        ("depuis {weekday}", "since {weekday}"),
        ("depuis {year}", "since {year}"),
        ("avant le {day} {month}(?: {year})?", "before {day} {month} {year}"),
        ("avant {month}(?: {year})?", "before {month} {year}"),
        ("après le {day} {month}(?: {year})?", "after {day} {month} {year}"),
        ("après {month}(?: {year})?", "after {month} {year}"),
        ("(?:le |du |au )?{day} {month}(?: {year})?", "{day} {month} {year}"),
        (
            "(?:au )?début (?:de |d' )?(?:l' {unit} )?(?:{month}(?: {year})?|{year})",
            "early {month} {year}",
        ),
        ("(?:à la )?mi - {month}(?: {year})?", "mid {month} {year}"),
        ("(?:à la )?fin (?:de |d' )?(?:{month}(?: {year})?|{year})", "late {month} {year}"),
        ("(?:en |au {unit} de |au {unit} d' )?{month} {year}", "{month} {year}"),
        ("(?:en|au {unit} de|au {unit} d') {month}", "in {month}"),
        ("{month} dernier", "in {month}"),
        ("(?:au |en |à l' |l' )?{season} {year}", "{season} {year}"),
        ("(?:le |l' |au )?{season} dernier", "last {season}"),
        ("(?:ce|cet|au|en|à l') {season}", "this {season}"),
        ("il y a (?:environ |à peu près |déjà )?{one} demi - {unit}", "half an hour ago"),
        ("il y a (?:environ )?(?:quelques|plusieurs) {unit}", "few {unit} ago"),
        ("il y a (?:environ |à peu près |déjà )?{count} {unit}", "{count} {unit} ago"),
        ("(?:ces|les|des|aux?) {count} (?:derniers|dernières) {unit}", "last {count} {unit}"),
        ("(?:ces|les|des) (?:derniers|dernières) {unit}", "last few {unit}"),
        ("(?:la |le |l' )?{unit} (?:derniere?|passee?|precedente?)", "last {unit}"),
        ("(?:cette|ce|cet) {unit}", "this {unit}"),
        ("{weekday} (?:dernier|passé)", "last {weekday}"),
        ("(?:(?:ce|le) )?{weekday}", "on {weekday}"),  # no preposition: "Qu'ai-je dit lundi ?"
        ("(?:en|en l' {unit}) {year}", "in {year}"),
        ("(?:à|a) noël {year}|noël {year}", "christmas {year}"),
    ),
    ordinals=("er",),
)

FRENCH = Language(
    code="fr",
    name="French",
    stemmer="french",
    times=_TIMES,
    function_words="""
        le la les l un une des du de d au aux ce cet cette ces cela ça ceci
        il elle on ils elles lui leur leurs eux se s soi son sa ses y en
        quelqu'un quelque quelques chose rien tout tous toute toutes personne chacun chaque aucun
        aucune autre autres même mêmes tel telle certain certains certaines plusieurs
        été étant être avoir eu ayant soit sera seront serait seraient aura auront aurait
        fait faire faut fallait
        devez doivent devais devait devaient devrions devraient peuvent pouvait pouvaient pourrions
        pourraient voulons voulez veulent voulait voudrais voudrait faudra faudrait choses
        à a dans par pour sur sous avec sans chez vers entre depuis pendant avant après contre dès
        jusque jusqu jusqu'à lors malgré parmi selon devant derrière
        et ou mais donc or ni car si que qu puisque lorsque lorsqu parce comme afin quoique
        ne n pas plus moins non oui très trop peu beaucoup assez aussi encore déjà toujours jamais
        souvent ici là bien juste alors puis ensuite maintenant c svp plaît
    """,
    question_words="""
        qui que quoi quel quelle quels quelles quand où ou comment pourquoi combien lequel laquelle
        lesquels lesquelles est es est-ce qu'est-ce sont était étaient étais suis sommes êtes ont ai
        as avons avez avait avaient avais avions peux peut pouvons pouvez pourrait pourrais
        dois doit devrais devrait devons veux veut
    """,
    personal_words="""
        je j me m moi mon ma mes nous notre nos tu te t toi ton ta tes vous votre vos
    """,
    opening_verbs="""
        dis dites dis-moi dites-moi rappelle rappelle-moi montre montre-moi donne donne-moi
        souviens-tu rappelles-tu recommande recommande-moi recommandes-tu suggère suggère-moi
        propose propose-moi conseille conseille-moi trouve cherche planifie
    """,
    frames=(
        # "Quand avons-nous parlé de …"
        "(?:avons-nous|ai-je|as-tu|avez-vous|on a|j'ai|nous avons) (?:(?:déjà|jamais) )?"
        "(?:parlé|discuté|mentionné|évoqué|dit|demandé)",
        # "Qu'ai-je écrit sur …", but not "Quand ai-je écrit à Anna ?"
        "(?:écrit|écrivais|écrivait|noté)(?=(?: quelque chose)? (?:sur|à propos|au sujet))",
        "^(?:résume|résumez)(?:-(?:moi|nous))?",
        "^(?:recommande|conseille|suggère)(?:-(?:moi|nous))?",
        "^(?:(?:la|le|ma|mon|notre|cette) )?(?:conversation|discussion|chat) (?:sur|où|à propos)",
        "à propos (?:de|du|des)",
        "(?:se|s) (?:trouve|trouvent|trouvait|trouver|situe|situent|situer)",
        "dit|disait|dis|raconté|mentionné",
        "(?:te|vous) (?:souviens|souvenez|rappelles|rappelez)(?:-(?:tu|vous))?",
        "(?:tu te|vous vous) (?:souviens|souvenez|rappelles|rappelez)",
        "(?:rappelle|dis|montre|raconte|explique)-moi",
        "(?:peux|pourrais|pouvez|pourriez)-(?:tu|vous) (?:me |nous )?"
        "(?:dire|rappeler|montrer|aider)",
        "(?:sais-tu|savez-vous|tu sais)",
        "qu'est-ce (?:que|qu)",
        "est-ce (?:que|qu)",
        "quelle? (?:sorte|type|genre)s? (?:de|d)",
        "(?:depuis )?combien de (?:temps|fois|jours|semaines|mois|années|ans)",
        "combien (?:de|d)",
        "(?:notre|nos|ma|mon|votre) (?:dernière?s?|précédente?s?) "
        "(?:conversation|discussion|échange)s?",
        "au total",
        "il y a (?:[0-9a-z]+ )?(?:jours?|semaines?|mois|ans?|années?|heures?)",
        "(?:jour|semaine|mois|an|année|week-end|fois) (?:dernier|passé|prochain|précédent)e?",
        "(?:cette|ce|cet) (?:semaine|mois|année|week-end|fois)",
        "il y (?:a|avait)",
    ),
    requests=(
        r"recommand\w*",
        r"sugg[eè]r\w*",
        r"conseil\w*",
        r"propos\w*-(?:moi|nous)",
        "(?:devrais|dois|puis|pourrais|devrions|pourrions)-(?:je|nous)",
        "faut-il|peut-on|comment faire",
        "aide-moi",
        r"(?:planifie|prévois|organise)\w*",
        "(?:des |une )?(?:idées?|astuces?)",
    ),
    asks_time=(
        "quand",
        "quel(?:le)? (?:jour|date|mois|année|heure)",
    ),
    asks_number=(
        "combien",
        "quel âge",
    ),
    asks_rule=(
        "faut-il|peut-on|doit-on|(?:puis|dois|devrais|pourrais)-je|(?:pouvons|devons)-nous",
        "(?:doit|doivent|devrait|devraient)",
        "(?:je|on|nous) (?:préfère|préférons|aime|aimons|veux|veut|voulons)",
        "est-il (?:permis|interdit)|a-t-on le droit",
        "(?:ma|mes|notre|nos) (?:préférence|règle|convention)s?",
    ),
    statements="toujours jamais préfère préféré adore aime déteste évite",
    standing_instructions=(
        "désormais|dorénavant|à partir de maintenant|à l'avenir",
        "(?:s'il te plaît,? )?(?:n')?(?:ne )?\\w+(?:-moi)? (?:toujours|jamais)",
        "(?:quand|chaque fois que) je (?:te |demande)",
    ),
    asks_assistant=(
        r"(?:tu|vous)\b[^.?!]{0,60}\b(?:recommand|suggér|conseill|propos|dit|mentionn|donn|écri"
        r"|list|expliqu|décri|cré|partag|aidé|répon)\w*",
        r"(?:m'as|m'avez|as-tu|avez-vous)\b[^.?!]{0,60}\b(?:recommand|suggér|conseill|propos|dit"
        r"|mentionn|donn|écri|list|expliqu|décri|cré|partag|aidé|répon)\w*",
        "(?:notre|nos|votre) (?:dernière?s?|précédente?s?)",
        "rappelle-moi",
        "assistante?",
        r"(?:chatgpt|claude|gemini|codex) (?:a|m'a)\b[^.?!]{0,30}\b(?:dit|sugg\w*|recommand\w*"
        r"|propos\w*|écrit)",
    ),
    events="""
        fait faits faire faisait passé arrivé travaillé travailler parlé parler discuté dit
        demandé écrit changé modifié terminé accompli résumé résume aperçu chose choses tout
        conversation conversations discussion discussions message messages sujet sujets montre
    """,
    irregular_forms="""
aller vais va vont allé allée allés irai ira|boire bu bois boit buvais|croire cru crois croit
dire dit dis disait disais|dormir dors|écrire écrit écris écrivait|lire lu lis lit
mettre mis mets|ouvrir ouvert|offrir offert|partir pars part|prendre pris prends prend prenait
apprendre appris apprends apprend|comprendre compris|perdre perdu|recevoir reçu reçois reçoit
rendre rendu|savoir sais sait|sortir sors sort|tenir tenu|venir venu venue viens vient
revenir revenu|vendre vendu|vivre vécu vis vit|voir vu vois voit|vouloir voulu|courir couru
connaître connu connais connaît|conduire conduit|construire construit|suivre suivi
répondre répondu|attendre attendu|choisir choisi|finir fini|mourir mort|naître née
payer payé paie paye|acheter acheté achète|appeler appelle appelé|œil yeux|cheval chevaux
travail travaux|animal animaux|journal journaux
""",
    irregular_endings="e es s",
    stem_spellings=(
        ("al$", "aux"),  # hôpitaux
        ("x$", "s"),  # heureuse
        ("i$", "y"),  # essayer
    ),
    joiners="'-",
    endings={"ee": "e", "ees": "e"},
    typical_words="""
        dernier dernière passé prochain souviens rappelles dit parlé acheté demandé hier
        semaine prévu choisi trouvé
        coûte coûté fonctionne signifie
    """,
    letters="àâçèêëîïôùûœ",
)
