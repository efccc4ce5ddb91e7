"""`make bench-quick`: whether this tree is slower than another revision of it, in a few minutes.

tree.py        a revision's code, and its commands
figures.py     what is measured of a tree
plans.py       calls for 2,000 batches, planned in a process of a tree
__main__.py    rounds in which both trees take turns, and the verdict
"""
