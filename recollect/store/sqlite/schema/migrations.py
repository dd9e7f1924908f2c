"""The schema as numbered migrations. New migrations are appended; existing ones never change.

Each migration and its version number are committed in one transaction. If the process is killed,
opening the library again continues with the next migration. A new library is created from
`schema.sql`, which `tools/sqlite_schema.py` makes from the migrations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from recollect.errors import DamagedLibrary, NewerLibrary
from recollect.store.sqlite.schema.migration_backup import back_up_before_migration

APPLICATION_ID = 0x5265636F  # "Reco"

M001_DOCUMENTS = """
create table document (
  key integer primary key,
  id text not null unique,
  origin text not null,
  origin_id text not null,
  source text not null,
  title text not null,
  namespace text not null,
  created_at integer,
  updated_at integer,
  head text,
  opening integer,
  passages integer not null default 0,
  metadata text,
  original text,
  partial integer not null,
  shared_ids integer not null,
  unique (origin, origin_id)
);
create index document_changed on document (coalesce(updated_at, created_at) desc, key desc);

-- Keys are never reused, because index rows and receipts refer to them. `last_key` is the last
-- one: AUTOINCREMENT would write its counter with every row. The content is the last column, so
-- that filters can read a row without its text.
create table last_key (passage integer not null);
insert into last_key values (0);
create table passage (
  key integer primary key,
  document integer not null references document on delete cascade,
  position integer not null,
  canonical integer not null,
  created_at integer,
  role text,
  kind text not null,
  visibility text not null,
  author text,
  receipt integer,
  shared integer not null,
  id text not null,
  parent text,
  model text,
  tool text,
  updated_at integer,
  digest blob not null,
  attachments text,
  citations text,
  metadata text,
  original text,
  content text not null,
  unique (document, id)
);
create index passage_order on passage (document, position);
create index passage_shared on passage (id) where shared;
create index passage_time on passage (created_at);

-- Derived data. The title is indexed with the opening passage of its document.
create virtual table passage_text using fts5(
  title, content, content='', tokenize='unicode61 remove_diacritics 0'
);
insert into passage_text (passage_text, rank)
  values ('secure-delete', 1), ('hashsize', 16777216), ('automerge', 16);
create virtual table passage_word using fts5vocab(passage_text, row);
create table word (term text primary key) without rowid;
create table derived (name text primary key, version integer not null) without rowid;
insert into derived values ('text', 1), ('words', 1);

create table receipt (
  id integer primary key autoincrement,
  path text not null,
  started_at integer not null,
  finished_at integer,
  undone_at integer,
  files text,
  left_out text
);
-- The passages of a document that an import contained, as [first, last] ranges of keys, and the
-- state of the document before the import changed it.
create table receipt_document (
  receipt integer not null references receipt on delete cascade,
  document integer not null references document on delete cascade,
  runs text not null,
  before text,
  primary key (receipt, document)
) without rowid;
create index receipt_document_document on receipt_document (document);
create table receipt_revision (
  receipt integer not null references receipt on delete cascade,
  passage integer not null references passage on delete cascade,
  before text not null,
  primary key (receipt, passage)
) without rowid;
create index receipt_revision_passage on receipt_revision (passage);
"""

M002_SEARCH = """
-- The stem is null if it is the word itself.
drop table word;
create table word (term text primary key, stem text) without rowid;
create index word_stem on word (stem) where stem is not null;
update derived set version = 0 where name = 'words';

-- A volume is an index of a range of passages, in its own files. A volume that is not `ready` is
-- being written. A passage that changes is stale in its volume. Deleting one drops the volume.
create table volume (
  name text primary key,
  first integer not null,
  last integer not null,
  ready integer not null
) without rowid;
create table stale (passage integer primary key);

-- A space has the vectors of one model. `done` is the key of the last passage that was embedded.
-- Passages that changed since then are in `unembedded`; every change has a new mark. A space that
-- is `gone` is being deleted.
create table space (
  id integer primary key autoincrement,
  name text not null,
  version text not null,
  dimensions integer not null,
  state blob,
  done integer not null default 0,
  ready integer not null default 0,
  gone integer not null default 0,
  unique (name, version)
);
create table vector (
  row integer primary key autoincrement,
  space integer not null,
  passage integer not null,
  vector blob not null
);
create index vector_passage on vector (passage, space);
create table unembedded (
  mark integer primary key autoincrement,
  passage integer not null,
  space integer not null,
  unique (passage, space)
);
-- Deleted vectors that the vector files still contain.
create table wiped (row integer primary key);

