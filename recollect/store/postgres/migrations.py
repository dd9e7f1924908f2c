"""The schema on PostgreSQL: the steps of SQLite's by the same names, without those that only change triggers,
which PostgreSQL does not use. Steps are appended, never edited.

The owner is the first column of every key and every index, and what the tables
are partitioned by: one user's rows lie together, a search touches one
partition, and the same schema can be spread over machines by user.

Three roles, none of which may log in or bypass row-level security. Tables
belong to whoever migrated; every policy holds for that role too (`force`).
`recollect_app` is what connections work as: it sees the rows of the owner that
the transaction names. `recollect_search` owns the functions that ask the text
index: a policy lets it read that one table, and every function in turn names
the owner; for the planner uses an index with `@@` only where no policy stands
before it, since `@@` is not leakproof.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors, sql

from recollect.errors import NewerLibrary, RecollectError
from recollect.store.postgres import bm25

SCHEMA = "recollect"
APP = "recollect_app"
SEARCH = "recollect_search"
PARTITIONS = 16

M001_DOCUMENTS = """
create table account (
  id integer generated always as identity unique,
  name text not null,
  primary key (name)
);
create table last_key (
  owner integer primary key,
  passage bigint not null default 0,
  marks bigint[] not null default '{}'  -- of the last writes, the newest first
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
create index document_changed on document (owner, coalesce(updated_at, created_at) desc nulls last, key desc);

-- A reference to the document would be checked row by row and double the time of an import. Passages are written
-- and removed together with their document, and `verify` looks for any that are not.
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
-- Derived: what is asked of the words of a passage, with what filters ask of it. `sure` is false where
-- the words' places did not all fit in (long texts): phrases are then looked for in the text itself.
-- `folded` is there where the text is not plain ASCII.
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
-- How often something was taken out: what was counted before that is counted again.
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
-- There are no triggers, for tables that are spread over machines may have none: what changes passages says so.
-- A vector is eight-bit numbers and the scale that makes them a unit vector. What filters ask of its
-- passage stands beside it; when that changes, the vector goes.
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
create index document_source on document (owner, source, coalesce(updated_at, created_at) desc nulls last, key desc);
create index document_media_type on document (owner, media_type) where media_type is not null;
create index document_character on document (owner, character_id) where character_id is not null;
create index passage_role on passage (owner, role)
  where role not in ('user', 'assistant', 'system', 'tool') and length(role) <= 200;
create index passage_author on passage (owner, author) where author is not null and length(author) <= 200;
-- What is known of these columns is known of all users together, and a plan must not tell what others have.
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

MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("m001_documents", M001_DOCUMENTS),
    ("m002_search", M002_SEARCH),
    ("m003_long_words", M003_LONG_WORDS),
    ("m004_knowledge", M004_KNOWLEDGE),
    ("m005_observations", M005_OBSERVATIONS),
    ("m007_vocabulary", M007_VOCABULARY),
)

# What `recollect_search` owns. Each function names the owner; a filter that is null asks for nothing.
_FILTERS = """roles text[], authors text[], senders text[], not_roles text[], not_authors text[], since bigint,
  until bigint, documents bigint[], not_documents bigint[], with_hidden boolean"""
_MATCHING = """t.owner = nullif(current_setting('recollect.owner', true), '')::integer
    and (roles is null or t.role = any(roles)) and (authors is null or t.author = any(authors))
    and (senders is null or t.role = any(senders) or t.author = any(senders))
    and (not_roles is null or coalesce(t.role, '') <> all(not_roles))
    and (not_authors is null or coalesce(t.author, '') <> all(not_authors))
    and (since is null or t.created_at >= since) and (until is null or t.created_at <= until)
    and (documents is null or t.document in (select unnest(documents)))
    and (not_documents is null or t.document not in (select unnest(not_documents))) and (with_hidden or not t.hidden)
    and (sureness is null or t.sure = sureness)"""
_AS_SEARCH = """language sql stable security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_indexscan = off"""

