"""Spanish."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_TIMES = TimeWords(
    months=(
        "enero",
        "febrero",
        "marzo",
        "abril",
        "mayo",
        "junio",
        "julio",
        "agosto",
        "septiembre setiembre",
        "octubre",
        "noviembre",
        "diciembre",
    ),
    weekdays=("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    numbers=(
        "un uno una",
        "dos",
        "tres",
        "cuatro",
        "cinco",
        "seis",
        "siete",
        "ocho",
        "nueve",
        "diez",
        "once",
        "doce",
    ),
    seasons={
        "primavera": "spring",
        "verano": "summer",
        "otoño": "autumn",
        "invierno": "winter",
    },
    units={
        "minuto": "minute",
        "minutos": "minute",
        "hora": "hour",
        "horas": "hour",
        "día": "day",
        "días": "day",
        "semana": "week",
        "semanas": "week",
        "mes": "month",
        "meses": "month",
        "año": "year",
        "años": "year",
    },
    moments={
        "hoy": "today",
        "esta mañana": "this morning",
        "esta tarde": "this afternoon",
        "esta noche": "tonight",
        "ayer": "yesterday",
        "ayer por la mañana": "yesterday morning",
        "ayer por la tarde": "yesterday afternoon",
        "ayer por la noche": "last night",
        "anoche": "last night",
        "anteayer": "day before yesterday",
        "antes de ayer": "day before yesterday",
        "antier": "day before yesterday",
        "recientemente": "recently",
        "últimamente": "recently",
        "hace poco": "recently",
        "el otro día": "the other day",
        "la semana antepasada": "week before last",
        "desde ayer": "since yesterday",
        "en navidad": "at christmas",
        "por navidad": "at christmas",
        "en navidades": "at christmas",
        "la navidad pasada": "at christmas",
        "las navidades pasadas": "at christmas",
    },
    rules=(
        ("(?:el )?fin de {week} pasado|(?:el|este) (?:pasado )?fin de {week}", "last weekend"),
        (
            "(?:en )?{month} del (?:próximo {unit}|{unit} (?:que viene|próximo))",
            "in {month} next year",
        ),
        ("(?:en |el )?{month} del {unit} pasado", "{month} last {unit}"),
        ("(?:en )?{month} de este {unit}", "{month} this {unit}"),
        ("(?:el )?{weekday} de la {unit} pasada", "{weekday} last {unit}"),
        (
            "(?:el )?{weekday}(?: ,)? {day} de {month}(?: (?:de |del )?{year})?",
            "{day} {month} {year}",
        ),
        (
            "entre {month}(?: de {year})? y {month2}(?: de {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        (
            "(?:de|desde) {month}(?: de {year})? (?:a|hasta) {month2}(?: de {year2})?",
            "between {month} {year} and {month2} {year2}",
        ),
        ("desde el {day} de {month}(?: (?:de |del ){year})?", "since {day} {month} {year}"),
        ("desde {month}(?: (?:de |del ){year})?", "since {month} {year}"),
        ("desde (?:la |el ){unit} pasad[oa]", "since last {unit}"),
        ("desde el {weekday}", "since {weekday}"),
        ("desde {year}", "since {year}"),
        ("antes del {day} de {month}(?: (?:de |del ){year})?", "before {day} {month} {year}"),
        ("antes de {month}(?: (?:de |del ){year})?", "before {month} {year}"),
        ("después del {day} de {month}(?: (?:de |del ){year})?", "after {day} {month} {year}"),
        ("después de {month}(?: (?:de |del ){year})?", "after {month} {year}"),
        (
            "(?:el |del )?(?:{unit} )?{day} de {month}(?: (?:de |del )?{year})?",
            "{day} {month} {year}",
        ),
        (
            "(?:a )?(?:principios|comienzos|inicios) de (?:{month}(?: de {year})?|{year})",
            "early {month} {year}",
        ),
        ("(?:a )?mediados de (?:{month}(?: de {year})?|{year})", "mid {month} {year}"),
        ("(?:a )?(?:finales|fines) de (?:{month}(?: de {year})?|{year})", "late {month} {year}"),
        ("(?:en )?{month} (?:de |del )?{year}", "{month} {year}"),
        ("(?:en|el {unit} de|el pasado|este) {month}|(?:el )?{month} pasado", "in {month}"),
        ("(?:en |el |la )?{season} (?:de |del )?{year}", "{season} {year}"),
        ("(?:el |la )?{season} pasad[oa]|(?:el |la )?pasad[oa] {season}", "last {season}"),
        ("(?:este|esta|en|en el|en la) {season}", "this {season}"),
        ("hace (?:unos|unas|algunos|algunas|varios|varias) {unit}", "few {unit} ago"),
        ("hace {one} par de {unit}", "couple {unit} ago"),
        ("hace media {unit}", "half an hour ago"),
        ("hace medio {unit}", "half a {unit} ago"),
        ("hace (?:unos |unas |como |casi |ya )?{count} {unit}", "{count} {unit} ago"),
        (
            "(?:en )?(?:los|las) (?:últimos|últimas|pasados|pasadas) {count} {unit}",
            "last {count} {unit}",
        ),
        ("(?:en )?(?:los|las) (?:últimos|últimas) {unit}", "last few {unit}"),
        ("(?:la |el )?{unit} pasad[oa]|(?:la |el )?pasad[oa] {unit}", "last {unit}"),
        ("(?:esta|este) {unit}", "this {unit}"),
        ("(?:el )?{weekday} pasado|el pasado {weekday}", "last {weekday}"),
        ("(?:el|este) {weekday}", "on {weekday}"),
        ("(?:en|en el {unit}) {year}", "in {year}"),
        ("(?:en )?navidad(?:es)? (?:de |del )?{year}", "christmas {year}"),
    ),
    ordinals=("o", "a", "er"),
)

SPANISH = Language(
    code="es",
    name="Spanish",
    stemmer="spanish",
    times=_TIMES,
    function_words="""
        debe debemos deben debía debían deberían pueden podía podían podríamos podrían quiere
        queremos quieren quería querían querría cosa cosas
        el la los las lo un una unos unas este esta esto estos estas ese esa eso esos esas aquel
        aquella aquello aquellos aquellas al del
        él ella ellos ellas ello le les se si sí su sus suyo suya alguien algo nada nadie todo toda
        todos todas cada ninguno ninguna ningún otro otra otros otras mismo misma mismos mismas
        algún alguno alguna algunos algunas tal tales uno
        ser sido siendo estar estado estando haber habido habiendo sea sean será serán sería
        hubo hay había haya
        a ante antes bajo con contra de desde durante en entre hacia hasta para por según sin sobre
        tras y e o u pero sino ni que porque pues aunque mientras como si cuando
        no muy más menos mucho mucha muchos muchas poco poca pocos pocas tan tanto tanta también
        tampoco ya aún todavía siempre nunca aquí ahí allí entonces luego ahora solo sólo así bien
        casi favor
    """,
    question_words="""
        qué que quién quien quiénes quienes cuál cual cuáles cuales cuándo cuando dónde donde adónde
        cómo como cuánto cuánta cuántos cuántas cuanto cuanta cuantos cuantas
        es son era eran fue fueron soy eres somos está están estaba estaban estoy estás ha he has
        han hemos había habían tengo tienes tiene tenemos tienen tenía tenías puedo puedes puede
        podemos podría podrías debo debes debería deberías deberíamos quiero quieres
    """,
    personal_words="""
        yo me mi mí mis mío mía conmigo nosotros nosotras nos nuestro nuestra nuestros nuestras tú
        tu te ti tus tuyo tuya contigo vosotros os vuestro vuestra usted ustedes vos
    """,
    opening_verbs="""
        dime dígame recuerdas recuérdame recuerdame acuerdas muéstrame cuéntame dame recomienda
        recomiéndame recomiendas sugiere sugiéreme sugieres busca encuentra planifica planea ayúdame
    """,
    frames=(
        # "¿Cuándo hablamos de …"
        "(?:hablamos|hablé|hemos hablado|he hablado|discutimos|mencionamos|mencioné|dijimos|dije)"
        " (?:de|del|sobre|acerca)",
        # "¿Qué escribí sobre …", but not "¿Cuándo escribí a Ana?"
        "(?:escribí|escribiste|escribió|escribimos|escrito|anoté|anotado)"
        "(?=(?: (?:algo|nada|todo))? (?:de|del|sobre|acerca))",
        "^(?:resume|resúmeme)",
        "^(?:recomienda|recomiéndame|sugiere|sugiéreme)",
        "^(?:(?:la|el|mi|nuestra|esa) )?(?:conversación|charla|chat|discusión)"
        " (?:sobre|acerca|donde|en la que)",
        "se (?:encuentra|encuentran|encontraba|encontrar|ubica|ubican|halla|hallan)",
        "dije|dijo|dijiste|dijeron|dicho|mencioné|mencionó",
        "(?:te|se) (?:acuerdas?|acuerda) (?:de )?",
        "(?:recuerdas|recuerda)",
        "(?:dime|recuérdame|cuéntame|muéstrame|dígame)",
        "(?:puedes|podrías|puede|podría) (?:decirme|recordarme|mostrarme|ayudarme|decir)",
        "(?:me )?(?:puedes|podrías) (?:decir|recordar|mostrar)",
        "(?:sabes|sabe usted)",
        "qué (?:tipo|clase)s? de",
        "(?:cuánto|cuántos|cuántas|cuánta) (?:tiempo|veces|días|semanas|meses|años)",
        "(?:nuestra|nuestras|mi|mis|tu) (?:última|anterior|última|pasada)s? "
        "(?:conversación|charla|discusión|chat)(?:es)?",
        "en total",
        "hace (?:[0-9a-z]+ )?(?:días?|semanas?|meses|mes|años?|horas?)",
        "(?:día|semana|mes|año|vez|fin de semana) (?:pasad[oa]|próxim[oa])",
        "(?:esta|este) (?:semana|mes|año|vez|fin de semana)",
    ),
    requests=(
        r"recom(?:iend|end)\w*",
        r"sug(?:ier|er)\w*",
        r"aconsej\w*|consejos?",
        "debo|debería|deberíamos|tengo que|tenemos que|hay que|cómo (?:puedo|hago)",
        "ayúdame",
        r"(?:planifica|planea|organiza)\w*",
        "(?:alguna )?(?:ideas?|idea)",
    ),
    asks_time=(
        "cuándo",
        "qué (?:día|fecha|mes|año|hora)",
    ),
    asks_number=("cuánt[oa]s?",),
    asks_rule=(
        "puedo|podemos|se puede|se pueden|debo|debemos|debería|deberíamos|hay que",
        "se debe|se deben|debe|deben|tengo que|tenemos que",
        "(?:está|están) (?:permitid|prohibid)[oa]s?",
        "prefiero|preferimos|me gustan?|nos gustan?",
        "(?:mi|mis|nuestra|nuestras) (?:preferencia|regla|norma)s?",
    ),
    statements="siempre nunca prefiero favorito favorita encanta odio evita evito",
    standing_instructions=(
        "siempre|nunca|a partir de ahora|de ahora en adelante|en adelante",
        "(?:por favor,? )?(?:no )?\\w+ (?:siempre|nunca)",
        "(?:cuando|cada vez que) (?:te )?(?:pregunte|pida)",
    ),
    asks_assistant=(
        r"(?:tú|me|usted|nos)\b[^.?!]{0,60}\b(?:recomendaste|sugeriste|dijiste|mencionaste|diste"
        r"|escribiste|aconsejaste|explicaste|describiste|creaste|compartiste|ayudaste"
        r"|respondiste|propusiste|listaste|recomendó|sugirió)",
        r"(?:recomendaste|sugeriste|dijiste|mencionaste|escribiste|aconsejaste|explicaste"
        r"|propusiste|respondiste)",
        "(?:has|habías) (?:recomendado|sugerido|dicho|mencionado|escrito|explicado|propuesto)",
        "(?:nuestra|nuestro|tu) (?:última|último|anterior)",
        "recuérdame",
        "asistente",
        r"(?:chatgpt|claude|gemini|codex)\b[^.?!]{0,30}\b(?:dijo|sugirió|recomendó|escribió)",
    ),
    events="""
        hicimos hice hizo hacer hecho pasó pasado ocurrió ocurrido sucedió trabajamos trabajé
        trabajado hablamos hablé hablado discutimos dije dijimos pregunté preguntamos escribí
        escribimos cambió cambiado terminamos terminé resumen algo todo cosas conversación
        conversaciones mensaje mensajes tema temas muestra muéstrame
    """,
    irregular_forms="""
