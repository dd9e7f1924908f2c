-- The tables of a library. Keys are never reused, because index rows and receipts refer to them.

-- `source` is where a document came from, `kind` is what it is. The version increases with every
-- change. Metadata that lists and filters use has columns of its own (store/sql/encoding.py):
-- `folded_id` is null if it is the id. `heading` is the title of a note or media item with its
-- keywords, as it is in the text index. `observed` is the version of a conversation that was
-- observed; negative if the observations are incomplete. `pinned` is 1 or null.
create table document (
  key integer primary key,
  id text not null unique,
  source text not null,
  source_id text not null,
  kind text not null,
  title text not null,
  project text not null,
  created_at integer,
  updated_at integer,
  head text,
  opening integer,
  passages integer not null default 0,
  metadata text,
  original text,
  partial integer not null,
  shared_ids integer not null,
  version integer not null default 1,
  media_type text,
  character_id text,
  observed integer not null default 0,
  heading text,
  pinned integer,
  folded_title text not null default '',
  folded_id text,
  tags text not null default '',
  tag_names text,
  unique (source, source_id)
);
create index document_changed on document (coalesce(updated_at, created_at) desc, key desc);
create index document_media_type on document (media_type) where media_type is not null;
create index document_character on document (character_id) where character_id is not null;
create index document_unobserved on document (key)
  where kind = 'conversation' and observed <> version and observed <> -version;
create index document_counts on document (kind, source, project, passages);
-- Everything that a list filters or counts by, in the order of the list, so that only the documents
-- of one page are read.
create index document_list on document (
  kind, coalesce(updated_at, created_at) desc, key desc, pinned, project, source, tags, id,
  folded_id, folded_title
);
create index document_pinned on document (
  kind, pinned, coalesce(updated_at, created_at) desc, key desc
) where pinned is not null;
create index document_tagged on document (kind, tag_names) where tag_names is not null;

-- The key of the last passage: AUTOINCREMENT would write its counter with every row. `closed` says
-- as JSON why nobody may write to this library (store/sql/transfer.py), or is null.
create table last_key (passage integer not null, closed text);
insert into last_key values (0, null);

-- `body` and `details` contain the content and the metadata, or `body` contains both, compressed
-- (compression.py). Ids that are UUIDs are stored as 16 bytes. The body is the last
-- column, so that filters can read a row without its text.
create table passage (
  key integer primary key,
  document integer not null references document on delete cascade,
  position integer not null,
  canonical integer not null,
  created_at integer,
  role text,
  type text not null,
  visibility text not null,
  author text,
  receipt integer,
  shared integer not null,
  packed_id text not null,
  parent_id text,
  model text,
  tool text,
  updated_at integer,
  digest blob not null,
  attachments text,
  citations text,
  details text,
  original text,
  body text not null,
  content text generated always as (content_of(body)) virtual,
  parent text generated always as (
  case typeof(parent_id)
    when 'blob' then lower(
      substr(hex(parent_id), 1, 8) || '-' || substr(hex(parent_id), 9, 4) || '-' ||
      substr(hex(parent_id), 13, 4) || '-' || substr(hex(parent_id), 17, 4) || '-' ||
      substr(hex(parent_id), 21)
    )
    else parent_id
  end
  ) virtual,
  metadata text generated always as (metadata_of(body, details, parent_id)) virtual,
  id text generated always as (
  case typeof(packed_id)
    when 'blob' then lower(
      substr(hex(packed_id), 1, 8) || '-' || substr(hex(packed_id), 9, 4) || '-' ||
      substr(hex(packed_id), 13, 4) || '-' || substr(hex(packed_id), 17, 4) || '-' ||
      substr(hex(packed_id), 21)
    )
    else packed_id
  end
  ) virtual,
  unique (document, packed_id)
);
create index passage_order on passage (document, position);
create index passage_shared on passage (packed_id) where shared;
create index passage_time on passage (created_at);
-- Few messages are on other branches. A conversation without any is read page by page.
create index passage_branch on passage (document, position) where not canonical;
-- For listing roles, authors and models. For `not in`, SQLite would build a set for every row that
-- is inserted.
create index passage_role on passage (role)
  where role <> 'user' and role <> 'assistant' and role <> 'system' and role <> 'tool'
  and length(role) <= 200;
create index passage_author on passage (author) where author is not null and length(author) <= 200;
create index passage_models on passage (model, document) where model is not null;

-- The passages that only people may see, so that searches for agents read no metadata.
create table human_only (passage integer primary key);

-- Numbers of passages by role, model, tool and so on (store/sql/statistics.py).
create table tally (
  name text not null,
  value text not null,
  count integer not null,
  primary key (name, value)
) without rowid;

