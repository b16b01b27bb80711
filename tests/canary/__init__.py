"""Canaries: a secret of every rule flies through the running product; none may settle anywhere.

`flock` makes them, `parrot` is a model that says what it should not, `flights` are the doors they go in by,
`nests` the places where they are looked for. The test itself is tests/e2e/test_canary.py.
"""
