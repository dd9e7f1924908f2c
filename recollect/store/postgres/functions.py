"""The functions in the database.

`schema.py` creates them. A function is planned once for a connection, and a cluster runs it where
the rows of its first argument, the owner, are. The owner must be the one that the transaction
names.
"""

from __future__ import annotations

from string import ascii_lowercase

from recollect.store.postgres.human_only import may_be_human_only

LENGTH_BITS = 23
"""For the length of a passage in `search_words`."""
MAX_NEW_PASSAGES = 300
"""After more, all matches of a word are read again."""
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
-- swapped, or in which of its letters is doubled, as `language.words.spelling` defines it.
create function similar_words(library integer, typed text) returns setof text {_OPTIONS} as $$
  select w.term from recollect.word w
  where w.owner = library
    and library = nullif(current_setting('recollect.owner', true), '')::integer
    and w.term <> typed and w.term = any(array(
      select substr(typed, 1, place) || letter || substr(typed, place + 1 + is_replaced)
      from generate_series(0, length(typed)) place, generate_series(0, 1) is_replaced,
        unnest(string_to_array('{" ".join(ascii_lowercase)}', ' ')) letter
      where place + is_replaced <= length(typed)
      union select substr(typed, 1, place) || substr(typed, place + 2)
      from generate_series(0, length(typed) - 1) place
      union select substr(typed, 1, place) || substr(typed, place + 2, 1)
        || substr(typed, place + 1, 1) || substr(typed, place + 3)
      from generate_series(0, length(typed) - 2) place
      union select substr(shorter, 1, place) || substr(shorter, place)
      from (select substr(typed, 1, doubled) || substr(typed, doubled + 2) shorter
          from generate_series(1, length(typed) - 1) doubled
          where substr(typed, doubled, 1) = substr(typed, doubled + 1, 1)) s,
        generate_series(1, length(shorter)) place))
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

# These run with the privileges and policies of the caller. A transaction begins with one of them,
# except `append_message`.
TRANSACTION_FUNCTIONS = f"""
-- What most searches need to know about a library; see `connection.Facts`.
create function facts(library integer)
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
create function stored_kinds(library integer) returns text[]
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
-- Whether there may be human-only passages.
create function may_have_human_only(library integer) returns boolean
  language plpgsql stable as $$
  begin
    return exists (select from recollect.passage p
      where p.owner = library and {may_be_human_only("p.")});
  end
$$;
-- The words of the library that are similar to a word (`query` is 'similar'), their frequencies,
-- and what `search_words` returns for the most frequent one.
create function search_corrections(library integer, typed text, plan json,
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
create function search_start(library integer, plan json, size bigint, removals bigint)
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
create function append_state(library integer, document_id text, message_id text)
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
create function append_message(library integer, {_NEW_PARAMETERS},
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
