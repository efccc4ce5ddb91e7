"""Starting, stopping and managing a server, whatever its host is."""
