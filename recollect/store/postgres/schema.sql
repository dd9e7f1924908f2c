-- The tables of all libraries in a database (schema.py creates them; the functions are in
-- functions.py). Whatever can be is as in store/sqlite/schema.sql.
--
-- The owner of a row is the first column of every key and index, and the partition key of every
-- table. So the rows of one user are stored together, a search touches one partition, and tables
-- can be distributed over several machines by user. On a Citus cluster they have shards instead of
-- partitions. There are no triggers, because distributed tables cannot have them: whoever changes
-- passages also updates what is derived from them.
--
-- Statistics of a column cover all users. Columns that anybody can filter by have none, because a
-- query plan must not reveal the data of others.

-- Users. They are never deleted, so a number is never used again.
create table account (
  id integer generated always as identity unique,
  name text not null,
  primary key (name)
);

-- One row for each library, which every write locks: the key of its newest passage; tokens of the
-- last commits, newest first; and why nobody may write, as JSON (store/sql/transfer.py), or null.
create table last_key (
  owner integer primary key,
  passage bigint not null default 0,
  marks bigint[] not null default '{}',
  closed text
) partition by hash (owner);

-- `source` is where a document came from, `kind` is what it is. The version increases with every
-- change. Metadata that lists and filters use has columns of its own (store/sql/encoding.py,
-- filters.py). `heading` is the title of a note or media item with its keywords, as it is in the
-- text index. `observed` is the version of a conversation that was observed; negative if the
-- observations are incomplete. `pinned` is 1 or null.
create table document (
  owner integer not null default current_setting('recollect.owner')::integer,
  key bigint not null,
  id text not null,
  source text not null,
  source_id text not null,
  kind text not null,
  title text not null,
  project text not null,
  created_at bigint,
  updated_at bigint,
  head text,
  opening bigint,
  passages integer not null default 0,
  metadata text,
  original text,
  partial boolean not null,
  shared_ids boolean not null,
  version integer not null default 1,
  media_type text,
  character_id text,
  observed integer not null default 0,
  heading text,
  pinned integer,
  folded_title text not null,
  folded_id text not null,
  title_words text not null,
  tags text not null,
  tag_names text,
  primary key (owner, key),
  unique (owner, id),
  unique (owner, source, source_id)
) partition by hash (owner);
alter table document alter media_type set statistics 0, alter character_id set statistics 0,
  alter pinned set statistics 0;
create index document_changed on document
  (owner, coalesce(updated_at, created_at) desc nulls last, key desc);
create index document_kind on document
  (owner, kind, coalesce(updated_at, created_at) desc nulls last, key desc);
-- Pinned documents and the others are lists of their own. Without statistics, the planner takes
-- "not pinned" for rare, and would sort instead of reading the list in its order.
create index document_pinned on document
  (owner, kind, coalesce(updated_at, created_at) desc nulls last, key desc)
  where pinned is not null;
create index document_unpinned on document
  (owner, kind, coalesce(updated_at, created_at) desc nulls last, key desc) where pinned is null;
create index document_media_type on document (owner, media_type) where media_type is not null;
create index document_character on document (owner, character_id) where character_id is not null;
create index document_tagged on document (owner, kind) where tag_names is not null;
create index document_unobserved on document (owner, key)
  where kind = 'conversation' and observed <> version and observed <> -version;
-- For looking up ids by their first characters.
create index document_id_prefix on document (owner, id text_pattern_ops);

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
  type text not null,
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
alter table passage alter role set statistics 0, alter author set statistics 0;
create index passage_order on passage (owner, document, position);
create index passage_shared on passage (owner, id) where shared;
create index passage_time on passage (owner, created_at desc nulls last, key desc);
-- Few messages are on other branches. A conversation without any is read page by page.
create index passage_branch on passage (owner, document, position) where not canonical;
-- For listing roles, authors and models. A row of an index has at most 2,704 bytes.
create index passage_role on passage (owner, role)
  where role not in ('user', 'assistant', 'system', 'tool') and length(role) <= 200;
