"""A synthetic set of coding sessions and everyday chats with questions about them.

    python -m bench.memory_set FOLDER    writes the files that bench.memory imports

The sessions are written out below, one text per project, because generated language repeats itself.
Around them, a seeded generator adds everyday coding turns (see `_filler`), so that a session is as
long as a real one and most of it is beside the point. Each line starts with what it is:

    == project language          a new session
    > text                       what the person wrote
    $ command => output          the assistant runs a command
    read path                    it reads a file (the text of the file is generated)
    edit path: old => new        it edits a file
    < text                       what the assistant wrote
    ? kind: question => key      a question about this session. An answer is in context when the
                                 key is; in a superseded decision, "key, not old" names the key of
                                 the earlier decision, which must come later

Lines that start with two spaces continue the line above. Sessions are in the order of time.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

SEED = 17
START = datetime(2026, 1, 12, 8, tzinfo=UTC)
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
"""When the questions are asked."""

HARBOR = """\
== harbor-api en
> Customers hit "Pay" twice on flaky marina wifi. We need something so the second request doesn't
  charge again. Redis or Postgres for remembering the request keys?
read app/payments/charge.py
< Redis would be faster, but a lost key means a double charge and our Redis runs without
  persistence. A table next to the charges lets both commit in one transaction.
> makes sense, go with the table
edit app/payments/charge.py: def charge(request) => def charge(request, idempotency_key)
$ pytest -q tests/payments => 48 passed in 6.20s
< Request keys now live in `charge_requests`, unique per merchant, and are purged after 72 hours.
  The insert and the charge share a transaction.
? decision: Where do we remember that a payment was already submitted? => charge_requests
? number: How long until remembered payment requests are cleaned up? => 72 hours

== harbor-api en
> Three skippers were billed twice last night although the table is live. Please find out why.
$ kubectl logs deploy/harbor --since=12h | grep webhook | head -3 => 02:11:07 webhook
  evt_8812 accepted\\n02:11:38 webhook evt_8812 accepted\\n02:12:09 webhook evt_8812 accepted
read app/webhooks/stripe.py
< Found it. The handler only answers after it has written the PDF receipt, which takes about
  31 seconds. The provider gives up at 30 and delivers the event again, so the booking is
  settled a second time. It has nothing to do with the button.
> ok then answer first and do the pdf later
edit app/webhooks/stripe.py: render_receipt(event) => queue.enqueue(render_receipt, event)
$ pytest -q tests/webhooks => 17 passed in 2.02s
< The endpoint now returns 204 immediately and the receipt is rendered by the worker.
? cause: Why were skippers billed twice at night? => takes about 31 seconds

== harbor-api en
> Set up sessions for the back office. I was thinking JWT.
read app/auth/session.py
< Signed JWTs keep the API stateless; 15 minute access tokens and a refresh token in a cookie.
> Fine, do it.
edit app/auth/session.py: return None => return encode_jwt(user, minutes=15)
< Back office logins now issue a JWT that is valid for fifteen minutes, signed with ES256.

== harbor-api de
> Am letzten Märzwochenende gab es zwei Boote auf demselben Liegeplatz. Woran lag das?
$ psql -c "select id, starts_at from bookings where berth = 'C14'" => 9120 | 2026-03-29
  02:30:00\\n9133 | 2026-03-29 03:30:00
read app/bookings/overlap.py
< Die Zeiten werden ohne Zeitzone gespeichert. In der Nacht der Umstellung fehlt eine Stunde,
  deshalb erkennt die Überlappungsprüfung die beiden Buchungen nicht als gleichzeitig.
> Dann bitte überall timestamptz, und die Anzeige rechnet um.
edit app/bookings/overlap.py: datetime.now() => datetime.now(UTC)
< Erledigt: Die Spalten sind jetzt `timestamptz`, und die Prüfung vergleicht in UTC.
? cause: Warum war der Liegeplatz C14 doppelt vergeben? => ohne Zeitzone gespeichert

== harbor-api en
> how many db connections should each uvicorn worker get? pgbouncer has 40 for us
$ grep -n pool_size -r app => app/db.py:14: pool_size=5
< With four workers and ten left for migrations and psql, each worker can take seven, plus
  overflow of zero so that we never exceed the ceiling.
