"""The catalogues of `gateway.i18n`: how they are made of the sources (`make words`), and that they are complete."""
