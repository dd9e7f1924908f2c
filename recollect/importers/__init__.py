"""Importers read files and produce documents. They never see a database.

Each format is a module with these names:

    SOURCE        where its documents come from, an entry of `recollect.model.sources`
    DESCRIPTION   the format, as listed in error messages
    claims(entry) whether a file has this format, judged by its name and first bytes
    read(entry)   a generator of Documents, and of Problems for records that were skipped or failed

and, optionally:

    accepts(entry) whether the file can be read as this format if the user says so (`--as notes`)

`read` streams, so memory does not grow with the file. A record that cannot be used becomes a
Problem, and reading goes on with the next one. Files in the same folder are in `entry.neighbours`.

Most programs need no module, but a table in `chats/programs.toml`: of a SQLite database with
sessions and messages (`session_databases`), or of lines or arrays of messages (`chat_logs`).

To add a format, write the table or the module, list a module in `registry.py`, add its source to
`recollect/model/sources.py` if it is new, and describe it in `docs/importing.md`.
"""
