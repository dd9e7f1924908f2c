"""The PostgreSQL schema: tables, indexes, and the functions that search the text index.

A step has the same name as the SQLite step that makes the same change. Steps are appended, never
edited. A step that runs on distributed tables cannot use `set statistics`, and a statement ends
with a semicolon at the end of a line.

Steps after `BASELINE` run while older programs use the database, so they only add: columns with a
default, tables, functions with other arguments. Each of them is one of these:

- Only `create index` and `drop index`: the indexes are built without blocking writes.
- Statements with `{owner}`, which change at most a few thousand rows: each is repeated for every
  user until it changes nothing.
- Anything else runs in one short transaction. It creates no index on an older table.

What older programs need and newer ones do not is removed by a step of `CONTRACTIONS`.

The owner is the first column of every key and index, and the partition key of every table. So the
rows of one user are stored together, a search touches one partition, and the tables can be
distributed over several machines by user.
"""

from __future__ import annotations

from typing import NamedTuple

from recollect.language.words.spelling import LETTERS
from recollect.store.postgres.human_only import may_be_human_only

SCHEMA = "recollect"
APP = "recollect_app"
"""The role of our connections. It sees the rows of the owner that the transaction names."""
SEARCH = "recollect_search"
"""The role that owns the search functions."""
PARTITIONS = 16
LENGTH_BITS = 23
"""For the length of a passage in `search_words`."""
MAX_NEW_PASSAGES = 300
"""After more, all matches of a word are read again."""
TOKENS = 64
"""Commit tokens stored for each user."""
APPEND_ONLY = frozenset({"audit"})
"""Tables whose rows the application may neither change nor delete."""

M001_DOCUMENTS = """
create table account (
  id integer generated always as identity unique,
  name text not null,
  primary key (name)
);
create table last_key (
  owner integer primary key,
  passage bigint not null default 0,
  marks bigint[] not null default '{}'  -- tokens of the last commits, newest first
) partition by hash (owner);

create table document (
  owner integer not null default current_setting('recollect.owner')::integer,
  key bigint not null,
  id text not null,
  origin text not null,
  origin_id text not null,
  source text not null,
  title text not null,
  namespace text not null,
  created_at bigint,
  updated_at bigint,
  head text,
  opening bigint,
  passages integer not null default 0,
  metadata text,
  original text,
  partial boolean not null,
  shared_ids boolean not null,
  folded_title text not null,
  folded_id text not null,
  title_words text not null,
  tags text not null,
  primary key (owner, key),
  unique (owner, id),
  unique (owner, origin, origin_id)
) partition by hash (owner);
create index document_changed on document
  (owner, coalesce(updated_at, created_at) desc nulls last, key desc);

-- There is no foreign key to the document: checking it row by row would double the time of an
-- import. Passages are written and deleted together with their document, and `verify` reports
-- passages without one.
create table passage (
  owner integer not null default current_setting('recollect.owner')::integer,
  key bigint not null,
  document bigint not null,
  position integer not null,
  canonical boolean not null,
  created_at bigint,
  role text,
  kind text not null,
  visibility text not null,
  author text,
  receipt bigint,
  shared boolean not null,
  id text not null,
  parent text,
  model text,
  tool text,
  updated_at bigint,
  digest bytea not null,
  attachments text,
  citations text,
  metadata text,
  original text,
  content text not null,
  primary key (owner, key),
  unique (owner, document, id)
) partition by hash (owner);
create index passage_order on passage (owner, document, position);
create index passage_shared on passage (owner, id) where shared;
create index passage_time on passage (owner, created_at desc nulls last, key desc);

create table receipt (
  owner integer not null default current_setting('recollect.owner')::integer,
  id bigint not null,
  path text not null,
  started_at bigint not null,
  finished_at bigint,
  undone_at bigint,
  files text,
  left_out text,
  primary key (owner, id)
) partition by hash (owner);
create table receipt_document (
  owner integer not null default current_setting('recollect.owner')::integer,
  receipt bigint not null,
  document bigint not null,
  runs text not null,
  before text,
  primary key (owner, receipt, document),
  foreign key (owner, receipt) references receipt on delete cascade,
  foreign key (owner, document) references document on delete cascade
) partition by hash (owner);
create index receipt_document_document on receipt_document (owner, document);
create table receipt_revision (
  owner integer not null default current_setting('recollect.owner')::integer,
  receipt bigint not null,
  passage bigint not null,
  before text not null,
  primary key (owner, receipt, passage),
  foreign key (owner, receipt) references receipt on delete cascade,
  foreign key (owner, passage) references passage on delete cascade
) partition by hash (owner);
create index receipt_revision_passage on receipt_revision (owner, passage);
"""

