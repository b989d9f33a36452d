#!/usr/bin/env bash
# SQLite from 3.45.0 on (seen up to 3.53.4): json_group_object() cuts a name at its first NUL character, so that
# two rows become two members of one name, of which a JSON reader keeps the last. json_object() keeps the whole
# name in the same release, as json_group_object() did up to 3.43.1, and as both do with values.
#
# Seen, for the rows ("a\0b", "1") and ("a\0c", "2"):
#   3.43.1  {"a\u0000b":"1","a\u0000c":"2"}  {"a\u0000b":"1"}
#   3.45.0  {"a":"1","a":"2"}                {"a\u0000b":"1"}
#   3.51.1  {"a":"1","a":"2"}                {"a\u0000b":"1"}
#
# It needs a Python 3.11 and the package index, and ends with 1 where SQLite answers otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/ask.py" <<'PY'
import pysqlite3

database = pysqlite3.connect(":memory:")
database.execute("CREATE TABLE t (name TEXT, value TEXT)")
database.executemany("INSERT INTO t VALUES (?, ?)", [("a\0b", "1"), ("a\0c", "2")])
(group,) = database.execute("SELECT json_group_object(name, value) FROM t").fetchone()
(single,) = database.execute("SELECT json_object(name, value) FROM t LIMIT 1").fetchone()
print(pysqlite3.sqlite_version, group, single, sep="\t")
PY

whole='{"a\u0000b":"1","a\u0000c":"2"}'
cut='{"a":"1","a":"2"}'
single='{"a\u0000b":"1"}'
failed=0
# Release of pysqlite3-binary, the SQLite that it bundles, what json_group_object() gives.
while read -r release sqlite group; do
  python3.11 -m venv "$folder/$release"
  "$folder/$release/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "pysqlite3-binary==$release"
  seen=$("$folder/$release/bin/python" "$folder/ask.py")
  echo "$seen"
  [[ $seen == "$sqlite"$'\t'"$group"$'\t'"$single" ]] || failed=1
done <<EOF
0.5.2 3.43.1 $whole
0.5.2.post3 3.45.0 $cut
0.5.4.post2 3.51.1 $cut
EOF
exit "$failed"
