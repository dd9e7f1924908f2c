"""Japanese."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords
from recollect.language.languages.numerals import NUMERALS

_KANJI = "\u4e00-\u9fff々"
_KATAKANA = "ァ-ヶー"
_HIRAGANA = "ぁ-ん"
_PARTICLES = "のはがをにでともへや"
_INFLECTED_ENDS = "るうくすつむぶぐぬただてでいかよねなのはをにへとず"
"""With which verbs, adjectives and questions end, but few nouns."""

_TIMES = TimeWords(
    months=(),
    weekdays=(
        "月曜日 月曜",
        "火曜日 火曜",
        "水曜日 水曜",
        "木曜日 木曜",
        "金曜日 金曜",
        "土曜日 土曜",
        "日曜日 日曜",
    ),
    numbers=NUMERALS,
    seasons={"春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter"},
    units={
        "分": "minute",
        "時間": "hour",
        "日": "day",
        "週間": "week",
        "週": "week",
        "月": "month",
        "年": "year",
    },
    moments={
        "今日": "today",
        "今朝": "this morning",
        "今日の午後": "this afternoon",
        "今晩": "this evening",
        "昨日": "yesterday",
        "きのう": "yesterday",
        "昨日の朝": "yesterday morning",
        "昨日の午後": "yesterday afternoon",
        "昨日の夜": "last night",
        "昨夜": "last night",
        "昨晩": "last night",
        "ゆうべ": "last night",
        "一昨日": "day before yesterday",
        "おととい": "day before yesterday",
        "先週": "last week",
        "今週": "this week",
        "先々週": "week before last",
        "先月": "last month",
        "今月": "this month",
        "先々月": "month before last",
        "去年": "last year",
        "昨年": "last year",
        "今年": "this year",
        "一昨年": "year before last",
        "おととし": "year before last",
        "先週末": "last weekend",
        "先週の週末": "last weekend",
        "最近": "recently",
        "先日": "the other day",
        "この間": "the other day",
        "この前": "the other day",
        "クリスマスに": "at christmas",
    },
    rules=(
        ("{year}年{month}月{day}日", "{day} {month} {year}"),
        ("来年の{month}月", "in {month} next year"),
        ("(?:去年|昨年)の?{month}月", "{month} last year"),
        ("今年の?{month}月", "{month} this year"),
        ("{year}年{month}月(?:の)?(?:初め|上旬)", "early {month} {year}"),
        ("{year}年{month}月(?:の)?(?:末|下旬|終わり)", "late {month} {year}"),
        ("{year}年の?{month}月", "{month} {year}"),
        ("{month}月{day}日", "{day} {month}"),
        ("{month}月(?:の)?(?:初め|上旬)", "early {month}"),
        ("{month}月(?:の)?(?:末|下旬|終わり)", "late {month}"),
        ("{month}月(?=[にのはごも頃、]|$)", "in {month}"),
        ("{year}年の?{season}", "{season} {year}"),
        ("{year}年", "in {year}"),
        ("(?:去年|昨年)の?{season}", "{season} last year"),
        ("今年の?{season}", "{season} this year"),
        ("半年(?:ほど|くらい)?前", "half a year ago"),
        ("数[かヶカケ箇]?{unit}前", "few {unit} ago"),
        ("{count}[かヶカケ箇]?{unit}(?:ほど|くらい)?前", "{count} {unit} ago"),
        ("(?:ここ|この|過去){count}[かヶカケ箇]?{unit}", "last {count} {unit}"),
        ("先週の?{weekday}", "{weekday} last week"),
        ("(?:前|この前)の{weekday}", "last {weekday}"),
        ("(?<![毎来]){weekday}", "on {weekday}"),
    ),
)

JAPANESE = Language(
    code="ja",
    name="Japanese",
    times=_TIMES,
    questions=(
        "いつ|どこ|どれ|どの|どんな|どう|なぜ|なに|なん|何|誰|だれ|いくら|いくつ|ですか|でしたか|ますか"
        "|ましたか|ませんか|でしょうか|だっけ|っけ|教えて|覚えて|おすすめ|か[。]?$",
    ),
    requests=(
        "おすすめ|お勧め|オススメ|提案して|どうすれば|どうしたら|べき|ばいい|たらいい|計画を立て|アドバイス",
    ),
    asks_time=("いつ|何月|何日|何年|何時|何曜日",),
    asks_number=("いくら|いくつ|どのくらい|どれくらい|何[人個本冊回枚台匹歳]",),
    asks_rule=("てもいい|ても良い|でもいい|べき|好み|好き|ほうがいい|方がいい|許可|禁止|ルール",),
    statements="今後 常に 必ず いつも 好き 嫌い",
    standing_instructions=("今後|これからは|常に|必ず|毎回|いつも.{0,20}ください|決して|絶対に",),
    asks_assistant=(
        "(?:あなた|君)[^。？！]{0,20}(?:言|勧め|すすめ|提案|書|教え|挙げ)",
        "(?:勧めて|すすめて|提案して|教えて|書いて)くれた",
    ),
    unspaced=True,
    dates=r"(?:\d{1,4}|[一二三四五六七八九十]{1,2})月(?:\d{1,2}日)?|\d{1,4}年",
    events="聞 聞い 質問 言っ 書い 話 話し 起き 起こっ 作業 仕事 会話 まとめ こと 出来事",
    fragments=f"[{_HIRAGANA}]",
    # 肉じゃが, 食べもの
    nouns=f"[{_KANJI}]{{1,12}}(?![{_PARTICLES}])"
    f"(?:[{_HIRAGANA}]?[いきしちみりえけせめれげべ]もの"
    f"|(?:(?![たてっる])[{_HIRAGANA}]){{1,3}}(?![{_INFLECTED_ENDS}])[{_HIRAGANA}])"
    f"(?=$|[{_PARTICLES}](?:[{_KANJI}{_KATAKANA}]|いつ|どこ|どう|なん))",
    words_with_particles="ぶどう どうぶつ ことば くだもの",
    particles=(
        "(?:いつ|どこ|どのくらい|どれくらい|どのぐらい|どれぐらい|どれ|どの|どんな|どうして|どうやって|どう|なぜ|なに|なん|何|誰|だれ|いくら|いくつ"
        "|私たち|私|僕|俺|あなた|この|その|あの|これ|それ|あれ)(?:から|まで|で(?![すし])|[のはがをにともへ])?",
        "話した(?=こと)|まとめて|"
        "(?:教えてください|教えて|覚えていますか|覚えていま|覚えている|覚えて|ください|について|に関する"
        "|に関して|っていう|という|こと|もの|とき"
        "|していました|していた|している|しました|したか|した|して|する"
        "|いました|います|いた|いる|ありました|あります|あった|ある|くれました|くれた|もらった"
        "|ませんでした|ません|ましたか|ました|ますか|ます|でしたか|でした|でしょうか|ですか|です"
        "|だった|だっけ|っけ)[かよね]?",
        "と?言(?:いました|った)[かよね]?",
        # The endings of verbs and adjectives, which vary.
        f"(?<=[{_KANJI}])[{_HIRAGANA}]{{2,}}(?=[{_KANJI}{_KATAKANA}])",
        f"(?<=[{_KANJI}])い(?=[{_KATAKANA}])",
        f"(?<=[{_KANJI}])[{_HIRAGANA}]+$",
        f"(?<=[{_KANJI}{_KATAKANA}])"
        "(?:では|には|とは|から|まで|より|って|のは|のが|のを|[のはがをにでともへや])",
        "を",
    ),
)