M002_SEARCH = """
-- Derived from `passage`: its words, and the columns that filters use. `sure` is false if some
-- positions did not fit into the tsvector (long texts); phrases are then checked against the text.
-- `whole` is false if some words are missing. `folded` is null if the text is ASCII.
create table passage_text (
  owner integer not null default current_setting('recollect.owner')::integer,
  key bigint not null,
  document bigint not null,
  created_at bigint,
  role text,
  author text,
  hidden boolean not null,
  opening boolean not null,
  sure boolean not null,
  whole boolean not null,
  length integer not null,
  words tsvector not null,
  folded text,
  primary key (owner, key)
) partition by hash (owner);
create index passage_text_unsure on passage_text (owner, key) where not sure;
create table word (
  owner integer not null default current_setting('recollect.owner')::integer,
  term text not null,
  stem text,
  primary key (owner, term)
) partition by hash (owner);
create index word_stem on word (owner, stem) where stem is not null;
create table derived (
  owner integer not null default current_setting('recollect.owner')::integer,
  name text not null,
  version integer not null,
  primary key (owner, name)
) partition by hash (owner);
-- The number of deletions. Cached word counts from before a deletion are not used.
alter table last_key add removed bigint not null default 0;

create sequence space_number as integer;
create table space (
  owner integer not null default current_setting('recollect.owner')::integer,
  id integer not null default nextval('recollect.space_number'),
  name text not null,
  version text not null,
  dimensions integer not null,
  state bytea,
  done bigint not null default 0,
  ready boolean not null default false,
  gone boolean not null default false,
  primary key (owner, id),
  unique (owner, name, version)
) partition by hash (owner);
create sequence mark;
create table unembedded (
  owner integer not null default current_setting('recollect.owner')::integer,
  mark bigint not null default nextval('recollect.mark'),
  passage bigint not null,
  space integer not null,
  primary key (owner, passage, space)
) partition by hash (owner);
create index unembedded_space on unembedded (owner, space, passage);
-- There are no triggers, because distributed tables cannot have them. Whoever changes passages also
-- updates the queue. A vector is a list of eight-bit integers and the scale that makes it a unit
-- vector. It repeats the columns of its passage that filters use; when these change, the vector is
-- deleted.
create table vector (
  owner integer not null default current_setting('recollect.owner')::integer,
  space integer not null,
  passage bigint not null,
  document bigint not null,
  created_at bigint,
  role text,
  author text,
  hidden boolean not null,
  scale real not null,
  numbers {vector} not null
) partition by hash (owner);
create index vector_passage on vector (owner, space, passage);
"""

M003_LONG_WORDS = """
create index word_long on word (owner, term) where length(term) >= 128;
"""

M004_KNOWLEDGE = """
alter table document add version integer not null default 1;
alter table document add media_type text;
alter table document add character_id text;
create index document_source on document
  (owner, source, coalesce(updated_at, created_at) desc nulls last, key desc);
create index document_media_type on document (owner, media_type)
  where media_type is not null;
create index document_character on document (owner, character_id)
  where character_id is not null;
create index passage_role on passage (owner, role)
  where role not in ('user', 'assistant', 'system', 'tool') and length(role) <= 200;
create index passage_author on passage (owner, author)
  where author is not null and length(author) <= 200;
-- Statistics of a column cover all users, and a query plan must not reveal the data of others.
alter table passage alter role set statistics 0, alter author set statistics 0;
alter table document alter media_type set statistics 0, alter character_id set statistics 0;
"""

M005_OBSERVATIONS = """
alter table document add observed integer not null default 0;
create index document_unobserved on document (owner, key)
  where source = 'conversation' and observed <> version and observed <> -version;
"""

M007_VOCABULARY = """
alter table document rename column source to kind;
alter table document rename column origin to source;
alter table document rename column origin_id to source_id;
alter table document rename column namespace to project;
alter table passage rename column kind to type;
alter index document_source rename to document_kind;
"""

# Version 0.1 copied the words into this table if the server had the extension pg_textsearch.
M008_DROP_BM25 = """
drop table if exists passage_bm25;
"""

M009_NOISE_FLOOR = """
alter table space add column noise_floor double precision;
alter table space add column calibrated_size bigint not null default 0;
"""

# Few messages are on other branches. A conversation without any is read page by page.
M010_BRANCHES = """
create index passage_branch on passage (owner, document, position) where not canonical;
"""

# Numbers of passages by role, model, tool and so on; see `store/sql/statistics.py`.
M013_COUNTS = """
create table tally (
  owner integer not null default current_setting('recollect.owner')::integer,
  name text not null,
  value text not null,
  count bigint not null,
  primary key (owner, name, value)
) partition by hash (owner);
create index passage_text_part on passage_text (owner, key) where not whole;
"""

M017_KEYWORDS = """
-- The title of a note or media item with its keywords, as it is in the text index. The background
-- indexer fills it in for older items.
alter table document add column heading text;
create index document_without_heading on document (owner, key)
  where heading is null and kind in ('note', 'media');
"""

# Hashes of what was forgotten; see `store/sql/writing/tombstones.py`.
M018_FORGOTTEN = """
create table forgotten (
  owner integer not null default current_setting('recollect.owner')::integer,
  high bigint not null,
  low bigint not null,
  primary key (owner, high, low)
) partition by hash (owner);
"""

M019_AUDIT = """
create table audit (
  owner integer not null default current_setting('recollect.owner')::integer,
  number bigint not null,
  record text not null,
  hash text not null,
  primary key (owner, number)
) partition by hash (owner);
"""

M020_PINNED = """
alter table document add pinned integer;
create index document_pinned on document (owner, pinned) where pinned is not null;
alter table document alter pinned set statistics 0;
-- For looking up ids by their first characters.
create index document_id_prefix on document (owner, id text_pattern_ops);
"""

# What is needed to undo recent changes; see `store/sql/imports/undo.py`.
M021_UNDO = """
create table undo (
  owner integer not null default current_setting('recollect.owner')::integer,
  number bigint not null,
  action text not null,
  document text not null,
  title text not null,
  changed_at bigint not null,
  expires_at bigint not null,
  state text not null,
  primary key (owner, number)
) partition by hash (owner);
create index undo_document on undo (owner, document);
"""

