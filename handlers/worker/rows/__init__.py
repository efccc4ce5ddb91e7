"""Rows: instances tokenized and cut or windowed, calls planned by time, graphs run and timed."""
