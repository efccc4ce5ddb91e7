"""Archives: `pack` writes them, `read` reads one, `unpacked` loads a model of one that is unpacked."""