create trigger passage_changed
after update of content, role, author, created_at, visibility on passage
when old.content is not new.content or old.role is not new.role or old.author is not new.author
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
end;
create trigger document_retitled after update of title, opening on document
when old.title is not new.title or old.opening is not new.opening
begin
  insert or ignore into stale
    select o.key from (select old.opening as key union select new.opening) o
    join volume v on o.key between v.first and v.last;
  insert or replace into unembedded (passage, space)
    select o.key, s.id from (select old.opening as key union select new.opening) o
    cross join space s
    where o.key is not null and not s.gone;
  delete from vector where passage in (old.opening, new.opening);
end;
create trigger vector_removed after delete on vector 
when exists (select 1 from space where id = old.space and not gone)
begin
  insert into wiped values (old.row);
end;
"""

M003_LONG_WORDS = """
-- The vocabulary has only the beginnings of long words. Each of them may contain any substring.
create index word_long on word (term) where length(term) >= 128;
"""

M004_KNOWLEDGE = """
-- The version increases with every change. Metadata that filters use has columns of its own.
alter table document add column version integer not null default 1;
alter table document add column media_type text;
alter table document add column character_id text;
update document set character_id = cast(json_extract(metadata, '$.character_id') as text)
  where metadata like '%"character_id"%'
  and json_type(metadata, '$.character_id') in ('text', 'integer');
create index document_source on document (source, coalesce(updated_at, created_at) desc, key desc);
create index document_media_type on document (media_type) where media_type is not null;
create index document_character on document (character_id) where character_id is not null;
-- For listing the distinct roles and authors.
create index passage_role on passage (role)
  where role not in ('user', 'assistant', 'system', 'tool') and length(role) <= 200;
create index passage_author on passage (author) where author is not null and length(author) <= 200;
"""

M005_OBSERVATIONS = """
-- The version of a conversation that was observed; negative if the observations are incomplete.
alter table document add column observed integer not null default 0;
create index document_unobserved on document (key)
  where source = 'conversation' and observed <> version and observed <> -version;
"""

M006_EMBEDDING_QUEUE = """
-- When the first passage of a document was removed, this trigger queued that passage for embedding
-- although it no longer existed. Such rows hid everything that was saved later from the background
-- indexer.
drop trigger document_retitled;
create trigger document_retitled after update of title, opening on document
when old.title is not new.title or old.opening is not new.opening
begin
  insert or ignore into stale
    select o.key from (select old.opening as key union select new.opening) o
    join volume v on o.key between v.first and v.last;
  insert or replace into unembedded (passage, space)
    select p.key, s.id from passage p cross join space s
    where p.key in (old.opening, new.opening) and not s.gone;
  delete from vector where passage in (old.opening, new.opening);
end;
delete from unembedded where not exists (select 1 from passage p where p.key = unembedded.passage);
"""

M007_VOCABULARY = """
-- One word per concept: a source is where a document came from, a kind is what it is.
alter table document rename column source to kind;
alter table document rename column origin to source;
alter table document rename column origin_id to source_id;
alter table document rename column namespace to project;
alter table passage rename column kind to type;
drop index document_source;
create index document_kind on document (kind, coalesce(updated_at, created_at) desc, key desc);
"""

M009_NOISE_FLOOR = """
alter table space add column noise_floor real;
alter table space add column calibrated_size integer not null default 0;
"""

M010_BRANCHES = """
-- Few messages are on other branches. A conversation without any is read page by page.
create index passage_branch on passage (document, position) where not canonical;
"""

M011_COMPRESSION = """
-- `body` and `details` contain the content and the metadata, or `body` contains both, compressed.
alter table passage rename column content to body;
alter table passage rename column metadata to details;
alter table passage add column content text generated always as (content_of(body)) virtual;
alter table passage add column metadata text
  generated always as (metadata_of(body, details)) virtual;
drop trigger passage_changed;
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
-- Passages up to this key are not compressed yet.
insert into derived select 'uncompressed', passage from last_key where passage > 0;
"""

M012_VECTORS_ONCE = """
-- The blobs of vectors up to this row are empty: these vectors are only in the files.
alter table space add column copied integer not null default 0;
"""

M013_COUNTS = """
-- Numbers of passages by role, model, tool and so on; see `store/sql/statistics.py`.
create table tally (
  name text not null,
  value text not null,
  count integer not null,
  primary key (name, value)
) without rowid;
create index document_counts on document (kind, source, project, passages);
"""

M014_ROLE_INDEX = """
-- For `not in`, SQLite builds a set of the names for every row that is inserted.
drop index passage_role;
create index passage_role on passage (role)
  where role <> 'user' and role <> 'assistant' and role <> 'system' and role <> 'tool'
  and length(role) <= 200;
