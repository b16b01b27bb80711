"""`trivet init`: from a few answers to a configuration that works.

`questions` lists the questions and writes the file's text, `interview` asks them and has each answer tried where it
is used."""
