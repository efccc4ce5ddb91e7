"""Archives: `pack` writes them from artifacts, `read` reads their contents, `unpacked` loads a model of an unpacked one."""