"""

M015_NEW_VECTORS = """
-- Vectors that the files do not contain yet. Deleting their rows frees whole pages, while clearing
-- blobs of `vector` would leave holes. Blobs there are empty, or were written by older versions.
create table new_vector (
  row integer primary key,
  space integer not null,
  vector blob not null
);
create trigger new_vector_removed after delete on vector begin
  delete from new_vector where row = old.row;
end;
"""

M016_PARENTS = """
-- A parent whose id is a UUID is stored as 16 bytes. Compressed metadata refers to it.
alter table passage rename column parent to parent_id;
alter table passage add column parent text generated always as (
  case typeof(parent_id)
    when 'blob' then lower(
      substr(hex(parent_id), 1, 8) || '-' || substr(hex(parent_id), 9, 4) || '-' ||
      substr(hex(parent_id), 13, 4) || '-' || substr(hex(parent_id), 17, 4) || '-' ||
      substr(hex(parent_id), 21)
    )
    else parent_id
  end
) virtual;
alter table passage drop column metadata;
alter table passage add column metadata text
  generated always as (metadata_of(body, details, parent_id)) virtual;
-- Older versions did not compress messages without metadata.
insert or replace into derived select 'uncompressed', passage from last_key where passage > 0;
"""

M017_KEYWORDS = """
-- The title of a note or media item with its keywords, as it is in the text index. The background
-- indexer fills it in for older items.
alter table document add column heading text;
create index document_without_heading on document (key)
  where heading is null and kind in ('note', 'media');
drop trigger document_retitled;
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
"""

M018_FORGOTTEN = """
-- Hashes of what was forgotten; see `store/sql/writing/tombstones.py`.
create table forgotten (
  high integer not null,
  low integer not null,
  primary key (high, low)
) without rowid;
"""

M020_PINNED = """
-- 1 if the document is pinned, otherwise null.
alter table document add column pinned integer;
create index document_pinned on document (pinned) where pinned is not null;
"""

M021_UNDO = """
-- What is needed to undo recent changes; see `store/sql/imports/undo.py`.
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
"""

M022_MODELS = """
-- For the models of a conversation, and the conversations of a model.
create index passage_models on passage (document, model) where model is not null;
"""

M023_LISTS = """
-- Columns for lists; see `store/sql/tags.py`. `folded_id` is null if it is the id.
alter table document add column folded_title text not null default '';
alter table document add column folded_id text;
alter table document add column tags text not null default '';
alter table document add column tag_names text;
update document set
  folded_title = folded(cast(title as blob)),
  folded_id = nullif(folded(cast(id as blob)), id),
  tags = folded_tags(metadata),
  tag_names = tag_names(metadata);
-- Everything that a list filters or counts by, in the order of the list, so that only the documents
-- of one page are read.
drop index document_kind;
create index document_list on document (
  kind, coalesce(updated_at, created_at) desc, key desc, pinned, project, source, tags, id,
  folded_id, folded_title
);
drop index document_pinned;
create index document_pinned on document (
  kind, pinned, coalesce(updated_at, created_at) desc, key desc
) where pinned is not null;
-- In this order, all documents of each model are read at once.
drop index passage_models;
create index passage_models on passage (model, document) where model is not null;
create index document_tagged on document (kind, tag_names) where tag_names is not null;
create index document_without_tag_names on document (key) where tags <> '' and tag_names is null;
"""

M024_MOVES = """
-- The places of documents in lists before the last changes; see `store/sql/writing/moves.py`.
create table list_move (
  number integer primary key,
  document integer not null,
  time integer,
  pinned integer
);
"""

M027_CLOSED = """
-- Why nobody may write to this library, as JSON; null if that is allowed. See
-- `store/sql/copying/handover.py`.
alter table last_key add column closed text;
"""

# A job has one receipt, however often it is attempted. Writes wait for each other, so no index must
# enforce that.
M030_IMPORT_JOBS = """
alter table receipt add column job text;
"""

M031_HUMAN_ONLY = """
-- The passages that only people may see, so that searches for agents read no metadata.
create table human_only (passage integer primary key);
insert into human_only
  select key from passage where is_human_only(visibility, metadata, original);
create trigger human_only_removed after delete on passage begin
  delete from human_only where passage = old.key;
