"""The functions that search the text index."""

from __future__ import annotations

from string import ascii_lowercase

from recollect.store.postgres.schema.names import LENGTH_BITS, MAX_NEW_PASSAGES

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
