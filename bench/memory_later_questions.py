"""More questions about the sessions of `bench.memory_set`.

They are about other facts or in other words, and not for choosing rules: a rule that gains only on
the first set fits that set. The later questions were written before families of words, heads of
compounds and synonyms of names counted, and their misses were seen then. The last questions were
written without measuring, after these rules.
Each line is `kind: question => key`; the session with the answer is the one that contains the key.
"""

from __future__ import annotations

from bench.memory_set import Question, Session, parse_question

_QUESTIONS = """\
decision: Why did Redis lose against a table for the request keys? => runs without persistence
number: How many connections may we open through the pooler? => pgbouncer has 40
decision: What does the webhook reply with before the receipt exists? => returns 204
number: Which Postgres does CI run on? => 16.4 like production
preference: Dürfen wir nachträglich ändern, was schon live migriert ist? => Lieber eine neue
decision: Wohin gehen unzustellbare Nachrichten? => mail_bounces
decision: What is the fallback if a notification gets lost? => sweep each minute
number: Combien de temps prend l'affichage de la carte maintenant ? => prend 1,2 s
decision: How does undo work in the reef editor? => replays inverse patches
number: How big is the bundle now? => 480 kB
decision: Which polyfill do old Safaris get? => structuredClone
decision: Which engines do the browser tests cover? => Chromium and WebKit
preference: Peut-on écrire un libellé directement dans un composant ? => fichiers de traduction
decision: What becomes of pictures that divers shoot too large? => scaled down, then encoded
cause: What is the price of halving the filter memory? => extra read in a hundred lookups
decision: What happens if the current manifest is broken? => falls back to the previous manifest
cause: 双缓冲之后冻结内存表要做什么 => 只交换指针
number: LSM 每层放大多少倍 => 每层放大 8 倍
preference: 代码注释能写中文吗 => 注释可以用中文
number: How many commits per second does the log manage? => 14,300
cause: Why exactly Rust 1.78? => largest customer runs
number: How many members of the cluster vote? => three voters
cause: Why did we reject Firebase? => adds 9 MB
number: 最初の画面が出るまで何秒ですか => 0.4 秒
decision: 画像はどの順番で消されますか => 使っていない順に削除
preference: May the app fetch articles over mobile data? => only on wifi
cause: Why was the podcasts section thrown out? => 0.6 % of sessions
decision: Where is the login token of the phone kept? => afterFirstUnlock
decision: How do we stop two people from applying infrastructure changes at once? => maple-locks
number: ¿Cuánta memoria usa ahora la copia nocturna? => menos de 200 MB
number: Wie lange vorher meldet sich die Warnung vor dem Ablauf? => 14 Tage vor
number: Was kostet die neue Überwachung im Monat? => 90 Euro im Monat
preference: Is it acceptable to scale a live deployment by hand? => everything goes through Argo
number: When do the extra machines go away again? => 2 December
decision: Which currency is assumed when an order has none? => count as CHF
preference: May I add a Jupyter file to the repository? => cell markers
cause: Pourquoi avons-nous renoncé au CSV ? => casse les accents
number: How often is a failed step of the nightly job repeated? => two retries each
decision: ¿Qué día muestra el informe del lunes? => muestra el sábado
cause: Why may the admin page go without a password? => only reachable from localhost
"""