end;
"""

M032_PACKED_IDS = """
-- An id that is a UUID is stored as 16 bytes, like that of a parent.
alter table passage rename column id to packed_id;
alter table passage add column id text generated always as (
  case typeof(packed_id)
    when 'blob' then lower(
      substr(hex(packed_id), 1, 8) || '-' || substr(hex(packed_id), 9, 4) || '-' ||
      substr(hex(packed_id), 13, 4) || '-' || substr(hex(packed_id), 17, 4) || '-' ||
      substr(hex(packed_id), 21)
    )
    else packed_id
  end
) virtual;
-- Ids up to this key are not packed yet.
insert or replace into derived select 'uncompressed', passage from last_key where passage > 0;
"""

MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("m001_documents", M001_DOCUMENTS),
    ("m002_search", M002_SEARCH),
    ("m003_long_words", M003_LONG_WORDS),
    ("m004_knowledge", M004_KNOWLEDGE),
    ("m005_observations", M005_OBSERVATIONS),
    ("m006_embedding_queue", M006_EMBEDDING_QUEUE),
    ("m007_vocabulary", M007_VOCABULARY),
    ("m009_noise_floor", M009_NOISE_FLOOR),
    ("m010_branches", M010_BRANCHES),
    ("m011_compression", M011_COMPRESSION),
    ("m012_vectors_once", M012_VECTORS_ONCE),
    ("m013_counts", M013_COUNTS),
    ("m014_role_index", M014_ROLE_INDEX),
    ("m015_new_vectors", M015_NEW_VECTORS),
    ("m016_parents", M016_PARENTS),
    ("m017_keywords", M017_KEYWORDS),
    ("m018_forgotten", M018_FORGOTTEN),
    ("m020_pinned", M020_PINNED),
    ("m021_undo", M021_UNDO),
    ("m022_models", M022_MODELS),
    ("m023_lists", M023_LISTS),
    ("m024_moves", M024_MOVES),
    ("m027_closed", M027_CLOSED),
    ("m030_import_jobs", M030_IMPORT_JOBS),
    ("m031_human_only", M031_HUMAN_ONLY),
    ("m032_packed_ids", M032_PACKED_IDS),
)
VERSION = len(MIGRATIONS)


SCHEMA = Path(__file__).with_name("schema.sql")
"""What the migrations make of an empty file. Its first line names the last of them."""


def migrate(db: apsw.Connection, path: Path, stop_before: str | None = None) -> list[str]:
    """Migrate the file to this version and return the names of the migrations it had not yet.

    Before the first of them, the library is copied (see migration_backup.py).
    """
    names: list[str] = []
    if stop_before is None and not _version(db, path):
        names = _create(db, path)
    return names + run_migrations(db, path, stop_before)


def run_migrations(db: apsw.Connection, path: Path, stop_before: str | None = None) -> list[str]:
    """The same one by one, also for an empty file."""
    names: list[str] = []
    version = _version(db, path)
    for number, (name, script) in enumerate(MIGRATIONS, 1):
        if name == stop_before:
            break
        if version >= number:
            continue
        with _transaction(db):
            # Another process may have run it meanwhile.
            if _version(db, path) < number:
                if not names:
                    back_up_before_migration(db, VERSION)
                _run(db, script, number)
                names.append(name)
    return names


def _create(db: apsw.Connection, path: Path) -> list[str]:
    """Create the tables of an empty file in one step, which is ten times as fast."""
    script = SCHEMA.read_text(encoding="utf-8")
    last_name = script.split("\n", 1)[0].removeprefix("-- ")
    names = [name for name, _ in MIGRATIONS]
    if last_name not in names:
        return []
    names = names[: names.index(last_name) + 1]
    with _transaction(db):
        if _version(db, path):  # another process has created it
            return []
        _run(db, script, len(names))
    return names


def _run(db: apsw.Connection, script: str, version: int) -> None:
    db.execute(script)
    db.execute(f"pragma user_version = {version}")
    db.execute(f"pragma application_id = {APPLICATION_ID}")


@contextmanager
def _transaction(db: apsw.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:  # also Ctrl-C: a migration is complete or did not happen
        db.execute("rollback")
        raise


def is_current(db: apsw.Connection, path: Path) -> bool:
    """Whether the file has this version. Raises NewerLibrary or DamagedLibrary."""
    return _version(db, path) == VERSION


def _version(db: apsw.Connection, path: Path) -> int:
    # In this order: another process may create the library meanwhile, with its tables and its
    # application id in one transaction.
    has_tables = bool(db.execute("select count(*) from sqlite_schema").get)
    application: int = db.pragma("application_id")
    version: int = db.pragma("user_version")
    if has_tables and application != APPLICATION_ID:
        raise DamagedLibrary(f"{path} is a database of another program, not a Recollect library.")
    if version > VERSION:
        raise NewerLibrary(
            f"{path} was written by a newer Recollect (schema {version}; this one knows "
            f"{VERSION}). Nothing was changed. Upgrade Recollect to open it."
        )
    return version
