"""Matrix as a channel of Trivet, as far as the suite of the contract asks for it.

`channel` is what Trivet loads; `homeserver` is the emulator. What Matrix has beyond them (edits, reactions, encryption)
is left out.
"""

TRIVET_PLUGIN_API = 1
