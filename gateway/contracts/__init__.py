"""The vocabulary both sides speak: plain frozen values and Protocols, standard library only."""
