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

from recollect.store.postgres.human_only import may_be_human_only

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

# The function `similar_words` moves doubled letters.
M040_SIMILAR_WORDS = """
comment on column word.term is 'The word as it is indexed.';
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
    ("m040_similar_words", M040_SIMILAR_WORDS),
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