-- The text index, with the title at the opening passage, and the vocabulary. A stem is null if it
-- is the word itself. Of long words the vocabulary has only the beginning, so each of them may
-- contain any substring.
create virtual table passage_text using fts5(
  content, title, content='', tokenize='unicode61 remove_diacritics 0', detail=none
);
insert into passage_text (passage_text, rank)
  values ('secure-delete', 1), ('hashsize', 16777216), ('automerge', 16);
create virtual table passage_word using fts5vocab(passage_text, row);
create table word (term text primary key, stem text) without rowid;
create index word_stem on word (stem) where stem is not null;
create index word_long on word (term) where length(term) >= 128;

-- The versions of derived data, and marks of unfinished work.
create table derived (name text primary key, version integer not null) without rowid;
insert into derived values ('text', 2);

-- A volume is an index of a range of passages, in its own files. One that is not `ready` is being
-- written. A passage that changes is stale in its volume; deleting one drops the volume.
create table volume (
  name text primary key,
  first integer not null,
  last integer not null,
  ready integer not null
) without rowid;
create table stale (passage integer primary key);

-- A space has the vectors of one model. `done` is the key of the last passage that was embedded;
-- what changed since is in `unembedded`, with a new mark for every change. A space that is `gone`
-- is being deleted. Vectors up to `copied` are only in the files; `new_vector` has the others, and
-- `wiped` has deleted ones that the files still contain.
create table space (
  id integer primary key autoincrement,
  name text not null,
  version text not null,
  dimensions integer not null,
  state blob,
  done integer not null default 0,
  ready integer not null default 0,
  gone integer not null default 0,
  noise_floor real,
  calibrated_size integer not null default 0,
  copied integer not null default 0,
  unique (name, version)
);
create table vector (
  row integer primary key autoincrement,
  space integer not null,
  passage integer not null,
  vector blob not null
);
create index vector_passage on vector (passage, space);
create table new_vector (
  row integer primary key,
  space integer not null,
  vector blob not null
);
create table unembedded (
  mark integer primary key autoincrement,
  passage integer not null,
  space integer not null,
  unique (passage, space)
);
create table wiped (row integer primary key);

create trigger passage_changed
after update of body, role, author, created_at, visibility on passage
when (old.body is not new.body and old.content is not new.content)
  or old.role is not new.role or old.author is not new.author
  or old.created_at is not new.created_at or old.visibility is not new.visibility
begin
  insert or ignore into stale select new.key from volume where new.key between first and last;
  insert or replace into unembedded (passage, space) select new.key, id from space where not gone;
  delete from vector where passage = new.key;
end;
create trigger passage_removed after delete on passage begin
  delete from volume where old.key between first and last;
  delete from stale where passage = old.key;
  delete from unembedded where passage = old.key;
  delete from vector where passage = old.key;
  delete from human_only where passage = old.key;
end;
create trigger document_retitled after update of title, heading, opening on document
when old.title is not new.title or old.opening is not new.opening
  or coalesce(old.heading, old.title) is not coalesce(new.heading, new.title)
begin
  insert or ignore into stale
    select o.key from (select old.opening as key union select new.opening) o
    join volume v on o.key between v.first and v.last;
  insert or replace into unembedded (passage, space)
    select p.key, s.id from passage p cross join space s
    where p.key in (old.opening, new.opening) and not s.gone;
  delete from vector where passage in (old.opening, new.opening);
end;
create trigger vector_removed after delete on vector begin
  delete from new_vector where row = old.row;
  insert into wiped select old.row from space where id = old.space and not gone;
end;

-- Imports, the documents that they contained, and the states before they changed them. A job has
-- one receipt, however often it is attempted.
create table receipt (
  id integer primary key autoincrement,
  path text not null,
  started_at integer not null,
  finished_at integer,
  undone_at integer,
  files text,
  left_out text,
  job text
);
create table receipt_document (
  receipt integer not null references receipt on delete cascade,
  document integer not null references document on delete cascade,
  before text,
  primary key (receipt, document)
) without rowid;
create index receipt_document_document on receipt_document (document);

-- What is needed to undo recent changes (store/sql/undo.py).
create table undo (
  number integer primary key,
  action text not null,
  document text not null,
  title text not null,
  changed_at integer not null,
  expires_at integer not null,
  state text not null
);
create index undo_document on undo (document);

-- Hashes of what was forgotten (store/sql/tombstones.py).
create table forgotten (
  high integer not null,
  low integer not null,
  primary key (high, low)
) without rowid;
