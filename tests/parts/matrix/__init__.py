"""A fourth platform, as a contributor would add it: Matrix, as far as the contract suite asks for it.

The steps are those of CONTRIBUTING.md; here they stand side by side, with the emulator (`homeserver`) and the row
of the suite (`town`). What Matrix has beyond them (edits, reactions, encryption) is left out.
"""
