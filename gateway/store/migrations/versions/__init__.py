"""One file per step of the schema. A step that was released is never edited. A change is made three times: in
`tables.py`, in `sqlite.sql`, and as a step."""