ir voy vas va vamos fui fue fuimos fueron iba iban ido|dar doy dio dieron dado
decir digo dice dicen dije dijo dijeron dicho|hacer hago hace hacen hice hizo hicieron hecho
poder puedo puede pudo pude pudieron|poner pongo puse puso pusieron puesto
querer quiero quiere quise quiso|saber supe supo supieron|salir salgo
tener tengo tiene tuve tuvo tuvieron|traer traigo traje trajo trajeron
venir vengo viene vine vino vinieron|ver veo vi vio vieron visto|leer leo leyó leyeron leído
escribir escrito|abrir abierto|romper roto|volver vuelvo vuelve vuelto|morir murió muerto
dormir duermo duerme durmió|pedir pido pide pidió pidieron|seguir sigo sigue siguió
sentir siento siente sintió|servir sirve sirvió|preferir prefiero prefiere prefirió
perder pierdo pierde perdido|pensar pienso piensa|empezar empiezo empieza empecé
comenzar comienza comencé|cerrar cierra|contar cuento cuenta|costar cuesta cuestan costó
encontrar encuentro encuentra|jugar juego juega jugué|mostrar muestra|probar pruebo prueba
recordar recuerdo recuerda|conducir conduje condujo|construir construyó construyeron
pagar pagué|llegar llegué|comprar compré|buscar busqué|sacar saqué|tocar toqué
elegir elijo elige eligió|vez veces|lápiz lápices|luz luces|pez peces
""",
    typical_words="""
        hace pasado pasada próximo dije dijo dijiste hablé hablamos compré pregunté llama
        llamaba último última
        cuesta costó costaba funciona significa
    """,
    letters="ñ¿¡áíóú",
)
