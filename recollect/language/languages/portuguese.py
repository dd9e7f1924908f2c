"""Portuguese, as written in Brazil and in Portugal."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "janeiro",
        "fevereiro",
        "março",
        "abril",
        "maio",
        "junho",
        "julho",
        "agosto",
        "setembro",
        "outubro",
        "novembro",
        "dezembro",
    ),
    weekdays=(
        "segunda segunda-feira",
        "terça terça-feira",
        "quarta quarta-feira",
        "quinta quinta-feira",
        "sexta sexta-feira",
        "sábado",
        "domingo",
    ),
    numbers=(
        "um uma",
        "dois duas",
        "três",
        "quatro",
        "cinco",
        "seis",
        "sete",
        "oito",
        "nove",
        "dez",
        "onze",
        "doze",
    ),
    seasons={
        "primavera": "spring",
        "verão": "summer",
        "outono": "autumn",
        "inverno": "winter",
    },
    units={
        "minuto": "minute",
        "minutos": "minute",
        "hora": "hour",
        "horas": "hour",
        "dia": "day",
        "dias": "day",
        "semana": "week",
        "semanas": "week",
        "mês": "month",
        "meses": "month",
        "ano": "year",
        "anos": "year",
    },
    moments={
        "hoje": "today",
        "hoje de manhã": "this morning",
        "esta manhã": "this morning",
        "hoje à tarde": "this afternoon",
        "esta tarde": "this afternoon",
        "hoje à noite": "this evening",
        "esta noite": "tonight",
        "ontem": "yesterday",
        "ontem de manhã": "yesterday morning",
        "ontem à tarde": "yesterday afternoon",
        "ontem à noite": "last night",
        "noite passada": "last night",
        "anteontem": "day before yesterday",
        "antes de ontem": "day before yesterday",
        "recentemente": "recently",
        "ultimamente": "recently",
        "há pouco tempo": "recently",
        "outro dia": "the other day",
        "no outro dia": "the other day",
        "semana retrasada": "week before last",
        "desde ontem": "since yesterday",
        "no natal": "at christmas",
        "natal passado": "at christmas",
    },
    rules=(
        (
            "(?:no |o )?(?:último )?(?:fim|final) de {week}(?: passado)?",
            "last weekend",
        ),
        (
            "(?:em )?{month} do (?:próximo {unit}|{unit} (?:que vem|próximo))",
            "in {month} next year",
        ),
        ("(?:em )?{month} do {unit} passado", "{month} last {unit}"),
        ("(?:em )?{month} deste {unit}", "{month} this {unit}"),
        ("(?:na |no )?{weekday}(?: - feira)? da {unit} passada", "{weekday} last {unit}"),
        (
            "(?:na |no )?{weekday}(?: - feira)?(?: ,)? {day} de {month}(?: de {year})?",
            "{day} {month} {year}",
        ),
        (
            "entre {month}(?: de {year})? e {month2}(?: de {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        (
            "(?:de|desde) {month}(?: de {year})? (?:a|até) {month2}(?: de {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        ("desde (?:o dia |o )?{day} de {month}(?: de {year})?", "since {day} {month} {year}"),
        ("desde {month}(?: de {year})?", "since {month} {year}"),
        ("desde (?:a |o ){unit} passad[oa]", "since last {unit}"),
        ("desde {weekday}(?: - feira)?", "since {weekday}"),
        ("desde {year}", "since {year}"),
        ("antes (?:do dia|de|do) {day} de {month}(?: de {year})?", "before {day} {month} {year}"),
        ("antes de {month}(?: de {year})?", "before {month} {year}"),
        ("depois (?:do dia|de|do) {day} de {month}(?: de {year})?", "after {day} {month} {year}"),
        ("depois de {month}(?: de {year})?", "after {month} {year}"),
        (
            "(?:(?:no|o|em|a|do) (?:{unit} )?|{unit} )?{day} de {month}(?: de {year})?",
            "{day} {month} {year}",
        ),
        (
            "(?:no )?(?:início|começo|princípio) de (?:{month}(?: de {year})?|{year})",
            "early {month} {year}",
        ),
        ("(?:em )?meados de (?:{month}(?: de {year})?|{year})", "mid {month} {year}"),
        ("(?:no )?(?:final|fim|fins) de (?:{month}(?: de {year})?|{year})", "late {month} {year}"),
        ("(?:em )?{month} de {year}", "{month} {year}"),
        ("(?:em|no {unit} de) {month}|{month} passado", "in {month}"),
        ("(?:no |na )?{season} de {year}", "{season} {year}"),
        ("(?:no |na |o |a )?{season} passad[oa]", "last {season}"),
        ("(?:neste|nesta|este|esta|no|na) {season}", "this {season}"),
        ("há (?:alguns|algumas|uns|umas|vários|várias) {unit}(?: atrás)?", "few {unit} ago"),
        ("(?:alguns|algumas|uns|umas) {unit} atrás", "few {unit} ago"),
        ("há {one} par de {unit}", "couple {unit} ago"),
        ("há meia {unit}", "half an hour ago"),
        ("(?:há|faz) (?:cerca de |uns |umas )?{count} {unit}(?: atrás)?", "{count} {unit} ago"),
        ("{count} {unit} atrás", "{count} {unit} ago"),
        (
            "(?:nos |nas |os |as )?(?:últimos|últimas) {count} {unit}",
            "last {count} {unit}",
        ),
        ("(?:nos |nas |os |as )(?:últimos|últimas) {unit}", "last few {unit}"),
        (
            "(?:na |no |a |o )?(?:{unit} passad[oa]|passad[oa] {unit}|últim[oa] {unit})",
            "last {unit}",
        ),
        ("(?:esta|este|nesta|neste|essa|esse|nessa|nesse) {unit}", "this {unit}"),
        ("(?:na |no )?{weekday}(?: - feira)? passad[oa]", "last {weekday}"),
        ("(?:na|no|nesta|neste) {weekday}(?: - feira)?", "on {weekday}"),
        ("(?:em|no {unit} de) {year}", "in {year}"),
        ("(?:no )?natal de {year}", "christmas {year}"),
    ),
    ordinals=("o", "a"),
)

PORTUGUESE = Language(
    code="pt",
    name="Portuguese",
    stemmer="portuguese",
    times=_TIMES,
    function_words="""
        devemos devem deviam deveriam podem podia podiam poderiam queremos querem queria queriam
        coisa coisas
        o a os as um uma uns umas do da dos das no na nos nas ao à aos às pelo pela pelos pelas num
        numa dum duma
        este esta isto estes estas esse essa isso esses essas aquele aquela aquilo aqueles aquelas
        deste desta disto desse dessa disso daquele daquela neste nesta nisto nesse nessa naquele
        ele ela eles elas lhe lhes se si seu sua seus suas dele dela deles delas
        alguém algo nada ninguém tudo todo toda todos todas cada nenhum nenhuma outro outra outros
        outras mesmo mesma mesmos mesmas algum alguma alguns algumas tal
        ser sido sendo estar estado ter tido haver houve seja será serão seria teria
        de em por para pra com sem sob sobre entre até desde contra após antes depois durante
        perante
        e ou mas nem que porque pois se embora enquanto como quando
        não muito muita muitos muitas mais menos pouco pouca tão tanto também já ainda sempre nunca
        aqui ali lá aí então agora só apenas bem sim quase favor há
    """,
    question_words="""
        quem qual quais quê que quando onde aonde como quanto quanta quantos quantas porquê
        é são era eram foi foram sou és somos está estão estava estavam estou estás tem têm tenho
        tens temos tinha tinham tinhas posso pode podes podemos poderia poderias devo deve deves
        devia deveria deveríamos quero queres quer
    """,
    personal_words="""
        eu me mim meu minha meus minhas comigo nós nosso nossa nossos nossas tu te ti teu tua teus
        tuas contigo você vocês vos vosso vossa conosco connosco
    """,
    opening_verbs="""
        diga diga-me diz diz-me lembra lembra-te lembras-te lembre lembre-me mostre mostra mostra-me
        conte recomende recomenda recomenda-me recomendas sugira sugere sugere-me procure procura
        encontre planeje planeie planeia ajude ajude-me ajuda-me dê
    """,
    frames=(
        # "Quando falamos sobre …"
        "(?:falamos|falei|conversamos|conversei|discutimos|mencionamos|mencionei|dissemos)"
        " (?:de|do|da|sobre)",
        # "O que escrevi sobre …", but not "Quando escrevi para a Ana?"
        "(?:escrevi|escreveste|escreveu|escrevemos|escrito|anotei|anotado)"
        "(?=(?: (?:algo|nada|tudo))? (?:de|do|da|dos|das|sobre|acerca))",
        "^(?:resume|resuma)",
        "^(?:recomenda|recomende|sugere|sugira)(?:-me)?",
        "^(?:(?:a|minha|nossa|aquela) )*(?:conversa|discussão|chat) (?:sobre|onde|em que)",
        "se (?:encontra|encontram|encontrava|encontrar)",
        "disse|disseste|disseram|dito|mencionei|mencionou",
        "(?:você )?(?:se )?lembr(?:a|as|as-te|a-te|e|e-me|a-me)(?: de| quando)?",
        "(?:diga|diz|mostre|mostra|conte|conta)-?me",
        "me (?:diga|diz|mostre|conte|lembre|lembra)",
        "(?:pode|podes|poderia|podias|consegue) (?:me )?(?:dizer|lembrar|mostrar|ajudar)(?:-me)?",
        "(?:sabe|sabes|você sabe)",
        "que (?:tipo|espécie|género|gênero)s? de",
        "(?:há )?quanto tempo",
        "quant[oa]s (?:vezes|dias|semanas|meses|anos)",
        "(?:nossa|nossas|minha|tua|sua) (?:última|anterior)s? (?:conversa|discussão|chat)s?",
        "no total",
        "(?:há|faz) (?:[0-9a-z]+ )?(?:dias?|semanas?|mês|meses|anos?|horas?)",
        "(?:dias?|semanas?|mês|meses|anos?|horas?) atrás",
        "(?:dia|semana|mês|ano|vez|fim de semana) (?:passad[oa]|próxim[oa])",
        "(?:próxim[oa]|últim[oa]) (?:dia|semana|mês|ano|vez|fim de semana)",
        "(?:n?est[ae]|n?ess[ae]) (?:semana|mês|ano|vez|fim de semana)",
    ),
    requests=(
        r"recomend\w*",
        r"sug(?:er|ir)\w*",
        r"aconselh\w*|conselhos?",
        "devo|deveria|devemos|deveríamos|tenho que|preciso|é preciso|como (?:posso|faço)",
        "ajud[ae](?:-me)?",
        r"(?:planej|plane|organiz)\w*",
        "(?:alguma )?(?:ideias?|dicas?)",
    ),
    asks_time=(
        "quando",
        "que (?:dia|data|mês|ano|horas?)",
    ),
    asks_number=("quant[oa]s?",),
    asks_rule=(
        "posso|podemos|pode-se|devo|devemos|deveria|deve-se|tenho que|temos que",
        "deve|devem|deveriam",
        "(?:é|são) (?:permitid|proibid)[oa]s?",
        "prefiro|preferimos|gosto|gostamos",
        "(?:minha|minhas|nossa|nossas) (?:preferência|regra)s?",
    ),
    statements="sempre nunca prefiro favorito favorita adoro odeio evite evito",
    standing_instructions=(
        "sempre|nunca|a partir de agora|de agora em diante|daqui em diante",
        "(?:por favor,? )?(?:não )?\\w+ (?:sempre|nunca)",
        "(?:quando|sempre que) eu (?:te )?(?:perguntar|pedir)",
    ),
    asks_assistant=(
        r"(?:tu|você|me)\b[^.?!]{0,60}\b(?:recomendaste|recomendou|sugeriste|sugeriu|disseste|disse"
        r"|mencionaste|mencionou|deste|deu|escreveste|escreveu|aconselhaste|aconselhou|explicaste"
        r"|explicou|descreveste|descreveu|criaste|criou|partilhaste|compartilhou|respondeste"
        r"|respondeu|propuseste|propôs|listou)",
        "(?:recomendaste|sugeriste|disseste|mencionaste|escreveste|aconselhaste|explicaste"
        "|respondeste|propuseste)",
        "(?:nossa|nosso|tua|sua) (?:última|último|anterior)",
        "lembre-me|me lembre",
        "assistente",
        r"(?:chatgpt|claude|gemini|codex)\b[^.?!]{0,30}\b(?:disse|sugeriu|recomendou|escreveu)",
    ),
    events="""
        fizemos fiz fez fazer feito aconteceu passou trabalhamos trabalhei trabalhado conversamos
        falamos falei discutimos disse perguntei escrevi mudou terminamos terminei resumo algo
        tudo coisas conversa conversas mensagem mensagens assunto assuntos mostra mostre
    """,
    irregular_forms="""
