"""The functions that begin a transaction, append a message and start a search."""

from __future__ import annotations

from recollect.store.postgres.human_only import may_be_human_only
from recollect.store.postgres.schema.names import TOKENS

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