> sounds right, set it
edit app/db.py: pool_size=5 => pool_size=7
< `pool_size` is 7 and `max_overflow` is 0.
? number: What is the database pool size per worker? => pool_size` is 7

== harbor-api en
> Don't mock Stripe in the payment tests, ever. I got burned by that at my last job. Use their
  sandbox, even if it makes CI slower.
read tests/payments/conftest.py
edit tests/payments/conftest.py: @patch("stripe.Charge") => @pytest.fixture
$ pytest -q tests/payments -k live => 11 passed in 41.77s
< Understood. The payment tests now talk to the sandbox account; the fixture skips them when no
  key is present.
? preference: May I stub the payment provider in tests? => sandbox

== harbor-api en
> The JWT approach isn't working out: when the harbour master fires someone we can't cut off
  their login until it expires. Legal is unhappy.
< We could shorten the lifetime, keep a denylist, or switch to server-side sessions with an
  opaque id. The last is the only one that cuts somebody off at once.
> Scrap the JWTs, opaque ids with server-side sessions it is.
edit app/auth/session.py: return encode_jwt(user, minutes=15) => return store_session(user)
$ pytest -q tests/auth => 33 passed in 3.31s
< Logins of the back office are now opaque ids that are looked up in `backoffice_sessions`.
  Deleting the row logs the person out at the next request.
? superseded: How do back office users stay logged in? => backoffice_sessions, not ES256

== harbor-api de
> Wie speichern wir Preise? Im Moment sind das floats und die Mehrwertsteuer geht nicht auf.
read app/pricing/tariff.py
< Ich schlage ganze Zahlen in Zehntelcent vor. Damit lassen sich 7 % auf kleine Beträge ohne
  Rundungsfehler berechnen.
> Gut, so machen wir es.
edit app/pricing/tariff.py: price: float => price_mills: int
$ pytest -q tests/pricing => 26 passed in 1.10s
< Alle Beträge sind jetzt ganze Zahlen in Zehntelcent, gerundet wird erst auf der Rechnung.
? decision: In welcher Einheit werden Geldbeträge abgelegt? => Zehntelcent

== harbor-api en
> CI fails with this since this morning:
  E   sqlalchemy.exc.ProgrammingError: (psycopg.errors.UndefinedFunction) function
  gen_random_uuid() does not exist
$ docker compose config | grep image => image: postgres:12-alpine
< The runner's compose file still pins PostgreSQL 12, where that function is part of pgcrypto. It
  became built in with version 13.
> bump it to whatever production runs
edit docker-compose.ci.yml: postgres:12-alpine => postgres:16.4-alpine
$ pytest -q => 412 passed in 88.10s
< CI now starts 16.4 like production, and the suite is green.
? cause: gen_random_uuid() does not exist => still pins PostgreSQL 12

== harbor-api en
> Tide tables: we call the hydrographic office for every page view and they complained.
read app/tides/client.py
< Their forecasts change twice a day, so a copy of six hours is safe. I would store it on disk
  and refresh in the background.
> six hours is too long when there's a storm surge. 45 minutes.
edit app/tides/client.py: ttl=0 => ttl=timedelta(minutes=45)
< Forecasts are now reused for 45 minutes.
? number: For how long may we reuse a tide forecast? => 45 minutes

== harbor-api de
> Bitte nie wieder Migrationen anfassen, die schon auf Produktion gelaufen sind! Lieber eine neue
  schreiben.
$ git revert --no-edit 4be1a90 => [main 77ac2e1] Revert "migrations: rename column"
< Verstanden. Ich habe die Änderung an `0031_berths.py` zurückgenommen und stattdessen
  `0044_rename_berth_length.py` angelegt.
? preference: Darf man eine alte Migration bearbeiten? => 0044_rename_berth_length
"""

TIDEPOOL = """\
== tidepool-web en
> We need state management for the reef editor. Redux feels heavy.
read src/editor/store.ts
< The editor has one deep document and undo. Zustand with immer patches gives undo almost for
  free and is 3 kB.
> ok let's use zustand
edit src/editor/store.ts: createContext => create(immer
$ npm test -- store => Tests: 22 passed, 22 total
< The document lives in a Zustand store now; undo replays inverse patches.
? decision: Which library holds the editor's document state? => Zustand store

== tidepool-web fr
> La carte met huit secondes à s'afficher sur le portable de Claire. Tu peux regarder ?
$ npx lighthouse http://localhost:5173/map --quiet => Largest Contentful Paint 8.1 s\\n
  Total Blocking Time 3,940 ms
read src/map/layers.ts
< Le ralentissement vient du fichier GeoJSON des récifs : 14 Mo sont analysés sur le fil
  principal avant le premier affichage.
> On passe aux tuiles vectorielles alors.
edit src/map/layers.ts: type: "geojson" => type: "vector"
< La couche utilise maintenant des tuiles PMTiles, et l'affichage prend 1,2 s.
? cause: Pourquoi la carte était-elle si lente chez Claire ? => 14 Mo sont analysés
? decision: Quel format de tuiles avons-nous retenu ? => PMTiles

== tidepool-web en
> Dark mode flashes white on reload. Super annoying.
read src/theme.ts
read index.html
< The theme is applied in a React effect, which runs after the first paint. An inline script in
  the head that sets the class before the stylesheet loads avoids it.
> yes please
edit index.html: <head> => <head><script>setTheme()</script>
< No more flash: a blocking snippet of 300 bytes sets `data-theme` before anything is drawn.
? cause: Why did the page blink white with the dark theme? => runs after the first paint

== tidepool-web en
> What should we do about browser support? Marketing wants IE.
< Analytics shows 0.02 % for IE and 1.9 % for Safari 15. Supporting Safari 15 costs us one
  polyfill; IE would double the bundle.
> Safari 15 and up. Tell marketing no.
edit .browserslistrc: defaults => safari >= 15
< Set in `.browserslistrc`; the polyfill for `structuredClone` is loaded only there.
? decision: What is the oldest browser we still serve? => Safari 15

== tidepool-web en
> I prefer named exports everywhere, default exports make renames painful. Please remember that.
$ npx eslint src --rule 'import/no-default-export: error' => 61 problems
edit .eslintrc.cjs: rules: {} => rules: {"import/no-default-export": "error"}
< Turned on as a lint rule and converted the 61 files.
? preference: How do I like modules to expose things? => named exports

== tidepool-web fr
> Ne mets jamais de texte en dur dans les composants, tout passe par les fichiers de traduction.
read src/i18n/fr.json
edit src/components/Banner.tsx: Bienvenue => {t("banner.welcome")}
< C'est noté. J'ai déplacé les douze chaînes restantes dans `fr.json` et `en.json`.
? preference: Où doivent se trouver les textes affichés ? => fichiers de traduction

== tidepool-web en
> Our image uploads: max size?
read src/upload/limits.ts
< There is none on the client; the CDN refuses more than 25 MB. Divers shoot RAW files of 40.
> Let's cap it at 12 megapixels and re-encode to webp in a worker
edit src/upload/limits.ts: export {} => export const MAX_PIXELS = 12_000_000
< Photos above 12 megapixels are scaled down, then encoded as WebP with quality 82.
? number: What WebP quality do uploads get? => quality 82

== tidepool-web en
> e2e: Playwright or Cypress?
< The app opens a second tab for the login, which Cypress cannot follow. Playwright can, and it
  runs WebKit.
> then Cypress is out. Playwright.
$ npm i -D @playwright/test => added 4 packages
< Playwright is set up with Chromium and WebKit projects; `npm run e2e` starts both.
? decision: Why not Cypress for the end-to-end tests? => opens a second tab

== tidepool-web en
> Let's go with Tailwind for styling, I'm tired of naming things.
$ npm i -D tailwindcss => added 11 packages
edit tailwind.config.js: content: [] => content: ["./src/**/*.tsx"]
< Tailwind 3.4 is configured, with the reef palette as theme colours.

== tidepool-web fr
> Les tests de bout en bout échouent une fois sur cinq, toujours sur la page de connexion.
$ npx playwright test login --repeat-each 20 => 4 failed, 16 passed
< L'horloge du conteneur est en retard d'environ 90 secondes : le jeton paraît émis dans le futur
  et le serveur le refuse.
> Ah d'accord. Synchronise le conteneur.
edit ci/run.sh: npx playwright test => chronyd -q && npx playwright test
< Le script synchronise l'heure avant de lancer les tests ; 40 passages sans échec.
? cause: D'où venaient les échecs aléatoires de la connexion ? => en retard d'environ 90 secondes

== tidepool-web en
> The class soup is unreadable and the designers can't review it. What are the alternatives?
read src/components/Card.tsx
< CSS modules keep plain CSS that designers can read, with scoped names, and need no runtime.
> Right. We drop Tailwind; plain CSS modules from now on.
edit package.json: "tailwindcss": "^3.4" => ""
$ npm run build => dist/assets/index.css 41.20 kB
< Removed. Styles are `*.module.css` files next to their components, 41 kB in total.
? superseded: How do we style components? => module.css, not reef palette

== tidepool-web en
> why is the bundle 2.3 MB??
$ npx vite-bundle-visualizer => moment 720 kB\\nthree 1.1 MB
read src/lib/date.ts
< Two things: `moment` with all locales, and `three`, which is imported by the loading screen for
  a single spinning fish.
> lol. kill the fish
edit src/Loading.tsx: import * as THREE from "three" => import fish from "./fish.svg"
< The fish is an SVG now and dates use `Intl`; the bundle went from 2.3 MB to 480 kB.
? cause: What made our JavaScript so large? => spinning fish
"""

GRAIN = """\
== grainstore en
> Pick a compression for the block files. CPU is precious on the ingest boxes.
$ cargo bench --bench codec => lz4 1.9x 780 MB/s\\nzstd-3 2.9x 310 MB/s\\nzstd-1 2.6x 505 MB/s
< zstd at level 1 loses little ratio against 3 and is a lot cheaper. LZ4 would need 40 % more disk.
> zstd -1 it is
edit src/block/codec.rs: Codec::None => Codec::Zstd(1)
< Blocks are compressed with zstd at level 1, 64 KiB at a time.
? decision: How are block files compressed? => zstd at level 1
? number: What is the size of a compressed chunk in a block file? => 64 KiB

== grainstore en
> After the power cut on Tuesday, the store refuses to open: "manifest checksum mismatch".
$ xxd -s -32 /data/MANIFEST-000041 => 00000000: 0000 0000 0000 0000
read src/manifest.rs
< We rename the new manifest into place but never fsync the directory, so after the outage the
  name pointed at a file whose last page was zeros.
> ouch. fix please
edit src/manifest.rs: fs::rename(tmp, path)? => fs::rename(tmp, path)?; sync_dir(dir)?
$ cargo test manifest => test result: ok. 14 passed
< The directory is synced after the rename, and opening falls back to the previous manifest.
? cause: Why was the manifest damaged after the outage? => never fsync the directory

== grainstore zh
> 写入高峰时延迟会突然涨到两秒，帮我看看是什么原因
$ perf top -p 4121 => 61.2% memtable::flush\\n12.0% memcpy
read src/memtable.rs
< 延迟来自刷盘：冻结内存表时持有全局写锁，大约要等 1.8 秒，所有写入线程都被阻塞。
> 那就改成双缓冲吧
edit src/memtable.rs: self.lock.write() => self.active.swap(fresh)
$ cargo test memtable => test result: ok. 31 passed
< 已改为双缓冲，冻结时只交换指针，高峰期 p99 降到 35 毫秒。
? cause: 写入为什么会卡顿 => 持有全局写锁
? number: 改完之后高峰期的尾延迟是多少 => 35 毫秒

== grainstore en
> For the WAL, group commit every 5 ms. OK?
read src/wal.rs
< With five milliseconds you lose at most that window, and throughput rises from 2,100 to 19,000
  commits a second.
> ship it
edit src/wal.rs: sync_each: true => group_commit: Duration::from_millis(5)
< Group commit with a window of 5 ms is on.

== grainstore en
> I never want `unwrap()` outside tests. Return errors.
$ cargo clippy -- -D clippy::unwrap_used => error: used `unwrap()` (38 places)
edit src/lib.rs: #![allow(missing_docs)] => #![deny(clippy::unwrap_used)]
< All 38 calls return `Error::Corrupt` or `Error::Io` now, and clippy denies new ones.
? preference: Is it okay to panic on a None in library code? => never want `unwrap()`

== grainstore zh
> 索引用 B 树还是 LSM？我们主要是追加写
< 追加写为主的话 LSM 更合适，B 树的随机写放大会拖慢机械硬盘。
> 好，用 LSM，分层压实
edit src/index/mod.rs: pub mod btree; => pub mod lsm;
< 索引已采用 LSM，分层压实，每层放大 8 倍。
? decision: 索引最后选了哪种结构 => LSM，分层压实

== grainstore en
> The bloom filters eat 6 GB. Too much?
$ cargo run --bin stats => filter bits/key 20, fp 0.0001
< At 20 bits per key the false positive rate is 0.01 %. Ten bits give about 1 %, which costs one
  extra read in a hundred lookups, and halve the memory.
> ten then
edit src/filter.rs: BITS_PER_KEY: u32 = 20 => BITS_PER_KEY: u32 = 10
< Filters use ten bits per key; memory fell to 3 GB.
? number: How many bits per key do the bloom filters have? => ten bits per key

== grainstore en
> The auditors say losing even a few milliseconds of acknowledged trades is not acceptable.
read src/wal.rs
< Then an acknowledgement must wait for its own fsync. We can still batch: writers that arrive
  while a sync is in flight share the next one, so nobody is acknowledged early.
> Do that instead of the timer.
edit src/wal.rs: group_commit: Duration::from_millis(5) => commit: Commit::JoinNextSync
$ cargo bench --bench wal => 14,300 commits/s
< An append is acknowledged only after its fsync; waiting writers join the next sync. 14,300
  commits a second, and no window of loss.
? superseded: When does the write-ahead log acknowledge an append? => join the next sync, not 19,000

== grainstore zh
> 以后提交信息都用英文写，代码注释可以用中文
$ git commit --amend -m "memtable: swap buffers on freeze" => [main 5c0d113] memtable: swap buffers
< 好的，提交信息改成英文了，注释保持中文。
? preference: 提交说明应该用什么语言 => 提交信息都用英文

== grainstore en
> Test `compaction::keeps_tombstones` fails only on the ARM runner.
$ cargo test keeps_tombstones --target aarch64-unknown-linux-gnu => thread panicked at
  src/compact.rs:212: assertion failed: seq < next
read src/compact.rs
< The sequence is read with `Relaxed` ordering. x86 hides that; on ARM the tombstone becomes
  visible before its sequence number.
> good catch
edit src/compact.rs: Ordering::Relaxed => Ordering::Acquire
< Uses acquire and release now, 500 runs on ARM without a failure.
? cause: Why did the tombstone test break on ARM only? => `Relaxed` ordering

== grainstore en
> Minimum Rust version policy?
< We use let-else and async traits, which need 1.75. The distribution our largest customer runs
  ships 1.78.
> pin 1.78 then and check it in CI
edit Cargo.toml: edition = "2021" => edition = "2021"\\nrust-version = "1.78"
< `rust-version = "1.78"` is set, and CI builds with exactly that toolchain.
? number: Which compiler version must still build the crate? => 1.78
"""

LANTERN = """\
== lantern-ios en
> Offline reading list: Core Data or SQLite via GRDB?
read Sources/Storage/Store.swift
< GRDB gives us plain SQL, migrations we can read, and full-text search. Core Data would need a
  second index for search.
> GRDB. I've had enough of faulting.
edit Package.swift: dependencies: [] => dependencies: [.package(url: "GRDB.swift")]
< Articles are stored with GRDB, and the search field uses FTS5.
? decision: What do we use to persist articles on the phone? => stored with GRDB

== lantern-ios ja
> 起動時に真っ白な画面が三秒ほど続きます。原因を調べてください。
$ xcrun xctrace record --template 'App Launch' => main thread blocked 2,870 ms in KeychainRead
read Sources/App/Launch.swift
< 起動時にキーチェーンをメインスレッドで同期的に読んでいるのが原因です。
> では非同期にしてください
edit Sources/App/Launch.swift: let token = keychain.read() => async let token = keychain.read()
< 読み込みを非同期にしたので、最初の画面は 0.4 秒で表示されます。
? cause: 起動が遅かったのはなぜですか => メインスレッドで同期的に読んでいる

== lantern-ios en
> Minimum iOS? I say 16.
< iOS 16 covers 94 % of our readers. With 17 we could drop three availability checks.
> 16 it stays
edit Package.swift: .iOS(.v15) => .iOS(.v16)
< Deployment target is iOS 16.

== lantern-ios en
> Crash reports from TestFlight: EXC_BAD_ACCESS in `ArticleCell.configure`, always while scrolling.
$ atos -o Lantern -l 0x1000 0x1a2f4 => ArticleCell.configure (ArticleCell.swift:58)
read Sources/Views/ArticleCell.swift
< The image callback captures the cell `unowned`. When the cell is recycled before the picture
  arrives, the closure touches freed memory.
> weak self, then?
edit Sources/Views/ArticleCell.swift: [unowned self] => [weak self]
< Yes: it captures weakly and checks that the article id is still the same.
? cause: What made the app crash while scrolling? => captures the cell `unowned`

== lantern-ios ja
> 今後、強制アンラップは使わないでください。guard で書いてほしいです。
$ grep -rn '!\\.' Sources | wc -l => 23
edit .swiftlint.yml: opt_in_rules: [] => opt_in_rules: [force_unwrapping]
< 承知しました。23 か所を guard let に書き換え、SwiftLint の規則も有効にしました。
? preference: アンラップの書き方の好みは => 強制アンラップは使わない

== lantern-ios en
> How often should background refresh run? Battery complaints came in.
read Sources/Sync/Refresh.swift
< Every 15 minutes wakes the radio 96 times a day. Readers open the app three times a day.
> every 4 hours, and only on wifi
edit Sources/Sync/Refresh.swift: minutes: 15 => hours: 4
< Refresh asks for four hours at the earliest, and requires an unmetered network.
? number: How often does the app sync in the background? => four hours

== lantern-ios en
> Analytics: Firebase?
< It works, but it adds 9 MB and sends the advertising id unless it is configured carefully.
> Privacy matters more to our readers. Self-hosted Plausible, no identifiers.
edit Sources/Analytics/Tracker.swift: import FirebaseAnalytics => struct PlausibleClient
< Events go to our Plausible instance, without identifiers, batched by 20.
? decision: Where do usage events go? => Plausible instance

== lantern-ios ja
> テキスト読み上げのエンジンはどうしますか。標準の AVSpeech で十分でしょうか。
< 標準の音声は日本語の固有名詞で間違いが多いです。オフラインでも使える VOICEVOX を組み込めます。
> 容量が心配なので、標準のままにします。
< わかりました。AVSpeechSynthesizer のままにし、読み仮名の辞書だけ追加しました。
? decision: 読み上げには何を使うことにしましたか => AVSpeechSynthesizer のまま

== lantern-ios en
> I don't like storyboards, please write all views in code.
$ find . -name '*.storyboard' => ./Sources/Main.storyboard
edit Info.plist: UIMainStoryboardFile => UISceneDelegate
< The storyboard is gone; the window is created in `SceneDelegate`.
? preference: Interface Builder or layout in code? => don't like storyboards

== lantern-ios en
> Widget work needs interactive buttons, so let's revisit the deployment target.
< Interactive widgets need iOS 17. By now 93 % of active readers are on 17 or later.
> Raise it to 17 then, forget what I said in winter.
edit Package.swift: .iOS(.v16) => .iOS(.v17)
$ xcodebuild test => Executed 208 tests, with 0 failures
< The package now requires iOS 17, and the three availability checks are gone.
? superseded: What is our deployment target? => requires iOS 17, not target is iOS 16

== lantern-ios ja
> 記事の画像はどのくらいキャッシュしますか
read Sources/Images/Cache.swift
< 今は上限がありません。端末によっては 2 GB を超えています。
> 上限は 300 MB、古いものから消してください
edit Sources/Images/Cache.swift: limit: nil => limit: 300_000_000
< 画像キャッシュは 300 MB まで、使っていない順に削除します。
? number: 画像の保存容量の上限はいくつですか => 300 MB まで
"""

MAPLE = """\
== maple-infra en
> Terraform state is on my laptop. Where should it go?
$ ls *.tfstate => terraform.tfstate
< A versioned bucket with locking. On this cloud that is S3 plus a DynamoDB table; Terraform Cloud
  costs twenty dollars a seat.
> bucket
edit backend.tf: backend "local" {} => backend "s3" { bucket = "maple-tfstate" }
$ terraform init -migrate-state => Successfully configured the backend "s3"!
< State is in `maple-tfstate`, versioned, and locked through `maple-locks`.
? decision: Where does the Terraform state live? => maple-tfstate

== maple-infra es
> El clúster se queda sin memoria cada noche a las tres. ¿Puedes mirar qué pasa?
$ kubectl get events -A --field-selector reason=OOMKilling => 03:02 backup-7f9c OOMKilled
read charts/backup/values.yaml
< El trabajo de copias carga el volcado entero en memoria antes de cifrarlo; con 11 GB supera el
  límite del nodo.
> Pues que lo haga por partes.
edit charts/backup/values.yaml: stream: false => stream: true
< Ahora el volcado se cifra por bloques de 8 MB y usa menos de 200 MB.
? cause: ¿Por qué se caía el clúster de madrugada? => carga el volcado entero

== maple-infra en
> Ingress: which controller? We already know nginx.
< ingress-nginx is fine for what we have. Traefik would bring automatic certificates, but
  cert-manager already does that.
> keep nginx
$ helm upgrade --install ingress ingress-nginx/ingress-nginx => STATUS: deployed
< ingress-nginx 1.9 is deployed with two replicas.

== maple-infra de
> Zertifikate sind heute Nacht abgelaufen, obwohl cert-manager läuft. Wieso?
$ kubectl describe challenge => Waiting for DNS-01 challenge propagation: NXDOMAIN
< Der Token für den DNS-Anbieter wurde beim Umzug des Kontos ungültig, deshalb konnte die
  DNS-Prüfung seit März nicht mehr beantwortet werden.
> Neuen Token eintragen und bitte eine Warnung 14 Tage vorher.
edit charts/alerts/certs.yaml: rules: [] => rules: [cert_expiry_days < 14]
< Der neue Token liegt im Tresor, die Zertifikate sind erneuert, und 14 Tage vor Ablauf kommt
  eine Warnung.
? cause: Weshalb sind die Zertifikate abgelaufen? => beim Umzug des Kontos ungültig

== maple-infra en
> never touch the prod cluster with kubectl directly. everything goes through Argo. I mean it
< Understood. I will only propose changes to the `deploy` repository and let Argo CD apply them.
$ git -C deploy log -1 --oneline => 9d01f2e scale: api to 6
< The scaling is a commit in `deploy`, not a `kubectl scale`.
? preference: Can I run kubectl against production? => everything goes through Argo

== maple-infra es
> Prefiero que las contraseñas no estén en variables de entorno. Usa el almacén.
read charts/api/templates/deployment.yaml
edit charts/api/templates/deployment.yaml: env: => volumes: [csi-secrets]
< Hecho: los secretos se montan como ficheros desde Vault y ya no aparecen en el entorno.
? preference: ¿Cómo hay que pasar las contraseñas a los servicios? => se montan como ficheros

== maple-infra en
> How many nodes do we need for Black Friday?
$ python tools/capacity.py --peak 5.5 => cpu 61 cores, memory 180 GiB, nodes (m6i.2xlarge): 11
< Eleven `m6i.2xlarge`, with one spare per zone that makes fourteen.
> order 14
edit nodes.tf: desired = 6 => desired = 14
< The group scales to fourteen from 20 November, and back to six on 2 December.
? number: How many machines did we reserve for Black Friday? => scales to fourteen

== maple-infra de
> Womit überwachen wir die Dienste künftig? Datadog wird zu teuer.
< Prometheus mit Grafana läuft schon für das Cluster. Für Spuren käme Tempo dazu; zusammen etwa
  90 Euro im Monat statt 2.400.
> Dann Prometheus und Tempo, Datadog kündigen wir.
edit charts/observability/values.yaml: datadog: true => tempo: true
< Umgestellt. Die Datadog-Agenten sind entfernt, die Spuren gehen an Tempo.
? decision: Welches Werkzeug ersetzt Datadog? => Prometheus und Tempo

== maple-infra en
> Egress bill doubled in April, from 800 to 1,650. What happened?
$ aws ce get-cost-and-usage --group-by UsageType => NatGateway-Bytes 790.11
read vpc.tf
< Image pulls. The registry mirror was removed in March, so every node downloads its layers
  through the NAT gateway instead of the private endpoint.
> put the mirror back
edit vpc.tf: # endpoint removed => resource "aws_vpc_endpoint" "ecr"
< The endpoint is back and the daily NAT traffic fell from 740 GB to 31.
? cause: Why did the cloud bill go up in April? => registry mirror was removed

== maple-infra es
> ¿Cuánto tiempo guardamos los registros?
< Ahora mismo 7 días en Loki. Auditoría pide un año, pero solo de los accesos.
> Treinta días para todo y 400 para los accesos.
edit charts/loki/values.yaml: retention: 168h => retention: 720h
< Configurado: 30 días en general y 400 días para los registros de acceso, en frío.
? number: ¿Durante cuántos días se conservan los registros de acceso? => 400 días

== maple-infra en
> ingress-nginx is going out of maintenance. Options?
< The Gateway API with Envoy Gateway is the supported path. Our 31 ingress objects convert with
  `ingress2gateway`; two with snippets need work by hand.
> ok we migrate, Envoy Gateway
$ ingress2gateway print | kubectl apply -f - => 31 httproutes created
< Traffic enters through Envoy Gateway now; the old controller is uninstalled.
? superseded: What terminates incoming traffic? => Envoy Gateway, not nginx 1.9
"""

QUILL = """\
== quill-data en
> Nightly job: Airflow vs cron + make?
< There are four steps and one dependency. Airflow would be a database, a scheduler and a web
  server for that.
> cron and make
edit Makefile: all: => nightly: extract clean load report
< `make nightly` runs at 01:30 from cron and mails its log if it fails.

== quill-data en
> Revenue in the dashboard is 4 % lower than finance's number since February.
$ duckdb warehouse.db "select count(*) from orders where currency is null" => 18233
read etl/orders.py
< Orders from the new Swiss shop have no currency code, and the inner join with exchange rates
  drops them.
> default those to CHF
edit etl/orders.py: how="inner" => how="left"
$ pytest -q tests/etl => 57 passed in 9.33s
< Missing codes count as CHF and the join keeps every order. February now matches to the cent.
? cause: Why was the reported turnover too low? => no currency code

== quill-data fr
> Quel format pour les fichiers intermédiaires ? Le CSV casse les accents.
< Parquet garde les types et l'encodage, et divise la taille par six environ.
> Va pour Parquet, compressé en snappy.
edit etl/io.py: to_csv => to_parquet
< Les étapes échangent maintenant des fichiers Parquet compressés avec snappy.
? decision: En quoi sont écrits les fichiers intermédiaires ? => Parquet compressés

== quill-data en
> The churn model: what threshold do we alert on?
$ python -m models.evaluate churn => threshold 0.5 precision .41 recall .83\\nthreshold 0.68
  precision .66 recall .62
< At 0.68 two of three alerts are right. Support can handle about sixty a week, which fits.
> good, 0.68
edit models/churn.yaml: threshold: 0.5 => threshold: 0.68
< The threshold is 0.68, and the weekly report lists the sixty highest.
? number: From which score on do we warn about leaving customers? => threshold is 0.68

== quill-data es
> Los correos del informe llegan vacíos los lunes. ¿Por qué?
$ grep MAILTO -A3 crontab.txt => 30 1 * * 1 make report
read etl/report.py
< El informe del lunes filtra por "ayer", que es domingo, y los domingos no hay pedidos.
> Que use la última jornada con pedidos.
edit etl/report.py: yesterday() => last_business_day()
< Corregido: toma el último día con pedidos, así que el lunes muestra el sábado.
? cause: ¿Por qué salía vacío el informe de los lunes? => los domingos no hay pedidos

== quill-data en
> I'd rather not have notebooks in the repo. Diffs are hopeless. Scripts with cell markers instead.
$ jupytext --to py:percent notebooks/*.ipynb => 9 files written
edit .gitignore: *.log => *.ipynb
< The nine notebooks are `py:percent` scripts now, and `*.ipynb` is ignored.
? preference: Should analyses be committed as notebooks? => cell markers

== quill-data fr
> Je préfère Polars à pandas pour tout nouveau code.
read etl/clean.py
edit etl/clean.py: import pandas as pd => import polars as pl
$ pytest -q tests/etl/test_clean.py => 12 passed in 0.80s
< Entendu : `clean.py` est réécrit avec Polars, et l'étape prend 9 s au lieu de 70.
? preference: Quelle bibliothèque de tableaux faut-il employer ? => réécrit avec Polars

== quill-data en
> Backfill of 2024 takes forever: 11 hours.
$ py-spy dump --pid 880 => geocode (etl/geo.py:33)
< Nine of the eleven hours are the geocoder, one HTTP request per row, although there are only
  6,400 distinct addresses.
> cache it
edit etl/geo.py: def geocode(a): => @lru_cache(maxsize=None)\\ndef geocode(a):
< With one lookup per distinct address the backfill takes 74 minutes.
? cause: What made the 2024 backfill slow? => one HTTP request per row
? number: How long does the backfill take now? => 74 minutes

== quill-data es
> ¿En qué zona horaria guardamos las fechas? Hay un lío entre Madrid y Canarias.
< Propongo UTC en el almacén y convertir solo al mostrar, con la zona de cada tienda.
> De acuerdo.
edit etl/dates.py: tz="Europe/Madrid" => tz="UTC"
< Desde ahora el almacén guarda UTC, y la zona se toma de `stores.tz` al mostrar.
? decision: ¿De dónde sale la zona horaria al mostrar una fecha? => stores.tz

== quill-data en
> GDPR request: we must be able to erase one customer everywhere. How?
read etl/customers.py
< Encrypt personal columns with a key per customer and throw the key away. Rewriting two years of
  files for every request would take a night each.
> crypto shredding, yes
edit etl/customers.py: row.email => seal(row.email, key_of(row.id))
< Personal columns are sealed with one key per customer; erasing means deleting that key from
  `customer_keys`.
? decision: How do we erase a customer's personal data? => customer_keys

== quill-data en
> The cron box died and nobody noticed for two days. We now have nine steps too.
< Then a scheduler with retries and alerts pays off. Dagster runs in one process, knows our
  Parquet files as assets, and backfills by partition.
> alright, Dagster replaces cron
$ pip install dagster dagster-webserver => Successfully installed dagster-1.8.2
edit pipelines/__init__.py: pass => defs = Definitions(assets=load_assets())
< The nightly run is a Dagster job with nine assets, two retries each, and a Slack alert.
? superseded: What schedules the nightly run? => Dagster job, not mails its log

== quill-data en
> Sampling for the survey export, last time we said 5 %?
< Not recorded anywhere in the code. 5 % of 220,000 gives 11,000 rows, the agency accepts 8,000.
> make it 3.5 %, stratified by region
edit etl/survey.py: sample(0.05) => sample(0.035, by="region")
< The export draws 3.5 % per region, about 7,700 rows.
? number: Which share of customers goes to the survey agency? => 3.5 % per region
"""

MIXED = """\
== harbor-api en
> Outbox for events: poll or notify?
read app/events/outbox.py
< Polling every two seconds is simple and survives restarts.
> poll
edit app/events/outbox.py: pass => while True: drain(); sleep(2)
< The outbox is drained by a loop every two seconds.

== tidepool-web en
> Can we log in with passkeys?
read src/login/Passkey.tsx
< The browser side is ready; the back office would have to store public keys first.
> later then
< I left a note in `TODO.md`.

== grainstore en
> Should the admin page have sessions too?
< It is only reachable from localhost, so I would leave it without a login.
> fine

== lantern-ios en
> Where do we keep the login token?
read Sources/Auth/Token.swift
< In the keychain, with `afterFirstUnlock`, so that background refresh works.
> ok

== maple-infra en
> give harbor more replicas for the regatta weekend
$ git -C deploy commit -am "scale: harbor to 8" => [main 12cc0aa] scale: harbor to 8
< Harbor scales to eight pods from Friday to Monday.
? number: How many pods did the booking service get for the regatta? => eight pods

== harbor-api de
> Womit verschicken wir die Buchungsbestätigungen?
< Postmark hat die beste Zustellquote und kostet bei unserer Menge 15 Dollar im Monat.
> Dann Postmark.
edit app/mail/send.py: smtplib => postmarker
< Bestätigungen gehen über Postmark hinaus, Vorlagen liegen unter `mail/templates`.

== lantern-ios ja
> 課金の実装は RevenueCat でいいですか。
< 手数料は売上の一パーセントですが、検証サーバーが不要になります。
> では RevenueCat でお願いします。
edit Package.swift: dependencies: [] => dependencies: [.package(url: "purchases-ios")]
< RevenueCat を組み込み、月額と年額の二つの商品を登録しました。

== quill-data fr
> On met quoi comme outil de tableaux de bord ? Metabase ?
< Metabase s'installe en une heure et les équipes savent déjà s'en servir.
> Allez, Metabase.
$ docker compose up -d metabase => Started
< Metabase tourne sur le port 3030, connecté à l'entrepôt en lecture seule.

== quill-data en
> compress the archive of 2023
$ zstd -19 --rm archive-2023/*.parquet => 312 files compressed
< 312 files compressed, 48 GB became 31.

== harbor-api en
> Polling adds two seconds before a skipper sees the gate code. Not good enough.
read app/events/outbox.py
< LISTEN/NOTIFY wakes the drain at commit; a slow poll every minute stays as a safety net.
> do it
edit app/events/outbox.py: sleep(2) => wait_for_notify(timeout=60)
$ pytest -q tests/events => 19 passed in 4.4s
< The drain is woken by NOTIFY, with a sweep each minute. Gate codes arrive in 90 ms.
? superseded: How are outbox events picked up? => woken by NOTIFY, not every two seconds

== tidepool-web de
> Welche Karte nehmen wir als Hintergrund? Google ist zu teuer.
< OpenFreeMap liefert Vektorkacheln ohne Schlüssel. MapTiler kostet ab 100.000 Aufrufen.
> OpenFreeMap, bitte mit eigenem Stil.
edit src/map/base.ts: google => openfreemap
< Der Hintergrund kommt von OpenFreeMap, der Stil liegt in `reef-style.json`.
? decision: Woher kommen die Hintergrundkarten? => von OpenFreeMap

== grainstore fr
> Pourquoi la lecture est-elle si lente après une compaction ?
$ cargo run --bin stats -- --cache => hit rate 3 %
< La compaction vide le cache de blocs : les nouveaux fichiers ont d'autres numéros, donc rien
  n'est retrouvé pendant vingt minutes.
> On préchauffe alors.
edit src/cache.rs: evict_all() => warm(new_files)
< Les blocs fréquents sont préchargés ; le taux reste au-dessus de 85 %.
? cause: Qu'est-ce qui ralentit la lecture juste après une compaction ? => vide le cache de blocs

== lantern-ios es
> ¿Qué fuente usamos para leer? La del sistema cansa.
< Literata es libre, está pensada para pantallas y pesa 400 kB con dos estilos.
> Esa, y el tamaño por defecto 19.
edit Sources/Reader/Theme.swift: .system => .custom("Literata", size: 19)
< El lector usa Literata a 19 puntos.
? decision: ¿Con qué tipografía se muestra el texto? => usa Literata

== maple-infra zh
> 备份放在哪个区域比较好？
< 主集群在法兰克福，备份放到斯德哥尔摩，跨区费用每月大约 40 欧元。
> 可以，就斯德哥尔摩
edit backup.tf: region = "eu-central-1" => region = "eu-north-1"
< 备份已改到斯德哥尔摩，保留 35 天，每天校验一次。
? decision: 备份存到了哪个城市 => 备份已改到斯德哥尔摩

== quill-data ja
> 重複した顧客が二千件以上あります。どうしてでしょうか。
$ duckdb warehouse.db "select count(*) from customers group by email having count(*) > 1" => 2143
read etl/dedupe.py
< メールアドレスの大文字と小文字を区別しているためです。全角の英字も別の人として扱われます。
> 正規化してからまとめてください
edit etl/dedupe.py: key = row.email => key = normalize(row.email)
< NFKC で正規化し、小文字にそろえました。重複は 12 件になりました。
? cause: 顧客が二重に登録されるのはなぜですか => 大文字と小文字を区別している

== harbor-api en
> bump ruff, pin pre-commit, chores
$ pre-commit autoupdate => updating ruff v0.4.1 -> v0.6.9
$ git commit -am "chore: update hooks" => [main ab01c3d] chore: update hooks
< Hooks are updated; nothing else changed.

== maple-infra en
> postgres backups, how far back can we go?
read charts/pg/values.yaml
< Point in time recovery reaches back ten days, weekly dumps are kept for a year.
> extend PITR to 21 days
edit charts/pg/values.yaml: retention: 10d => retention: 21d
< WAL archives are kept for 21 days.
? number: How many days back can the database be restored to any moment? => 21 days

== lantern-ios en
> Podcasts tab: keep or kill?
< It had 0.6 % of sessions last quarter and a third of the crash reports.
> kill it, but leave the feed parser, I want it for newsletters
$ git rm -r Sources/Podcasts => rm 'Sources/Podcasts/PodcastsView.swift' (14 files)
< The tab and its player are removed. `FeedParser` stays.
? decision: Why was the feed parser kept when podcasts were dropped? => for newsletters

== grainstore en
> Replication: chain or raft?
read docs/replication.md
< Raft needs three nodes and survives one loss without a coordinator. Chain replication is faster
  for reads at the tail, but reconfiguration needs an outside service.
> raft, openraft crate
edit Cargo.toml: [dependencies] => [dependencies]\\nopenraft = "0.9"
< Replication uses `openraft` with three voters and optional learners.
? decision: How do replicas agree with each other? => `openraft`

== quill-data en
> Slack alert for late data: after how long?
< The slowest shop delivers by 03:10. Half an hour of grace avoids false alarms.
> 3:45 sharp
edit pipelines/alerts.py: late = None => late = time(3, 45)
< A freshness check fires at 03:45 if a shop is missing.
? number: When do we get an alert about missing shops? => 03:45

== tidepool-web en
> No, don't use enums in TypeScript. Use union types of string literals.
$ grep -rn "enum " src | wc -l => 14
edit src/types.ts: enum Depth => type Depth = "shallow" | "deep"
< Converted all 14 to unions of literals; the bundle lost 2 kB.
? preference: Are enums welcome in the frontend? => union types of string literals

== harbor-api de
> Postmark hat unser Konto gesperrt, die Bestätigungen kommen nicht an.
< SES wäre sofort verfügbar, die Domain ist dort schon geprüft. Mailgun dauert zwei Tage.
> Dann nehmen wir ab jetzt SES.
edit app/mail/send.py: postmarker => boto3.client("ses")
$ pytest -q tests/mail => 9 passed in 0.71s
< Alles läuft jetzt über SES in Frankfurt, Rückläufer landen in `mail_bounces`.
? superseded: Worüber gehen Mails an die Kunden hinaus? => über SES, not 15 Dollar

== lantern-ios ja
> 手数料が思ったより高いので、やり方を見直したいです。
< StoreKit 2 なら端末で検証できるので、外部のサービスは要りません。
> やっぱり RevenueCat はやめて、StoreKit 2 を直接使います。
edit Package.swift: purchases-ios => StoreKit
< StoreKit 2 に移行しました。購入の検証は端末内で行います。
? superseded: アプリ内課金は何で実装していますか => StoreKit 2 に移行, not 月額と年額

== quill-data fr
> Metabase rame dès qu'il y a dix personnes dessus.
< Les tableaux changent une fois par jour : des pages statiques générées avec Evidence suffisent.
> Bon, on abandonne Metabase et on génère tout avec Evidence.
$ npm run build => 24 pages built in 11 s
< Les 24 pages sont générées chaque matin avec Evidence et servies par nginx.
? superseded: Qu'est-ce qui affiche les tableaux de bord ? => chaque matin avec Evidence, not 3030
"""

EVERYDAY = """\
== - en
> What can I cook with leeks, potatoes and half a pack of bacon?
< A leek and potato soup: fry the bacon, sweat the leeks in the fat, add diced potatoes and stock,
  simmer for 20 minutes. Crumble the bacon on top.
> Can I freeze it?
< Yes, for about three months. Leave out the cream until you reheat it.

== - en
> My sister is getting married in June and I have to give a speech. Help!
< Start with a short story that shows who she is, say how her partner changed her for the better,
  and end with a toast. Three minutes is plenty.
> She once drove 200 km to return a library book.
< Perfect opening. It says everything about her in one line.

== - de
> Welche Wanderung im Harz ist mit Kindern schön?
< Das Bodetal von Thale nach Treseburg: zehn Kilometer, kaum Steigung und viel Wasser.
> Gibt es dort etwas zu essen?
< In Treseburg sind zwei Gasthäuser, im Sommer auch ein Kiosk an der Brücke.

== - fr
> Comment enlever une tache de vin rouge sur un tapis ?
< Tamponnez sans frotter, puis eau gazeuse et un peu de bicarbonate. Laissez sécher et aspirez.

== - es
> ¿Qué libro me recomiendas para un viaje largo en tren?
< "La sombra del viento" engancha desde el principio y se lee en dos tardes.
> Ya lo he leído.
< Entonces "Patria": capítulos cortos, perfectos para ir parando.

== - zh
> 周末想带父母去杭州，有什么建议？
< 第一天西湖和灵隐寺，第二天龙井村喝茶。父母年纪大的话，西湖可以坐船。

== - ja
> 友達の誕生日に何を贈ればいいですか。予算は五千円です。
< 料理が好きな方なら、良い包丁研ぎや出汁のセットが喜ばれます。

== - en
> I can't sleep before presentations. Any tips?
< Write down the first two sentences and rehearse only those. No screens for an hour, and get up
  if you lie awake longer than twenty minutes.

== - en
> Explain the offside rule like I'm five.
< You may not wait behind the last defender for the ball, just like you may not hide behind the
  person who is "it" in tag.

== - en
> How much paint do I need for a room of 4 by 5 metres?
< The walls are about 45 square metres. One litre covers ten, two coats make nine litres.
> and the ceiling?
< Another four litres.

== - en
> My tomato plants have yellow leaves at the bottom.
< Usually nitrogen or too much water. Feed them and let the soil dry between watering.

== - en
> Is it rude to decline a wedding invitation by text?
< Among friends a kind message is fine. Answer soon, and send a card.
"""

WITHOUT_ANSWER = (
    "Which message broker did we pick for the drone fleet?",
    "Why did the kitchen printer stop accepting orders?",
    "What is the passing score of the driving theory simulator?",
    "How do we anonymise patient scans?",
    "Who signs the quarterly sustainability report?",
    "What did we agree on for the GraphQL subscriptions?",
    "Why does the elevator controller reboot?",
    "Which font licence did the museum kiosk need?",
    "How many seats does the Salesforce contract include?",
    "What was wrong with the Bluetooth pairing of the thermostat?",
    "Which blockchain did we evaluate for the land registry?",
    "Do I prefer tabs or spaces in Haskell?",
    "How are embroidery patterns versioned?",
    "What made the satellite telemetry drift?",
    "Which Kafka partitioner do we use?",
    "When does the planetarium subscription renew?",
    "What did we choose for speech recognition in the call centre?",
    "Warum fällt der Aufzug im Rathaus aus?",
    "Welche Lizenz hat das Schachprogramm?",
    "Pourquoi l'imprimante du cabinet dentaire est-elle bloquée ?",
    "¿Qué sensor mide la humedad del invernadero?",
    "直播平台的弹幕审核用的是什么方案",
    "駐車場の精算機はどの会社のものですか",
    # Their words occur in the sessions, what they ask for does not.
    "Which region is the Redis cluster in?",
    "What is the retention of the Kubernetes audit log in BigQuery?",
    "Why did we replace GRDB with Realm?",
    "How many reviewers does a Terraform pull request need?",
    "What does the Stripe fee for instant payouts come to?",
    "Which shard key does the bookings collection have in MongoDB?",
    "What is the on-call phone number for harbor outages?",
)

LATER_WITHOUT_ANSWER = (
    "Which payment terminal did the bakery choose?",
    "Why did the email newsletter bounce in March?",
    "What is the timeout of the SOAP gateway?",
    "Who maintains the Jenkins server?",
    "How large may an avatar image be?",
    "Which encryption does the backup tape use?",
    "When was the Elasticsearch index rebuilt?",
    "What did we decide about the loyalty points?",
    "Why is the VPN so slow in Lisbon?",
    "How many translators work on the manual?",
    "Which chart library draws the heat map?",
    "What broke the barcode scanner?",
    "Where are the Ansible playbooks stored?",
    "Why was the Oracle licence cancelled?",
    "What is the maximum length of a user name?",
    "How do we rotate the signing keys of the Android app?",
    "Which queue feeds the thumbnail worker?",
    "What was the cause of the duplicate invoices in SAP?",
    "Who approves holidays in the support team?",
    "Which Postgres extension stores the polygons?",
    "How often is the Stripe webhook secret rotated?",
    "What replaced the Redis session store in the forum?",
    "Which Terraform module creates the DNS zone?",
    "Why did Grafana lose its dashboards?",
    "What is the Kubernetes version of the edge nodes?",
    "How does the chat bot detect spam?",
    "Which colour did we pick for the error banner?",
    "What does the freight calculator round to?",
    "Why did the sitemap disappear from Google?",
    "Which sensor reports the water level?",
)
"""Written after the rules of `search.evidence`, to see if they fit more than the list above."""
RULES_WITHOUT_ANSWER = (
    "May I use goto in the firmware?",
    "Are singletons allowed in the game engine?",
    "Should the brochure mention our prices?",
    "Can I merge my own pull requests?",
    "Is it okay to deploy on Fridays?",
    "Do I prefer light or dark themes?",
    "How do I like my coffee?",
    "May we share customer addresses with partners?",
    "Are interns allowed to push to main?",
    "Should screenshots be stored in the repository?",
    "Vim or Emacs?",
    "Monorepo or separate repositories?",
    "Is it fine to log email addresses?",
    "Can we use GPL libraries?",
    "Should functions have docstrings?",
    "Do we allow force pushes?",
    "Are abbreviations okay in variable names?",
    "May I skip the code review for typos?",
    "Must releases be signed?",
    "What is our policy on overtime?",
    "Should tests use random data?",
    "REST or gRPC for the scanner?",
    "Do I want semicolons in JavaScript?",
    "Can I add a new dependency without asking?",
    "Is recursion acceptable in the parser?",
    "Should error messages be translated?",
    "Am I allowed to rebase shared branches?",
    "Do I like long functions?",
    "Darf ich Kommentare auf Deutsch schreiben?",
    "Soll die Rechnung per Fax kommen?",
    "Peut-on utiliser des variables globales ?",
    "¿Se puede usar jQuery en la web?",
)
"""The same, about what is allowed or preferred: short questions of frequent words."""
MORE_RULES_WITHOUT_ANSWER = (
    "May I commit generated files?",
    "Should we pin the versions of GitHub actions?",
    "Is it okay to use eval in the templates?",
    "Do I prefer short or long commit messages?",
    "Are print statements allowed in production?",
    "Can I store passwords in environment variables?",
    "What is the rule for naming branches?",
    "What is the rule for closing stale tickets?",
    "Do we require two approvals for a hotfix?",
    "Should dates be shown in the time zone of the user?",
    "Must every endpoint have a rate limit?",
    "Is it allowed to disable the linter for a line?",
    "Do I like emojis in release notes?",
    "May contractors read the customer database?",
    "Light roast or dark roast?",
    "Inheritance or composition?",
    "Should I squash commits before a review?",
    "What is our policy on leap seconds?",
    "Darf ich am Wochenende deployen?",
    "¿Puedo usar emojis en los commits?",
)
"""The same, written before a question for a rule needed a rule as its answer."""


class Call(NamedTuple):
    """A tool call and its result."""

    tool: str
    input: dict[str, str]
    result: str


class Turn(NamedTuple):
    """A message of a person (role "user") or of the assistant, with the calls before it."""

    role: str
    text: str
    calls: tuple[Call, ...] = ()


class Question(NamedTuple):
    kind: str
    text: str
    key: str
    old_key: str
    session: str
    """The id of the session with the answer."""


class Session(NamedTuple):
    id: str
    project: str
    """Empty for an everyday chat."""
    language: str
    start: datetime
    turns: tuple[Turn, ...]


class Set(NamedTuple):
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]


# -- reading the texts above ---------------------------------------------------

_ROLES = {">": "user", "<": "assistant"}


def build() -> Set:
    """All sessions in the order of time, and the questions that have an answer."""
    sessions: list[Session] = []
    questions: list[Question] = []
    blocks = _blocks()
    for number, block in enumerate(blocks):
        session, session_questions = _session(block, number, len(blocks))
        sessions.append(session)
        questions += session_questions
    return Set(tuple(sessions), tuple(questions))


def _blocks() -> list[list[str]]:
    """The lines of each session. Projects take turns, so that they overlap in time."""
    columns = []
    for text in (HARBOR, TIDEPOOL, GRAIN, LANTERN, MAPLE, QUILL, MIXED, EVERYDAY):
        joined = text.replace("\n  ", " ")
        columns.append([block.strip().split("\n") for block in joined.split("\n\n")])
    rows = range(max(map(len, columns)))
    return [column[row] for row in rows for column in columns if row < len(column)]


def _session(lines: list[str], number: int, count: int) -> tuple[Session, list[Question]]:
    _, project, language = lines[0].split()
    if project == "-":
        project = ""
    id_ = str(uuid.uuid5(uuid.NAMESPACE_URL, f"memory-set/{number}"))
    turns: list[Turn] = []
    calls: list[Call] = []
    questions = []
    rng = random.Random(f"{SEED}/{number}")
    for line in lines[1:]:
        if line.startswith("? "):
            questions.append(parse_question(line[2:], id_))
        elif line.startswith(("> ", "< ")):
            turns.append(Turn(_ROLES[line[0]], line[2:], tuple(calls)))
            calls = []
        else:
            calls.append(_call(line, rng))
    if project:
        turns = [*_filler(rng, language, rng.randint(2, 8)), *turns]
        turns += _filler(rng, language, rng.randint(2, 8))
    start = START + timedelta(days=160 * number / count, minutes=rng.randrange(240))
    return Session(id_, project, language, start, tuple(turns)), questions


def parse_question(line: str, session: str) -> Question:
    """A question from `kind: text => key`, or `key, not old key`."""
    kind, rest = line.split(": ", 1)
    text, keys = rest.rsplit(" => ", 1)
    key, _, old_key = keys.partition(", not ")
    return Question(kind, text, key, old_key, session)


def _call(line: str, rng: random.Random) -> Call:
    if line.startswith("$ "):
        command, _, output = line[2:].partition(" => ")
        return Call("Bash", {"command": command}, output.replace("\\n", "\n"))
    verb, _, rest = line.partition(" ")
    if verb == "read":
        return Call("Read", {"file_path": rest}, _source(rng, rest))
    path, _, change = rest.partition(": ")
    old, _, new = change.partition(" => ")
    new = new.replace("\\n", "\n")
    values = {"file_path": path, "old_string": old, "new_string": new}
    return Call("Edit", values, f"The file {path} has been updated.")


# -- everyday coding turns ---------------------------------------------------------

_NOUNS = (
    "cursor",
    "batch",
    "header",
    "ledger",
    "widget",
    "packet",
    "region",
    "parser",
    "slot",
    "label",
    "frame",
    "policy",
)
_VERBS = (
    "load",
    "merge",
    "flush",
    "apply",
    "resolve",
    "split",
    "encode",
    "collect",
    "trim",
    "bind",
    "rotate",
    "scan",
)

_REQUESTS = {
    "en": (
        "Rename `{a}` to `{b}` in the whole repository.",
        "What does `{a}` do exactly?",
        "Please add a test for `{a}`.",
        "the docstring of `{a}` is out of date",
        "Can you format this file and commit?",
    ),
    "de": (
        "Benenne `{a}` bitte in `{b}` um.",
        "Was macht `{a}` genau?",
        "Schreib bitte einen Test für `{a}`.",
    ),
    "fr": (
        "Renomme `{a}` en `{b}`, s'il te plaît.",
        "Que fait `{a}` exactement ?",
        "Ajoute un test pour `{a}`.",
    ),
    "es": (
        "Cambia el nombre de `{a}` a `{b}`.",
        "¿Qué hace `{a}` exactamente?",
        "Añade una prueba para `{a}`.",
    ),
    "zh": ("把 `{a}` 重命名为 `{b}`", "`{a}` 是做什么的？", "给 `{a}` 加一个测试"),
    "ja": (
        "`{a}` を `{b}` に変更してください。",
        "`{a}` は何をしますか。",
        "`{a}` のテストを追加してください。",
    ),
}
_REPLIES = {
    "en": (
        "Renamed in {n} files. Nothing else refers to the old name.",
        "It walks over the entries, skips those without a {noun}, and returns the rest in order.",
        "Added `test_{a}`, which covers the empty case and two entries with the same {noun}.",
        "Rewritten: it now says what happens when the {noun} is missing.",
        "Formatted and committed.",
    ),
    "de": (
        "In {n} Dateien umbenannt.",
        "Die Funktion geht die Einträge durch und überspringt leere.",
        "Der Test deckt den leeren Fall und zwei gleiche Einträge ab.",
    ),
    "fr": (
        "Renommé dans {n} fichiers.",
        "La fonction parcourt les entrées et saute celles qui sont vides.",
        "Le test couvre le cas vide et deux entrées identiques.",
    ),
    "es": (
        "Renombrado en {n} ficheros.",
        "La función recorre las entradas y omite las vacías.",
        "La prueba cubre el caso vacío y dos entradas iguales.",
    ),
    "zh": (
        "已在 {n} 个文件中重命名。",
        "它遍历所有条目，跳过空的条目。",
        "测试覆盖了空输入和重复条目。",
    ),
    "ja": (
        "{n} 個のファイルで変更しました。",
        "項目を順に調べ、空の項目を飛ばします。",
        "空の場合と重複する場合をテストします。",
    ),
}


def _filler(rng: random.Random, language: str, count: int) -> list[Turn]:
    turns = []
    for _ in range(count):
        noun = rng.choice(_NOUNS)
        names = {"a": f"{rng.choice(_VERBS)}_{noun}", "b": f"{rng.choice(_VERBS)}_{noun}s"}
        choice = rng.randrange(len(_REQUESTS[language]))
        path = f"src/{noun}/{names['a']}.py"
        calls = [Call("Read", {"file_path": path}, _source(rng, path))]
        if rng.random() < 0.6:
            output = f"{rng.randint(20, 400)} passed"
            calls.append(Call("Bash", {"command": f"make test-{noun}"}, output))
        reply = _REPLIES[language][choice]
        turns.append(Turn("user", _REQUESTS[language][choice].format(**names)))
        text = reply.format(n=rng.randint(2, 30), noun=noun, **names)
        turns.append(Turn("assistant", text, tuple(calls)))
    return turns


def _source(rng: random.Random, path: str) -> str:
    """The text of a source file as the tool `Read` returns it, with line numbers."""
    lines = [f"# {path}", ""]
    for _ in range(rng.randint(3, 9)):
        verb, noun = rng.choice(_VERBS), rng.choice(_NOUNS)
        lines += [
            f"def {verb}_{noun}(entries, limit={rng.randint(2, 900)}):",
            f"    result = [entry for entry in entries if entry.{noun}]",
            f"    for {noun} in result[:limit]:",
            f"        {rng.choice(_VERBS)}({noun}, strict={rng.random() < 0.5})",
            "    return result",
            "",
        ]
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))


# -- files ---------------------------------------------------------------------------


def write(sessions: tuple[Session, ...], folder: Path) -> None:
    """Write transcripts of Claude Code, and a file of everyday chats."""
    chats = []
    for session in sessions:
        if not session.project:
            chats.append(_chat(session))
            continue
        path = folder / f"-work-{session.project}" / f"{session.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(record, ensure_ascii=False) for record in _records(session)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = json.dumps({"conversations": chats}, ensure_ascii=False)
    (folder / "conversations.json").write_text(text, encoding="utf-8")


def _chat(session: Session) -> dict[str, Any]:
    messages = []
    for number, turn in enumerate(session.turns):
        time = session.start + timedelta(minutes=number)
        messages.append(
            {
                "id": f"{session.id}-{number}",
                "role": turn.role,
                "content": turn.text,
                "created_at": time.isoformat(),
            }
        )
    return {"id": session.id, "created_at": session.start.isoformat(), "messages": messages}


def _records(session: Session) -> Iterator[dict[str, Any]]:
    parent = None
    contents = [pair for turn in session.turns for pair in _contents(turn)]
    for number, (role, content) in enumerate(contents):
        id_ = str(uuid.uuid5(uuid.UUID(session.id), str(number)))
        yield {
            "type": role,
            "uuid": id_,
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": f"/work/{session.project}",
            "sessionId": session.id,
            "version": "2.0.14",
            "gitBranch": "main",
            "timestamp": (session.start + timedelta(seconds=40 * number)).isoformat(),
            "message": {"role": role, "content": content},
        }
        parent = id_


def _contents(turn: Turn) -> Iterator[tuple[str, list[dict[str, Any]] | str]]:
    """The messages of one turn: tool calls with their results, then the text."""
    for number, call in enumerate(turn.calls):
        id_ = "toolu_" + uuid.uuid5(uuid.NAMESPACE_OID, f"{turn}/{number}").hex[:24]
        use = {"type": "tool_use", "id": id_, "name": call.tool, "input": call.input}
        yield "assistant", [use]
        yield "user", [{"type": "tool_result", "tool_use_id": id_, "content": call.result}]
    if turn.role == "user":
        yield "user", turn.text
    else:
        yield "assistant", [{"type": "text", "text": turn.text}]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    set_ = build()
    write(set_.sessions, Path(sys.argv[1]))
    print(f"{len(set_.sessions)} sessions, {len(set_.questions)} questions")


if __name__ == "__main__":
    main()