FUNCTIONS = f"""
-- How many passages match each query, and how many of them are not hidden; counted no further than `at_most`.
create function frequencies(queries tsquery[], at_most integer) returns table (passages bigint, visible bigint)
  {_AS_SEARCH} as $$
  select c.passages, c.visible from unnest(queries) with ordinality u(query, place), lateral (
    select count(*) as passages, count(*) filter (where not x.hidden) as visible from (
      select t.hidden from recollect.passage_text t
      where t.owner = nullif(current_setting('recollect.owner', true), '')::integer and t.words @@ u.query
      limit at_most) x) c
  order by u.place
$$;
create function counted(query tsquery, sureness boolean, at_most integer, {_FILTERS}) returns bigint {_AS_SEARCH} as $$
  select count(*) from (select 1 from recollect.passage_text t where t.words @@ query and {_MATCHING} limit at_most) x
$$;
-- The passages with the heaviest words, how heavy these are, and how many words each passage has.
create function candidates(queries tsquery[], weights float8[], sureness boolean, at_most integer, {_FILTERS})
  returns table (key bigint, weight float8, length integer) {_AS_SEARCH} as $$
  select p.key, sum(u.weight), p.length from unnest(queries, weights) u(query, weight), lateral (
    select t.key, t.length from recollect.passage_text t where t.words @@ u.query and {_MATCHING} offset 0) p
  group by p.key, p.length order by 2 desc, 1 desc limit at_most
$$;
create function newest(query tsquery, sureness boolean, at_most integer, {_FILTERS}) returns setof bigint {_AS_SEARCH}
as $$
  select t.key from recollect.passage_text t where t.words @@ query and {_MATCHING}
  order by t.created_at desc nulls last, t.key desc limit at_most
$$;
-- Which of these words no passage has.
create function absent(terms text[]) returns setof text {_AS_SEARCH} as $$
  select w.term from unnest(terms) w(term) where not exists (select 1 from recollect.passage_text t
    where t.owner = nullif(current_setting('recollect.owner', true), '')::integer
      and t.words @@ quote_literal(w.term)::tsquery limit 1)
$$;
"""


# -- bringing a database up to date ----------------------------------------------


def migrate(
    connection: psycopg.Connection[Any], place: str, stop_before: str | None = None
) -> list[str]:
    """Bring the database to this version and return the names of the steps that ran."""
    if not _pending_steps(connection, place, stop_before):
        return []
    try:
        with connection.transaction():
            connection.execute(
                "select pg_advisory_xact_lock(%s, 0)", [_LOCK]
            )  # another process may be first
            steps = _pending_steps(connection, place, stop_before)
            if "m001_documents" in steps:
                _begin(connection)
            for name in steps:
                _run(connection, name)
            if not _ASKING.isdisjoint(steps):
                _renew_functions(connection)
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"{place} has to be prepared or brought up to date ({error.diag.message_primary}). Open it once with a "
            "role that may create a schema and roles, as docs/postgres.md shows; then with this one again."
        ) from error
    return steps


_LOCK = 0x5265636F
_ASKING = frozenset(
    {"m002_search", "m004_knowledge"}
)  # the steps from which the functions are others


def _pending_steps(
    connection: psycopg.Connection[Any], place: str, stop_before: str | None
) -> list[str]:
    done = _done(connection, place) if is_prepared(connection) else set()
    names = [name for name, _ in MIGRATIONS]
    if newer := sorted(done.difference(names)):
        raise NewerLibrary(
            f"{place} was written by a newer Recollect (it has {newer[-1]}). Nothing was changed. "
            "Upgrade Recollect to open it."
        )
    ahead = names[: names.index(stop_before)] if stop_before else names
    return [name for name in ahead if name not in done]


def _done(connection: psycopg.Connection[Any], place: str) -> set[str]:
    try:
        with connection.transaction(
            force_rollback=True
        ):  # or a migration would go on as the application
            if works_as_app(connection):
                connection.execute(sql.SQL("set local role {}").format(sql.Identifier(APP)))
            return {
                name
                for (name,) in connection.execute("select name from recollect.migration").fetchall()
            }
    except errors.InsufficientPrivilege as error:
        raise RecollectError(
            f"The role {connection.info.user} may not use the libraries in {place} ({error.diag.message_primary}). "
            f"Grant it {APP}, as docs/postgres.md shows."
        ) from error


def is_prepared(connection: psycopg.Connection[Any]) -> bool:
    """Whether there are libraries in this database."""
    row = connection.execute(
        "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = %s and c.relname = 'migration')",
        [SCHEMA],
    ).fetchone()
    return bool(row and row[0])


def works_as_app(connection: psycopg.Connection[Any]) -> bool:
    """Whether this login may work as the application's role."""
    return _may_become(connection, APP)


def _may_become(connection: psycopg.Connection[Any], role: str) -> bool:
    """Roles belong to all databases of a server, so that one may be there and be somebody else's."""
    how = "set" if connection.info.server_version >= 160000 else "member"
    row = connection.execute(
        "select exists (select from pg_roles where rolname = %s and pg_has_role(current_user, oid, %s))",
        [role, how],
    ).fetchone()
    return bool(row and row[0])


def _begin(connection: psycopg.Connection[Any]) -> None:
    """Roles, the schema, and the extensions that the server has."""
    for role in (APP, SEARCH):
        _try(connection, f"create role {role} nologin nobypassrls")
        _try(connection, f"grant {role} to current_user")
    connection.execute(
        f"create schema if not exists {SCHEMA}; alter schema {SCHEMA} owner to current_user"
    )
    for extension in ("btree_gin", "vector"):
        _try(connection, f"create extension if not exists {extension}")
    connection.execute(
        f"create table {SCHEMA}.migration (name text primary key, at timestamptz default now())"
    )


