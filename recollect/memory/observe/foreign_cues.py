"""The phrases that reveal decisions, preferences, causes and kinds of work in other languages.

German, French, Spanish, Chinese and Japanese; see `cues` for English. They are patterns for `Cue`.
"""

from __future__ import annotations

DECISION = (
    r"\b(?:wir|ich) (?:haben|habe|hab) .{0,60}entschieden\b",
    r"\b(?:nehmen|machen|verwenden|nutzen|bleiben|streichen|kündigen|behalten) wir\b",
    r"\bwir (?:nehmen|verwenden|wechseln|steigen|bleiben|streichen|kündigen|behalten)\b",
    r"\bab (?:jetzt|sofort|heute)\b|\bstattdessen\b|\blass(?:t)? uns\b",
    r"\bon (?:a décidé|passe (?:à|au|en|sur)|garde|abandonne|prend|part (?:sur|avec)|reste)\b",
    r"\bon (?:utilise|remplace|laisse tomber|arrête|migre|choisit)\b|\bon passe aux\b",
    r"\bnous (?:avons décidé|passons|gardons|abandonnons|utilisons)\b",
    r"\bva pour\b|\bc'est décidé\b|\bà la place\b",
    r"\b(?:hemos|he) decidido\b|\b(?:nos quedamos|vamos) con\b|\bdecidimos\b",
    r"\b(?:usemos|cambiamos a|pasamos a|dejamos de|adoptamos|migramos)\b",
    r"\ben (?:lugar|vez) de\b",
    "(?:用|选|换|采用)[^，。？?！!,]{1,30}吧|(?:咱们?|让我们)(?:就|还是|都|先)?(?:用|使用|选)(?!什么|哪)",
    "を使(?:い?ましょう|おう)|に(?:しよう|決めよう)|で(?:行こう|いこう|行きましょう|いきましょう)",
    "决定|(?:那就|还是|就)(?:用|改|选|定)|改成|改为|改用|换成|采用|选定|定下来|不再用",
    "決め(?:た|ました|ます)|(?:こと|の?まま)にし(?:ます|ました)|に決定|採用し|切り替え",
    "(?:は|を)やめ(?:て|ます|よう)|を使います|でお願いします|にしましょう",
)
PREFERENCE = (
    r"\b(?:nie(?: wieder|mals)?|keinesfalls|auf keinen fall|immer)\b",
    r"\b(?:bevorzuge|lieber)\b|\bich (?:mag|möchte|will) (?:bitte )?(?:keine?[nrms]?|nicht)\b",
    r"\bbitte (?:keine?[nrms]?|nicht)\b",
    r"\bje (?:préfère|préférerais|déteste|ne veux (?:pas|plus))\b|\bj'aime(?:rais)? mieux\b",
    r"\b(?:jamais|toujours)\b|(?:^|[.!,;:] )ne \w+ (?:pas|plus)\b|(?:^|[.!,;:] )évite",
    r"\b(?:prefiero|preferimos|preferiría|nunca|jamás|siempre|mejor no)\b",
    r"\bno (?:uses|toques|pongas|hagas|quiero|me gusta)\b",
    "喜欢|更喜|偏好|以后(?!端)|从现在起|不要|别再|别用|总是|永远|一律|必须",
    "好き(?:です|だ)|ないで(?:くだ|ほし|下)|(?:て|で)ほしい|必ず|いつも|今後|これから(?:は)|絶対",
)
LEARNING = (
    r"\b(?:liegt|lag) (?:daran|an)\b|\bgrund (?:ist|war|dafür)\b|\bursache\b|\bverursacht\b",
    r"\b(?:weil|deshalb|deswegen|dadurch|daher)\b|\bes stellt sich heraus\b",
    r"\b(?:vient|venait|provient) d(?:e|u|es|')|\bà cause d|\bparce qu|\bdue?s? (?:à|au)\b",
    r"\bla (?:raison|cause)\b|\bc'est pour(?:quoi| cela)\b|(?:, |\b)donc\b",
    r"\bse deb(?:e|ía) a\b|\bdebido a\b|\bporque\b|\bla (?:causa|razón)\b|\bpor eso\b",
    r"\bresulta que\b|\b(?:viene|venía) de\b|\ba causa de\b",
    "原因|因为|由于|导致|来自|所以|问题(?:在于|出在)",
    "原因|理由|ため(?:です|でした|に、)|せいで|からです|によるもの|のが問題",
)
FIX = (
    r"\b(?:fehler\w*|beh(?:ebe|eben|oben)|repar\w+|kaputt|abst(?:urz|ürz)\w*|stürzt ab)\b",
    r"\b(?:funktioniert|geht|läuft) (?:nicht|nicht mehr)\b",
    r"\b(?:erreurs?|bogues?|corrig\w+|répar\w+|plant(?:e|ent|ait)|pannes?|échou\w+)\b",
    r"\bne (?:marche|fonctionne)\w* (?:pas|plus)\b",
    r"\b(?:errores|fallos?|fallan?|fallaba|arr[eé]gl\w+|corr[ií][gj]\w+|se cae|se caía)\b",
    r"\bno funciona\b",
    "修复|修一下|报错|错误|崩溃|故障|失败|出错",
    "修正|直して|不具合|バグ|エラー|クラッシュ|失敗|動かな|落ちる|落ちます",
)
REFACTOR = (
    r"\b(?:umbenenn\w*|benenne\b.{1,80}\bum\b|aufräum\w*|räum\w* .{1,40} auf|vereinfach\w*)\b",
    r"\b(?:verschieb\w*|lager\w* .{1,60} aus)\b",
    r"\b(?:renomm\w+|nettoi\w+|simplifi\w+|déplac\w+|extrai\w+|réorganis\w+)\b",
    r"\b(?:renombr\w+|cambia el nombre|limpi[ae]\w*|simplific\w+|muev[ea]\w*|extra[ei]\w*)\b",
    "重命名|重构|整理|简化|移动到|提取",
    "リファクタ|名前を.{0,40}変|名称変更|整理し|簡素化|移動し",
)
FEATURE = (
    r"\b(?:füge\b|hinzufüg\w*|ergänz\w*|implementier\w*|erstell\w*|bau(?:e|t) .{1,60} ein)\b",
    r"\b(?:ajout\w+|implément\w+|crée[rz]?|nouve(?:au|l|lle))\b",
    r"\b(?:añad\w+|agreg\w+|implement[ae]\w*|crea(?:r|d)?|nuev[ao]s?)\b",
    "添加|新增|实现|增加|加(?:上|个|一个)|创建",
    "追加|実装|作成|新しい|作って",
)
CHANGE = (
    r"\b(?:statt|stattdessen|ab jetzt|ab sofort|künftig|nicht mehr|ersetzt|wechseln|umgestellt)\b",
    r"\b(?:abandonn\w+|remplac\w+|à la place|désormais|plutôt que|on arrête|on passe)\b",
    r"\b(?:en lugar de|en vez de|ya no|reemplaz\w+|sustitu\w+|cambiamos|dejamos|desde ahora)\b",
    "改成|改为|改用|换成|不再|取代|放弃|弃用",
    "やめて|やめます|代わりに|切り替え|移行|見直|置き換え|もう使",
)
_KEY = (
    r"(?:schlüssel|passw[oö]rt|token|zugangsdaten|clés?|mots? de passe|jetons?|identifiants|claves?"
    r"|contraseñas?|credenciales|密钥|密码|令牌|凭证|キー|鍵|パスワード|トークン|認証情報)"
)
SECURITY = (
    _KEY + r".{0,40}(?:geleakt|offengelegt|fuité|divulgué|exposée?s|filtr|expuest|comprometid"
    r"|泄露|泄漏|暴露|漏洩|漏えい|流出)",
    r"(?:泄露|泄漏|暴露)了?.{0,12}(?:密钥|密码|令牌|凭证)",
)