_LAST_QUESTIONS = """\
number: How many minutes is an access token of the back office valid? => valid for fifteen minutes
decision: What do the payment tests do without a sandbox key? => skips them when no
cause: Why is a copy of six hours not good enough for the tides? => storm surge
number: How large is the state library of the editor? => is 3 kB
number: What share of visitors still uses Internet Explorer? => 0.02 %
cause: Why do default exports bother me? => make renames painful
number: Combien de passages sans échec après la synchronisation ? => 40 passages sans échec
number: How big are all stylesheets together? => 41 kB in total
number: How much more space would LZ4 take? => 40 % more disk
cause: 为什么不用 B 树 => 随机写放大
number: How much memory do the bloom filters take today? => fell to 3 GB
decision: Which error is returned for corrupted data? => Error::Corrupt
number: How many times did the ARM test run without failing? => 500 runs on ARM
decision: 読み上げの間違いにはどう対応しましたか => 読み仮名の辞書だけ追加
number: How many analytics events are sent at a time? => batched by 20
number: How many availability checks could we delete? => three availability checks are gone
cause: Why not Terraform Cloud? => twenty dollars a seat
cause: Seit wann schlug die DNS-Prüfung fehl? => seit März
number: What did the daily gateway traffic drop to? => from 740 GB to 31
decision: ¿Qué pide auditoría sobre los registros? => Auditoría pide un año
number: How many churn alerts turn out to be right? => two of three alerts are right
number: How many rows does the survey agency get? => 7,700 rows
cause: Why don't we rewrite files when a customer wants to be forgotten? => would take a night each
number: How fast do gate codes reach the skippers? => arrive in 90 ms
decision: Wo finde ich die Vorlagen der Bestätigungen? => mail/templates
decision: Sur quel port tournait Metabase ? => le port 3030
number: ¿Cuánto pesa la fuente del lector? => pesa 400 kB
cause: Why does chain replication not suit us? => needs an outside service
decision: How is a receipt produced after the webhook was acknowledged? => rendered by the worker
"""

LATEST_WITHOUT_ANSWER = (
    "Which OCR engine reads the delivery notes?",
    "Why did the parking app reject foreign plates?",
    "How many licences of the CAD program do we have?",
    "What is the frame rate of the ferry cameras?",
    "Who owns the trademark of the podcast?",
    "Where do we store the signatures of the tenants?",
    "Which cron job deletes old Docker images?",
    "What is the memory limit of the Airflow scheduler?",
    "Why did the Tailwind build fail on Windows?",
    "How many partitions does the orders topic have in Kafka?",
    "May I use Lombok in the Java services?",
    "Soll die Lagerverwaltung Seriennummern drucken?",
    "Quel fournisseur livre les capteurs de pression ?",
    "¿Por qué falla el lector de tarjetas del gimnasio?",
    "会议室的投影仪是什么型号",
)
"""Written together with the questions above; the words of five occur in the sessions."""
LAST_WITHOUT_ANSWER = (
    "Welche Druckeinstellungen hat der Etikettendrucker?",
    "Wer genehmigt die Reisekostenabrechnung?",
    "Wie lange gilt die Parkberechtigung?",
    "Warum ist die Personalabteilung umgezogen?",
    "Welche Farbe hat die Startseite?",
    "Wie viele Lieferwagen haben wir?",
    "Which antivirus do the laptops run?",
    "Why was the Figma plugin abandoned?",
    "What is the default unit of the dosage calculator?",
    "How many speakers come to the conference?",
    "Who translates the cookbook?",
    "May interns approve invoices?",
    "Which web framework did we choose for Rust?",
    "What is the retention of the Slack messages?",
    "Why did the compaction job fail on Windows?",
)
"""Written together with the last questions, six of them with German compounds."""


def later_questions(sessions: tuple[Session, ...]) -> tuple[Question, ...]:
    return _with_sessions(_QUESTIONS, sessions)


def last_questions(sessions: tuple[Session, ...]) -> tuple[Question, ...]:
    return _with_sessions(_LAST_QUESTIONS, sessions)


def _with_sessions(text: str, sessions: tuple[Session, ...]) -> tuple[Question, ...]:
    """The questions, each with the session that contains its key."""
    result = []
    for line in text.splitlines():
        question = parse_question(line, "")
        matches = [
            session.id
            for session in sessions
            if any(question.key in turn.text for turn in session.turns)
        ]
        if len(matches) != 1:
            raise ValueError(f"{len(matches)} sessions contain {question.key!r}")
        result.append(question._replace(session=matches[0]))
    return tuple(result)