# For the models of a conversation, and the conversations of a model.
M022_MODELS = """
create index passage_models on passage (owner, document, model) where model is not null;
"""

M023_LISTS = """
-- The tags as they are written, as JSON. It is filled in for older documents when a library is
-- opened.
alter table document add column tag_names text;
-- In this order, all documents of each model are read at once.
drop index passage_models;
create index passage_models on passage (owner, model, document) where model is not null;
create index document_tagged on document (owner, kind) where tag_names is not null;
create index document_without_tag_names on document (owner, key)
  where tags <> '' and tag_names is null;
"""

M024_MOVES = """
-- The places of documents in lists before the last changes; see `store/sql/writing/moves.py`.
create table list_move (
  owner integer not null default current_setting('recollect.owner')::integer,
  number bigint not null,
  document bigint not null,
  time bigint,
  pinned integer,
  primary key (owner, number)
) partition by hash (owner);
"""

# What a cluster needs: a primary key on every table, and the owner as an argument of the functions.
M025_CLUSTER = """
alter table vector add part integer not null default 0;
alter table vector no force row level security;
update vector v set part = n.part
from (
  select tableoid, ctid,
    row_number() over (partition by owner, space, passage order by ctid) - 1 as part
  from vector) n
where v.tableoid = n.tableoid and v.ctid = n.ctid and n.part > 0;
alter table vector force row level security;
alter table vector add primary key (owner, space, passage, part);
drop index vector_passage;
"""

# Pinned documents and the others are lists of their own. Without statistics, which cover all users,
# the planner takes "not pinned" for rare, and would sort instead of reading the list in its order.
M026_PINNED_LISTS = """
drop index document_pinned;
create index document_pinned on document
  (owner, kind, coalesce(updated_at, created_at) desc nulls last, key desc)
  where pinned is not null;
create index document_unpinned on document
  (owner, kind, coalesce(updated_at, created_at) desc nulls last, key desc) where pinned is null;
"""

# Why nobody may write to a library, as JSON; null if that is allowed. It is in the row that every
# write locks, so a write that waited for the lock sees it. See `store/sql/copying/handover.py`.
M027_CLOSED = """
alter table last_key add column closed text;
"""

# The oldest program that may use the database after a step; see `versions.py`.
M028_UPGRADES = """
alter table migration add column oldest_program text;
"""

# New search functions. One of them reads the vocabulary.
M029_FEWER_STATEMENTS = """
comment on table word is 'The words of each library, with their stems.';
"""

# A job has one receipt, however often it is attempted. Writes of a user wait for each other, so no
# index must enforce that.
M030_IMPORT_JOBS = """
alter table receipt add column job text;
"""

# The program has the same condition in its statements, so it must not change.
M031_HUMAN_ONLY = f"""
create index passage_human_only on passage (owner, key)
  where {may_be_human_only()};
"""

# Functions that begin transactions (TRANSACTION_FUNCTIONS), and a cheaper `matches`.
M032_TRANSACTION_FUNCTIONS = """
comment on table last_key is 'One row for each library, which every write locks.';
"""

# The function `word_matches`. Matches are remembered until `removed` changes.
M033_WORD_MATCHES = """
comment on column last_key.removed is 'How often indexed passages were changed or deleted.';
"""

LONGEST_INDEXED_NAME = 200
"""A row of an index has at most 2,704 bytes."""
M034_LONG_MODELS = f"""
create index passage_model_names on passage (owner, model, document)
  where model is not null and length(model) <= {LONGEST_INDEXED_NAME};
drop index passage_models;
"""

# The functions `search_words` and `search_start`.
M035_SEARCH_START = """
comment on column last_key.passage is 'The key of the newest passage.';
"""

# The function `append_message`. A cluster passes the functions that begin transactions on.
M036_APPEND_MESSAGE = """
comment on column last_key.marks is 'Tokens of the last commits, newest first.';
"""

# The functions `stored_kinds` and `may_have_human_only`.
M037_SEARCH_FACTS = """
comment on column last_key.removed is 'How often passages were changed or removed.';
"""

# A faster `stored_kinds`.
M038_STORED_KINDS = """
comment on column document.kind is 'What the document is, such as a conversation or a note.';
"""

# The functions `search_terms`, `similar_words` and `search_corrections`.
M039_SEARCH_TERMS = """
comment on column word.stem is 'The English stem, unless it is the word itself.';
"""

MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("m001_documents", M001_DOCUMENTS),
    ("m002_search", M002_SEARCH),
    ("m003_long_words", M003_LONG_WORDS),
    ("m004_knowledge", M004_KNOWLEDGE),
    ("m005_observations", M005_OBSERVATIONS),
    ("m007_vocabulary", M007_VOCABULARY),
    ("m008_drop_bm25", M008_DROP_BM25),
    ("m009_noise_floor", M009_NOISE_FLOOR),
    ("m010_branches", M010_BRANCHES),
    ("m013_counts", M013_COUNTS),
    ("m017_keywords", M017_KEYWORDS),
    ("m018_forgotten", M018_FORGOTTEN),
    ("m019_audit", M019_AUDIT),
    ("m020_pinned", M020_PINNED),
    ("m021_undo", M021_UNDO),
    ("m022_models", M022_MODELS),
    ("m023_lists", M023_LISTS),
    ("m024_moves", M024_MOVES),
    ("m025_cluster", M025_CLUSTER),
    ("m026_pinned_lists", M026_PINNED_LISTS),
    ("m027_closed", M027_CLOSED),
    ("m028_upgrades", M028_UPGRADES),
    ("m029_fewer_statements", M029_FEWER_STATEMENTS),
    ("m030_import_jobs", M030_IMPORT_JOBS),
    ("m031_human_only", M031_HUMAN_ONLY),
    ("m032_transaction_functions", M032_TRANSACTION_FUNCTIONS),
    ("m033_word_matches", M033_WORD_MATCHES),
    ("m034_long_models", M034_LONG_MODELS),
    ("m035_search_start", M035_SEARCH_START),
    ("m036_append_message", M036_APPEND_MESSAGE),
    ("m037_search_facts", M037_SEARCH_FACTS),
    ("m038_stored_kinds", M038_STORED_KINDS),
    ("m039_search_terms", M039_SEARCH_TERMS),
)
BASELINE = "m028_upgrades"
"""Programs since this step keep working while later steps run."""


