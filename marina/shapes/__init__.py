"""Chooses the shapes to compile from the lengths of texts and the times of graphs.

Enters: lengths of texts, and times of graphs. Leaves: shapes. Not known here: servers.

advice.py    advice for one model: measures times, chooses shapes, and reports their effect
auto.py      the shapes of specs that say `shapes: auto`, chosen once and kept
lengths.py   the lengths of texts: from a file of texts, a file of lengths, or a histogram
live.py      the lengths of the rows that a running server has computed
costs.py     the time of one call of any shape, fitted to measured times
choice.py    the best shapes for given lengths and times, by dynamic programming
packed.py    sets of packed shapes
best.py      the best of both, without or with packed shapes
ladder.py    shapes for unknown lengths, with a bound on padding waste
report.py    the effect of shapes on texts: padding waste and time
picture.py   the same as a picture
write.py     writes shapes into specs
"""
