"""One module for each format: `pieces(content)` yields what comes out of it, bit by bit, in UTF-8 or as an image.

They are loaded in a process that holds itself (`agent.attachments.reader`) and nowhere else: the libraries that they
import were not made for hostile files.
"""