class Contraction(NamedTuple):
    """A step that removes what only older programs need."""

    name: str
    script: str
    oldest_program: str
    """The last step of the oldest programs that do not need it."""


# Numbers came from sequences until m025_cluster.
C001_SEQUENCES = """
alter table space alter id drop default;
alter table unembedded alter mark drop default;
drop sequence if exists space_number;
drop sequence if exists mark;
"""

CONTRACTIONS: tuple[Contraction, ...] = (
    Contraction("c001_sequences", C001_SEQUENCES, "m025_cluster"),
)


# -- the search functions ------------------------------------------------------

# The functions belong to `recollect_search`. Their first argument is the owner: a cluster runs them
# where that user's rows are. It must be the owner that the transaction names. A filter argument
# that is null is not applied.
_FILTER_PARAMETERS = """roles text[], authors text[], senders text[], not_roles text[],
  not_authors text[], since bigint, until bigint, documents bigint[], not_documents bigint[],
  with_hidden boolean"""
_IS_OWN = """t.owner = library
    and library = nullif(current_setting('recollect.owner', true), '')::integer"""
_IS_MATCH = f"""{_IS_OWN}
    and (roles is null or t.role = any(roles)) and (authors is null or t.author = any(authors))
    and (senders is null or t.role = any(senders) or t.author = any(senders))
    and (not_roles is null or coalesce(t.role, '') <> all(not_roles))
    and (not_authors is null or coalesce(t.author, '') <> all(not_authors))
    and (since is null or t.created_at >= since) and (until is null or t.created_at <= until)
    and (documents is null or t.document in (select unnest(documents)))
    and (not_documents is null or t.document not in (select unnest(not_documents)))
    and (with_hidden or not t.hidden)
    and (sureness is null or t.sure = sureness)"""
_SETTINGS = """stable security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_indexscan = off"""
_OPTIONS = f"language sql {_SETTINGS}"
_CANDIDATES = f"""select p.key, sum(u.weight) as weight, p.length, count(*) over () as total
    from unnest(queries, weights, steps) u(query, weight, step), lateral (
      select t.key, t.length from recollect.passage_text t
      where t.words @@ u.query and {_IS_MATCH} offset 0) p
    where u.step = number
    group by p.key, p.length order by 2 desc, 1 desc limit limits[number]"""
# The same without the total, and with the places of the rows in the user's partition.
_SELECTED = f"""select p.key, sum(u.weight) as weight, p.length, p.place
    from unnest(queries, weights, steps) u(query, weight, step), lateral (
      select t.key, t.length, t.ctid as place from recollect.passage_text t
      where t.words @@ u.query and {_IS_MATCH} offset 0) p
    where u.step = number
    group by p.key, p.length, p.place order by 2 desc, 1 desc limit limits[number]"""

# See `text.word_matches.decode`.
_PACKED = f"""int8send((t.key << {LENGTH_BITS + 1})
            | (t.hidden::integer::bigint << {LENGTH_BITS})
            | least(t.length, {(1 << LENGTH_BITS) - 1})::bigint)"""