create index passage_author on passage (owner, author)
  where author is not null and length(author) <= 200;
create index passage_models on passage (owner, model, document)
  where model is not null and length(model) <= 200;
-- Statements have the same condition (human_only.py).
create index passage_human_only on passage (owner, key) where {may_be_human_only};

-- Numbers of passages by role, model, tool and so on (store/sql/statistics.py).
create table tally (
  owner integer not null default current_setting('recollect.owner')::integer,
  name text not null,
  value text not null,
  count bigint not null,
  primary key (owner, name, value)
) partition by hash (owner);

-- The text index: the words of each passage, and the columns that filters use. `sure` is false if
-- some positions did not fit into the tsvector (long texts); phrases are then checked against the
-- text. `whole` is false if some words are missing. `folded` is null if the text is ASCII.
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
create index passage_text_words on passage_text using gin (owner, words)
  with (gin_pending_list_limit = 1024);
create index passage_text_unsure on passage_text (owner, key) where not sure;
create index passage_text_part on passage_text (owner, key) where not whole;

-- The vocabulary of each library. A stem is null if it is the word itself.
create table word (
  owner integer not null default current_setting('recollect.owner')::integer,
  term text not null,
  stem text,
  primary key (owner, term)
) partition by hash (owner);
create index word_stem on word (owner, stem) where stem is not null;
create index word_long on word (owner, term) where length(term) >= 128;

-- The versions of derived data, and marks of unfinished work.
create table derived (
  owner integer not null default current_setting('recollect.owner')::integer,
  name text not null,
  version integer not null,
  primary key (owner, name)
) partition by hash (owner);

-- A space has the vectors of one model. `done` is the key of the last passage that was embedded;
-- what changed since is in `unembedded`, with a new mark for every change. A space that is `gone`
-- is being deleted.
create table space (
  owner integer not null default current_setting('recollect.owner')::integer,
  id integer not null,
  name text not null,
  version text not null,
  dimensions integer not null,
  state bytea,
  done bigint not null default 0,
  ready boolean not null default false,
  gone boolean not null default false,
  noise_floor double precision,
  calibrated_size bigint not null default 0,
  primary key (owner, id),
  unique (owner, name, version)
) partition by hash (owner);
create table unembedded (
  owner integer not null default current_setting('recollect.owner')::integer,
  mark bigint not null,
  passage bigint not null,
  space integer not null,
  primary key (owner, passage, space)
) partition by hash (owner);
create index unembedded_space on unembedded (owner, space, passage);
-- A vector is a list of eight-bit integers and the scale that makes it a unit vector; long passages
-- have one for each part. It repeats the columns of its passage that filters use; when these
-- change, the vector is deleted.
create table vector (
  owner integer not null default current_setting('recollect.owner')::integer,
  space integer not null,
  passage bigint not null,
  part integer not null default 0,
  document bigint not null,
  created_at bigint,
  role text,
  author text,
  hidden boolean not null,
  scale real not null,
  numbers halfvec not null,
  primary key (owner, space, passage, part)
) partition by hash (owner);
alter table vector alter numbers set storage plain;

-- Imports, the documents that they contained, and the states before they changed them. A job has
-- one receipt, however often it is attempted.
create table receipt (
  owner integer not null default current_setting('recollect.owner')::integer,
  id bigint not null,
  path text not null,
  started_at bigint not null,
  finished_at bigint,
  undone_at bigint,
  files text,
  left_out text,
  job text,
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

-- What is needed to undo recent changes (store/sql/undo.py).
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

-- Hashes of what was forgotten (store/sql/tombstones.py).
create table forgotten (
  owner integer not null default current_setting('recollect.owner')::integer,
  high bigint not null,
  low bigint not null,
  primary key (owner, high, low)
) partition by hash (owner);

-- The audit log, in which rows are neither changed nor deleted.
create table audit (
  owner integer not null default current_setting('recollect.owner')::integer,
  number bigint not null,
  record text not null,
  hash text not null,
  primary key (owner, number)
) partition by hash (owner);

-- One row: the version of this schema.
create table schema_version (version integer not null);
