"""The functions in the database.

`schema.py` creates them. A function is planned once for a connection, and a cluster runs it where
the rows of its first argument, the owner, are. The owner must be the one that the transaction
names.
"""

from __future__ import annotations

TOKENS = 64
"""Commit tokens stored for each user."""

# -- searching the text index ---

# These belong to `recollect_search`. A filter argument that is null is not applied.
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
_CANDIDATES = f"""select p.key, sum(u.weight) as weight, p.length, p.place
    from unnest(queries, weights) u(query, weight), lateral (
      select t.key, t.length, t.ctid as place from recollect.passage_text t
      where t.words @@ u.query and {_IS_MATCH} offset 0) p
    group by p.key, p.length, p.place order by 2 desc, 1 desc limit at_most"""

SEARCH_FUNCTIONS = f"""
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
-- There can be other queries, without positions, that sum the weights of those that were selected.
create function matches(library integer, queries tsquery[], weights float8[],
  order_queries tsquery[], order_weights float8[], at_most integer, sureness boolean,
  {_FILTER_PARAMETERS})
  returns table (key bigint, weight float8, length integer)
  language plpgsql {_SETTINGS} set plan_cache_mode = force_custom_plan as $$
  #variable_conflict use_column
  begin
    if cardinality(order_queries) > 0 then
      return query select c.key, w.weight, c.length
        from ({_CANDIDATES}) c, lateral (
          select strip(t.words) as words from recollect.passage_text t
          where {_IS_OWN} and t.ctid = c.place offset 0) t, lateral (
          select sum(u.weight) as weight
          from unnest(order_queries, order_weights) u(query, weight)
          where t.words @@ u.query) w;
    else
      return query select c.key, c.weight, c.length from ({_CANDIDATES}) c;
    end if;
  end
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


# -- transactions ---

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

# A plan for the values of each call has only one partition, so the server would prefer it. But
# planning takes longer than these lookups by key.
_PLANNED_ONCE = "set plan_cache_mode = force_generic_plan"

# These run with the privileges and policies of the caller. A transaction begins with one of them,
# except `append_message`.
TRANSACTION_FUNCTIONS = f"""
-- Wait until no other write of the user is in progress. Returns the commit tokens, why nobody may
-- write, and what an append of this message depends on; see `appending.AppendState`.
create function append_state(library integer, document_id text, message_id text)
  returns table (marks bigint[], closed text, document bigint, head text, created_at bigint,
    updated_at bigint, passages integer, kind text, source text, project text,
    new_key bigint, is_stored boolean)
  language plpgsql {_PLANNED_ONCE} as $$
  #variable_conflict use_column
  begin
    select k.marks, k.closed, k.passage + 1 into marks, closed, new_key
      from recollect.last_key k where k.owner = library for update;
    if not found then
      return;
    end if;
    select d.key, d.head, d.created_at, d.updated_at, d.passages, d.kind, d.source, d.project
      into document, head, created_at, updated_at, passages, kind, source, project
      from recollect.document d where d.owner = library and d.id = document_id;
    perform from recollect.passage p
      where p.owner = library and p.document = append_state.document and p.id = message_id;
    is_stored := found;
    return next;
  end
$$;
-- Add a message to a conversation, and the token of the commit. The arguments after the columns of
-- the passage are those of its text, words that may be new with their stems, changes of the tally,
-- and the new dates of the document. `last_token` is the one that
-- `append_state` returned: in the meantime, a cluster may have moved the rows to another worker,
-- where they were not locked. A function that a cluster passes on cannot insert the result of a
-- query, so new words and tallies are inserted one by one.
create function append_message(library integer, {_NEW_PARAMETERS},
  is_sure boolean, is_whole boolean, word_count integer, text_words text, folded_text text,
  terms text[], stems text[], tally_names text[], tally_values text[], tally_counts bigint[],
  document_start bigint, document_end bigint, token bigint, last_token bigint)
  returns void language plpgsql {_PLANNED_ONCE} as $$
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
    for added in select u.term, u.stem from unnest(terms, stems) u(term, stem)
      where not exists (select from recollect.word w where w.owner = library and w.term = u.term)
    loop
      insert into recollect.word (owner, term, stem) values (library, added.term, added.stem);
    end loop;
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
    update recollect.document d set head = new_id, passages = d.passages + 1,
        created_at = document_start, updated_at = document_end, version = d.version + 1
      where d.owner = library and d.key = new_document;
  end
$$;
"""