FUNCTIONS = f"""
-- For each query: how many passages match, and how many of these are not hidden. Counting stops at
-- `at_most`.
create function frequencies(library integer, queries tsquery[], at_most integer)
  returns table (passages bigint, visible bigint) {_OPTIONS} as $$
  select c.passages, c.visible from unnest(queries) with ordinality u(query, place), lateral (
    select count(*) as passages, count(*) filter (where not x.hidden) as visible from (
      select t.hidden from recollect.passage_text t
      where {_IS_OWN} and t.words @@ u.query
      limit at_most) x) c
  order by u.place
$$;
-- How many passages match. Counting stops at `at_most`.
create function counted(library integer, query tsquery, sureness boolean, at_most integer,
  {_FILTER_PARAMETERS})
  returns bigint {_OPTIONS} as $$
  select count(*) from (
    select 1 from recollect.passage_text t where t.words @@ query and {_IS_MATCH}
    limit at_most) x
$$;
-- The passages with the largest sum of weights of matching queries, that sum, and their lengths.
create function candidates(library integer, queries tsquery[], weights float8[], sureness boolean,
  at_most integer,
  {_FILTER_PARAMETERS})
  returns table (key bigint, weight float8, length integer) {_OPTIONS} as $$
  select p.key, sum(u.weight), p.length from unnest(queries, weights) u(query, weight), lateral (
    select t.key, t.length from recollect.passage_text t
    where t.words @@ u.query and {_IS_MATCH} offset 0) p
  group by p.key, p.length order by 2 desc, 1 desc limit at_most
$$;
-- The same for several lists of queries, one after another, until one has `enough` passages. Each
-- query has the number of its step. A step can have other queries that only sum the weights. They
-- have no positions. `total` is the number of all passages of a step that has none.
create function matches(library integer, queries tsquery[], weights float8[], steps integer[],
  order_queries tsquery[], order_weights float8[], order_steps integer[], limits integer[],
  enough integer, sureness boolean,
  {_FILTER_PARAMETERS})
  returns table (step integer, key bigint, weight float8, length integer, total bigint)
  language plpgsql {_SETTINGS} set plan_cache_mode = force_custom_plan as $$
  #variable_conflict use_column
  declare
    number integer;
    size bigint;
  begin
    for number in 1 .. coalesce(cardinality(limits), 0) loop
      if number = any(order_steps) then
        return query select number, c.key, w.weight, c.length, null::bigint
          from ({_SELECTED}) c, lateral (
            select strip(t.words) as words from recollect.passage_text t
            where {_IS_OWN} and t.ctid = c.place offset 0) t, lateral (
            select sum(u.weight) as weight
            from unnest(order_queries, order_weights, order_steps) u(query, weight, step)
            where u.step = number and t.words @@ u.query) w;
      else
        return query select number, c.key, c.weight, c.length, c.total from ({_CANDIDATES}) c;
      end if;
      get diagnostics size = row_count;
      exit when size >= enough;
    end loop;
  end
$$;
-- For programs before m036_append_message, on a cluster.
-- For each stem: the words of the library that have it, and if `is_counted`, how many passages have
-- one of them or the word itself, and how many of these are not hidden.
create function terms(library integer, words text[], stems text[], is_counted boolean[],
  word_limit integer, at_most integer)
  returns table (forms text[], passages bigint, visible bigint) {_OPTIONS} as $$
  select f.forms, c.passages, c.visible
  from unnest(words, stems, is_counted) with ordinality u(word, stem, is_counted, place),
    lateral (select array(
      select w.term from recollect.word w
      where w.owner = library
        and library = nullif(current_setting('recollect.owner', true), '')::integer
        and (w.stem = u.stem or w.term = u.stem and w.stem is null)
      order by w.term collate "C" limit word_limit) as forms) f,
    lateral (select string_agg(distinct quote_literal(term), ' | ')::tsquery as query
      from unnest(f.forms || u.word) term offset 0) q,
    lateral (select count(*) as passages, count(*) filter (where not x.hidden) as visible from (
      select t.hidden from recollect.passage_text t
      where u.is_counted and {_IS_OWN} and t.words @@ q.query
      limit at_most) x) c
  order by u.place
$$;
-- For each word of a search (`text.term_lookups`): the words of the library with its stem, those of
-- its relatives that the library has, and the passages from `next_key` on that have one of its
-- forms, at most `at_most`. Each is eight bytes: the key, a bit that says whether it is hidden, and
-- the length. If they are few, `family` are all passages with a form or a relative. A word is left
-- out if the library has not changed since it was looked up.
create function search_words(library integer, plan json, last_key bigint, removals bigint)
  returns table (word text, forms text[], next_key bigint, matches bytea, relatives text[],
    family bytea) language plpgsql {_SETTINGS} as $$
  #variable_conflict use_column
  declare
    term record;
    at_most integer := plan->>'at_most';
  begin
    for term in select u.word, f.forms, r.relatives,
        (select string_agg(distinct quote_literal(w), ' | ')::tsquery
         from unnest(f.forms || u.word) w) as query,
        (select string_agg(distinct quote_literal(w), ' | ')::tsquery
         from unnest(f.forms || u.word || r.relatives) w) as family_query,
        case when u.size is null then 0
          when u.is_frequent then
            case when abs(last_key - u.size) + abs(removals - u.removed) >= u.size / 50 then 0 end
          when u.removed <> removals or last_key - u.size > {MAX_NEW_PASSAGES} then 0
          when last_key > u.size then u.size + 1
        end as next_key, u.passages
      from json_to_recordset(plan->'words') u(word text, stem text, relatives text, size bigint,
          removed bigint, passages bigint, is_frequent boolean),
        lateral (select array(
          select w.term from recollect.word w
          where w.owner = library
            and library = nullif(current_setting('recollect.owner', true), '')::integer
            and (w.stem = u.stem or w.term = u.stem and w.stem is null)
          order by w.term collate "C" limit (plan->>'word_limit')::integer) as forms) f,
        lateral (select array(
          select w.term from recollect.word w
          where w.owner = library
            and library = nullif(current_setting('recollect.owner', true), '')::integer
            and w.term = any(string_to_array(u.relatives, ' '))) as relatives) r
      where u.size is distinct from last_key or u.removed is distinct from removals
    loop
      word := term.word;
      forms := term.forms;
      next_key := term.next_key;
      relatives := term.relatives;
      matches := null;
      family := null;
      if next_key = 0 then
        matches := (select coalesce(string_agg(x.packed, ''), '') from (
          select {_PACKED} as packed from recollect.passage_text t
          where {_IS_OWN} and t.words @@ term.query
          limit at_most) x);
      elsif next_key > 0 then
        -- A few passages, which are read by key.
        matches := (select coalesce(string_agg({_PACKED}, ''), '')
          from recollect.passage_text t
          where {_IS_OWN} and t.key >= term.next_key and (t.words @@ term.query) is true);
      end if;
      if cardinality(relatives) > 0 and octet_length(matches) / 8
          + (case when next_key > 0 then term.passages else 0 end) <= (plan->>'rare')::integer then
        family := (select coalesce(string_agg(x.packed, ''), '') from (
          select {_PACKED} as packed from recollect.passage_text t
          where {_IS_OWN} and t.words @@ term.family_query
          limit at_most) x);
      end if;
      return next;
    end loop;
  end
$$;
-- For each word of a search in a language whose stems are not stored (`text.term_lookups`): the
-- words of the library among which its forms are. If these are at most `most_forms`, a row for each
-- of them follows, with its passages from `next_key` on, as `search_words` returns them.
create function search_terms(library integer, plan json, last_key bigint, removals bigint)
  returns table (word text, forms text[], next_key bigint, matches bytea)
  language plpgsql {_SETTINGS} as $$
  #variable_conflict use_column
  declare
    term record;
    form record;
    at_most integer := plan->>'at_most';
  begin
    for term in select u.word, array(
          select w.term from recollect.word w
          where w.owner = library
            and library = nullif(current_setting('recollect.owner', true), '')::integer
            and w.term = any(string_to_array(u.terms, ' '))
          union select w.term from unnest(string_to_array(u.prefixes, ' ')) prefix, lateral (
            select w.term from recollect.word w
            where w.owner = library
              and library = nullif(current_setting('recollect.owner', true), '')::integer
              and w.term >= prefix and w.term <= prefix || repeat('z', 32)
            order by w.term limit (plan->>'term_limit')::integer) w) as forms,
        case when u.size is null then 0
          when u.is_frequent then
            case when abs(last_key - u.size) + abs(removals - u.removed) >= u.size / 50 then 0 end
          when u.removed <> removals or last_key - u.size > {MAX_NEW_PASSAGES} then 0
          when last_key > u.size then u.size + 1
        end as next_key
      from json_to_recordset(plan->'terms') u(word text, terms text, prefixes text, size bigint,
          removed bigint, is_frequent boolean)
      where u.size is distinct from last_key or u.removed is distinct from removals
    loop
      word := term.word;
      forms := term.forms;
      matches := null;
      next_key := null;
      if cardinality(term.forms) <= (plan->>'most_forms')::integer then
        next_key := term.next_key;
      end if;
      return next;
      if next_key is not null then
        for form in select f.form, quote_literal(f.form)::tsquery as query
          from unnest(term.forms) f(form)
        loop
          forms := array[form.form];
          if next_key = 0 then
            matches := (select coalesce(string_agg(x.packed, ''), '') from (
              select {_PACKED} as packed from recollect.passage_text t
              where {_IS_OWN} and t.words @@ form.query limit at_most) x);
          else
            matches := (select coalesce(string_agg({_PACKED}, ''), '')
              from recollect.passage_text t
              where {_IS_OWN} and t.key >= term.next_key and (t.words @@ form.query) is true);
          end if;
          return next;
        end loop;
      end if;
    end loop;
  end
$$;
-- The words of the library that differ from a word by one letter added, removed, replaced or
-- swapped, as `language.spelling` defines it.
create function similar_words(library integer, typed text) returns setof text {_OPTIONS} as $$
  select w.term from recollect.word w
  where w.owner = library
    and library = nullif(current_setting('recollect.owner', true), '')::integer
    and w.term <> typed and w.term = any(array(
      select substr(typed, 1, place) || letter || substr(typed, place + 1 + is_replaced)
      from generate_series(0, length(typed)) place, generate_series(0, 1) is_replaced,
        unnest(string_to_array('{" ".join(LETTERS)}', ' ')) letter
      where place + is_replaced <= length(typed)
      union select substr(typed, 1, place) || substr(typed, place + 2)
      from generate_series(0, length(typed) - 1) place
      union select substr(typed, 1, place) || substr(typed, place + 2, 1)
        || substr(typed, place + 1, 1) || substr(typed, place + 3)
      from generate_series(0, length(typed) - 2) place))
$$;
-- The newest passages that match.
create function newest(library integer, query tsquery, sureness boolean, at_most integer,
  {_FILTER_PARAMETERS})
  returns setof bigint {_OPTIONS} as $$
  select t.key from recollect.passage_text t where t.words @@ query and {_IS_MATCH}
  order by t.created_at desc nulls last, t.key desc limit at_most
$$;
-- Those of the words that no passage has.
create function absent(library integer, terms text[]) returns setof text {_OPTIONS} as $$
  select w.term from unnest(terms) w(term) where not exists (
    select 1 from recollect.passage_text t
    where {_IS_OWN} and t.words @@ quote_literal(w.term)::tsquery
    limit 1)
$$;
"""

