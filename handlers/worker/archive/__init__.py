"""What an archive holds: artifacts, and how their models read rows.

Enters: the folder of an archive. Leaves: what its files say, as checked values. Not known here: engines, tasks and how
anything was compiled.
"""
