"""What a person runs: compile, pack, serve and ask."""