NEW_PASSAGE = {
    "key": "bigint",
    "document": "bigint",
    "receipt": "bigint",
    "shared": "boolean",
    "digest": "bytea",
    "position": "integer",
    "canonical": "boolean",
    "created_at": "bigint",
    "updated_at": "bigint",
    "attachments": "text",
    "citations": "text",
    "metadata": "text",
    "original": "text",
    "id": "text",
    "role": "text",
    "type": "text",
    "author": "text",
    "model": "text",
    "tool": "text",
    "parent": "text",
    "visibility": "text",
    "content": "text",
}
"""The columns of a new passage, with their types, as `append_message` gets them."""
_NEW_PARAMETERS = ", ".join(f"new_{name} {type}" for name, type in NEW_PASSAGE.items())
_NEW_VALUES = ", ".join(f"new_{name}" for name in NEW_PASSAGE)

# These run with the privileges and policies of the caller. A transaction begins with one of them,
# except `append_message`. The server plans their statements once for a connection, and a cluster
# runs them where the rows of the user are.
TRANSACTION_FUNCTIONS = f"""
-- What most searches need to know about a library; see `connection.Facts`.
create or replace function facts(library integer)
  returns table (passage bigint, removed bigint, marks bigint[], is_partly_positioned boolean,
    spaces json)
  language plpgsql stable as $$
  #variable_conflict use_column
  begin
    return query select k.passage, k.removed, k.marks,
      exists (select from recollect.passage_text t where t.owner = library and not t.sure),
      (select coalesce(json_agg(json_build_array(s.id, s.name, s.version, s.dimensions,
          s.done, s.ready, s.noise_floor, s.calibrated_size)
        order by s.id), '[]')
       from recollect.space s where s.owner = library and not s.gone)
      from recollect.last_key k where k.owner = library;
  end
$$;
-- The kinds of the documents, with one lookup for each.
create or replace function stored_kinds(library integer) returns text[]
  language plpgsql stable as $$
  begin
    return array(with recursive kinds(kind) as (
        (select d.kind from recollect.document d where d.owner = library order by d.kind limit 1)
        union all select (select d.kind from recollect.document d
            where d.owner = library and d.kind > kinds.kind order by d.kind limit 1)
          from kinds where kinds.kind is not null)
      select kind from kinds where kind is not null);
  end
$$;
-- Whether there may be human-only passages: unless the index of these exists and is empty.
create or replace function may_have_human_only(library integer) returns boolean
  language plpgsql stable as $$
  begin
    if not exists (select from pg_catalog.pg_index i where i.indisvalid
        and i.indexrelid = to_regclass('recollect.passage_human_only')) then
      return true;
    end if;
    return exists (select from recollect.passage p
      where p.owner = library and {may_be_human_only("p.")});
  end
$$;
-- The words of the library that are similar to a word (`query` is 'similar'), their frequencies,
-- and what `search_words` returns for the most frequent one.
create or replace function search_corrections(library integer, typed text, plan json,
    last_key bigint, removals bigint)
  returns table (word text, forms text[], next_key bigint, matches bytea, query text,
    passages bigint, visible bigint)
  language plpgsql stable as $$
  #variable_conflict use_column
  declare
    neighbours text[] := array(select s.term from recollect.similar_words(library, typed) s(term));
    term record;
    best text;
  begin
    word := typed;
    forms := neighbours;
    query := 'similar';
    return next;
    if cardinality(neighbours) = 0 then
      return;
    end if;
    word := null;
    forms := null;
    for term in select u.word, f.passages, f.visible
      from unnest(neighbours) with ordinality u(word, place)
      join recollect.frequencies(library, array(
          select quote_literal(s.word)::tsquery from unnest(neighbours) s(word)),
        (plan->>'at_most')::integer) with ordinality f(passages, visible, place)
        on f.place = u.place
      order by f.passages desc, u.word collate "C" desc
    loop
      best := coalesce(best, term.word);
      query := quote_literal(term.word);
      passages := term.passages;
      visible := term.visible;
      return next;
    end loop;
    return query select w.word, w.forms, w.next_key, w.matches, null::text, null::bigint,
        null::bigint
      from recollect.search_words(library, json_build_object('words', json_build_array(
          json_build_object('word', best, 'relatives', '', 'stem',
            (select coalesce(x.stem, x.term) from recollect.word x
              where x.owner = library and x.term = best))),
        'word_limit', plan->'word_limit', 'at_most', plan->'at_most', 'rare', 0),
        last_key, removals) w;
  end
$$;
-- The facts. Then for each word of a search the columns of `search_words` or `search_terms`, for a
-- word that the library lacks those of `search_corrections`, and for each query that was not
-- counted in this state of the library, nearly as `Counts` defines it, its frequencies. Nothing is
-- looked up in the state in which everything was looked up before.
create or replace function search_start(library integer, plan json, size bigint, removals bigint)
  returns table (passage bigint, removed bigint, marks bigint[], is_partly_positioned boolean,
    spaces json, word text, forms text[], next_key bigint, matches bytea, relatives text[],
    family bytea, query text, passages bigint, visible bigint)
  language plpgsql stable as $$
  #variable_conflict use_column
  declare
    state record;
    term record;
    absent_words text[] := '{{}}';
    new_queries text[];
  begin
    select * into state from recollect.facts(library);
    if not found then
      return;
    end if;
    passage := state.passage;
    removed := state.removed;
    marks := state.marks;
    is_partly_positioned := state.is_partly_positioned;
    spaces := state.spaces;
    return next;
    if size = state.passage and removals = state.removed then
      return;
    end if;
    passage := null;
    removed := null;
    marks := null;
    is_partly_positioned := null;
    spaces := null;
    for term in select * from recollect.search_words(library, plan, state.passage, state.removed)
    loop
      word := term.word;
      forms := term.forms;
      next_key := term.next_key;
      matches := term.matches;
      relatives := term.relatives;
      family := term.family;
      return next;
      if cardinality(forms) = 0 then
        absent_words := absent_words || word;
      end if;
    end loop;
    relatives := null;
    family := null;
    if plan->'terms' is not null then
      for term in select * from recollect.search_terms(library, plan, state.passage, state.removed)
      loop
        word := term.word;
        forms := term.forms;
        next_key := term.next_key;
        matches := term.matches;
        return next;
        if cardinality(forms) = 0 then
          absent_words := absent_words || split_part(word, ' ', 2);
        end if;
      end loop;
    end if;
    new_queries := array(
      select u.query
      from json_to_recordset(plan->'queries') u(query text, size bigint, removed bigint,
        is_frequent boolean)
      where (u.size is distinct from state.passage or u.removed is distinct from state.removed)
        and not coalesce(u.is_frequent and
          abs(state.passage - u.size) + abs(state.removed - u.removed) < u.size / 50, false));
    return query select null::bigint, null::bigint, null::bigint[], null::boolean, null::json,
        c.word, c.forms, c.next_key, c.matches, null::text[], null::bytea, c.query, c.passages,
        c.visible
      from unnest(absent_words) w(word), lateral recollect.search_corrections(
        library, w.word, plan, state.passage, state.removed) c
      where w.word = any(string_to_array(plan->>'correctable', ' '));
    if cardinality(new_queries) > 0 then
      return query select null::bigint, null::bigint, null::bigint[], null::boolean, null::json,
          null::text, null::text[], null::bigint, null::bytea, null::text[], null::bytea,
          u.query, f.passages, f.visible
        from unnest(new_queries) with ordinality u(query, place)
        join recollect.frequencies(library, new_queries::tsquery[], (plan->>'at_most')::integer)
          with ordinality f(passages, visible, place) on f.place = u.place;
    end if;
  end
$$;
-- Wait until no other write of the user is in progress. Returns the commit tokens, why nobody may
-- write, and what an append of this message depends on; see `append_state.AppendState`.
create or replace function append_state(library integer, document_id text, message_id text)
  returns table (marks bigint[], closed text, document bigint, head text, created_at bigint,
    updated_at bigint, pinned integer, passages integer, kind text, source text, project text,
    new_key bigint, removed bigint, move bigint, is_stored boolean)
  language plpgsql as $$
  #variable_conflict use_column
  begin
    select k.marks, k.closed, k.passage + 1, k.removed into marks, closed, new_key, removed
      from recollect.last_key k where k.owner = library for update;
    if not found then
      return;
    end if;
    select d.key, d.head, d.created_at, d.updated_at, d.pinned, d.passages, d.kind, d.source,
        d.project
      into document, head, created_at, updated_at, pinned, passages, kind, source, project
      from recollect.document d where d.owner = library and d.id = document_id;
    move := 1 + coalesce((select m.number from recollect.list_move m where m.owner = library
      order by m.number desc limit 1), 0);
    perform from recollect.passage p
      where p.owner = library and p.document = append_state.document and p.id = message_id;
    is_stored := found;
    return next;
  end
$$;
-- Add a message to a conversation, and the token of the commit. The arguments after the columns of
-- the passage are those of its text, words that may be new with their stems, changes of the tally,
-- where the document was listed before, and its new dates. `last_token` is the one that
-- `append_state` returned: in the meantime, a cluster may have moved the rows to another worker,
-- where they were not locked. A function that a cluster passes on cannot insert the result of a
-- query, so new words and tallies are inserted one by one.
create or replace function append_message(library integer, {_NEW_PARAMETERS},
  is_sure boolean, is_whole boolean, word_count integer, text_words text, folded_text text,
  terms text[], stems text[], tally_names text[], tally_values text[], tally_counts bigint[],
  move bigint, listed_at bigint, list_pinned integer, document_start bigint, document_end bigint,
  token bigint, last_token bigint, in_cluster boolean)
  returns void language plpgsql as $$
  declare
    added record;
    size integer;
  begin
    update recollect.last_key k
      set passage = new_key, marks = array[token] || k.marks[:{TOKENS - 1}]
      where k.owner = library and k.marks[1] is not distinct from last_token;
    if not found then
      raise serialization_failure using message = 'the library was moved to another worker';
    end if;
    insert into recollect.passage (owner, {", ".join(NEW_PASSAGE)})
      values (library, {_NEW_VALUES});
    insert into recollect.passage_text (owner, key, document, created_at, role, author, hidden,
        opening, sure, whole, length, words, folded)
      values (library, new_key, new_document, new_created_at, new_role, new_author,
        new_visibility = 'hidden', false, is_sure, is_whole, word_count, text_words::tsvector,
        folded_text);
    if not in_cluster then
      insert into recollect.word (owner, term, stem)
        select library, u.term, u.stem from unnest(terms, stems) u(term, stem)
        on conflict do nothing;
    elsif cardinality(terms) > 0 then
      for added in select u.term, u.stem from unnest(terms, stems) u(term, stem)
        where not exists (select from recollect.word w where w.owner = library and w.term = u.term)
      loop
        insert into recollect.word (owner, term, stem) values (library, added.term, added.stem);
      end loop;
    end if;
    update recollect.tally t set count = t.count + u.count
      from unnest(tally_names, tally_values, tally_counts) u(name, value, count)
      where t.owner = library and t.name = u.name and t.value = u.value;
    get diagnostics size = row_count;
    if size < cardinality(tally_names) then
      for added in select u.*
        from unnest(tally_names, tally_values, tally_counts) u(name, value, count)
        where not exists (select from recollect.tally t
          where t.owner = library and t.name = u.name and t.value = u.value)
      loop
        insert into recollect.tally (owner, name, value, count)
          values (library, added.name, added.value, added.count);
      end loop;
    end if;
    insert into recollect.list_move (owner, number, document, time, pinned)
      values (library, move, new_document, listed_at, list_pinned);
    update recollect.document d set head = new_id, passages = d.passages + 1,
        created_at = document_start, updated_at = document_end, version = d.version + 1
      where d.owner = library and d.key = new_document;
  end
$$;
"""
