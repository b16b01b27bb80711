"""`trivet init`: from a few answers to a configuration that works.

`questions` is what is asked, `interview` asks and has each answer tried, `checks` tries them, `writing` makes the file.
"""
