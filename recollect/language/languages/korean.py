"""Korean. Particles and endings are cut off; the stems of irregular verbs are not found."""

from __future__ import annotations

from recollect.language.languages.base import Language, TimeWords

_PAST = "했샀갔왔봤았었였썼됐렸졌섰켰뒀췄꿨냈겼"  # syllables with which the past tense ends

_TIMES = TimeWords(
    months=(),
    weekdays=("월요일", "화요일", "수요일", "목요일", "금요일", "토요일", "일요일"),
    numbers=(
        "한 하나 일",
        "두 둘 이",
        "세 셋 삼 석",
        "네 넷 사",
        "다섯 오",
        "여섯 육",
        "일곱 칠",
        "여덟 팔",
        "아홉 구",
        "열 십",
        "열한 십일",
        "열두 십이",
    ),
    seasons={"봄": "spring", "여름": "summer", "가을": "autumn", "겨울": "winter"},
    units={
        "분": "minute",
        "시간": "hour",
        "일": "day",
        "주일": "week",
        "주": "week",
        "달": "month",
        "개월": "month",
        "년": "year",
        "해": "year",
    },
    moments={
        "오늘": "today",
        "오늘아침": "this morning",
        "오늘오후": "this afternoon",
        "오늘저녁": "this evening",
        "어제": "yesterday",
        "어제아침": "yesterday morning",
        "어제오후": "yesterday afternoon",
        "어제저녁": "yesterday evening",
        "어제밤": "last night",
        "어젯밤": "last night",
        "그저께": "day before yesterday",
        "그제": "day before yesterday",
        "지난주": "last week",
        "저번주": "last week",
        "이번주": "this week",
        "지지난주": "week before last",
        "지난달": "last month",
        "저번달": "last month",
        "이번달": "this month",
        "작년": "last year",
        "지난해": "last year",
        "올해": "this year",
        "재작년": "year before last",
        "지난주말": "last weekend",
        "최근": "recently",
        "요즘": "recently",
        "얼마전": "recently",
        "며칠전": "few days ago",
        "이틀전": "2 days ago",
        "사흘전": "3 days ago",
        "크리스마스에": "at christmas",
    },
    rules=(
        ("{year}년{month}월{day}일", "{day} {month} {year}"),
        ("내년{month}월", "in {month} next year"),
        ("(?:작년|지난해){month}월", "{month} last year"),
        ("올해{month}월", "{month} this year"),
        ("{year}년{month}월초", "early {month} {year}"),
        ("{year}년{month}월말", "late {month} {year}"),
        ("{year}년{month}월", "{month} {year}"),
        ("{month}월{day}일", "{day} {month}"),
        ("{month}월초", "early {month}"),
        ("{month}월말", "late {month}"),
        ("(?<![0-9개]){month}월", "in {month}"),
        ("{year}년{season}", "{season} {year}"),
        ("{year}년(?:에|의|도에)", "in {year}"),
        ("(?:작년|지난해){season}", "{season} last year"),
        ("지난{season}", "last {season}"),
        ("(?:올해|올|이번){season}", "this {season}"),
        ("반년전", "half a year ago"),
        ("몇{unit}전", "few {unit} ago"),
        ("{count}{unit}(?:쯤|정도)?전", "{count} {unit} ago"),
        ("(?:지난|최근){count}{unit}", "last {count} {unit}"),
        ("지난주{weekday}", "{weekday} last week"),
        ("(?:지난|저번){weekday}", "last {weekday}"),
        ("(?<!다음주){weekday}(?:에|에는)", "on {weekday}"),
    ),
)

KOREAN = Language(
    code="ko",
    name="Korean",
    times=_TIMES,
    questions=(
        "언제|어디|누구|누가|무엇|무슨|뭐|뭘|왜|어떻게|어떤|얼마|몇|어느|나요|습니까|까요|ㄹ까|했지|였지"
        "|었지|기억|추천|알려",
    ),
    requests=("추천|제안|조언|해야|어야|아야|어떻게 하면|계획을 세워|도와",),
    asks_time=("언제|며칠|몇 ?월|몇 ?시|몇 ?년",),
    asks_number=("얼마|몇",),
    asks_rule=("도 ?(?:되|돼|될)|해야|어야|아야|선호|좋아|허용|금지|규칙",),
    statements="앞으로 항상 절대 선호 좋아 싫어",
    standing_instructions=("앞으로|지금부터|항상|언제나|매번|절대",),
    asks_assistant=(
        "(?:네가|니가|당신이|너는)[^.?!]{0,30}(?:추천|말|제안|알려|써|언급)",
        "(?:추천|제안|말|알려|언급)(?:해|해줬|해준|했던|준|줬)",
    ),
    unspaced=True,
    dates=r"\d{1,4}[년월](?:\s*+\d{1,2}일)?(?:에|의)?",
    events="""
        에 무엇 무엇을 뭐 뭘 했 했나요 했어 했지 했어요 했습니까 일 일이
        있었나요 있었어 우리 우리는 이야기했나요 얘기했어 대화
    """,
    particles=(
        "^(?:언제|어디서|어디에서|어디로|어디에|어디|누구와|누구랑|누구|누가|무엇을|무엇|무슨|뭐라고|뭐를"
        "|뭐가|뭐|뭘|왜|어떻게|어떤|얼마나|얼마|몇|어느|나는|내가|나의|나|내|저는|제가|제|우리가|우리는"
        "|우리|너는|네가|네|당신|그|이|저|것|것을|것이|수|때|대해|대해서|관해|관해서|관한|기억해|기억나"
        "|기억하니|기억하나요|알려줘|알려주세요|말해줘|했지|했어|했나요|했습니까|있지|있어|있나요|있었지"
        "|있었나요|뭐였지|무엇이었지|무엇인가요|뭐야|뭐지|뭔가요|어디야|어디지|어디였지|언제였지"
        "|언제야|언제지|누구였지|누구야|얼마였지)$",
        "(?<=.)(?:했습니다|했습니까|했어요|했나요|했는지|했었지|했더라|했지|했던|했다|했어|합니다|하는"
        "|하기로|하고|해야|해요)$",
        f"(?<=[{_PAST}])(?:습니다|습니까|어요|나요|는지|는데|었지|지요|더라|지|죠|던|다|어|고)$",
        "(?<=..)(?:이었나요|이었지|이었어|였나요|였지|였어|이에요|예요|입니다|인가요|이야|이지|이고)$",
        "(?<=..)(?:에서는|에서도|에서|에게서|에게|한테서|한테|께서|으로는|으로|까지|부터|처럼|보다|이랑"
        "|이라고|라고|에는|에도|랑|와|과|은|는|이|가|을|를|에|의|도|만|로)$",
    ),
)