ir vou vai vamos vão fui foi fomos foram ido ia|dar dou dei deu deram dado
dizer digo diz disse disseram dito|fazer faço faz fiz fez fizeram feito
haver houve|ler leio leu lido|perder perco perde|poder posso pode pude pôde
pôr ponho põe pus pôs posto|querer quero quer quis|saber sabe soube|sair saio sai saiu
ter tenho tem tive teve tiveram|trazer trago traz trouxe trouxeram|ver vejo vê vi viu viram visto
vir venho vem vim veio vieram|escrever escrito|abrir aberto|dormir durmo|ouvir ouço
pedir peço|preferir prefiro|seguir sigo|sentir sinto|servir sirvo|subir sobe|pagar paguei pago
chegar cheguei|comprar comprei|ficar fiquei|buscar busquei|começar comecei|propor propôs proposto
ganhar ganho ganhei|gastar gasto gastei|mão mãos|pão pães|cão cães|alemão alemães|capitão capitães
""",
    joiners="-",
    endings={"oes": "ao", "aes": "ao"},
    stem_spellings=(("ao?$", "oe"), ("ao?$", "ae")),  # reuniões, pães
    typical_words="""
        passado passada próximo disse disseste dissemos falei falamos falámos comprei perguntei
        chama chamava último última faz atrás
        custa custou funciona significa
    """,
    letters="ãõâêôç",
)
