-- m032_packed_ids
CREATE TABLE document (
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
  shared_ids integer not null, version integer not null default 1, media_type text, character_id text, observed integer not null default 0, heading text, pinned integer, folded_title text not null default '', folded_id text, tags text not null default '', tag_names text,
  unique (source, source_id)
);
CREATE INDEX document_changed on document (coalesce(updated_at, created_at) desc, key desc);
CREATE TABLE last_key (passage integer not null, closed text);
CREATE TABLE passage (
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
  body text not null, content text generated always as (content_of(body)) virtual, parent text generated always as (
  case typeof(parent_id)
    when 'blob' then lower(
      substr(hex(parent_id), 1, 8) || '-' || substr(hex(parent_id), 9, 4) || '-' ||
      substr(hex(parent_id), 13, 4) || '-' || substr(hex(parent_id), 17, 4) || '-' ||
      substr(hex(parent_id), 21)
    )
    else parent_id
  end
) virtual, metadata text
  generated always as (metadata_of(body, details, parent_id)) virtual, id text generated always as (
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
CREATE INDEX passage_order on passage (document, position);
CREATE INDEX passage_shared on passage (packed_id) where shared;
CREATE INDEX passage_time on passage (created_at);
CREATE VIRTUAL TABLE passage_word using fts5vocab(passage_text, row);
CREATE TABLE derived (name text primary key, version integer not null) without rowid;
CREATE TABLE receipt (
  id integer primary key autoincrement,
  path text not null,
  started_at integer not null,
  finished_at integer,
  undone_at integer,
  files text,
  left_out text
, job text);
CREATE TABLE receipt_document (
  receipt integer not null references receipt on delete cascade,
  document integer not null references document on delete cascade,
  runs text not null,
  before text,
  primary key (receipt, document)
) without rowid;
CREATE INDEX receipt_document_document on receipt_document (document);
CREATE TABLE receipt_revision (
  receipt integer not null references receipt on delete cascade,
  passage integer not null references passage on delete cascade,
  before text not null,
  primary key (receipt, passage)
) without rowid;
CREATE INDEX receipt_revision_passage on receipt_revision (passage);
CREATE TABLE word (term text primary key, stem text) without rowid;
CREATE INDEX word_stem on word (stem) where stem is not null;
CREATE TABLE volume (
  name text primary key,
  first integer not null,
  last integer not null,
  ready integer not null
) without rowid;
CREATE TABLE stale (passage integer primary key);
CREATE TABLE space (
  id integer primary key autoincrement,
  name text not null,
  version text not null,
  dimensions integer not null,
  state blob,
  done integer not null default 0,
  ready integer not null default 0,
  gone integer not null default 0, noise_floor real, calibrated_size integer not null default 0, copied integer not null default 0,
  unique (name, version)
);
CREATE TABLE vector (
  row integer primary key autoincrement,
  space integer not null,
  passage integer not null,
  vector blob not null
);
CREATE INDEX vector_passage on vector (passage, space);
CREATE TABLE unembedded (
  mark integer primary key autoincrement,
  passage integer not null,
  space integer not null,
  unique (passage, space)
);
CREATE TABLE wiped (row integer primary key);
CREATE TRIGGER passage_removed after delete on passage begin
  delete from volume where old.key between first and last;
  delete from stale where passage = old.key;
  delete from unembedded where passage = old.key;
  delete from vector where passage = old.key;
end;
CREATE TRIGGER vector_removed after delete on vector 
when exists (select 1 from space where id = old.space and not gone)
begin
  insert into wiped values (old.row);
end;
CREATE INDEX word_long on word (term) where length(term) >= 128;
CREATE INDEX document_media_type on document (media_type) where media_type is not null;
CREATE INDEX document_character on document (character_id) where character_id is not null;
CREATE INDEX passage_author on passage (author) where author is not null and length(author) <= 200;
CREATE INDEX document_unobserved on document (key)
  where kind = 'conversation' and observed <> version and observed <> -version;
CREATE INDEX passage_branch on passage (document, position) where not canonical;
CREATE TRIGGER passage_changed
after update of body, role, author, created_at, visibility on passage
when (old.body is not new.body and old.content is not new.content)
  or old.role is not new.role or old.author is not new.author
  or old.created_at is not new.created_at or old.visibility is not new.visibility
begin
  insert or ignore into stale select new.key from volume where new.key between first and last;
  insert or replace into unembedded (passage, space) select new.key, id from space where not gone;
  delete from vector where passage = new.key;
end;
CREATE TABLE tally (
  name text not null,
  value text not null,
  count integer not null,
  primary key (name, value)
) without rowid;
CREATE INDEX document_counts on document (kind, source, project, passages);
CREATE INDEX passage_role on passage (role)
  where role <> 'user' and role <> 'assistant' and role <> 'system' and role <> 'tool'
  and length(role) <= 200;
CREATE TABLE new_vector (
  row integer primary key,
  space integer not null,
  vector blob not null
);
CREATE TRIGGER new_vector_removed after delete on vector begin
  delete from new_vector where row = old.row;
end;
CREATE INDEX document_without_heading on document (key)
  where heading is null and kind in ('note', 'media');
CREATE TRIGGER document_retitled after update of title, heading, opening on document
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
CREATE TABLE forgotten (
  high integer not null,
  low integer not null,
  primary key (high, low)
) without rowid;
CREATE TABLE undo (
  number integer primary key,
  action text not null,
  document text not null,
  title text not null,
  changed_at integer not null,
  expires_at integer not null,
  state text not null
);
CREATE INDEX undo_document on undo (document);
CREATE INDEX document_list on document (
  kind, coalesce(updated_at, created_at) desc, key desc, pinned, project, source, tags, id,
  folded_id, folded_title
);
CREATE INDEX document_pinned on document (
  kind, pinned, coalesce(updated_at, created_at) desc, key desc
) where pinned is not null;
CREATE INDEX passage_models on passage (model, document) where model is not null;
CREATE INDEX document_tagged on document (kind, tag_names) where tag_names is not null;
CREATE INDEX document_without_tag_names on document (key) where tags <> '' and tag_names is null;
CREATE TABLE list_move (
  number integer primary key,
  document integer not null,
  time integer,
  pinned integer
);
CREATE TABLE human_only (passage integer primary key);
CREATE TRIGGER human_only_removed after delete on passage begin
  delete from human_only where passage = old.key;
end;
CREATE VIRTUAL TABLE passage_text using fts5(content, title, content='', tokenize='unicode61 remove_diacritics 0');
insert into last_key values (0, NULL);
insert into derived values ('counts', 2);
insert into derived values ('older_index', 0);
insert into derived values ('text', 2);
insert into derived values ('word_removals', 1);
insert into derived values ('words', 2);
insert into passage_text (passage_text, rank) values ('automerge', 16);
insert into passage_text (passage_text, rank) values ('hashsize', 16777216);
insert into passage_text (passage_text, rank) values ('secure-delete', 1);
