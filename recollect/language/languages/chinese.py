"""Chinese, in simplified and traditional characters."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords
from recollect.language.languages.numerals import NUMERALS

_TIMES = TimeWords(
    months=(),
    weekdays=(
        "周一 星期一 礼拜一 週一",
        "周二 星期二 礼拜二 週二",
        "周三 星期三 礼拜三 週三",
        "周四 星期四 礼拜四 週四",
        "周五 星期五 礼拜五 週五",
        "周六 星期六 礼拜六 週六",
        "周日 周天 星期日 星期天 礼拜天 週日",
    ),
    numbers=(NUMERALS[0], "二 两 兩", *NUMERALS[2:]),
    seasons={
        "春天": "spring",
        "春季": "spring",
        "夏天": "summer",
        "夏季": "summer",
        "秋天": "autumn",
        "秋季": "autumn",
        "冬天": "winter",
        "冬季": "winter",
    },
    units={
        "分钟": "minute",
        "分鐘": "minute",
        "小时": "hour",
        "小時": "hour",
        "天": "day",
        "日": "day",
        "周": "week",
        "週": "week",
        "星期": "week",
        "礼拜": "week",
        "月": "month",
        "年": "year",
    },
    moments={
        "今天": "today",
        "今早": "this morning",
        "今天早上": "this morning",
        "今天上午": "this morning",
        "今天下午": "this afternoon",
        "今晚": "this evening",
        "昨天": "yesterday",
        "昨天早上": "yesterday morning",
        "昨天上午": "yesterday morning",
        "昨天下午": "yesterday afternoon",
        "昨晚": "last night",
        "昨天晚上": "last night",
        "前天": "day before yesterday",
        "最近": "recently",
        "前几天": "the other day",
        "前幾天": "the other day",
        "前些天": "the other day",
        "上周": "last week",
        "上週": "last week",
        "上星期": "last week",
        "上个星期": "last week",
        "上個星期": "last week",
        "上礼拜": "last week",
        "这周": "this week",
        "這週": "this week",
        "本周": "this week",
        "这个星期": "this week",
        "上个月": "last month",
        "上個月": "last month",
        "这个月": "this month",
        "這個月": "this month",
        "去年": "last year",
        "今年": "this year",
        "前年": "year before last",
        "上周末": "last weekend",
        "上個週末": "last weekend",
        "上个周末": "last weekend",
        "圣诞节": "at christmas",
        "聖誕節": "at christmas",
    },
    rules=(
        ("{year}年{month}月{day}[日号號]", "{day} {month} {year}"),
        ("明年(?:的)?{month}月", "in {month} next year"),
        ("去年(?:的)?{month}月(?:份)?", "{month} last year"),
        ("今年(?:的)?{month}月(?:份)?", "{month} this year"),
        ("{year}年{month}月初", "early {month} {year}"),
        ("{year}年{month}月底", "late {month} {year}"),
        ("{year}年{month}月(?:份)?", "{month} {year}"),
        ("{month}月{day}[日号號]", "{day} {month}"),
        ("{month}月初", "early {month}"),
        ("{month}月底", "late {month}"),
        ("{month}月(?:份)?", "in {month}"),
        ("{year}年初", "early {year}"),
        ("{year}年底", "late {year}"),
        ("{year}年(?:的)?{season}", "{season} {year}"),
        ("{year}年", "in {year}"),
        ("去年(?:的)?{season}", "{season} last year"),
        ("今年(?:的)?{season}", "{season} this year"),
        ("半年(?:之|以)?前", "half a year ago"),
        ("半[个個]?小[时時](?:之|以)?前", "half an hour ago"),
        ("[几幾][个個]?{unit}(?:之|以)?前", "few {unit} ago"),
        ("{count}[个個]?{unit}(?:之|以)?前", "{count} {unit} ago"),
        ("(?:最近|过去|過去|近)[这這]?{count}[个個]?{unit}", "last {count} {unit}"),
        ("上[个個]?{weekday}", "{weekday} last week"),
        ("(?<![每下]){weekday}", "on {weekday}"),
    ),
)

CHINESE = Language(
    code="zh",
    name="Chinese",
    times=_TIMES,
    questions=(
        "什么|什麼|怎么|怎麼|怎样|怎樣|如何|为什么|為什麼|为何|哪|谁|誰|多少|多久|几个|几点|几次"
        "|幾|是不是|有没有|有沒有|吗|嗎|呢$|记得|記得|告诉我|告訴我|推荐|推薦|建议|建議",
    ),
    requests=(
        "推荐|推薦|建议|建議|该|該|需要|要[^。？！]{0,4}[几幾多]|怎么(?:办|做)|怎麼(?:辦|做)|帮我|幫我|计划一|計劃一",
    ),
    asks_time=("什么时候|什麼時候|哪天|哪年|几点|幾點|几号|幾號|何时|何時",),
    asks_number=("多少|几|幾|多久|多大|多长|多長",),
    asks_rule=(
        "可以|可不可以|能不能|应该|應該|该不该|要不要|允许|允許|喜欢|喜歡|偏好|习惯|習慣|规定|規定",
    ),
    statements="以后 总是 始终 喜欢 偏好 讨厌 不要",
    standing_instructions=(
        "以后(?!端)|从现在(?:起|开始)|今后|总是|始终|一律|每次都|永远不要|当我问",
    ),
    asks_assistant=(
        "[你您][^。？！]{0,20}(?:推荐|推薦|建议|建議|说|說|提到|写|寫|给我|給我|列|解释)",
    ),
    unspaced=True,
    dates=r"(?:\d{1,4}|[一二三四五六七八九十]{1,2})月(?:份|\d{1,2}[日号號])?|\d{1,4}年",
    events="""
        做 发生 發生 聊 谈 談 讨论 討論 说 說 问 問 写 寫 改 完成 总结 總結 事 事情 对话 對話 聊天
    """,
    words_with_particles="""
        目的 的确 的確 的士 了解 了不起 存在 在线 在線 在职 实在 實在 内在 潜在 是非 其他 吉他
        他人 自我 你好 那里 这里 小说 小說 说明 說明 说服 說服 传说 傳說
    """,
    particles=(
        "什么时候|什麼時候|什么地方|什麼地方|为什么|為什麼|怎么样|怎麼樣|怎么|怎麼|怎样|怎樣|如何"
        "|什么|什麼|哪里|哪裡|哪儿|哪个|哪個|哪些|哪一|哪家|哪天|哪|多少|几个|幾個|几点|幾點|几次|幾次"
        "|多久|是不是|有没有|有沒有|能不能|可不可以|还记得|還記得|记不记得|记得|記得|告诉我|告訴我"
        "|请问|請問|我们|我們|你们|你們|他们|他們|她们|她們|咱们|咱們|这个|這個|那个|那個|这些|這些"
        "|那些|的时候|的時候|现在|現在|但是|可是|还是|還是|于是|为了|為了|除了|因为|因為|所以|如果"
        "|帮我总结|幫我總結|总结一下|總結一下|一下|打算|关于|關於|提到过|提到過|提到|说过|說過",
        "[的了吗嗎呢吧啊呀我你您他她它是在这這那谁誰说說]",
    ),
)