def _try(connection: psycopg.Connection[Any], statement: str) -> bool:
    """Whether it could be done; a server that cannot is used as it is."""
    try:
        with connection.transaction():
            connection.execute(statement)
    except (
        errors.InsufficientPrivilege,
        errors.FeatureNotSupported,
        errors.UndefinedFile,
        errors.UndefinedObject,
        errors.DuplicateObject,
        errors.UniqueViolation,
        errors.InvalidGrantOperation,
    ):
        return False
    return True


def has_extension(connection: psycopg.Connection[Any], name: str) -> str:
    """The schema of an extension; nothing where it is not installed."""
    row = connection.execute(
        "select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = %s",
        [name],
    ).fetchone()
    return row[0] if row else ""


def _run(connection: psycopg.Connection[Any], name: str) -> None:
    script = dict(MIGRATIONS)[name]
    pgvector = has_extension(connection, "vector")
    extensions = {has_extension(connection, "btree_gin"), pgvector} - {""}
    connection.execute(
        sql.SQL("set local search_path = {}").format(_identifiers([SCHEMA, *sorted(extensions)]))
    )
    connection.execute(script.replace("{vector}", "halfvec" if pgvector else "bytea"))
    if name == "m002_search":
        columns = "owner, words" if has_extension(connection, "btree_gin") else "words"
        connection.execute(
            f"create index passage_text_words on passage_text using gin ({columns}) "
            "with (gin_pending_list_limit = 1024)"
        )
        if pgvector:
            connection.execute("alter table vector alter numbers set storage plain")
    _secure(connection)
    connection.execute("insert into migration (name) values (%s)", [name])


def add_bm25(connection: psycopg.Connection[Any]) -> None:
    """Where the server has pg_textsearch, keep words for it too; not a step of the schema, for a
    server may get the extension at any time."""
    if not has_extension(connection, "pg_textsearch"):
        return
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s, 0)", [_LOCK])
        there = connection.execute("select to_regclass(%s)", [f"{SCHEMA}.{bm25.TABLE}"]).fetchone()
        mine = connection.execute("select has_schema_privilege(%s, 'create')", [SCHEMA]).fetchone()
        if (there and there[0]) or not (mine and mine[0]):
            return
        schemas = [SCHEMA, has_extension(connection, "pg_textsearch")]
        connection.execute(sql.SQL("set local search_path = {}").format(_identifiers(schemas)))
        bm25.create(connection)
        _secure(connection)


def _identifiers(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _secure(connection: psycopg.Connection[Any]) -> None:
    """Give every new table its partitions and policies. Partitions have no policy: nobody reads
    them but through their table."""
    fresh = connection.execute(
        "select c.relname, c.relkind = 'p' from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = %s and c.relkind in ('r', 'p') and not c.relispartition and not c.relrowsecurity "
        "and c.relname <> 'migration'",
        [SCHEMA],
    ).fetchall()
    app = APP if works_as_app(connection) else "current_user"
    connection.execute(
        f"grant usage on schema {SCHEMA} to {app}; grant select on migration to {app}"
    )
    for table, partitioned in fresh:
        tables = [table]
        if partitioned:
            for n in range(PARTITIONS):
                tables.append(f"{table}_{n}")
                part = f"for values with (modulus {PARTITIONS}, remainder {n})"
                connection.execute(f"create table {table}_{n} partition of {table} {part}")
        whose = (
            "owner = nullif(current_setting('recollect.owner', true), '')::integer"
            if partitioned
            else "name = nullif(current_setting('recollect.user', true), '')"
        )
        connection.execute(f"create policy own on {table} using ({whose}) with check ({whose})")
        # An account is for ever: nobody may take the number of another.
        allowed = "select, insert, update, delete" if partitioned else "select, insert (name)"
        connection.execute(f"grant {allowed} on {table} to {app}")
        for one in tables:
            connection.execute(
                f"alter table {one} enable row level security; alter table {one} force row level security"
            )
    connection.execute(f"grant usage on all sequences in schema {SCHEMA} to {app}")


def _renew_functions(connection: psycopg.Connection[Any]) -> None:
    for name in _functions(connection):
        connection.execute(f"drop function {name}")
    connection.execute(FUNCTIONS)
    _try(connection, f"grant {SEARCH} to current_user")
    separate = _may_become(connection, SEARCH)
    app = APP if works_as_app(connection) else "current_user"
    if separate:
        connection.execute(
            f"grant usage, create on schema {SCHEMA} to {SEARCH}; grant select on passage_text to {SEARCH}; "
            "drop policy if exists search on passage_text; "
            f"create policy search on passage_text for select to {SEARCH} using (true)"
        )
    connection.execute(f"revoke all on all functions in schema {SCHEMA} from public")
    for name in _functions(connection):
        connection.execute(f"grant execute on function {name} to {app}")
        if separate:
            connection.execute(f"alter function {name} owner to {SEARCH}")
    if separate:
        connection.execute(f"revoke create on schema {SCHEMA} from {SEARCH}")
        _try(connection, f"revoke {SEARCH} from current_user")


def _functions(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        "select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = %s and p.prosecdef",
        [SCHEMA],
    ).fetchall()
    return [name for (name,) in rows]
