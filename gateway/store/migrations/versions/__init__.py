"""One file per step of the schema. A step that was released is never edited."""
