#!/bin/sh
# Runs once, when the database is created: the login of the servers, without other privileges.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$RECOLLECT_DATABASE_PASSWORD" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<-'SQL'
	create role recollect_login login noinherit password :'password';
SQL
